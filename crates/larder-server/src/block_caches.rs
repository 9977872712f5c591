//! Block caches of this machine, each a process of its own, of which the admin address tells beside the tenants.

use std::fmt;

use serde::Serialize;

use crate::metrics_text::MetricsText;

/// Asks block caches how they are, whenever somebody looks.
pub trait BlockCaches: fmt::Debug + Send + Sync {
    /// Each of them, with where it is asked.
    fn names(&self) -> Vec<String>;

    /// Each of them, whether it answers or not. Somebody waits: a second or so at most.
    fn report(&self) -> Vec<BlockCacheReport>;

    /// The same as metrics, in families whose names begin with none of the server's prefixes. As long at most.
    fn metrics(&self) -> MetricsText;
}

/// The same caches are asked at the same places.
impl PartialEq for dyn BlockCaches {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

/// What a block cache says.
#[derive(Clone, Debug, Serialize)]
pub struct BlockCacheReport {
    /// Its cache device, as the configuration has it.
    pub cache: String,
    /// Why it does not answer.
    pub error: Option<String>,
    /// As `larder block status --json`; null if it does not answer.
    pub status: serde_json::Value,
    /// As `larder block stats --json`; null if it does not answer.
    pub stats: serde_json::Value,
}
