//! Requests about all keys: walking over them, counting them, picking one.

use larder::{ScanPage, Scanned};
use larder_net::sockets::yield_now;

use super::context::{Context, no_room};
use super::glob::{Matcher, PATTERN_BYTES_MAX};
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use crate::account::KeptBytes;
use crate::collections::ItemKind;
use crate::work::STEPS_A_UNIT;

/// Items that are looked at together, with their values.
const PAGE_ITEMS: usize = 16;
/// Most keys of an answer to `SCAN`, whatever `COUNT` says.
const SCAN_KEYS_MAX: usize = 100_000;
/// An answer to `SCAN` ends after the page with which it reaches 256 KiB: the cursor lets it end anywhere.
const SCAN_BYTES_MAX: usize = 256 << 10;
/// Random places that are tried before the whole cache is searched.
const RANDOM_TRIES: usize = 8;

/// Keys that a walk has found. They are counted twice, since they will be in the answer too.
struct FoundKeys {
    keys: Vec<Vec<u8>>,
    bytes: usize,
    kept: KeptBytes,
}

impl FoundKeys {
    fn none(cx: &Context<'_>) -> Self {
        Self { keys: Vec::new(), bytes: 0, kept: cx.caller.keep() }
    }

    /// Adds a key. Returns whether there was room for it.
    fn has_added(&mut self, key: &[u8]) -> bool {
        let bytes = key.len() + size_of::<Vec<u8>>();
        let has_room = self.kept.grow(2 * bytes);
        if has_room {
            self.bytes += bytes;
            self.keys.push(key.to_vec());
        }
        has_room
    }

    /// Writes all keys and frees them. Yields between two keys.
    async fn write(self, cx: &mut Context<'_>) {
        cx.out.array(self.keys.len());
        for key in self.keys {
            cx.out.bulk(&key);
            cx.rests_behind(&key).await;
        }
    }
}

/// Whether a key matches. Yields if that takes long.
pub(super) async fn fits(cx: &Context<'_>, pattern: &[u8], key: &[u8]) -> bool {
    let mut matcher = Matcher::new(pattern, key);
    loop {
        let may = cx.caller.work.steps_left();
        let mut left = may;
        let fits = matcher.run(&mut left);
        cx.caller.work.does((may - left).div_ceil(STEPS_A_UNIT));
        match fits {
            Some(fits) => return fits,
            None => cx.caller.rests().await,
        }
    }
}

pub(super) fn check_pattern(pattern: &[u8]) -> Outcome {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Refusal::Said(format!(
            "ERR the pattern has {} bytes: {PATTERN_BYTES_MAX} are the most",
            pattern.len()
        )));
    }
    Ok(())
}

/// A page of about `items` items.
pub(super) async fn page(cx: &Context<'_>, cursor: u64, items: usize) -> Result<ScanPage, Refusal> {
    let page = cx.caller.tenant.scan_from(cursor, items).await;
    let page = page.map_err(|error| match error.kind() {
        larder::ErrorKind::InvalidInput => Refusal::Says("ERR invalid cursor"),
        _ => error.into(),
    })?;
    let bytes = |item: &Scanned| item.key().len() + item.value().len();
    cx.caller.work.does(page.items.len() + 1);
    cx.caller.work.does_bytes(page.items.iter().map(bytes).sum());
    cx.caller.rests().await;
    Ok(page)
}

/// `SCAN`.
pub(super) async fn scan(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let invalid = Refusal::Says("ERR invalid cursor");
    let cursor = std::str::from_utf8(argv.get(1)).ok().and_then(|text| text.parse().ok());
    let mut cursor: u64 = cursor.ok_or(invalid)?;
    let (mut pattern, mut count, mut kind) = (&b"*"[..], 10_usize, None::<&[u8]>);
    let mut at = 2;
    while at < argv.len() {
        let value = (at + 1 < argv.len()).then(|| argv.get(at + 1));
        match (&*argv.get(at).to_ascii_uppercase(), value) {
            (b"MATCH", Some(value)) => pattern = value,
            (b"TYPE", Some(value)) => kind = Some(value),
            (b"COUNT", Some(value)) => {
                let wanted = number::integer(value).ok_or(NO_INTEGER)?;
                count = usize::try_from(wanted).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            _ => return Err(SYNTAX),
        }
        at += 2;
        cx.caller.work.does(1);
        cx.caller.rests().await;
    }
    check_pattern(pattern)?;
    let count = count.min(SCAN_KEYS_MAX);
    let (mut found, mut seen) = (FoundKeys::none(cx), 0);
    loop {
        let ScanPage { items, next, .. } = page(cx, cursor, (count - seen).min(PAGE_ITEMS)).await?;
        let before = found.keys.len();
        let mut is_full = false;
        for item in &items {
            let own = ItemKind::of(item.value().flags()).name().as_bytes();
            let has_type = kind.is_none_or(|kind| kind.eq_ignore_ascii_case(own));
            let Some(key) = cx.space().key_of(item.key()).filter(|_| has_type) else { continue };
            if fits(cx, pattern, key).await && !found.has_added(key) {
                is_full = true;
                break;
            }
        }
        if is_full {
            if before == 0 {
                return Err(no_room(cx.caller));
            }
            // This page will be the first of the next answer.
            found.keys.truncate(before);
            break;
        }
        seen += items.len();
        cursor = next;
        if cursor == 0 || seen >= count || found.bytes >= SCAN_BYTES_MAX {
            break;
        }
    }
    cx.out.array(2);
    cx.out.bulk(cursor.to_string());
    found.write(cx).await;
    Ok(())
}

/// `KEYS`. Other connections run in between, so a key that comes or goes may or may not be seen.
pub(super) async fn keys(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let pattern = argv.get(1);
    check_pattern(pattern)?;
    let (mut found, mut cursor) = (FoundKeys::none(cx), 0);
    loop {
        let ScanPage { items, next, .. } = page(cx, cursor, PAGE_ITEMS).await?;
        for item in items {
            let Some(key) = cx.space().key_of(item.key()) else { continue };
            if fits(cx, pattern, key).await && !found.has_added(key) {
                return Err(no_room(cx.caller));
            }
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
        // Yield at least once a page, however cheap it was: a walk is long.
        yield_now().await;
    }
    found.write(cx).await;
    Ok(())
}

/// `RANDOMKEY`: a key from a random part of the cache, so not all keys are equally likely.
pub(super) async fn random_key(cx: &mut Context<'_>) -> Outcome {
    let tenant = std::sync::Arc::clone(&cx.caller.tenant);
    for _ in 0..RANDOM_TRIES {
        let mut page = tenant.scan_from(tenant.random_cursor(), 1).await?;
        page.items.retain(|item| cx.space().key_of(item.key()).is_some());
        if !page.items.is_empty() {
            let item = page.items.swap_remove(fastrand::usize(..page.items.len()));
            cx.tells_key(item.key());
            return Ok(());
        }
        yield_now().await;
    }
    let mut cursor = 0;
    loop {
        let page = tenant.scan_from(cursor, 1).await?;
        let mut keys = page.items.iter().filter_map(|item| cx.space().key_of(item.key()));
        if let Some(key) = keys.next() {
            cx.out.bulk(key);
            return Ok(());
        }
        cursor = page.next;
        if cursor == 0 {
            cx.out.null();
            return Ok(());
        }
        yield_now().await;
    }
}
