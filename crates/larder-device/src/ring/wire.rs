//! How a piece is encoded for a ring: as an operation on a file or a block device, or as a command to an NVMe
//! namespace.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{cqueue, opcode, squeue, types};

use crate::sys;
use crate::transfer::{Piece, Verb};

/// `_IO(0x12, 0)`: discard a range of a block device (Linux 6.12).
const BLOCK_DISCARD: u32 = 0x1200;

/// Memory of a slot that a command can point to in addition to the piece's own: one range of a deallocation.
pub(crate) type Range = [u64; 2];

/// The parts of a submission queue entry that do not come from the piece.
pub(crate) struct Link<'a> {
    pub(crate) file: types::Fd,
    pub(crate) flags: squeue::Flags,
    /// Returned in the completion.
    pub(crate) slot: u64,
    /// Entry of the ring's table of registered buffers that holds the piece's buffer, if it is registered.
    pub(crate) entry: Option<u16>,
    /// Stays in place until the completion was reaped.
    pub(crate) range: &'a mut Range,
}

/// The encoding of operations for a ring.
///
/// The entry from [`Wire::describe`] must point to no memory but the piece's and the link's range: the ring keeps
/// nothing else alive.
pub(crate) trait Wire: Send + Sync + 'static {
    type Submission: squeue::EntryMarker + Into<AnyEntry>;
    type Completion: cqueue::EntryMarker;
    /// Operations that the kernel must support.
    const NEEDED: &'static [u8];

    /// Encodes the operation on what remains of `piece`.
    fn describe(&self, piece: &mut Piece, link: Link<'_>) -> Self::Submission;

    /// The result of such an operation: the number of bytes moved, or the error.
    fn outcome(&self, piece: &Piece, result: i32) -> io::Result<usize>;
}

/// An entry of a submission queue, of either size.
pub(crate) enum AnyEntry {
    Small(squeue::Entry),
    Big(squeue::Entry128),
}

impl From<squeue::Entry> for AnyEntry {
    fn from(entry: squeue::Entry) -> Self {
        Self::Small(entry)
    }
}

impl From<squeue::Entry128> for AnyEntry {
    fn from(entry: squeue::Entry128) -> Self {
        Self::Big(entry)
    }
}

/// Any [`Wire`], for a ring that carries several. The same rule holds for what it returns.
pub(crate) trait AnyWire: Send + Sync {
    fn needed(&self) -> &'static [u8];
    /// Whether its entries are [`AnyEntry::Big`].
    fn is_big(&self) -> bool;
    fn describe(&self, piece: &mut Piece, link: Link<'_>) -> AnyEntry;
    fn outcome(&self, piece: &Piece, result: i32) -> io::Result<usize>;
}

impl<W: Wire> AnyWire for W {
    fn needed(&self) -> &'static [u8] {
        W::NEEDED
    }

    fn is_big(&self) -> bool {
        size_of::<W::Submission>() > size_of::<squeue::Entry>()
    }

    fn describe(&self, piece: &mut Piece, link: Link<'_>) -> AnyEntry {
        Wire::describe(self, piece, link).into()
    }

    fn outcome(&self, piece: &Piece, result: i32) -> io::Result<usize> {
        Wire::outcome(self, piece, result)
    }
}

/// Operations on a regular file or a block device.
#[derive(Debug, Default)]
pub(crate) struct FileWire {
    block: bool,
    /// Whether writes carry the write streams of their handles.
    streams: bool,
    /// The kernel cannot discard through a ring.
    cannot_discard: AtomicBool,
}

impl FileWire {
    pub(crate) fn new(block: bool, streams: bool) -> Self {
        Self { block, streams, cannot_discard: AtomicBool::new(false) }
    }

    /// The write stream of a handle. Stream 1 is the drive's first placement handle, which also takes writes without a
    /// stream. So stream 1 is not used, and handle 0 has no stream.
    fn stream(&self, handle: u16) -> u8 {
        match handle {
            0 => 0,
            _ if !self.streams => 0,
            // The device has at most 254 handles, and the request's handle was checked.
            handle => u8::try_from(handle + 1).unwrap_or(0),
        }
    }

