//! The write-ahead log of a cache of lines. The state of lines is written there, many lines in one block, instead of
//! the pages of the table. Little-endian.
//!
//! ```text
//!  block of the device
//!  offset  bytes  field
//!       0      4  magic "LBWJ"
//!       4      2  version of the formats
//!       6      2  n: number of entries, at least 1
//!       8      4  CRC-32C of the cache's UUID (16 bytes), the block's number in the ring (4 bytes) and bytes 12 to the
//!                 last entry's end
//!      12      4  reserved, 0
//!      16      8  sequence: grows by 1 with each block
//!      24         entries: line (4 bytes), then its record as in the table
//! ```
//!
//! The position of a block in the ring follows from its sequence: the sequence less 1, modulo the number of blocks. So
//! after a failed write, the old block at that position is recognized as left over from an earlier round: younger
//! entries of its lines may be lost.
//!
//! The blocks are a ring of two halves. An entry contains the whole state of its line. So the entries of a ring may be
//! applied to an older or younger table: the last entry of a line counts. Before a half is overwritten, the pages of
//! its entries have been written to the table, durably.
//!
//! *Always:* for each line, the ring has its last entry, or the table has the state from that entry.

#![deny(clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::ops::Range;

use larder_device::IoBuffer;
use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::geometry::Geometry;
use super::table::Table;
use crate::layout::Data;

const MAGIC: [u8; 4] = *b"LBWJ";
const CHECKED_FROM: usize = 12;
const HEADER_BYTES: usize = size_of::<JournalHeader>();
const LINE_BYTES: usize = size_of::<U32>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct JournalHeader {
    magic: [u8; 4],
    version: U16,
    entries: U16,
    checksum: U32,
    reserved: U32,
    sequence: U64,
}

/// The position of the next block, and the pages of the table that are older than the ring.
#[derive(Debug)]
pub(super) struct Journal {
    uuid: [u8; 16],
    blocks: u32,
    block_bytes: usize,
    entry_bytes: usize,
    /// The number of the block that is written next.
    next: u32,
    sequence: u64,
    /// A write of blocks is in flight: one at a time, so that the entries of a line stay in order.
    pub(super) is_writing: bool,
    /// By half: pages of the table that its entries concern, and that were not written since.
    stale: [BTreeSet<u32>; 2],
    /// The half whose pages are being written to the table, and the progress.
    copying: Option<(usize, Copying)>,
    /// A copy has failed. It is not retried before [`OcfLayout`](super::OcfLayout) is told to.
    pub(super) is_stuck: bool,
}

/// The progress of a copy to the table.
#[derive(Debug)]
struct Copying {
    pages: BTreeSet<u32>,
    outstanding: u32,
    has_failed: bool,
    is_flushing: bool,
}

/// The next step of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopyStep {
    /// Wait for the other I/Os.
    None,
    Flush,
    /// The copy has ended.
    End,
}

impl Journal {
    pub(super) fn new(geometry: &Geometry, uuid: [u8; 16]) -> Self {
        Self {
            uuid,
            blocks: geometry.journal_blocks(),
            block_bytes: geometry.block_bytes as usize,
            entry_bytes: LINE_BYTES + geometry.record_bytes(),
            next: 0,
            sequence: 1,
            is_writing: false,
            stale: Default::default(),
            copying: None,
            is_stuck: false,
        }
    }

    /// The sequence of the last block.
    pub(super) fn last_sequence(&self) -> u64 {
        self.sequence - 1
    }

    fn entries_per_block(&self) -> usize {
        (self.block_bytes - HEADER_BYTES) / self.entry_bytes
    }

    fn half_of(&self, block: u32) -> usize {
        usize::from(block >= self.blocks / 2)
    }

    /// The half that contains the next block.
    pub(super) fn half(&self) -> usize {
        self.half_of(self.next)
    }

    /// Whether the next block may be written: it must not begin a half with entries that the table lacks.
    pub(super) fn may_write(&self) -> bool {
        let begins_half = self.next.is_multiple_of(self.blocks / 2);
        let is_blocked = begins_half && self.is_stale(self.half());
        !self.is_writing && !is_blocked
    }

    /// Whether the table lacks entries of a half.
    pub(super) fn is_stale(&self, half: usize) -> bool {
        let is_copied = self.copying.as_ref().is_some_and(|(copied, _)| *copied == half);
        is_copied || self.stale.get(half).is_some_and(|pages| !pages.is_empty())
    }

    /// The number of lines that fit up to the end of the half, and into `max_blocks` blocks.
    pub(super) fn room(&self, max_blocks: u32) -> usize {
        let half = self.blocks / 2;
        let left = half - self.next % half;
        left.min(max_blocks) as usize * self.entries_per_block()
    }

