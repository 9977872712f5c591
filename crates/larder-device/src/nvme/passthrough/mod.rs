//! An NVMe namespace, or a partition of one, as a device past the block layer. Commands go through io_uring to the
//! character device of the namespace (Linux 5.19; root only before 6.2).
//!
//! The kernel checks only the sender of such a command. So this module adds a partition's start and enforces its end.
//! As long as the device is open, it holds its block device open exclusively, so that no other program can mount it or
//! remove the partition.

mod wire;

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder_ssd::nvme::Command;
use larder_ssd::nvme::namespace::{PAGE_BYTES, cns, decode_format_in_use, decode_metadata_in_use};

use super::commands::{CommandError, Commands};
use super::ioctl::DriveFile;
use super::node::Node;
use super::survey::{Silence, Survey, read_controller};
use crate::buffer::{BufferPool, IoBuffer};
use crate::device::{Device, DeviceIdentity, Extent};
use crate::error::{Error, ErrorKind};
use crate::file::engine::Engine;
use crate::file::setup::claim;
use crate::file::uring::Uring;
use crate::file_options::{FileOptions, IoEngine, SAFE_BLOCK_BYTES};
use crate::identity::Identity;
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture};
use crate::placement::PlacementInfo;
use crate::sys;
use crate::transfer::Pieces;
use crate::transfer::ledger::Ledger;
use wire::NvmeWire;

/// Most logical blocks of one command.
const BLOCKS_MAX: u64 = 1 << 16;

const WRITE_ZEROES_NEEDED: &str =
    "its blocks carry metadata, and it has no Write Zeroes: format it without metadata";

/// Name of this way of placement.
pub(crate) const PATH: &str = "NVMe passthrough";

/// A namespace, or a part of one, that gets NVMe commands directly. Dropping it waits for the requests in flight.
///
/// Where the namespace has metadata in a separate buffer, without protection information, requests may carry metadata.
/// A deallocated range reads as whatever the drive returns. A list of buffers takes one command per buffer.
pub struct PassthroughDevice {
    info: DeviceInfo,
    identity: DeviceIdentity,
    engine: Uring<NvmeWire>,
    ledger: Arc<Ledger>,
    deallocated_at_once_max: u64,
    /// 0 if the drive has no such command, or the kernel knows that the command does not work.
    zeroed_at_once_max: u64,
    /// Metadata buffers for requests without metadata, where the drive needs some.
    lent: BufferPool,
    generic_path: PathBuf,
    /// Holds the block device exclusively; closed last.
    _claim: File,
}

impl PassthroughDevice {
    /// Opens the namespace or part that `node` stands for. Of `options`, the capacity, the longest transfer and the
    /// queue limits apply. With `placing`, each handle is one of the namespace's placement handles in its first reclaim
    /// group. If the drive cannot place, that is no error: the device then has one handle.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] with the reason if the namespace cannot be used this way: it has no character device, the
    /// user has no permission, it is in use, its blocks have an unsupported size, its metadata are not free for use
    /// (they follow the blocks, or have protection information), or io_uring is refused or too old.
    pub fn open(node: &Node, options: &FileOptions, placing: bool) -> Result<Self, Error> {
        let name = node.generic_path.clone().unwrap_or_else(|| node.block_path.clone());
        let refuse = |why: String| refusal(&name, &why);
        if let Some(complaint) = options.complaint() {
            return Err(refuse(complaint));
        }
        if options.engine == IoEngine::Threads {
            return Err(refuse("commands travel through io_uring, not through threads".to_owned()));
        }
        let Some(generic_path) = node.generic_path.clone() else {
            return Err(refuse("the kernel has made no character device (ng…) of it".to_owned()));
        };
        if node.read_only {
            return Err(refuse("it can only be read".to_owned()));
        }
        let claim = claim(&node.block_path, options.lock_wait, options.read_only)?;
        let drive = DriveFile::open(&generic_path, true)
            .map_err(|error| refuse(format!("opening it: {error}")))?;
        let metadata_bytes = check_format(&drive, node).map_err(&refuse)?;
        let placement = if placing { placement(&drive, node).map_err(&refuse)? } else { None };
        let (placement, placement_ids) = placement.unwrap_or((PlacementInfo::none(), vec![0]));
        let capacity_bytes = capacity(node, options).map_err(&refuse)?;
        let block_shift = node.block_bytes.trailing_zeros();
        let first = node.range.start >> block_shift;
        let wire = NvmeWire {
            nsid: node.nsid,
            block_shift,
            first,
            end: first + (capacity_bytes >> block_shift),
            placement_ids: placement_ids.into(),
            metadata_bytes,
            volatile_cache: !node.volatile_cache.is_none(),
        };
        let file = File::options().read(true).write(true).open(&generic_path);
        let file = file.map_err(|error| refuse(format!("opening it: {error}")))?;
        let engine = Uring::new(wire, &Arc::new(file), options)
            .map_err(|error| refuse(format!("io_uring with large entries is refused: {error}")))?;
        let largest = transfer_bytes(node, options);
        let name = node.block_path.display().to_string();
        let info = DeviceInfo {
            placement,
            volatile_cache: node.volatile_cache,
            atomic_write_bytes: node.atomic_write_bytes,
            metadata_bytes,
            keeps_metadata: metadata_bytes > 0,
            identity: Identity::of_path(&generic_path),
            ..DeviceInfo::new(name, capacity_bytes, node.block_bytes, largest)
        };
        let ledger = Ledger::new(info.name.clone(), info.placement.handles);
        let ledger = ledger.in_blocks(info.block_bytes);
        let ledger = ledger.shown_at(sys::shown_at(&claim));
        let zeroed_at_once_max = zeroed_at_once_max(&drive, node);
        if zeroed_at_once_max == 0 && metadata_bytes > 0 {
            return Err(refuse(WRITE_ZEROES_NEEDED.to_owned()));
        }
        let ledger = if zeroed_at_once_max == 0 { ledger.writing_zeroes() } else { ledger };
        let ledger = Arc::new(ledger);
        let deallocated_at_once_max = node.max_deallocation_bytes >> block_shift << block_shift;
        Ok(Self {
            info,
            identity: DeviceIdentity::draw(),
            engine,
            ledger,
            deallocated_at_once_max,
            zeroed_at_once_max,
            lent: BufferPool::new(),
            generic_path,
            _claim: claim,
        })
    }

