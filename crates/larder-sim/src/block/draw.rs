//! Draws the next request of a connection.

use fastrand::Rng;

use super::content::SECTOR_BYTES;

/// Maximum sectors of a request: 256 KiB.
const SECTORS_MAX: u64 = (256 << 10) / SECTOR_BYTES as u64;
/// Sectors of a device block.
const BLOCK_SECTORS: u64 = 8;
/// Half of all requests go to the first eighth of a core.
const HOT_PART: u64 = 8;
/// Maximum sectors of a crowd.
const CROWD_SECTORS: u64 = 128;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    Write,
    Trim,
    WriteZeroes,
    Flush,
}

/// A request for whole sectors, numbered over all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) first: u64,
    /// 0 for a flush.
    pub(super) sectors: u64,
    /// Whether it must be durable when it is answered.
    pub(super) fua: bool,
    /// For zeros: whether they must be allocated.
    pub(super) no_hole: bool,
}

impl Request {
    /// The end of its sectors, exclusive.
    pub(super) fn end(&self) -> u64 {
        self.first + self.sectors
    }

    /// Whether it changes data.
    pub(super) fn changes(&self) -> bool {
        !matches!(self.verb, Verb::Read | Verb::Flush)
    }

    /// Whether the order of the two matters.
    pub(super) fn meets(&self, other: &Self) -> bool {
        (self.changes() || other.changes()) && self.first < other.end() && other.first < self.end()
    }

    /// Bytes of its data.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.sectors).expect("it is short") * SECTOR_BYTES
    }
}

/// A range of sectors to which many requests go, so that most of those in flight overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowd {
    /// Its first sector in each core.
    first: u64,
    sectors: u64,
    /// Percentage of requests that go there.
    percent: u32,
}

impl Crowd {
    /// Draws a range in cores of `core_sectors` sectors; usually few requests go there, sometimes most.
    pub(super) fn drawn(rng: &mut Rng, core_sectors: u64) -> Self {
        let sectors = (CROWD_SECTORS >> rng.u32(0..4)).min(core_sectors);
        let first = rng.u64(0..=core_sectors - sectors);
        Self { first, sectors, percent: if rng.u32(0..3) == 0 { 80 } else { 15 } }
    }
}

/// Draws the requests of one connection to one core.
pub(super) struct Chooser {
    rng: Rng,
    /// First sector of the core, and their number.
    begin: u64,
    sectors: u64,
    crowd: Crowd,
    /// End of the last request.
    last_end: u64,
}

impl Chooser {
    pub(super) fn new(rng: Rng, begin: u64, sectors: u64, crowd: Crowd) -> Self {
        Self { rng, begin, sectors, crowd, last_end: begin }
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Request {
        let verb = match self.rng.u32(0..100) {
            0..44 => Verb::Read,
            44..86 => Verb::Write,
            86..92 => Verb::WriteZeroes,
            92..98 => Verb::Trim,
            _ => Verb::Flush,
        };
        let fua = self.rng.u32(0..8) == 0 && !matches!(verb, Verb::Read | Verb::Flush);
        let no_hole = verb == Verb::WriteZeroes && self.rng.bool();
        let (first, sectors) = match verb {
            Verb::Flush => (self.begin, 0),
            _ if self.rng.u32(0..100) < self.crowd.percent => self.in_crowd(),
            _ => self.span(),
        };
        Request { verb, first, sectors, fua, no_hole }
    }

    /// A range that begins in the crowd; some extend beyond it.
    fn in_crowd(&mut self) -> (u64, u64) {
        let Crowd { first, sectors, .. } = self.crowd;
        let begin = self.begin + first + self.rng.u64(0..sectors);
        let most = if self.rng.u32(0..8) == 0 { 2 * sectors } else { sectors.div_ceil(2) };
        let end = (begin + self.rng.u64(1..=most)).min(self.begin + self.sectors);
        if self.rng.bool() {
            return (begin, end - begin);
        }
        // Whole blocks, unless the core ends within one.
        let begin = (begin / BLOCK_SECTORS * BLOCK_SECTORS).max(self.begin);
        let end = end.next_multiple_of(BLOCK_SECTORS).min(self.begin + self.sectors);
        (begin, end - begin)
    }

    fn span(&mut self) -> (u64, u64) {
        let end = self.begin + self.sectors;
        // A tenth are long.
        let most = if self.rng.u32(0..10) == 0 { SECTORS_MAX } else { SECTORS_MAX / 16 };
        let most = most.min(self.sectors) >> self.rng.u32(0..5);
        let is_aligned = self.rng.bool();
        let mut sectors = self.rng.u64(1..=most.max(1));
        if is_aligned {
            sectors = sectors.next_multiple_of(BLOCK_SECTORS);
        }
        // Some continue where the last one ended.
        let first = if self.rng.u32(0..8) == 0 && self.last_end + sectors <= end {
            self.last_end
        } else {
            let room = if self.rng.bool() { self.sectors / HOT_PART } else { self.sectors };
            let first = self.begin + self.rng.u64(0..room.max(1));
            let first = if is_aligned { first / BLOCK_SECTORS * BLOCK_SECTORS } else { first };
            first.max(self.begin)
        };
        let sectors = sectors.min(end - first);
        self.last_end = first + sectors;
        (first, sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stay_in_their_core_and_are_of_every_kind_and_length() {
        let mut rng = Rng::with_seed(3);
        let crowd = Crowd { percent: 50, ..Crowd::drawn(&mut rng, 65_536) };
        let mut chooser = Chooser::new(rng, 65_536, 65_536, crowd);
        let all: Vec<Request> = std::iter::repeat_with(|| chooser.next()).take(20_000).collect();
        for request in &all {
            assert!(request.first >= 65_536 && request.end() <= 131_072, "{request:?}");
            assert!(request.sectors <= SECTORS_MAX, "{request:?}");
            assert_eq!(request.sectors == 0, request.verb == Verb::Flush);
        }
        for verb in [Verb::Read, Verb::Write, Verb::Trim, Verb::WriteZeroes, Verb::Flush] {
            assert!(all.iter().any(|request| request.verb == verb), "{verb:?}");
            let may_be_fua = !matches!(verb, Verb::Read | Verb::Flush);
            let is_fua = all.iter().any(|request| request.verb == verb && request.fua);
            assert_eq!(is_fua, may_be_fua, "{verb:?}");
        }
        assert!(all.iter().any(|request| request.sectors == 1));
        assert!(all.iter().any(|request| request.sectors > SECTORS_MAX / 2));
    }
    #[test]
    fn a_crowd_is_in_the_core_and_most_that_go_there_meet() {
        for seed in 0..200 {
            let mut rng = Rng::with_seed(seed);
            let core_sectors = [8, 100, 49_152][usize::try_from(seed % 3).unwrap()];
            let crowd = Crowd { percent: 100, ..Crowd::drawn(&mut rng, core_sectors) };
            assert!(crowd.first + crowd.sectors <= core_sectors, "{crowd:?}");
            let mut chooser = Chooser::new(rng, 3 * core_sectors, core_sectors, crowd);
            let all: Vec<Request> = std::iter::repeat_with(|| chooser.next()).take(200).collect();
            let ranged = all.iter().filter(|request| request.sectors > 0);
            for request in ranged {
                assert!(request.first >= 3 * core_sectors, "{request:?}");
                assert!(request.end() <= 4 * core_sectors, "{request:?}");
            }
            let meeting =
                all.windows(8).filter(|some| some[..7].iter().any(|it| it.meets(&some[7])));
            assert!(meeting.count() > 100, "{crowd:?}");
        }
    }
}
