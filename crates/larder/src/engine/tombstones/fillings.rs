//! The valid filling of each region, to decide whether a tombstone is still needed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[derive(Debug, Default)]
struct Filling {
    /// Earlier fillings are not valid.
    sequence: AtomicU64,
    /// Whether the region's own footer says so.
    sealed: AtomicBool,
    /// Number of tombstones of records of this filling.
    dead_records: AtomicU32,
}

/// The current fillings of all regions.
#[derive(Debug)]
pub(super) struct Fillings {
    regions: Vec<Filling>,
    /// Sum over all regions.
    dead_records: AtomicU64,
}

impl Fillings {
    pub(super) fn new(regions: u32) -> Self {
        let regions = (0..regions).map(|_| Filling::default()).collect();
        Self { regions, dead_records: AtomicU64::new(0) }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.regions) as u64
    }

    /// Notes that nothing before this filling is valid. Its footer is not on flash yet.
    pub(super) fn begin(&self, region: u32, sequence: u64) {
        let Some(filling) = self.get(region) else { return };
        filling.sealed.store(false, Ordering::Release);
        filling.sequence.store(sequence, Ordering::Release);
        let dead = filling.dead_records.swap(0, Ordering::AcqRel);
        let sum = self.dead_records.fetch_sub(u64::from(dead), Ordering::AcqRel);
        debug_assert!(sum >= dead.into(), "the sum counts what regions count: {sum}, {dead}");
    }

    /// Notes that the footer of the filling is on flash.
    pub(super) fn seal(&self, region: u32, sequence: u64) {
        let Some(filling) = self.get(region) else { return };
        let before = filling.sequence.swap(sequence, Ordering::AcqRel);
        debug_assert!(
            before <= sequence,
            "region {region}: {sequence} is over, {before} has begun"
        );
        filling.sealed.store(true, Ordering::Release);
    }

    /// Adds a filling that a crash has left, with this number of tombstones of its records. If `sealed`, its footer has
    /// been read.
    pub(super) fn inherit(&self, region: u32, sequence: u64, dead: u32, sealed: bool) {
        let Some(filling) = self.get(region) else { return };
        filling.sequence.store(sequence, Ordering::Release);
        filling.sealed.store(sealed, Ordering::Release);
        let before = filling.dead_records.swap(dead, Ordering::AcqRel);
        self.dead_records.fetch_add(u64::from(dead), Ordering::AcqRel);
        let sum = self.dead_records.fetch_sub(u64::from(before), Ordering::AcqRel);
        debug_assert!(sum >= before.into(), "the sum counts what regions count: {sum}, {before}");
    }

    pub(super) fn invalidate_record(&self, region: u32) {
        if let Some(filling) = self.get(region) {
            filling.dead_records.fetch_add(1, Ordering::AcqRel);
            self.dead_records.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn needs_record(&self, region: u32, sequence: u64) -> bool {
        self.get(region).is_some_and(|filling| filling.sequence.load(Ordering::Acquire) == sequence)
    }

    /// True also for a filling that has not begun yet: its tombstone's block may be freed before the caller that
    /// committed it continues.
    pub(super) fn needs_region(&self, region: u32, sequence: u64) -> bool {
        self.get(region).is_some_and(|filling| {
            let current = filling.sequence.load(Ordering::Acquire);
            sequence > current || sequence == current && !filling.sealed.load(Ordering::Acquire)
        })
    }

    /// Number of needed tombstones of records.
    pub(super) fn dead_records(&self) -> u64 {
        self.dead_records.load(Ordering::Acquire)
    }

    /// The sealed region with the most tombstones of records.
    pub(super) fn deadest(&self) -> Option<u32> {
        let sealed = (0..)
            .zip(&self.regions)
            .filter(|(_, filling)| filling.sealed.load(Ordering::Acquire) && load(filling) > 0);
        sealed.max_by_key(|(_, filling)| load(filling)).map(|(region, _)| region)
    }

    fn get(&self, region: u32) -> Option<&Filling> {
        self.regions.get(region as usize)
    }
}

fn load(filling: &Filling) -> u32 {
    filling.dead_records.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_takes_the_place_of_the_tombstone() {
        let fillings = Fillings::new(2);
        assert!(fillings.needs_region(1, 70), "it is yet to begin");
        fillings.begin(1, 70);
        assert!(fillings.needs_region(1, 70) && !fillings.needs_region(1, 60));
        fillings.invalidate_record(1);
        fillings.seal(1, 70);
        assert!(!fillings.needs_region(1, 70) && fillings.needs_record(1, 70));
        assert_eq!((fillings.dead_records(), fillings.deadest()), (1, Some(1)));
        fillings.begin(1, 80);
        assert!(!fillings.needs_record(1, 70));
        assert_eq!((fillings.dead_records(), fillings.deadest()), (0, None));
        assert!(!fillings.needs_record(9, 1), "hostile numbers");
    }
}
