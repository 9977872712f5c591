//! Heads: which version of an object is current.
//!
//! At most one request for the head of a path is under way. A caller joins one that was not sent yet. A caller that
//! comes later waits for it to end and takes its answer only if the head is trusted for some time; else the next
//! request is for all that came in the meantime. So an answer is never older than the call, unless `head_ttl` says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use async_lock::SemaphoreGuardArc;
use larder::Route;

use super::Store;
use crate::flight::Flight;
use crate::head::{Head, StoredHead};
use crate::options::Trust;
use crate::promise::{Keeper, Promise, promise};
use crate::source::{Answer, Ask, Failure, FailureKind, Source, Span, Wanted};

/// How often a caller asks anew if the task that asks for it is dropped.
const ATTEMPTS: u32 = 3;
/// After this time an object without a validator is looked at again.
const UNVALIDATED_TTL: Duration = Duration::from_secs(3600);

/// The current version of an object, as far as the cache knows.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) head: Head,
    /// The front of the keys of its parts; `None` if nothing tells this version from others.
    pub(crate) object: Option<Vec<u8>>,
    checked_at: Duration,
    epoch: u64,
}

/// The answer to a question for a head.
#[derive(Debug)]
pub(crate) struct Found<F> {
    pub(crate) opened: Arc<Opened>,
    /// The first bytes, if they were asked for in the same request.
    pub(super) flight: Option<Arc<Flight<F>>>,
    /// Whether it was this caller's request.
    pub(super) is_own: bool,
}

impl<F> Clone for Found<F> {
    fn clone(&self) -> Self {
        let flight = self.flight.as_ref().map(Arc::clone);
        Self { opened: Arc::clone(&self.opened), flight, is_own: self.is_own }
    }
}

impl<F> From<Opened> for Found<F> {
    fn from(opened: Opened) -> Self {
        Self { opened: Arc::new(opened), flight: None, is_own: false }
    }
}

type Outcome<F> = Result<Found<F>, Arc<F>>;

/// The newest request for each head.
pub(crate) type HeadTable<F> = HashMap<Vec<u8>, Arc<HeadRequest<F>>>;

/// A request for a head.
#[derive(Debug)]
pub(crate) struct HeadRequest<F> {
    promise: Promise<Outcome<F>>,
    /// Changes under the lock of the table.
    is_sent: AtomicBool,
}

/// The task of a request.
struct Asking<S: Source> {
    source: S,
    key: Vec<u8>,
    wanted: Wanted,
    /// The head that the cache has, which may be out of date.
    known: Option<Head>,
    before: Option<Promise<Outcome<S::Error>>>,
    request: Arc<HeadRequest<S::Error>>,
}

