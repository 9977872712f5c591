//! Numbers of the shards of a set.

/// Maximum number of shards of a set, including retired ones.
pub(crate) const SHARDS_MAX: usize = 128;

/// A shard's number in its set, below [`SHARDS_MAX`]. It does not depend on the order in which devices are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardNumber(u8);

impl ShardNumber {
    /// `None` if no set can have such a shard.
    pub(crate) fn new(number: usize) -> Option<Self> {
        u8::try_from(number).ok().filter(|_| number < SHARDS_MAX).map(Self)
    }

    /// All numbers of a set of `count` shards.
    pub(crate) fn all(count: usize) -> impl Iterator<Item = Self> + Clone {
        debug_assert!(count <= SHARDS_MAX, "a set of {count} shards");
        (0..count).filter_map(Self::new)
    }

    /// Its index among the shards of a set.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl std::fmt::Display for ShardNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_a_set_can_have() {
        assert_eq!(ShardNumber::new(SHARDS_MAX), None);
        assert_eq!(ShardNumber::new(SHARDS_MAX - 1).map(ShardNumber::index), Some(SHARDS_MAX - 1));
        assert_eq!(ShardNumber::all(3).map(ShardNumber::index).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
