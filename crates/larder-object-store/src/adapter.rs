//! `CachedStore`, and the objects of the store below. Compiled once for each version of `object_store`.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use larder::{Larder, Route};

use super::object_store::path::Path;
use super::object_store::{
    Attribute, Attributes, CopyOptions, Error, Extensions, GetOptions, GetRange, GetResult,
    GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use super::results;
use crate::head::Head;
use crate::key::ListKind;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::source::{Answer, Ask, Failure, FailureKind, Source, Span, Wanted};
use crate::store::Store;
use crate::store::heads::Opened;
use crate::store::lists::Listing;
use crate::store::read::{CacheStatus, ReadError, Reader};
use crate::store::writing::Writing;

/// How often a read begins anew because the object has changed; then it is passed through.
const ATTEMPTS: u32 = 3;

/// An object store with a cache in front of it. It is an [`ObjectStore`] itself; clones share everything.
///
/// The crate's page says what is cached, and what can be out of date for how long.
pub struct CachedStore<S, R: Route + 'static = Larder> {
    inner: Arc<S>,
    store: Arc<Store<R, Error>>,
}

impl<S: ObjectStore, R: Route + 'static> CachedStore<S, R> {
    /// Puts `cache` in front of `store`, with the default options. `name` says which store this is, in the keys of the
    /// cache: use the name of the bucket, with its region or endpoint. Two stores with one name would be taken for
    /// one.
    ///
    /// # Errors
    /// A name that is empty or longer than 1024 bytes.
    pub fn new(store: S, cache: Arc<R>, name: &str) -> std::result::Result<Self, crate::Error> {
        Self::with_options(store, cache, name, Options::default())
    }

    /// As [`CachedStore::new`], with other options.
    ///
    /// # Errors
    /// Names the option that cannot work, its value and what is legal.
    pub fn with_options(
        store: S,
        cache: Arc<R>,
        name: &str,
        options: Options,
    ) -> std::result::Result<Self, crate::Error> {
        let inner = Arc::new(store);
        Ok(Self { inner, store: Arc::new(Store::new(cache, name, options)?) })
    }

    /// The store below.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The numbers since this store was made.
    pub fn metrics(&self) -> Metrics {
        self.store.counters().snapshot()
    }

    /// Forgets which version of an object is current, for a program that learns of writes elsewhere. The next call
    /// asks the store. It costs a small entry of the cache, however large the object is.
    pub async fn invalidate(&self, location: &Path) {
        self.store.invalidate(location.as_ref()).await;
    }

    fn object(&self, location: &Path, extensions: Extensions) -> Object<S> {
        Object { inner: Arc::clone(&self.inner), location: location.clone(), extensions }
    }

    /// Answers from the cache, and fills it. `None` if the call is to be passed through.
    async fn answer(&self, location: &Path, options: &GetOptions) -> Result<Option<GetResult>> {
        let store = &self.store;
        let object = self.object(location, options.extensions.clone());
        let wanted = wanted(options);
        let is_conditional = options.if_match.is_some()
            || options.if_none_match.is_some()
            || options.if_modified_since.is_some()
            || options.if_unmodified_since.is_some();
        let mut trusted = None;
        if is_conditional || options.version.is_some() {
            trusted = store.trusted_head(location.as_ref()).await;
            let Some(trusted) = &trusted else {
                store.counters().bypassed_condition.add(1);
                return Ok(None);
            };
            if options.version.is_some() && options.version != trusted.opened.head.version {
                store.counters().bypassed_version.add(1);
                return Ok(None);
            }
        }
        for _ in 0..ATTEMPTS {
            let found = match trusted.take() {
                Some(found) => found,
                None => store.head(&object, &wanted).await?,
            };
            let opened = &found.opened;
            let meta = meta_of(location, &opened.head)?;
            options.check_preconditions(&meta)?;
            let described = (meta, attributes_of(&opened.head));
            if options.head && !opened.head.has_unknown_attributes {
                return Ok(Some(head_result(described)));
            }
            let Some(range) = self.cached_range(opened, &wanted) else { return Ok(None) };
            let reader = match Reader::begin(store, &object, &found, range.clone()).await {
                Some(Ok(reader)) => reader,
                Some(Err(ReadError::Failed(error))) => return Err(error),
                Some(Err(ReadError::Changed)) => {
                    store.forget(location.as_ref()).await;
                    if is_conditional || options.version.is_some() {
                        store.counters().bypassed_condition.add(1);
                        return Ok(None);
                    }
                    continue;
                }
                None => return Ok(None),
            };
            let status = reader.status();
            let payload = GetResultPayload::Stream(streamed(reader));
            return Ok(Some(results::get_result(payload, described, range, status)));
        }
        store.counters().bypassed_changing.add(1);
        Ok(None)
    }

    /// The wanted range, if it is to come from the cache.
    fn cached_range(&self, opened: &Opened, wanted: &Wanted) -> Option<Range<u64>> {
        let counters = self.store.counters();
        let reason = if opened.object.is_none() {
            &counters.bypassed_no_validator
        } else if opened.head.size > self.store.max_object() {
            &counters.bypassed_too_large
        } else if let Some(range) = wanted.range(opened.head.size) {
            return Some(range);
        } else {
            &counters.bypassed_range
        };
        reason.add(1);
        None
    }

    async fn answer_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Option<Vec<Bytes>>> {
        let store = &self.store;
        let Some(first) = first_run(ranges, store.merge_gap()) else {
            return Ok(Some(Vec::new()));
        };
        let object = self.object(location, Extensions::default());
        for _ in 0..ATTEMPTS {
            let found = store.head(&object, &Wanted::Bounded(first.clone())).await?;
            let mut known = Vec::with_capacity(ranges.len());
            for range in ranges {
                match self.cached_range(&found.opened, &Wanted::Bounded(range.clone())) {
                    Some(range) => known.push(range),
                    None => return Ok(None),
                }
            }
            match Reader::gather(store, &object, &found, &known).await {
                Some(Ok(all)) => return Ok(Some(all)),
                Some(Err(ReadError::Failed(error))) => return Err(error),
                Some(Err(ReadError::Changed)) => store.forget(location.as_ref()).await,
                None => return Ok(None),
            }
        }
        store.counters().bypassed_changing.add(1);
        Ok(None)
    }

    /// Asks the store below, and caches nothing.
    async fn pass<T: Send + 'static>(
        &self,
        location: &Path,
        ask: impl FnOnce(Arc<S>) -> BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let answer = ask(Arc::clone(&self.inner));
        // The answer goes to one caller: it is taken, not copied.
        let answer = async move { Arc::new(Mutex::new(Some(answer.await))) };
        let taken = self
            .store
            .pass(answer)
            .await
            .and_then(|answer| answer.lock().unwrap_or_else(PoisonError::into_inner).take());
        taken.unwrap_or_else(|| Err(Error::broken_off(location.as_ref())))
    }
}

