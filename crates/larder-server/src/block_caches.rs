//! Block caches of this machine, each in its own process. The admin address reports them along with the tenants.

use std::fmt;

use serde::Serialize;

use crate::metrics_text::MetricsText;

/// Asks the block caches for their state each time an operator requests it.
pub trait BlockCaches: fmt::Debug + Send + Sync {
    /// The names of all block caches, each with the place where it is asked.
    fn names(&self) -> Vec<String>;

    /// A report for each block cache, whether or not it answers. A client waits for it: it must take about one second
    /// at most.
    fn report(&self) -> Vec<BlockCacheReport>;

    /// The same as metrics. The names of the families begin with none of the server's prefixes. About one second at
    /// most.
    fn metrics(&self) -> MetricsText;
}

/// Equal if both ask the same caches at the same places.
impl PartialEq for dyn BlockCaches {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

/// The report of one block cache.
#[derive(Clone, Debug, Serialize)]
pub struct BlockCacheReport {
    /// Its cache device, as written in the configuration.
    pub cache: String,
    /// Why it does not answer.
    pub error: Option<String>,
    /// The output of `larder block status --json`; null if it does not answer.
    pub status: serde_json::Value,
    /// The output of `larder block stats --json`; null if it does not answer.
    pub stats: serde_json::Value,
}
