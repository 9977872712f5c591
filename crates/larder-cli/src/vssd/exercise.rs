//! `larder vssd exercise`: a tenant that writes, so that there is wear to look at.

use std::sync::atomic::{AtomicU64, Ordering};

use larder_blocks::{BlockId, BlockStore, Stream, VssdArray, VssdBlocks};
use larder_device::IoBuffer;
use larder_vssd::{Isolation, VssdId, VssdInfo};
use larder_workload::Error;
use serde::Serialize;

use super::image::{known, open, refused};
use super::levelling::InService;
use super::output::{deliver, human, json_target};
use crate::args::ExerciseArgs;
use crate::bars;
use crate::ending::Ending;

#[derive(Debug, Default, Serialize)]
struct ExerciseReport {
    vssd: u32,
    appended_bytes: u64,
    compared_bytes: u64,
    allocated_blocks: u64,
    freed_blocks: u64,
    /// Bytes written to the media for it, including moves of failed blocks.
    media_written_bytes: Option<u64>,
    /// Blocks that it had on dies of other vSSDs.
    borrowed_blocks: u64,
    /// Of those, the ones whose loans have ended before it freed them.
    vanished_blocks: u64,
    /// Bytes that it has written to them.
    borrowed_written_bytes: u64,
    /// Erases of them, which wear out the dies of their lenders.
    borrowed_erases: u64,
}

pub(super) fn run(arguments: &ExerciseArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let (array, _) = open(&arguments.image)?;
    let id = known(&array, arguments.vssd)?;
    let store = array.store(id).map_err(|error| refused("vSSD", &error))?;
    if arguments.borrow {
        borrow(&array, id)?;
    }
    let in_service = InService::start(&array, &arguments.image.image, &arguments.levelling)?;
    let page = u64::from(store.info().page_bytes);
    if !arguments.append.is_multiple_of(page) || arguments.append > store.info().block_bytes {
        let block = store.info().block_bytes;
        return Err(Error::usage(format!(
            "--append {}: must be pages of {page} bytes, and at most a block, {block}",
            arguments.append
        )));
    }
    let appended = AtomicU64::new(0);
    #[allow(clippy::cast_precision_loss)]
    let share = || {
        let appended = appended.load(Ordering::Relaxed);
        (appended as f64 / arguments.bytes as f64, human(appended))
    };
    let mut exercise =
        Exercise { store: &store, arguments, done: ExerciseReport::default(), appended: &appended };
    bars::watch_share("exercise", &share, || exercise.run())?;
    let mut done = exercise.done;
    drop(in_service);
    done.vssd = id.0;
    done.media_written_bytes = store.stats().media_written_bytes;
    note_loans(&array, id, &mut done)?;
    array.sync().map_err(|error| refused("image", &error))?;
    let mut text = format!(
        "vSSD {}: {} appended, {} read back and compared, {} blocks allocated, {} freed\n",
        done.vssd,
        human(done.appended_bytes),
        human(done.compared_bytes),
        done.allocated_blocks,
        done.freed_blocks
    );
    if arguments.borrow {
        text += &format!(
            "borrowed: {} blocks, {} written there, {} of them vanished, {} erases on dies of others\n",
            done.borrowed_blocks,
            human(done.borrowed_written_bytes),
            done.vanished_blocks,
            done.borrowed_erases
        );
    }
    deliver(json, &text, &done)?;
    Ok(Ending::Complete)
}

/// Lets all others that have dies of their own lend to `id`.
fn borrow(array: &VssdArray, id: VssdId) -> Result<(), Error> {
    let own = |info: &VssdInfo| {
        matches!(info.request.isolation, Isolation::Channel | Isolation::Die) && info.id != id
    };
    let lenders: Vec<VssdInfo> = array.list().into_iter().filter(own).collect();
    if lenders.is_empty() {
        return Err(Error::usage(
            "--borrow: no other vSSD has channels or dies of its own; `larder vssd create` makes one",
        ));
    }
    for lender in lenders {
        array.lend_of(lender.id, true).map_err(|error| refused("lending", &error))?;
    }
    array.borrow_for(id, true).map_err(|error| refused("--borrow", &error))
}