impl<S, R: Route + 'static> Clone for CachedStore<S, R> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), store: Arc::clone(&self.store) }
    }
}

impl<S: fmt::Debug, R: Route + 'static> fmt::Debug for CachedStore<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedStore").field(&self.store.name()).field(&self.inner).finish()
    }
}

impl<S: fmt::Display, R: Route + 'static> fmt::Display for CachedStore<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedStore({}, {})", self.store.name(), self.inner)
    }
}

#[async_trait]
impl<S: ObjectStore, R: Route + 'static> ObjectStore for CachedStore<S, R> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let writing = Writing::begin(&self.store, location.as_ref()).await;
        let written = self.inner.put_opts(location, payload, opts).await;
        writing.end().await;
        written
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.inner.put_multipart_opts(location, opts).await?;
        let path = location.as_ref().to_owned();
        Ok(Box::new(Upload { upload, store: Arc::clone(&self.store), path }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(answer) = self.answer(location, &options).await? {
            return Ok(answer);
        }
        let place = location.clone();
        self.pass(location, |inner| async move { inner.get_opts(&place, options).await }.boxed())
            .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(answer) = self.answer_ranges(location, ranges).await? {
            return Ok(answer);
        }
        let (place, ranges) = (location.clone(), ranges.to_vec());
        self.pass(location, |inner| async move { inner.get_ranges(&place, &ranges).await }.boxed())
            .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let deleting = Arc::new(Deleting::new(&self.store));
        let [before, after, last] = [(); 3].map(|()| Arc::clone(&deleting));
        let begun = locations.then(move |location| {
            let deleting = Arc::clone(&before);
            async move {
                if let Ok(location) = &location {
                    deleting.begin(location).await;
                }
                location
            }
        });
        let ended = self.inner.delete_stream(begun.boxed()).then(move |deleted| {
            let deleting = Arc::clone(&after);
            async move {
                if let Ok(location) = &deleted {
                    deleting.end(location).await;
                }
                deleted
            }
        });
        // An error does not say of which object it is.
        let rest = stream::once(async move { last.end_all().await }).filter_map(async |()| None);
        ended.chain(rest).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if !self.store.caches_lists() {
            return self.inner.list(prefix);
        }
        let (this, prefix) = (self.clone(), prefix.cloned());
        let begun = async move {
            let text = prefix.as_ref().map_or("", |prefix| prefix.as_ref());
            match this.store.list(ListKind::All, text).await {
                Ok(list) => stream::iter(list.objects.into_iter().map(listed)).boxed(),
                Err(listing) => this.noted_list(prefix, listing),
            }
        };
        stream::once(begun).flatten().boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if !self.store.caches_lists() {
            return self.inner.list_with_delimiter(prefix).await;
        }
        let text = prefix.map_or("", |prefix| prefix.as_ref());
        let mut listing = match self.store.list(ListKind::Level, text).await {
            Ok(list) => {
                let prefixes: Result<Vec<_>> =
                    list.prefixes.iter().map(|prefix| Ok(Path::parse(prefix)?)).collect();
                let objects: Result<Vec<_>> = list.objects.into_iter().map(listed).collect();
                return Ok(results::list_result(prefixes?, objects?));
            }
            Err(listing) => listing,
        };
        let result = self.inner.list_with_delimiter(prefix).await?;
        for meta in &result.objects {
            listing.note(meta.location.as_ref(), head_of(meta, &Attributes::new()));
        }
        let prefixes = result.common_prefixes.iter().map(|it| it.as_ref().to_owned()).collect();
        self.store.keep_list(listing, prefixes).await;
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let writing = Writing::begin(&self.store, to.as_ref()).await;
        let copied = self.inner.copy_opts(from, to, options).await;
        writing.end().await;
        copied
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let source = Writing::begin(&self.store, from.as_ref()).await;
        let target = Writing::begin(&self.store, to.as_ref()).await;
        let renamed = self.inner.rename_opts(from, to, options).await;
        source.end().await;
        target.end().await;
        renamed
    }
}

