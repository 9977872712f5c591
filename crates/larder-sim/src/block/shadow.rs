//! The possible contents of every sector, while several connections change them and their server is killed.
//!
//! Requests may overlap. A request is not atomic as a whole, but each of its sectors is ([`History`]). Acknowledged
//! data is present after a kill, because the kernel has it. For a request that was cut off by a kill, each sector is
//! either as before or as after it. A trimmed sector may have any content that it had before, but reads return the same
//! content while the server lives.

use std::collections::BTreeMap;

use super::content::{self, SECTOR_BYTES};
use super::draw::{Request, Verb};
use super::history::{Content, History, Moment};
use super::owed::Owed;

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) request: Request,
    /// When it was sent; its data has this version.
    pub(super) version: Moment,
}

/// A sector with wrong content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Number of the core; files of visitors have numbers after the permanent cores.
    pub core: u64,
    /// Number in the core, in units of 512 bytes.
    pub sector: u64,
    /// The possible contents.
    pub expected: String,
    /// The actual content.
    pub got: String,
    /// The reader.
    pub by: String,
}

/// See the module.
pub(super) struct Shadow {
    seed: u64,
    core_sectors: u64,
    sectors: Vec<History>,
    owed: Owed,
    /// Requests in flight, by when they were sent.
    under_way: BTreeMap<Moment, Request>,
    clock: Moment,
    /// Requests that overlapped others with which they do not commute.
    met: u64,
}

impl Shadow {
    /// Files of zeros, with sectors numbered file after file.
    pub(super) fn new(seed: u64, files: u64, core_sectors: u64) -> Self {
        let count = usize::try_from(files * core_sectors).expect("it is below what memory holds");
        let sectors = vec![History::new(); count];
        let (owed, under_way) = (Owed::default(), BTreeMap::new());
        Self { seed, core_sectors, sectors, owed, under_way, clock: 0, met: 0 }
    }

    /// The sectors that a start may find dirty.
    pub(super) fn owed(&mut self) -> &mut Owed {
        &mut self.owed
    }

    /// The current moment.
    pub(super) fn now(&self) -> Moment {
        self.clock
    }

    /// Records a completed flush of this file or of all, requested at `asked`.
    pub(super) fn flushed(&mut self, file: Option<u64>, asked: Moment) {
        let sectors = file.map_or(0..self.sectors.len(), |file| self.sectors_of(file));
        self.owed.flushed(&sectors, asked);
    }

    /// Checks a report of dirty bytes. The server of this file must have no requests in flight.
    pub(super) fn is_dirty(&self, file: u64, bytes: std::ops::Range<u64>) -> Result<(), Wrong> {
        let own = bytes.start / SECTOR_BYTES as u64..bytes.end.div_ceil(SECTOR_BYTES as u64);
        let begin = file * self.core_sectors;
        match own.clone().find(|sector| !self.owed.has(index(begin + sector))) {
            None => Ok(()),
            Some(sector) => Err(Wrong {
                core: file,
                sector,
                expected:
                    "clean: it was written in no mode that leaves data dirty since the last flush"
                        .to_owned(),
                got: format!("dirty, of sectors {own:?}"),
                by: "larder block dirty".to_owned(),
            }),
        }
    }

    /// Records a request that is about to be sent.
    pub(super) fn begin(&mut self, request: Request) -> Known {
        self.clock += 1;
        let version = self.clock;
        self.met += u64::from(self.under_way.values().any(|other| other.meets(&request)));
        self.under_way.insert(version, request);
        let content = match request.verb {
            Verb::Read | Verb::Flush => return Known { request, version },
            Verb::Write => Content::Version(version),
            Verb::WriteZeroes => Content::Version(0),
            Verb::Trim => Content::Any,
        };
        self.owed.sent(places(&request), version);
        for history in &mut self.sectors[places(&request)] {
            history.sent(content, version);
        }
        Known { request, version }
    }

    /// Records a request that succeeded; `data` is the result of a read.
    pub(super) fn ended(&mut self, known: &Known, data: &[u8]) -> Result<(), Wrong> {
        self.clock += 1;
        self.under_way.remove(&known.version);
        let request = &known.request;
        if request.verb == Verb::Read {
            return self.brought(request.first, data, known.version, &format!("{request:?}"));
        }
        let (now, oldest) = (self.clock, self.oldest_read());
        self.owed.answered(known.version, now);
        for history in &mut self.sectors[places(request)] {
            history.answered(known.version, now, oldest);
        }
        Ok(())
    }

    /// Records that the server of these files is gone: the results of requests in flight are unknown. Returns their
    /// number. Other files are unchanged.
    pub(super) fn server_gone(&mut self, files: impl IntoIterator<Item = u64>) -> usize {
        self.clock += 1;
        for file in files {
            let sectors = self.sectors_of(file);
            for history in &mut self.sectors[sectors] {
                history.server_gone(self.clock);
            }
        }
        self.owed.server_gone(self.clock);
        std::mem::take(&mut self.under_way).len()
    }

