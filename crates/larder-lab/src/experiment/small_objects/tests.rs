//! The judge, with parts of pages by set switched off; and what holds for every layout.

use larder_workload::{Error, Op, Request, RequestSource};

use super::super::{Judgement, Metrics, Summary, Verdict};
use super::admission::Policy;
use super::cells::{Cell, LAYOUTS, PagesSettings};
use super::layout::{Held, Layout, LookUp, World};
use super::model::{Counts, play};
use super::objects::{Key, Objects};
use super::workload::{Limits, Recorded};
use super::*;

const SHORT: [&str; 4] = ["requests=600000", "soc=20,40", "dram=32", "layouts=fifo,pages"];

fn measured(assignments: &[&str]) -> Metrics {
    let assignments: Vec<_> = assignments.iter().map(|it| (*it).to_owned()).collect();
    let settings = Settings::new("small-objects", PARAMETERS, &assignments).unwrap();
    measure(&settings, 3, &Monitor::default()).unwrap()
}

/// What is measured, with lists of the three kinds.
#[test]
fn lists_without_what_is_gone_take_less() {
    let bits = |lists: &str| short(&["layouts=pages", lists])["bits.pages.32.40"];
    let (grown, exact, dense) = (bits("lists=grown"), bits("lists=exact"), bits("lists=dense"));
    assert!(grown > exact + 0.5 && exact > dense + 0.5, "{grown} {exact} {dense}");
}

#[test]
fn pages_in_memory_take_their_bytes_from_dram() {
    let with = |factor: &str| short(&["layouts=pages", factor]);
    let (few, many) = (with("pages_factor=9"), with("pages_factor=2"));
    let memory = "memory.pages.32.40";
    assert!((4.0..14.0).contains(&few[memory]), "{}", few[memory]);
    assert!(many[memory] > 1.5 * few[memory] && many[memory] < 50.0, "{}", many[memory]);
    let there = "hits_memory.pages.32.40";
    assert!(many[there] > few[there] && few[there] > 0.0, "{} {}", many[there], few[there]);
}

fn short(more: &[&str]) -> Metrics {
    measured(&[&SHORT, more].concat())
}

#[test]
fn the_judge_refuses_pages_without_their_parts() {
    let judge = |metrics: &Metrics| table::judge(&Summary::of(std::slice::from_ref(metrics)));
    let failed = |judgement: &Judgement| {
        let (failed, _) = judgement.reason.split_once(". Holds").unwrap();
        let list = failed.strip_prefix("does not hold: ").unwrap().split("; ");
        list.map(str::to_owned).collect::<Vec<_>>()
    };
    // The product misses the goal for DRAM, and no other.
    let whole = judge(&short(&[]));
    assert_eq!(whole.verdict, Verdict::InShape, "{}", whole.reason);
    assert!(failed(&whole).iter().all(|it| it.ends_with(" bits")), "{}", whole.reason);

    let carry = judge(&short(&["off=carry"]));
    assert_eq!(carry.verdict, Verdict::InShape, "{}", carry.reason);
    assert!(failed(&carry).iter().any(|it| it.contains(": hits -")), "{}", carry.reason);

    // A page for each object.
    let judgement = judge(&short(&["off=fill"]));
    assert_eq!(judgement.verdict, Verdict::Diverges, "{}", judgement.reason);
}

#[test]
fn companions_fill_pages_or_each_object_takes_one() {
    let with = |more: &str| short(&["layouts=companions", more]);
    let writes = "writes.companions.32.20";
    let (whole, alone, cold) = (with("off=none"), with("off=groups"), with("cold=0.1"));
    assert!(whole[writes] < 1.4 && alone[writes] > 10.0, "{} {}", whole[writes], alone[writes]);
    // A tenth of DRAM's time is too little to fill pages with.
    assert!(cold[writes] > 1.4 && cold["part_filled.companions.32.20"] > 0.1, "{}", cold[writes]);
}

