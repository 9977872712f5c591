//! Tenants get turns at flash by weight, and stay within their write budgets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use larder::{AdmissionPolicy, Config};
use larder_device::{Fault, FaultPlan, FaultRule};
use larder_server::{Server, ServerConfig, TenantPolicy};

use crate::drive::{Drive, Ends, count, drive, fill, metric, serve_on};
use crate::serving::{Client, config};
use crate::users::user;

const KEYS: usize = 6000;

/// Two tenants with a user each; most of their keys are on flash.
fn serve(drive: &Drive, weight: u16) -> Server {
    let users = vec![user("many", "rye", "many"), user("one", "oat", "one")];
    let tenants = vec![TenantPolicy { weight, ..TenantPolicy::new("many") }];
    let config = ServerConfig { users, tenants, workers: 1, flash_turns: 1, ..config() };
    let tenants = [("many", Config::default()), ("one", Config::default())];
    let server = serve_on(drive, &tenants, config);
    for login in ["many rye", "one oat"] {
        assert_eq!(fill(&mut client(&server, login), 0..KEYS), KEYS);
    }
    server
}

fn client(server: &Server, login: &str) -> Client {
    let mut client = Client::memcached(server);
    client.asks(format!("set auth 0 0 {}\r\n{login}\r\n", login.len()), "STORED\r\n");
    client
}

fn flash_hits(server: &Server, tenant: &str) -> u64 {
    ["soc", "loc"].map(|it| metric(server, &format!("larder_{it}_hits_total"), tenant)).iter().sum()
}

/// How many values of "many" are read from flash, by fifty connections at full speed, for each value that one
/// connection of "one" reads.
fn reads_of_others_for_one(weight: u16) -> u64 {
    let drive = drive();
    let server = serve(&drive, weight);
    // Each read takes a few milliseconds, so that waiting dominates.
    drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall).on_reads()));
    let (is_over, began) = (AtomicBool::new(false), AtomicU64::new(0));
    let reads = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
                drive.release_delayed();
            }
        });
        for number in 0..50 {
            let (server, is_over, began) = (&server, &is_over, &began);
            scope.spawn(move || {
                let mut client = client(server, "many rye");
                for key in (0..).map(|step| (number * 119 + step * 7) % KEYS) {
                    began.fetch_add(1, Ordering::SeqCst);
                    count(&mut client, [key].into_iter());
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        let _ends = Ends(&is_over);
        while began.load(Ordering::SeqCst) < 200 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut one = client(&server, "one oat");
        let (before, own_before) = (flash_hits(&server, "many"), flash_hits(&server, "one"));
        // The oldest keys, which are not in DRAM.
        let found = count(&mut one, 0..20);
        let own = flash_hits(&server, "one") - own_before;
        let reads = flash_hits(&server, "many") - before;
        assert!(found >= 18 && own >= 15, "{found} found, {own} of them on flash");
        reads / own
    });
    drive.set_plan(&FaultPlan::new(1));
    drive.release_delayed();
    reads
}

#[test]
fn one_connection_against_fifty_waits_for_its_share_and_no_more() {
    let reads = reads_of_others_for_one(1);
    assert!(reads <= 8, "{reads} of the others for one of its own; in the order of arrival, fifty");
}

#[test]
fn a_tenant_with_more_weight_gets_more_turns() {
    let reads = reads_of_others_for_one(20);
    assert!((10..=40).contains(&reads), "{reads} of the others for one of its own");
}

#[test]
fn over_its_budget_of_writes_a_tenant_stays_in_dram_and_others_do_not() {
    let drive = drive();
    let budget = AdmissionPolicy::Budget { bytes_per_day: 20 << 20 };
    let tenants =
        [("held", Config { admission: budget, ..Config::default() }), ("free", Config::default())];
    let users = vec![user("held", "rye", "held"), user("free", "rye", "free")];
    let server = serve_on(&drive, &tenants, ServerConfig { users, workers: 1, ..config() });
    let mut found = Vec::new();
    for name in ["held", "free"] {
        let mut client = client(&server, &format!("{name} rye"));
        assert_eq!(fill(&mut client, 0..KEYS), KEYS);
        found.push(count(&mut client, 0..KEYS));
    }
    let of = |name: &str, tenant| metric(&server, &format!("larder_{name}_total"), tenant);
    let turned_away = |tenant| {
        let reasons = ["rejected_by_budget_objects", "rejected_for_exhausted_budget_objects"];
        reasons.map(|reason| of(reason, tenant)).iter().sum::<u64>()
    };
    assert!(turned_away("held") > 2000, "{}", turned_away("held"));
    assert_eq!(turned_away("free"), 0);
    // At most half an hour's budget, plus what opening writes.
    assert!(of("soc_written_bytes", "held") < 2 << 20, "{}", of("soc_written_bytes", "held"));
    assert!(found[0] < KEYS / 2 && found[0] > 100 && found[1] > KEYS * 9 / 10, "{found:?}");
}
