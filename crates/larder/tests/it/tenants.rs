//! Several tenants on one drive: no tenant sees or evicts data of another, and a changed set of tenants discards no
//! content without permission.

use std::sync::Arc;
use std::time::Duration;

use larder::plan::{Class, Why};
use larder::{
    AdmissionPolicy, Config, Endurance, Error, ErrorKind, Larder, LocConfig, OnChange, Recovery,
    SocConfig, Tenant, Tenants, TenantsConfig, VirtualClock, block_on,
};
use larder_device::label;
use larder_device::{Device, Io, IoBuffer, ModelDevice, Payload, PlacementHandle, SliceDevice};
use larder_ssd::managed::{Geometry, ManagedConfig};

use crate::rig::{self, drive_of, key_of, value_of, version_in};

const MIB: u64 = 1 << 20;

fn tenant(name: &str, percent: f64) -> Tenant {
    Tenant { config: rig::config(), ..Tenant::new(name, percent) }
}

fn config(tenants: &[(&str, f64)]) -> TenantsConfig {
    let tenants = tenants.iter().map(|&(name, percent)| tenant(name, percent)).collect();
    TenantsConfig { dram_bytes: 64 << 10, tenants, ..TenantsConfig::default() }
}

fn open_at(config: TenantsConfig, drive: &Arc<ModelDevice>, second: u64) -> Result<Tenants, Error> {
    let clock = VirtualClock::starting_at(Duration::from_secs(second));
    let device: Arc<dyn Device> = Arc::clone(drive) as _;
    block_on(Tenants::open(config, Some(device), Arc::new(clock)))
}

fn refusal(config: TenantsConfig, drive: &Arc<ModelDevice>) -> (ErrorKind, String) {
    let error = open_at(config, drive, 9000).err().expect("it must be refused");
    (error.kind(), error.to_string())
}

fn set(cache: &Larder, key: u32, version: u32, bytes: usize) {
    block_on(cache.set(&key_of(key), &value_of(key, version, bytes), None)).unwrap();
}

fn get(cache: &Larder, key: u32) -> Option<u32> {
    Some(version_in(key, &block_on(cache.get(&key_of(key))).unwrap()?))
}

fn fill(cache: &Larder, version: u32, keys: std::ops::Range<u32>) {
    keys.for_each(|key| set(cache, key, version, if key.is_multiple_of(10) { 3000 } else { 200 }));
}

fn found(cache: &Larder, version: u32, keys: std::ops::Range<u32>) -> usize {
    let answers = keys.filter_map(|key| get(cache, key));
    answers.inspect(|&answer| assert_eq!(answer, version, "of another tenant")).count()
}

fn write(drive: &ModelDevice, offset: u64, byte: u8) {
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice().fill(byte);
    let handle = PlacementHandle::DEFAULT;
    drive.submit(Io::write(offset, buffer, handle)).wait().unwrap();
}

#[test]
fn a_tenant_is_neither_seen_nor_evicted_by_another() {
    let drive = drive_of(32 * MIB, true);
    let tenants = open_at(config(&[("quiet", 50.0), ("loud", 50.0)]), &drive, 1000).unwrap();
    let (quiet, loud) = (tenants.tenant("quiet").unwrap(), tenants.tenant("loud").unwrap());
    fill(quiet, 1, 0..2000);
    let before = found(quiet, 1, 0..2000);
    let flash = quiet.stats().flash_written_bytes();
    // Several times the size of both DRAM and flash, under the same keys and others.
    fill(loud, 2, 0..60_000);
    assert!(loud.stats().loc_evicted_objects > 0 && loud.stats().soc_evicted_objects > 0);
    assert_eq!(quiet.stats().flash_written_bytes(), flash, "no other tenant pushed it out of DRAM");
    assert_eq!(found(quiet, 1, 0..2000), before);
    assert!(before > 1900 && found(loud, 2, 0..60_000) > 1900);
    assert!(block_on(loud.delete(&key_of(7))).is_ok());
    assert_eq!(get(quiet, 7), Some(1));
    let (sum, each) = (tenants.stats(), [quiet.stats(), loud.stats()]);
    assert_eq!(sum.sets, 62_000);
    assert_eq!(
        sum.flash_written_bytes(),
        each.iter().map(larder::Stats::flash_written_bytes).sum()
    );
    assert_eq!(sum.crash_safe, 1);
    assert!(tenants.tenant("Loud").is_err());
}

