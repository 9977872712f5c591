//! The thread that pushes metrics.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::{families, request};
use crate::admin;
use crate::config::Otlp;
use crate::error::{Error, ErrorKind};
use crate::shared::ServerState;

/// The default path of a collector.
const PATH: &str = "/v1/metrics";
/// Timeout of a push.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread that pushes; it ends when this is dropped.
pub(crate) struct Exporter {
    /// Dropped first: that ends the thread's sleep.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    pub(crate) fn begin(otlp: &Otlp, shared: &Arc<ServerState>) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let (otlp, shared) = (otlp.clone(), Arc::clone(shared));
        let thread = std::thread::Builder::new().name("larder-otlp".to_owned());
        let thread = thread.spawn(move || run(&otlp, &shared, &stopped));
        let thread = thread
            .map_err(|error| Error::system(ErrorKind::System, "the system has no thread", error))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing useful: its work is over.
            let _ = thread.join();
        }
    }
}

/// Pushes until it is told to stop, and once more then, so that the last events are pushed too.
fn run(otlp: &Otlp, shared: &ServerState, stopped: &Receiver<()>) {
    let url = url_of(&otlp.endpoint);
    let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent();
    let started = SystemTime::now();
    let mut is_taken = true;
    loop {
        let is_over = stopped.recv_timeout(otlp.interval) != Err(RecvTimeoutError::Timeout);
        let families = families::parse(&admin::metrics_text(shared));
        let body = request::encode(&families, &instance(shared), (started, SystemTime::now()));
        let pushed = agent.post(&url).content_type("application/json").send(&body);
        match &pushed {
            Ok(_) if !is_taken => tracing::info!(%url, "the collector takes metrics again"),
            Err(error) if is_taken => {
                tracing::warn!(%url, %error, "the collector takes no metrics")
            }
            _ => {}
        }
        is_taken = pushed.is_ok();
        if is_over {
            return;
        }
    }
}

fn url_of(endpoint: &str) -> String {
    let machine = endpoint.trim_end_matches('/');
    let has_path = machine.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { endpoint.to_owned() } else { format!("{machine}{PATH}") }
}

/// A name that tells this server from others: its first listener.
fn instance(shared: &ServerState) -> String {
    let first = shared.config.listeners.first();
    first.map_or_else(|| "larder".to_owned(), |listener| listener.endpoint.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_usual_one() {
        assert_eq!(url_of("http://collector:4318"), "http://collector:4318/v1/metrics");
        assert_eq!(url_of("http://collector:4318/"), "http://collector:4318/v1/metrics");
        assert_eq!(url_of("http://collector/push/metrics"), "http://collector/push/metrics");
    }
}
