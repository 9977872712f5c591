//! Writing what a region in memory holds before the region is full.

use super::Loc;
use super::footer::RegionIdentity;
use super::regions::Piece;

const BLOCK: usize = 4096;

impl Loc {
    /// Writes all that the active region holds. It goes on to be filled: what was written is found
    /// again after a crash, as far as records are whole. Says whether it went well; if not, the
    /// region is retired.
    pub(crate) async fn write_out(&self) -> bool {
        let mut turn = self.take_turn().await;
        match self.rest_of_active() {
            Some((identity, piece)) => self.write(&mut turn, identity, piece).await,
            None => true,
        }
    }

    fn rest_of_active(&self) -> Option<(RegionIdentity, Piece)> {
        let mut state = self.lock();
        let active = state.active.as_mut()?;
        let piece = active.rest(BLOCK, &self.pool)?;
        Some((active.identity, piece))
    }
}
