//! Bytes on their way: from the store to the readers of a flight, and then into the cache.

use std::sync::Arc;

use async_lock::SemaphoreGuardArc;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use larder::Route;

use super::Store;
use super::heads::Opened;
use crate::flight::{Ended, Trouble};
use crate::in_flight::Ticket;
use crate::key;
use crate::layout::Layout;
use crate::options::Trust;
use crate::promise::promise;
use crate::source::{Ask, Failure, FailureKind, Source, Span};

/// The places that a fetch takes: of a request, while there is one, and of a fetch in memory.
type Places = (Option<SemaphoreGuardArc>, SemaphoreGuardArc);

impl<R: Route + 'static, F: Failure> Store<R, F> {
    /// Gives a flight to a task.
    pub(super) fn spawn_fetch<S: Source<Error = F>>(
        self: &Arc<Self>,
        source: &S,
        opened: &Arc<Opened>,
        ticket: Ticket<F>,
    ) {
        let (this, source, opened) = (Arc::clone(self), source.clone(), Arc::clone(opened));
        self.background.spawn(Box::pin(async move { this.fetch(source, &opened, ticket).await }));
    }

    async fn fetch<S: Source<Error = F>>(&self, source: S, opened: &Opened, ticket: Ticket<F>) {
        let Some(object) = &opened.object else { return };
        let slot = self.fetches.acquire_arc().await;
        let permit = self.requests.acquire_arc().await;
        let span = ticket.flight().span().clone();
        let if_match = opened.head.strong_e_tag().map(str::to_owned);
        let version = opened.head.version.clone().filter(|_| if_match.is_none());
        let ask = Ask { span: Some(Span::Bounded(span.clone())), if_match, version, head: false };
        self.counters.upstream_requests.add(1);
        let answer = match source.ask(ask).await {
            Ok(answer) => answer,
            Err(error) => return self.fail(&ticket, error),
        };
        let is_immutable = self.options.trust(source.path()) == Trust::ForEver;
        let validator = answer.head.validator(is_immutable);
        let told = validator.map(|validator| self.keys.object(source.path(), &validator));
        if told.as_ref() != Some(object) || answer.head.size != opened.head.size {
            return ticket.flight().end(Ended::Trouble(Trouble::Changed));
        }
        if answer.range != span {
            return self.fail(&ticket, F::broken_off(source.path()));
        }
        let object = (object.as_slice(), opened.head.size);
        self.receive(answer.body, ticket, source.path(), object, (Some(permit), slot)).await;
    }

    /// Brings a body to the readers of a flight, and after that into the cache.
    pub(super) async fn receive(
        &self,
        mut body: BoxStream<'static, Result<Bytes, F>>,
        ticket: Ticket<F>,
        path: &str,
        (object, size): (&[u8], u64),
        places: Places,
    ) {
        let flight = ticket.flight();
        flight.begin();
        let mut at = flight.span().start;
        let end = flight.span().end;
        while at < end {
            match body.next().await {
                Some(Ok(mut chunk)) => {
                    // A store that sends too much.
                    chunk.truncate(usize::try_from(end - at).unwrap_or(usize::MAX));
                    if chunk.is_empty() {
                        continue;
                    }
                    let length = u64::try_from(chunk.len()).unwrap_or(0);
                    self.counters.upstream_bytes.add(length);
                    flight.push(at, chunk);
                    at += length;
                }
                Some(Err(error)) => return self.fail(&ticket, error),
                None => return self.fail(&ticket, F::broken_off(path)),
            }
        }
        flight.end(Ended::Complete);
        drop((body, places));
        self.store(&ticket, object, size).await;
    }

    /// Stores the whole parts of a flight. While it lasts, readers that miss one of them join the flight.
    async fn store(&self, ticket: &Ticket<F>, object: &[u8], size: u64) {
        let flight = ticket.flight();
        let layout = Layout { part_bytes: self.options.part_size, size };
        let parts = layout.whole_parts_of(flight.span());
        // Readers do not wait for a cache that is slow, and memory does not grow with what it has not taken.
        let Some(_place) = self.storing.try_acquire_arc() else {
            return self.counters.unstored_parts.add(parts.end - parts.start);
        };
        for part in parts {
            let place = layout.bytes_of(part);
            if let Some(bytes) = flight.whole(&place) {
                self.keep(&key::part(object, place.start), &bytes).await;
                self.counters.stored_parts.add(1);
            }
        }
    }

    fn fail(&self, ticket: &Ticket<F>, error: F) {
        let trouble = match error.kind() {
            FailureKind::Changed | FailureKind::Missing => Trouble::Changed,
            FailureKind::Refused | FailureKind::Other => {
                self.counters.failed_fetches.add(1);
                Trouble::Failed(Arc::new(error))
            }
        };
        ticket.flight().end(Ended::Trouble(trouble));
    }

    /// Makes a request that is passed through, in a task: a caller that asks and then does something else would keep
    /// its place. The place is free again when the answer begins. `None` if the task was dropped.
    pub(crate) async fn pass<T: Clone + Send + 'static>(
        self: &Arc<Self>,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (keeper, answer) = promise();
        let this = Arc::clone(self);
        self.background.spawn(Box::pin(async move {
            let _permit = this.requests.acquire_arc().await;
            this.counters.upstream_requests.add(1);
            keeper.keep(request.await);
        }));
        answer.wait().await
    }
}