    /// Records that the server has released this file in order, and no client uses it any more: it has all acknowledged
    /// data, and for other requests each sector is either as before or as after them. Returns the number of these
    /// requests.
    pub(super) fn left(&mut self, file: u64) -> usize {
        self.clock += 1;
        let sectors = self.sectors_of(file);
        let before = self.under_way.len();
        self.under_way.retain(|_, request| !sectors.contains(&index(request.first)));
        self.owed.left(&sectors);
        for history in &mut self.sectors[sectors] {
            history.left(self.clock);
        }
        before - self.under_way.len()
    }

    fn sectors_of(&self, file: u64) -> std::ops::Range<usize> {
        index(file * self.core_sectors)..index((file + 1) * self.core_sectors)
    }

    /// Checks data that was just read from `first` on, by the given reader.
    pub(super) fn found(&mut self, first: u64, data: &[u8], by: &str) -> Result<(), Wrong> {
        self.clock += 1;
        let sent = self.clock;
        self.clock += 1;
        self.brought(first, data, sent, by)
    }

    /// Number of requests that overlapped, when they were sent, with others in flight with which they do not commute.
    pub(super) fn met(&self) -> u64 {
        self.met
    }

    fn brought(&mut self, first: u64, data: &[u8], sent: Moment, by: &str) -> Result<(), Wrong> {
        let (now, oldest) = (self.clock, self.oldest_read());
        for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR_BYTES)) {
            let history = &mut self.sectors[index(sector)];
            let found = content::version_of(self.seed, sector, bytes);
            let is_known = |version: u64| version < now;
            let may_be = found.as_ref().is_ok_and(|version| {
                is_known(*version) && history.read(*version, sent, now, oldest)
            });
            if !may_be {
                return Err(Wrong {
                    core: sector / self.core_sectors,
                    sector: sector % self.core_sectors,
                    expected: history.expected(sent),
                    got: found.map_or_else(|what| what, |version| format!("version {version}")),
                    by: by.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// When the oldest read in flight was sent, or now.
    fn oldest_read(&self) -> Moment {
        let is_read = |request: &Request| request.verb == Verb::Read;
        let oldest = self.under_way.iter().find(|(_, request)| is_read(request));
        oldest.map_or(self.clock, |(sent, _)| *sent)
    }
}

fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("sectors are counted in memory")
}

fn places(request: &Request) -> std::ops::Range<usize> {
    index(request.first)..index(request.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(verb: Verb, first: u64, sectors: u64) -> Request {
        Request { verb, first, sectors, fua: false, no_hole: false }
    }

    fn data(shadow: &Shadow, first: u64, sectors: usize, version: u64) -> Vec<u8> {
        let mut data = vec![0; sectors * SECTOR_BYTES];
        content::fill(shadow.seed, first, version, &mut data);
        data
    }

    /// Runs a request from begin to end.
    fn done(shadow: &mut Shadow, request: Request) -> Known {
        let known = shadow.begin(request);
        shadow.ended(&known, &[]).unwrap();
        known
    }

    /// Whether a read of a sector may return this version.
    fn holds(shadow: &mut Shadow, first: u64, version: u64) -> bool {
        let known = shadow.begin(of(Verb::Read, first, 1));
        let data = data(shadow, first, 1, version);
        shadow.ended(&known, &data).is_ok()
    }

    #[test]
    fn what_was_answered_is_there_and_nothing_else() {
        let mut shadow = Shadow::new(1, 2, 16);
        let write = done(&mut shadow, of(Verb::Write, 14, 4));
        assert!(holds(&mut shadow, 14, write.version) && holds(&mut shadow, 13, 0));
        assert!(!holds(&mut shadow, 14, 0), "an older one");
        assert!(!holds(&mut shadow, 13, write.version), "one that was never written there");
        shadow.server_gone([0, 1]);
        assert!(!holds(&mut shadow, 15, 0), "a kill takes nothing that was answered");
        done(&mut shadow, of(Verb::WriteZeroes, 16, 1));
        assert!(holds(&mut shadow, 16, 0) && !holds(&mut shadow, 16, write.version));
        let other = data(&shadow, 3, 1, write.version);
        let wrong = shadow.found(17, &other, "a test").unwrap_err();
        assert_eq!((wrong.core, wrong.sector), (1, 1));
        assert!(
            wrong.got.contains("of sector 3") && wrong.expected.contains("version"),
            "{wrong:?}"
        );
    }

    #[test]
    fn each_sector_of_a_request_that_a_kill_cut_off_is_as_before_or_as_after_it() {
        let mut shadow = Shadow::new(1, 1, 16);
        let first = done(&mut shadow, of(Verb::Write, 0, 4));
        let cut_off = shadow.begin(of(Verb::Write, 0, 4));
        shadow.begin(of(Verb::Read, 0, 4));
        assert_eq!(shadow.server_gone([0]), 2);
        assert!(!holds(&mut shadow, 0, 0), "of before both");
        assert!(holds(&mut shadow, 0, first.version) && !holds(&mut shadow, 0, cut_off.version));
        assert!(holds(&mut shadow, 1, cut_off.version) && !holds(&mut shadow, 1, first.version));
    }

    /// As in the check of a removed visitor: file 1.
    #[test]
    fn a_core_that_was_taken_away_has_all_that_was_answered_and_stays_what_it_is() {
        let mut shadow = Shadow::new(1, 2, 16);
        let first = done(&mut shadow, of(Verb::Write, 16, 4));
        let second = done(&mut shadow, of(Verb::Write, 17, 1));
        shadow.begin(of(Verb::Write, 18, 1));
        let refused = shadow.begin(of(Verb::Write, 19, 1));
        let other = shadow.begin(of(Verb::Write, 0, 1));
        assert_eq!(shadow.left(1), 2);
        let found = |shadow: &mut Shadow, sector: u64, version: u64| {
            let data = data(shadow, sector, 1, version);
            shadow.found(sector, &data, "a test").is_ok()
        };
        assert!(!found(&mut shadow, 16, 0), "a write that was lost");
        assert!(!found(&mut shadow, 17, first.version), "the last write that was lost");
        assert!(found(&mut shadow, 16, first.version) && found(&mut shadow, 17, second.version));
        assert!(found(&mut shadow, 18, first.version), "refused, and not made");
        assert!(found(&mut shadow, 19, refused.version), "refused, and made");
        // A kill of a server that does not have the file changes nothing for it, and other files lose nothing.
        assert_eq!(shadow.server_gone([0]), 1);
        assert!(!found(&mut shadow, 19, first.version) && found(&mut shadow, 19, refused.version));
        assert!(found(&mut shadow, 0, other.version));
        done(&mut shadow, of(Verb::WriteZeroes, 18, 2));
        assert!(!found(&mut shadow, 18, first.version) && found(&mut shadow, 18, 0));
        assert!(!found(&mut shadow, 19, refused.version), "refused, and made afterwards");
    }

    #[test]
    fn of_a_core_that_comes_again_nothing_old_is_seen_nor_anything_of_another_file() {
        let mut shadow = Shadow::new(1, 3, 16);
        let cached = done(&mut shadow, of(Verb::Write, 16, 4));
        let other = done(&mut shadow, of(Verb::Write, 32, 4));
        shadow.left(1);
        // Past the cache, while it is not a core.
        let past = done(&mut shadow, of(Verb::Write, 17, 2));
        assert!(!holds(&mut shadow, 17, cached.version), "what was cached of it before");
        assert!(holds(&mut shadow, 17, past.version) && holds(&mut shadow, 16, cached.version));
        let known = shadow.begin(of(Verb::Read, 18, 1));
        let of_other = data(&shadow, 34, 1, other.version);
        let wrong = shadow.ended(&known, &of_other).unwrap_err();
        assert!(wrong.got.contains("of sector 34"), "{wrong:?}");
    }

    /// The versions that reads have found for trims are dropped when a server that had the file is gone, but not for a
    /// server that did not have it.
    #[test]
    fn what_a_trim_has_left_stays_the_same_while_no_server_has_the_file() {
        let mut shadow = Shadow::new(1, 2, 16);
        let write = done(&mut shadow, of(Verb::Write, 16, 1));
        done(&mut shadow, of(Verb::Trim, 16, 1));
        shadow.left(1);
        assert!(holds(&mut shadow, 16, 0));
        shadow.server_gone([0]);
        assert!(!holds(&mut shadow, 16, write.version));
        shadow.server_gone([1]);
        assert!(holds(&mut shadow, 16, write.version));
    }

    #[test]
    fn a_trim_brings_nothing_of_the_future() {
        let mut shadow = Shadow::new(1, 1, 16);
        let write = done(&mut shadow, of(Verb::Write, 0, 1));
        shadow.begin(of(Verb::Trim, 0, 1));
        let future = shadow.clock + 2;
        assert!(!holds(&mut shadow, 0, future + 1));
        assert!(holds(&mut shadow, 0, write.version) && holds(&mut shadow, 0, 0));
    }

    #[test]
    fn requests_that_meet_are_judged_by_sector_and_counted() {
        let mut shadow = Shadow::new(1, 1, 16);
        let before = done(&mut shadow, of(Verb::Write, 0, 8));
        let read = shadow.begin(of(Verb::Read, 0, 8));
        let write = shadow.begin(of(Verb::Write, 4, 8));
        assert_eq!(shadow.met(), 1);
        shadow.begin(of(Verb::Read, 0, 4));
        shadow.ended(&write, &[]).unwrap();
        assert_eq!(shadow.met(), 1, "reads, and requests for other sectors, do not overlap it");
        let mut brought = data(&shadow, 0, 4, before.version);
        brought.extend(data(&shadow, 4, 4, write.version));
        // One sector is from before the write, as if the read had come first for it.
        brought[6 * SECTOR_BYTES..7 * SECTOR_BYTES].copy_from_slice(&data(
            &shadow,
            6,
            1,
            before.version,
        ));
        shadow.ended(&read, &brought).unwrap();
        assert!(!holds(&mut shadow, 6, before.version), "sent behind the answer");
    }
}
