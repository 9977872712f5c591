//! The dirty lines of cores in order. Destaging needs the order, which a hash index does not have.

use std::collections::BTreeMap;

use super::table::CoreLine;

/// Lines of a group, one bit each.
const GROUP_LINES: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct DirtyLines {
    /// By core and number of the group. No group is empty.
    groups: BTreeMap<(u16, u64), u64>,
}

impl DirtyLines {
    pub(super) fn set(&mut self, CoreLine { core, number }: CoreLine, is_dirty: bool) {
        let (key, bit) = ((core, number / GROUP_LINES), 1 << (number % GROUP_LINES));
        let group = self.groups.entry(key).or_insert(0);
        *group = if is_dirty { *group | bit } else { *group & !bit };
        if *group == 0 {
            self.groups.remove(&key);
        }
    }

    /// The first dirty line of a core from `from` on.
    pub(super) fn next(&self, from: CoreLine) -> Option<CoreLine> {
        let CoreLine { core, number } = from;
        let own = (core, number / GROUP_LINES);
        for (&(_, group), lines) in self.groups.range(own..=(core, u64::MAX)) {
            let before = if group == own.1 { number % GROUP_LINES } else { 0 };
            let left = lines & u64::MAX << before;
            if left != 0 {
                let number = group * GROUP_LINES + u64::from(left.trailing_zeros());
                return Some(CoreLine { core, number });
            }
        }
        None
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Nodes of a B-tree are at least half full, two thirds on average.
        self.groups.len() * size_of::<((u16, u64), u64)>() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_next_one_is_found() {
        let (mut lines, mut model) = (DirtyLines::default(), BTreeSet::new());
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let line = CoreLine { core: rng.u16(..3), number: rng.u64(..1000) };
            if rng.u8(..8) == 0 {
                model.insert(line);
                lines.set(line, true);
            } else {
                model.remove(&line);
                lines.set(line, false);
            }
            let from = CoreLine { core: rng.u16(..3), number: rng.u64(..1000) };
            let next = model.range(from..).next().filter(|next| next.core == from.core);
            assert_eq!(lines.next(from), next.copied());
        }
    }
}