#[test]
fn one_plan_gives_the_handles_to_all_tenants() {
    let drive = drive_of(32 * MIB, true);
    let tenants = open_at(config(&[("a", 50.0), ("b", 50.0)]), &drive, 1000).unwrap();
    let table_bytes = 2 * 4096 + 2 * (128 << 10);
    for (_, cache) in tenants.iter() {
        fill(cache, 1, 0..4000);
    }
    let plan = tenants.placement();
    assert!(
        plan.streams().iter().all(|one| matches!(one.why, Why::Alone | Why::Metadata)),
        "{plan}"
    );
    let by_handle = drive.stats().host_written_bytes_by_handle;
    let mut default = table_bytes;
    for (name, cache) in tenants.iter() {
        let stats = cache.stats();
        let written = |class| by_handle[usize::from(plan.handle_of(name, class).index())];
        assert_eq!(written(Class::Soc), stats.soc_written_bytes);
        assert_eq!(written(Class::Loc), stats.loc_written_bytes);
        assert!(stats.soc_written_bytes > MIB && stats.loc_written_bytes > 0);
        default += stats.metadata_written_bytes + stats.tombstone_log_written_bytes;
        let told: Vec<&str> =
            cache.placement().streams().iter().map(|one| one.tenant.as_str()).collect();
        assert_eq!(told, [name; 3], "each is told of itself");
    }
    assert_eq!(by_handle[0], default);
}

#[test]
fn another_share_costs_one_tenant_its_content_and_no_other() {
    let drive = drive_of(16 << 20, true);
    let tenants = open_at(config(&[("a", 30.0), ("b", 40.0), ("c", 20.0)]), &drive, 1000).unwrap();
    for (number, (_, cache)) in (1..).zip(tenants.iter()) {
        fill(cache, number, 0..200);
    }
    block_on(tenants.close()).unwrap();
    let changed = config(&[("a", 30.0), ("b", 20.0), ("c", 20.0), ("d", 20.0)]);
    let (kind, said) = refusal(changed.clone(), &drive);
    assert_eq!(kind, ErrorKind::Config);
    assert!(said.contains("tenant \"b\": flash_percent = 20, but it has 40 % of"), "{said}");
    let changed = TenantsConfig { on_change: OnChange::Discard, ..changed };
    for round in 0..2 {
        let tenants = open_at(changed.clone(), &drive, 2000 + round).unwrap();
        let of = |name| tenants.tenant(name).unwrap();
        assert_eq!((found(of("a"), 1, 0..200), found(of("c"), 3, 0..200)), (200, 200));
        let emptied = if round == 0 { Recovery::Fresh } else { of("b").recovery().unwrap() };
        assert_eq!(of("b").recovery(), Some(emptied));
        assert_eq!(found(of("d"), 5, 0..200), if round == 0 { 0 } else { 200 });
        fill(of("d"), 5, 0..200);
        // The table, the remainder of rounding, and 10 % that no tenant has.
        assert!((1..=4).contains(&(tenants.unused_bytes() / MIB)), "{}", tenants.unused_bytes());
        block_on(tenants.close()).unwrap();
    }
}

#[test]
fn tenants_are_found_again_in_any_order_and_new_ones_start_empty() {
    let drive = drive_of(32 * MIB, true);
    let tenants = open_at(config(&[("a", 30.0), ("b", 40.0)]), &drive, 1000).unwrap();
    fill(tenants.tenant("a").unwrap(), 1, 0..1000);
    fill(tenants.tenant("b").unwrap(), 2, 0..1000);
    block_on(tenants.close()).unwrap();

    let three = config(&[("c", 30.0), ("b", 40.0), ("a", 30.0)]);
    let tenants = open_at(three.clone(), &drive, 2000).unwrap();
    let cache = |name| tenants.tenant(name).unwrap();
    assert!(found(cache("a"), 1, 0..1000) > 900 && found(cache("b"), 2, 0..1000) > 900);
    assert_eq!((found(cache("c"), 3, 0..1000), cache("c").recovery()), (0, Some(Recovery::Fresh)));
    fill(cache("c"), 3, 0..1000);
    let _ = block_on(tenants.flush()).unwrap();
    drop(tenants); // as if the process had died
    let tenants = open_at(three, &drive, 3000).unwrap();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        let cache = tenants.tenant(name).unwrap();
        // A model drive does not name its boot, so it counts as if it might have lost its power.
        let found = found(cache, version, 0..1000);
        let kept = matches!(cache.recovery(), Some(Recovery::Crashed { .. }));
        assert_eq!(found > 900, kept, "{name}: {:?}, {found}", cache.recovery());
    }
}

