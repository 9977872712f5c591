//! Block caches that a server's admin address reports: those of its `larder.toml`, asked over their control sockets.

use std::path::PathBuf;
use std::time::Duration;

use larder_server::{BlockCacheReport, BlockCaches, MetricsText};
use larder_workload::Error;
use serde_json::Value;

use super::control::{self, ControlClient, Question};
use super::metrics::{self, CacheMetrics};
use super::report::{Stats, Status};
use crate::settings_file::BlockEntry;

/// Timeout for a cache; a client waits for the page.
const PATIENCE: Duration = Duration::from_secs(1);

/// The block caches to report.
#[derive(Clone, Debug)]
pub(crate) struct WatchedCaches(Vec<WatchedCache>);

#[derive(Clone, Debug)]
struct WatchedCache {
    cache: String,
    /// Its control socket; `None` if it has none.
    control: Option<PathBuf>,
}

impl WatchedCaches {
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a BlockEntry>) -> Self {
        let one = |entry: &BlockEntry| WatchedCache {
            cache: entry.cache.0.to_string(),
            control: entry.control.clone().or_else(|| entry.unix.as_deref().map(control::beside)),
        };
        Self(entries.map(one).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks all caches in parallel, so that caches that hang cost only one timeout.
    fn ask_all(&self) -> Vec<Result<(Status, Stats), Error>> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = self.0.iter().map(|one| scope.spawn(|| one.ask())).collect();
            let gone = || Err(Error::run("asking it has failed"));
            asked.into_iter().map(|one| one.join().unwrap_or_else(|_| gone())).collect()
        })
    }
}

impl WatchedCache {
    fn ask(&self) -> Result<(Status, Stats), Error> {
        let Some(path) = self.control.clone() else {
            let message = "it has no control socket: give it `control` or `unix` in [[block]]";
            return Err(Error::run(message));
        };
        let ask = ControlClient::briefly(path, PATIENCE);
        let stats = Question::Stats { reset: false };
        Ok((control::ask(&ask, &Question::Status {})?, control::ask(&ask, &stats)?))
    }
}

impl BlockCaches for WatchedCaches {
    fn names(&self) -> Vec<String> {
        let name = |one: &WatchedCache| match &one.control {
            Some(path) => format!("{} by {}", one.cache, path.display()),
            None => format!("{} without a control socket", one.cache),
        };
        self.0.iter().map(name).collect()
    }

    fn report(&self) -> Vec<BlockCacheReport> {
        let asked = self.0.iter().zip(self.ask_all());
        let report = |(one, said): (&WatchedCache, Result<(Status, Stats), Error>)| {
            let said = said.map_err(|error| error.to_string()).and_then(|(status, stats)| {
                let json = (serde_json::to_value(status), serde_json::to_value(stats));
                json.0.and_then(|status| Ok((status, json.1?))).map_err(|error| error.to_string())
            });
            let (error, (status, stats)) = match said {
                Ok(said) => (None, said),
                Err(error) => (Some(error), (Value::Null, Value::Null)),
            };
            BlockCacheReport { cache: one.cache.clone(), error, status, stats }
        };
        asked.map(report).collect()
    }

    fn metrics(&self) -> MetricsText {
        let asked = self.0.iter().zip(self.ask_all());
        let asked: Vec<CacheMetrics> =
            asked.map(|(one, said)| CacheMetrics::among(one.cache.clone(), said.ok())).collect();
        metrics::page(&asked)
    }
}
