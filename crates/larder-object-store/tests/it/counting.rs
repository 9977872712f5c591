//! A store around `InMemory` that notes each read request, and that can be slow, fail, or leave things out.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::Semaphore;

use super::object_store::memory::InMemory;
use super::object_store::path::Path;
use super::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};

/// A read request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) range: Option<GetRange>,
    pub(crate) if_match: Option<String>,
    pub(crate) head: bool,
}

/// What the store is to do; all clones are one store.
#[derive(Debug, Clone)]
pub(crate) struct Counting(Arc<State>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) inner: InMemory,
    asked: Mutex<Vec<Asked>>,
    lists: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    /// Requests that are to fail.
    pub(crate) failing: AtomicUsize,
    /// Each request waits so long before it is answered.
    pub(crate) delay: Mutex<Duration>,
    /// Each request, and each piece of a body after the first, takes one of these if the gate is shut.
    pub(crate) gate: Semaphore,
    pub(crate) is_gated: AtomicBool,
    pub(crate) is_body_gated: AtomicBool,
    /// Each write takes one of these before it is made, and one before it is answered, if it is shut.
    pub(crate) put_gate: Semaphore,
    pub(crate) is_put_gated: AtomicBool,
    /// Whether answers have ETags (those of paths with "untagged" never do), and whether they are weak.
    pub(crate) e_tags: AtomicBool,
    pub(crate) weak: AtomicBool,
    /// Whether it takes no notice of `if_match`.
    pub(crate) ignores_if_match: AtomicBool,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self(Arc::new(State {
            inner: InMemory::new(),
            asked: Mutex::default(),
            lists: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            failing: AtomicUsize::new(0),
            delay: Mutex::default(),
            gate: Semaphore::new(0),
            is_gated: AtomicBool::new(false),
            is_body_gated: AtomicBool::new(false),
            put_gate: Semaphore::new(0),
            is_put_gated: AtomicBool::new(false),
            e_tags: AtomicBool::new(true),
            weak: AtomicBool::new(false),
            ignores_if_match: AtomicBool::new(false),
        }))
    }

    pub(crate) fn state(&self) -> &State {
        &self.0
    }

    /// Stores an object behind the back of the cache.
    pub(crate) async fn write(&self, path: &str, bytes: Vec<u8>) {
        let (path, options) = (Path::from(path), PutOptions::default());
        self.0.inner.put_opts(&path, bytes.into(), options).await.unwrap();
    }

    /// The requests since the last call.
    pub(crate) fn taken(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.0.asked.lock().unwrap())
    }

    /// Their ranges; `None` for a question for the head.
    pub(crate) fn ranges(&self) -> Vec<Option<Range<u64>>> {
        let range = |asked: Asked| match asked.range {
            _ if asked.head => None,
            Some(GetRange::Bounded(range)) => Some(range),
            other => panic!("{other:?}"),
        };
        self.taken().into_iter().map(range).collect()
    }

    pub(crate) fn lists(&self) -> usize {
        self.0.lists.swap(0, SeqCst)
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.0.most.load(SeqCst)
    }

    /// Waits until this number of requests have come since the last call of `taken`.
    pub(crate) async fn wait_for(&self, requests: usize) {
        let came = async {
            while self.0.asked.lock().unwrap().len() < requests {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), came).await.unwrap();
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let is_gated = self.0.is_put_gated.load(SeqCst);
        if is_gated {
            self.0.put_gate.acquire().await.unwrap().forget();
        }
        let written = self.0.inner.put_opts(location, payload, opts).await;
        if is_gated {
            self.0.put_gate.acquire().await.unwrap().forget();
        }
        written
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        let state = &*self.0;
        let GetOptions { range, if_match, head, .. } = options.clone();
        state.asked.lock().unwrap().push(Asked { range, if_match, head });
        let running = state.running.fetch_add(1, SeqCst) + 1;
        state.most.fetch_max(running, SeqCst);
        let delay = *state.delay.lock().unwrap();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if state.ignores_if_match.load(SeqCst) {
            options.if_match = None;
        }
        // What is answered is as it was before the gate opens.
        let answer = self.answered(location, options).await;
        if state.is_gated.load(SeqCst) {
            state.gate.acquire().await.unwrap().forget();
        }
        state.running.fetch_sub(1, SeqCst);
        answer
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.lists.fetch_add(1, SeqCst);
        self.0.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.lists.fetch_add(1, SeqCst);
        self.0.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.inner.rename_opts(from, to, options).await
    }
}

impl Counting {
    async fn answered(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let state = &*self.0;
        let fails = |left: usize| left.checked_sub(1);
        if state.failing.fetch_update(SeqCst, SeqCst, fails).is_ok() {
            let source = "the store is on fire".into();
            return Err(Error::Generic { store: "Counting", source });
        }
        let (bytes, mut result) = loop {
            let first = state.inner.get_opts(location, options.clone()).await?;
            let e_tag = first.meta.e_tag.clone();
            let bytes = first.bytes().await?;
            let second = state.inner.get_opts(location, options.clone()).await?;
            // Else it was written in between.
            if second.meta.e_tag == e_tag {
                break (bytes, second);
            }
        };
        if !state.e_tags.load(SeqCst) || location.as_ref().contains("untagged") {
            result.meta.e_tag = None;
        } else if state.weak.load(SeqCst) {
            result.meta.e_tag = result.meta.e_tag.map(|e_tag| format!("W/{e_tag}"));
        }
        result.payload = GetResultPayload::Stream(self.in_pieces(bytes));
        Ok(result)
    }

    /// A body in pieces of 10,000 bytes.
    fn in_pieces(&self, bytes: Bytes) -> BoxStream<'static, Result<Bytes>> {
        let this = self.clone();
        stream::unfold((bytes, 0_usize), move |(mut rest, number)| {
            let this = this.clone();
            async move {
                if rest.is_empty() {
                    return None;
                }
                if number > 0 && this.0.is_body_gated.load(SeqCst) {
                    this.0.gate.acquire().await.unwrap().forget();
                }
                let piece = rest.split_to(rest.len().min(10_000));
                Some((Ok(piece), (rest, number + 1)))
            }
        })
        .boxed()
    }
}