    /// The character device that takes the commands.
    pub fn generic_path(&self) -> &Path {
        &self.generic_path
    }

    /// Whether buffers are registered with the kernel, as in
    /// [`FileDevice::registered_buffers`](crate::FileDevice::registered_buffers).
    pub fn registered_buffers(&self) -> bool {
        self.engine.registered_buffers()
    }
}

impl PassthroughDevice {
    /// Adds metadata to a request without any: a command that moves blocks must name memory for them. A write then
    /// writes zeros as metadata.
    fn with_metadata(&self, io: Io) -> Io {
        let lend = |buffer: IoBuffer| {
            if !self.info.keeps_metadata || buffer.metadata().is_some() {
                return buffer;
            }
            let blocks = buffer.len() / self.info.block_bytes as usize;
            let mut metadata = self.lent.take(blocks * usize::from(self.info.metadata_bytes));
            metadata.as_mut_slice().fill(0);
            buffer.lent_metadata(metadata)
        };
        match io {
            Io::Read { offset, buffer } => Io::Read { offset, buffer: lend(buffer) },
            Io::Write { offset, buffer, handle, durability } => {
                Io::Write { offset, buffer: lend(buffer), handle, durability }
            }
            io => io,
        }
    }
}

impl Device for PassthroughDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let piece_bytes = self.info.max_transfer_bytes;
        let io = self.with_metadata(io.into_inner());
        let pieces = Pieces::new(io, completer, piece_bytes, &self.ledger);
        let pieces = pieces.deallocating_at_most(self.deallocated_at_once_max);
        // A command can name one run of memory only.
        self.engine.submit(pieces.zeroing_at_most(self.zeroed_at_once_max).of_one_buffer_each());
        future
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats { fixed_buffer_pieces: self.engine.fixed_pieces(), ..self.ledger.stats() }
    }

    /// As for a file: a loss of power of the drive alone, while the computer runs, is not noticed.
    fn boot(&self) -> Option<u64> {
        sys::boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        vec![Extent::on(self.identity, range)]
    }
}

impl std::fmt::Debug for PassthroughDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassthroughDevice")
            .field("info", &self.info)
            .field("generic_path", &self.generic_path)
            .finish_non_exhaustive()
    }
}

fn refusal(name: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Setup, format!("passthrough to {}: {why}", name.display()))
}

/// Longest transfer of one command, in whole blocks.
fn transfer_bytes(node: &Node, options: &FileOptions) -> u32 {
    let shift = node.block_bytes.trailing_zeros();
    let largest = u64::from(node.max_transfer_bytes.min(options.max_transfer_bytes));
    let largest = largest.min(BLOCKS_MAX << shift);
    let largest = (largest >> shift << shift).max(u64::from(node.block_bytes));
    u32::try_from(largest).unwrap_or(node.block_bytes)
}

