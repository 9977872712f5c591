//! Log page 23h: FDP events of the host and of the controller.
//!
//! ```text
//!   0   4  number of events (at most 63), then 60 reserved
//!  64   *  events of 64 bytes:
//!          0  1  type              12  4  namespace
//!          1  1  flags             16 16  specific to the type
//!          2  2  placement id      32  2  reclaim group
//!          4  8  timestamp (ms)    34  2  reclaim unit handle
//!  flags: bit 0 placement id valid, bit 1 namespace valid, bit 2 location (group, handle) valid
//!  media reallocated (80h): 16 bit 0 LBA valid · 18  2  logical blocks moved · 20  8  LBA
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Maximum number of events in one log.
pub const EVENTS_MAX: usize = 63;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    events: U32,
    reserved: [u8; 60],
}
const _: () = assert!(size_of::<Header>() == 64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Entry {
    kind: u8,
    flags: u8,
    placement_id: U16,
    timestamp_ms: [u8; 6],
    timestamp_attributes: U16,
    nsid: U32,
    moved_flags: u8,
    reserved: u8,
    moved_blocks: U16,
    moved_lba: U64,
    reserved_too: U32,
    group: U16,
    handle: U16,
    reserved_last: [u8; 28],
}
const _: () = assert!(size_of::<Entry>() == 64);

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// 00h: a reclaim unit was closed before it was full.
    UnitNotFullyWritten,
    /// 01h: a reclaim unit was open for too long.
    UnitTimeLimitExceeded,
    /// 02h: a reset changed the reclaim units of the handles.
    ControllerReset,
    /// 03h: a write named a placement identifier that does not exist.
    InvalidPlacementId,
    /// 80h: the controller moved data.
    MediaReallocated,
    /// 81h: the controller changed the reclaim unit of a handle without a host command.
    ImplicitlyModified,
    /// Reserved or vendor specific.
    Other(u8),
}

const KNOWN: [(EventType, u8); 6] = [
    (EventType::UnitNotFullyWritten, 0x00),
    (EventType::UnitTimeLimitExceeded, 0x01),
    (EventType::ControllerReset, 0x02),
    (EventType::InvalidPlacementId, 0x03),
    (EventType::MediaReallocated, 0x80),
    (EventType::ImplicitlyModified, 0x81),
];

impl EventType {
    /// The number of this type.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Other(byte) => byte,
            known => KNOWN.iter().find(|(kind, _)| *kind == known).map_or(0, |(_, byte)| *byte),
        }
    }

    /// The type with this number.
    pub fn from_byte(byte: u8) -> Self {
        KNOWN.iter().find(|(_, b)| *b == byte).map_or(Self::Other(byte), |(kind, _)| *kind)
    }

    /// Whether the host caused it (types below 80h), so that the log of host events lists it.
    pub fn is_host_event(self) -> bool {
        self.to_byte() < 0x80
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The type of the event.
    pub kind: EventType,
    /// The placement identifier of the event, if it has one.
    pub placement_id: Option<u16>,
    /// The namespace of the event, if it has one.
    pub nsid: Option<u32>,
    /// Reclaim group and reclaim unit handle of the event, if it has them.
    pub location: Option<(u16, u16)>,
    /// Milliseconds of the drive's clock, 48 bits.
    pub timestamp_ms: u64,
    /// For media reallocated: logical blocks moved (0: not reported, 65,535: that many or more), and one of them if
    /// known (NVM Command Set, "Media Reallocated").
    pub moved: Option<(u16, Option<u64>)>,
}

impl Event {
    /// An event of this type with all other fields empty.
    pub fn of(kind: EventType) -> Self {
        Self { kind, placement_id: None, nsid: None, location: None, timestamp_ms: 0, moved: None }
    }

