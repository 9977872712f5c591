//! I/O management: the status of a namespace's reclaim unit handles, and their update.
//!
//! ```text
//!  status    0  14  reserved            update   2n  placement identifiers
//!           14   2  number of descriptors
//!           16   *  descriptors of 32 bytes, one a placement handle and reclaim group:
//!                   0  2  placement id     4  4  EARUTR: s until the unit is closed, if not 0
//!                   2  2  handle           8  8  RUAMW: logical blocks that fit the unit still
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes before the descriptors.
pub const STATUS_HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(STATUS_HEADER_BYTES == 16);
/// Bytes of one descriptor.
pub const STATUS_DESCRIPTOR_BYTES: usize = size_of::<Descriptor>();
const _: () = assert!(STATUS_DESCRIPTOR_BYTES == 32);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    reserved: [u8; 14],
    descriptors: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Descriptor {
    placement_id: U16,
    handle: U16,
    time_left_s: U32,
    blocks_left: U64,
    reserved: [u8; 16],
}

/// One placement handle in one reclaim group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleStatus {
    /// Placement identifier to write with.
    pub placement_id: u16,
    /// Reclaim unit handle of the placement handle.
    pub handle: u16,
    /// Seconds until the open unit is closed; 0 if not reported (EARUTR).
    pub time_left_s: u32,
    /// Logical blocks that the open unit can still take (RUAMW).
    pub blocks_left: u64,
}

/// Encodes the status reply. `None` if there are more descriptors than its field can count.
pub fn encode_status(handles: &[HandleStatus]) -> Option<Vec<u8>> {
    let count = u16::try_from(handles.len()).ok()?;
    let header = Header { reserved: [0; 14], descriptors: count.into() };
    let describe = |status: &HandleStatus| Descriptor {
        placement_id: status.placement_id.into(),
        handle: status.handle.into(),
        time_left_s: status.time_left_s.into(),
        blocks_left: status.blocks_left.into(),
        reserved: [0; 16],
    };
    let descriptors: Vec<Descriptor> = handles.iter().map(describe).collect();
    Some([header.as_bytes(), descriptors.as_bytes()].concat())
}

/// The number of descriptors that a status reply states in its first 16 bytes.
pub fn status_count(reply: &[u8]) -> Option<u16> {
    let (header, _) = Header::ref_from_prefix(reply).ok()?;
    Some(header.descriptors.get())
}

/// Decodes the descriptors that are present in a status reply: a drive states its total number even if the host
/// requested fewer.
pub fn decode_status(reply: &[u8]) -> Option<Vec<HandleStatus>> {
    let (header, rest) = Header::ref_from_prefix(reply).ok()?;
    let count = usize::from(header.descriptors.get()).min(rest.len() / STATUS_DESCRIPTOR_BYTES);
    let (descriptors, _) = <[Descriptor]>::ref_from_prefix_with_elems(rest, count).ok()?;
    let statuses = descriptors.iter().map(|descriptor| HandleStatus {
        placement_id: descriptor.placement_id.get(),
        handle: descriptor.handle.get(),
        time_left_s: descriptor.time_left_s.get(),
        blocks_left: descriptor.blocks_left.get(),
    });
    Some(statuses.collect())
}

/// Encodes the data of an update: the placement identifiers whose handles move to a new unit.
pub fn encode_update(placement_ids: &[u16]) -> Vec<u8> {
    placement_ids.iter().flat_map(|pid| pid.to_le_bytes()).collect()
}

/// Decodes the data of an update of `count` placement identifiers. `None` if `data` is too short.
pub fn decode_update(data: &[u8], count: usize) -> Option<Vec<u16>> {
    let (placement_ids, _) = <[U16]>::ref_from_prefix_with_elems(data, count).ok()?;
    Some(placement_ids.iter().map(|pid| pid.get()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::golden::put;
    use super::*;

    #[test]
    fn a_status_reply_has_its_bytes_in_place() {
        let handle = |number| HandleStatus {
            placement_id: number,
            handle: number,
            time_left_s: 0,
            blocks_left: 0x6000,
        };
        let handles: Vec<_> = (0..4).map(handle).collect();
        let reply = encode_status(&handles).unwrap();
        let mut expected = [0; 144];
        put(&mut expected, 14, &[4, 0]);
        for number in 0..4_u8 {
            let at = 16 + 32 * usize::from(number);
            put(&mut expected, at, &[number, 0, number, 0, 0, 0, 0, 0, 0, 0x60]);
        }
        assert_eq!(reply, expected);
        assert_eq!(decode_status(&reply), Some(handles.clone()));
        let short = reply.get(..16 + 64).unwrap();
        assert_eq!(status_count(short), Some(4));
        assert_eq!(decode_status(short).unwrap(), handles.get(..2).unwrap());
    }

    #[test]
    fn updates_come_back() {
        assert_eq!(encode_update(&[0x8000, 0x8001]), [0x00, 0x80, 0x01, 0x80]);
        assert_eq!(decode_update(&encode_update(&[1, 0x203]), 2), Some(vec![1, 0x203]));
        assert_eq!(decode_update(&[1], 1), None);
    }
}
