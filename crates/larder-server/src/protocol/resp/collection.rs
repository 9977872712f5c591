//! What all commands of collections share: reading one, changing one, and the refusals.
//!
//! A collection is one item of the cache. A read borrows its bytes; a change reads the item, writes it anew, and is
//! one atomic step of its key. Its lifetime stays, and a collection without members is removed.
//!
//! Members that have expired are removed before they are seen: a read that finds some removes them by a change, and
//! reads again; a change begins with what is left.

use std::cmp::Ordering;

use larder::{Change, SetOptions, Value};

use super::context::{Context, gone, no_room, shown};
use super::events::HEXPIRED;
use super::expiry;
use super::parse::Arguments;
use super::write::{Refusal, Writer};
use crate::account::KeptBytes;
use crate::collections::{Damaged, Encoded, Hash, ItemKind, Kind, Shape};

/// A request with more members is done in steps of this number, between which other connections run.
const MEMBERS_A_STEP: usize = 4096;

/// Look-ups of members that are one unit of work.
pub(super) const LOOKUPS_A_UNIT: usize = 8;

pub(super) const WRONG_TYPE: Refusal =
    Refusal::Says("WRONGTYPE Operation against a key holding the wrong kind of value");
pub(super) const DAMAGED: Refusal = Refusal::Says("ERR the value of this key is damaged");

/// Whether a key had another kind of value.
pub(super) fn is_wrong_type(refusal: &Refusal) -> bool {
    matches!((refusal, WRONG_TYPE), (Refusal::Says(text), Refusal::Says(wrong)) if *text == wrong)
}

impl From<Damaged> for Refusal {
    fn from(_: Damaged) -> Self {
        DAMAGED
    }
}

/// The bytes of a string, unless the value is a collection.
pub(super) fn string(value: &Value) -> Result<&[u8], Refusal> {
    is_string(value.flags()).then_some(&**value).ok_or(WRONG_TYPE)
}

/// Whether an item with these flags is a string.
pub(super) fn is_string(flags: u32) -> bool {
    ItemKind::of(flags) == ItemKind::String
}

/// The collection that a value is.
pub(super) fn view<S: Shape>(value: &[u8], flags: u32) -> Result<S::View<'_>, Refusal> {
    if ItemKind::of(flags) != ItemKind::Collection(S::KIND) {
        return Err(WRONG_TYPE);
    }
    Ok(S::parse(value)?)
}

/// Shows `look` the collection of `key`, which is empty if there is none, and the place for the answer.
pub(super) async fn read<S: Shape, T>(
    cx: &mut Context<'_>,
    key: &[u8],
    look: impl for<'v> FnOnce(S::View<'v>, &mut Writer<'_>) -> T,
) -> Result<T, Refusal> {
    let (mut look, before, mut bytes) = (Some(look), cx.out.len(), 0);
    let (told, was_there) = loop {
        let Context { caller, out, .. } = cx;
        let cache = caller.cache_for(key);
        let found = cache.get_with(key, |value, meta| {
            bytes = value.len();
            let view = view::<S>(value, meta.flags)?;
            let now = || expiry::millis_since_1970(cache.moment(key).wall());
            if S::without_expired(view, now).is_some() {
                return Ok(None);
            }
            Ok::<_, Refusal>(look.take().map(|look| look(view, out)))
        });
        match found.await? {
            None => break (look.take().map(|look| look(S::empty(), out)), false),
            Some(Ok(Some(told))) => break (Some(told), true),
            Some(Ok(None)) => remove_expired::<S>(cx, key).await?,
            Some(Err(refusal)) => {
                caller.worker.counters.count_get(true);
                return Err(refusal);
            }
        }
    };
    let Context { caller, out, .. } = cx;
    caller.worker.counters.count_get(was_there);
    if !was_there {
        caller.worker.shared.keyspace.misses(caller.tenant_of(key), key);
    }
    // The offsets are checked, and the answer is copied.
    caller.work.does_bytes(bytes / 8 + out.len().saturating_sub(before));
    Ok(told.expect("it was called once"))
}

/// Removes the members of `key` that have expired, in a step of its own, which is told as such.
async fn remove_expired<S: Shape>(cx: &mut Context<'_>, key: &[u8]) -> Result<(), Refusal> {
    let now = expiry::millis_since_1970(cx.wall(key));
    let event = std::mem::replace(&mut cx.client.event, HEXPIRED);
    // What a transaction watches is compared when it changes something itself.
    let guarded = std::mem::take(&mut cx.client.guarded);
    let done = cx.change(key, |current| {
        let view = current.and_then(|value| view::<S>(value, value.flags()).ok());
        match view.and_then(|view| S::without_expired(view, || now)) {
            None => Change::Keep,
            Some(left) if left.is_empty() => gone(),
            Some(left) => Change::StoreKeepingExpiry(left.into_bytes().into()),
        }
    });
    let done = done.await;
    (cx.client.event, cx.client.guarded) = (event, guarded);
    done.map(|_| ())
}

