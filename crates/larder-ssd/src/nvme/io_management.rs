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

use super::le::{put, u16_at, u32_at, u64_at};

/// Bytes in front of the descriptors.
pub const STATUS_HEADER_BYTES: usize = 16;
/// Bytes of one descriptor.
pub const STATUS_DESCRIPTOR_BYTES: usize = 32;
const COUNT_AT: usize = 14;

/// One placement handle in one reclaim group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleStatus {
    /// Placement identifier to write with.
    pub placement_id: u16,
    /// Reclaim unit handle behind it.
    pub handle: u16,
    /// Seconds until the open unit is closed; 0 if not reported (EARUTR).
    pub time_left_s: u32,
    /// Logical blocks that the open unit can still take (RUAMW).
    pub blocks_left: u64,
}

/// The status reply. `None` if there are more descriptors than its field can count.
pub fn encode_status(handles: &[HandleStatus]) -> Option<Vec<u8>> {
    let mut reply = vec![0; STATUS_HEADER_BYTES + STATUS_DESCRIPTOR_BYTES * handles.len()];
    put(&mut reply, COUNT_AT, &u16::try_from(handles.len()).ok()?.to_le_bytes());
    for (number, status) in handles.iter().enumerate() {
        let at = STATUS_HEADER_BYTES + STATUS_DESCRIPTOR_BYTES * number;
        put(&mut reply, at, &status.placement_id.to_le_bytes());
        put(&mut reply, at + 2, &status.handle.to_le_bytes());
        put(&mut reply, at + 4, &status.time_left_s.to_le_bytes());
        put(&mut reply, at + 8, &status.blocks_left.to_le_bytes());
    }
    Some(reply)
}

/// How many descriptors a status reply has, from its first 16 bytes.
pub fn status_count(reply: &[u8]) -> Option<u16> {
    u16_at(reply, COUNT_AT)
}

/// Reads as many descriptors of a status reply as there are and as the reply holds: a drive says
/// how many it has even if the host asked for fewer.
pub fn decode_status(reply: &[u8]) -> Option<Vec<HandleStatus>> {
    let count = usize::from(status_count(reply)?);
    let descriptors = reply.get(STATUS_HEADER_BYTES..)?.chunks_exact(STATUS_DESCRIPTOR_BYTES);
    descriptors
        .take(count)
        .map(|bytes| {
            Some(HandleStatus {
                placement_id: u16_at(bytes, 0)?,
                handle: u16_at(bytes, 2)?,
                time_left_s: u32_at(bytes, 4)?,
                blocks_left: u64_at(bytes, 8)?,
            })
        })
        .collect()
}

/// The data of an update: the placement identifiers whose handles shall move on.
pub fn encode_update(placement_ids: &[u16]) -> Vec<u8> {
    placement_ids.iter().flat_map(|pid| pid.to_le_bytes()).collect()
}

/// Reads the data of an update of `count` placement identifiers. `None` if there are fewer.
pub fn decode_update(data: &[u8], count: usize) -> Option<Vec<u16>> {
    (0..count).map(|number| u16_at(data, 2 * number)).collect()
}

#[cfg(test)]
mod tests {
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
