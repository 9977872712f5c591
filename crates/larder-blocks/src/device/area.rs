//! Front and tail: pages that are written in any order, stored as batches in blocks that are written in order.
//!
//! Changes that come while a batch is in flight form the next batch. A page is where the latest durable batch has it.
//! The map records that, and opening the device rebuilds the map from the headers. Pages that are written with
//! different placement handles lie in different blocks, so a batch has pages of one handle. When blocks run out, the
//! one with the fewest live pages is cleaned (`writer.rs`).
//!
//! 1. One batch is in flight at a time, whether with a host's pages or with cleaning's. So sequence numbers say which
//!    of two batches is later.
//! 2. A request ends when the batch with the last of its pages is durable, and only then are its pages read.
//! 3. A block is freed when it has no live page, and all pages that were live in it are durable elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Uuid;
use larder_device::{Error, ErrorKind, IoBuffer, IoFailure, IoFuture, IoResult};

use super::counts::Counters;
use super::map::{PageContent, PageMap};
use super::queue::Queue;
use super::shape::{PAGE, PAGE_BYTES, Shape};
use crate::info::BlockId;
use crate::store::BlockStore;

/// The pages of a device on blocks: where they are, and the changes that wait for a batch.
pub(super) struct Area {
    pub(super) store: Arc<dyn BlockStore>,
    pub(super) shape: Shape,
    pub(super) uuid: Uuid,
    pub(super) counters: Arc<Counters>,
    state: Mutex<AreaState>,
}

pub(super) struct AreaState {
    pub(super) map: PageMap,
    /// Changes that wait for a batch, in order.
    pub(super) queue: Queue,
}

/// Pages that lie one after the other in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Position of the first among the wanted pages.
    skip: u32,
    count: u32,
    block: BlockId,
    at: u32,
}

impl Area {
    pub(super) fn new(
        (store, shape, uuid): (Arc<dyn BlockStore>, Shape, Uuid),
        counters: Arc<Counters>,
        map: PageMap,
    ) -> Self {
        let state = AreaState { map, queue: Queue::default() };
        Self { store, shape, uuid, counters, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, AreaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `buffer`, which is whole pages long.
    pub(super) async fn read(self: Arc<Self>, first: u32, mut buffer: IoBuffer) -> IoResult {
        let count = u32::try_from(buffer.len() / PAGE_BYTES).expect("it was checked");
        let mut wanted = vec![(0, count)];
        while let Some((skip, count)) = wanted.pop() {
            let runs = self.runs(first + skip, count);
            if let [run] = runs[..]
                && run.count == count
                && buffer.len() == count as usize * PAGE_BYTES
            {
                match self.store.read(run.block, u64::from(run.at) * PAGE, buffer).await {
                    Ok(buffer) => return Ok(buffer),
                    Err(failure) => {
                        buffer = failure.buffer;
                        if let Err(error) = self.look_again(first, run, failure.error, &mut wanted)
                        {
                            return Err(IoFailure { error, buffer });
                        }
                    }
                }
                continue;
            }
            self.zero_between(&runs, (skip, count), &mut buffer);
            let under_way: Vec<(Run, IoFuture)> =
                runs.into_iter().map(|run| (run, self.start_reading(run))).collect();
            for (run, read) in under_way {
                let run = Run { skip: skip + run.skip, ..run };
                match read.await {
                    Ok(read) => buffer.copy_in(run.skip as usize * PAGE_BYTES, read.as_slice()),
                    Err(failure) => {
                        if let Err(error) = self.look_again(first, run, failure.error, &mut wanted)
                        {
                            return Err(IoFailure { error, buffer });
                        }
                    }
                }
            }
        }
        Ok(buffer)
    }

    fn start_reading(&self, run: Run) -> IoFuture {
        let buffer = IoBuffer::zeroed(run.count as usize * PAGE_BYTES);
        self.store.read(run.block, u64::from(run.at) * PAGE, buffer)
    }

    /// Where these pages are. Pages between the runs are zeros.
    fn runs(&self, first: u32, count: u32) -> Vec<Run> {
        let state = self.lock();
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        for skip in 0..count {
            let PageContent::At(block, at) = state.map.get(first + skip) else { continue };
            match runs.last_mut() {
                Some(run)
                    if run.block == block
                        && run.at + run.count == at
                        && run.skip + run.count == skip =>
                {
                    run.count += 1;
                }
                _ => runs.push(Run { skip, count: 1, block, at }),
            }
        }
        runs
    }

    fn zero_between(&self, runs: &[Run], (skip, count): (u32, u32), buffer: &mut IoBuffer) {
        let zeros = [0; PAGE_BYTES];
        let mut runs = runs.iter().peekable();
        for page in 0..count {
            while runs.peek().is_some_and(|run| run.skip + run.count <= page) {
                runs.next();
            }
            if runs.peek().is_none_or(|run| page < run.skip) {
                buffer.copy_in((skip + page) as usize * PAGE_BYTES, &zeros);
            }
        }
    }

    /// Handles a failed read. If its block was cleaned and freed while the read ran, the pages are elsewhere now, and
    /// must be read again.
    fn look_again(
        &self,
        first: u32,
        run: Run,
        error: Error,
        wanted: &mut Vec<(u32, u32)>,
    ) -> Result<(), Error> {
        let still = (0..run.count).any(|it| {
            self.lock().map.get(first + run.skip + it) == PageContent::At(run.block, run.at + it)
        });
        if error.kind() != ErrorKind::NotOpen || still {
            return Err(error);
        }
        wanted.push((run.skip, run.count));
        Ok(())
    }
}
