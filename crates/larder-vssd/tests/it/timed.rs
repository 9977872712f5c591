//! An array under a clock: queue depths, which operations wait for which, and swaps in parallel with tenants.

use std::collections::BTreeMap;
use std::time::Duration;

use larder_ssd::ErrorKind;
use larder_ssd::nand::ChannelIndex;
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::timed::{DieService, DriveTiming, NandTiming, open_channel};
use larder_vssd::levelling::PaceLimits;
use larder_vssd::timed::{Completed, Pace, QUEUE_DEPTH, SharePolicy, TimedVssds};
use larder_vssd::{
    Isolation, LoanTotals, LogicalBlock, MemoryImages, Pages, Request, VssdId, Vssds, channel_pairs,
};

use super::rig::{IDENTITY, RATES};

const MS: u64 = 1_000_000;

/// 4 channels of 2 dies of blocks of 16 stripes of 4 pages.
fn timing() -> DriveTiming {
    let nand = NandTiming { planes: 1, block_stripes: 16, ..open_channel().nand };
    DriveTiming { channels: 4, dies_per_channel: 2, nand, ..open_channel() }
}

const STRIPE: u64 = 4;

struct Rig {
    timed: TimedVssds<MemoryImages>,
    vssds: Vec<VssdId>,
    /// The expected words of each block.
    words: BTreeMap<LogicalBlock, Vec<u64>>,
    blocks: Vec<Vec<LogicalBlock>>,
    /// The next submissions: time and tenant.
    due: Vec<(u64, usize)>,
    rng: fastrand::Rng,
}

impl Rig {
    /// vSSDs on a channel each, with `blocks` written blocks each.
    fn new(vssds: u32, blocks: usize, policy: &SharePolicy) -> Self {
        let timing = timing();
        let config = RawConfig { page_words: true, ..RawConfig::new(timing.geometry(24).unwrap()) };
        let drives = vec![RawSsd::new(config).unwrap()];
        let mut array = Vssds::create(drives, MemoryImages::default(), IDENTITY, RATES).unwrap();
        let request = Request { isolation: Isolation::Channel, mb_s: 0, bytes: 1 };
        let vssds: Vec<_> = (0..vssds).map(|_| array.alloc(request).unwrap()).collect();
        let mut rig = Self {
            timed: TimedVssds::new(array, &timing, policy).unwrap(),
            words: BTreeMap::new(),
            blocks: Vec::new(),
            due: (0..vssds.len()).flat_map(|tenant| [(0, tenant); 4]).collect(),
            rng: fastrand::Rng::with_seed(3),
            vssds,
        };
        for vssd in rig.vssds.clone() {
            let written = (0..blocks).map(|_| rig.written(vssd)).collect();
            rig.blocks.push(written);
        }
        // Start over with a new clock, so that the writes so far took no time.
        let array = rig.timed.into_array();
        rig.timed = TimedVssds::new(array, &timing, policy).unwrap();
        rig
    }

    fn written(&mut self, vssd: VssdId) -> LogicalBlock {
        let array = self.timed.array_mut();
        let block = array.alloc_block(vssd, 0).unwrap();
        let pages = array.info(vssd).unwrap().block_pages;
        let words: Vec<u64> = (0..pages).map(|_| self.rng.u64(1..)).collect();
        array.append(vssd, block, 0, Pages::Words(&words)).unwrap();
        self.words.insert(block, words);
        block
    }

    /// Each vSSD reads with queue depth 4 until `until`. Returns the completed requests.
    fn read(&mut self, until: u64) -> Vec<Completed> {
        let (mut all, mut done) = (Vec::new(), Vec::new());
        loop {
            self.due.sort_unstable_by(|a, b| b.cmp(a));
            let submit = self.due.last().map_or(u64::MAX, |&(at, _)| at);
            let next = submit.min(self.timed.next_at().unwrap_or(u64::MAX));
            if next >= until {
                return all;
            }
            self.timed.run(next, &mut done).unwrap();
            for one in done.drain(..) {
                let tenant = self.vssds.iter().position(|&vssd| vssd == one.vssd).unwrap();
                self.due.push((one.at.max(next), tenant));
                all.push(one);
            }
            while let Some((at, tenant)) = self.due.pop_if(|&mut (at, _)| at <= next) {
                let block = self.blocks[tenant][self.rng.usize(..self.blocks[tenant].len())];
                // Many lengths, so that there is no step at the percentile.
                let (pages, token) = (self.rng.u64(1..=24), block.number());
                let page = self.rng.u64(..16 * STRIPE - pages);
                self.timed.read(at, self.vssds[tenant], block, page, pages, token).unwrap();
            }
        }
    }