#[test]
fn what_a_dropped_tenant_had_is_nobodys() {
    let drive = drive_of(32 * MIB, true);
    let tenants = open_at(config(&[("a", 50.0), ("b", 50.0)]), &drive, 1000).unwrap();
    tenants.iter().for_each(|(_, cache)| fill(cache, 1, 0..2000));
    block_on(tenants.close()).unwrap();
    let (kind, told) = refusal(config(&[("b", 50.0)]), &drive);
    assert_eq!(kind, ErrorKind::Config);
    assert!(told.contains("has a tenant \"a\" with 50 %"), "{told}");
    let renamed = TenantsConfig { drop_others: true, ..config(&[("b", 50.0), ("c", 50.0)]) };
    let tenants = open_at(renamed, &drive, 2000).unwrap();
    assert_eq!(found(tenants.tenant("c").unwrap(), 0, 0..2000), 0, "c lies where a lay");
    assert!(found(tenants.tenant("b").unwrap(), 1, 0..2000) > 1900);
    block_on(tenants.close()).unwrap();
    let (_, told) = refusal(config(&[("b", 40.0), ("c", 50.0)]), &drive);
    assert!(told.contains("flash_percent = 40, but it has 50 %"), "{told}");
    let anew = TenantsConfig { start_empty: true, ..config(&[("b", 40.0), ("c", 60.0)]) };
    let tenants = open_at(anew, &drive, 3000).unwrap();
    assert!(tenants.iter().all(|(_, cache)| found(cache, 0, 0..2000) == 0));
}

#[test]
fn a_table_outlives_the_loss_of_one_copy_and_is_refused_without_both() {
    for lost in label::COPIES {
        let drive = drive_of(32 * MIB, true);
        let two = config(&[("a", 50.0), ("b", 50.0)]);
        let tenants = open_at(two.clone(), &drive, 1000).unwrap();
        tenants.iter().for_each(|(_, cache)| fill(cache, 1, 0..500));
        block_on(tenants.close()).unwrap();
        write(&drive, lost, 0xee);
        let tenants = open_at(two.clone(), &drive, 2000).unwrap();
        assert!(tenants.iter().all(|(_, cache)| found(cache, 1, 0..500) > 450));
        block_on(tenants.close()).unwrap();
        let mut half = IoBuffer::zeroed(4096);
        half.as_mut_slice()[..8].copy_from_slice(b"LARDERLB");
        half.as_mut_slice()[8] = 9;
        let handle = PlacementHandle::DEFAULT;
        drive.submit(Io::write(label::COPIES[1] - lost, half, handle)).wait().unwrap();
        let (kind, told) = refusal(two, &drive);
        assert_eq!(kind, ErrorKind::Foreign);
        assert!(told.contains("fails its checks in both copies"), "{told}");
    }
}

#[test]
fn caches_with_and_without_tenants_do_not_overwrite_each_other() {
    let clock = || Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let alone = drive_of(32 * MIB, true);
    let device: Arc<dyn Device> = Arc::clone(&alone) as _;
    block_on(Larder::open(rig::config(), Some(device), clock())).unwrap();
    let (kind, told) = refusal(config(&[("a", 50.0)]), &alone);
    assert_eq!(kind, ErrorKind::Foreign);
    assert!(told.contains("holds a cache that has it for itself"), "{told}");

    let divided = drive_of(32 * MIB, true);
    drop(open_at(config(&[("a", 50.0)]), &divided, 1000).unwrap());
    let device: Arc<dyn Device> = Arc::clone(&divided) as _;
    let refused = block_on(Larder::open(rig::config(), Some(device), clock())).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Foreign);
    assert!(refused.to_string().contains("open it as Tenants or Shards"), "{refused}");

    let foreign = drive_of(32 * MIB, true);
    write(&foreign, 0, 0xee);
    assert_eq!(refusal(config(&[("a", 50.0)]), &foreign).0, ErrorKind::Foreign);
    let anew = TenantsConfig { start_empty: true, ..config(&[("a", 50.0)]) };
    assert_eq!(refusal(anew, &foreign).0, ErrorKind::Foreign, "not even to start empty");
}

#[test]
fn a_neighbours_writes_do_not_use_up_a_tenants_budget() {
    let drive = drive_of(32 * MIB, true);
    let mut config = config(&[("thrifty", 50.0), ("loud", 50.0)]);
    // Small enough that an hour of it is less than what the neighbour writes.
    let budget: AdmissionPolicy = "budget:600M".parse().unwrap();
    config.tenants[0].config = Config { admission: budget, ..config.tenants[0].config.clone() };
    config.endurance = Some(Endurance::of_tbw(1));
    let tenants = open_at(config, &drive, 1000).unwrap();
    let (thrifty, loud) = (tenants.tenant("thrifty").unwrap(), tenants.tenant("loud").unwrap());
    fill(loud, 1, 0..20_000);
    assert!(loud.stats().flash_written_bytes() > 40 * MIB);
    fill(thrifty, 2, 0..1000);
    assert!(thrifty.stats().admitted_objects > 500);
    assert_eq!(thrifty.stats().rejected_by_admission_objects, 0);
    let life = tenants.stats().drive_life.unwrap();
    assert!(life.written_bytes > 40 * MIB, "a drive wears as a whole");
    assert!(thrifty.stats().drive_life.is_none());
}

