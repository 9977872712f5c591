//! FIFO: reclaim the unit that was filled first, however many of its pages are live (the "LRU" cleaning of Desnoyers,
//! SYSTOR'12; Xiang and Kurkoski, 2011). It wears all units alike and needs no counts; its write amplification has a
//! closed form.

use super::order::Order;

#[derive(Debug)]
pub(crate) struct Fifo {
    order: Order,
}

impl Fifo {
    pub(crate) fn new(sets: usize, units: u32) -> Self {
        Self { order: Order::new(sets, units) }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32) {
        self.order.push(unit, set);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32) {
        self.order.remove(unit, set);
    }

    pub(crate) fn choose(&self, set: u32) -> Option<u32> {
        self.order.oldest(set).next()
    }

    pub(crate) fn len(&self) -> u32 {
        self.order.len()
    }
}
