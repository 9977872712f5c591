//! Requests about all keys: walking over them, counting them, picking one.

use larder_device::sockets::yield_now;

use super::context::Context;
use super::glob;
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, NO_ROOM, Outcome, Refusal, SYNTAX};

/// Items that are looked at together, with their values.
const PAGE_ITEMS: usize = 64;
/// Keys of an answer to `SCAN`, however many were asked for.
const SCAN_KEYS_MAX: usize = 100_000;
/// How often a random place is looked at before the whole cache is.
const RANDOM_TRIES: usize = 8;

/// `SCAN`.
pub(super) async fn scan(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let invalid = Refusal::Says("ERR invalid cursor");
    let cursor = std::str::from_utf8(argv.get(1)).ok().and_then(|text| text.parse().ok());
    let mut cursor: u64 = cursor.ok_or(invalid)?;
    let (mut pattern, mut count, mut has_type) = (&b"*"[..], 10_usize, true);
    let mut at = 2;
    while at < argv.len() {
        let value = (at + 1 < argv.len()).then(|| argv.get(at + 1));
        match (&*argv.get(at).to_ascii_uppercase(), value) {
            (b"MATCH", Some(value)) => pattern = value,
            (b"TYPE", Some(value)) => has_type = value.eq_ignore_ascii_case(b"string"),
            (b"COUNT", Some(value)) => {
                let wanted = number::integer(value).ok_or(NO_INTEGER)?;
                count = usize::try_from(wanted).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            _ => return Err(SYNTAX),
        }
        at += 2;
    }
    let count = count.min(SCAN_KEYS_MAX);
    let (mut keys, mut seen) = (Vec::new(), 0);
    loop {
        let page = cx.caller.tenant.scan_from(cursor, (count - seen).min(PAGE_ITEMS)).await;
        let page = page.map_err(|error| match error.kind() {
            larder::ErrorKind::InvalidInput => Refusal::Says("ERR invalid cursor"),
            _ => error.into(),
        })?;
        seen += page.items.len();
        let fits = page.items.iter().filter(|item| has_type && glob::matches(pattern, item.key()));
        keys.extend(fits.map(|item| item.key().to_vec()));
        cursor = page.next;
        if cursor == 0 || seen >= count {
            break;
        }
        yield_now().await;
    }
    cx.out.array(2);
    cx.out.bulk(cursor.to_string());
    cx.out.array(keys.len());
    keys.iter().for_each(|key| cx.out.bulk(key));
    Ok(())
}

/// `KEYS`. Others have their turns meanwhile, so it sees what comes and goes or not.
pub(super) async fn keys(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let pattern = argv.get(1);
    let (mut keys, mut bytes, mut cursor) = (Vec::new(), 0, 0);
    loop {
        let page = cx.caller.tenant.scan_from(cursor, PAGE_ITEMS).await?;
        for item in page.items.iter().filter(|item| glob::matches(pattern, item.key())) {
            bytes += item.key().len() + size_of::<Vec<u8>>();
            keys.push(item.key().to_vec());
        }
        // As keys, and as an answer.
        if !cx.caller.has_room_for(2 * bytes) {
            cx.caller.worker.counters.refused_busy.add(1);
            return Err(NO_ROOM);
        }
        cursor = page.next;
        if cursor == 0 {
            break;
        }
        yield_now().await;
    }
    cx.out.array(keys.len());
    keys.iter().for_each(|key| cx.out.bulk(key));
    Ok(())
}

/// `RANDOMKEY`: one of those in a random part of the cache, so that keys are not all as probable.
pub(super) async fn random_key(cx: &mut Context<'_>) -> Outcome {
    let tenant = std::sync::Arc::clone(&cx.caller.tenant);
    for _ in 0..RANDOM_TRIES {
        let mut page = tenant.scan_from(tenant.random_cursor(), 1).await?;
        if !page.items.is_empty() {
            let item = page.items.swap_remove(fastrand::usize(..page.items.len()));
            cx.out.bulk(item.key());
            return Ok(());
        }
        yield_now().await;
    }
    let mut cursor = 0;
    loop {
        let page = tenant.scan_from(cursor, 1).await?;
        if let Some(item) = page.items.first() {
            cx.out.bulk(item.key());
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

/// `DBSIZE`.
pub(super) fn size(cx: &mut Context<'_>) {
    let items = cx.caller.tenant.estimated_len();
    cx.out.integer(i64::try_from(items).unwrap_or(i64::MAX));
}
