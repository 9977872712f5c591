//! Destages for IO classes that are full of dirty data, in the background. Requests of such a class bypass the cache
//! until there is room.

use std::time::Duration;

use super::op::{Op, Step, What};
use super::state::{Cache, Health};
use crate::layout::{ClassId, RequestId, SECTOR_BYTES};
use crate::policy::cleaning::ClassTurn;

impl Cache {
    /// Begins the destages that are due for full classes. Returns when the next one is due, if that is known.
    pub(super) fn relieve_full_classes(&mut self) -> Option<Duration> {
        let capacity_sectors = self.shape.capacity_bytes / SECTOR_BYTES as u64;
        while let Some(class) = self.layout.take_full_of_dirty() {
            let share = self.options.classes.shares().get(class);
            self.cleaning.class_is_full(class, share.of(capacity_sectors));
        }
        // While requests are held back, the holder waits for all I/Os to end: begin no new ones.
        if self.held.is_some() || self.health != Health::Whole {
            return None;
        }
        loop {
            match self.cleaning.class_turn(self.now) {
                ClassTurn::Now(class, sectors) => self.relieve(class, sectors),
                ClassTurn::At(due) => return Some(due),
                ClassTurn::NoClass => return None,
            }
        }
    }

    fn relieve(&mut self, class: ClassId, sectors: u64) {
        // No client waits for this op.
        let what = What::Relieve { class, sectors: 0 };
        let key = self.ops.insert(Op::of(RequestId(u64::MAX), what));
        let begun = self.layout.destage_oldest(RequestId(key as u64), class, sectors);
        self.cleaning.class_began(class, begun, self.now);
        if begun == 0 {
            self.ops.remove(key);
            return;
        }
        self.ops[key].what = What::Relieve { class, sectors: begun };
        self.step(key, Step::Relieve);
    }

    /// Continues at once: the cores set the pace.
    pub(super) fn relief_ended(&mut self, key: usize, is_well: bool) {
        let What::Relieve { class, sectors } = self.ops.remove(key).what else {
            unreachable!("it is for a class")
        };
        if is_well {
            self.statistics.destaged_for_classes_bytes += sectors * SECTOR_BYTES as u64;
        }
        self.cleaning.class_destaged(class, is_well, self.now);
        self.relieve_full_classes();
    }
}
