//! A thread of a store: the steps that it has yet to make on the drive.

use std::collections::{HashMap, VecDeque};

use larder_blocks::BlockId;
use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{MemoryImages, Pages};

use super::super::failed;
use super::places::{Part, Places};
use super::recorded::Step;
use crate::Error;

/// Appends in flight of a file. At this limit its writer waits, as in `BlockEnv`.
const APPENDS_MAX: u32 = 8;
/// Bit of a token that marks an append.
const APPENDED: u64 = 1;

/// The blocks of a store, which its threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) places: Places,
    /// Reads of each block that are yet to be made. A block is freed after them, as LevelDB keeps the files of a
    /// version that is being read.
    planned: HashMap<BlockId, u32>,
}

impl Shared {
    pub(super) fn new(places: Places) -> Self {
        Self { places, planned: HashMap::new() }
    }

    fn plan(&mut self, steps: &[Step]) {
        for step in steps {
            if let Step::Read { block, .. } = step {
                *self.planned.entry(*block).or_default() += 1;
            }
        }
    }

    fn planned(&self, block: BlockId) -> bool {
        self.planned.get(&block).is_some_and(|reads| *reads > 0)
    }

    fn read(&mut self, block: BlockId) {
        if let Some(reads) = self.planned.get_mut(&block) {
            *reads -= 1;
            if *reads == 0 {
                self.planned.remove(&block);
            }
        }
    }
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Waits for the drive.
    Waits,
    /// Has made all its steps.
    Done,
}

/// A thread. It makes one step after the other, waits for what it reads, and appends while earlier appends are in
/// flight.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its tokens begin with this number.
    number: u64,
    steps: VecDeque<Step>,
    /// The block that is being read, and the parts that have not come.
    reading: Option<(BlockId, u32)>,
    appending: u32,
}

impl Thread {
    pub(super) fn new(number: u64) -> Self {
        Self { number, steps: VecDeque::new(), reading: None, appending: 0 }
    }

    /// The number of the thread of a request with this token.
    pub(super) fn of(token: u64) -> u64 {
        token >> 1
    }

    /// Adds steps at the end.
    pub(super) fn push(&mut self, shared: &mut Shared, steps: Vec<Step>) {
        shared.plan(&steps);
        self.steps.extend(steps);
    }

    /// One of its requests is done.
    pub(super) fn ended(&mut self, shared: &mut Shared, token: u64) {
        if token & APPENDED != 0 {
            self.appending -= 1;
            return;
        }
        if let Some((block, left)) = &mut self.reading {
            *left -= 1;
            if *left == 0 {
                shared.read(*block);
                self.reading = None;
            }
        }
    }

    /// Whether appends are in flight.
    pub(super) fn is_appending(&self) -> bool {
        self.appending > 0
    }

    /// Makes steps until one has to wait.
    pub(super) fn go_on(
        &mut self,
        shared: &mut Shared,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
    ) -> Result<Progress, Error> {
        let vssd = shared.places.vssd();
        while self.reading.is_none() {
            let Some(&step) = self.steps.front() else { return Ok(Progress::Done) };
            match step {
                Step::Read { block, at, bytes } => {
                    let parts = shared.places.read((block, at, bytes));
                    match parts.len() {
                        0 => shared.read(block),
                        count => self.reading = Some((block, u32::try_from(count).unwrap_or(0))),
                    }
                    for Part { block, page, pages } in parts {
                        let token = self.number << 1;
                        timed.read(now, vssd, block, page, pages, token).map_err(failed)?;
                    }
                }
                Step::Append { .. } if self.appending >= APPENDS_MAX => break,
                Step::Append { block, at, bytes } => {
                    for Part { block, page, pages } in
                        shared.places.append(timed, (block, at, bytes))?
                    {
                        let pages = Pages::Count(u32::try_from(pages).unwrap_or(u32::MAX));
                        let token = self.number << 1 | APPENDED;
                        timed.append(now, vssd, block, page, pages, token).map_err(failed)?;
                        self.appending += 1;
                    }
                }
                Step::Free { block } if self.appending > 0 || shared.planned(block) => break,
                Step::Free { block } => {
                    for block in shared.places.free(block) {
                        timed.free(now, vssd, block).map_err(failed)?;
                    }
                }
            }
            self.steps.pop_front();
        }
        Ok(Progress::Waits)
    }

