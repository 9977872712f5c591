//! A clock for both firmwares: the latency of reads and writes.
//!
//! [`Media`] are the resources that do the work: the host link, the channels, the dies, the write buffer. Each is a
//! separate queue, so the waits are modelled where they occur. Their input is [`PhysicalOp`](crate::nand::PhysicalOp)s,
//! which any firmware can produce. The caller passes the time as a number; nothing here reads a clock.
//!
//! [`TimedSsd`] is the managed firmware on such media: it runs a request on the firmware and books the resulting
//! operations. For the [`raw`](crate::raw) firmware the host does this, because only the host knows which operation
//! waits for which.
//!
//! Behaviour of a managed drive:
//!
//! - A write is acknowledged when it is in the write buffer. It leaves the buffer when it is
//!   programmed.
//! - Data that garbage collection moves goes through the same buffer, and a page of the host is admitted after the data
//!   that must be moved for it: the write credits of NVMeVirt (`conv_ftl.c`), the shares of the buffer of pblk (Linux,
//!   `pblk-rl.c`). A write waits while host and collection together fill the buffer, which happens long before the
//!   media are fully busy.
//! - Pages of one reclaim unit are programmed stripe by stripe, round-robin over the dies of its group. A stripe is
//!   what one die programs at once: all planes, all bits of a cell (one-shot programming).
//! - Garbage collection reads, programs and erases on the same dies, in the order in which the firmware requests it. It
//!   is spread over the host's writes until the next unit is needed: each write is slowed down a little, none waits for
//!   a whole unit. It senses all planes of a die at once.
//! - An erase is done in slices between programs.
//! - A unit with fewer stripes on a die than a block has is a slice of a block, and causes that share of an erase.
//! - Reads go before waiting programs and erases. An operation in progress is waited for, or suspended if the die can.
//!   Reads too sense all planes at once. The time that reads take is lost for programs. [`DieService`] offers this and
//!   two other ways: dies that work strictly in order, or that never suspend.
//! - While the host waits for room, collection is urgent, and reads do not suspend its programs (the urgent mode of
//!   MQSim's garbage collection).
//!
//! | file | content |
//! |---|---|
//! | `media` | dies, channels, link and write buffer, each a queue |
//! | `die`, `channel`, `buffer` | these parts |
//! | `service` | the order in which a die works |
//! | `striping` | turns pages of the managed firmware into operations of dies |
//! | `collection` | garbage collection, paced by the host's writes |
//! | `timing`, `drives` | timing parameters, and predefined drives |

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
    /// Operations that garbage collection still has to do.
    backlog: Backlog,
}

impl TimedSsd {
    /// A new drive. Its channels and dies are those of `timing`.
    ///
    /// # Errors
    /// As [`ManagedSsd::new`] and [`Media::new`]; also if `config` has other channels and dies.
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

    /// Read access to the firmware.
    pub fn ssd(&self) -> &ManagedSsd {
        &self.ssd
    }

    /// The timing of the drive.
    pub fn timing(&self) -> &DriveTiming {
        self.media.timing()
    }

    /// Reads `pages` pages from `lpn` on, requested at `now`. Returns when the data has arrived.
    ///
    /// Requests must come in the order of their times.
    ///
    /// # Errors
    /// For pages that the drive does not have.
    pub fn read(&mut self, now: Nanoseconds, lpn: u64, pages: u64) -> Result<Nanoseconds, Error> {
        self.ssd.check_range(lpn, pages)?;
        let begin = self.media.command(now);
        let mut ready = begin;
        let mut last = None;
        for lpn in lpn..lpn + pages {
            // An unmapped page is answered from the map alone.
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
    /// Requests must come in the order of their times.
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

    /// Deallocates `pages` pages from `lpn` on, at `now`. Returns when that is done: the map changes, the media do not.
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

    /// When all requested work is done. Work that garbage collection has deferred until further writes is not included.
    pub fn idle_at(&self) -> Nanoseconds {
        self.media.idle_at()
    }

    /// Books the operations of the firmware for a page of the host, and the collection that is due with it. Returns
    /// when the page is in the buffer, after the data that collection moves for it.
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
                    // The host waits, so reads must not delay collection.
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
