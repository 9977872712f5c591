//! Sets of shards under virtual time: shards fail, are added and removed while clients change keys.

mod drain;
mod drive;
mod failure;
mod load;
mod oracle;
mod world;

use world::World;

/// The seeds to run: `usual` of them, or as many as `LARDER_SHARD_SEEDS` says, from `LARDER_SHARD_FIRST` on.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let named = |name: &str| std::env::var(name).ok().and_then(|it| it.parse().ok());
    let first = named("LARDER_SHARD_FIRST").unwrap_or(0);
    first..first + named("LARDER_SHARD_SEEDS").unwrap_or(usual)
}

/// Lives of a set, each of which ends in a crash or a close.
const LIVES: u32 = 6;

#[test]
fn whatever_comes_and_goes_nothing_stale_comes_back() {
    let seeds = seeds(2);
    let mut all = Vec::new();
    for seed in seeds.clone() {
        match World::new(seed).run(LIVES) {
            Ok(totals) => all.push(totals),
            Err(wrong) => panic!("{wrong}"),
        }
    }
    let seeds = seeds.end - seeds.start;
    let sum = |of: fn(&world::Totals) -> u64| all.iter().map(of).sum::<u64>();
    println!(
        "{seeds} seeds: {} crashes, {} hits, {} misses, {} sets, {} failures, {} replaced, {} added, {} retired, \
         {} bytes refilled, stale 0, errors 0",
        sum(|it| it.crashes),
        sum(|it| it.hits),
        sum(|it| it.misses),
        sum(|it| it.writes),
        sum(|it| it.failures),
        sum(|it| it.replaced),
        sum(|it| it.added),
        sum(|it| it.retired),
        sum(|it| it.refilled_bytes),
    );
    assert!(sum(|it| it.crashes) > seeds && sum(|it| it.hits) > 100 * seeds);
    let events = [
        sum(|it| it.failures),
        sum(|it| it.replaced),
        sum(|it| it.added),
        sum(|it| it.retired),
        sum(|it| it.refilled_bytes),
    ];
    assert!(events.iter().all(|&it| it > 0), "{events:?}");
}
