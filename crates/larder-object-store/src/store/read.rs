//! A read of an object: its parts come from the cache, from a flight that is under way, or from a new one.
//!
//! A stream plans a window of parts at a time, and the next one while the first is read. A reader whose flight finds
//! another version begins anew as long as it has returned nothing; after that its stream ends with an error.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use larder::Route;

use super::Store;
use super::heads::{Found, Opened};
use crate::flight::{Flight, Trouble};
use crate::in_flight::Merging;
use crate::key;
use crate::layout::Layout;
use crate::source::{Failure, Source};

/// How often a reader plans anew what a dropped task was to bring.
const RETRIES: u32 = 3;
/// A shorter piece of a cached part is copied, so that it does not keep the memory of the part.
const SHARE_MIN: usize = 4;

/// Why a read cannot begin.
pub(crate) enum ReadError<F> {
    /// The object is of another version than its head said.
    Changed,
    Failed(F),
}

/// Where a read found the bytes that it was to return first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheStatus {
    /// All in the cache.
    Hit,
    /// Some in the cache.
    Partial,
    /// None in the cache.
    Miss,
}

/// Where a part is.
#[derive(Debug)]
enum Piece<F> {
    Cached(Bytes),
    Flight(Arc<Flight<F>>),
}

/// A read of a range.
pub(crate) struct Reader<R: Route + 'static, S: Source> {
    store: Arc<Store<R, S::Error>>,
    source: S,
    opened: Arc<Opened>,
    /// The request that told the head, if it brings bytes too, until the first plan; whether it is this reader's.
    first: Option<Arc<Flight<S::Error>>>,
    is_own: bool,
    object: Vec<u8>,
    layout: Layout,
    /// By part; those behind the reader are gone.
    pieces: BTreeMap<u64, Piece<S::Error>>,
    at: u64,
    end: u64,
    /// The first part that is not planned.
    planned: u64,
    retries: u32,
}