impl<R: Route + 'static, F: Failure> Store<R, F> {
    /// The head of an object, if it can be trusted without asking.
    pub(crate) async fn trusted_head(&self, path: &str) -> Option<Found<F>> {
        let key = self.keys.head(path);
        let opened = self.known_head(path, &key).await?;
        self.is_fresh(path, &opened).then(|| {
            self.counters.head_hits.add(1);
            opened.into()
        })
    }

    /// The head of an object: trusted, or else asked for. An object that is not in the cache is asked for its first
    /// wanted bytes in the same request.
    pub(crate) async fn head<S: Source<Error = F>>(
        self: &Arc<Self>,
        source: &S,
        wanted: &Wanted,
    ) -> Result<Found<F>, F> {
        let path = source.path();
        let key = self.keys.head(path);
        let known = match self.known_head(path, &key).await {
            Some(known) if self.is_fresh(path, &known) => {
                self.counters.head_hits.add(1);
                return Ok(known.into());
            }
            // Its bytes are passed through, and so is the question whether it is there.
            Some(known) if known.object.is_none() && *wanted != Wanted::Head => {
                return Ok(known.into());
            }
            known => known.map(|known| known.head),
        };
        for _ in 0..ATTEMPTS {
            let (promise, is_own) = self.join_head(source, &key, wanted, known.clone());
            match promise.wait().await {
                Some(Ok(found)) => return Ok(Found { is_own, ..found }),
                Some(Err(error)) => return Err(F::shared(&error)),
                None => self.counters.abandoned_fetches.add(1),
            }
        }
        Err(F::broken_off(path))
    }

    /// Voids the head of an object that turned out to have changed.
    pub(crate) async fn forget(&self, path: &str) {
        self.counters.changed_objects.add(1);
        self.void(&self.keys.head(path)).await;
    }

    async fn known_head(&self, path: &str, key: &[u8]) -> Option<Opened> {
        // Before the look: a write in between makes the head untrusted.
        let epoch = self.epochs.of(key);
        let stored = self.look(key).await?;
        let (head, checked_at) = StoredHead::decode(&stored)?;
        Some(self.opened(path, head, checked_at, epoch))
    }

    fn opened(&self, path: &str, head: Head, checked_at: Duration, epoch: u64) -> Opened {
        let validator = head.validator(self.options.trust(path) == Trust::ForEver);
        let object = validator.map(|validator| self.keys.object(path, &validator));
        Opened { head, object, checked_at, epoch }
    }

    fn is_fresh(&self, path: &str, opened: &Opened) -> bool {
        let is_trusted = match self.options.trust(path) {
            Trust::ForEver => true,
            Trust::For(ttl) => {
                let age = self.now().checked_sub(opened.checked_at);
                age.is_some_and(|age| age < ttl)
            }
        };
        let key = self.keys.head(path);
        is_trusted && self.epochs.of(&key) == opened.epoch && !self.epochs.is_doubtful(&key)
    }

    /// Joins a request that was not sent yet, or starts one behind those that were.
    fn join_head<S: Source<Error = F>>(
        self: &Arc<Self>,
        source: &S,
        key: &[u8],
        wanted: &Wanted,
        known: Option<Head>,
    ) -> (Promise<Outcome<F>>, bool) {
        let mut table = self.head_table();
        let newest = table.get(key);
        if let Some(request) = newest.filter(|it| !it.is_sent.load(Ordering::SeqCst)) {
            self.counters.head_joins.add(1);
            return (request.promise.clone(), false);
        }
        let before = newest.map(|request| request.promise.clone());
        let (keeper, promise) = promise();
        let request = HeadRequest { promise: promise.clone(), is_sent: AtomicBool::new(false) };
        let request = Arc::new(request);
        table.insert(key.to_vec(), Arc::clone(&request));
        drop(table);
        let (source, wanted) = (source.clone(), wanted.clone());
        let asking = Asking { source, key: key.to_vec(), wanted, known, before, request };
        let this = Arc::clone(self);
        self.background.spawn(Box::pin(async move { this.ask_head(asking, keeper).await }));
        (promise, true)
    }

    async fn ask_head<S: Source<Error = F>>(
        self: Arc<Self>,
        asking: Asking<S>,
        keeper: Keeper<Outcome<F>>,
    ) {
        let _listed = Listed { store: &*self, key: &asking.key, request: &asking.request };
        let path = asking.source.path();
        let before = match &asking.before {
            Some(before) => before.wait().await.and_then(Result::ok),
            None => None,
        };
        if let Some(found) = before.as_ref().filter(|found| self.is_fresh(path, &found.opened)) {
            self.counters.head_joins.add(1);
            // Its flight may have ended long ago; if not, it is found among all flights.
            return keeper.keep(Ok(Found { flight: None, ..found.clone() }));
        }
        let mut permit = Some(self.requests.acquire_arc().await);
        self.send(&asking.request);
        let (epoch, checked_at) = (self.epochs.of(&asking.key), self.now());
        self.counters.head_requests.add(1);
        let known = asking.known.as_ref().or(before.as_ref().map(|before| &before.opened.head));
        let answer = match known {
            Some(_) => None,
            None => self.open(&asking, epoch, checked_at, &mut permit).await,
        };
        let answer = match answer {
            Some(answer) => answer,
            None => self.ask_for_head(&asking, epoch, checked_at).await.map(Found::from),
        };
        drop(permit);
        let found = match answer {
            Ok(found) => found,
            Err(error) => {
                if error.kind() == FailureKind::Missing && known.is_some() {
                    self.void(&asking.key).await;
                }
                return keeper.keep(Err(Arc::new(error)));
            }
        };
        // A head that is never trusted is stored once, to know that the object is there.
        let opened = Arc::clone(&found.opened);
        let is_new = known != Some(&opened.head);
        keeper.keep(Ok(found));
        if is_new || self.options.trust(path) != Trust::For(Duration::ZERO) {
            self.keep_head(&asking.key, &opened).await;
        }
    }

    /// From here on the answer may be older than a call that comes.
    fn send(&self, request: &HeadRequest<F>) {
        let _table = self.head_table();
        request.is_sent.store(true, Ordering::SeqCst);
    }

    async fn keep_head(&self, key: &[u8], opened: &Opened) {
        let Some(bytes) = StoredHead::encode(&opened.head, opened.checked_at) else { return };
        let ttl = opened.object.is_none().then_some(UNVALIDATED_TTL);
        self.keep_unless_written(key, &bytes, ttl, opened.epoch).await;
    }

    async fn ask_for_head<S: Source<Error = F>>(
        &self,
        asking: &Asking<S>,
        epoch: u64,
        checked_at: Duration,
    ) -> Result<Opened, F> {
        self.counters.upstream_requests.add(1);
        let answer = asking.source.ask(Ask { head: true, ..Ask::default() }).await?;
        Ok(self.opened(asking.source.path(), answer.head, checked_at, epoch))
    }

    /// Asks for the head with the first bytes. `None` if that cannot be asked of an object whose size is not known.
    async fn open<S: Source<Error = F>>(
        self: &Arc<Self>,
        asking: &Asking<S>,
        epoch: u64,
        checked_at: Duration,
        permit: &mut Option<SemaphoreGuardArc>,
    ) -> Option<Result<Found<F>, F>> {
        let path = asking.source.path();
        let (span, is_footer) = self.opening(path, &asking.wanted)?;
        let slot = self.fetches.try_acquire_arc()?;
        self.counters.upstream_requests.add(1);
        self.counters.footer_prefetches.add(u64::from(is_footer));
        let Answer { head, range, body } =
            match asking.source.ask(Ask { span: Some(span), ..Ask::default() }).await {
                Ok(answer) => answer,
                Err(error) => {
                    let is_final = [FailureKind::Missing, FailureKind::Refused];
                    return is_final.contains(&error.kind()).then_some(Err(error));
                }
            };
        let mut found = Found::from(self.opened(path, head, checked_at, epoch));
        let opened = &found.opened;
        let limit = self.options.request_bytes + self.options.part_size;
        let is_short = range.start <= range.end && range.end - range.start <= limit;
        if let Some(object) = &opened.object
            && is_short
            && opened.head.size <= self.options.max_object
        {
            let ticket = self.flights.begin(object, range);
            let flight = ticket.shared_flight();
            let (this, size, object) = (Arc::clone(self), opened.head.size, object.clone());
            let (permit, path) = (permit.take(), path.to_owned());
            self.background.spawn(Box::pin(async move {
                this.receive(body, ticket, &path, (&object, size), (permit, slot)).await;
            }));
            found.flight = Some(flight);
        }
        Some(Ok(found))
    }

    /// What to ask of an object of which nothing is known; whether that is the end of a file, ahead of its reader.
    fn opening(&self, path: &str, wanted: &Wanted) -> Option<(Span, bool)> {
        let (part, most) = (self.options.part_size, self.options.request_bytes);
        let floor = |at: u64| at - at % part;
        let footer = self.options.footer_bytes(path);
        // One part more, so that parts are whole wherever the object ends.
        let suffix = |bytes: u64| Span::Suffix(bytes + part - 1);
        match *wanted {
            Wanted::Head if footer > 0 => Some((suffix(footer), true)),
            Wanted::Head => None,
            Wanted::All => Some((Span::Bounded(0..most), false)),
            Wanted::Offset(start) => {
                let start = floor(start);
                Some((Span::Bounded(start..start.checked_add(most)?), false))
            }
            Wanted::Suffix(bytes) => {
                let is_ahead = bytes < footer;
                let bytes = bytes.max(footer);
                (bytes > 0 && bytes <= most - part).then(|| (suffix(bytes), is_ahead))
            }
            Wanted::Bounded(ref range) => {
                let length = range.end.checked_sub(range.start).filter(|length| *length > 0)?;
                // The first bytes that are wanted of such a file are at its end.
                let is_ahead = length < footer;
                let start = if is_ahead { range.end.saturating_sub(footer) } else { range.start };
                let start = floor(start);
                let end = range.end.checked_next_multiple_of(part)?.min(start.checked_add(most)?);
                Some((Span::Bounded(start..end), is_ahead))
            }
        }
    }

    fn head_table(&self) -> MutexGuard<'_, HeadTable<F>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a request out of the table when its task ends, however it ends.
struct Listed<'a, R: Route + 'static, F: Failure> {
    store: &'a Store<R, F>,
    key: &'a [u8],
    request: &'a Arc<HeadRequest<F>>,
}

impl<R: Route + 'static, F: Failure> Drop for Listed<'_, R, F> {
    fn drop(&mut self) {
        let mut table = self.store.head_table();
        if table.get(self.key).is_some_and(|newest| Arc::ptr_eq(newest, self.request)) {
            table.remove(self.key);
        }
    }
}
