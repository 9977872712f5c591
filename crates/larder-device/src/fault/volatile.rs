//! What a loss of power may still undo: unflushed writes, sector by sector, and the content below them.
//!
//! The device below always holds the live image. For every sector that an unflushed write touched, `under` is what a
//! crash leaves that loses all of these writes, and `newer` are the versions that they wrote, in order. A crash leaves
//! one of these versions in each sector, by one of three rules that it draws:
//!
//! | rule | what becomes of a sector |
//! |---|---|
//! | by write | each write is kept, lost, or torn after some sector; later ones lie over earlier ones |
//! | by sector | each version is kept or lost by itself, with a chance drawn for this crash; the latest kept stays |
//! | any version | one of all, equally likely: also an older one where later ones reached other sectors |
//!
//! A sector is what no loss of power tears: 512 bytes, 8 for memory, or what the plan says. Where the device keeps
//! metadata, a sector is at least a block with its metadata.

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::IoBuffer;
use crate::device::Device;
use crate::error::Error;
use crate::info::DeviceInfo;
use crate::io::Io;
use crate::placement::PlacementHandle;

/// If more bytes than this are unflushed, the oldest writes count as durable, whatever their number: drives' caches are
/// limited, and so is memory.
const UNFLUSHED_BYTES_MAX: usize = 64 << 20;

/// Bytes that the fault device moved for its own purposes, not for the host.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Housekeeping {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// What crashes did to the unflushed writes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Fates {
    pub(super) kept: u64,
    pub(super) lost: u64,
    pub(super) torn: u64,
}

/// Number of a recorded write. Later writes have higher numbers.
pub(super) type WriteId = u64;

/// The writes that a flush makes durable: those that had completed when it was submitted.
#[derive(Clone, Default)]
pub(super) struct FlushCoverage {
    /// Writes before this number are covered.
    pub(super) before: WriteId,
    /// Exceptions: carried out, but their owners had not been told.
    pub(super) but: BTreeSet<WriteId>,
}

/// The volatile part of a device.
pub(super) struct Volatile {
    sector_bytes: usize,
    /// Bytes of metadata of the blocks of a sector.
    beside_bytes: usize,
    writes_max: usize,
    next: WriteId,
    /// The unflushed writes.
    writes: BTreeMap<WriteId, WrittenExtent>,
    /// The sectors that they touch, by index.
    sectors: BTreeMap<u64, Sector>,
    /// Total bytes of `writes`.
    unflushed_bytes: usize,
    pub(super) housekeeping: Housekeeping,
}

/// The sectors of a write.
#[derive(Clone, Copy)]
struct WrittenExtent {
    first: u64,
    sectors: u64,
}

/// The content of whole sectors.
#[derive(Clone)]
struct SectorContent {
    bytes: Vec<u8>,
    metadata: Vec<u8>,
}

/// The versions of a sector, each followed by its metadata.
struct Sector {
    under: Box<[u8]>,
    /// At least one.
    newer: Vec<(WriteId, Box<[u8]>)>,
}

/// What a crash does to the versions of a sector.
enum Rule {
    /// This number of sectors of each write is kept, from its first on.
    ByWrite(BTreeMap<WriteId, u64>),
    /// Each version is kept with this chance.
    BySector(f64),
    AnyVersion,
}

impl Volatile {
    pub(super) fn new(writes_max: usize, sector_bytes: usize, beside_bytes: usize) -> Self {
        Self {
            sector_bytes,
            beside_bytes,
            writes_max,
            next: 0,
            writes: BTreeMap::new(),
            sectors: BTreeMap::new(),
            unflushed_bytes: 0,
            housekeeping: Housekeeping::default(),
        }
    }

    /// The number of the next write.
    pub(super) fn next(&self) -> WriteId {
        self.next
    }

