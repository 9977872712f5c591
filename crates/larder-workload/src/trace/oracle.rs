//! Traces in libCacheSim's binary format `oracle-general`.
//!
//! ```text
//!  0        4                 12       16                24
//!  | time   | object          | size   | next            |   all little-endian
//!  | u32, s | u64             | u32, B | i64             |
//! ```
//!
//! `next` is the number of the next request of the same object, negative if there is none. Policies
//! that see the future use it; here it only helps to recognise the format.

use crate::{Error, Op, Request, RequestSource};

use super::buffer::Buffer;
use super::clock::TraceClock;
use super::fault::{Fault, shown};
use super::object::split_object;

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 4 + 8 + 4 + 8;

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub time_s: u32,
    pub object: u64,
    pub size_bytes: u32,
    pub next: i64,
}

impl Record {
    /// The record at the start of these bytes; `None` if they are too few.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (time_s, bytes) = bytes.split_first_chunk()?;
        let (object, bytes) = bytes.split_first_chunk()?;
        let (size_bytes, bytes) = bytes.split_first_chunk()?;
        let next = bytes.first_chunk()?;
        Some(Self {
            time_s: u32::from_le_bytes(*time_s),
            object: u64::from_le_bytes(*object),
            size_bytes: u32::from_le_bytes(*size_bytes),
            next: i64::from_le_bytes(*next),
        })
    }
}

/// The requests of an `oracle-general` trace: all GETs.
pub(super) struct OracleSource {
    buffer: Buffer,
    clock: TraceClock,
}

impl OracleSource {
    pub(super) fn new(buffer: Buffer) -> Self {
        Self { buffer, clock: TraceClock::default() }
    }

    #[cold]
    fn cut_short(&mut self) -> Error {
        let rest = self.buffer.ready();
        let found = format!("the last {} bytes {}", rest.len(), shown(rest));
        let offset = self.buffer.offset();
        let place = format!("record {} at byte {offset}", offset / RECORD_BYTES as u64 + 1);
        let count = rest.len();
        self.buffer.take(count);
        self.buffer.error(&place, &Fault::new(found, "a record of 24 bytes"))
    }
}

impl RequestSource for OracleSource {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        let bytes = self.buffer.peek(RECORD_BYTES)?;
        let Some(record) = Record::parse(bytes) else {
            return if bytes.is_empty() { Ok(None) } else { Err(self.cut_short()) };
        };
        self.buffer.take(RECORD_BYTES);
        let (key_bytes, value_bytes) = split_object(record.size_bytes);
        Ok(Some(Request {
            time_s: self.clock.seconds(u64::from(record.time_s)),
            key: record.object,
            key_bytes,
            value_bytes,
            op: Op::Get,
            ttl_s: 0,
        }))
    }

    fn progress(&self) -> Option<f64> {
        self.buffer.progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_24_little_endian_bytes() {
        let bytes: Vec<u8> = [&[1, 0, 0, 0][..], &[2; 8], &[0, 1, 0, 0], &[0xff; 8]].concat();
        let record = Record::parse(&bytes).unwrap();
        let object = 0x0202_0202_0202_0202;
        assert_eq!(record, Record { time_s: 1, object, size_bytes: 256, next: -1 });
        assert_eq!(Record::parse(bytes.split_last().unwrap().1), None);
    }
}
