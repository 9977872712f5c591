//! The same firmware under a clock: how long a read or a write takes.
//!
//! [`TimedSsd`] asks the firmware what a request does to the media and books that on the resources
//! that do it: the host link, the channels, the dies. Each is a queue of its own, so what waits
//! where is seen. Time is a number that the caller brings along; nothing here reads a clock.
//!
//! How a drive behaves:
//!
//! - A write is acknowledged when it is in the write buffer. It leaves the buffer when it is
//!   programmed.
//! - What garbage collection moves is in the same buffer, and a page of the host comes in behind what has
//!   to be moved for it: the write credits of NVMeVirt (`conv_ftl.c`), the shares of the buffer of pblk
//!   (Linux, `pblk-rl.c`). A write waits where host and collection together fill the buffer, which happens
//!   long before the media are busy all the time.
//! - Pages of one reclaim unit are programmed stripe by stripe, round the dies. A stripe is what
//!   one die programs at once: all planes, all bits of a cell (one-shot programming).
//! - Garbage collection reads, programs and erases on the same dies, in the order in which the
//!   firmware asks for it, spread over the host's writes until the next unit is wanted: a write is
//!   slowed down a little, none waits for a whole unit. It senses all planes of a die at once.
//! - An erase is done in slices between programs.
//! - A unit that has fewer stripes on a die than a block has is a slice of one. Its share of an erase
//!   is due with it.
//! - Reads go before programs and erases that wait. One that is under way is waited for, or
//!   suspended if the drive can. They too sense all planes at once. What they take, programs lose.
//! - While the host waits for room, collection is urgent, and reads do not suspend its programs (the
//!   urgent mode of MQSim's garbage collection).

mod buffer;
mod collection;
mod die;
mod drives;
mod timing;

pub use drives::{enterprise_tlc, pm9d3_like, small};
pub use timing::{DriveTiming, NandTiming};

use crate::error::Error;
use crate::managed::{ManagedConfig, ManagedSsd, MediaOp, PAGE_BYTES};
use buffer::WriteBuffer;
use collection::{Backlog, Slices};
use die::Die;

/// Nanoseconds since the drive was made.
pub type Nanoseconds = u64;

/// A drive under a clock.
#[derive(Debug)]
pub struct TimedSsd {
    ssd: ManagedSsd,
    timing: DriveTiming,
    dies: Vec<Die>,
    /// When each channel is free.
    channels: Vec<Nanoseconds>,
    link_in: Nanoseconds,
    link_out: Nanoseconds,
    buffer: WriteBuffer,
    /// Pages of each unit's open stripe, by unit.
    open_stripes: Vec<u32>,
    /// The die of each stripe, unit after unit.
    stripe_dies: Vec<u32>,
    next_die: u32,
    journal: Vec<MediaOp>,
    /// What garbage collection has still to do.
    backlog: Backlog,
    slices: Slices,
    /// What garbage collection sensed last, numbered in rows of planes: other pages come with it.
    last_read: Option<u32>,
}

impl TimedSsd {
    /// A fresh drive.
    ///
    /// # Errors
    /// As [`ManagedSsd::new`]; also if the write buffer could fill up with stripes that are never
    /// complete.
    pub fn new(config: ManagedConfig, timing: DriveTiming) -> Result<Self, Error> {
        timing.check()?;
        let units = config.geometry.units as usize;
        let mut ssd = ManagedSsd::new(config)?;
        ssd.record_media_ops(true);
        let dies = timing.dies() as usize;
        let stripes = ssd.config().geometry.pages_per_unit.div_ceil(timing.stripe_pages());
        let stripes = ssd.config().geometry.units * stripes;
        Ok(Self {
            stripe_dies: (0..stripes).map(|stripe| stripe % timing.dies()).collect(),
            next_die: 0,
            dies: vec![Die::default(); dies],
            channels: vec![0; timing.channels as usize],
            link_in: 0,
            link_out: 0,
            buffer: WriteBuffer::new(timing.write_buffer_bytes / PAGE_BYTES, dies),
            open_stripes: vec![0; units],
            journal: Vec::new(),
            backlog: Backlog::default(),
            slices: Slices::new(timing.dies(), timing.nand.block_stripes),
            last_read: None,
            ssd,
            timing,
        })
    }

