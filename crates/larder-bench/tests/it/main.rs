//! Tests against a small memcached server that can be told to be slow, to return wrong values, or to violate the
//! protocol.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod binary;
mod server;
mod tls;

use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_bench::compare::{Stage, Table, compare};
use larder_bench::run::{Progress, fill, measure};
use larder_bench::{Load, Pace, Popularity, Target, Workload, saturation, workload};
use server::Server;

fn load() -> Load {
    Load {
        workload: Workload { keys: Some(1000), ..Workload::default() },
        connections: 4,
        warm_up: Duration::from_millis(50),
        duration: Duration::from_millis(300),
        ..Load::default()
    }
}

#[test]
fn what_was_stored_first_is_hit() {
    let server = Server::start();
    let load = Load { threads: 2, pipeline: 4, ..load() };
    fill(&server.target(), &load, &Progress::default()).unwrap();
    assert_eq!(server.stored(), 1000);
    let progress = Progress::default();
    let measured = measure(&server.target(), &load, &progress).unwrap();
    assert!(measured.requests > 0, "{measured:?}");
    assert_eq!((measured.hits, measured.wrong, measured.refused), (measured.keys, 0, 0));
    assert!(progress.answers.load(Ordering::Relaxed) >= measured.requests);
    assert!(measured.server_cpu_us.is_some(), "this process listens there");
}

#[test]
fn several_keys_and_sets_and_a_look_aside_client() {
    let server = Server::start();
    let workload = Workload {
        stream: workload::Stream::Drawn(Popularity::Zipf(0.9)),
        multiget: 10,
        sets_percent: 5.0,
        look_aside: true,
        ..load().workload
    };
    let measured =
        measure(&server.target(), &Load { workload, ..load() }, &Progress::default()).unwrap();
    assert!(measured.keys > measured.requests && measured.sets > 0, "{measured:?}");
    assert!(measured.hits > 0 && measured.hits < measured.keys, "{measured:?}");
    assert!(server.stored() > 0 && measured.wrong == 0);
}

#[test]
fn a_client_whose_key_is_missing_waits_for_its_backend() {
    let backend = Duration::from_millis(60);
    let misses = |backend| {
        let server = Server::start();
        let workload = Workload { look_aside: true, backend, ..load().workload };
        let few = Load { connections: 2, pipeline: 1, workload, ..load() };
        let measured = measure(&server.target(), &few, &Progress::default()).unwrap();
        (measured, few.duration.as_secs_f64())
    };
    let (measured, seconds) = misses(backend);
    // Nothing was stored before: nearly each request misses, and a connection has one under way.
    let most = 2.0 * seconds / backend.as_secs_f64() + 2.0 + measured.hits as f64;
    let gets = measured.keys as f64;
    assert!(measured.sets > 0 && gets <= most, "{measured:?} in {seconds} s");
    assert!(measured.p99_us.unwrap() >= 60_000.0, "its latency counts: {measured:?}");
    let (without, _) = misses(Duration::ZERO);
    assert!(without.keys > 4 * measured.keys, "{without:?}");
}

#[test]
fn keys_are_stored_as_slowly_as_wished() {
    let server = Server::start();
    let keys = load().workload.drawn_keys().unwrap();
    let begun = std::time::Instant::now();
    let slow = Load { fill_rate: Some(keys as f64 * 2.0), ..load() };
    fill(&server.target(), &slow, &Progress::default()).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(300), "half a second: {:?}", begun.elapsed());
    assert_eq!(u64::try_from(server.stored()).unwrap(), keys);
}

#[test]
fn wrong_values_are_counted() {
    let server = Server::start();
    fill(&server.target(), &load(), &Progress::default()).unwrap();
    server.corrupt();
    let measured = measure(&server.target(), &load(), &Progress::default()).unwrap();
    assert!(measured.wrong > 0 && measured.wrong >= measured.hits, "{measured:?}");
}

/// Coordinated omission: while a server stalls, a client that waits for it sends nothing, and never counts the requests
/// that it would have sent.
#[test]
fn a_stall_counts_for_all_requests_that_were_due_during_it() {
    let server = Server::start();
    let base = Load { connections: 1, duration: Duration::from_millis(1000), ..load() };
    server.stall_once_after(Duration::from_millis(300), Duration::from_millis(400));
    let open = Load { pace: Pace::Open(500.0), ..base.clone() };
    let measured = measure(&server.target(), &open, &Progress::default()).unwrap();
    // Two fifths of all requests fall in the stall; half of those waited for 200 ms or more.
    assert!(measured.p99_us.unwrap() > 300_000.0, "{measured:?}");
    assert!((350..650).contains(&(measured.requests + measured.unanswered)), "{measured:?}");
    let server = Server::start();
    server.stall_once_after(Duration::from_millis(300), Duration::from_millis(400));
    let closed = measure(&server.target(), &base, &Progress::default()).unwrap();
    assert!(closed.max_us.unwrap() > 300_000.0, "one request tells of it");
    assert!(closed.requests < 200 || closed.p99_us.unwrap() < 300_000.0, "{closed:?}");
}

#[test]
fn what_is_never_answered_counts() {
    let server = Server::start();
    server.stall_once_after(Duration::from_millis(100), Duration::from_secs(60));
    let open = Load { pace: Pace::Open(500.0), connections: 1, ..load() };
    let measured = measure(&server.target(), &open, &Progress::default()).unwrap();
    assert!(measured.unanswered > 50, "{measured:?}");
    assert!(measured.max_us.unwrap() > 150_000.0, "{measured:?}");
}

#[test]
fn a_server_of_another_protocol_is_an_error_that_shows_what_came() {
    let server = Server::start();
    server.be_rude();
    let error = measure(&server.target(), &load(), &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("HTTP/1.1 400"), "{error}");
    let nobody: Target = "memcached://127.0.0.1:1".parse().unwrap();
    let error = measure(&nobody, &load(), &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

#[test]
fn targets_are_measured_in_turns() {
    let (one, two) = (Server::start(), Server::start());
    let named = |server: &Server, name: &str| Target { name: name.to_owned(), ..server.target() };
    let targets = [named(&one, "a"), named(&two, "b")];
    let load = Load { duration: Duration::from_millis(50), ..load() };
    let mut order = String::new();
    let tell = |stage: Stage<'_>| {
        order += match stage {
            Stage::Fill(name) | Stage::Round(name, _) => name,
        }
    };
    let compared = compare(&targets, &load, (2, true), &Progress::default(), tell).unwrap();
    assert_eq!(order, "ababba");
    assert!(compared.iter().all(|target| target.rounds.len() == 2));
    let table = Table(&compared).to_string();
    assert!(table.contains(" x") && table.contains("hits 100.00 %"), "{table}");
}

#[test]
fn the_highest_rate_under_a_limit_is_found() {
    let server = Server::start();
    server.take(Duration::from_millis(1));
    let load = Load { connections: 1, duration: Duration::from_millis(400), ..load() };
    let limit = (Duration::from_millis(20), 5);
    let mut told = 0;
    let progress = Progress::default();
    let tried =
        saturation::search(&server.target(), &load, limit, &progress, |_| told += 1).unwrap();
    assert_eq!((tried.len(), told), (5, 5));
    // Each request takes a millisecond, so fewer than a thousand a second are answered, however many are sent.
    let highest = saturation::highest(&tried).map_or(0.0, |tried| tried.rate);
    assert!(highest < 1000.0, "{tried:?}");
    assert!(tried.iter().any(|tried| !tried.kept), "{tried:?}");
}
