//! What every sector may hold, while several connections change them and their server is killed.
//!
//! Requests that overlap are not under way together unless both read: then there is one order. What was answered is
//! there after a kill, for the kernel has it. Of a request that a kill has cut off each sector is as before or as
//! after it. What was trimmed may be anything that was there before, but it stays the same from one read to the next
//! as long as the server lives.

use super::content::{self, SECTOR_BYTES};
use super::draw::{Request, Verb};

/// What a sector may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Known(u64),
    /// A kill has cut off who wrote it.
    OneOf(Vec<u64>),
    /// It was trimmed, or its trim was cut off; what a read has found since.
    Any {
        up_to: u64,
        seen: Option<u64>,
    },
}

/// A request under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) request: Request,
    /// What it writes has this version.
    pub(super) version: u64,
}

/// A sector that is not what it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Number of the core.
    pub core: u64,
    /// Number in the core, in units of 512 bytes.
    pub sector: u64,
    /// What it may hold.
    pub expected: String,
    /// What it held.
    pub got: String,
    /// Who has read it.
    pub by: String,
}

/// See the module.
pub(super) struct Shadow {
    seed: u64,
    core_sectors: u64,
    sectors: Vec<State>,
    under_way: Vec<Known>,
    versions: u64,
}

impl Shadow {
    /// Cores of zeros, whose sectors are numbered one core behind the other.
    pub(super) fn new(seed: u64, cores: u64, core_sectors: u64) -> Self {
        let count = usize::try_from(cores * core_sectors).expect("it is below what memory holds");
        let sectors = vec![State::Known(0); count];
        Self { seed, core_sectors, sectors, under_way: Vec::new(), versions: 0 }
    }

    /// Takes note that a request begins, unless it would meet another that changes what it wants, or the other way
    /// round.
    pub(super) fn begin(&mut self, request: Request) -> Option<Known> {
        let meets = |other: &Known| {
            let other = &other.request;
            (request.changes() || other.changes())
                && request.first < other.end()
                && other.first < request.end()
        };
        if self.under_way.iter().any(meets) {
            return None;
        }
        self.versions += 1;
        let known = Known { request, version: self.versions };
        self.under_way.push(known.clone());
        Some(known)
    }

    /// It has ended well; a read has brought `data`.
    pub(super) fn ended(&mut self, known: &Known, data: &[u8]) -> Result<(), Wrong> {
        self.under_way.retain(|other| other.version != known.version);
        let Request { verb, first, .. } = known.request;
        match verb {
            Verb::Read => return self.found(first, data, &format!("{:?}", known.request)),
            Verb::Write => self.set(known, |_| State::Known(known.version)),
            Verb::WriteZeroes => self.set(known, |_| State::Known(0)),
            Verb::Trim => self.set(known, |_| State::Any { up_to: known.version, seen: None }),
            Verb::Flush => {}
        }
        Ok(())
    }

    fn set(&mut self, known: &Known, new: impl Fn(&State) -> State) {
        for sector in known.request.first..known.request.end() {
            let state = &mut self.sectors[index(sector)];
            *state = new(state);
        }
    }

    /// The server is gone: nobody will know what came of the requests under way. Returns how many there were.
    pub(super) fn server_gone(&mut self) -> usize {
        let lost = std::mem::take(&mut self.under_way);
        for known in &lost {
            match known.request.verb {
                Verb::Read | Verb::Flush => {}
                Verb::Write => self.set(known, |before| before.or(known.version)),
                Verb::WriteZeroes => self.set(known, |before| before.or(0)),
                Verb::Trim => self.set(known, |_| State::Any { up_to: known.version, seen: None }),
            }
        }
        for state in &mut self.sectors {
            if let State::Any { seen, .. } = state {
                *seen = None;
            }
        }
        lost.len()
    }