    fn encode(&self) -> Entry {
        let [a, b, c, d, e, f, ..] = self.timestamp_ms.to_le_bytes();
        let (blocks, lba) = self.moved.unwrap_or((0, None));
        let (group, handle) = self.location.unwrap_or((0, 0));
        Entry {
            kind: self.kind.to_byte(),
            flags: u8::from(self.placement_id.is_some())
                | u8::from(self.nsid.is_some()) << 1
                | u8::from(self.location.is_some()) << 2,
            placement_id: self.placement_id.unwrap_or(0).into(),
            timestamp_ms: [a, b, c, d, e, f],
            timestamp_attributes: 0.into(),
            nsid: self.nsid.unwrap_or(0).into(),
            moved_flags: u8::from(lba.is_some()),
            reserved: 0,
            moved_blocks: blocks.into(),
            moved_lba: lba.unwrap_or(0).into(),
            reserved_too: 0.into(),
            group: group.into(),
            handle: handle.into(),
            reserved_last: [0; 28],
        }
    }

    fn decode(entry: &Entry) -> Self {
        let kind = EventType::from_byte(entry.kind);
        let valid = |bit: u8| entry.flags & 1 << bit != 0;
        let [a, b, c, d, e, f] = entry.timestamp_ms;
        let lba = (entry.moved_flags & 1 != 0).then_some(entry.moved_lba.get());
        Self {
            kind,
            placement_id: valid(0).then_some(entry.placement_id.get()),
            nsid: valid(1).then_some(entry.nsid.get()),
            location: valid(2).then_some((entry.group.get(), entry.handle.get())),
            timestamp_ms: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            moved: (kind == EventType::MediaReallocated).then_some((entry.moved_blocks.get(), lba)),
        }
    }
}

/// Encodes the events log with the first [`EVENTS_MAX`] of `events`.
pub fn encode_events(events: &[Event]) -> Vec<u8> {
    let entries: Vec<Entry> = events.iter().take(EVENTS_MAX).map(Event::encode).collect();
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let header = Header { events: count.into(), reserved: [0; 60] };
    [header.as_bytes(), entries.as_bytes()].concat()
}

/// Decodes an events log. `None` if its count exceeds [`EVENTS_MAX`] or the events present.
pub fn decode_events(log: &[u8]) -> Option<Vec<Event>> {
    let (header, events) = Header::ref_from_prefix(log).ok()?;
    let count = usize::try_from(header.events.get()).ok().filter(|&count| count <= EVENTS_MAX)?;
    let (events, _) = <[Entry]>::ref_from_prefix_with_elems(events, count).ok()?;
    Some(events.iter().map(Event::decode).collect())
}

#[cfg(test)]
mod tests {
    use super::super::golden::put;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_come_back() {
        let moved = Event {
            kind: EventType::MediaReallocated,
            placement_id: None,
            nsid: Some(1),
            location: Some((2, 3)),
            timestamp_ms: 0x1234_5678_9abc,
            moved: Some((500, Some(1 << 40))),
        };
        let invalid = Event {
            kind: EventType::InvalidPlacementId,
            placement_id: Some(77),
            location: None,
            moved: None,
            ..moved
        };
        let events = vec![moved, invalid];
        let log = encode_events(&events);
        assert_eq!(log.len(), 64 + 2 * 64);
        let mut expected = [0; 64 + 2 * 64];
        put(&mut expected, 0, &[2]);
        put(&mut expected, 64, &[0x80, 0b110, 0, 0, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0, 1]);
        put(&mut expected, 64 + 16, &[1, 0, 0xf4, 0x01, 0, 0, 0, 0, 0, 1]);
        put(&mut expected, 64 + 32, &[2, 0, 3, 0]);
        put(&mut expected, 128, &[0x03, 0b011, 77, 0, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0, 1]);
        assert_eq!(log, expected);
        assert_eq!(decode_events(&log), Some(events));
        assert!(!moved.kind.is_host_event() && invalid.kind.is_host_event());
    }

    #[test]
    fn a_log_holds_63_events() {
        let event = Event { placement_id: Some(0), ..Event::of(EventType::UnitNotFullyWritten) };
        assert_eq!(decode_events(&encode_events(&[event; 100])).unwrap().len(), EVENTS_MAX);
        let mut log = encode_events(&[event]);
        put(&mut log, 0, &64_u32.to_le_bytes());
        assert_eq!(decode_events(&log), None);
    }

    proptest! {
        #[test]
        fn hostile_logs_never_panic(log in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_events(&log);
        }

        #[test]
        fn types_come_back(byte in any::<u8>()) {
            prop_assert_eq!(EventType::from_byte(byte).to_byte(), byte);
        }
    }
}
