//! Tenants that share dies: shares by weight while both are busy, the whole die while one is, and the difference to a
//! limiter that does not redistribute unused time.

use std::time::Duration;

use larder_ssd::ErrorKind;
use larder_ssd::nand::{DieIndex, PhysicalOp};
use larder_ssd::timed::{DieService, DriveTiming, Media, small};
use larder_vssd::share::{Dispatcher, Served, Sharing, TokenBucket};

const SECOND: u64 = 1_000_000_000;
const STRIPE_BYTES: u64 = 192 << 10;

fn timing() -> DriveTiming {
    DriveTiming { service: DieService::InOrder, ..small() }
}

fn program(die: u32) -> PhysicalOp {
    PhysicalOp::Program { die: DieIndex(die), bytes: STRIPE_BYTES, urgent: false }
}

fn read(die: u32) -> PhysicalOp {
    PhysicalOp::HostRead { die: DieIndex(die), bytes: 16 << 10 }
}

fn erase(die: u32) -> PhysicalOp {
    PhysicalOp::Erase { die: DieIndex(die), blocks: 1, between_programs: false }
}

/// A tenant that repeats the same operations on a die at queue depth `depth`.
struct Tenant {
    ops: Vec<PhysicalOp>,
    depth: usize,
    asked: usize,
}

impl Tenant {
    fn new(ops: Vec<PhysicalOp>, depth: usize) -> Self {
        Self { ops, depth, asked: 0 }
    }

    fn next(&mut self) -> PhysicalOp {
        self.asked += 1;
        self.ops[(self.asked - 1) % self.ops.len()]
    }
}

/// Runs tenants for `seconds`. Returns the dispatcher and the completed operations.
fn run(sharing: Sharing, tenants: &mut [Tenant], seconds: u64) -> (Dispatcher, Vec<Served>) {
    let mut dispatcher = Dispatcher::new(timing(), sharing).unwrap();
    for (at, tenant) in tenants.iter_mut().enumerate() {
        (0..tenant.depth).for_each(|_| dispatcher.submit(0, at, tenant.next(), 0));
    }
    let (mut all, mut served) = (Vec::new(), Vec::new());
    while let Some(now) = dispatcher.next_at().filter(|&now| now < seconds * SECOND) {
        dispatcher.run(now, &mut served);
        for done in served.drain(..) {
            assert_eq!(done.at, now);
            dispatcher.submit(now, done.tenant, tenants[done.tenant].next(), 0);
            all.push(done);
        }
    }
    (dispatcher, all)
}

fn count(served: &[Served], tenant: usize) -> u64 {
    served.iter().filter(|done| done.tenant == tenant).count() as u64
}

