//! Open files: one for appending, and one for reading.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::rc::Rc;

use larder_blocks::{BlockId, Stream};
use larder_device::{IoBuffer, IoFuture};
use rusty_leveldb::Status;
use rusty_leveldb::env::RandomAccess;

use super::directory::{Change, tag_of};
use super::files::Files;
use super::pages::{self, Piece, Result, buffer_of, find, of_store};

/// Bytes of an append. It is large, so that an append uses several dies at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Appends in flight. At this limit a writer waits for the oldest one, as with a full page cache.
const UNDER_WAY_MAX: usize = 8;

/// Appends to a file. Written data is durable after a flush, and also after the writer is dropped.
pub(super) struct Writer {
    files: Rc<RefCell<Files>>,
    file: u64,
    buffer: Vec<u8>,
    /// The block being filled, and the position in it.
    open: Option<(BlockId, u64)>,
    under_way: VecDeque<IoFuture>,
    /// Pieces that are written or in flight, but not in the directory yet.
    pieces: Vec<Piece>,
}

impl Writer {
    pub(super) fn new(files: Rc<RefCell<Files>>, file: u64) -> Self {
        let (open, under_way) = (None, VecDeque::new());
        Self { files, file, buffer: Vec::new(), open, under_way, pieces: Vec::new() }
    }

    /// Appends the first `length` bytes of the buffer, padded to whole pages.
    fn append(&mut self, length: usize) -> Result<()> {
        let store = self.files.borrow().store();
        let (page, block_bytes) = (store.info().page_bytes as usize, store.info().block_bytes);
        let mut rest: Vec<u8> = self.buffer.drain(..length).collect();
        while !rest.is_empty() {
            let (block, at) = match self.open {
                Some((block, at)) if at < block_bytes => (block, at),
                _ => {
                    let block = store.alloc(Stream::DEFAULT, tag_of(self.file)).wait();
                    (block.map_err(|error| of_store(&error))?, 0)
                }
            };
            let room = usize::try_from(block_bytes - at).unwrap_or(usize::MAX);
            let mut part: Vec<u8> = rest.drain(..rest.len().min(room)).collect();
            let bytes = part.len() as u64;
            part.resize(part.len().next_multiple_of(page), 0);
            let end = at + part.len() as u64;
            self.under_way.push_back(store.append(block, at, buffer_of(&part)));
            self.open = Some((block, end));
            self.note(Piece { block: block.number(), at, bytes });
            if self.under_way.len() > UNDER_WAY_MAX {
                self.wait_for_oldest()?;
            }
        }
        Ok(())
    }

    /// Adds a piece. It is merged with the last piece if it continues it.
    fn note(&mut self, piece: Piece) {
        match self.pieces.last_mut() {
            Some(last) if last.block == piece.block && last.at + last.bytes == piece.at => {
                last.bytes += piece.bytes;
            }
            _ => self.pieces.push(piece),
        }
    }

    fn wait_for_oldest(&mut self) -> Result<()> {
        let ended = self.under_way.pop_front().map_or(Ok(IoBuffer::empty()), IoFuture::wait);
        ended.map(drop).map_err(|failure| of_store(&failure.error))
    }

    fn save(&mut self) -> Result<()> {
        self.append(self.buffer.len())?;
        while !self.under_way.is_empty() {
            self.wait_for_oldest()?;
        }
        if self.pieces.is_empty() {
            return Ok(());
        }
        let grown = Change::Grow(self.file, std::mem::take(&mut self.pieces));
        self.files.borrow_mut().directory.change(&grown).map(drop)
    }
}

fn io_error(status: Status) -> io::Error {
    io::Error::other(status)
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        let whole = self.buffer.len() / CHUNK_BYTES * CHUNK_BYTES;
        if whole > 0 {
            self.append(whole).map_err(io_error)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.save().map_err(io_error)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A file that has been deleted needs no bytes. Drop has no caller that could get the error.
        if self.files.borrow().directory.table.files.contains_key(&self.file) {
            let _ = self.save();
        }
    }
}

/// Reads a file as it was when it was opened. Caches the page read last.
pub(super) struct Reader {
    files: Rc<RefCell<Files>>,
    pieces: Vec<Piece>,
    page: RefCell<(u64, u64, Vec<u8>)>,
    next: Cell<u64>,
}

impl Reader {
    pub(super) fn new(files: Rc<RefCell<Files>>, pieces: Vec<Piece>) -> Self {
        let page = RefCell::new((0, 0, Vec::new()));
        Self { files, pieces, page, next: Cell::new(0) }
    }

    fn fill(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let Some((piece, inside)) = find(&self.pieces, offset + done as u64) else { break };
            let left = usize::try_from(piece.bytes - inside).unwrap_or(usize::MAX);
            let part = (bytes.len() - done).min(left);
            self.fill_from(piece.block, piece.at + inside, &mut bytes[done..done + part])?;
            done += part;
        }
        Ok(done)
    }

    /// Reads bytes of one block. If they lie in one page, they come from the cached page.
    fn fill_from(&self, block: u64, at: u64, bytes: &mut [u8]) -> Result<()> {
        let store = self.files.borrow().store();
        let page_bytes = u64::from(store.info().page_bytes);
        let first = at / page_bytes * page_bytes;
        if at + bytes.len() as u64 > first + page_bytes {
            return pages::read(&*store, BlockId::new(block), at, bytes);
        }
        let mut kept = self.page.borrow_mut();
        if kept.2.is_empty() || (kept.0, kept.1) != (block, first) {
            let mut page = vec![0; store.info().page_bytes as usize];
            pages::read(&*store, BlockId::new(block), first, &mut page)?;
            *kept = (block, first, page);
        }
        let skip = usize::try_from(at - first).unwrap_or(usize::MAX);
        bytes.copy_from_slice(&kept.2[skip..skip + bytes.len()]);
        Ok(())
    }
}

impl RandomAccess for Reader {
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> Result<usize> {
        self.fill(offset as u64, bytes)
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let done = self.fill(self.next.get(), bytes).map_err(io_error)?;
        self.next.set(self.next.get() + done as u64);
        Ok(done)
    }
}