/// Shows `look` the string of `key`, which is empty if there is none, and the place for the answer.
pub(super) async fn read_string(
    cx: &mut Context<'_>,
    key: &[u8],
    look: impl FnOnce(&[u8], &mut Writer<'_>),
) -> Result<(), Refusal> {
    let Context { caller, out, .. } = cx;
    let (mut look, mut bytes) = (Some(look), 0);
    let cache = caller.cache_for(key);
    let found = cache.get_with(key, |value, meta| {
        bytes = value.len();
        let look = look.take().filter(|_| is_string(meta.flags));
        look.map(|look| look(value, out)).ok_or(WRONG_TYPE)
    });
    let found = found.await?;
    caller.worker.counters.count_get(found.is_some());
    caller.work.does_bytes(bytes);
    match found {
        Some(found) => found?,
        None => {
            caller.worker.shared.keyspace.misses(caller.tenant_of(key), key);
            if let Some(look) = look.take() {
                look(&[], out);
            }
        }
    }
    Ok(())
}

/// What a change makes of a collection.
#[derive(Debug)]
pub(super) enum Edit {
    Keep,
    Store(Encoded),
}

/// Changes the collection of `key`, which is empty if there is none, in one step. Its lifetime stays. `edit` may be
/// called again if another client was faster; what it says the last time is returned.
pub(super) async fn amend<S: Shape, T>(
    cx: &mut Context<'_>,
    key: &[u8],
    mut edit: impl for<'v> FnMut(S::View<'v>) -> Result<(Edit, T), Refusal>,
) -> Result<T, Refusal> {
    let most = bytes_max(cx);
    let (mut ended, mut grows) = (None, false);
    let mut written = 0;
    let moment = cx.cache(key).moment(key);
    cx.change(key, |current| {
        grows = false;
        let view = current.map_or(Ok(S::empty()), |value| view::<S>(value, value.flags()));
        let now = || expiry::millis_since_1970(moment.wall());
        let left = view.as_ref().ok().and_then(|view| S::without_expired(*view, now));
        let edited = match left.map(Encoded::into_bytes) {
            Some(left) => S::parse(&left).map_err(Refusal::from).and_then(&mut edit),
            None => view.and_then(&mut edit),
        };
        let (edited, told) = match edited {
            Ok((edit, told)) => (edit, Ok(told)),
            Err(refusal) => (Edit::Keep, Err(refusal)),
        };
        ended = Some(told);
        let Edit::Store(encoded) = edited else { return Change::Keep };
        written = encoded.len();
        if encoded.is_empty() {
            return current.map_or(Change::Keep, |_| gone());
        }
        if encoded.len() > most && current.is_none_or(|value| value.len() < encoded.len()) {
            ended = Some(Err(too_large(key, encoded.len(), most)));
            return Change::Keep;
        }
        grows = current.is_none_or(|value| value.len() < encoded.len());
        match current {
            Some(_) => Change::StoreKeepingExpiry(encoded.into_bytes().into()),
            None => Change::Store(encoded.into_bytes().into(), options(S::KIND)),
        }
    })
    .await?;
    cx.caller.work.does_bytes(written);
    let told = ended.expect("the change was asked for")?;
    if grows {
        note_stored(cx);
        cx.wakes(key);
    }
    Ok(told)
}

/// Stores a collection in the place of whatever `key` has, without a lifetime; without members it removes the key.
pub(super) async fn replace(
    cx: &mut Context<'_>,
    key: &[u8],
    (kind, encoded): (Kind, Encoded),
) -> Result<(), Refusal> {
    if encoded.is_empty() {
        cx.delete(key).await?;
        return Ok(());
    }
    let most = bytes_max(cx);
    if encoded.len() > most {
        return Err(too_large(key, encoded.len(), most));
    }
    cx.store(key, &encoded.into_bytes(), options(kind)).await?;
    cx.wakes(key);
    Ok(())
}

fn note_stored(cx: &Context<'_>) {
    cx.caller.worker.counters.cmd_set.add(1);
}

fn options(kind: Kind) -> SetOptions {
    SetOptions { flags: kind.flags(), ..SetOptions::default() }
}

/// Longest collection, in bytes.
pub(super) fn bytes_max(cx: &Context<'_>) -> usize {
    cx.caller.worker.shared.collection_bytes_max()
}

fn too_large(key: &[u8], bytes: usize, most: usize) -> Refusal {
    Refusal::Said(format!(
        "ERR the collection of key {} would have {bytes} bytes, more than collection_max ({most})",
        shown(key)
    ))
}