impl<S: ObjectStore, R: Route + 'static> CachedStore<S, R> {
    /// A listing of the store below, which is stored when it has been read to its end.
    fn noted_list(
        &self,
        prefix: Option<Path>,
        listing: Listing,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.inner.list(prefix.as_ref());
        let state = (listed, Some(listing), Arc::clone(&self.store));
        stream::try_unfold(state, |(mut listed, mut listing, store)| async move {
            match listed.try_next().await? {
                Some(meta) => {
                    if let Some(listing) = &mut listing {
                        listing.note(meta.location.as_ref(), head_of(&meta, &Attributes::new()));
                    }
                    Ok(Some((meta, (listed, listing, store))))
                }
                None => {
                    if let Some(listing) = listing.take() {
                        store.keep_list(listing, Vec::new()).await;
                    }
                    Ok(None)
                }
            }
        })
        .boxed()
    }
}

/// An upload in parts: the object changes when it is complete.
struct Upload<R: Route + 'static> {
    upload: Box<dyn MultipartUpload>,
    store: Arc<Store<R, Error>>,
    path: String,
}

impl<R: Route + 'static> fmt::Debug for Upload<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upload.fmt(f)
    }
}

#[async_trait]
impl<R: Route + 'static> MultipartUpload for Upload<R> {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let writing = Writing::begin(&self.store, &self.path).await;
        let completed = self.upload.complete().await;
        writing.end().await;
        completed
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

