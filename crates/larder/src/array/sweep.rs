//! All tables are written in turn, so that a crash need not look at what is older than the last whole turn.

use super::Array;
use super::host::Why;

/// How far a turn has come.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The table that is next.
    next: u32,
    /// The clock when the turn began; `None` if a table of it could not be written.
    began: Option<u64>,
}

impl Sweep {
    /// A turn that begins now.
    pub(super) fn beginning_at(clock: u64) -> Self {
        Self { next: 0, began: Some(clock) }
    }
}

impl Array {
    /// From now on all is news that comes. Nobody else uses the engine.
    pub(super) fn restart_sweep(&self) {
        if let Some(mut sweep) = self.sweep.try_lock() {
            *sweep = Sweep::beginning_at(self.dead.clock());
        }
    }

    /// Goes on with the turn by so many tables at most: writes those that have something to learn. One at a time is
    /// enough: for others there is nothing to do.
    pub(super) async fn sweep_tables(&self, most: u32) {
        let Some(mut sweep) = self.sweep.try_lock() else { return };
        for _ in 0..most {
            if sweep.next >= self.place.tables {
                return self.end_sweep(&mut sweep).await;
            }
            if self.has_news(sweep.next) && !self.write_table(sweep.next, Why::Upkeep).await {
                sweep.began = None;
            }
            // Not before: who is dropped in the middle leaves this table to the next.
            sweep.next += 1;
        }
    }

    /// All tables have had their turn: nothing before it is news to tables on flash.
    async fn end_sweep(&self, sweep: &mut Sweep) {
        if let Some(began) = sweep.began
            && !self.lock().entries.has_lost_tables()
        {
            self.log.write_out().await;
            let mut state = self.lock();
            // Of a region that failed meanwhile the tables are lost, and an older one may count.
            if !state.entries.has_lost_tables() {
                state.active.set_horizon(began);
            }
        }
        *sweep = Sweep::beginning_at(self.dead.clock());
    }
}
