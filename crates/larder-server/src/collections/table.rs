//! The table of strings that all collections have, and how a changed one is written.

use std::ops::Range;

use super::kind::{Damaged, Kind};

/// The version of the encoding.
const VERSION: u8 = 1;
/// Bytes of the header.
const HEADER_BYTES: usize = 8;
/// The mark of a hash with fields that expire.
const HAS_TIMES: u8 = 1;

/// An encoded collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    bytes: Vec<u8>,
    members: usize,
}

impl Encoded {
    /// Whether it has no members, so that it must not be stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Number of members.
    pub(crate) fn members(&self) -> usize {
        self.members
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The parts of an encoded collection, of which the header is right.
pub(super) struct Parts<'a> {
    pub(super) members: usize,
    /// Whether there is a time for each member, between the ends and the data.
    has_times: bool,
    /// Behind the header.
    pub(super) rest: &'a [u8],
}

/// The parts of a collection of this kind.
pub(super) fn parts(bytes: &[u8], kind: Kind) -> Result<Parts<'_>, Damaged> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Damaged)?;
    let [version, number, marks, 0, members @ ..] = header else { return Err(Damaged) };
    let has_times = *marks == HAS_TIMES && kind == Kind::Hash;
    if *version != VERSION || *number != kind.number() || !(*marks == 0 || has_times) {
        return Err(Damaged);
    }
    let members = usize::try_from(u32::from_le_bytes(*members)).map_err(|_| Damaged)?;
    Ok(Parts { members, has_times, rest })
}

/// Numbers of 4 or 8 bytes at the begin of `bytes`, and what lies behind them.
pub(super) fn array<const BYTES: usize>(
    bytes: &[u8],
    count: usize,
) -> Result<(&[[u8; BYTES]], &[u8]), Damaged> {
    let length = count.checked_mul(BYTES).ok_or(Damaged)?;
    let (numbers, rest) = bytes.split_at_checked(length).ok_or(Damaged)?;
    Ok((numbers.as_chunks().0, rest))
}

/// Strings one behind the other, and where each ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    ends: &'a [[u8; 4]],
    data: &'a [u8],
}

impl<'a> Table<'a> {
    /// Without strings.
    pub(super) const EMPTY: Table<'static> = Table { ends: &[], data: &[] };

    /// The strings of `data`, which must fill it.
    pub(super) fn new(ends: &'a [[u8; 4]], data: &'a [u8]) -> Result<Self, Damaged> {
        let later = ends.get(1..).unwrap_or_default();
        // Without an early end, so that the compiler compares several at a time.
        let ascends = ends.iter().zip(later).fold(true, |so_far, (end, next)| {
            so_far & (u32::from_le_bytes(*end) <= u32::from_le_bytes(*next))
        });
        let table = Self { ends, data };
        if ascends && table.begin(ends.len()) == data.len() { Ok(table) } else { Err(Damaged) }
    }

    /// The strings of a collection of this kind, whose members have `step` strings each; and the times of its members,
    /// if it has some.
    pub(super) fn of(
        bytes: &'a [u8],
        kind: Kind,
        step: usize,
    ) -> Result<(Self, &'a [[u8; 8]]), Damaged> {
        let parts = parts(bytes, kind)?;
        let (ends, rest) = array(parts.rest, parts.members.checked_mul(step).ok_or(Damaged)?)?;
        let (times, data) = array(rest, if parts.has_times { parts.members } else { 0 })?;
        Ok((Self::new(ends, data)?, times))
    }

    /// Number of strings.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where the string at `at` begins, or the last one ends.
    fn begin(&self, at: usize) -> usize {
        let end = at.checked_sub(1).and_then(|before| self.ends.get(before));
        end.map_or(0, |end| u32::from_le_bytes(*end) as usize)
    }

    /// The string at `at`; empty if there is none.
    pub(super) fn get(&self, at: usize) -> &'a [u8] {
        self.span(at..at + 1)
    }

    /// The data of some strings.
    fn span(&self, run: Range<usize>) -> &'a [u8] {
        self.data.get(self.begin(run.start)..self.begin(run.end)).unwrap_or_default()
    }

    /// All strings.
    pub(super) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let table = *self;
        (0..self.len()).map(move |at| table.get(at))
    }

    /// Finds `wanted` among the strings at `step` times 0, 1, 2, …, which are sorted; or where it would be.
    pub(super) fn find(&self, wanted: &[u8], step: usize) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len() / step);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle * step).cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }
}

/// A part of a table that is to be written.
#[derive(Clone, Debug)]
pub(super) enum Part<'a> {
    /// Strings of the table as it was.
    Old(Range<usize>),
    New(&'a [u8]),
}

/// The parts of a table that is to be written.
#[derive(Debug, Default)]
pub(super) struct Plan<'a>(Vec<Part<'a>>);

impl<'a> Plan<'a> {
    /// Keeps some strings of the old table.
    pub(super) fn keep(&mut self, run: Range<usize>) {
        match self.0.last_mut() {
            _ if run.is_empty() => {}
            Some(Part::Old(last)) if last.end == run.start => last.end = run.end,
            _ => self.0.push(Part::Old(run)),
        }
    }

    /// Adds a string.
    pub(super) fn add(&mut self, string: &'a [u8]) {
        self.0.push(Part::New(string));
    }

    /// Writes a collection: its strings are the parts, `step` of them a member. `middle` lies between ends and data; of
    /// a hash it has the times of its members.
    pub(super) fn write(
        &self,
        (kind, step): (Kind, usize),
        old: Table<'_>,
        middle: &[u8],
    ) -> Encoded {
        let (mut strings, mut bytes) = (0, 0);
        for part in &self.0 {
            match part {
                Part::Old(run) => {
                    (strings, bytes) = (strings + run.len(), bytes + old.span(run.clone()).len());
                }
                Part::New(string) => (strings, bytes) = (strings + 1, bytes + string.len()),
            }
        }
        let members = strings / step;
        let mut out = Vec::with_capacity(HEADER_BYTES + 4 * strings + middle.len() + bytes);
        let has_times = kind == Kind::Hash && !middle.is_empty();
        out.extend_from_slice(&[VERSION, kind.number(), if has_times { HAS_TIMES } else { 0 }, 0]);
        out.extend_from_slice(&short(members).to_le_bytes());
        let mut end = 0;
        for part in &self.0 {
            match part {
                Part::Old(run) => {
                    let shift = short(end).wrapping_sub(short(old.begin(run.start)));
                    let ends = old.ends.get(run.clone()).unwrap_or_default();
                    let at = out.len();
                    out.resize(at + 4 * ends.len(), 0);
                    let places = out.get_mut(at..).unwrap_or_default().as_chunks_mut::<4>().0;
                    for (place, end) in places.iter_mut().zip(ends) {
                        *place = u32::from_le_bytes(*end).wrapping_add(shift).to_le_bytes();
                    }
                    end += old.span(run.clone()).len();
                }
                Part::New(string) => {
                    end += string.len();
                    out.extend_from_slice(&short(end).to_le_bytes());
                }
            }
        }
        out.extend_from_slice(middle);
        for part in &self.0 {
            match part {
                Part::Old(run) => out.extend_from_slice(old.span(run.clone())),
                Part::New(string) => out.extend_from_slice(string),
            }
        }
        Encoded { bytes: out, members }
    }
}

/// A length as the encoding has it. A request and an item have less than 4 GiB.
pub(super) fn short(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
