//! The cache under test, and defects that can be injected to test the oracle.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;

use larder::{Cas, Change, FetchError, SetOptions, Value};

use super::request::{Answer, Found, Request, Verb, Write};
use super::value::{Content, content_of, key_of, piece_of};
use crate::any_cache::Cache;

/// A deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InjectedBug {
    /// None: the unchanged cache.
    #[default]
    None,
    /// Sometimes a get returns the value before the newest.
    Stale,
    /// Sometimes a get returns a deleted value.
    Resurrected,
    /// Sometimes a get returns a value of another key.
    Foreign,
    /// Times to live are ignored.
    Immortal,
    /// Sometimes a set does nothing.
    LostSet,
    /// A compare-and-swap does not compare.
    BlindCas,
    /// Counting reads, waits and then writes.
    TornCount,
    /// A fetched value is stored even if the key was changed during the fetch.
    LateFill,
}

impl InjectedBug {
    /// All defects that the oracle must notice.
    pub const ALL: [Self; 8] = [
        Self::Stale,
        Self::Resurrected,
        Self::Foreign,
        Self::Immortal,
        Self::LostSet,
        Self::BlindCas,
        Self::TornCount,
        Self::LateFill,
    ];
}

/// A cache with its defect.
pub(super) struct Subject {
    pub(super) cache: Cache,
    bug: InjectedBug,
    memory: RefCell<Memory>,
}

/// What a defective cache remembers.
#[derive(Default)]
struct Memory {
    newest: HashMap<u32, Content>,
    before: HashMap<u32, Content>,
    deleted: HashMap<u32, Content>,
    calls: u32,
}

impl Subject {
    pub(super) fn new(cache: Cache, bug: InjectedBug) -> Self {
        Self { cache, bug, memory: RefCell::default() }
    }

    /// Performs a request. `fetch` is what a miss of [`Request::GetOrFetch`] waits for.
    pub(super) async fn perform<F: Future<Output = ()>>(
        self: Rc<Self>,
        request: Request,
        fetch: impl FnOnce() -> F,
    ) -> Answer {
        match self.attempt(request, fetch).await {
            Ok(answer) => answer,
            Err(error) => Answer::Refused(error.kind(), error.to_string()),
        }
    }

    async fn attempt<F: Future<Output = ()>>(
        &self,
        request: Request,
        fetch: impl FnOnce() -> F,
    ) -> Result<Answer, larder::Error> {
        let cache = &self.cache;
        Ok(match request {
            Request::Get(key) => Answer::Found(self.get(key).await?),
            Request::GetMany(keys) => {
                let names: Vec<_> = keys.iter().map(|key| key_of(*key)).collect();
                let values = cache.get_many(&names).await?;
                let found = keys.iter().zip(values).map(|(key, value)| found(*key, value));
                Answer::Many(found.collect())
            }
            Request::Scan(keys) => Answer::Many(self.scan(&keys).await),
            Request::Flush => Answer::Flushed(cache.flush().await?.lost),
            Request::Contains(key) => Answer::Said(cache.contains(&key_of(key)).await?),
            Request::Delete(key) => {
                let was_there = cache.delete(&key_of(key)).await?;
                self.note_delete(key);
                Answer::Said(was_there)
            }
            Request::Touch(key, ttl) => Answer::Said(cache.touch(&key_of(key), ttl).await?),
            Request::Append(key, piece) => {
                let tail = piece_of(key, piece, 40);
                Answer::Said(cache.append(&key_of(key), &tail).await?)
            }
            Request::Count(key, delta) => Answer::Counted(self.count(key, delta).await?),
            Request::Store(key, verb, write) => self.store(key, verb, write).await?,
            Request::GetOrFetch(key, write, fails) => {
                return self.get_or_fetch(key, write, fails, fetch).await;
            }
        })
    }

    async fn get(&self, key: u32) -> Result<Option<Found>, larder::Error> {
        let mut found = found(key, self.cache.get(&key_of(key)).await?);
        let mut memory = self.memory.borrow_mut();
        memory.calls += 1;
        let strikes_now = memory.calls.is_multiple_of(16);
        let substitute = match self.bug {
            InjectedBug::Stale => memory.before.get(&key).cloned().map(Ok),
            InjectedBug::Resurrected => memory.deleted.get(&key).cloned().map(Ok),
            InjectedBug::Foreign => Some(content_of(key, &piece_of(key + 1, 0, 40))),
            _ => None,
        };
        if let Some(content) = substitute.filter(|_| strikes_now) {
            let flags = content.as_ref().map_or(0, |content| flags_of(key, content));
            found = Some(Found { content, version: 0, flags, pin: None });
        }
        Ok(found)
    }

    /// The values of these keys in a scan of everything. If a key is found twice, the last value counts.
    async fn scan(&self, keys: &[u32]) -> Vec<Option<Found>> {
        let names: Vec<_> = keys.iter().map(|key| key_of(*key)).collect();
        let mut all: Vec<Option<Found>> = keys.iter().map(|_| None).collect();
        for mut scan in self.cache.scan() {
            while let Some(some) = scan.next().await {
                for scanned in some {
                    if let Some(at) = names.iter().position(|name| name[..] == *scanned.key()) {
                        all[at] = found(keys[at], Some(scanned.value().clone()));
                    }
                }
            }
        }
        all
    }

