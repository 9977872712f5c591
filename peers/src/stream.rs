//! The operations, as a function of workload, seed and client: every system gets the same ones.

use std::sync::Arc;

use crate::item::{Item, mix};
use crate::workload::{Sizes, Source};

/// First number of the keys that are used only once.
const ONCE: u64 = 1 << 62;
/// Largest number of such keys for a client.
const ONCE_PER_CLIENT: u64 = 1 << 40;

/// The next operation of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Get the item; on a miss, set it.
    Get(Item),
    /// Set the item.
    Set(Item),
}

/// The operations of one client.
pub(crate) struct Stream {
    source: Arc<Source>,
    rng: fastrand::Rng,
    set_percent: u32,
    next_once: u64,
}

impl Stream {
    /// The stream of a client in a phase (0 is warm-up, 1 is the measurement).
    pub(crate) fn new(
        source: &Arc<Source>,
        set_percent: u32,
        seed: u64,
        phase: u64,
        client: usize,
    ) -> Self {
        let place = phase << 32 | client as u64;
        Self {
            source: Arc::clone(source),
            rng: fastrand::Rng::with_seed(mix(seed ^ mix(place))),
            set_percent,
            next_once: ONCE + place % (1 << 20) * ONCE_PER_CLIENT,
        }
    }

    /// The next operation. The stream never ends.
    pub(crate) fn draw(&mut self) -> Op {
        let set = self.set_percent > 0 && self.rng.u32(..100) < self.set_percent;
        let number = match &*self.source {
            Source::Zipf { popularity, .. } => popularity.draw(&mut self.rng) - 1,
            Source::Published(tables) => {
                if self.rng.f64() < tables.once {
                    self.next_once += 1;
                    self.next_once
                } else {
                    tables.draw(&mut self.rng)
                }
            }
        };
        let item = item(&self.source, number);
        if set { Op::Set(item) } else { Op::Get(item) }
    }
}

/// The item with this number.
pub(crate) fn item(source: &Source, number: u64) -> Item {
    let value_bytes = match source {
        Source::Zipf { sizes, .. } => zipf_value_bytes(*sizes, number),
        Source::Published(tables) => tables.value_bytes(number),
    };
    Item::new(number, value_bytes)
}

fn zipf_value_bytes(sizes: Sizes, number: u64) -> usize {
    let scattered = mix(!number);
    // The upper half determines the length, and the lower half whether it is small.
    let below = |bound: u64| (((scattered >> 32) * bound) >> 32) as usize;
    let is_large = match sizes {
        Sizes::Small | Sizes::Published => false,
        Sizes::Large => true,
        Sizes::Mixed => (scattered as u32).is_multiple_of(5),
    };
    if is_large { 2048 + below(14 * 1024 + 1) } else { 100 + below(901) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Scale, Workload};

    fn keys(workload: &str, seed: u64, client: usize) -> Vec<(bool, Item)> {
        let workload = Workload::find(workload, Scale::Tiny).unwrap();
        let source = Arc::new(Source::of(&workload, None).unwrap());
        let mut stream = Stream::new(&source, workload.set_percent, seed, 1, client);
        let mut draw = || match stream.draw() {
            Op::Get(item) => (false, item),
            Op::Set(item) => (true, item),
        };
        (0..10_000).map(|_| draw()).collect()
    }

    #[test]
    fn a_stream_is_a_function_of_its_seed_and_client() {
        let shown = |keys: &[(bool, Item)]| format!("{keys:?}");
        let first = shown(&keys("HM", 1, 0));
        assert_eq!(first, shown(&keys("HM", 1, 0)));
        assert_ne!(first, shown(&keys("HM", 2, 0)));
        assert_ne!(first, shown(&keys("HM", 1, 1)));
    }

    #[test]
    fn sizes_and_shares_are_as_the_workload_says() {
        let ops = keys("HM", 1, 0);
        let sets = ops.iter().filter(|(set, _)| *set).count();
        assert!((1800..2200).contains(&sets), "{sets}");
        for (_, item) in &ops {
            let small = (100..=1000).contains(&item.value_bytes);
            assert!(small || (2048..=16384).contains(&item.value_bytes));
        }
        let large = (0..100_000).filter(|n| zipf_value_bytes(Sizes::Mixed, *n) > 1000).count();
        assert!((19_500..20_500).contains(&large), "{large}");
    }
}
