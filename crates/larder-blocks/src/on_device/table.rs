//! Which block is in which region, and how much of it is written.
//!
//! 1. A region belongs to one block, or is free, or is being freed. It is free again only when the record of the
//!    freeing is durable and its bytes are deallocated. So freed bytes never come back under a new block.
//! 2. `written ≤ logged`: `written` is what records on flash say, `logged` what those say that were handed to the
//!    journal.
//! 3. Records of a block are handed over in the order of its bytes, whatever the order in which the writes end.

use std::collections::{BTreeMap, VecDeque};

use larder_device::{Completer, Error, IoBuffer};

use super::page::{RECORDS_MAX, Record};

/// The blocks of the store.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) blocks: BTreeMap<u64, MappedBlock>,
    pub(super) free: VecDeque<u32>,
}

/// A block and its region.
#[derive(Debug)]
pub(super) struct MappedBlock {
    pub(super) region: u32,
    pub(super) stream: u16,
    pub(super) tag: u64,
    pub(super) written: u64,
    logged: u64,
    /// Appends that are being written, or are written before an earlier one was, by offset.
    pieces: BTreeMap<u64, PendingAppend>,
    /// The offset of the first failed append: no append from there on lands.
    failed: Option<u64>,
    /// The request that frees the block, while it waits for the appends.
    freeing: Option<Completer>,
}

/// An append in flight.
#[derive(Debug)]
pub(super) struct PendingAppend {
    pub(super) at: u64,
    pub(super) end: u64,
    /// The result of the write of its bytes; `None` until it has ended.
    pub(super) ended: Option<Result<IoBuffer, (Error, IoBuffer)>>,
    pub(super) completer: Completer,
}

/// Consequences of the end of a write, to be handled without a lock.
#[derive(Debug, Default)]
pub(super) struct DueWork {
    /// Appends that go to the journal, in this order.
    pub(super) landed: Vec<PendingAppend>,
    /// Appends that have failed.
    pub(super) failed: Vec<PendingAppend>,
    /// The freeing that no longer waits.
    pub(super) freeing: Option<Completer>,
}

impl MappedBlock {
    pub(super) fn new(region: u32, stream: u16, tag: u64, written: u64) -> Self {
        Self {
            region,
            stream,
            tag,
            written,
            logged: written,
            pieces: BTreeMap::new(),
            failed: None,
            freeing: None,
        }
    }

    /// The bytes of an append are about to be written.
    pub(super) fn begin(&mut self, piece: PendingAppend) {
        debug_assert!(piece.at >= self.logged, "{piece:?} was written before");
        let before = self.pieces.insert(piece.at, piece);
        assert!(before.is_none(), "the ledger admits one append at a place: {before:?}");
    }

    /// The write of an append's bytes has ended.
    pub(super) fn ended(&mut self, at: u64, ended: Result<IoBuffer, (Error, IoBuffer)>) -> DueWork {
        let mut due = DueWork::default();
        let piece = self.pieces.get_mut(&at).expect("it was begun");
        piece.ended = Some(ended);
        while let Some(first) = self.pieces.first_entry().filter(|it| it.get().ended.is_some()) {
            let at = *first.key();
            if at != self.logged && self.failed.is_none() {
                break;
            }
            let piece = first.remove();
            if matches!(piece.ended, Some(Err(_))) {
                self.fail(at);
            }
            if self.has_failed(at) {
                due.failed.push(piece);
            } else {
                self.logged = piece.end;
                due.landed.push(piece);
            }
        }
        due.freeing = if self.pieces.is_empty() { self.freeing.take() } else { None };
        due
    }

    /// The append at `at` failed: it does not land, and no append after it does.
    pub(super) fn fail(&mut self, at: u64) {
        self.failed = Some(self.failed.map_or(at, |from| from.min(at)));
    }

    /// Whether the append at `at`, or one before it, failed.
    pub(super) fn has_failed(&self, at: u64) -> bool {
        self.failed.is_some_and(|from| from <= at)
    }

    /// Begins to free the block. Returns the completer if nothing is in flight.
    pub(super) fn free(&mut self, completer: Completer) -> Option<Completer> {
        if self.pieces.is_empty() {
            return Some(completer);
        }
        debug_assert!(self.freeing.is_none(), "the ledger admits one freeing");
        self.freeing = Some(completer);
        None
    }
}

impl Table {
    /// A table with `regions` regions, all free.
    pub(super) fn empty(regions: u64) -> Self {
        let regions = u32::try_from(regions).expect("it was checked");
        Self { blocks: BTreeMap::new(), free: (0..regions).collect() }
    }