    /// Encodes blocks with the current state of these lines. Returns the position of the first block in the ring, and
    /// the blocks. There must be room.
    pub(super) fn encode(&mut self, table: &Table, lines: &[u32]) -> (u32, Data) {
        let (first, half) = (self.next, self.half());
        let blocks = lines.chunks(self.entries_per_block());
        let mut buffer = IoBuffer::zeroed(blocks.len() * self.block_bytes);
        for (lines, block) in blocks.zip(buffer.as_mut_slice().chunks_exact_mut(self.block_bytes)) {
            self.encode_block(table, lines, block);
            self.sequence += 1;
            self.next += 1;
        }
        debug_assert_eq!(half, self.half_of(self.next - 1), "within a half");
        self.next %= self.blocks;
        (first, Data::new(buffer))
    }

    fn encode_block(&self, table: &Table, lines: &[u32], block: &mut [u8]) {
        let mut header = JournalHeader {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            entries: u16::try_from(lines.len()).expect("within a block").into(),
            checksum: 0.into(),
            reserved: 0.into(),
            sequence: self.sequence.into(),
        };
        let (head, rest) = block.split_at_mut(HEADER_BYTES);
        let (entries, _) = rest.split_at_mut(lines.len() * self.entry_bytes);
        for (line, entry) in lines.iter().zip(entries.chunks_exact_mut(self.entry_bytes)) {
            let (number, record) = entry.split_at_mut(LINE_BYTES);
            number.copy_from_slice(&line.to_le_bytes());
            record.copy_from_slice(table.record(*line));
        }
        header.checksum = self.checksum(self.next, header.as_bytes(), entries).into();
        head.copy_from_slice(header.as_bytes());
    }

    fn checksum(&self, number: u32, header: &[u8], entries: &[u8]) -> u32 {
        let identity = larder_checksum::crc32c_append(
            larder_checksum::crc32c(&self.uuid),
            &number.to_le_bytes(),
        );
        let checked = header.get(CHECKED_FROM..).unwrap_or_default();
        larder_checksum::crc32c_append(larder_checksum::crc32c_append(identity, checked), entries)
    }

