//! What changes of an item while it lies where it is: the marks, 24 bits in the first word of its record.
//!
//! ```text
//!   bits  what
//!      1  fetched: it was hit since it was set
//!      1  won: somebody was told to bring a new value
//!     22  second of the last access, modulo 2^22 (48 days); 0 is not known
//! ```
//!
//! A hit writes them only if they change by it: once for each item if accesses are not noted, otherwise at most
//! once a second.

const FETCHED: u32 = 1;
const WON: u32 = 2;
const ACCESS_SHIFT: u32 = 2;
const ACCESS_MASK: u32 = (1 << 22) - 1;

/// Whether an item was hit or won, and when it was accessed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(u32);

impl Marks {
    pub(super) const BITS: u32 = 24;
    pub(super) const WON: Self = Self(WON);

    /// Of an item that is set, in this second if accesses are noted.
    pub(crate) fn of_new(won: bool, now_s: Option<u32>) -> Self {
        Self(if won { WON } else { 0 }).accessed(now_s)
    }

    /// After a hit.
    pub(crate) fn after_hit(self, now_s: Option<u32>) -> Self {
        Self(self.0 | FETCHED).accessed(now_s)
    }

    fn accessed(self, now_s: Option<u32>) -> Self {
        let Some(now_s) = now_s else { return self };
        // 0 would say that it is not known.
        let second = (now_s & ACCESS_MASK).max(1);
        Self(self.0 & (FETCHED | WON) | second << ACCESS_SHIFT)
    }

    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    pub(crate) fn is_won(self) -> bool {
        self.0 & WON != 0
    }

    /// Seconds since the last access, if it was noted.
    pub(crate) fn idle_s(self, now_s: u32) -> Option<u32> {
        let second = self.0 >> ACCESS_SHIFT;
        (second != 0).then(|| now_s.wrapping_sub(second) & ACCESS_MASK)
    }

    /// As many bits as [`Marks::BITS`].
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// The other bits of `bits` are somebody else's.
    pub(super) fn of_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_remembered_with_its_second_and_leaves_the_rest() {
        let new = Marks::of_new(true, Some(7 << 22 | 5));
        assert!(new.is_won() && !new.is_fetched());
        let hit = new.after_hit(Some(7 << 22 | 100));
        assert!(hit.is_won() && hit.is_fetched());
        assert_eq!((new.idle_s(7 << 22 | 105), hit.idle_s(7 << 22 | 105)), (Some(100), Some(5)));
        assert_eq!(hit.idle_s((8 << 22) + 3), Some((1 << 22) - 97), "over the end of the count");
        assert_eq!(Marks::of_bits(hit.bits() | 0xff << 24), hit);
    }

    #[test]
    fn without_a_second_none_is_known() {
        let hit = Marks::of_new(false, None).after_hit(None);
        assert!(hit.is_fetched() && !hit.is_won());
        assert_eq!(hit.idle_s(1000), None);
        let at_zero = Marks::of_new(false, Some(3 << 22));
        assert_eq!(at_zero.idle_s((3 << 22) + 9), Some(8), "a second late, but known");
        assert_eq!(at_zero.after_hit(None).idle_s((3 << 22) + 9), Some(8));
    }
}
