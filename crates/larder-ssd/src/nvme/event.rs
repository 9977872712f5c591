//! Log page 23h: FDP events, what the host did and what the controller did.
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

use super::le::{put, u8_at, u16_at, u32_at, u64_at};

const HEADER_BYTES: usize = 64;
const EVENT_BYTES: usize = 64;
/// Most events that one log holds.
pub const EVENTS_MAX: usize = 63;

/// What happened.
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
    /// 81h: the controller changed the reclaim unit of a handle by itself.
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
    /// The number of the type.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Other(byte) => byte,
            known => KNOWN.iter().find(|(kind, _)| *kind == known).map_or(0, |(_, byte)| *byte),
        }
    }

    /// The type of that number.
    pub fn from_byte(byte: u8) -> Self {
        KNOWN.iter().find(|(_, b)| *b == byte).map_or(Self::Other(byte), |(kind, _)| *kind)
    }

    /// Whether the host caused it (types below 80h) and the log of host events lists it.
    pub fn is_host_event(self) -> bool {
        self.to_byte() < 0x80
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventType,
    /// The placement identifier that it is about.
    pub placement_id: Option<u16>,
    /// The namespace that it is about.
    pub nsid: Option<u32>,
    /// Reclaim group and reclaim unit handle that it is about.
    pub location: Option<(u16, u16)>,
    /// Milliseconds of the drive's clock, 48 bits.
    pub timestamp_ms: u64,
    /// For media reallocated: logical blocks moved (0: not reported, 65,535: that many or more),
    /// and one of them if known (NVM Command Set, "Media Reallocated").
    pub moved: Option<(u16, Option<u64>)>,
}

impl Event {
    /// An event of this type about nothing in particular.
    pub fn of(kind: EventType) -> Self {
        Self { kind, placement_id: None, nsid: None, location: None, timestamp_ms: 0, moved: None }
    }

    fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        let flags = u8::from(self.placement_id.is_some())
            | u8::from(self.nsid.is_some()) << 1
            | u8::from(self.location.is_some()) << 2;
        put(&mut bytes, 0, &[self.kind.to_byte(), flags]);
        put(&mut bytes, 2, &self.placement_id.unwrap_or(0).to_le_bytes());
        let [a, b, c, d, e, f, ..] = self.timestamp_ms.to_le_bytes();
        put(&mut bytes, 4, &[a, b, c, d, e, f]);
        put(&mut bytes, 12, &self.nsid.unwrap_or(0).to_le_bytes());
        if let Some((blocks, lba)) = self.moved {
            put(&mut bytes, 16, &[u8::from(lba.is_some())]);
            put(&mut bytes, 18, &blocks.to_le_bytes());
            put(&mut bytes, 20, &lba.unwrap_or(0).to_le_bytes());
        }
        let (group, handle) = self.location.unwrap_or((0, 0));
        put(&mut bytes, 32, &group.to_le_bytes());
        put(&mut bytes, 34, &handle.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = EventType::from_byte(u8_at(bytes, 0)?);
        let flags = u8_at(bytes, 1)?;
        let valid = |bit: u8| flags & 1 << bit != 0;
        let (placement_id, nsid) = (u16_at(bytes, 2)?, u32_at(bytes, 12)?);
        let location = (u16_at(bytes, 32)?, u16_at(bytes, 34)?);
        let (lba_valid, blocks, lba) =
            (u8_at(bytes, 16)? & 1 != 0, u16_at(bytes, 18)?, u64_at(bytes, 20)?);
        Some(Self {
            kind,
            placement_id: valid(0).then_some(placement_id),
            nsid: valid(1).then_some(nsid),
            location: valid(2).then_some(location),
            timestamp_ms: u64_at(bytes, 4)? & ((1 << 48) - 1),
            moved: (kind == EventType::MediaReallocated)
                .then_some((blocks, lba_valid.then_some(lba))),
        })
    }
}

/// The events log: the first [`EVENTS_MAX`] of `events`.
pub fn encode_events(events: &[Event]) -> Vec<u8> {
    let listed = events.iter().take(EVENTS_MAX);
    let mut log = vec![0; HEADER_BYTES];
    let mut count: u32 = 0;
    for event in listed {
        log.extend_from_slice(&event.encode());
        count += 1;
    }
    put(&mut log, 0, &count.to_le_bytes());
    log
}

/// Reads an events log. `None` if it announces more events than it can hold or has.
pub fn decode_events(log: &[u8]) -> Option<Vec<Event>> {
    let count = usize::try_from(u32_at(log, 0)?).ok()?;
    if count > EVENTS_MAX {
        return None;
    }
    let events = log.get(HEADER_BYTES..)?.get(..count * EVENT_BYTES)?;
    events.chunks_exact(EVENT_BYTES).map(Event::decode).collect()
}

#[cfg(test)]
mod tests {
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