    /// The sequence and the entries of a block that was read; `None` if it is not a block of this cache.
    pub(super) fn parse<'a>(
        &self,
        number: u32,
        block: &'a [u8],
    ) -> Option<(u64, impl Iterator<Item = (u32, &'a [u8])> + use<'a>)> {
        let (header, rest) = JournalHeader::ref_from_prefix(block).ok()?;
        let bytes = usize::from(header.entries.get()) * self.entry_bytes;
        let entries = rest.get(..bytes).filter(|entries| !entries.is_empty())?;
        let is_one = header.magic == MAGIC
            && header.version.get() == FORMAT_VERSION
            && header.reserved.get() == 0
            && header.checksum.get() == self.checksum(number, header.as_bytes(), entries);
        let entry = |entry: &'a [u8]| {
            let (line, record) = entry.split_first_chunk()?;
            Some((u32::from_le_bytes(*line), record))
        };
        let entries = entries.chunks_exact(self.entry_bytes).filter_map(entry);
        // Sequences above 2^63 were never written.
        let sequence = Some(header.sequence.get()).filter(|sequence| {
            let before = sequence.wrapping_sub(1);
            sequence >> 63 == 0 && before % u64::from(self.blocks) == u64::from(number)
        });
        sequence.filter(|_| is_one).map(|sequence| (sequence, entries))
    }

    /// Whether a block of `sequence` is from an earlier round than the last block.
    pub(super) fn is_left_over(&self, sequence: u64, last: u64) -> bool {
        sequence + u64::from(self.blocks) <= last
    }

    /// Continues after a block that was found. The last call counts.
    pub(super) fn goes_on_behind(&mut self, block: u32, sequence: u64) {
        (self.next, self.sequence) = ((block + 1) % self.blocks, sequence.saturating_add(1));
    }

    /// An entry of a block concerns a line of this page.
    pub(super) fn is_of(&mut self, block: u32, page: u32) {
        let half = self.half_of(block);
        if let Some(pages) = self.stale.get_mut(half) {
            pages.insert(page);
        }
    }

    /// Begins to copy the missing entries of a half to the table. Returns the pages to write, in runs of at most
    /// `run_pages`.
    pub(super) fn begin_copying(&mut self, half: usize, run_pages: u32) -> Vec<Range<u32>> {
        if self.copying.is_some() || self.is_stuck {
            return Vec::new();
        }
        let pages = self.stale.get_mut(half).map(std::mem::take).unwrap_or_default();
        let mut runs: Vec<Range<u32>> = Vec::new();
        for &page in &pages {
            match runs.last_mut() {
                Some(run) if run.end == page && page - run.start < run_pages => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        if let Ok(outstanding @ 1..) = u32::try_from(runs.len()) {
            let copying = Copying { pages, outstanding, has_failed: false, is_flushing: false };
            self.copying = Some((half, copying));
        }
        runs
    }

    /// An I/O of the copy has ended.
    pub(super) fn copy_went_on(&mut self, is_well: bool) -> CopyStep {
        let Some((half, mut copying)) = self.copying.take() else { return CopyStep::End };
        copying.outstanding -= 1;
        copying.has_failed |= !is_well;
        let step = match (copying.outstanding, copying.has_failed, copying.is_flushing) {
            (1.., ..) => CopyStep::None,
            (0, true, _) => {
                if let Some(pages) = self.stale.get_mut(half) {
                    pages.append(&mut copying.pages);
                }
                self.is_stuck = true;
                return CopyStep::End;
            }
            (0, false, false) => {
                (copying.is_flushing, copying.outstanding) = (true, 1);
                CopyStep::Flush
            }
            (0, false, true) => return CopyStep::End,
        };
        self.copying = Some((half, copying));
        step
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::CoreLine;
    use super::super::version::OcfVersion;
    use super::*;

    const UUID: [u8; 16] = *b"a cache's UUID..";
    const GEOMETRY: Geometry = Geometry {
        version: OcfVersion::Wal,
        offset: 0,
        lines: 1000,
        line_bytes: 16384,
        block_bytes: 512,
    };

    fn table() -> Table {
        let mut table = Table::new(&GEOMETRY, UUID);
        for line in 0..GEOMETRY.lines {
            table.set_core_line(line, CoreLine { core: 7, number: u64::from(line) << 20 });
            table.set_maps(line, u128::MAX >> 96, u128::from(line));
        }
        table
    }

    type Entries = (u64, Vec<(u32, Vec<u8>)>);

    fn parsed(journal: &Journal, number: u32, block: &[u8]) -> Option<Entries> {
        let (sequence, entries) = journal.parse(number, block)?;
        Some((sequence, entries.map(|(line, record)| (line, record.to_vec())).collect()))
    }

    #[test]
    fn entries_are_read_where_they_were_written_and_by_whom() {
        let (table, mut journal) = (table(), Journal::new(&GEOMETRY, UUID));
        let lines: Vec<u32> = (0..60).map(|number| number * 16).collect();
        let (first, data) = journal.encode(&table, &lines);
        assert_eq!((first, data.len()), (0, 3 * 512), "24 entries of 20 bytes are in a block");
        let mut found = Vec::new();
        for (number, block) in (0..).zip(data.bytes().chunks(512)) {
            let (sequence, entries) = parsed(&journal, number, block).unwrap();
            assert_eq!(sequence, u64::from(number) + 1);
            found.extend(entries);
            assert!(parsed(&journal, number + 1, block).is_none(), "elsewhere");
            let other = Journal::new(&GEOMETRY, *b"another cache...");
            assert!(parsed(&other, number, block).is_none(), "another's");
        }
        let own = lines.iter().map(|line| (*line, table.record(*line).to_vec()));
        assert!(found.into_iter().eq(own));
        let (next, _) = journal.encode(&table, &[1]);
        assert_eq!(next, 3);
    }

    #[test]
    fn no_bit_flip_and_no_cut_passes() {
        let (table, mut journal) = (table(), Journal::new(&GEOMETRY, UUID));
        let (_, data) = journal.encode(&table, &[5, 6]);
        let used = HEADER_BYTES + 2 * 20;
        for bit in 0..used * 8 {
            let mut flipped = data.bytes().to_vec();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert!(parsed(&journal, 0, &flipped).is_none(), "bit {bit}");
        }
        for length in 0..used {
            let cut = data.bytes().get(..length).unwrap();
            assert!(parsed(&journal, 0, cut).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn a_half_is_written_again_when_the_table_has_it() {
        let (table, mut journal) = (table(), Journal::new(&GEOMETRY, UUID));
        let blocks = journal.blocks;
        for number in 0..blocks {
            assert!(journal.may_write(), "{number} of {blocks}");
            let (first, _) = journal.encode(&table, &[3]);
            journal.is_of(first, 0);
        }
        assert!(!journal.may_write(), "its first half is in no page");
        assert!(journal.begin_copying(0, 256).into_iter().eq(std::iter::once(0..1)));
        assert_eq!(journal.begin_copying(1, 256), [], "one at a time");
        assert_eq!(journal.copy_went_on(true), CopyStep::Flush);
        assert!(!journal.may_write(), "not durable yet");
        assert_eq!(journal.copy_went_on(false), CopyStep::End);
        assert!(journal.is_stuck && !journal.may_write());
        journal.is_stuck = false;
        assert!(journal.begin_copying(0, 256).into_iter().eq(std::iter::once(0..1)));
        assert_eq!(journal.copy_went_on(true), CopyStep::Flush);
        assert_eq!(journal.copy_went_on(true), CopyStep::End);
        assert!(journal.may_write() && journal.is_left_over(1, u64::from(blocks) + 1));
    }
}