    /// Records a write before it reaches `device`. `None` if nothing can undo it.
    pub(super) fn record(
        &mut self,
        device: &dyn Device,
        offset: u64,
        (bytes, metadata): (&[u8], Option<&[u8]>),
    ) -> Result<Option<WriteId>, Error> {
        if self.writes_max == 0 {
            return Ok(None);
        }
        let size = self.sector_bytes as u64;
        // A block is whole sectors or a sector whole blocks. The atomic unit may be longer than the write.
        let (first, end) = (offset / size, (offset + bytes.len() as u64).div_ceil(size));
        let (start, length) = (first * size, (end - first) * size);
        let there = self.read(device, start, length)?;
        let mut after = there.clone();
        let at = usize::try_from(offset - start).unwrap_or(0);
        after.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let block_bytes = device.info().block_bytes as usize;
        let beside = |at: usize| at / block_bytes * self.beside_of(block_bytes);
        let room = &mut after.metadata[beside(at)..beside(at + bytes.len())];
        match metadata {
            Some(metadata) => room.copy_from_slice(metadata),
            None => room.fill(0),
        }
        let id = self.next;
        self.next += 1;
        let (old, new) = (self.sectors_of(&there), self.sectors_of(&after));
        for (index, (old, new)) in (first..).zip(old.into_iter().zip(new)) {
            let fresh = || Sector { under: old, newer: Vec::new() };
            self.sectors.entry(index).or_insert_with(fresh).newer.push((id, new));
        }
        self.writes.insert(id, WrittenExtent { first, sectors: end - first });
        self.unflushed_bytes += after.bytes.len();
        while self.writes.len() > self.writes_max
            || (self.unflushed_bytes > UNFLUSHED_BYTES_MAX && self.writes.len() > 1)
        {
            let Some((&oldest, _)) = self.writes.first_key_value() else { break };
            self.became_durable(oldest);
        }
        Ok(Some(id))
    }

    fn read(
        &mut self,
        device: &dyn Device,
        offset: u64,
        bytes: u64,
    ) -> Result<SectorContent, Error> {
        let inside = bytes.min(device.info().capacity_bytes - offset);
        let buffer = room_for(device.info(), usize::try_from(inside).unwrap_or(0));
        let read = device.submit(Io::Read { offset, buffer }).wait();
        self.housekeeping.read_bytes += inside;
        let read = read.map_err(|failure| failure.error)?;
        let mut bytes_read = read.as_slice().to_vec();
        bytes_read.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let mut metadata = read.metadata().unwrap_or_default().to_vec();
        metadata.resize(bytes_read.len() / self.sector_bytes * self.beside_bytes, 0);
        Ok(SectorContent { bytes: bytes_read, metadata })
    }

    /// Bytes of metadata of a block.
    fn beside_of(&self, block_bytes: usize) -> usize {
        self.beside_bytes * block_bytes / self.sector_bytes
    }

    /// Each sector followed by its metadata.
    fn sectors_of(&self, content: &SectorContent) -> Vec<Box<[u8]>> {
        let sectors = content.bytes.chunks_exact(self.sector_bytes).enumerate();
        let whole = |(number, sector): (usize, &[u8])| {
            let at = number * self.beside_bytes;
            [sector, &content.metadata[at..at + self.beside_bytes]].concat().into()
        };
        sectors.map(whole).collect()
    }

    /// The writes that `covers` names have become durable.
    pub(super) fn flushed(&mut self, covers: &FlushCoverage) {
        let before = self.writes.range(..covers.before).map(|(id, _)| *id);
        let covered: Vec<WriteId> = before.filter(|id| !covers.but.contains(id)).collect();
        for id in covered {
            self.became_durable(id);
        }
    }

    /// One write has become durable. No older version of its sectors can come back.
    pub(super) fn became_durable(&mut self, id: WriteId) {
        // Earlier writes keep the sectors that it did not touch, later ones keep all of theirs.
        if let Some(extent) = self.writes.remove(&id) {
            self.settle(extent, id + 1);
        }
    }

    /// A write of these sectors is no longer unflushed: no version of them before `end` can be undone.
    fn settle(&mut self, extent: WrittenExtent, end: WriteId) {
        self.unflushed_bytes -= usize::try_from(extent.sectors).unwrap_or(0) * self.sector_bytes;
        for index in extent.first..extent.first + extent.sectors {
            let Some(sector) = self.sectors.get_mut(&index) else { continue };
            let later = sector.newer.partition_point(|(id, _)| *id < end);
            if let Some((_, bytes)) = sector.newer.drain(..later).next_back() {
                sector.under = bytes;
            }
            if sector.newer.is_empty() {
                self.sectors.remove(&index);
            }
        }
    }