    /// The firmware, to look at.
    pub fn ssd(&self) -> &ManagedSsd {
        &self.ssd
    }

    /// What the drive is made of.
    pub fn timing(&self) -> &DriveTiming {
        &self.timing
    }

    /// Reads `pages` pages from `lpn` on, asked for at `now`. Returns when the data has arrived.
    ///
    /// Requests come in the order of their times.
    ///
    /// # Errors
    /// For pages that the drive does not have.
    pub fn read(&mut self, now: Nanoseconds, lpn: u64, pages: u64) -> Result<Nanoseconds, Error> {
        self.ssd.check_range(lpn, pages)?;
        let begin = now + self.timing.command_ns;
        let mut ready = begin;
        let mut last = None;
        for lpn in lpn..lpn + pages {
            // A page that is not mapped is answered from the map alone.
            let Some(ppn) = self.ssd.physical_page(lpn) else { continue };
            let row = ppn / self.timing.row_pages();
            if last != Some(row) {
                ready = ready.max(self.read_flash(begin, ppn));
                last = Some(row);
            }
        }
        // The link takes what is ready first: a read that waits for its die holds no other back.
        let transfer = self.timing.link_ns(pages * PAGE_BYTES);
        self.link_out = self.link_out.max(begin) + transfer;
        Ok(self.link_out.max(ready + transfer))
    }

    /// Writes `pages` pages from `lpn` on with placement handle `handle`, sent at `now`. Returns
    /// when the write is acknowledged.
    ///
    /// Requests come in the order of their times.
    ///
    /// # Errors
    /// As [`ManagedSsd::write`].
    pub fn write(
        &mut self,
        now: Nanoseconds,
        lpn: u64,
        pages: u64,
        handle: u16,
    ) -> Result<Nanoseconds, Error> {
        self.link_in = self.link_in.max(now) + self.timing.link_ns(pages * PAGE_BYTES);
        let mut arrived = self.link_in + self.timing.command_ns;
        for lpn in lpn..lpn + pages {
            self.ssd.write(lpn, 1, handle)?;
            arrived = self.book_journal(arrived);
        }
        Ok(arrived + self.timing.buffer_ns)
    }

    /// Declares `pages` pages from `lpn` on dead, at `now`. Returns when that is done: the map
    /// changes, the media do not.
    ///
    /// # Errors
    /// As [`ManagedSsd::deallocate`].
    pub fn deallocate(
        &mut self,
        now: Nanoseconds,
        lpn: u64,
        pages: u64,
    ) -> Result<Nanoseconds, Error> {
        self.ssd.deallocate(lpn, pages)?;
        Ok(now + self.timing.command_ns)
    }

    /// When everything that was asked for is done. What garbage collection has put off until further
    /// writes is not in it.
    pub fn idle_at(&self) -> Nanoseconds {
        self.dies.iter().map(Die::idle_at).max().unwrap_or(0)
    }

    /// Books what the firmware did to the media for a page of the host, and what collection has to do
    /// with it. Returns when the page is in the buffer: behind what collection moves for it.
    fn book_journal(&mut self, now: Nanoseconds) -> Nanoseconds {
        let mut journal = std::mem::take(&mut self.journal);
        self.ssd.take_media_ops(&mut journal);
        let of_host = |op: &MediaOp| matches!(op, MediaOp::Program { from_host: true, .. });
        let until_next = self.ssd.config().geometry.pages_per_unit;
        self.backlog.add(journal.iter().copied().filter(|op| !of_host(op)), until_next);
        journal.retain(of_host);
        journal.splice(..0, self.backlog.due());
        let mut room_at = now;
        for op in journal.drain(..) {
            match op {
                MediaOp::Program { ppn, from_host } => {
                    room_at = self.buffer.wait_for_room(room_at);
                    // The host waits: collection does not wait for its reads.
                    let urgent = !from_host && room_at > now;
                    self.book_program(room_at, ppn, urgent);
                }
                MediaOp::Read { ppn } => self.book_collection_read(room_at, ppn),
                MediaOp::Erase { .. } => self.book_erase(),
            }
        }
        self.journal = journal;
        room_at
    }