fn note_loans(array: &VssdArray, id: VssdId, done: &mut ExerciseReport) -> Result<(), Error> {
    let loans = array.loans().map_err(|error| refused("loans", &error))?;
    if let Some(of) = loans.tenants.iter().find(|tenant| tenant.id == id) {
        done.borrowed_blocks = of.totals.begun;
        done.vanished_blocks = of.totals.called_back + of.totals.expired;
        done.borrowed_written_bytes = of.written_bytes;
        done.borrowed_erases = of.totals.erases;
    }
    Ok(())
}

struct Exercise<'a> {
    store: &'a VssdBlocks,
    arguments: &'a ExerciseArgs,
    done: ExerciseReport,
    appended: &'a AtomicU64,
}

impl Exercise<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let keep = (self.store.info().blocks * self.arguments.keep / 100).max(1);
        while self.done.appended_bytes < self.arguments.bytes {
            // The oldest first: numbers grow.
            let listed = self.store.list();
            let open = listed.last().filter(|state| {
                state.written_bytes < self.store.info().block_bytes && !state.closed
            });
            let open = open.map(|state| (state.block, state.tag, state.written_bytes));
            let (block, tag, written) = match open {
                Some(open) => open,
                None => {
                    let over = (listed.len() as u64 + 1).saturating_sub(keep);
                    for state in listed.iter().take(usize::try_from(over).unwrap_or(usize::MAX)) {
                        let freed = self.store.free(state.block).wait();
                        freed.map_err(|failure| refused("freeing", &failure.error))?;
                        self.done.freed_blocks += 1;
                    }
                    let tag = self.arguments.seed;
                    let block = match self.arguments.borrow {
                        true => self.store.alloc_clean(Stream::DEFAULT, tag).wait(),
                        false => self.store.alloc(Stream::DEFAULT, tag).wait(),
                    };
                    self.done.allocated_blocks += 1;
                    (block.map_err(|error| refused("allocation", &error))?, tag, 0)
                }
            };
            self.fill(block, tag, written)?;
        }
        Ok(())
    }

    /// Fills a block, or writes as much as is left to write, and compares it.
    fn fill(&mut self, block: BlockId, tag: u64, mut at: u64) -> Result<(), Error> {
        let begin = at;
        let end = self.store.info().block_bytes;
        while at < end && self.done.appended_bytes < self.arguments.bytes {
            let bytes = self.arguments.append.min(end - at);
            let buffer = content(block, tag, at, bytes);
            let append = self.store.append(block, at, buffer).wait();
            append.map_err(|failure| refused("append", &failure.error))?;
            at += bytes;
            self.done.appended_bytes += bytes;
            self.appended.store(self.done.appended_bytes, Ordering::Relaxed);
        }
        if at > begin {
            self.compare(block, tag, begin, at - begin)?;
        }
        Ok(())
    }

    fn compare(&mut self, block: BlockId, tag: u64, at: u64, bytes: u64) -> Result<(), Error> {
        let expected = content(block, tag, at, bytes);
        let read = self.store.read(block, at, IoBuffer::zeroed(expected.len())).wait();
        if read.is_err() && self.store.is_gone(block) {
            return Ok(());
        }
        let read = read.map_err(|failure| refused("read", &failure.error))?;
        if read.as_slice() != expected.as_slice() {
            return Err(Error::run(format!("block {block} has other bytes than were appended")));
        }
        self.done.compared_bytes += bytes;
        Ok(())
    }
}

/// Content that depends on the place: block, seed and offset of each 8 bytes.
fn content(block: BlockId, seed: u64, at: u64, bytes: u64) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(usize::try_from(bytes).unwrap_or(0));
    let mut place = at;
    for word in buffer.as_mut_slice().chunks_exact_mut(8) {
        let mixed =
            (block.number() ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
        word.copy_from_slice(&mixed.to_le_bytes());
        place += 8;
    }
    buffer
}