    /// Power is lost: draws what becomes of each sector and brings `device` to the surviving image.
    pub(super) fn crash(
        &mut self,
        device: &dyn Device,
        rng: &mut fastrand::Rng,
    ) -> Result<Fates, Error> {
        let writes = std::mem::take(&mut self.writes);
        let sectors = std::mem::take(&mut self.sectors);
        self.unflushed_bytes = 0;
        if writes.is_empty() {
            return Ok(Fates::default());
        }
        let rule = Rule::draw(&writes, rng);
        // Number of sectors of each write that hold its version or a later one.
        let mut held: BTreeMap<WriteId, u64> = BTreeMap::new();
        for (index, sector) in sectors {
            let kept = rule.of(index, &sector, &writes, rng);
            let upto = kept.map_or(0, |kept| sector.newer[kept].0 + 1);
            for (id, _) in sector.newer.iter().filter(|(id, _)| *id < upto) {
                *held.entry(*id).or_default() += 1;
            }
            let is_live = kept == Some(sector.newer.len() - 1);
            if !is_live {
                let bytes = kept.map_or(&sector.under, |kept| &sector.newer[kept].1);
                self.put_back(device, index, bytes)?;
            }
        }
        let mut fates = Fates::default();
        for (id, extent) in writes {
            match held.get(&id).copied().unwrap_or(0) {
                0 => fates.lost += 1,
                all if all >= extent.sectors => fates.kept += 1,
                _ => fates.torn += 1,
            }
        }
        Ok(fates)
    }

    /// Writes one sector with its metadata, within its block if that is longer.
    fn put_back(&mut self, device: &dyn Device, index: u64, sector: &[u8]) -> Result<(), Error> {
        let info = device.info();
        let (bytes, metadata) = sector.split_at(self.sector_bytes);
        let block = u64::from(info.block_bytes);
        let offset = index * bytes.len() as u64;
        let start = offset - offset % block;
        let end = (offset + bytes.len() as u64).next_multiple_of(block).min(info.capacity_bytes);
        let mut whole = self.read(device, start, end - start)?;
        let at = usize::try_from(offset - start).unwrap_or(0);
        let count = bytes.len().min(whole.bytes.len() - at);
        whole.bytes[at..at + count].copy_from_slice(&bytes[..count]);
        let mut buffer = room_for(info, whole.bytes.len());
        buffer.as_mut_slice().copy_from_slice(&whole.bytes);
        if let Some(beside) = buffer.metadata_mut() {
            // A sector with metadata is whole blocks and begins at a block.
            beside.copy_from_slice(&metadata[..beside.len()]);
        }
        let handle = PlacementHandle::DEFAULT;
        let write = device.submit(Io::write(start, buffer, handle)).wait();
        self.housekeeping.written_bytes += whole.bytes.len() as u64;
        write.map(drop).map_err(|failure| failure.error)
    }
}

/// A buffer for `bytes` bytes of a device, whole blocks, with their metadata if it keeps any.
pub(super) fn room_for(info: &DeviceInfo, bytes: usize) -> IoBuffer {
    let buffer = IoBuffer::zeroed(bytes);
    if !info.keeps_metadata {
        return buffer;
    }
    let metadata = bytes / info.block_bytes as usize * usize::from(info.metadata_bytes);
    buffer.with_metadata(IoBuffer::zeroed(metadata))
}

impl Rule {
    fn draw(writes: &BTreeMap<WriteId, WrittenExtent>, rng: &mut fastrand::Rng) -> Self {
        match rng.u8(..3) {
            0 => {
                let kept = |(&id, extent): (&WriteId, &WrittenExtent)| (id, extent.draw_kept(rng));
                Self::ByWrite(writes.iter().map(kept).collect())
            }
            1 => Self::BySector([0.1, 0.5, 0.9][rng.usize(..3)]),
            _ => Self::AnyVersion,
        }
    }

    /// The version of a sector that survives; `None`: the content below all of them.
    fn of(
        &self,
        index: u64,
        sector: &Sector,
        writes: &BTreeMap<WriteId, WrittenExtent>,
        rng: &mut fastrand::Rng,
    ) -> Option<usize> {
        match self {
            Self::ByWrite(kept) => sector.newer.iter().rposition(|(id, _)| {
                let (Some(extent), Some(kept)) = (writes.get(id), kept.get(id)) else {
                    return false;
                };
                index - extent.first < *kept
            }),
            Self::BySector(chance) => {
                let kept: Vec<bool> = sector.newer.iter().map(|_| rng.f64() < *chance).collect();
                kept.iter().rposition(|kept| *kept)
            }
            Self::AnyVersion => rng.usize(..=sector.newer.len()).checked_sub(1),
        }
    }
}

impl WrittenExtent {
    /// How many of a write's sectors survive. A write of a single sector survives whole or not at all.
    fn draw_kept(&self, rng: &mut fastrand::Rng) -> u64 {
        match rng.u8(..3) {
            0 => 0,
            1 if self.sectors > 1 => rng.u64(1..self.sectors),
            _ => self.sectors,
        }
    }
}
