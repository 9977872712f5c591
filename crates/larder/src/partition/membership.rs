//! Which shard of which set a device is, and which shards of the set are out.

use larder_device::label::Uuid;

use crate::key::KeyHasher;

/// Shards of a set: a bit each.
pub(crate) const SHARDS_MAX: usize = 64;

/// A shard's number in its set, below [`SHARDS_MAX`]. It stays, in whatever order devices are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardNumber(u8);

impl ShardNumber {
    /// `None` where no set has such a shard.
    pub(crate) fn new(number: usize) -> Option<Self> {
        u8::try_from(number).ok().filter(|_| number < SHARDS_MAX).map(Self)
    }

    /// All numbers of a set of so many shards.
    pub(crate) fn all(count: usize) -> impl Iterator<Item = Self> + Clone {
        debug_assert!(count <= SHARDS_MAX, "a set of {count} shards");
        (0..count).filter_map(Self::new)
    }

    /// Its place among the shards of a set.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl std::fmt::Display for ShardNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// Some shards of a set: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShardMask(u64);

impl ShardMask {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn has(self, shard: ShardNumber) -> bool {
        self.0 >> shard.0 & 1 == 1
    }

    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether all of them are shards of a set of so many.
    fn is_within(self, count: usize) -> bool {
        self.0.checked_shr(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or(0) == 0
    }
}

impl FromIterator<ShardNumber> for ShardMask {
    fn from_iter<I: IntoIterator<Item = ShardNumber>>(shards: I) -> Self {
        Self(shards.into_iter().fold(0, |bits, shard| bits | 1 << shard.0))
    }
}

/// Whose each shard of a set is: the UUID of the table of the device that served as it last.
///
/// A blank device may take the place of one that is missing. When that is back, it has the right number and old values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roster([Uuid; SHARDS_MAX]);

impl Roster {
    /// No shard ever had a device.
    pub(crate) const EMPTY: Self = Self([Uuid::from_bytes([0; 16]); SHARDS_MAX]);

    pub(super) fn from_uuids(uuids: [[u8; 16]; SHARDS_MAX]) -> Self {
        Self(uuids.map(Uuid::from_bytes))
    }

    pub(super) fn uuids(&self) -> [[u8; 16]; SHARDS_MAX] {
        self.0.map(Uuid::bytes)
    }

    pub(crate) fn has(&self, shard: ShardNumber, device: Uuid) -> bool {
        self.0[shard.index()] == device
    }

    /// The same, but for this shard.
    pub(crate) fn with(mut self, shard: ShardNumber, device: Uuid) -> Self {
        self.0[shard.index()] = device;
        self
    }

    /// Whether all devices are those of a set of so many.
    fn is_within(&self, count: usize) -> bool {
        self.0.iter().skip(count).all(|uuid| uuid.bytes() == [0; 16])
    }
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken = self.0.iter().enumerate().filter(|(_, uuid)| uuid.bytes() != [0; 16]);
        f.debug_map().entries(taken).finish()
    }
}

/// Which shard of which set a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Names the set.
    pub(crate) set: u64,
    pub(crate) number: ShardNumber,
    /// Shards of the set.
    pub(crate) count: u16,
    /// Those that were not there when the set was last in use.
    pub(crate) out: ShardMask,
    pub(crate) roster: Roster,
    /// Which key belongs to which shard follows from this. All shards of a set have the same.
    pub(crate) hasher: KeyHasher,
}

impl Membership {
    /// Whether there can be such a set.
    pub(super) fn is_possible(&self) -> bool {
        let count = usize::from(self.count);
        let number_is = count <= SHARDS_MAX && self.number.index() < count;
        number_is && self.out.is_within(count) && self.roster.is_within(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_shards_that_it_was_made_of() {
        let shard = |number| ShardNumber::new(number).unwrap();
        let mask: ShardMask = [shard(0), shard(63)].into_iter().collect();
        assert!(mask.has(shard(0)) && mask.has(shard(63)) && !mask.has(shard(1)));
        assert!(mask.is_within(64) && !mask.is_within(63));
        assert_eq!(ShardNumber::new(SHARDS_MAX), None);
        assert_eq!(ShardNumber::all(3).map(ShardNumber::index).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
