//! `/api/block`: the block caches of this machine that the server is configured to report.

use serde::Serialize;

use crate::block_caches::BlockCacheReport;
use crate::shared::ServerState;

#[derive(Serialize)]
pub(super) struct Block {
    caches: Vec<BlockCacheReport>,
}

pub(super) fn of(shared: &ServerState) -> Block {
    Block { caches: shared.config.block_caches.as_ref().map_or_else(Vec::new, |all| all.report()) }
}