    /// This lies at `first` and behind it, by whomever it was read.
    pub(super) fn found(&mut self, first: u64, data: &[u8], by: &str) -> Result<(), Wrong> {
        for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR_BYTES)) {
            let state = &mut self.sectors[index(sector)];
            let found = content::version_of(self.seed, sector, bytes);
            let may_be = found.as_ref().is_ok_and(|version| state.settle(*version));
            if !may_be {
                return Err(Wrong {
                    core: sector / self.core_sectors,
                    sector: sector % self.core_sectors,
                    expected: state.to_string(),
                    got: found.map_or_else(|what| what, |version| format!("version {version}")),
                    by: by.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("sectors are counted in memory")
}

impl State {
    /// Whether this version may be there; from now on it is.
    fn settle(&mut self, version: u64) -> bool {
        match self {
            Self::Known(known) => *known == version,
            Self::OneOf(versions) => {
                let is_one = versions.contains(&version);
                if is_one {
                    *self = Self::Known(version);
                }
                is_one
            }
            Self::Any { up_to, seen } => {
                version <= *up_to && *seen.get_or_insert(version) == version
            }
        }
    }

    /// As it was, or of this version.
    fn or(&self, version: u64) -> Self {
        match self {
            Self::Known(known) => Self::OneOf(vec![*known, version]),
            Self::OneOf(versions) => Self::OneOf([versions.as_slice(), &[version]].concat()),
            Self::Any { up_to, .. } => Self::Any { up_to: version.max(*up_to), seen: None },
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(version) => write!(f, "version {version}"),
            Self::OneOf(versions) => write!(f, "one of the versions {versions:?}"),
            Self::Any { seen: Some(version), .. } => {
                write!(f, "version {version}, as it was read before")
            }
            Self::Any { up_to, .. } => write!(f, "any version up to {up_to}"),
        }
    }
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

    /// What is there is of this version, and that may be.
    fn holds(shadow: &mut Shadow, first: u64, version: u64) -> bool {
        let known = shadow.begin(of(Verb::Read, first, 1)).unwrap();
        let data = data(shadow, first, 1, version);
        shadow.ended(&known, &data).is_ok()
    }

    #[test]
    fn what_was_answered_is_there_and_nothing_else() {
        let mut shadow = Shadow::new(1, 2, 16);
        let write = shadow.begin(of(Verb::Write, 14, 4)).unwrap();
        shadow.ended(&write, &[]).unwrap();
        assert!(holds(&mut shadow, 14, write.version) && holds(&mut shadow, 13, 0));
        assert!(!holds(&mut shadow, 14, 0), "an older one");
        assert!(!holds(&mut shadow, 13, write.version), "one that was never written there");
        shadow.server_gone();
        assert!(!holds(&mut shadow, 15, 0), "a kill takes nothing that was answered");
        let zeroes = shadow.begin(of(Verb::WriteZeroes, 16, 1)).unwrap();
        shadow.ended(&zeroes, &[]).unwrap();
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
    fn what_a_kill_cut_off_is_as_before_or_as_after_it_and_stays_so() {
        let mut shadow = Shadow::new(1, 1, 16);
        let first = shadow.begin(of(Verb::Write, 0, 4)).unwrap();
        shadow.ended(&first, &[]).unwrap();
        let cut_off = shadow.begin(of(Verb::Write, 0, 4)).unwrap();
        assert_eq!(shadow.server_gone(), 1);
        assert!(!holds(&mut shadow, 0, 0), "of before both");
        assert!(holds(&mut shadow, 0, first.version) && !holds(&mut shadow, 0, cut_off.version));
        assert!(holds(&mut shadow, 1, cut_off.version) && !holds(&mut shadow, 1, first.version));
    }

    #[test]
    fn what_was_trimmed_may_be_anything_older_but_not_now_this_and_now_that() {
        let mut shadow = Shadow::new(1, 1, 16);
        let write = shadow.begin(of(Verb::Write, 0, 1)).unwrap();
        shadow.ended(&write, &[]).unwrap();
        let trim = shadow.begin(of(Verb::Trim, 0, 1)).unwrap();
        shadow.ended(&trim, &[]).unwrap();
        assert!(!holds(&mut shadow, 0, trim.version + 1), "of the future");
        assert!(holds(&mut shadow, 0, 0) && !holds(&mut shadow, 0, write.version));
        shadow.server_gone();
        assert!(holds(&mut shadow, 0, write.version), "after a kill");
    }

    #[test]
    fn changes_meet_nobody() {
        let mut shadow = Shadow::new(1, 1, 16);
        let read = shadow.begin(of(Verb::Read, 0, 4)).unwrap();
        assert!(shadow.begin(of(Verb::Read, 2, 4)).is_some());
        assert!(shadow.begin(of(Verb::Write, 3, 1)).is_none());
        assert!(shadow.begin(of(Verb::Write, 8, 1)).is_some());
        assert!(shadow.begin(of(Verb::Read, 8, 1)).is_none());
        shadow.ended(&read, &vec![0; 4 * SECTOR_BYTES]).unwrap();
        assert!(shadow.begin(of(Verb::Trim, 0, 2)).is_some());
        assert!(shadow.begin(of(Verb::Flush, 0, 0)).is_some());
    }
}
