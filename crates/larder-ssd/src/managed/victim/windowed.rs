//! Windowed greedy: among the `window` units that were filled first, reclaim the one with the fewest live pages; on a
//! tie the older (Hu et al., "Write amplification analysis in flash-based solid state drives", SYSTOR'09). A window of
//! one is FIFO; a window as wide as the drive is greedy.

use super::super::units::Units;
use super::order::Order;

#[derive(Debug)]
pub(crate) struct Windowed {
    order: Order,
    window: u32,
}

impl Windowed {
    pub(crate) fn new(sets: usize, units: u32, window: u32) -> Self {
        Self { order: Order::new(sets, units), window }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32) {
        self.order.push(unit, set);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32) {
        self.order.remove(unit, set);
    }

    pub(crate) fn choose(&self, set: u32, units: &Units) -> Option<u32> {
        let window = self.order.oldest(set).take(self.window as usize);
        window.min_by_key(|&unit| units.get(unit).live)
    }

    pub(crate) fn len(&self) -> u32 {
        self.order.len()
    }
}
