//! `watch`: the connection gets lines of events until it ends. What the client sends then is discarded.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::answers::{Answers, SENT_AT};
use crate::caller::Caller;
use crate::protocol::memcached::line::Words;
use crate::watchers::{Streams, WatchRefusal, Watcher};
use crate::worker::Worker;

/// The streams that a line asks for. `None`: one of its words is none.
pub(super) fn streams(words: Words<'_>) -> Option<Streams> {
    if words.rest().is_empty() {
        return Some(Streams::FETCHERS);
    }
    words.into_iter().try_fold(Streams::default(), |all, word| {
        Some(all.and(match word {
            b"fetchers" => Streams::FETCHERS,
            b"mutations" => Streams::MUTATIONS,
            b"evictions" => Streams::EVICTIONS,
            b"connevents" => Streams::CONNECTIONS,
            b"deletions" => Streams::DELETIONS,
            // memcached's own crawler, slabs and proxy: here they have no events.
            b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => {
                Streams::default()
            }
            _ => return None,
        }))
    })
}

/// A connection that watches, until this is dropped.
pub(super) struct Watching {
    worker: Rc<Worker>,
    watcher: Arc<Watcher>,
}

impl Watching {
    /// Begins to watch these streams. An error is the answer.
    pub(super) fn begin(streams: Streams, caller: &Caller) -> Result<Self, &'static str> {
        let worker = Rc::clone(&caller.worker);
        let watcher = worker.shared.watchers.begin(streams, caller.keep());
        let watcher = watcher.map_err(|refusal| match refusal {
            WatchRefusal::TooMany => "WATCHER_TOO_MANY log watcher limit reached",
            WatchRefusal::NoMemory => "WATCHER_FAILED failed to add log watcher",
        })?;
        worker.shared.listens();
        Ok(Self { worker, watcher })
    }

    /// Ready when there are lines to send.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.watcher.poll(cx)
    }

    /// Answers with lines that have come. The rest stays where it is bounded until these are sent.
    pub(super) async fn lines(&self, caller: &Caller, answers: &mut Answers<'_>) {
        let bytes = self.watcher.take(SENT_AT, answers.bytes());
        caller.work.does_bytes(bytes);
        caller.rests().await;
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.worker.shared.watchers.end(&self.watcher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_as_in_memcached() {
        let of = |words: &'static str| streams(Words(words.as_bytes()));
        assert_eq!([of(""), of("  ")], [Some(Streams::FETCHERS); 2]);
        assert_eq!(of("mutations  evictions"), Some(Streams::MUTATIONS.and(Streams::EVICTIONS)));
        assert_eq!(of("rawcmds sysevents proxyreqs"), Some(Streams::default()));
        assert_eq!([of("fetch"), of("fetchers x"), of("FETCHERS")], [None; 3]);
    }
}
