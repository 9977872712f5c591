//! Zones of a block device: `BLKREPORTZONE`, `BLKRESETZONE`, `BLKFINISHZONE` (`linux/blkzoned.h`). The kernel counts in
//! 512-byte sectors.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use super::{Zone, ZoneState};

const SECTOR: u64 = 512;
/// Zones per report.
const ZONES: usize = 64;
/// `struct blk_zone_report`: first sector, number of zones, flags; then a `struct blk_zone` per zone.
const HEADER_BYTES: usize = 16;
const ZONE_BYTES: usize = 64;
const REPORT_BYTES: usize = HEADER_BYTES + ZONES * ZONE_BYTES;
/// `BLK_ZONE_REP_CAPACITY`: the report has capacities.
const WITH_CAPACITY: u32 = 1;

const REPORT: Opcode = ioctl::opcode::read_write::<[u8; HEADER_BYTES]>(0x12, 130);
const RESET: Opcode = ioctl::opcode::write::<[u64; 2]>(0x12, 131);
const FINISH: Opcode = ioctl::opcode::write::<[u64; 2]>(0x12, 136);

/// All zones of a zoned block device.
pub(super) fn report(device: &File) -> io::Result<Vec<Zone>> {
    let mut zones: Vec<Zone> = Vec::new();
    loop {
        let from = zones.last().map_or(0, |zone| (zone.start + zone.bytes) / SECTOR);
        // SAFETY: the opcode takes what `Report` points to.
        let told = unsafe { ioctl::ioctl(device, Report::from(from)) }?;
        let more = parse(&told).ok_or_else(|| io::Error::other("zones without length"))?;
        if more.is_empty() {
            return Ok(zones);
        }
        zones.extend(more);
    }
}

pub(super) fn reset(device: &File, zone: &Zone) -> io::Result<()> {
    let range = [zone.start / SECTOR, zone.bytes / SECTOR];
    // SAFETY: `RESET` reads two 64-bit numbers, first sector and number of sectors, which is what it gets.
    let request = unsafe { ioctl::Setter::<RESET, [u64; 2]>::new(range) };
    // SAFETY: as above. The change of the zone is what the caller asks for.
    unsafe { ioctl::ioctl(device, request) }.map_err(io::Error::from)
}

pub(super) fn finish(device: &File, zone: &Zone) -> io::Result<()> {
    let range = [zone.start / SECTOR, zone.bytes / SECTOR];
    // SAFETY: `FINISH` reads two 64-bit numbers, first sector and number of sectors, which is what it gets.
    let request = unsafe { ioctl::Setter::<FINISH, [u64; 2]>::new(range) };
    // SAFETY: as above. The change of the zone is what the caller asks for.
    unsafe { ioctl::ioctl(device, request) }.map_err(io::Error::from)
}

/// The zones of a report; `None` if one has no length, because then the next zone cannot be found.
fn parse(report: &[u8; REPORT_BYTES]) -> Option<Vec<Zone>> {
    let number = |at: usize| {
        let bytes = report[at..].first_chunk().expect("the report is longer");
        u64::from_le_bytes(*bytes)
    };
    let half = |at: usize| {
        let bytes = report[at..].first_chunk().expect("the report is longer");
        u32::from_le_bytes(*bytes)
    };
    let count = usize::try_from(half(8)).unwrap_or(ZONES).min(ZONES);
    let has_capacity = half(12) & WITH_CAPACITY != 0;
    let zone = |index: usize| {
        let at = HEADER_BYTES + index * ZONE_BYTES;
        let [start, bytes, write_pointer, capacity] =
            [0, 8, 16, 32].map(|field| number(at + field).checked_mul(SECTOR));
        let (start, bytes) = (start?, bytes.filter(|&bytes| bytes > 0)?);
        Some(Zone {
            start,
            bytes,
            capacity_bytes: if has_capacity { capacity? } else { bytes },
            write_pointer: write_pointer.unwrap_or(start),
            state: state(report[at + 24], report[at + 25]),
        })
    };
    (0..count).map(zone).collect()
}

/// Decodes `enum blk_zone_type` and `enum blk_zone_cond`.
fn state(kind: u8, condition: u8) -> ZoneState {
    match (kind, condition) {
        (1, _) | (_, 0) => ZoneState::Conventional,
        (_, 1) => ZoneState::Empty,
        (_, 2 | 3) => ZoneState::Open,
        (_, 4) => ZoneState::Closed,
        (_, 0xd) => ZoneState::ReadOnly,
        (_, 0xe) => ZoneState::Full,
        // Do not touch zones in an unknown state.
        _ => ZoneState::Offline,
    }
}

struct Report(Box<[u8; REPORT_BYTES]>);

impl Report {
    fn from(sector: u64) -> Self {
        let mut bytes = Box::new([0; REPORT_BYTES]);
        bytes[..8].copy_from_slice(&sector.to_le_bytes());
        let zones = u32::try_from(ZONES).expect("they are few");
        bytes[8..12].copy_from_slice(&zones.to_le_bytes());
        Self(bytes)
    }
}

// SAFETY: the opcode expects a pointer to a header that says how many zones fit after it, and writes no more than that;
// the buffer has room for that number. Its bytes may have any value.
unsafe impl Ioctl for Report {
    type Output = Box<[u8; REPORT_BYTES]>;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        REPORT
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        _: IoctlOutput,
        told: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        // SAFETY: the pointer is that of `as_ptr`, to `REPORT_BYTES` bytes.
        let told = unsafe { *told.cast::<[u8; REPORT_BYTES]>() };
        Ok(Box::new(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opcodes_are_those_of_the_kernel() {
        assert_eq!((REPORT, RESET, FINISH), (0xC010_1282, 0x4010_1283, 0x4010_1288));
    }

    #[test]
    fn a_report_is_read() {
        let mut report = [0; REPORT_BYTES];
        report[8] = 2;
        report[12] = 1;
        let mut put = |at: usize, fields: [u64; 4], kind: u8, condition: u8| {
            for (field, value) in [0, 8, 16, 32].into_iter().zip(fields) {
                report[at + field..at + field + 8].copy_from_slice(&value.to_le_bytes());
            }
            report[at + 24..at + 26].copy_from_slice(&[kind, condition]);
        };
        put(16, [0, 64, 8, 48], 2, 2);
        put(80, [64, 64, u64::MAX, 48], 2, 0xe);
        let zones = parse(&report).unwrap();
        let open = Zone {
            start: 0,
            bytes: 32 << 10,
            capacity_bytes: 24 << 10,
            write_pointer: 4096,
            state: ZoneState::Open,
        };
        assert_eq!(zones[0], open);
        assert_eq!((zones[1].state, zones[1].written_bytes()), (ZoneState::Full, 24 << 10));
        assert_eq!(zones.len(), 2);
        report[24..32].fill(0);
        assert_eq!(parse(&report), None, "a zone without length has no next one");
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = tempfile::tempfile().unwrap();
        assert!(super::report(&file).is_err());
    }
}
