//! The simulation of the cache: a few hundred seeds, and tests that its oracle notices defects.

use std::ops::Range;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};

use larder_sim::soak::{
    InjectedBug, SeedReport, Totals, run_array_seed, run_blocks_seed, run_pages_seed, run_seed,
    run_shards_seed,
};

/// For more seeds: `cargo xtask soak --seeds N`.
const SEEDS: u64 = 200;
/// Number of seeds within which a defect must be found.
const SEEDS_PER_LIE: u64 = 40;

/// Totals that only caches on blocks have.
fn is_of_blocks(what: &str) -> bool {
    let parts = ["of blocks", "blocks cleaned", "virtual SSD", "with their channel"];
    parts.iter().any(|part| what.contains(part))
}

/// Totals that only sets of shards have.
fn is_of_shards(what: &str) -> bool {
    ["of sets", "in sets", "with their shard"].iter().any(|part| what.contains(part))
}

/// The totals of all these seeds, run on as many threads as there are processors; panics on a wrong answer. `replay` is
/// the command to run one of them again, without its number.
fn right(seeds: Range<u64>, replay: &str, run: impl Fn(u64) -> SeedReport + Sync) -> Totals {
    let (next, totals) = (Mutex::new(seeds), Mutex::new(Totals::default()));
    let work = || {
        while let Some(seed) = { next.lock().unwrap().next() } {
            let report = run(seed);
            if let Some(wrong) = report.wrong {
                panic!("{wrong}\nreplay: {replay} --seeds 1 --first-seed {seed}");
            }
            totals.lock().unwrap().add(&report.totals);
        }
    };
    scope(|scope| {
        (0..available_parallelism().map_or(1, usize::from)).for_each(|_| _ = scope.spawn(work));
    });
    let totals = totals.into_inner().unwrap();
    assert_eq!((totals.wrong_answers, totals.undecided), (0, 0));
    totals
}

#[test]
fn every_answer_is_right_whatever_happens() {
    let run = |seed| run_seed(seed, InjectedBug::None);
    let totals = right(0..SEEDS, "cargo xtask soak", run);
    println!("{totals:#?}");
    let Totals { seeds, crash_points, crashed_openings, crashed_closes, power_losses, .. } = totals;
    assert!(crash_points > seeds, "{totals:?}");
    assert!(crashed_openings.min(crashed_closes).min(power_losses) > seeds / 40, "{totals:?}");
    let Totals { kept_openings, closes, given_up, cut_off, faults, device_errors, .. } = totals;
    assert!(kept_openings.min(closes) > seeds / 4, "{totals:?}");
    assert!(given_up.min(cut_off).min(faults).min(device_errors) > seeds, "{totals:?}");
    assert!(totals.operations > seeds * 1000, "{totals:?}");
    // A simulation in which a fault never occurred proves nothing about it.
    for (what, times) in totals.rows() {
        let never = ["undecided histories", "wrong answers"].contains(&what)
            || is_of_blocks(what)
            || is_of_shards(what);
        assert!(never || times > 0, "{what}: never");
    }
    assert!(totals.flash_hits > seeds * 10, "{totals:?}");
}

/// `cargo run --release -p larder-sim --example soak -- --theme blocks --seeds N` for more.
#[test]
fn a_cache_on_blocks_is_as_right() {
    let totals = right(0..20, "the soak with --theme blocks", run_blocks_seed);
    let rows: Vec<_> = totals.rows().into_iter().filter(|(what, _)| is_of_blocks(what)).collect();
    assert!(rows.len() == 4 && rows.iter().all(|&(_, times)| times > 10), "{rows:?}");
    assert!(totals.crash_points > 40 && totals.flash_hits > 200, "{totals:?}");
}

/// `cargo run --release -p larder-sim --example soak -- --theme array --seeds N` for more.
#[test]
fn a_cache_with_an_index_on_flash_is_as_right() {
    let totals = right(0..24, "the soak with --theme array", run_array_seed);
    assert!(totals.crash_points > 40 && totals.flash_hits > 500, "{totals:?}");
}

/// `cargo run --release -p larder-sim --example soak -- --theme pages --seeds N` for more.
#[test]
fn a_cache_with_pages_by_set_is_as_right() {
    let totals = right(0..40, "the soak with --theme pages", run_pages_seed);
    assert!(totals.crash_points > 60 && totals.flash_hits > 500, "{totals:?}");
}

/// `cargo run --release -p larder-sim --example soak -- --theme shards --seeds N` for more.
#[test]
fn a_set_of_shards_is_as_right() {
    let totals = right(0..24, "the soak with --theme shards", run_shards_seed);
    let rows: Vec<_> = totals.rows().into_iter().filter(|(what, _)| is_of_shards(what)).collect();
    assert!(rows.len() == 8 && rows.iter().all(|&(_, times)| times > 10), "{rows:?}");
    assert!(totals.crash_points > 60 && totals.flash_hits > 200, "{totals:?}");
}

/// In some of these seeds a sender returns its objects, in others tombstones come back after a crash: iteration order
/// without a defined order must not influence the run.
#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 24..40 {
        let [once, again] = [(), ()].map(|()| run_seed(seed, InjectedBug::None));
        assert_eq!((once.digest, &once.totals), (again.digest, &again.totals), "seed {seed}");
    }
}

/// The oracle must notice a defective cache; otherwise a pass would prove nothing.
#[test]
fn every_lie_is_found_out() {
    for bug in InjectedBug::ALL {
        let found = (0..SEEDS_PER_LIE).find_map(|seed| run_seed(seed, bug).wrong);
        let wrong = found.unwrap_or_else(|| panic!("{bug:?} was not noticed"));
        assert!(wrong.contains("key "), "{bug:?}: {wrong}");
    }
}