    async fn count(&self, key: u32, delta: u64) -> Result<Option<u64>, larder::Error> {
        let name = key_of(key);
        if self.bug != InjectedBug::TornCount {
            return self.cache.incr(&name, delta).await;
        }
        let Some(value) = self.cache.get(&name).await? else { return Ok(None) };
        let Ok(Content::Number(number)) = content_of(key, &value) else { return Ok(None) };
        let options = SetOptions { flags: value.flags(), ..SetOptions::default() };
        drop(value);
        rest().await;
        let sum = number.wrapping_add(delta);
        self.cache.set_with(&name, sum.to_string().as_bytes(), options).await?;
        Ok(Some(sum))
    }

    async fn store(&self, key: u32, verb: Verb, write: Write) -> Result<Answer, larder::Error> {
        let (cache, name, bytes) = (&self.cache, key_of(key), bytes_of(key, &write));
        let options = self.options(key, &write);
        let answer = match verb {
            Verb::Set if self.bug == InjectedBug::LostSet && write.piece.is_multiple_of(16) => {
                Answer::Done
            }
            Verb::Set => {
                cache.set_with(&name, &bytes, options).await?;
                Answer::Done
            }
            Verb::Add => Answer::Said(cache.add(&name, &bytes, options).await?),
            Verb::Replace => Answer::Said(cache.replace(&name, &bytes, options).await?),
            Verb::Cas(_, _) if self.bug == InjectedBug::BlindCas => {
                cache.set_with(&name, &bytes, options).await?;
                Answer::Cas(Cas::Stored)
            }
            Verb::Cas(version, _) => Answer::Cas(cache.cas(&name, &bytes, version, options).await?),
            Verb::Swap => {
                let change = |_: Option<&Value>| Change::Store(bytes.as_slice().into(), options);
                Answer::Found(found(key, cache.update(&name, change).await?))
            }
        };
        self.note_store(key, &write.content);
        Ok(answer)
    }

    async fn get_or_fetch<F: Future<Output = ()>>(
        &self,
        key: u32,
        write: Write,
        fails: bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Answer, larder::Error> {
        let (name, options) = (key_of(key), self.options(key, &write));
        let fetch = async || {
            fetch().await;
            if fails { Err("the source is down") } else { Ok(bytes_of(key, &write)) }
        };
        if self.bug == InjectedBug::LateFill {
            if let Some(value) = self.cache.get(&name).await? {
                return Ok(Answer::Fetched(found(key, Some(value))));
            }
            let Ok(bytes) = fetch().await else { return Ok(Answer::Fetched(None)) };
            self.cache.set_with(&name, &bytes, options).await?;
            let (content, flags) = (Ok(write.content.clone()), options.flags);
            let found = Found { content, version: 0, flags, pin: None };
            return Ok(Answer::Fetched(Some(found)));
        }
        match self.cache.get_or_fetch(&name, options, fetch).await {
            Ok(value) => Ok(Answer::Fetched(found(key, Some(value)))),
            Err(FetchError::Fetch(_)) => Ok(Answer::Fetched(None)),
            Err(FetchError::Cache(error)) => Ok(Answer::Refused(error.kind(), error.to_string())),
        }
    }

    fn options(&self, key: u32, write: &Write) -> SetOptions {
        let ttl = write.ttl.filter(|_| self.bug != InjectedBug::Immortal);
        SetOptions { ttl, flags: flags_of(key, &write.content), ..SetOptions::default() }
    }

    fn note_store(&self, key: u32, content: &Content) {
        let mut memory = self.memory.borrow_mut();
        if let Some(before) = memory.newest.insert(key, content.clone()) {
            memory.before.insert(key, before);
        }
    }

    fn note_delete(&self, key: u32) {
        let mut memory = self.memory.borrow_mut();
        if let Some(deleted) = memory.newest.remove(&key) {
            memory.deleted.insert(key, deleted);
        }
    }
}

/// The flags that belong to this content.
pub(super) fn flags_of(key: u32, content: &Content) -> u32 {
    match content {
        Content::Pieces(pieces) => pieces.first().copied().unwrap_or(0),
        Content::Number(_) => key,
    }
}

fn bytes_of(key: u32, write: &Write) -> Vec<u8> {
    match &write.content {
        Content::Pieces(_) => piece_of(key, write.piece, write.bytes),
        Content::Number(number) => number.to_string().into_bytes(),
    }
}

fn found(key: u32, value: Option<Value>) -> Option<Found> {
    let value = value?;
    Some(Found {
        content: content_of(key, &value),
        version: value.version(),
        flags: value.flags(),
        pin: Some(value),
    })
}

/// Yields once.
async fn rest() {
    let mut rested = false;
    std::future::poll_fn(|context| {
        if rested {
            return std::task::Poll::Ready(());
        }
        rested = true;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