/// An engine that is little larger than DRAM: units leave flash while their objects are still in DRAM.
#[test]
fn clean_items_whose_copy_has_left_go_along_or_each_takes_a_page() {
    let small = ["workload=meta-kv", "requests=300000", "soc=4", "dram=32", "layouts=companions"];
    let with = |off: &str| measured(&[&small[..], &[off]].concat());
    let (whole, alone) = (with("off=none"), with("off=lost"));
    let (writes, hit) = ("writes.companions.32.4", "hit.companions.32.4");
    assert!(whole[writes] < 1.2 && alone[writes] > 3.0, "{} {}", whole[writes], alone[writes]);
    assert!(whole[hit] > alone[hit] + 1.0, "{} {}", whole[hit], alone[hit]);
}

/// GETs, SETs and deletes of keys with unlike popularity, sizes and lifetimes.
struct Mixed {
    rng: fastrand::Rng,
    left: u32,
}

impl RequestSource for Mixed {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 30,000
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let key = (self.rng.f64().powi(4) * 30_000.0) as u64;
        let op = match self.rng.u8(..20) {
            0 => Op::Delete,
            1..5 => Op::Set,
            _ => Op::Get,
        };
        // One of a hundred SETs makes the object too large.
        let is_large = op == Op::Set && self.rng.u8(..100) == 0;
        let value_bytes = if is_large { 5000 } else { self.rng.u32(10..600) };
        let ttl_s = [0, 20, 500][(key % 3) as usize];
        let time_s = (200_000 - self.left) / 100;
        Ok(Some(Request { time_s, key, key_bytes: 20, value_bytes, op, ttl_s }))
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

fn mixed() -> Recorded {
    let mut source = Mixed { rng: fastrand::Rng::with_seed(9), left: 200_000 };
    let limits = Limits { requests: 200_000, object_bytes_max: 640, slower: 1, delete_percent: 0 };
    Recorded::new(&mut source, limits).unwrap()
}

fn run(recorded: &Recorded, name: &str, policy: &str) -> Counts {
    let cell = Cell::new(6 << 20, 20.0, 32.0);
    let pages = PagesSettings {
        pages_factor: 4.5,
        zone: 0.2,
        lists: pages::Lists::Grown,
        companions_factor: 2.5,
        cold_share: 1.0,
        carry_share: 0.3,
        rounds: 1,
        off: "none",
    };
    let mut layout = cell.layout(name, recorded, pages).unwrap();
    play(recorded, &mut *layout, cell, Policy::read(policy).unwrap())
}

#[test]
fn every_hit_is_the_last_version_and_all_that_is_live_has_room() {
    let recorded = mixed();
    assert!(recorded.left_out > 0);
    let possible = model::possible(&recorded);
    for policy in ["all", "probability:0.4", "reject-first:0.3"] {
        for name in LAYOUTS {
            let counts = run(&recorded, name, policy);
            let hits = counts.dram_hits + counts.flash_hits;
            #[allow(clippy::cast_precision_loss)]
            let ratio = hits as f64 / counts.gets as f64;
            let at = format!("{name}, {policy}: {counts:?}");
            assert_eq!((counts.wrong, counts.overfull, counts.astray), (0, 0, 0), "{at}");
            assert_eq!(hits + counts.misses, counts.gets, "{at}");
            assert!(ratio > 0.2 && ratio <= possible, "{possible}, {at}");
            assert!(counts.flash_hits > 1000 && counts.expired > 0, "{at}");
            assert!(counts.written.admitted > 1000, "{at}");
            assert!(counts.written.flash_bytes >= counts.written.admitted_bytes / 2, "{at}");
            assert_eq!(counts.refused > 0, policy != "all", "{at}");
        }
    }
}

/// An object that fills a page leaves no room for others.
#[test]
fn large_objects_are_not_lost_for_carried_ones() {
    let large = ["workload=document", "requests=200000", "object_max=4050", "soc=20", "dram=32"];
    let metrics = measured(&[&large[..], &["layouts=fifo,companions,pages", "carry=0.9"]].concat());
    for layout in ["hit.companions.32.20", "hit.pages.32.20"] {
        assert!(metrics[layout] > metrics["hit.fifo.32.20"] - 1.0, "{metrics:?}");
    }
    assert_eq!(metrics["wrong"], 0.0);
}

/// Has nothing on flash, and takes memory.
struct Hungry(u64);

impl Layout for Hungry {
    fn look_up(&mut self, _key: Key, _objects: &Objects) -> LookUp {
        LookUp::default()
    }
    fn holds(&self, _key: Key) -> bool {
        false
    }
    fn forget(&mut self, _key: Key, _is_known: bool) {}
    fn write(&mut self, _key: Key, _world: &mut World<'_>) {}
    fn memory_bytes(&self) -> u64 {
        self.0
    }
    fn held(&self, _objects: &Objects) -> Held {
        Held::default()
    }
}

#[test]
fn what_a_layout_takes_is_missing_in_dram() {
    let recorded = mixed();
    let hits = |dram_bytes, taken| {
        let cell = Cell { soc_bytes: 1 << 20, dram_bytes };
        play(&recorded, &mut Hungry(taken), cell, Policy::All).dram_hits
    };
    assert_eq!(hits(300_000, 100_000), hits(200_000, 0));
    assert!(hits(300_000, 100_000) < hits(300_000, 0));
}

#[test]
fn all_layouts_see_the_same_requests() {
    let recorded = mixed();
    let gets = LAYOUTS.map(|name| run(&recorded, name, "all").gets);
    assert!(gets.iter().all(|it| *it == gets[0]), "{gets:?}");
    let again = (run(&recorded, "pages", "all"), run(&recorded, "pages", "all"));
    assert_eq!(format!("{:?}", again.0), format!("{:?}", again.1));
}

#[test]
fn objects_above_the_limit_are_left_out_and_delete_what_was_small() {
    struct Three(Vec<(Op, u32)>);
    impl RequestSource for Three {
        fn next_request(&mut self) -> Result<Option<Request>, Error> {
            let next = self.0.pop();
            Ok(next.map(|(op, value_bytes)| Request {
                time_s: 0,
                key: 7,
                key_bytes: 20,
                value_bytes,
                op,
                ttl_s: 0,
            }))
        }
        fn progress(&self) -> Option<f64> {
            None
        }
    }
    let limits = Limits { requests: 9, object_bytes_max: 640, slower: 1, delete_percent: 0 };
    // From the last to the first.
    let ops = [(Op::Get, 900), (Op::Set, 900), (Op::Set, 100), (Op::Set, 900), (Op::Get, 0)];
    let recorded = Recorded::new(&mut Three(ops.to_vec()), limits).unwrap();
    let events: Vec<_> = recorded.events.iter().map(|it| (it.op, it.bytes)).collect();
    assert_eq!(events, [(Op::Get, 0), (Op::Delete, 0), (Op::Set, 120), (Op::Delete, 0)]);
    assert_eq!((recorded.left_out, recorded.keys, recorded.distinct_bytes), (3, 1, 120));
}

/// Files as CacheLib has them.
#[test]
fn distributions_of_cachelib_are_thinned_and_keep_their_shares() {
    let folder = tempfile::tempdir().unwrap();
    let pop =
        r#"{"oneHits": 0.1, "popularityWeights": [900, 90], "popularityBuckets": [1, 1000000]}"#;
    let sizes = r#"{"valSizeRange": [100, 300], "valSizeRangeProbability": [3, 1]}"#;
    std::fs::write(folder.path().join("pop.json"), pop).unwrap();
    std::fs::write(folder.path().join("sizes.json"), sizes).unwrap();
    let mut source = CacheLib::new(folder.path(), 100_000, 1).unwrap();
    let mut keys = std::collections::BTreeMap::new();
    while let Some(request) = source.next_request().unwrap() {
        let (count, bytes) = keys.entry(request.key).or_insert((0, request.value_bytes));
        *count += 1;
        assert_eq!(*bytes, request.value_bytes, "a key has one size");
    }
    let once = keys.keys().filter(|key| **key >= 1 << 40).count();
    assert!((9500..10_500).contains(&once), "{once}");
    assert!((20_000..36_000).contains(&(keys.len())), "{}", keys.len());
    let large = keys.values().filter(|(_, bytes)| *bytes == 300).count();
    assert!((keys.len() / 5..keys.len() * 3 / 10).contains(&large), "{large} of {}", keys.len());
    std::fs::write(folder.path().join("pop.json"), "{}").unwrap();
    assert!(CacheLib::new(folder.path(), 100_000, 1).is_err());
}
