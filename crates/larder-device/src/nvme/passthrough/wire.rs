//! Pieces as NVMe commands, and the meaning of their statuses.

use std::io;

use io_uring::{cqueue, opcode, squeue};
use larder_ssd::nvme::command::{RANGE_BYTES, encode_range, encode_uring_with_metadata};
use larder_ssd::nvme::{Command, Status};

use crate::ring::wire::{Link, Wire};
use crate::transfer::{Piece, Verb};

/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`, which has 72 bytes.
const URING_IO: u32 = 0xc048_4e80;

/// The part of a namespace that a device uses, in logical blocks.
#[derive(Debug, Clone)]
pub(super) struct NvmeWire {
    pub(super) nsid: u32,
    /// Binary logarithm of the bytes of a logical block.
    pub(super) block_shift: u32,
    /// The first logical block of our part, and the first one after it.
    pub(super) first: u64,
    pub(super) end: u64,
    /// The placement identifier of each handle; the default handle, 0, needs none.
    pub(super) placement_ids: Box<[u16]>,
    /// Bytes of metadata per block. Each command that moves blocks must have memory for them.
    pub(super) metadata_bytes: u16,
    /// Whether the drive has, or may have, a cache that loses its content without power.
    pub(super) volatile_cache: bool,
}

impl NvmeWire {
    /// The command for `bytes` bytes at `at`, and its blocks. `None` if it would leave our part of the namespace. A
    /// `durable` write forces unit access (FUA).
    fn command(
        &self,
        (verb, durable): (Verb, bool),
        (at, bytes): (u64, u64),
        handle: u16,
    ) -> Option<(Command, BlockExtent)> {
        let extent = self.extent(at, bytes)?;
        let BlockExtent { first, blocks } = extent;
        let command = match verb {
            Verb::Read => Command::read(self.nsid, first, blocks),
            Verb::Write => {
                let id = match handle {
                    0 => None,
                    handle => Some(*self.placement_ids.get(usize::from(handle))?),
                };
                let write = Command::write(self.nsid, first, blocks, id);
                if durable { write.forcing_unit_access() } else { write }
            }
            Verb::Deallocate => Command::deallocate(self.nsid, 1),
            Verb::Zero => Command::write_zeroes(self.nsid, first, blocks),
            Verb::Flush => Command::flush(self.nsid),
        };
        Some((command, extent))
    }

    /// The logical blocks of the namespace for a range of the device; `None` if they are not all within our part.
    fn extent(&self, at: u64, bytes: u64) -> Option<BlockExtent> {
        let first = self.first.checked_add(at >> self.block_shift)?;
        let blocks = u32::try_from(bytes >> self.block_shift).ok()?;
        let whole = (at | bytes) & ((1 << self.block_shift) - 1) == 0;
        let inside = first.checked_add(u64::from(blocks)).is_some_and(|end| end <= self.end);
        (whole && inside).then_some(BlockExtent { first, blocks })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockExtent {
    first: u64,
    blocks: u32,
}

/// A command that a drive answers with "invalid opcode" and that moves nothing, for pieces that must not be sent.
/// `Io::check` stops them before they get here.
const NOTHING: Command = Command { opcode: 0x7f, nsid: 0, cdw: [0; 6] };

impl Wire for NvmeWire {
    type Submission = squeue::Entry128;
    type Completion = cqueue::Entry32;
    const NEEDED: &'static [u8] = &[opcode::Nop::CODE, opcode::UringCmd80::CODE];

    fn describe(&self, piece: &mut Piece, link: Link<'_>) -> squeue::Entry128 {
        let (verb, at, bytes) = (piece.verb(), piece.offset(), piece.call_bytes());
        let (command, extent) = self
            .command((verb, piece.is_durable() && self.volatile_cache), (at, bytes), piece.handle())
            .unwrap_or((NOTHING, BlockExtent { first: 0, blocks: 0 }));
        let metadata = piece.metadata();
        let metadata = (metadata.as_mut_ptr().expose_provenance(), metadata.len());
        // Without an address for the metadata, the drive would use an arbitrary one.
        let moves = matches!(verb, Verb::Read | Verb::Write);
        let wanted = extent.blocks as usize * usize::from(self.metadata_bytes);
        let command = if moves && metadata.1 != wanted { NOTHING } else { command };
        let (address, length) = match verb {
            _ if command == NOTHING => (0, 0),
            Verb::Read | Verb::Write => {
                let memory = piece.memory();
                (memory.as_mut_ptr().expose_provenance(), memory.len())
            }
            Verb::Deallocate => {
                let encoded = encode_range(extent.first, extent.blocks);
                *link.range = zerocopy::transmute!(encoded);
                (link.range.as_mut_ptr().expose_provenance(), RANGE_BYTES)
            }
            Verb::Zero | Verb::Flush => (0, 0),
        };
        // Both fit: an address has at most 64 bits, and a piece is at most the largest transfer.
        let length = u32::try_from(length).unwrap_or(0);
        let metadata = match u32::try_from(metadata.1).unwrap_or(0) {
            bytes if bytes > 0 && command != NOTHING => (metadata.0 as u64, bytes),
            _ => (0, 0),
        };
        let mut area = [0; 80];
        let encoded = encode_uring_with_metadata(&command, (address as u64, length), metadata);
        area[..encoded.len()].copy_from_slice(&encoded);
        opcode::UringCmd80::new(link.file, URING_IO)
            .cmd(area)
            .buf_index(link.entry)
            .build()
            .flags(link.flags)
            .user_data(link.slot)
    }

    /// A command moves all of its bytes or ends with a status.
    fn outcome(&self, piece: &Piece, result: i32) -> io::Result<usize> {
        match u16::try_from(result) {
            Ok(0) => Ok(usize::try_from(piece.call_bytes()).unwrap_or(usize::MAX)),
            Ok(bits) => Err(meaning(Status::from_bits(bits))),
            Err(_) => Err(io::Error::from_raw_os_error(result.wrapping_neg())),
        }
    }
}

/// A status as an error: its kind for code that decides what to do next, its name for messages.
fn meaning(status: Status) -> io::Error {
    let kind = match status {
        Status::CapacityExceeded => io::ErrorKind::StorageFull,
        Status::InvalidNamespace => io::ErrorKind::NotConnected,
        Status::InvalidOpcode => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("NVMe status {status}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::io::{Io, IoFuture};
    use crate::transfer::ledger::Ledger;
    use crate::transfer::{PieceStep, Pieces};
    use crate::{ErrorKind, PlacementHandle};

    fn wire() -> NvmeWire {
        let placement_ids = vec![0, 4, 9].into();
        NvmeWire {
            nsid: 3,
            block_shift: 9,
            first: 1000,
            end: 1000 + 64,
            placement_ids,
            metadata_bytes: 0,
            volatile_cache: true,
        }
    }

    #[test]
    fn a_write_goes_to_its_part_of_the_namespace_with_its_identifier() {
        let (command, _) = wire().command((Verb::Write, false), (4096, 8192), 2).unwrap();
        assert_eq!(command, Command::write(3, 1008, 16, Some(9)));
        let (command, _) = wire().command((Verb::Write, false), (0, 4096), 0).unwrap();
        assert_eq!(command, Command::write(3, 1000, 8, None));
        let (durable, _) = wire().command((Verb::Write, true), (0, 4096), 0).unwrap();
        assert_eq!(durable.cdw12(), command.cdw12() | 1 << 30, "FUA");
        assert_eq!(
            wire().command((Verb::Write, false), (0, 4096), 3),
            None,
            "there is no such handle"
        );
    }

    #[test]
    fn nothing_leaves_the_part_of_the_namespace() {
        let wire = wire();
        assert_eq!(wire.extent(28 << 10, 4096), Some(BlockExtent { first: 1056, blocks: 8 }));
        assert_eq!(wire.extent(28 << 10, 8192), None);
        assert_eq!(wire.extent(32 << 10, 4096), None);
        assert_eq!(wire.extent(u64::MAX - 511, 512), None);
        assert_eq!(wire.extent(100, 512), None);
        assert_eq!(wire.extent(0, 100), None);
    }

    fn ended(io: Io, result: i32) -> crate::IoResult {
        let (future, completer) = IoFuture::pending();
        let ledger = Arc::new(Ledger::new("test".to_owned(), 1));
        let mut pieces = Pieces::new(io, completer, 1 << 20, &ledger);
        let mut piece = pieces.next().unwrap();
        assert_eq!(piece.settle(wire().outcome(&piece, result)), PieceStep::End);
        drop((piece, pieces));
        future.wait()
    }

    #[test]
    fn statuses_are_named_and_errors_told_apart() {
        let read = || Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) };
        assert!(ended(read(), 0).is_ok());
        let failure = ended(read(), 0x4281).unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::Io);
        assert!(failure.to_string().contains("SCT 2h, SC 81h"), "{failure}");
        let handle = PlacementHandle::DEFAULT;
        let write = Io::write(0, IoBuffer::zeroed(4096), handle);
        assert_eq!(ended(write, 0x81).unwrap_err().error.kind(), ErrorKind::NoSpace);
        for gone in [-6, -19, 0x0b] {
            assert_eq!(ended(read(), gone).unwrap_err().error.kind(), ErrorKind::Gone, "{gone}");
        }
        assert!(ended(Io::Deallocate { offset: 0, bytes: 4096 }, 1).is_ok(), "it is a hint");
    }

    /// Each command has the metadata of its own blocks.
    #[test]
    fn a_request_that_is_cut_has_its_metadata_cut_between_the_same_blocks() {
        let (future, completer) = IoFuture::pending();
        let ledger = Arc::new(Ledger::new("test".to_owned(), 1));
        let mut metadata = IoBuffer::zeroed(20 * 64);
        for (block, own) in (0..).zip(metadata.as_mut_slice().chunks_mut(64)) {
            own.fill(block);
        }
        let buffer = IoBuffer::zeroed(20 * 512).lent_metadata(metadata);
        let io = Io::write(0, buffer, PlacementHandle::DEFAULT);
        let pieces = Pieces::new(io, completer, 8 * 512, &ledger);
        let mut seen = Vec::new();
        for mut piece in pieces {
            seen.push((piece.metadata()[0], piece.metadata().len()));
            let bytes = usize::try_from(piece.call_bytes()).unwrap();
            assert_eq!(piece.settle(Ok(bytes)), PieceStep::End);
        }
        assert_eq!(seen, [(0, 8 * 64), (8, 8 * 64), (16, 4 * 64)]);
        let back = future.wait().unwrap();
        assert_eq!((back.len(), back.metadata()), (20 * 512, None), "what was lent is taken back");
    }
}
