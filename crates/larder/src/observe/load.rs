//! What the load of flash looks like: how long its objects are, and how long they live.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of sizes: powers of two, up to 2 GiB.
const SIZES: usize = 32;
/// Classes of lifetimes: powers of two of seconds, up to 2^30; then objects that never expire.
const LIFETIMES: usize = 32;

/// Objects that DRAM evicted and flash could take, by size and by remaining time to live, since the cache was opened;
/// whether or not admission accepted them. It says what flash has to serve: how many bytes are small objects, and how
/// many of them die soon.
///
/// ```
/// use larder::FlashLoad;
///
/// let (one, other) = (FlashLoad::default(), FlashLoad::default());
/// assert_eq!((one.and(&other).objects(), one.bytes()), (0, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FlashLoad {
    /// By size (key and value), ascending; classes without objects are left out.
    pub sizes: Vec<SizeClass>,
    /// By remaining time to live, ascending; classes without objects are left out. Objects that never expire are last.
    pub lifetimes: Vec<LifetimeClass>,
}

/// Objects of similar size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeClass {
    /// Longest object of the class in bytes, key and value. The next smaller class ends at half of it.
    pub up_to_bytes: u64,
    /// Their number.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Objects of similar remaining time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LifetimeClass {
    /// Longest remaining time of the class in seconds. The next smaller class ends at half of it. `None`: they never
    /// expire.
    pub up_to_seconds: Option<u64>,
    /// Their number.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl FlashLoad {
    /// The number of all objects.
    pub fn objects(&self) -> u64 {
        self.sizes.iter().map(|class| class.objects).sum()
    }

    /// The bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|class| class.bytes).sum()
    }

    /// The load of two caches together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let counts = LoadCounts::default();
        for load in [self, other] {
            counts.take_in(load);
        }
        counts.load()
    }
}

/// Counts objects on their way to flash.
#[derive(Debug, Default)]
pub(crate) struct LoadCounts {
    sizes: [ClassCount; SIZES],
    lifetimes: [ClassCount; LIFETIMES],
}

#[derive(Debug, Default)]
struct ClassCount {
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl ClassCount {
    fn add(&self, objects: u64, bytes: u64) {
        self.objects.fetch_add(objects, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Option<(u64, u64)> {
        let objects = self.objects.load(Ordering::Relaxed);
        (objects > 0).then(|| (objects, self.bytes.load(Ordering::Relaxed)))
    }
}

impl LoadCounts {
    /// Counts an object of this size; `left_s` is its remaining time in seconds, if it expires.
    pub(crate) fn note(&self, bytes: u64, left_s: Option<u32>) {
        self.sizes[size_class(bytes)].add(1, bytes);
        self.lifetimes[lifetime_class(left_s.map(u64::from))].add(1, bytes);
    }

    /// What was counted.
    pub(crate) fn load(&self) -> FlashLoad {
        let counted = |of: &[ClassCount]| -> Vec<(usize, u64, u64)> {
            let each = of.iter().enumerate();
            each.filter_map(|(at, class)| class.read().map(|(objects, bytes)| (at, objects, bytes)))
                .collect()
        };
        let size = |(at, objects, bytes)| SizeClass { up_to_bytes: 1_u64 << at, objects, bytes };
        let lifetime = |(at, objects, bytes)| LifetimeClass {
            up_to_seconds: (at < LIFETIMES - 1).then_some(1_u64 << at),
            objects,
            bytes,
        };
        FlashLoad {
            sizes: counted(&self.sizes).into_iter().map(size).collect(),
            lifetimes: counted(&self.lifetimes).into_iter().map(lifetime).collect(),
        }
    }

    fn take_in(&self, load: &FlashLoad) {
        for class in &load.sizes {
            self.sizes[size_class(class.up_to_bytes)].add(class.objects, class.bytes);
        }
        for class in &load.lifetimes {
            self.lifetimes[lifetime_class(class.up_to_seconds)].add(class.objects, class.bytes);
        }
    }
}

/// The class of `number`: class `n` ends at 2^n.
fn power(number: u64) -> usize {
    number.max(1).next_power_of_two().trailing_zeros() as usize
}

fn size_class(bytes: u64) -> usize {
    power(bytes.min(1 << (SIZES - 1)))
}

fn lifetime_class(left_s: Option<u64>) -> usize {
    left_s.map_or(LIFETIMES - 1, |seconds| power(seconds.min(1 << (LIFETIMES - 2))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_at_a_power_of_two() {
        let counts = LoadCounts::default();
        for bytes in [1, 2, 3, 4, 5, 1 << 40] {
            counts.note(bytes, None);
        }
        let load = counts.load();
        let sizes: Vec<_> =
            load.sizes.iter().map(|class| (class.up_to_bytes, class.objects)).collect();
        assert_eq!(sizes, [(1, 1), (2, 1), (4, 2), (8, 1), (1 << 31, 1)]);
        assert_eq!((load.objects(), load.bytes()), (6, 15 + (1 << 40)));
    }

    #[test]
    fn objects_that_never_expire_are_last() {
        let counts = LoadCounts::default();
        for left in [Some(60), None, Some(0), Some(u32::MAX)] {
            counts.note(10, left);
        }
        let lifetimes: Vec<_> =
            counts.load().lifetimes.iter().map(|class| class.up_to_seconds).collect();
        assert_eq!(lifetimes, [Some(1), Some(64), Some(1 << 30), None]);
    }

    #[test]
    fn two_loads_add_up() {
        let (one, other) = (LoadCounts::default(), LoadCounts::default());
        one.note(100, Some(60));
        other.note(120, Some(50));
        other.note(5000, None);
        let both = one.load().and(&other.load());
        let sizes: Vec<_> = both.sizes.iter().map(|class| (class.objects, class.bytes)).collect();
        assert_eq!(sizes, [(2, 220), (1, 5000)]);
        assert_eq!(both.lifetimes.len(), 2);
    }
}