#[test]
fn tenants_have_reclaim_groups_of_their_own_where_there_are_some() {
    let mut geometry = Geometry::with_overprovisioning(32 * MIB, 256 << 10, 60.0).unwrap();
    geometry.units += geometry.units % 2;
    let config_of = |groups| ManagedConfig { groups, handles: 4, ..ManagedConfig::new(geometry) };
    let drive = Arc::new(ModelDevice::new(config_of(2), Payload::Memory).unwrap());
    assert_eq!((drive.info().placement.handles, drive.info().placement.groups), (8, 2));
    let tenants = open_at(config(&[("a", 50.0), ("b", 50.0)]), &drive, 1000).unwrap();
    tenants.iter().for_each(|(_, cache)| fill(cache, 1, 0..20_000));
    let group = |name| tenants.placement().handle_of(name, Class::Loc).index() / 4;
    assert_eq!((group("a"), group("b")), (0, 1));
    for (_, cache) in tenants.iter() {
        assert_eq!(cache.stats().device_errors, 0, "no group fills up");
    }
    let live = |group| drive.with_ssd(|ssd| ssd.live_pages_of_group(group));
    assert!(live(0) > 2000 && live(1) > 2000, "{} {}", live(0), live(1));
    let blank = Arc::new(ModelDevice::new(config_of(2), Payload::Memory).unwrap());
    let (kind, told) = refusal(config(&[("a", 70.0), ("b", 30.0)]), &blank);
    assert_eq!(kind, ErrorKind::Config);
    assert!(told.contains("reclaim group 0") && told.contains("smaller shares"), "{told}");
}

/// Four tenants, with half of the bytes in small and half in large objects, on a drive with four handles in addition to
/// the default one. Returns the DLWA of the second half.
fn dlwa_of_four(solved: bool) -> f64 {
    let geometry = Geometry::with_overprovisioning(64 * MIB, 256 << 10, 17.0).unwrap();
    let config_of_drive = ManagedConfig { handles: 5, ..ManagedConfig::new(geometry) };
    let drive = Arc::new(ModelDevice::new(config_of_drive, Payload::Memory).unwrap());
    let names = ["a", "b", "c", "d"];
    let own = Config {
        loc: LocConfig { write_bytes: 4096, ..rig::config().loc },
        soc: SocConfig { percent: Some(12.0), ..rig::config().soc },
        ..rig::config()
    };
    let tenants = names.map(|name| Tenant { config: own.clone(), ..Tenant::new(name, 25.0) });
    let config = TenantsConfig {
        dram_bytes: 80 << 10,
        tenants: tenants.to_vec(),
        ..TenantsConfig::default()
    };
    let (mut together, mut alone) = (None, Vec::new());
    if solved {
        together = Some(open_at(config, &drive, 1000).unwrap());
    } else {
        // First come, first served; when no handle is left, the default is used.
        let part = 16 * MIB;
        let handles = [[1, 2], [3, 4], [0, 0], [0, 0]].map(|pair| pair.map(PlacementHandle::new));
        for (number, pair) in (0..).zip(handles) {
            let range = number * part..(number + 1) * part;
            let slice = SliceDevice::new(Arc::clone(&drive), range, &pair).unwrap();
            let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
            let own = Config { dram_bytes: 20 << 10, ..own.clone() };
            alone.push(block_on(Larder::open(own, Some(Arc::new(slice)), clock)).unwrap());
        }
    }
    let caches: Vec<&Larder> = match &together {
        Some(tenants) => tenants.iter().map(|(_, cache)| cache).collect(),
        None => alone.iter().collect(),
    };
    let mut rng = fastrand::Rng::with_seed(11);
    let counted = || {
        let stats = drive.stats();
        (stats.host_written_bytes, stats.media_written_bytes.unwrap())
    };
    let mut warm = (0, 0);
    for round in 0..16_000 {
        if round == 8_000 {
            warm = counted();
        }
        for cache in &caches {
            set(cache, rng.u32(0..100_000), round, 300);
            set(cache, rng.u32(100_000..200_000), round, 3900);
        }
    }
    let (host, media) = counted();
    #[allow(clippy::cast_precision_loss)]
    let dlwa = (media - warm.1) as f64 / (host - warm.0) as f64;
    dlwa
}

#[test]
fn with_too_few_handles_the_plan_costs_less_than_first_come_first_served() {
    let (solved, first_come) = (dlwa_of_four(true), dlwa_of_four(false));
    println!("DLWA {solved:.3} solved, {first_come:.3} first come");
    assert!(solved < first_come - 0.05, "{solved} {first_come}");
}
