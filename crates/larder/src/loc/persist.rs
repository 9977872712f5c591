//! Writing what regions in memory hold before they are full.

use super::Loc;
use super::active::ActiveRegion;

impl Loc {
    /// Writes all that the active regions hold, and waits for it. They go on to be filled: what was
    /// written is found again after a crash, as far as records are whole. A region of which something
    /// cannot be written is retired.
    pub(crate) async fn write_out(&self) {
        let mut turn = self.take_turn().await;
        self.lock().active.iter_mut().for_each(ActiveRegion::want_rest);
        self.drain(&mut turn).await;
    }
}
