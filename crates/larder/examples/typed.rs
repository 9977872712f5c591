//! Typed keys and values: everything that serde can serialize.
//!
//! `cargo run -p larder --example typed --features serde`

use std::error::Error;
use std::sync::Arc;

use larder::{Config, Larder, Postcard, RealClock, SetOptions, Typed, TypedError, block_on};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Recipe {
    flour: String,
    grams: u32,
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let config = Config { dram_bytes: 8 << 20, ..Config::default() };
    let cache = Arc::new(block_on(Larder::open(config, None, Arc::new(RealClock)))?);
    let recipes: Typed<str, Recipe, Postcard, _> = Typed::new(Arc::clone(&cache), Postcard);

    let bread = Recipe { flour: "rye".into(), grams: 500 };
    block_on(recipes.set("bread", &bread, SetOptions::default()))?;
    assert_eq!(block_on(recipes.get("bread"))?, Some(bread));

    // Bytes that are no recipe are an error, not a miss: another writer, or an older version, left them.
    block_on(cache.set(b"cake", b"\xff", None))?;
    let error = block_on(recipes.get("cake")).expect_err("these bytes are no recipe");
    assert!(matches!(error, TypedError::Decode(_)));
    println!("cake: {error}");

    // `get_or_fetch` replaces them.
    let bake = async || Ok::<_, std::io::Error>(Recipe { flour: "wheat".into(), grams: 250 });
    let cake = block_on(recipes.get_or_fetch("cake", SetOptions::default(), bake))?;
    println!("cake, fetched: {cake:?}");
    assert_eq!(block_on(recipes.get("cake"))?, Some(cake));
    Ok(())
}