/// Capacity of the device in bytes: what was asked for, or the whole range rounded down to a multiple of 4096.
fn capacity(node: &Node, options: &FileOptions) -> Result<u64, String> {
    let present = node.range.end - node.range.start;
    let whole = present - present % u64::from(SAFE_BLOCK_BYTES);
    let wanted = options.capacity_bytes.unwrap_or(whole);
    if !wanted.is_multiple_of(u64::from(node.block_bytes)) {
        return Err(format!(
            "capacity_bytes of {wanted}: must be a multiple of the {}-byte block of the namespace",
            node.block_bytes
        ));
    }
    if wanted == 0 || wanted > present {
        return Err(format!("it has {present} bytes but {wanted} were asked for"));
    }
    Ok(wanted)
}

/// Most bytes that one command may zero. 0 where the controller has no such command (ONCS) or does not answer, or where
/// the kernel knows that the command does not work.
fn zeroed_at_once_max(drive: &dyn Commands, node: &Node) -> u64 {
    let shift = node.block_bytes.trailing_zeros();
    let most = node.max_zeroing_bytes.min(BLOCKS_MAX << shift) >> shift << shift;
    match read_controller(drive) {
        Ok(controller) if controller.writes_zeroes => most,
        _ => 0,
    }
}

/// Checks what the drive reports of its blocks against sysfs, on which all addresses are based. Returns the bytes of
/// metadata per block.
fn check_format(drive: &dyn Commands, node: &Node) -> Result<u16, String> {
    let mut page = [0; PAGE_BYTES];
    let denied = |error: CommandError| match error {
        error if error.is_denied() => {
            format!("the kernel refuses NVMe commands to this user ({error}); run as root")
        }
        error => format!("identifying the namespace: {error}"),
    };
    drive.admin(&Command::identify(node.nsid, cns::NAMESPACE), &mut page).map_err(denied)?;
    let (blocks, block_bytes, metadata) =
        decode_format_in_use(&page).ok_or("what it says of its blocks makes no sense")?;
    let block_bytes = u64::from(block_bytes);
    let in_use = decode_metadata_in_use(&page).filter(|_| metadata > 0);
    if in_use.is_some_and(|in_use| in_use.is_extended) {
        return Err(format!(
            "its blocks carry {metadata} bytes of metadata behind them (FLBAS bit 4); format it with metadata in a \
             buffer of their own, or without"
        ));
    }
    if let Some(protection) = in_use.map(|in_use| in_use.protection).filter(|type_of| *type_of > 0)
    {
        return Err(format!(
            "its blocks carry protection information of type {protection} (DPS); format it without"
        ));
    }
    if block_bytes != u64::from(node.block_bytes) || !(512..=4096).contains(&block_bytes) {
        return Err(format!(
            "its blocks have {block_bytes} bytes, the kernel's {}; blocks of 512 to 4096 bytes can \
             be used",
            node.block_bytes
        ));
    }
    let end = blocks.saturating_mul(block_bytes);
    if node.range.end > end || !node.range.start.is_multiple_of(block_bytes) {
        let std::ops::Range { start, end: wanted } = node.range.clone();
        return Err(format!(
            "bytes {start} to {wanted} are not inside the namespace of {end} bytes"
        ));
    }
    Ok(metadata)
}

/// What placement the namespace offers, and the placement identifiers of its handles; `None` if it cannot place.
fn placement(
    drive: &dyn Commands,
    node: &Node,
) -> Result<Option<(PlacementInfo, Vec<u16>)>, String> {
    let survey = Survey::read(drive, node.nsid);
    let asking = |silence: Silence| format!("asking for its placement handles: {silence}");
    if !survey.enabled().map_err(asking)? {
        return Ok(None);
    }
    let handles = survey.device_handles().map_err(asking)?;
    let ids: Vec<u16> = handles.iter().map(|handle| handle.placement_id).collect();
    if ids.len() < 2 || ids[0] != 0 {
        return Ok(None);
    }
    let info = PlacementInfo {
        handles: u16::try_from(ids.len()).unwrap_or(u16::MAX),
        groups: 1,
        reclaim_unit_bytes: survey.configuration().ok().map(|it| it.unit_bytes),
        isolation: survey.isolation(),
        path: PATH,
    };
    Ok(Some((info, ids)))
}

#[cfg(test)]
mod tests;