    /// Makes all steps in no time.
    pub(super) fn at_once(
        shared: &mut Shared,
        timed: &mut TimedVssds<MemoryImages>,
        steps: &[Step],
    ) -> Result<(), Error> {
        let vssd = shared.places.vssd();
        for step in steps {
            match *step {
                Step::Read { .. } => {}
                Step::Append { block, at, bytes } => {
                    for Part { block, page, pages } in
                        shared.places.append(timed, (block, at, bytes))?
                    {
                        let pages = Pages::Count(u32::try_from(pages).unwrap_or(u32::MAX));
                        timed.array_mut().append(vssd, block, page, pages).map_err(failed)?;
                    }
                }
                Step::Free { block } => {
                    for block in shared.places.free(block) {
                        timed.array_mut().free_block(vssd, block).map_err(failed)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use larder_ssd::timed::{DriveTiming, NandTiming, open_channel};
    use larder_vssd::timed::SharePolicy;

    use super::super::super::drive::{Drive, Kind};
    use super::*;

    const STRIPE: u64 = 64 << 10;
    const BLOCK: BlockId = BlockId::new(7);

    fn rig() -> (TimedVssds<MemoryImages>, Shared) {
        let nand = NandTiming { block_stripes: 4, ..open_channel().nand };
        let timing = DriveTiming { channels: 2, nand, ..open_channel() };
        let drive = Drive::of(timing, 16).unwrap();
        let shares = [(4, 1), (4, 1)];
        let (timed, vssds) = drive.vssds(Kind::Channel, &shares, &SharePolicy::None).unwrap();
        let places = Places::new(&timed, &drive.timing, vssds[0]).unwrap();
        (timed, Shared::new(places))
    }

    /// Runs until nothing is in flight, and returns the time.
    fn drain(
        timed: &mut TimedVssds<MemoryImages>,
        shared: &mut Shared,
        threads: &mut [&mut Thread],
    ) -> Nanoseconds {
        let (mut now, mut done) = (0, Vec::new());
        loop {
            for thread in &mut *threads {
                thread.go_on(shared, timed, now).unwrap();
            }
            let Some(next) = timed.next_at() else { return now };
            now = now.max(next);
            timed.run(now, &mut done).unwrap();
            for one in done.drain(..) {
                let number = usize::try_from(Thread::of(one.token)).unwrap();
                threads[number].ended(shared, one.token);
                now = now.max(one.at);
            }
        }
    }

    #[test]
    fn appends_overlap_and_reads_wait_and_what_is_in_memory_takes_no_time() {
        let (mut timed, mut shared) = rig();
        let mut thread = Thread::new(0);
        // 16 KiB are padded to a stripe; what follows lies behind it.
        let append = |at, bytes| Step::Append { block: BLOCK, at, bytes };
        thread.push(&mut shared, vec![append(0, STRIPE / 4), append(STRIPE / 4, 2 * STRIPE)]);
        let took = drain(&mut timed, &mut shared, &mut [&mut thread]);
        // Three stripes, one after the other on the channel and at the same time on their dies.
        assert_eq!(took, 3 * 160_000 + 700_000 + 8_000);
        let read = |at, bytes| Step::Read { block: BLOCK, at, bytes };
        // Across the padding: two reads at once.
        let parts = shared.places.read((BLOCK, 0, STRIPE));
        assert_eq!(parts.iter().map(|part| part.pages).collect::<Vec<_>>(), [4, 12]);
        thread.push(&mut shared, vec![read(4 * STRIPE, STRIPE)]);
        assert_eq!(thread.go_on(&mut shared, &mut timed, took).unwrap(), Progress::Done);
    }

    #[test]
    fn a_block_is_freed_when_no_thread_will_read_it() {
        let (mut timed, mut shared) = rig();
        let append = Step::Append { block: BLOCK, at: 0, bytes: STRIPE };
        Thread::at_once(&mut shared, &mut timed, &[append]).unwrap();
        let (mut compactor, mut client) = (Thread::new(0), Thread::new(1));
        client.push(&mut shared, vec![Step::Read { block: BLOCK, at: 0, bytes: 16 << 10 }]);
        compactor.push(&mut shared, vec![Step::Free { block: BLOCK }]);
        assert_eq!(compactor.go_on(&mut shared, &mut timed, 0).unwrap(), Progress::Waits);
        drain(&mut timed, &mut shared, &mut [&mut compactor, &mut client]);
        assert_eq!(compactor.go_on(&mut shared, &mut timed, 1 << 40).unwrap(), Progress::Done);
        assert!(shared.places.read((BLOCK, 0, STRIPE)).is_empty());
    }
}
