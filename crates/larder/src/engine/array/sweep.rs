//! Writes all tables in turn, so that recovery after a crash can ignore what is older than the last complete sweep.

use super::Array;
use super::host::Why;

/// Progress of a sweep.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The next table.
    next: u32,
    /// The clock at the beginning of the sweep; `None` if one of its tables could not be written.
    began: Option<u64>,
}

impl Sweep {
    /// A sweep that begins now.
    pub(super) fn beginning_at(clock: u64) -> Self {
        Self { next: 0, began: Some(clock) }
    }
}

impl Array {
    /// Starts a new sweep. The caller makes sure that no other request uses the engine.
    pub(super) fn restart_sweep(&self) {
        if let Some(mut sweep) = self.sweep.try_lock() {
            *sweep = Sweep::beginning_at(self.dead.clock());
        }
    }

    /// Continues the sweep by at most `most` tables: writes those that have something to learn. One task at a time is
    /// enough, so other callers return at once.
    pub(super) async fn sweep_tables(&self, most: u32) {
        let Some(mut sweep) = self.sweep.try_lock() else { return };
        for _ in 0..most {
            if sweep.next >= self.place.tables {
                return self.end_sweep(&mut sweep).await;
            }
            if self.has_news(sweep.next) && !self.write_table(sweep.next, Why::Upkeep).await {
                sweep.began = None;
            }
            // Not earlier: if this future is dropped, the next caller repeats this table.
            sweep.next += 1;
        }
    }

    /// Ends a sweep: tables on flash know everything from before its beginning.
    async fn end_sweep(&self, sweep: &mut Sweep) {
        if let Some(began) = sweep.began
            && !self.lock().entries.has_lost_tables()
        {
            self.log.write_out().await;
            let mut state = self.lock();
            // If a region failed during the write, its tables are lost, and an older writing may be the newest one
            // left.
            if !state.entries.has_lost_tables() {
                state.active.set_horizon(began);
            }
        }
        *sweep = Sweep::beginning_at(self.dead.clock());
    }
}
