//! Options of real firmware, and their effect on the writes of a cache.

use larder_ssd::managed::{
    GcDestination, Geometry, LazyCollection, ManagedConfig, ManagedSsd, Owner, SaveSequential,
    UnitState, VictimScope,
};

fn config() -> ManagedConfig {
    let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0).unwrap();
    ManagedConfig { handles: 2, ..ManagedConfig::new(geometry) }
}

/// Writes small objects at random over a tenth of the drive with handle 0, and large ones as a ring of 16-page writes
/// with handle 1, half of the bytes each. Returns the write amplification.
fn cache_writes(ssd: &mut ManagedSsd) -> f64 {
    let pages = ssd.config().geometry.logical_pages;
    let small = pages / 10 / 16 * 16;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut pointer = small;
    let mut before = ssd.stats().clone();
    for round in 0..2 {
        while ssd.stats().host_pages < (1 + round) * 20 * pages {
            for _ in 0..16 {
                ssd.write(rng.u64(..small), 1, 0).unwrap();
            }
            ssd.write(pointer, 16, 1).unwrap();
            pointer = if pointer + 16 >= pages { small } else { pointer + 16 };
        }
        if round == 0 {
            before = ssd.stats().clone();
        }
    }
    ssd.audit().unwrap();
    ssd.stats().dlwa_since(&before).unwrap()
}

#[test]
fn saving_sequential_streams_does_without_fdp_most_of_what_placement_does() {
    let with_fdp = cache_writes(&mut ManagedSsd::new(config()).unwrap());
    let without = ManagedConfig { fdp: false, ..config() };
    let mixed = cache_writes(&mut ManagedSsd::new(without.clone()).unwrap());
    let save_sequential = Some(SaveSequential { streams: 8, pages_min: 64 });
    let mut saving = ManagedSsd::new(ManagedConfig { save_sequential, ..without }).unwrap();
    let saved = cache_writes(&mut saving);
    println!("FDP {with_fdp:.3}, saving sequential {saved:.3}, mixed {mixed:.3}");
    assert!(with_fdp <= saved * 1.02 && saved < 1.2 * with_fdp && mixed > 1.5 * saved);
    assert!(saving.units().any(|unit| unit.owner == Owner::Sequential));
}

#[test]
fn a_noisy_handle_gets_the_moved_data_of_others() {
    let gc_destination = GcDestination::Handle(1);
    let mut noisy = ManagedSsd::new(ManagedConfig { gc_destination, ..config() }).unwrap();
    let cost = cache_writes(&mut noisy);
    let isolated = cache_writes(&mut ManagedSsd::new(config()).unwrap());
    println!("noisy {cost:.3}, isolated {isolated:.3}");
    assert!(cost > isolated, "{cost} and {isolated}");
    let small = noisy.config().geometry.logical_pages / 10 / 16 * 16;
    let mixed = (0..).zip(noisy.units()).any(|(number, unit)| {
        unit.owner == Owner::Handle(1) && noisy.live_pages_of(number).any(|lpn| lpn < small)
    });
    assert!(mixed, "pages of handle 0 lie in units of handle 1");
}

#[test]
fn lazy_collection_keeps_more_units_erased_while_that_is_cheap() {
    let erased = |lazy_collection| {
        let mut ssd = ManagedSsd::new(ManagedConfig { lazy_collection, ..config() }).unwrap();
        let cost = cache_writes(&mut ssd);
        (cost, ssd.units().filter(|unit| unit.state == UnitState::Erased).count())
    };
    let lazy = LazyCollection { below_erased_units: 12, live_percent_max: 30 };
    let ((cost, few), (lazy_cost, many)) = (erased(None), erased(Some(lazy)));
    println!("{few} erased at {cost:.3}, {many} erased at {lazy_cost:.3}");
    assert!(few <= 3 && many >= 5, "{few} and {many}");
    assert!(lazy_cost < cost * 1.2);
}

#[test]
fn a_handle_that_collects_its_own_units_leaves_the_others_alone() {
    let config = ManagedConfig {
        victim_scope: VictimScope::PerHandle,
        gc_destination: GcDestination::PerHandle,
        ..config()
    };
    let mut ssd = ManagedSsd::new(config).unwrap();
    let pages = ssd.config().geometry.logical_pages;
    let mut rng = fastrand::Rng::with_seed(1);
    ssd.write(0, pages, 1).unwrap();
    // Some pages of handle 1 die, so that its units would be worth collecting.
    for _ in 0..pages / 2 {
        ssd.write(rng.u64(..pages / 2), 1, 0).unwrap();
    }
    let before = ssd.stats().clone();
    for _ in 0..pages {
        ssd.write(rng.u64(..pages / 2), 1, 0).unwrap();
    }
    let copied = |handle: usize| {
        ssd.stats().copied_pages_by_owner[handle] - before.copied_pages_by_owner[handle]
    };
    println!("copied for handle 0: {}, for handle 1: {}", copied(0), copied(1));
    assert!(copied(0) > 0 && copied(1) * 20 < copied(0));
    ssd.audit().unwrap();
}