    /// Checks that each word of each block is the written one.
    fn check(&self) {
        for (&block, words) in &self.words {
            for (page, &word) in (0..).zip(words) {
                let array = self.timed.array();
                assert_eq!(array.word(block.vssd(), block, page).unwrap(), Some(word));
            }
        }
        self.timed.array().audit().unwrap();
    }
}

fn p99(done: &[Completed], vssd: VssdId) -> u64 {
    let mut times: Vec<_> =
        done.iter().filter(|one| one.vssd == vssd).map(|one| one.at - one.submitted).collect();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn a_swap_takes_no_time_from_other_tenants() {
    for (policy, seed) in [(SharePolicy::None, 1), (SharePolicy::Fair, 2)] {
        let mut rig = Rig::new(4, 6, &policy);
        rig.rng.seed(seed);
        let before = rig.read(400 * MS);
        let array = timing().array();
        let pairs = channel_pairs(array, ChannelIndex(0), ChannelIndex(1), None).unwrap();
        let pace = Pace { bytes_per_s: 8_000_000, p99_ns: None };
        rig.timed.swap_begin(400 * MS, 0, &pairs, pace).unwrap();
        assert!(rig.timed.is_swapping());
        // 2 vSSDs of 6 blocks of 2 MiB, 8 MB/s.
        let bytes = 2 * 6 * (2 << 18);
        let during = rig.read(400 * MS + bytes * 125 * 9 / 10);
        assert!(rig.timed.is_swapping(), "{:?}", rig.timed.swap_progress());
        rig.read(1_300 * MS);
        let after = rig.read(2_300 * MS);
        let progress = rig.timed.swap_progress();
        assert_eq!((progress.swaps, progress.bytes), (1, bytes), "{policy:?}");
        let took_ms = progress.ended_at / MS - 400;
        let expected_ms = bytes / 8_000;
        assert!(took_ms.abs_diff(expected_ms) * 10 <= expected_ms, "{took_ms} {expected_ms}");
        for &vssd in &rig.vssds {
            let (then, now) = (p99(&before, vssd), p99(&during, vssd));
            let dies = rig.timed.array().info(vssd).unwrap().dies;
            let moved = |&(_, die)| pairs.iter().any(|&(a, b)| die == a || die == b);
            let uninvolved = !dies.iter().any(moved);
            assert_eq!(now.abs_diff(then) * 20 <= then, uninvolved, "{vssd:?} {then} {now}");
            let after = p99(&after, vssd);
            assert!(after.abs_diff(then) * 10 <= then, "{vssd:?} {then} {after}");
        }
        rig.check();
    }
}

#[test]
fn only_the_block_that_moves_waits_for_it() {
    let mut rig = Rig::new(2, 3, &SharePolicy::Fair);
    let pairs = channel_pairs(timing().array(), ChannelIndex(0), ChannelIndex(1), None).unwrap();
    let pace = Pace { bytes_per_s: 1_000_000, p99_ns: None };
    rig.timed.swap_begin(0, 0, &pairs, pace).unwrap();
    // A part of 256 KiB takes a quarter of a second: a read that arrives during it either completes soon or waits.
    let done = rig.read(200 * MS);
    let slow = rig.read(2_000 * MS);
    let held =
        |done: &[Completed]| done.iter().filter(|one| one.at - one.submitted > 50 * MS).count();
    assert_eq!(held(&done), 0, "those that wait are not done yet");
    assert!((1..=40).contains(&held(&slow)), "{}", held(&slow));
    let quick = slow.iter().filter(|one| one.at - one.submitted < 5 * MS).count();
    assert!(quick > 100, "{quick}");
    rig.check();
}

#[test]
fn a_swap_rests_for_tenants_that_suffer_and_ends_all_the_same() {
    let worst = |p99_ns| {
        let mut rig = Rig::new(2, 4, &SharePolicy::None);
        let pairs = channel_pairs(timing().array(), ChannelIndex(0), ChannelIndex(1), None);
        let pace = Pace { bytes_per_s: 1 << 40, p99_ns };
        rig.timed.swap_begin(0, 0, &pairs.unwrap(), pace).unwrap();
        let mut at = 0;
        let mut done = Vec::new();
        while rig.timed.is_swapping() {
            done.extend(rig.read(at + 50 * MS));
            at += 50 * MS;
            assert!(at < 20_000 * MS, "it ends");
        }
        rig.check();
        let slow = done.iter().filter(|one| one.at - one.submitted > 2 * MS).count();
        (rig.timed.swap_progress(), slow * 1000 / done.len())
    };
    let (hurried, slow) = worst(None);
    let (rested, slow_with_rests) = worst(Some(2 * MS));
    assert_eq!((hurried.pauses, hurried.bytes), (0, rested.bytes));
    assert!(rested.pauses > 2 && rested.ended_at > hurried.ended_at, "{rested:?} {hurried:?}");
    assert!(slow_with_rests * 3 < slow * 2, "{slow_with_rests} of 1000 slow, {slow} without rests");
}

#[test]
fn a_die_takes_operations_of_a_tenant_up_to_the_queue_depth() {
    let mut rig = Rig::new(2, 1, &SharePolicy::Fair);
    let (vssd, block) = (rig.vssds[0], rig.blocks[0][0]);
    let mut taken = 0;
    let refused = loop {
        match rig.timed.read(0, vssd, block, 0, 1, taken) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((taken, refused.kind()), (u64::from(QUEUE_DEPTH), ErrorKind::InUse), "{refused}");
    rig.timed.read(0, rig.vssds[1], rig.blocks[1][0], 0, 1, 0).unwrap();
    let mut done = Vec::new();
    let next = rig.timed.next_at().unwrap();
    rig.timed.run(next, &mut done).unwrap();
    rig.timed.read(next, vssd, block, 0, 1, taken).unwrap();
    rig.timed.run(1_000 * MS, &mut done).unwrap();
    let tokens: Vec<_> = done.iter().filter(|one| one.vssd == vssd).map(|one| one.token).collect();
    assert_eq!(tokens, (0..=taken).collect::<Vec<_>>(), "one after the other");
    assert!(rig.timed.next_at().is_none());
}

#[test]
fn what_cannot_be_is_refused() {
    let mut rig = Rig::new(2, 1, &SharePolicy::Fair);
    let (vssd, block) = (rig.vssds[0], rig.blocks[0][0]);
    let kind = |done: Result<(), larder_ssd::Error>| done.unwrap_err().kind();
    assert_eq!(kind(rig.timed.read(0, rig.vssds[1], block, 0, 1, 0)), ErrorKind::NotOwned);
    assert_eq!(kind(rig.timed.read(0, VssdId(9), block, 0, 1, 0)), ErrorKind::NotOwned);
    assert_eq!(kind(rig.timed.read(0, vssd, block, 0, 0, 0)), ErrorKind::OutOfRange);
    assert_eq!(
        kind(rig.timed.append(0, vssd, block, 0, Pages::Count(4), 0)),
        ErrorKind::OutOfOrder
    );
    let pairs = channel_pairs(timing().array(), ChannelIndex(0), ChannelIndex(1), None).unwrap();
    let pace = Pace { bytes_per_s: 0, p99_ns: None };
    assert_eq!(kind(rig.timed.swap_begin(0, 0, &pairs, pace)), ErrorKind::Config);
    assert!(rig.timed.next_at().is_none(), "nothing was booked");
    let other = DriveTiming { channels: 2, service: DieService::ReadsFirst, ..timing() };
    let array = rig.timed.into_array();
    let refused = TimedVssds::new(array, &other, &SharePolicy::None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
}

/// A swap in service beside readers: nothing waits for a part, all data arrives, and old copies are erased at most
/// once a second on a die that is never idle.
#[test]
fn a_swap_in_service_holds_nothing_up() {
    let mut rig = Rig::new(4, 6, &SharePolicy::None);
    let before = rig.read(4_000 * MS);
    let pairs = channel_pairs(timing().array(), ChannelIndex(0), ChannelIndex(1), None).unwrap();
    rig.timed.swap_begin_gently(4_000 * MS, 0, &pairs, PaceLimits::default()).unwrap();
    let (mut during, mut at) = (Vec::new(), 4_000 * MS);
    while rig.timed.is_swapping() {
        at += 100 * MS;
        during.extend(rig.read(at));
        assert!(at < 60_000 * MS, "it ends: {:?}", rig.timed.swap_progress());
    }
    let progress = rig.timed.swap_progress();
    assert_eq!((progress.swaps, progress.bytes), (1, 2 * 6 * (2 << 18)));
    for &vssd in &rig.vssds {
        let (then, now) = (p99(&before, vssd), p99(&during, vssd));
        println!("{vssd:?}: p99 of {now} ns beside the swap, {then} before");
        assert!(now * 2 <= then * 3, "{vssd:?} {then} {now}");
        let dies = rig.timed.array().info(vssd).unwrap().dies;
        if !dies.iter().any(|&(_, die)| pairs.iter().any(|&(a, b)| die == a || die == b)) {
            assert!(now.abs_diff(then) * 20 <= then, "{vssd:?} does not move: {then} {now}");
        }
    }
    let slowest = during.iter().map(|one| one.at - one.submitted).max().unwrap();
    assert!(slowest < 20 * MS, "{slowest}");
    rig.check();
    let limits = PaceLimits::around(0);
    let refused = rig.timed.swap_begin_gently(at, 0, &pairs, limits).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
}

/// A tenant frees all that it has while a part of it is copied: nothing more of it is.
#[test]
fn a_swap_in_service_does_not_copy_what_was_freed() {
    let mut rig = Rig::new(1, 4, &SharePolicy::None);
    let pairs = channel_pairs(timing().array(), ChannelIndex(0), ChannelIndex(1), None).unwrap();
    rig.timed.swap_begin_gently(0, 0, &pairs, PaceLimits::around(100_000)).unwrap();
    let mut done = Vec::new();
    // A part of 256 KiB takes more than half a second.
    rig.timed.run(60 * MS, &mut done).unwrap();
    assert_eq!((rig.timed.swap_progress().bytes, rig.timed.is_swapping()), (0, true));
    for block in std::mem::take(&mut rig.blocks[0]) {
        rig.timed.free(60 * MS, rig.vssds[0], block).unwrap();
    }
    rig.timed.run(150 * MS, &mut done).unwrap();
    let progress = rig.timed.swap_progress();
    assert!(progress.swaps == 1 && progress.bytes < 100 << 10, "{progress:?}");
}

/// A borrower that writes a lot to blocks of an idle lender.
fn borrowing(owners_first: bool) -> (Rig, LogicalBlock) {
    let mut rig = Rig::new(2, 2, &SharePolicy::None);
    let (borrower, lender) = (rig.vssds[0], rig.vssds[1]);
    rig.timed.put_owners_first(owners_first);
    rig.timed.array_mut().set_lends(lender, true).unwrap();
    let block = rig.timed.alloc_lent(0, borrower, 0).unwrap().unwrap();
    for at in 0..8 {
        rig.timed.append(0, borrower, block, at * STRIPE, Pages::Count(STRIPE as u32), at).unwrap();
    }
    (rig, block)
}

/// The lender wakes up in the middle of writes to its dies: it waits for one of them at most. Without its priority, it
/// waits for all.
#[test]
fn a_lender_waits_for_one_operation_of_a_borrower() {
    let slowest = |owners_first| {
        let (mut rig, _) = borrowing(owners_first);
        let (lender, own) = (rig.vssds[1], rig.blocks[1][0]);
        let mut done = Vec::new();
        rig.timed.run(MS / 10, &mut done).unwrap();
        for page in 0..4 {
            rig.timed.read(MS / 10, lender, own, page * STRIPE, 1, 100 + page).unwrap();
        }
        rig.timed.run(1_000 * MS, &mut done).unwrap();
        let all = done.iter().filter(|one| one.vssd != lender).count();
        assert_eq!(all, 8, "the writes are done in the end");
        let of_lender = done.iter().filter(|one| one.vssd == lender);
        of_lender.map(|one| one.at - one.submitted).max().unwrap()
    };
    let nand = timing().nand;
    let (first, mixed) = (slowest(true), slowest(false));
    let one = nand.program_ns + nand.read_ns + MS / 5;
    assert!(first <= one, "{first} of {one}");
    assert!(mixed > 2 * nand.program_ns, "{mixed}");
}

/// A loan that ends in the middle of writes: those that have not begun end at once, and take no time of the dies.
#[test]
fn what_has_vanished_is_not_programmed() {
    let (mut rig, block) = borrowing(true);
    let (borrower, lender) = (rig.vssds[0], rig.vssds[1]);
    let mut done = Vec::new();
    rig.timed.run(MS / 10, &mut done).unwrap();
    rig.timed.array_mut().set_lends(lender, false).unwrap();
    rig.timed.run(MS, &mut done).unwrap();
    let by_then = timing().nand.program_ns + MS / 5;
    let ended = done.iter().filter(|one| one.vssd == borrower && one.at <= by_then);
    assert_eq!(ended.count(), 8, "{done:?}");
    rig.timed.run(1_000 * MS, &mut done).unwrap();
    assert!(rig.timed.array().returned_blocks().is_empty() && rig.timed.next_at().is_none());
    let read = rig.timed.read(1_000 * MS, borrower, block, 0, 1, 0).unwrap_err();
    assert_eq!(read.kind(), ErrorKind::NotOwned);
}

#[test]
fn nothing_is_appended_to_a_lent_block_while_its_lender_works() {
    let (mut rig, block) = borrowing(true);
    let (borrower, lender, own) = (rig.vssds[0], rig.vssds[1], rig.blocks[1][0]);
    let mut done = Vec::new();
    rig.timed.run(100 * MS, &mut done).unwrap();
    assert_eq!(done.len(), 8);
    rig.timed.read(100 * MS, lender, own, 0, 16 * STRIPE, 0).unwrap();
    let mut append = |rig: &mut Rig, at, stripe| {
        rig.timed.run(at, &mut done).unwrap();
        let pages = Pages::Count(STRIPE as u32);
        rig.timed
            .append(at, borrower, block, stripe * STRIPE, pages, 0)
            .map_err(|error| error.kind())
    };
    assert_eq!(append(&mut rig, 110 * MS, 8), Err(ErrorKind::InUse));
    assert_eq!(rig.timed.alloc_lent(110 * MS, borrower, 0).unwrap(), None);
    assert_eq!(append(&mut rig, 190 * MS, 8), Err(ErrorKind::InUse), "it may come back");
    assert_eq!(append(&mut rig, 250 * MS, 8), Ok(()));
    rig.timed.run(300 * MS, &mut done).unwrap();
    rig.timed.read(300 * MS, borrower, block, 0, 9 * STRIPE, 0).unwrap();
    rig.timed.free(300 * MS, borrower, block).unwrap();
    assert!(!rig.timed.array().returned_blocks().is_empty(), "erased when the dies are idle");
    rig.timed.run(1_000 * MS, &mut done).unwrap();
    let array = rig.timed.array();
    assert!(array.returned_blocks().is_empty() && rig.timed.next_at().is_none());
    assert_eq!(array.loan_totals(borrower).erases, array.lent_erases(0).iter().sum::<u64>());
    assert!(array.loan_totals(borrower).erases > 0);
    rig.check();
}

/// p99 of the lender's reads, appends of the borrower that were done, and what was lent.
fn in_bursts(lends: bool, owners_first: bool) -> (u64, u64, LoanTotals) {
    let mut rig = Rig::new(2, 6, &SharePolicy::None);
    let (borrower, lender) = (rig.vssds[0], rig.vssds[1]);
    rig.timed.put_owners_first(owners_first);
    rig.timed.array_mut().set_lends(lender, lends).unwrap();
    let (mut done, mut latencies, mut written) = (Vec::new(), Vec::new(), 0_u64);
    let (mut open, mut full): (Option<(LogicalBlock, u64)>, Vec<LogicalBlock>) = (None, Vec::new());
    let pages = Pages::Count(2 * STRIPE as u32);
    for tick in 20_000..60_000_u64 {
        let now = tick * MS / 10;
        rig.timed.run(now, &mut done).unwrap();
        latencies
            .extend(done.iter().filter(|one| one.vssd == lender).map(|one| one.at - one.submitted));
        written += done.iter().filter(|one| one.vssd == borrower && one.token == 1).count() as u64;
        done.clear();
        if tick % 10_000 < 2_000 && tick % 4 == 0 {
            let block = rig.blocks[1][rig.rng.usize(..6)];
            let page = rig.rng.u64(..15) * STRIPE;
            rig.timed.read(now, lender, block, page, 1, 0).unwrap();
        }
        if tick % 5 != 0 {
            continue;
        }
        if let Some(&block) = full.first() {
            match rig.timed.read(now, borrower, block, rig.rng.u64(..30) * STRIPE, 1, 2) {
                Ok(()) => {}
                Err(_) => drop(full.remove(0)),
            }
        }
        if open.is_none() {
            open = rig.timed.alloc_lent(now, borrower, 0).unwrap().map(|block| (block, 0));
        }
        let Some((block, at)) = open else {
            if let Some(block) = full.first().copied()
                && rig.timed.may_append(now, block)
            {
                full.remove(0);
                rig.timed.free(now, borrower, block).unwrap();
            }
            continue;
        };
        match rig.timed.append(now, borrower, block, at, pages, 1) {
            Ok(()) if at + 2 * STRIPE < 32 * STRIPE => open = Some((block, at + 2 * STRIPE)),
            Ok(()) => {
                open = None;
                full.push(block);
            }
            Err(error) if error.kind() == ErrorKind::InUse => {}
            Err(_) => open = None,
        }
    }
    rig.timed.run(20_000 * MS, &mut done).unwrap();
    assert!(rig.timed.next_at().is_none(), "all is done");
    rig.timed.array().audit().unwrap();
    latencies.sort_unstable();
    (latencies[latencies.len() * 99 / 100], written, rig.timed.array().loan_totals(borrower))
}

/// A borrower that writes, frees and reads lent blocks all the time, beside a lender that reads and writes in bursts:
/// time goes on, all requests end, the lender waits for few of the borrower's operations, and the dies do more.
#[test]
fn a_lender_in_bursts_hardly_notices_and_its_dies_are_used() {
    let (alone, none, _) = in_bursts(false, true);
    let (first, written, totals) = in_bursts(true, true);
    let (mixed, ..) = in_bursts(true, false);
    println!(
        "p99 {alone} alone, {first} beside loans, {mixed} without priority; {written}, {totals:?}"
    );
    assert!(none == 0 && written > 300, "{written}");
    assert!(totals.begun > 20 && totals.erases > 30, "{totals:?}");
    assert!(first * 10 <= alone * 11, "{alone} {first}");
    assert!(mixed * 10 > first * 15, "{first} {mixed}");
}

/// Two that write without a pause, with soft planes of all dies: each gets its part of the rate, and a third that is
/// idle leaves its part unused.
#[test]
fn limits_are_divided_by_weight() {
    let config = RawConfig::new(timing().geometry(24).unwrap());
    let drives = vec![RawSsd::new(config).unwrap()];
    let mut array = Vssds::create(drives, MemoryImages::default(), IDENTITY, RATES).unwrap();
    let vssds = [1, 3, 4].map(|weight| {
        let isolation = Isolation::Software { weight };
        array.alloc(Request { isolation, mb_s: 8 * RATES.soft_plane_mb_s, bytes: 1 }).unwrap()
    });
    let policy = SharePolicy::Limited { bytes_per_s: 32 << 20, burst: Duration::from_millis(10) };
    let mut timed = TimedVssds::new(array, &timing(), &policy).unwrap();
    let (mut places, mut bytes) = (BTreeMap::new(), [0_u64; 2]);
    let mut done: Vec<Completed> = Vec::new();
    let mut due: Vec<(u64, usize)> = (0..2).flat_map(|tenant| [(0, tenant); 8]).collect();
    while let Some(now) = due.iter().map(|it| it.0).chain(timed.next_at()).min() {
        if now >= 4_000 * MS {
            break;
        }
        timed.run(now, &mut done).unwrap();
        for one in done.drain(..) {
            let tenant = usize::from(one.vssd == vssds[1]);
            bytes[tenant] += STRIPE * 4096;
            due.push((one.at.max(now), tenant));
        }
        let begin: Vec<_> = due.extract_if(.., |it| it.0 <= now).collect();
        for (_, tenant) in begin {
            let vssd = vssds[tenant];
            let pages = timed.array().info(vssd).unwrap().block_pages;
            let (block, at) = places
                .remove(&tenant)
                .unwrap_or_else(|| (timed.array_mut().alloc_block(vssd, 0).unwrap(), 0));
            let count = Pages::Count(u32::try_from(STRIPE).unwrap());
            timed.append(now, vssd, block, at, count, 0).unwrap();
            match at + STRIPE < pages {
                true => drop(places.insert(tenant, (block, at + STRIPE))),
                false => timed.free(now, vssd, block).unwrap(),
            }
        }
    }
    // 4 and 12 of 32 MiB/s.
    for (bytes, mib) in bytes.into_iter().zip([4 << 20, 12 << 20]) {
        let expected = 4 * mib;
        assert!(bytes.abs_diff(expected) * 50 < expected, "{bytes} for {expected}");
    }
}
