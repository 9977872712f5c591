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
//! - Pages of one reclaim unit are programmed stripe by stripe, round the dies. A stripe is what
//!   one die programs at once: all planes, all bits of a cell (one-shot programming).
//! - Garbage collection reads, programs and erases on the same dies, in the order in which the
//!   firmware asks for it, spread over the host's writes until the next unit is wanted: a write is
//!   slowed down a little, none waits for a whole unit. It senses all planes of a die at once.
//! - An erase is done in slices between programs.
//! - A unit that has fewer stripes on a die than a block has is a slice of one. Its share of an erase
//!   is due with it.
//! - Reads go before programs and erases that wait. One that is under way is waited for, or
//!   suspended if the drive can. They too sense all planes at once.

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
        timing.check(&config)?;
        let units = config.geometry.units as usize;
        let mut ssd = ManagedSsd::new(config)?;
        ssd.record_media_ops(true);
        let dies = timing.dies() as usize;
        Ok(Self {
            dies: vec![Die::default(); dies],
            channels: vec![0; timing.channels as usize],
            link_in: 0,
            link_out: 0,
            buffer: WriteBuffer::new(timing.write_buffer_bytes / PAGE_BYTES),
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
        let bytes = pages * PAGE_BYTES;
        self.link_out = self.link_out.max(ready) + self.timing.link_ns(bytes);
        Ok(self.link_out)
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
            arrived = arrived.max(self.buffer.wait_for_room(arrived));
            self.ssd.write(lpn, 1, handle)?;
            self.buffer.enter();
            self.book_journal(arrived);
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

    /// Books what the firmware did to the media for a page of the host.
    fn book_journal(&mut self, now: Nanoseconds) {
        let mut journal = std::mem::take(&mut self.journal);
        self.ssd.take_media_ops(&mut journal);
        let of_host = |op: &MediaOp| matches!(op, MediaOp::Program { from_host: true, .. });
        let until_next = self.ssd.config().geometry.pages_per_unit;
        self.backlog.add(journal.iter().copied().filter(|op| !of_host(op)), until_next);
        journal.retain(of_host);
        if !self.backlog.is_empty() {
            journal.extend(self.backlog.due());
        }
        for op in journal.drain(..) {
            match op {
                MediaOp::Program { ppn, from_host } => self.book_program(now, ppn, from_host),
                MediaOp::Read { ppn } => self.book_collection_read(now, ppn),
                MediaOp::Erase { .. } => self.book_erase(),
            }
        }
        self.journal = journal;
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
    fn book_program(&mut self, now: Nanoseconds, ppn: u32, from_host: bool) {
        if from_host {
            self.buffer.joins_stripe(self.stripe(ppn));
        }
        let unit = (ppn / self.ssd.config().geometry.pages_per_unit) as usize;
        self.open_stripes[unit] += 1;
        let in_unit = ppn % self.ssd.config().geometry.pages_per_unit + 1;
        let complete = in_unit.is_multiple_of(self.timing.stripe_pages())
            || in_unit == self.ssd.config().geometry.pages_per_unit;
        if complete {
            let pages = std::mem::take(&mut self.open_stripes[unit]);
            let end = self.program_stripe(now, ppn, pages);
            self.buffer.stripe_programmed(self.stripe(ppn), end);
        }
    }

    fn program_stripe(&mut self, now: Nanoseconds, ppn: u32, pages: u32) -> Nanoseconds {
        let die = self.die_of(ppn);
        let transfer = self.timing.channel_ns(u64::from(pages) * PAGE_BYTES);
        let channel = &mut self.channels[die % self.timing.channels as usize];
        *channel = (*channel).max(now) + transfer;
        self.dies[die].program(*channel, &self.timing.nand)
    }

    fn book_collection_read(&mut self, now: Nanoseconds, ppn: u32) {
        let row = ppn / self.timing.row_pages();
        if self.last_read == Some(row) {
            return;
        }
        self.last_read = Some(row);
        let die = self.die_of(ppn);
        self.dies[die].work(now, self.timing.nand.read_ns);
        let transfer = self.timing.channel_ns(u64::from(self.timing.row_pages()) * PAGE_BYTES);
        let channel = &mut self.channels[die % self.timing.channels as usize];
        *channel = (*channel).max(now) + transfer;
    }

    /// Reads from one row of planes for the host; returns when it is through the channel.
    fn read_flash(&mut self, now: Nanoseconds, ppn: u32) -> Nanoseconds {
        let die = self.die_of(ppn);
        let sensed = self.dies[die].read(now, &self.timing.nand);
        let transfer = self.timing.channel_ns(PAGE_BYTES);
        // A read's few kilobytes slip in between the transfers of programs, which go on later.
        self.channels[die % self.timing.channels as usize] += transfer;
        sensed + transfer
    }

    /// Stripes are numbered through the drive.
    fn stripe(&self, ppn: u32) -> u32 {
        ppn / self.timing.stripe_pages()
    }

    /// Stripes go round the dies.
    fn die_of(&self, ppn: u32) -> usize {
        let pages_per_unit = self.ssd.config().geometry.pages_per_unit;
        let stripe = ppn % pages_per_unit / self.timing.stripe_pages();
        (stripe % self.timing.dies()) as usize
    }
}

#[cfg(test)]
mod tests;