/// A copy of a collection, counted in the memory of clients until it is dropped.
pub(super) struct Copied {
    bytes: Vec<u8>,
    /// The flags of the item; `None`: there is none.
    flags: Option<u32>,
    _kept: KeptBytes,
}

impl Copied {
    /// The collection; empty if there is none.
    pub(super) fn view<S: Shape>(&self) -> Result<S::View<'_>, Refusal> {
        self.flags.map_or(Ok(S::empty()), |flags| view::<S>(&self.bytes, flags))
    }

    /// What the item is; `None`: there is none.
    pub(super) fn kind(&self) -> Option<ItemKind> {
        self.flags.map(ItemKind::of)
    }

    /// The bytes of the item.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies the value of `key`.
pub(super) async fn copied(cx: &mut Context<'_>, key: &[u8]) -> Result<Copied, Refusal> {
    loop {
        let copied = copied_as_it_is(cx, key).await?;
        let now = || expiry::millis_since_1970(cx.wall(key));
        match copied.view::<Hash>() {
            Ok(hash) if Hash::without_expired(hash, now).is_some() => {
                remove_expired::<Hash>(cx, key).await?;
            }
            _ => return Ok(copied),
        }
    }
}

async fn copied_as_it_is(cx: &mut Context<'_>, key: &[u8]) -> Result<Copied, Refusal> {
    let mut kept = cx.caller.keep();
    let cache = cx.cache(key);
    let found = cache
        .get_with(key, |value, meta| kept.grow(value.len()).then(|| (value.to_vec(), meta.flags)));
    let found = found.await?;
    cx.caller.worker.counters.count_get(found.is_some());
    let (bytes, flags) = match found {
        None => (Vec::new(), None),
        Some(Some((bytes, flags))) => (bytes, Some(flags)),
        Some(None) => return Err(no_room(cx.caller)),
    };
    cx.caller.work.does_bytes(bytes.len());
    cx.rests_behind(key).await;
    Ok(Copied { bytes, flags, _kept: kept })
}

/// The places of the arguments from `first` on in steps, each a whole number of `members` of `arguments` arguments.
pub(super) fn steps(
    argv: Arguments<'_>,
    first: usize,
    arguments: usize,
) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
    let (end, step) = (argv.len(), MEMBERS_A_STEP * arguments);
    (first..end).step_by(step).map(move |at| at..(at + step).min(end))
}

/// An answer that may become long: it is counted in the memory of clients while it is written.
pub(super) struct LongAnswer {
    kept: KeptBytes,
    counted: usize,
    begun_at: usize,
}

impl LongAnswer {
    pub(super) fn begin(cx: &Context<'_>) -> Self {
        Self { kept: cx.caller.keep(), counted: 0, begun_at: cx.out.len() }
    }

    /// Counts what was written, and lets other connections run if it is time. Refuses an answer without room.
    pub(super) async fn goes_on(&mut self, cx: &Context<'_>) -> Result<(), Refusal> {
        /// Bytes that are counted together.
        const PIECE: usize = 16 << 10;
        let written = cx.out.len().saturating_sub(self.begun_at);
        if written > self.counted + PIECE {
            cx.caller.work.does_bytes(written - self.counted);
            if !self.kept.grow(written - self.counted) {
                return Err(no_room(cx.caller));
            }
            self.counted = written;
        }
        cx.caller.work.does(1);
        cx.caller.rests().await;
        Ok(())
    }
}

/// Counts look-ups within one request, and lets other connections run when it is time.
#[derive(Default)]
pub(super) struct Pace(usize);

impl Pace {
    /// There was a look-up.
    pub(super) async fn step(&mut self, cx: &Context<'_>) {
        self.0 += 1;
        if self.0.is_multiple_of(LOOKUPS_A_UNIT) {
            cx.caller.work.does(1);
            cx.caller.rests().await;
        }
    }
}

/// Sorts. Other connections run in between if that takes long. Equal items may change places.
pub(super) async fn sorted<T: Copy>(
    cx: &Context<'_>,
    mut items: Vec<T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    /// Items that are sorted without a pause.
    const RUN: usize = 1024;
    for run in items.chunks_mut(RUN) {
        run.sort_unstable_by(&order);
        cx.caller.work.does(run.len() / LOOKUPS_A_UNIT);
        cx.caller.rests().await;
    }
    let (mut length, mut pace) = (RUN, Pace::default());
    while length < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * length) {
            let (one, other) = pair.split_at(length.min(pair.len()));
            let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
            loop {
                let takes_other = match (one.peek(), other.peek()) {
                    (Some(first), Some(second)) => order(second, first) == Ordering::Less,
                    (first, _) => first.is_none(),
                };
                let Some(next) = (if takes_other { other.next() } else { one.next() }) else {
                    break;
                };
                merged.push(*next);
                pace.step(cx).await;
            }
        }
        (items, length) = (merged, 2 * length);
    }
    items
}
