//! A clock for the firmwares: how long a read or a write takes.
//!
//! [`Media`] are the resources that do the work: the host link, the channels, the dies, the write
//! buffer. Each is a queue of its own, so what waits where is seen. They are fed with
//! [`PhysicalOp`](crate::nand::PhysicalOp)s, which any firmware can yield. Time is a number that the
//! caller brings along; nothing here reads a clock.
//!
//! [`TimedSsd`] is the managed firmware on such media: it asks the firmware what a request does and
//! books that. For the [`raw`](crate::raw) one its host does so, who knows what waits for what.
//!
//! How a managed drive behaves:
//!
//! - A write is acknowledged when it is in the write buffer. It leaves the buffer when it is
//!   programmed.
//! - What garbage collection moves is in the same buffer, and a page of the host comes in behind what has
//!   to be moved for it: the write credits of NVMeVirt (`conv_ftl.c`), the shares of the buffer of pblk
//!   (Linux, `pblk-rl.c`). A write waits where host and collection together fill the buffer, which happens
//!   long before the media are busy all the time.
//! - Pages of one reclaim unit are programmed stripe by stripe, round the dies of its group. A stripe
//!   is what one die programs at once: all planes, all bits of a cell (one-shot programming).
//! - Garbage collection reads, programs and erases on the same dies, in the order in which the
//!   firmware asks for it, spread over the host's writes until the next unit is wanted: a write is
//!   slowed down a little, none waits for a whole unit. It senses all planes of a die at once.
//! - An erase is done in slices between programs.
//! - A unit that has fewer stripes on a die than a block has is a slice of one. Its share of an erase
//!   is due with it.
//! - Reads go before programs and erases that wait. One that is under way is waited for, or
//!   suspended if the drive can. They too sense all planes at once. What they take, programs lose.
//!   [`DieService`] has this and the other ways: dies that do all in order, or suspend nothing.
//! - While the host waits for room, collection is urgent, and reads do not suspend its programs (the
//!   urgent mode of MQSim's garbage collection).

mod buffer;
mod channel;
mod collection;
mod die;
mod drives;
mod media;
mod service;
mod striping;
mod timing;

pub use drives::{enterprise_tlc, open_channel, pm9d3_like, small};
pub use media::Media;
pub use service::DieService;
pub use timing::{DriveTiming, NandTiming, Nanoseconds};

use crate::error::{Error, ErrorKind};
use crate::managed::{ManagedConfig, ManagedSsd, MediaOp, PAGE_BYTES, Placement};
use collection::Backlog;
use striping::Striping;

/// A managed drive under a clock.
#[derive(Debug)]
pub struct TimedSsd {
    ssd: ManagedSsd,
    media: Media,
    striping: Striping,
    journal: Vec<MediaOp>,
    /// What garbage collection has still to do.
    backlog: Backlog,
}

impl TimedSsd {
    /// A fresh drive. Its channels and dies are those of `timing`.
    ///
    /// # Errors
    /// As [`ManagedSsd::new`] and [`Media::new`]; also if `config` says that the drive has other
    /// channels and dies.
    pub fn new(mut config: ManagedConfig, timing: DriveTiming) -> Result<Self, Error> {
        let media = Media::new(timing)?;
        let array = media.timing().array();
        if let Some(other) = config.array.replace(array)
            && other != array
        {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "array of {} channels of {} dies, and {} has {} of {}: leave array out, and it \
                     is taken from there",
                    other.channels,
                    other.dies_per_channel,
                    media.timing().name,
                    array.channels,
                    array.dies_per_channel
                ),
            ));
        }
        let mut ssd = ManagedSsd::new(config)?;
        ssd.record_media_ops(true);
        let striping = Striping::new(&ssd.config().geometry, ssd.config().spans(), media.timing());
        Ok(Self { striping, media, journal: Vec::new(), backlog: Backlog::default(), ssd })
    }

    /// The firmware, to look at.
    pub fn ssd(&self) -> &ManagedSsd {
        &self.ssd
    }

    /// What the drive is made of.
    pub fn timing(&self) -> &DriveTiming {
        self.media.timing()
    }

    /// Reads `pages` pages from `lpn` on, asked for at `now`. Returns when the data has arrived.
    ///
    /// Requests come in the order of their times.
    ///
    /// # Errors
    /// For pages that the drive does not have.
    pub fn read(&mut self, now: Nanoseconds, lpn: u64, pages: u64) -> Result<Nanoseconds, Error> {
        self.ssd.check_range(lpn, pages)?;
        let begin = self.media.command(now);
        let mut ready = begin;
        let mut last = None;
        for lpn in lpn..lpn + pages {
            // A page that is not mapped is answered from the map alone.
            let Some(ppn) = self.ssd.physical_page(lpn) else { continue };
            let row = self.striping.row(ppn);
            if last.replace(row) != Some(row) {
                ready = ready.max(self.media.book(begin, self.striping.host_read(ppn)));
            }
        }
        Ok(self.media.send(begin, ready, pages * PAGE_BYTES))
    }

    /// Writes `pages` pages from `lpn` on with placement handle `handle` of group 0, sent at `now`.
    /// Returns when the write is acknowledged.
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
        self.write_placed(now, Placement { group: 0, handle }, lpn, pages)
    }

    /// Writes `pages` pages from `lpn` on with `placement`, sent at `now`. Returns when the write is
    /// acknowledged.
    ///
    /// # Errors
    /// As [`ManagedSsd::write_placed`].
    pub fn write_placed(
        &mut self,
        now: Nanoseconds,
        placement: Placement,
        lpn: u64,
        pages: u64,
    ) -> Result<Nanoseconds, Error> {
        let mut arrived = self.media.receive(now, pages * PAGE_BYTES);
        for lpn in lpn..lpn + pages {
            self.ssd.write_placed(placement, lpn, 1)?;
            arrived = self.book_journal(arrived);
        }
        Ok(self.media.acknowledge(arrived))
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
        Ok(self.media.command(now))
    }

    /// When everything that was asked for is done. What garbage collection has put off until further
    /// writes is not in it.
    pub fn idle_at(&self) -> Nanoseconds {
        self.media.idle_at()
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
                    room_at = self.media.wait_for_room(room_at);
                    // The host waits: collection does not wait for its reads.
                    let urgent = !from_host && room_at > now;
                    if let Some(stripe) = self.striping.program(ppn, urgent) {
                        self.media.book(room_at, stripe);
                    }
                }
                MediaOp::Read { ppn } => {
                    if let Some(read) = self.striping.collection_read(ppn) {
                        self.media.book(room_at, read);
                    }
                }
                MediaOp::Erase { unit } => {
                    for erase in self.striping.erase(unit) {
                        self.media.book(room_at, erase);
                    }
                }
            }
        }
        self.journal = journal;
        room_at
    }
}

#[cfg(test)]
mod tests;
