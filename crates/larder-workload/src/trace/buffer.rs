//! A window on the decompressed bytes of a trace: the reader looks ahead, then takes.

use crate::Error;

use super::fault::Fault;
use super::input::Input;

/// Bytes that a buffer holds, and the longest possible look-ahead.
pub(super) const CAPACITY: usize = 256 << 10;

/// The next bytes of a trace.
pub(super) struct Buffer {
    input: Input,
    /// Always [`CAPACITY`] bytes long; `start..end` are filled and not yet taken.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Nothing follows `end`: the trace is at its end, or a read failed.
    done: bool,
    /// Decompressed bytes read so far.
    read_bytes: u64,
}

impl Buffer {
    pub(super) fn new(input: Input) -> Self {
        let bytes = vec![0; CAPACITY];
        Self { input, bytes, start: 0, end: 0, done: false, read_bytes: 0 }
    }

    /// The bytes in the buffer, without reading more.
    pub(super) fn ready(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The bytes in the buffer, at least `count` of them unless the trace ends before.
    pub(super) fn peek(&mut self, count: usize) -> Result<&[u8], Error> {
        while self.end - self.start < count && self.fill()? {}
        Ok(self.ready())
    }

    /// Reads more bytes behind those in the buffer. False if there are no more, or no room for them.
    pub(super) fn fill(&mut self) -> Result<bool, Error> {
        if self.done {
            return Ok(false);
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let room = self.bytes.get_mut(self.end..).unwrap_or_default();
        if room.is_empty() {
            return Ok(false);
        }
        match self.input.read(room) {
            Ok(0) => self.done = true,
            Ok(count) => {
                self.end = (self.end + count).min(CAPACITY);
                self.read_bytes += count as u64;
            }
            Err(e) => {
                // The bytes read before the failure are of no more use; a caller that reads on finds the end of the
                // trace.
                self.done = true;
                self.start = self.end;
                return Err(self.input.read_error(&e, self.read_bytes));
            }
        }
        Ok(!self.done)
    }

    /// Takes `count` of the bytes in the buffer.
    pub(super) fn take(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start, "takes only what it has seen");
        self.start = (self.start + count).min(self.end);
    }

    /// The last `count` bytes that were taken; valid until the next read.
    pub(super) fn taken(&self, count: usize) -> &[u8] {
        self.bytes.get(self.start.saturating_sub(count)..self.start).unwrap_or_default()
    }

    /// Whether all bytes of the trace are in the buffer or taken.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Offset of the next byte in the decompressed trace.
    pub(super) fn offset(&self) -> u64 {
        self.read_bytes - (self.end - self.start) as u64
    }

    /// Share of the file that was read, from 0 to 1.
    pub(super) fn progress(&self) -> Option<f64> {
        self.input.progress()
    }

    /// An error at `place` of this trace.
    #[cold]
    pub(super) fn error(&self, place: &str, fault: &Fault) -> Error {
        Error::run(format!(
            "{}: {place}: found {}, expected {}",
            self.input.path().display(),
            fault.found,
            fault.expected
        ))
    }
}