/// The deletions of a stream that are under way.
struct Deleting<R: Route + 'static> {
    store: Arc<Store<R, Error>>,
    under_way: Mutex<Vec<(Path, Writing<R, Error>)>>,
}

impl<R: Route + 'static> Deleting<R> {
    fn new(store: &Arc<Store<R, Error>>) -> Self {
        Self { store: Arc::clone(store), under_way: Mutex::default() }
    }

    async fn begin(&self, location: &Path) {
        let writing = Writing::begin(&self.store, location.as_ref()).await;
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.push((location.clone(), writing));
    }

    async fn end(&self, location: &Path) {
        let ended = {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            let at = under_way.iter().position(|(path, _)| path == location);
            at.map(|at| under_way.swap_remove(at))
        };
        if let Some((_, writing)) = ended {
            writing.end().await;
        }
    }

    async fn end_all(&self) {
        let rest =
            std::mem::take(&mut *self.under_way.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, writing) in rest {
            writing.end().await;
        }
    }
}

/// One object of the store below.
struct Object<S> {
    inner: Arc<S>,
    location: Path,
    extensions: Extensions,
}

impl<S> Clone for Object<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            location: self.location.clone(),
            extensions: self.extensions.clone(),
        }
    }
}

impl<S: ObjectStore> Source for Object<S> {
    type Error = Error;

    fn path(&self) -> &str {
        self.location.as_ref()
    }

    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Answer<Error>>> {
        let Self { inner, location, extensions } = self.clone();
        let Ask { span, if_match, version, head } = ask;
        let range = span.map(|span| match span {
            Span::Bounded(range) => GetRange::Bounded(range),
            Span::Suffix(bytes) => GetRange::Suffix(bytes),
        });
        let options =
            GetOptions { range, if_match, version, head, extensions, ..GetOptions::default() };
        async move {
            let result = inner.get_opts(&location, options).await?;
            let head = head_of(&result.meta, &result.attributes);
            let range = result.range.clone();
            Ok(Answer { head, range, body: result.into_stream() })
        }
        .boxed()
    }
}

/// The text of an error that several callers get.
#[derive(Debug)]
struct SharedError(Arc<Error>);

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::error::Error::source(&*self.0) {
            Some(source) => fmt::Display::fmt(source, f),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl Failure for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::NotFound { .. } => FailureKind::Missing,
            Self::Precondition { .. } | Self::NotModified { .. } => FailureKind::Changed,
            Self::PermissionDenied { .. } | Self::Unauthenticated { .. } => FailureKind::Refused,
            _ => FailureKind::Other,
        }
    }

    fn shared(error: &Arc<Self>) -> Self {
        let source = Box::new(SharedError(Arc::clone(error)));
        match &**error {
            Self::NotFound { path, .. } => Self::NotFound { path: path.clone(), source },
            Self::Precondition { path, .. } => Self::Precondition { path: path.clone(), source },
            Self::NotModified { path, .. } => Self::NotModified { path: path.clone(), source },
            Self::PermissionDenied { path, .. } => {
                Self::PermissionDenied { path: path.clone(), source }
            }
            Self::Unauthenticated { path, .. } => {
                Self::Unauthenticated { path: path.clone(), source }
            }
            Self::NotSupported { .. } => Self::NotSupported { source },
            Self::Generic { store, .. } => Self::Generic { store, source },
            _ => Self::Generic { store: "CachedStore", source },
        }
    }

    fn changed(path: &str) -> Self {
        let source = "the object has changed while it was read: read it anew".into();
        Self::Precondition { path: path.to_owned(), source }
    }

    fn broken_off(path: &str) -> Self {
        let source = format!("the request for {path} ended without its answer").into();
        Self::Generic { store: "CachedStore", source }
    }
}