/// Whether `found` is within `percent` percent of `expected`.
fn near(found: u64, expected: u64, percent: u64) -> bool {
    found.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn weights_divide_the_time_of_a_die_while_all_want_more() {
    let fair = |a, b| Sharing::Fair { weights: vec![a, b] };
    for (weights, ops, depths) in [
        ((1, 3), (program(0), program(0)), (8, 8)),
        ((1, 3), (program(0), read(0)), (8, 64)),
        ((3, 1), (program(0), read(0)), (64, 64)),
        ((1, 3), (erase(0), program(0)), (16, 16)),
    ] {
        let mut tenants = [Tenant::new(vec![ops.0], depths.0), Tenant::new(vec![ops.1], depths.1)];
        let (dispatcher, _) = run(fair(weights.0, weights.1), &mut tenants, 20);
        let (a, b) = (dispatcher.charged_ns(0), dispatcher.charged_ns(1));
        let expected = (a + b) * u64::from(weights.0) / u64::from(weights.0 + weights.1);
        assert!(near(a, expected, 5), "{weights:?} {ops:?}: {a} and {b}");
    }
}

#[test]
fn one_alone_has_all() {
    let mut media = Media::new(timing()).unwrap();
    let (mut alone, mut now) = (0u64, 0);
    while now < 5 * SECOND {
        now = media.book(0, program(0));
        alone += 1;
    }
    let mut tenants = [Tenant::new(vec![program(0)], 4), Tenant::new(vec![read(1)], 0)];
    let (_, served) = run(Sharing::Fair { weights: vec![1, 9] }, &mut tenants, 5);
    assert!(count(&served, 0) * 100 >= alone * 95, "{} of {alone}", count(&served, 0));
    // The same holds if the other tenant uses another die.
    let mut tenants = [Tenant::new(vec![program(0)], 4), Tenant::new(vec![read(1)], 4)];
    let (_, served) = run(Sharing::Fair { weights: vec![1, 9] }, &mut tenants, 5);
    assert!(count(&served, 0) * 100 >= alone * 95, "{} of {alone}", count(&served, 0));
}

#[test]
fn erases_are_charged_to_their_owner() {
    // One tenant erases for every program, the other only programs.
    let mut tenants =
        [Tenant::new(vec![program(0), erase(0)], 16), Tenant::new(vec![program(0)], 16)];
    let (dispatcher, served) = run(Sharing::Fair { weights: vec![1, 1] }, &mut tenants, 20);
    let nand = timing().nand;
    let pair_ns = nand.program_ns + nand.erase_ns;
    assert!(near(dispatcher.charged_ns(0), dispatcher.charged_ns(1), 5));
    let (own, other) = (count(&served, 0) / 2, count(&served, 1));
    assert!(near(other * nand.program_ns, own * pair_ns, 10), "{own} pairs and {other} programs");
    // First come, first served: both complete the same number of requests, whatever they cost.
    tenants.iter_mut().for_each(|tenant| tenant.asked = 0);
    let (_, served) = run(Sharing::None { tenants: 2 }, &mut tenants, 20);
    assert!(near(count(&served, 0), count(&served, 1), 5));
}

#[test]
fn a_reader_next_to_a_writer_waits_less_when_shares_are_fair() {
    let p99 = |sharing| {
        let mut dispatcher = Dispatcher::new(timing(), sharing).unwrap();
        let mut writer = Tenant::new(vec![program(0)], 16);
        (0..16).for_each(|_| dispatcher.submit(0, 0, writer.next(), 0));
        let (mut took, mut served) = (Vec::new(), Vec::new());
        let mut next_read = 0;
        while took.len() < 2_000 {
            let now = dispatcher.next_at().unwrap().min(next_read);
            dispatcher.run(now, &mut served);
            for done in served.drain(..) {
                match done.tenant {
                    0 => dispatcher.submit(now, 0, writer.next(), 0),
                    _ => took.push(done.at - done.token),
                }
            }
            if now == next_read {
                dispatcher.submit(now, 1, read(0), now);
                next_read += 20_000_000;
            }
        }
        took.sort_unstable();
        took[took.len() * 99 / 100]
    };
    let program_ns = timing().nand.program_ns;
    let (fair, none) =
        (p99(Sharing::Fair { weights: vec![1, 1] }), p99(Sharing::None { tenants: 2 }));
    assert!(fair < 4 * program_ns, "behind what is booked: {fair}");
    assert!(none > 12 * program_ns, "behind the whole queue: {none}");
}

#[test]
fn a_limit_keeps_what_is_not_used() {
    // A read is 16 KiB.
    let bucket = |reads: u64| TokenBucket::lasting(reads * (16 << 10), Duration::from_millis(40));
    let limited = || Sharing::Limited { buckets: vec![bucket(100), bucket(300)] };
    let mut both = [Tenant::new(vec![read(0)], 16), Tenant::new(vec![read(0)], 16)];
    let (_, served) = run(limited(), &mut both, 10);
    assert!(near(count(&served, 0), 1_000, 2) && near(count(&served, 1), 3_000, 2));
    let mut one = [Tenant::new(vec![read(0)], 16), Tenant::new(vec![read(0)], 0)];
    let (_, served) = run(limited(), &mut one, 10);
    assert!(near(count(&served, 0), 1_000, 2), "alone, and no more than before");
}

#[test]
fn a_limit_counts_bytes_and_no_erases() {
    let bucket = || TokenBucket::lasting(100 * STRIPE_BYTES, Duration::from_millis(40));
    let limited = Sharing::Limited { buckets: vec![bucket(), bucket(), bucket()] };
    let mut tenants = [
        Tenant::new(vec![read(0)], 64),
        Tenant::new(vec![program(1)], 16),
        Tenant::new(vec![program(2), erase(2)], 16),
    ];
    let (_, served) = run(limited, &mut tenants, 10);
    assert!(near(count(&served, 1), 1_000, 2), "{}", count(&served, 1));
    assert!(near(count(&served, 0), 12_000, 2), "twelve reads a program: {}", count(&served, 0));
    assert!(near(count(&served, 2), 2_000, 2), "an erase a program: {}", count(&served, 2));
}

#[test]
fn what_one_tenant_asks_of_a_die_is_done_in_order() {
    let mut dispatcher =
        Dispatcher::new(timing(), Sharing::Fair { weights: vec![1, 2, 5] }).unwrap();
    let mut rng = fastrand::Rng::with_seed(3);
    for token in 0..3_000 {
        let die = rng.u32(..4);
        let op = [program(die), read(die), erase(die)][rng.usize(..3)];
        dispatcher.submit(0, rng.usize(..3), op, u64::from(die) << 32 | token);
    }
    let mut served = Vec::new();
    dispatcher.run(u64::MAX, &mut served);
    assert_eq!((served.len(), dispatcher.next_at()), (3_000, None));
    let mut last = std::collections::BTreeMap::new();
    for done in served {
        let before = last.insert((done.tenant, done.token >> 32), done.token);
        assert!(before.is_none_or(|before| before < done.token), "{done:?}");
    }
}

#[test]
fn weights_of_zero_and_no_tenants_are_refused() {
    let refused = |sharing| Dispatcher::new(timing(), sharing).unwrap_err();
    let error = refused(Sharing::Fair { weights: vec![1, 0] });
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("tenant 1 has weight 0"), "{error}");
    assert!(refused(Sharing::None { tenants: 0 }).to_string().contains("no tenants"));
}
