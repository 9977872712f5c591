//! How an object is divided into parts, and which missing parts are fetched together.

use std::ops::Range;

/// The parts of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) part_bytes: u64,
    pub(crate) size: u64,
}

impl Layout {
    /// The part that has this byte.
    pub(crate) fn part_of(&self, at: u64) -> u64 {
        at / self.part_bytes
    }

    /// The bytes of a part: the last one may be shorter.
    pub(crate) fn bytes_of(&self, part: u64) -> Range<u64> {
        let start = part.saturating_mul(self.part_bytes).min(self.size);
        start..start.saturating_add(self.part_bytes).min(self.size)
    }

    /// The parts that have these bytes.
    pub(crate) fn parts_of(&self, bytes: &Range<u64>) -> Range<u64> {
        if bytes.is_empty() {
            return 0..0;
        }
        self.part_of(bytes.start)..self.part_of(bytes.end - 1) + 1
    }

    /// The parts that lie wholly within these bytes.
    pub(crate) fn whole_parts_of(&self, bytes: &Range<u64>) -> Range<u64> {
        let first = bytes.start.div_ceil(self.part_bytes);
        let end = if bytes.end >= self.size {
            self.size.div_ceil(self.part_bytes)
        } else {
            bytes.end / self.part_bytes
        };
        first..end.max(first)
    }

    /// The bytes of a run of parts.
    pub(crate) fn bytes_of_run(&self, parts: &Range<u64>) -> Range<u64> {
        self.bytes_of(parts.start).start..self.bytes_of(parts.end.saturating_sub(1)).end
    }
}

/// Divides missing parts, which are sorted, into runs for one request each: parts that are at most `gap` parts apart
/// are together, up to `parts_max` parts.
pub(crate) fn runs(missing: &[u64], gap: u64, parts_max: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &part in missing {
        match runs.last_mut() {
            Some(run) if part - run.end <= gap && part + 1 - run.start <= parts_max => {
                run.end = part + 1;
            }
            _ => runs.push(part..part + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { part_bytes: 10, size: 35 };

    #[test]
    fn parts_divide_the_object() {
        assert_eq!((LAYOUT.part_of(9), LAYOUT.part_of(10)), (0, 1));
        assert_eq!(
            (LAYOUT.bytes_of(0), LAYOUT.bytes_of(3), LAYOUT.bytes_of(4)),
            (0..10, 30..35, 35..35)
        );
        assert_eq!((LAYOUT.parts_of(&(9..11)), LAYOUT.parts_of(&(10..20))), (0..2, 1..2));
        assert_eq!(LAYOUT.parts_of(&(0..0)), 0..0);
        assert_eq!(LAYOUT.bytes_of_run(&(1..4)), 10..35);
    }

    #[test]
    fn only_whole_parts_are_kept() {
        assert_eq!(LAYOUT.whole_parts_of(&(0..35)), 0..4);
        assert_eq!(LAYOUT.whole_parts_of(&(1..35)), 1..4);
        assert_eq!(LAYOUT.whole_parts_of(&(1..29)), 1..2);
        assert_eq!(LAYOUT.whole_parts_of(&(31..35)), 4..4);
        assert_eq!(LAYOUT.whole_parts_of(&(1..9)), 1..1);
    }

    #[test]
    fn neighbours_are_fetched_together_up_to_the_length_of_a_request() {
        let runs = |missing: &[u64], gap, most| -> Vec<(u64, u64)> {
            runs(missing, gap, most).into_iter().map(|run| (run.start, run.end)).collect()
        };
        assert_eq!(runs(&[], 4, 8), []);
        assert_eq!(runs(&[0, 1, 2], 0, 8), [(0, 3)]);
        assert_eq!(runs(&[0, 2, 5], 0, 8), [(0, 1), (2, 3), (5, 6)]);
        assert_eq!(runs(&[0, 2, 5], 1, 8), [(0, 3), (5, 6)]);
        assert_eq!(runs(&[0, 2, 5], 2, 8), [(0, 6)]);
        assert_eq!(runs(&[0, 1, 2, 3, 4], 2, 2), [(0, 2), (2, 4), (4, 5)]);
        assert_eq!(runs(&[0, 9], 20, 4), [(0, 1), (9, 10)]);
    }
}
