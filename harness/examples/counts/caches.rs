//! Requests to the library.

use std::path::Path;

use larder::{Larder, SetOptions, Tiers, block_on};

use crate::{Outcome, Request};

/// Bytes of a value in DRAM.
const VALUE: [u8; 200] = [0x5a; 200];
/// Keys that are asked for in turn.
const KEYS: u64 = 10_000;
const FLASH_KEYS: u64 = 2_000;
const FLASH_BYTES: u64 = 64 << 20;
const DRAM_BYTES: u64 = 64 << 20;

/// Gets that copy nothing, as `peers/` makes them.
pub(crate) fn dram_hit() -> Outcome<Request> {
    let cache = filled()?;
    Ok(Box::new(move |number| {
        let found = cache.blocking().get_with(&key(number % KEYS), |value, _| value.len())?;
        (found == Some(VALUE.len())).then_some(()).ok_or_else(|| "a miss in DRAM".into())
    }))
}

/// Sets of new keys. With little memory they evict others.
pub(crate) fn dram_set(dram_bytes: u64) -> Outcome<Request> {
    let cache = Larder::in_memory(dram_bytes)?;
    Ok(Box::new(move |number| Ok(cache.blocking().set(&key(number), &VALUE, None)?)))
}

pub(crate) fn dram_overwrite() -> Outcome<Request> {
    let cache = filled()?;
    Ok(Box::new(move |number| Ok(cache.blocking().set(&key(number % KEYS), &VALUE, None)?)))
}

fn filled() -> Outcome<Larder> {
    let cache = Larder::in_memory(DRAM_BYTES)?;
    for number in 0..KEYS {
        cache.blocking().set(&key(number), &VALUE, None)?;
    }
    Ok(cache)
}

/// Gets of objects that stay out of DRAM.
pub(crate) fn flash_hit(dir: &Path, value_bytes: usize) -> Outcome<Request> {
    let file = dir.join(format!("counts-{}.flash", std::process::id()));
    let cache = block_on(Larder::at(&file, FLASH_BYTES))?;
    let value = vec![0x5a; value_bytes];
    let only = SetOptions { tiers: Tiers::FlashOnly, ..SetOptions::default() };
    for number in 0..FLASH_KEYS {
        block_on(cache.set_with(&key(number), &value, only))?;
    }
    block_on(cache.close())?;
    drop(cache);
    let cache = block_on(Larder::at(&file, FLASH_BYTES))?;
    block_on(cache.rebuild());
    std::fs::remove_file(file)?; // the cache has it open
    Ok(Box::new(move |number| {
        let found = block_on(cache.get(&key(number % FLASH_KEYS)))?;
        let is_whole = found.is_some_and(|found| found.len() == value_bytes);
        is_whole.then_some(()).ok_or_else(|| "a miss on flash".into())
    }))
}

/// 16 bytes, as `peers/` has them.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key.............";
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}