fn wanted(options: &GetOptions) -> Wanted {
    match &options.range {
        _ if options.head => Wanted::Head,
        None => Wanted::All,
        Some(GetRange::Bounded(range)) => Wanted::Bounded(range.clone()),
        Some(GetRange::Offset(start)) => Wanted::Offset(*start),
        Some(GetRange::Suffix(bytes)) => Wanted::Suffix(*bytes),
    }
}

/// The first of the ranges, with those that follow closely; `None` if there is none.
fn first_run(ranges: &[Range<u64>], gap: u64) -> Option<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut run = sorted.first()?.clone();
    for range in &sorted {
        if range.start <= run.end.saturating_add(gap) {
            run.end = run.end.max(range.end);
        }
    }
    Some(run)
}

fn streamed<R: Route + 'static, S: Source<Error = Error>>(
    reader: Reader<R, S>,
) -> BoxStream<'static, Result<Bytes>> {
    stream::try_unfold(reader, |mut reader| async move {
        Ok(reader.next().await?.map(|bytes| (bytes, reader)))
    })
    .boxed()
}

/// The answer to a question for the head: its payload is empty, as that of other stores.
fn head_result(described: (ObjectMeta, Attributes)) -> GetResult {
    let range = 0..described.0.size;
    let payload = GetResultPayload::Stream(stream::empty().boxed());
    results::get_result(payload, described, range, CacheStatus::Hit)
}

fn head_of(meta: &ObjectMeta, attributes: &Attributes) -> Head {
    let mut known = Vec::with_capacity(attributes.len());
    let mut has_unknown_attributes = false;
    for (attribute, value) in attributes {
        match attribute_code(attribute) {
            Some((kind, name)) => known.push((kind, name, value.as_ref().to_owned())),
            None => has_unknown_attributes = true,
        }
    }
    known.sort();
    Head {
        size: meta.size,
        modified_s: meta.last_modified.timestamp(),
        modified_ns: meta.last_modified.timestamp_subsec_nanos(),
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
        attributes: known,
        has_unknown_attributes,
    }
}

fn meta_of(location: &Path, head: &Head) -> Result<ObjectMeta> {
    let last_modified: Option<DateTime<Utc>> =
        DateTime::from_timestamp(head.modified_s, head.modified_ns);
    let last_modified = last_modified.ok_or_else(|| Error::broken_off(location.as_ref()))?;
    Ok(ObjectMeta {
        location: location.clone(),
        last_modified,
        size: head.size,
        e_tag: head.e_tag.clone(),
        version: head.version.clone(),
    })
}

/// An object of a stored listing.
fn listed((path, head): (String, Head)) -> Result<ObjectMeta> {
    meta_of(&Path::parse(path)?, &head)
}

/// The number and the name of an attribute as they are stored; `None` for kinds of later versions.
fn attribute_code(attribute: &Attribute) -> Option<(u8, String)> {
    let (kind, name) = match attribute {
        Attribute::ContentDisposition => (0, ""),
        Attribute::ContentEncoding => (1, ""),
        Attribute::ContentLanguage => (2, ""),
        Attribute::ContentType => (3, ""),
        Attribute::CacheControl => (4, ""),
        Attribute::StorageClass => (5, ""),
        Attribute::Metadata(name) => (6, name.as_ref()),
        _ => return None,
    };
    Some((kind, name.to_owned()))
}

fn attributes_of(head: &Head) -> Attributes {
    let attribute = |(kind, name, value): &(u8, String, String)| {
        let attribute = match kind {
            0 => Attribute::ContentDisposition,
            1 => Attribute::ContentEncoding,
            2 => Attribute::ContentLanguage,
            3 => Attribute::ContentType,
            4 => Attribute::CacheControl,
            5 => Attribute::StorageClass,
            _ => Attribute::Metadata(name.clone().into()),
        };
        (attribute, value.clone())
    };
    head.attributes.iter().map(attribute).collect()
}
