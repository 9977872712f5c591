//! The lines of a trace.

use crate::Error;

use super::buffer::{Buffer, CAPACITY};
use super::fault::{Fault, shown};

/// Longest line, in bytes. No key of any cache is longer than a few kilobytes.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(LINE_BYTES_MAX < CAPACITY, "a whole line and its end fit the buffer");

/// The lines of a text trace, without their ends (LF or CR LF), without blank ones.
pub(super) struct Lines {
    buffer: Buffer,
    /// How many lines were read, including blank ones.
    read: u64,
    /// Number of the line that was returned last, from 1.
    number: u64,
}

impl Lines {
    pub(super) fn new(buffer: Buffer) -> Self {
        Self { buffer, read: 0, number: 0 }
    }

    /// The next line that is not blank; `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, Error> {
        let (skip, length) = loop {
            let Some((length, with_end)) = self.find_end()? else { return Ok(None) };
            self.read += 1;
            self.buffer.take(with_end);
            if length > 0 {
                break (with_end, length);
            }
        };
        self.number = self.read;
        Ok(Some(self.buffer.taken(skip).get(..length).unwrap_or_default()))
    }

    /// Length of the next line without and with its line end; `None` after the last.
    fn find_end(&mut self) -> Result<Option<(usize, usize)>, Error> {
        let mut searched = 0;
        loop {
            let bytes = self.buffer.ready();
            let rest = bytes.get(searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', rest) {
                let at = searched + at;
                let line = bytes.get(..at).unwrap_or_default();
                if line.len() > LINE_BYTES_MAX {
                    return Err(self.too_long());
                }
                let cr = usize::from(line.last() == Some(&b'\r'));
                return Ok(Some((at - cr, at + 1)));
            }
            searched = bytes.len();
            if searched > LINE_BYTES_MAX {
                return Err(self.too_long());
            }
            if !self.buffer.fill()? {
                return Ok((searched > 0).then_some((searched, searched)));
            }
        }
    }

    #[cold]
    fn too_long(&mut self) -> Error {
        let found = format!("more than {LINE_BYTES_MAX} bytes from {}", shown(self.buffer.ready()));
        let place = format!("line {}", self.read + 1);
        let fault = Fault::new(found, "a line of text that ends before");
        // A reader that asks again makes progress: the rest counts as another line.
        let all = self.buffer.ready().len();
        self.buffer.take(all);
        self.buffer.error(&place, &fault)
    }

    /// An error in the line that was returned last.
    #[cold]
    pub(super) fn error(&self, fault: &Fault) -> Error {
        self.buffer.error(&format!("line {}", self.number), fault)
    }

    /// Share of the file that was read, from 0 to 1.
    pub(super) fn progress(&self) -> Option<f64> {
        self.buffer.progress()
    }
}
