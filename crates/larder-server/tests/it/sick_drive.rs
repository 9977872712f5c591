//! A drive stalls, fails or vanishes: the server continues in DRAM, reports it, and uses the drive again when it works.

use std::time::{Duration, Instant};

use larder::{Config, LocConfig};
use larder_device::{Fault, FaultPlan, FaultRule};
use larder_server::{Server, ServerConfig};

use crate::admin::get;
use crate::drive::{
    Drive, count, drive, fill, impatient, metric, opened_on, serve_on, started_with,
};
use crate::serving::{Client, config};

const KEYS: usize = 6000;
/// Everything that does not hang is faster than this, however busy the machine is.
const EVER: Duration = Duration::from_secs(30);

fn serve(drive: &Drive, ready_without_flash: bool) -> Server {
    let config = ServerConfig { workers: 2, ready_without_flash, ..config() };
    serve_on(drive, &[("default", impatient())], config)
}

fn avoided(server: &Server) -> u64 {
    metric(server, "larder_flash_avoided", "default")
}

fn flash_hits(server: &Server) -> u64 {
    ["soc", "loc"]
        .map(|it| metric(server, &format!("larder_{it}_hits_total"), "default"))
        .iter()
        .sum()
}

/// Sets a key and reads it back. The set may report an error if it cannot be made durable; its value then counts until
/// the process ends.
fn set_here(client: &mut Client, value: &str) {
    client.send(format!("set here 0 0 {}\r\n{value}\r\n", value.len()));
    let answer = client.line();
    assert!(
        ["STORED\r\n", "SERVER_ERROR the device has failed\r\n"].contains(&&*answer),
        "{answer}"
    );
    let found = format!("VALUE here 0 {}\r\n{value}\r\nEND\r\n", value.len());
    client.asks("get here\r\n", found);
}

/// Only requests that need flash wait for it: DRAM hits, sets and misses are answered at once.
fn goes_on_in_dram(server: &Server) {
    let mut reader = Client::memcached(server);
    reader.send((0..200).map(|key| format!("get k{key}\r\n")).collect::<String>());
    let mut client = Client::memcached(server);
    set_here(&mut client, "rye");
    let begun = Instant::now();
    for _ in 0..100 {
        client.asks("get here\r\n", "VALUE here 0 3\r\nrye\r\nEND\r\n");
    }
    client.asks("get nowhere\r\n", "END\r\n");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // The requests that need flash are answered in the end, with a miss.
    for _ in 0..200 {
        while reader.line() != "END\r\n" {}
    }
    // Values at full speed are stored or refused.
    fill(&mut client, KEYS..2 * KEYS);
    set_here(&mut client, "oat");
}

/// New values go to flash and are read from there again.
fn uses_flash_again(server: &Server) {
    let begun = Instant::now();
    let mut client = Client::memcached(server);
    let mut first = 10 * KEYS;
    while avoided(server) == 1 {
        assert!(begun.elapsed() < EVER, "it is not used again");
        fill(&mut client, first..first + 500);
        first += 500;
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(get(server, "/ready", "").ends_with("\r\n\r\nready\n"));
    // What the cache gave up for a while is used again too; half of the keys is more than DRAM holds.
    loop {
        fill(&mut client, first..first + KEYS);
        let before = flash_hits(server);
        let found = count(&mut client, first..first + KEYS);
        if found > KEYS / 2 && flash_hits(server) > before {
            return;
        }
        first += KEYS;
        assert!(begun.elapsed() < 2 * EVER, "{found} of {KEYS} are found");
    }
}

/// The drive completes nothing after the start, so the index does not get to know what flash holds.
#[test]
fn a_server_says_how_much_of_flash_it_does_not_know_yet() {
    let drive = drive();
    let server = serve(&drive, true);
    let mut client = Client::memcached(&server);
    let value = "x".repeat(20_000);
    for key in 0..3000 {
        client.send(format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len()));
        assert_eq!(client.line(), "STORED\r\n");
    }
    server.end(EVER).unwrap();
    for ready_while_indexing in [true, false] {
        drive.set_plan(&FaultPlan::new(1));
        let loc = LocConfig { eager_index_objects: 0, ..LocConfig::default() };
        let tenants = opened_on(&drive, &[("default", Config { loc, ..impatient() })]);
        drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall).on_reads()));
        let config = ServerConfig { workers: 2, ready_while_indexing, ..config() };
        let server = started_with(config, tenants);
        let unknown = metric(&server, "larder_loc_unindexed_regions", "default");
        let says = format!("index: {unknown} regions of flash are not known yet\n");
        let (begin, line) = match ready_while_indexing {
            true => ("HTTP/1.1 200 ", format!("ready\n{says}")),
            false => ("HTTP/1.1 503 ", format!("not ready: {says}")),
        };
        let ready = get(&server, "/ready", "");
        assert!(unknown > 0 && ready.starts_with(begin) && ready.contains(&line), "{ready}");
        drive.set_plan(&FaultPlan::new(1));
        drive.release_delayed();
        let begun = Instant::now();
        while !get(&server, "/ready", "").ends_with("\r\n\r\nready\n") {
            assert!(begun.elapsed() < EVER);
            std::thread::sleep(Duration::from_millis(20));
        }
        server.end(EVER).unwrap();
    }
}

fn falls_ill_and_recovers(plan: &FaultPlan) {
    let drive = drive();
    let server = serve(&drive, true);
    assert_eq!(fill(&mut Client::memcached(&server), 0..KEYS), KEYS);
    assert_eq!(avoided(&server), 0);
    let begun = std::time::SystemTime::now();
    drive.set_plan(plan);
    goes_on_in_dram(&server);
    assert_eq!(avoided(&server), 1);
    let since = metric(&server, "larder_flash_avoided_since_seconds", "default");
    let begun = begun.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((begun - 1..begun + EVER.as_secs()).contains(&since), "{since}, {begun}");
    let ready = get(&server, "/ready", "");
    let says = format!("ready\nflash: not used since {since} (Unix time), for ");
    assert!(ready.starts_with("HTTP/1.1 200 ") && ready.contains(&says), "{ready}");
    assert!(metric(&server, "larder_device_errors_total", "default") > 0);
    drive.set_plan(&FaultPlan::new(1));
    drive.release_delayed();
    uses_flash_again(&server);
    server.end(EVER).unwrap();
}

#[test]
fn a_drive_that_stalls_is_gone_around_and_used_again() {
    falls_ill_and_recovers(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall)));
}

#[test]
fn a_drive_whose_requests_all_fail_is_gone_around_and_used_again() {
    falls_ill_and_recovers(&FaultPlan::new(1).with(FaultRule::new(Fault::Error)));
}

#[test]
fn a_drive_that_takes_no_writes_is_gone_around_and_used_again() {
    falls_ill_and_recovers(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
}

#[test]
fn a_drive_that_is_pulled_out_is_done_without() {
    let drive = drive();
    let server = serve(&drive, false);
    assert_eq!(fill(&mut Client::memcached(&server), 0..KEYS), KEYS);
    assert!(get(&server, "/ready", "").starts_with("HTTP/1.1 200 "));
    drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Gone)));
    goes_on_in_dram(&server);
    goes_on_in_dram(&server);
    let ready = get(&server, "/ready", "");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(ready.contains("not ready: flash: not used since "), "{ready}");
    let begun = Instant::now();
    // The cache cannot be closed cleanly, which is reported.
    assert!(server.end(Duration::from_secs(5)).is_err());
    assert!(begun.elapsed() < EVER, "{:?}", begun.elapsed());
}
