//! The shares of IO classes, and the order in which they are evicted. Rules decide which class a request has
//! ([`policy::classes`](crate::policy::classes)); a layout knows only the number.

/// An IO class, 0 to 33.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u8);

impl ClassId {
    /// The class of requests for which no rule holds, and of data that a start has found.
    pub const UNCLASSIFIED: Self = Self(0);
    /// Number of classes.
    pub const COUNT: usize = 34;

    /// The class of this number. `None` from 34 on.
    pub fn new(number: u8) -> Option<Self> {
        (usize::from(number) < Self::COUNT).then_some(Self(number))
    }

    /// The number of the class.
    pub fn get(self) -> u8 {
        self.0
    }

    /// All classes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).map_while(Self::new)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The bit of the class in a bit set.
    pub(super) fn bit(self) -> u64 {
        1 << self.0
    }
}

/// The share of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// 255 is evicted first, 0 last; `None` is pinned: no other class evicts it.
    pub priority: Option<u8>,
    /// Most percent of the cache that the class may use, 0 to 100.
    pub percent: u8,
}

impl Share {
    /// All of the cache, evicted first.
    pub const DEFAULT: Self = Self { priority: Some(u8::MAX), percent: 100 };

    /// Its share of `capacity`, in the same unit.
    pub fn of(self, capacity: u64) -> u64 {
        let part = u128::from(capacity) * u128::from(self.percent) / 100;
        u64::try_from(part).expect("a part of what has 64 bits")
    }

    /// Whether it is evicted before `other`. Pinned data is evicted last.
    pub fn gives_way_before(self, other: Self) -> bool {
        match (self.priority, other.priority) {
            (Some(own), Some(other)) => own > other,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// The share of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares([Share; ClassId::COUNT]);

impl Default for Shares {
    fn default() -> Self {
        Self([Share::DEFAULT; ClassId::COUNT])
    }
}

impl Shares {
    /// The shares that `share` returns for each class.
    pub fn from_fn(share: impl Fn(ClassId) -> Share) -> Self {
        let mut shares = Self::default();
        ClassId::all().for_each(|class| shares.0[class.index()] = share(class));
        shares
    }

    /// The share of a class.
    pub fn get(&self, class: ClassId) -> Share {
        self.0[class.index()]
    }
}

/// Why no new data of a class may be cached now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The class has used up its share, and cannot give up data of its own.
    Full,
    /// The cached data is pinned, or belongs to classes that are not evicted for this one.
    Pinned,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_part_and_classes_give_way_by_priority() {
        let share = |priority, percent| Share { priority, percent };
        assert_eq!(share(None, 25).of(u64::MAX), u64::MAX / 4);
        assert_eq!((share(None, 0).of(1000), share(None, 100).of(1000)), (0, 1000));
        let (low, high, pinned) = (share(Some(9), 1), share(Some(0), 1), share(None, 1));
        assert!(low.gives_way_before(high) && high.gives_way_before(pinned));
        assert!(low.gives_way_before(pinned) && !pinned.gives_way_before(low));
        assert!(!high.gives_way_before(low) && !low.gives_way_before(low));
        assert!(!pinned.gives_way_before(pinned));
        assert_eq!((ClassId::all().count(), ClassId::new(34)), (ClassId::COUNT, None));
    }
}