    fn book_erase(&mut self) {
        let stripes = f64::from(self.ssd.config().geometry.pages_per_unit)
            / f64::from(self.timing.stripe_pages())
            / f64::from(self.timing.dies());
        for (die, blocks) in self.slices.erase(stripes) {
            self.dies[die].erase(blocks, &self.timing.nand);
        }
    }

    /// A page joins its unit's open stripe; the last page of a stripe sets it off.
    fn book_program(&mut self, now: Nanoseconds, ppn: u32, urgent: bool) {
        let unit = (ppn / self.ssd.config().geometry.pages_per_unit) as usize;
        let in_unit = ppn % self.ssd.config().geometry.pages_per_unit + 1;
        if in_unit % self.timing.stripe_pages() == 1 {
            let stripe = self.stripe(ppn);
            self.stripe_dies[stripe] = self.next_die;
            self.next_die = (self.next_die + 1) % self.timing.dies();
        }
        self.open_stripes[unit] += 1;
        let complete = in_unit.is_multiple_of(self.timing.stripe_pages())
            || in_unit == self.ssd.config().geometry.pages_per_unit;
        if complete {
            let pages = std::mem::take(&mut self.open_stripes[unit]);
            let end = self.program_stripe(now, ppn, pages, urgent);
            self.buffer.enter(self.die_of(ppn), u64::from(pages), end);
        }
    }

    fn program_stripe(
        &mut self,
        now: Nanoseconds,
        ppn: u32,
        pages: u32,
        urgent: bool,
    ) -> Nanoseconds {
        let die = self.die_of(ppn);
        let transfer = self.timing.channel_ns(u64::from(pages) * PAGE_BYTES);
        let channel = &mut self.channels[die % self.timing.channels as usize];
        *channel = (*channel).max(now) + transfer;
        self.dies[die].program(*channel, &self.timing.nand, urgent)
    }

    fn book_collection_read(&mut self, now: Nanoseconds, ppn: u32) {
        let row = ppn / self.timing.row_pages();
        if self.last_read == Some(row) {
            return;
        }
        self.last_read = Some(row);
        let die = self.die_of(ppn);
        self.dies[die].work(now, self.timing.nand.read_ns, false);
        let transfer = self.timing.channel_ns(u64::from(self.timing.row_pages()) * PAGE_BYTES);
        let channel = &mut self.channels[die % self.timing.channels as usize];
        *channel = (*channel).max(now) + transfer;
    }

    /// Reads from one row of planes for the host; returns when it is through the channel.
    fn read_flash(&mut self, now: Nanoseconds, ppn: u32) -> Nanoseconds {
        let die = self.die_of(ppn);
        let (sensed, delayed_ns) = self.dies[die].read(now, &self.timing.nand);
        self.buffer.delay(die, now, delayed_ns);
        let transfer = self.timing.channel_ns(PAGE_BYTES);
        // A read's few kilobytes slip in between the transfers of programs, which go on later.
        self.channels[die % self.timing.channels as usize] += transfer;
        sensed + transfer
    }

    /// Stripes go round the dies in the order in which they are begun: a unit that has fewer of them
    /// than the drive has dies leaves no die out.
    fn die_of(&self, ppn: u32) -> usize {
        self.stripe_dies[self.stripe(ppn)] as usize
    }

    fn stripe(&self, ppn: u32) -> usize {
        let pages_per_unit = self.ssd.config().geometry.pages_per_unit;
        let stripes_per_unit = pages_per_unit.div_ceil(self.timing.stripe_pages());
        let in_unit = ppn % pages_per_unit / self.timing.stripe_pages();
        (ppn / pages_per_unit * stripes_per_unit + in_unit) as usize
    }
}

#[cfg(test)]
mod tests;