impl<R: Route + 'static, S: Source> Reader<R, S> {
    /// Begins to read `range`. `None` if nothing tells this version of the object from others.
    pub(crate) async fn begin(
        store: &Arc<Store<R, S::Error>>,
        source: &S,
        found: &Found<S::Error>,
        range: Range<u64>,
    ) -> Option<Result<Self, ReadError<S::Error>>> {
        let mut reader = Self::new(store, source, found)?;
        reader.planned = reader.layout.part_of(range.start);
        (reader.at, reader.end) = (range.start, range.end);
        reader.plan_window().await;
        Some(reader.begun().await.map(|()| reader))
    }

    /// Reads several ranges at once.
    pub(crate) async fn gather(
        store: &Arc<Store<R, S::Error>>,
        source: &S,
        found: &Found<S::Error>,
        ranges: &[Range<u64>],
    ) -> Option<Result<Vec<Bytes>, ReadError<S::Error>>> {
        let mut reader = Self::new(store, source, found)?;
        let mut parts: Vec<u64> =
            ranges.iter().flat_map(|range| reader.layout.parts_of(range)).collect();
        parts.sort_unstable();
        parts.dedup();
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let ahead = reader.footer_parts(
            &(parts.first().map_or(end, |part| reader.layout.bytes_of(*part).start)..end),
        );
        reader.plan(parts, ahead).await;
        if let Err(error) = reader.begun().await {
            return Some(Err(error));
        }
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            match reader.range(range).await {
                Ok(bytes) => all.push(bytes),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(all))
    }

    fn new(store: &Arc<Store<R, S::Error>>, source: &S, found: &Found<S::Error>) -> Option<Self> {
        let opened = Arc::clone(&found.opened);
        let layout = Layout { part_bytes: store.options.part_size, size: opened.head.size };
        Some(Self {
            object: opened.object.clone()?,
            store: Arc::clone(store),
            source: source.clone(),
            opened,
            first: found.flight.clone(),
            is_own: found.is_own,
            layout,
            pieces: BTreeMap::new(),
            at: 0,
            end: 0,
            planned: u64::MAX,
            retries: 0,
        })
    }

    /// Where the first window was found.
    pub(crate) fn status(&self) -> CacheStatus {
        let is_cached = |piece: &Piece<S::Error>| matches!(piece, Piece::Cached(_));
        if self.pieces.values().all(is_cached) {
            CacheStatus::Hit
        } else if self.pieces.values().any(is_cached) {
            CacheStatus::Partial
        } else {
            CacheStatus::Miss
        }
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, S::Error> {
        if self.at >= self.end {
            return Ok(None);
        }
        let window = self.window_parts();
        let read = self.layout.part_of(self.at);
        if self.planned.saturating_sub(read) <= window / 2 {
            self.plan_window().await;
        }
        self.pieces = self.pieces.split_off(&read);
        match self.chunk(self.at, self.end).await {
            Ok(bytes) => {
                self.at += u64::try_from(bytes.len()).unwrap_or(0);
                Ok(Some(bytes))
            }
            Err(ReadError::Failed(error)) => Err(error),
            Err(ReadError::Changed) => {
                self.store.forget(self.source.path()).await;
                Err(S::Error::changed(self.source.path()))
            }
        }
    }

    /// All bytes of a range whose parts are planned.
    async fn range(&mut self, range: &Range<u64>) -> Result<Bytes, ReadError<S::Error>> {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut at = range.start;
        let mut whole = BytesMut::new();
        while at < range.end {
            let bytes = self.chunk(at, range.end).await?;
            if bytes.len() == length {
                return Ok(bytes);
            }
            whole.reserve(length - whole.len());
            at += u64::try_from(bytes.len()).unwrap_or(0);
            whole.extend_from_slice(&bytes);
        }
        Ok(whole.freeze())
    }

    /// Some bytes from `at` on, at least one.
    async fn chunk(&mut self, at: u64, end: u64) -> Result<Bytes, ReadError<S::Error>> {
        let part = self.layout.part_of(at);
        loop {
            let trouble = match self.pieces.get(&part) {
                Some(Piece::Cached(bytes)) => {
                    let taken = taken(bytes, at - self.layout.bytes_of(part).start, end - at);
                    self.store.counters.cache_bytes.add(u64::try_from(taken.len()).unwrap_or(0));
                    return Ok(taken);
                }
                Some(Piece::Flight(flight)) => {
                    match flight.read(at, end.min(flight.span().end)).await {
                        Ok(bytes) => return Ok(bytes),
                        Err(trouble) => trouble,
                    }
                }
                None => Trouble::Abandoned,
            };
            self.after(trouble, part).await?;
        }
    }

    /// Waits until each flight of the plan has found the right version.
    async fn begun(&mut self) -> Result<(), ReadError<S::Error>> {
        loop {
            let mut troubled = None;
            for (part, piece) in &self.pieces {
                if let Piece::Flight(flight) = piece
                    && let Err(trouble) = flight.begun().await
                {
                    troubled = Some((*part, trouble));
                    break;
                }
            }
            match troubled {
                None => return Ok(()),
                Some((part, trouble)) => self.after(trouble, part).await?,
            }
        }
    }

    /// Plans anew what an abandoned flight was to bring; all else ends the read.
    async fn after(
        &mut self,
        trouble: Trouble<S::Error>,
        part: u64,
    ) -> Result<(), ReadError<S::Error>> {
        match trouble {
            Trouble::Changed => Err(ReadError::Changed),
            Trouble::Failed(error) => Err(ReadError::Failed(S::Error::shared(&error))),
            Trouble::Abandoned if self.retries < RETRIES => {
                self.retries += 1;
                self.store.counters.abandoned_fetches.add(1);
                self.pieces.remove(&part);
                self.plan(vec![part], 0..0).await;
                Ok(())
            }
            Trouble::Abandoned => Err(ReadError::Failed(S::Error::broken_off(self.source.path()))),
        }
    }

    fn window_parts(&self) -> u64 {
        (self.store.options.request_bytes / self.store.options.part_size).max(1)
    }

    /// Plans the parts of the next window.
    async fn plan_window(&mut self) {
        let rest = self.layout.parts_of(&(self.at..self.end));
        let first = self.planned.max(rest.start);
        let until = rest.end.min(first.saturating_add(self.window_parts()));
        if first >= until {
            return;
        }
        self.planned = until;
        let ahead = self.footer_parts(&(self.at..self.end));
        self.plan((first..until).collect(), ahead).await;
    }

    /// The parts that are fetched with the end of a file.
    fn footer_parts(&self, range: &Range<u64>) -> Range<u64> {
        let bytes = self.store.options.footer_bytes(self.source.path());
        let is_end = range.end == self.layout.size && range.end - range.start < bytes;
        if is_end {
            self.layout.parts_of(&(self.layout.size.saturating_sub(bytes)..self.layout.size))
        } else {
            0..0
        }
    }

    /// Finds out where each part is. What is nowhere is fetched, and `ahead` with it.
    async fn plan(&mut self, mut missing: Vec<u64>, ahead: Range<u64>) {
        let store = Arc::clone(&self.store);
        let counters = &store.counters;
        if let Some(first) = self.first.take() {
            let before = missing.len();
            missing.retain(|part| {
                let is_brought = first.brings(&self.layout.bytes_of(*part));
                if is_brought {
                    self.pieces.insert(*part, Piece::Flight(Arc::clone(&first)));
                }
                !is_brought
            });
            let counter = if self.is_own { &counters.part_misses } else { &counters.part_joins };
            counter.add(u64::try_from(before - missing.len()).unwrap_or(0));
        }
        let mut looks = 0;
        loop {
            let ended = store.flights.ended();
            missing.retain(|part| {
                let bytes = self.layout.bytes_of(*part);
                let Some(flight) = store.flights.bringing(&self.object, &bytes) else {
                    return true;
                };
                counters.part_joins.add(1);
                self.pieces.insert(*part, Piece::Flight(flight));
                false
            });
            self.look_up(&mut missing).await;
            if missing.is_empty() {
                return;
            }
            let mut wanted = missing.clone();
            wanted.extend(ahead.clone().filter(|part| !self.pieces.contains_key(part)));
            wanted.sort_unstable();
            wanted.dedup();
            counters.footer_prefetches.add(u64::from(wanted.len() > missing.len()));
            looks += 1;
            // A flight that ended during the look-up may have brought them: once more, then they are fetched.
            let since = (looks == 1).then_some(ended);
            let merging = Merging {
                gap_parts: store.options.merge_gap / store.options.part_size,
                parts_max: self.window_parts(),
            };
            let joined = store.flights.join(&self.object, (&self.layout, merging), &wanted, since);
            let Some(joined) = joined else { continue };
            counters.part_joins.add(count(&joined.joined));
            counters.part_misses.add(count(&joined.started));
            counters.merged_parts.add(count(&joined.started) - count(&joined.tickets));
            for (part, flight) in joined.joined.into_iter().chain(joined.started) {
                self.pieces.insert(part, Piece::Flight(flight));
            }
            for ticket in joined.tickets {
                store.spawn_fetch(&self.source, &self.opened, ticket);
            }
            return;
        }
    }

    /// Takes the parts that the cache has out of `missing`.
    async fn look_up(&mut self, missing: &mut Vec<u64>) {
        if missing.is_empty() {
            return;
        }
        let key = |part: &u64| key::part(&self.object, self.layout.bytes_of(*part).start);
        let keys: Vec<_> = missing.iter().map(key).collect();
        let found = self.store.look_all(&keys).await;
        for (part, value) in missing.iter().zip(found) {
            let Some(value) = value else { continue };
            let bytes = self.layout.bytes_of(*part);
            if u64::try_from(value.len()) == Ok(bytes.end - bytes.start) {
                self.store.counters.part_hits.add(1);
                self.pieces.insert(*part, Piece::Cached(Bytes::from_owner(value)));
            }
        }
        missing.retain(|part| !self.pieces.contains_key(part));
    }
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(0)
}

/// Up to `most` bytes of a part, from `from` on.
fn taken(part: &Bytes, from: u64, most: u64) -> Bytes {
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(part.len());
    let until = from.saturating_add(usize::try_from(most).unwrap_or(usize::MAX)).min(part.len());
    if (until - from).saturating_mul(SHARE_MIN) < part.len() {
        Bytes::copy_from_slice(part.get(from..until).unwrap_or_default())
    } else {
        part.slice(from..until)
    }
}