    /// Applies a record.
    ///
    /// # Errors
    /// Says what is impossible in a journal of ours.
    pub(super) fn apply(&mut self, record: Record, block_bytes: u64) -> Result<(), String> {
        let complain = |what: &str| Err(format!("{what} by {record:?}"));
        match record {
            Record::Allocated { block, region, stream, tag, bytes } => {
                if self.blocks.contains_key(&block) || bytes > block_bytes {
                    return complain("a block is made twice, or too long");
                }
                self.blocks.insert(block, MappedBlock::new(region, stream, tag, bytes));
            }
            Record::Written { block, bytes } => match self.blocks.get_mut(&block) {
                Some(mapped) if (mapped.written..=block_bytes).contains(&bytes) => {
                    mapped.written = bytes;
                    mapped.logged = mapped.logged.max(bytes);
                }
                _ => return complain("a block that is not there, or is longer, is written"),
            },
            Record::Freed { block } => {
                if self.blocks.remove(&block).is_none() {
                    return complain("a block that is not there is freed");
                }
            }
        }
        Ok(())
    }

    /// Called after all records were applied: regions without a block are free. Fails if two blocks share a region.
    pub(super) fn settle(&mut self, regions: u64) -> Result<(), String> {
        let regions = u32::try_from(regions).map_err(|_| "too many regions".to_owned())?;
        let mut taken = vec![false; regions as usize];
        for (block, mapped) in &self.blocks {
            match taken.get_mut(mapped.region as usize) {
                Some(taken) if !*taken => *taken = true,
                _ => {
                    return Err(format!("block {block} is in region {} of another", mapped.region));
                }
            }
        }
        self.free = (0..regions).filter(|&region| !taken[region as usize]).collect();
        Ok(())
    }

    /// The whole table, as pages of records.
    pub(super) fn snapshot(&self) -> Vec<Vec<Record>> {
        let records = self.blocks.iter().map(|(&block, mapped)| {
            let MappedBlock { region, stream, tag, written, .. } = *mapped;
            Record::Allocated { block, region, stream, tag, bytes: written }
        });
        records.collect::<Vec<_>>().chunks(RECORDS_MAX).map(<[Record]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::ErrorKind;
    use larder_device::IoFuture;

    fn begin(mapped: &mut MappedBlock, at: u64) {
        let (_, completer) = IoFuture::pending();
        mapped.begin(PendingAppend { at, end: at + 4096, ended: None, completer });
    }

    fn places(pieces: &[PendingAppend]) -> Vec<u64> {
        pieces.iter().map(|piece| piece.at).collect()
    }

    fn failure() -> Result<IoBuffer, (Error, IoBuffer)> {
        Err((Error::new(ErrorKind::Io, "a test"), IoBuffer::empty()))
    }

    /// Two threads may be admitted in order and get here the other way round. A record of the second append would then
    /// say that the bytes of the first are written.
    #[test]
    fn no_append_lands_before_one_in_front_of_it_that_has_not_even_begun() {
        let mut mapped = MappedBlock::new(0, 0, 0, 4096);
        begin(&mut mapped, 8192);
        let due = mapped.ended(8192, Ok(IoBuffer::empty()));
        assert_eq!((places(&due.landed), places(&due.failed)), (vec![], vec![]));
        begin(&mut mapped, 12288);
        begin(&mut mapped, 4096);
        let due = mapped.ended(4096, Ok(IoBuffer::empty()));
        assert_eq!(places(&due.landed), [4096, 8192]);
        let due = mapped.ended(12288, Ok(IoBuffer::empty()));
        assert_eq!(places(&due.landed), [12288]);
    }

    #[test]
    fn what_failed_takes_those_behind_it_along_and_none_in_front() {
        let mut mapped = MappedBlock::new(0, 0, 0, 0);
        begin(&mut mapped, 4096);
        let due = mapped.ended(4096, failure());
        assert_eq!(places(&due.failed), [], "the append in front is decided first");
        begin(&mut mapped, 0);
        begin(&mut mapped, 8192);
        let due = mapped.ended(0, Ok(IoBuffer::empty()));
        assert_eq!((places(&due.landed), places(&due.failed)), (vec![0], vec![4096]));
        let due = mapped.ended(8192, Ok(IoBuffer::empty()));
        assert_eq!((places(&due.landed), places(&due.failed)), (vec![], vec![8192]));
    }
}
