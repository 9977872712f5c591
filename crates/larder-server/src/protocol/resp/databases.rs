//! Requests about databases, and the names that keys have in the cache.

use larder::Change;
use larder_net::sockets::yield_now;

use super::context::{Context, gone};
use super::events;
use super::key_names::{SAME, database, name_in};
use super::keys;
use super::parse::Arguments;
use super::scan;
use super::write::{NO_INTEGER, Outcome, Refusal};
use crate::databases::{DatabaseIndex, KeySpace};

/// Items that a flush or a count looks at together.
const PAGE_ITEMS: usize = 64;
/// Most places of a sample: some hold little.
const SAMPLE_PAGES: usize = 128;
/// A tenant with at most this number of items is counted to the last, any other by a sample of about that size.
const SAMPLE_ITEMS: u64 = 2048;

/// `SELECT`.
pub(super) fn select(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let database = database(argv.get(1), NO_INTEGER)?;
    if database.index() > 0 && cx.caller.worker.shared.config.cluster.is_some() {
        return Err(Refusal::Says("ERR SELECT is not allowed in cluster mode"));
    }
    cx.caller.tenant.databases.uses(database);
    cx.client.selects(database);
    cx.out.ok();
    Ok(())
}

/// `SWAPDB`.
pub(super) fn swap(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if cx.caller.worker.shared.config.cluster.is_some() {
        return Err(Refusal::Says("ERR SWAPDB is not allowed in cluster mode"));
    }
    let one = database(argv.get(1), Refusal::Says("ERR invalid first DB index"))?;
    let other = database(argv.get(2), Refusal::Says("ERR invalid second DB index"))?;
    if cx.caller.tenant.has_flash() {
        // The next start would find the keys where they were.
        return Err(Refusal::Says(
            "ERR SWAPDB needs a cache in DRAM: on flash keys stay in their database; use other databases, or RENAME",
        ));
    }
    let databases = &cx.caller.tenant.databases;
    databases.uses(one);
    databases.uses(other);
    databases.swap(one, other);
    cx.out.ok();
    Ok(())
}

/// `MOVE`. `key` is the name in the cache. The caller holds the turns of the tenants.
pub(super) async fn move_key(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let target = database(argv.get(2), NO_INTEGER)?;
    let from = argv.get(1);
    let to = name_in(cx, target, from);
    if to == from {
        return Err(SAME);
    }
    cx.client.event = events::MOVE_TO;
    let moved = match cx.cache(from).get(from).await? {
        Some(value) => keys::put(cx, (from, &to), &value, false).await?,
        None => false,
    };
    if moved {
        cx.client.event = events::MOVE_FROM;
        cx.change(from, |current| current.map_or(Change::Keep, |_| gone())).await?;
    }
    cx.out.integer(i64::from(moved));
    Ok(())
}

/// `FLUSHDB`. If other databases may have keys, the keys of this one are removed one by one.
pub(super) async fn flush(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let tenant = std::sync::Arc::clone(&cx.caller.tenant);
    let space = cx.space();
    if !tenant.databases.are_others_used(space) {
        return keys::flush(cx, argv).await;
    }
    keys::begin_flush(cx, argv)?;
    // Other databases keep their keys, but clients of Redis expect to be told to drop all.
    let _told = cx.caller.worker.shared.keyspace.flushing(tenant.number);
    let mut cursor = 0;
    loop {
        let page = scan::page(cx, cursor, PAGE_ITEMS).await?;
        for item in page.items {
            if space.key_of(item.key()).is_some() {
                cx.cache(item.key()).delete(item.key()).await?;
                cx.rests_behind(item.key()).await;
            }
        }
        cursor = page.next;
        if cursor == 0 {
            break;
        }
        yield_now().await;
    }
    cx.out.ok();
    Ok(())
}

/// `DBSIZE`.
pub(super) async fn size(cx: &mut Context<'_>) -> Outcome {
    count(cx).await?;
    let tenant = &cx.caller.tenant;
    let items = match tenant.databases.are_others_used(cx.space()) {
        true => tenant.databases.counted(cx.client.database()),
        false => tenant.estimated_len(),
    };
    cx.out.integer(i64::try_from(items).unwrap_or(i64::MAX));
    Ok(())
}

/// Counts the keys of each database, if there are several: to the last if there are few, else by a sample of all.
pub(super) async fn count(cx: &mut Context<'_>) -> Outcome {
    let tenant = std::sync::Arc::clone(&cx.caller.tenant);
    if !tenant.databases.are_others_used(cx.space()) {
        return Ok(());
    }
    let all = tenant.estimated_len();
    let is_sample = all > SAMPLE_ITEMS;
    let (mut found, mut seen, mut cursor) = (Vec::<(KeySpace, u64)>::new(), 0, 0);
    let spaces: Vec<KeySpace> =
        DatabaseIndex::all().map(|index| tenant.databases.space(index)).collect();
    for page_number in 0.. {
        if is_sample {
            cursor = tenant.random_cursor();
        }
        let page = scan::page(cx, cursor, PAGE_ITEMS).await?;
        for item in &page.items {
            let space = spaces.iter().find(|space| space.key_of(item.key()).is_some());
            let Some(space) = space else { continue };
            match found.iter_mut().find(|(of, _)| of == space) {
                Some((_, count)) => *count += 1,
                None => found.push((*space, 1)),
            }
            seen += 1;
        }
        cursor = page.next;
        let is_enough = match is_sample {
            true => seen >= SAMPLE_ITEMS || page_number == SAMPLE_PAGES,
            false => cursor == 0,
        };
        if is_enough {
            break;
        }
        yield_now().await;
    }
    let scaled = |count: u64| if is_sample { count * all / seen.max(1) } else { count };
    let of =
        |space| found.iter().find(|(of, _)| *of == space).map_or(0, |(_, count)| scaled(*count));
    tenant.databases.has_counted(of);
    Ok(())
}