    fn discards(&self) -> bool {
        self.block && !self.cannot_discard.load(Ordering::Relaxed)
    }

    fn deallocate(&self, file: types::Fd, offset: u64, bytes: u64) -> squeue::Entry {
        if self.discards() {
            // The kernel reads the length as a native `u64`.
            let command = zerocopy::transmute!([bytes, 0]);
            return opcode::UringCmd16::new(file, BLOCK_DISCARD)
                .addr(Some(offset))
                .cmd(command)
                .build();
        }
        // On a block device this issues a command that writes zeros, which drives treat as a deallocation.
        opcode::Fallocate::new(file, bytes)
            .offset(offset)
            .mode(i32::try_from(sys::PUNCH_HOLE.bits()).unwrap_or(0))
            .build()
    }
}

impl Wire for FileWire {
    type Submission = squeue::Entry;
    type Completion = cqueue::Entry;
    const NEEDED: &'static [u8] = &[
        opcode::Nop::CODE,
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Readv::CODE,
        opcode::Writev::CODE,
        opcode::Fallocate::CODE,
        opcode::Fsync::CODE,
    ];

    fn describe(&self, piece: &mut Piece, link: Link<'_>) -> squeue::Entry {
        let (file, offset, bytes) = (link.file, piece.offset(), piece.call_bytes());
        // A piece with memory is at most as long as the largest transfer, which is a `u32`.
        let len = u32::try_from(bytes).unwrap_or(u32::MAX);
        let durable = if piece.is_durable() { sys::DURABLE_WRITE.cast_signed() } else { 0 };
        let (verb, stream) = (piece.verb(), self.stream(piece.handle()));
        if let Some(vectors) = piece.vectors() {
            // At most as many as one call may name. The array belongs to the piece and has the layout of `struct
            // iovec`.
            let count = u32::try_from(vectors.len()).unwrap_or(u32::MAX);
            let vectors = vectors.as_ptr().cast();
            let entry = match verb {
                Verb::Read => opcode::Readv::new(file, vectors, count).offset(offset).build(),
                _ => opcode::Writev::new(file, vectors, count)
                    .offset(offset)
                    .write_stream(stream)
                    .rw_flags(durable)
                    .build(),
            };
            return entry.flags(link.flags).user_data(link.slot);
        }
        let memory = piece.memory().as_mut_ptr();
        let entry = match (verb, link.entry) {
            (Verb::Read, None) => opcode::Read::new(file, memory, len).offset(offset).build(),
            (Verb::Read, Some(entry)) => {
                opcode::ReadFixed::new(file, memory, len, entry).offset(offset).build()
            }
            (Verb::Write, None) => opcode::Write::new(file, memory, len)
                .offset(offset)
                .write_stream(stream)
                .rw_flags(durable)
                .build(),
            (Verb::Write, Some(entry)) => opcode::WriteFixed::new(file, memory, len, entry)
                .offset(offset)
                .write_stream(stream)
                .rw_flags(durable)
                .build(),
            (Verb::Deallocate, _) => self.deallocate(file, offset, bytes),
            (Verb::Zero, _) => opcode::Fallocate::new(file, bytes)
                .offset(offset)
                .mode(i32::try_from(sys::ZERO_RANGE.bits()).unwrap_or(0))
                .build(),
            (Verb::Flush, _) => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        };
        entry.flags(link.flags).user_data(link.slot)
    }

    fn outcome(&self, piece: &Piece, result: i32) -> io::Result<usize> {
        let Ok(count) = usize::try_from(result) else {
            let error = io::Error::from_raw_os_error(-result);
            if piece.verb() == Verb::Deallocate && self.discards() && sys::is_unknown(&error) {
                self.cannot_discard.store(true, Ordering::Relaxed);
                return Err(io::ErrorKind::Interrupted.into());
            }
            return Err(error);
        };
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stream_is_not_handed_out() {
        let wire = FileWire::new(true, true);
        assert_eq!([0, 1, 2, 7].map(|handle| wire.stream(handle)), [0, 2, 3, 8]);
        assert_eq!(FileWire::new(true, false).stream(3), 0);
    }
}
