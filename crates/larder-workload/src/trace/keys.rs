//! Traces that are lists of keys: `keys` (text) and `keys-u32` (binary).

use crate::{Error, Op, Request, RequestSource};

use super::buffer::Buffer;
use super::fault::{Fault, shown};
use super::field;
use super::line::Lines;
use super::object::split_object;

/// Bytes of a key in `keys-u32`.
const KEY_RECORD_BYTES: usize = 4;

fn get(key: u64, object_bytes: u32) -> Request {
    let (key_bytes, value_bytes) = split_object(object_bytes);
    Request { time_s: 0, key, key_bytes, value_bytes, op: Op::Get, ttl_s: 0 }
}

/// The key in these four bytes.
// The format is big-endian; the lint is meant for the formats of this project.
#[expect(clippy::big_endian_bytes, reason = "a format that others defined")]
pub(super) fn key_of(bytes: [u8; KEY_RECORD_BYTES]) -> u32 {
    u32::from_be_bytes(bytes)
}

/// One key on each line.
pub(super) struct TextKeys {
    lines: Lines,
    object_bytes: u32,
}

impl TextKeys {
    pub(super) fn new(buffer: Buffer, object_bytes: u32) -> Self {
        Self { lines: Lines::new(buffer), object_bytes }
    }
}

impl RequestSource for TextKeys {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let text = line.iter().all(|&b| b >= b' ' && b != 0x7f);
        let key = if text {
            field::key(line)
        } else {
            Err(Fault::field(line, "a key, without control characters"))
        };
        match key {
            Ok(key) => Ok(Some(get(key, self.object_bytes))),
            Err(fault) => Err(self.lines.error(&fault)),
        }
    }

    fn progress(&self) -> Option<f64> {
        self.lines.progress()
    }
}

/// Four bytes for each key.
pub(super) struct BinaryKeys {
    buffer: Buffer,
    object_bytes: u32,
}

impl BinaryKeys {
    pub(super) fn new(buffer: Buffer, object_bytes: u32) -> Self {
        Self { buffer, object_bytes }
    }

    #[cold]
    fn cut_short(&mut self) -> Error {
        let rest = self.buffer.ready();
        let found = format!("the last {} bytes {}", rest.len(), shown(rest));
        let place = format!("byte {}", self.buffer.offset());
        let count = rest.len();
        self.buffer.take(count);
        self.buffer.error(&place, &Fault::new(found, "a key of 4 bytes"))
    }
}

impl RequestSource for BinaryKeys {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        let bytes = self.buffer.peek(KEY_RECORD_BYTES)?;
        match bytes.first_chunk() {
            Some(key) => {
                let key = key_of(*key);
                self.buffer.take(KEY_RECORD_BYTES);
                Ok(Some(get(u64::from(key), self.object_bytes)))
            }
            None if bytes.is_empty() => Ok(None),
            None => Err(self.cut_short()),
        }
    }

    fn progress(&self) -> Option<f64> {
        self.buffer.progress()
    }
}
