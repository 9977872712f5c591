//! Differences between the two versions of Open CAS: sizes of records, and the order in which lines are handed out.

/// Number of lists of each kind: free lines, clean lines, dirty lines.
pub(super) const LISTS: usize = 32;

/// Number of consecutive lines that belong to the same list, since 2026.
const RUN_LINES: u32 = 256;

/// Number of positions, in each half of a list, over which the starting points of the lists of version 22 are spread.
/// Fitted: writes of 128, 16 and 4 lines touch 20, 12.5 and 3 to 4 pages of the table while the first half of an empty
/// cache is filled, as if the lists began at random positions within 25 pages; while the second half is filled, it is
/// about 13 on average.
const APART: [u32; 2] = [266, 66];

/// The version of Open CAS that a cache of lines imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OcfVersion {
    /// 22.6, from the time of the HotStorage'23 study.
    V22,
    /// 26.3, from 2026.
    V26,
    /// Like that of 2026, with a write-ahead log in front of the table: shows the effect of writing records instead of
    /// pages.
    Wal,
}

impl OcfVersion {
    /// All versions.
    pub const ALL: [Self; 3] = [Self::V22, Self::V26, Self::Wal];

    /// Whether the change of a line is written to a log first, and to its page of the table later.
    pub(super) fn has_journal(self) -> bool {
        self == Self::Wal
    }

    /// Bytes of a record that identify the owner of a line.
    pub(super) fn key_bytes(self) -> usize {
        match self {
            Self::V22 => 10,
            Self::V26 | Self::Wal => 8,
        }
    }

    /// The list of a line.
    pub(super) fn list_of(self, line: u32) -> usize {
        let number = match self {
            Self::V22 => line,
            Self::V26 | Self::Wal => line / RUN_LINES,
        };
        number as usize % LISTS
    }

    /// Lines that a request takes from a list before it goes to the next one.
    pub(super) fn taken_at_once(self) -> usize {
        match self {
            Self::V22 => 1,
            Self::V26 | Self::Wal => usize::MAX,
        }
    }

    /// Lines that a cleaning takes from a list before it goes to the next one. The value for version 22 is fitted:
    /// cleanings of a sequential load touch 8 pages with lines of 4 KiB, 11 to 14 with 16 KiB, 18 with 64 KiB.
    pub(super) fn cleaned_at_once(self) -> usize {
        match self {
            Self::V22 => 4,
            Self::V26 | Self::Wal => usize::MAX,
        }
    }

    /// All `lines` in the order in which their lists first hand them out.
    pub(super) fn lines_in_order(self, lines: u32) -> impl Iterator<Item = u32> {
        let lists = u32::try_from(LISTS).expect("a few");
        let all = 0..lines;
        let ordered: Box<dyn Iterator<Item = u32>> = match self {
            Self::V26 | Self::Wal => Box::new(all),
            Self::V22 => Box::new((0..lists).flat_map(move |list| {
                let count = (lines + lists - 1 - list) / lists;
                let (first, second) = (0..count / 2, count / 2..count);
                [first, second].into_iter().zip(APART).flat_map(move |(half, apart)| {
                    let length = half.end - half.start;
                    let begins = scattered(list) % apart.min(length.max(1));
                    let position = move |number| half.start + (begins + number) % length;
                    (0..length).map(move |number| position(number) * lists + list)
                })
            })),
        };
        ordered
    }
}

/// A pseudo-random number, from the last steps of MurmurHash3.
fn scattered(number: u32) -> u32 {
    let mut mixed = number.wrapping_add(1);
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85EB_CA6B);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35);
    mixed ^ mixed >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_given_out_once() {
        for version in OcfVersion::ALL {
            for lines in [256, 257, 12_345] {
                let mut all: Vec<u32> = version.lines_in_order(lines).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..lines), "{version:?}, {lines}");
            }
        }
    }
}
