//! A cleaner, compared with a model of the dirty data.

use std::collections::BTreeSet;

use super::super::{AcpOptions, CleaningOptions};
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;
/// Sectors of a MiB.
const MIB_SECTORS: u64 = 2048;
/// 10 GiB.
const CAPACITY_SECTORS: u64 = 20 << 20;

/// A cleaner, and a model of the cache that it cleans: dirty lines of 4 KiB, by core and number.
struct Rig {
    cleaning: Cleaning,
    dirty: BTreeSet<(u16, u64)>,
    capacity_sectors: u64,
    idle: Duration,
    /// The pieces in flight, with the lines that were dirty when each was issued.
    under_way: Vec<(Span, Vec<(u16, u64)>)>,
}

impl Rig {
    fn new(policy: CleaningPolicy) -> Self {
        Self::with(CleaningOptions { policy, ..Default::default() })
    }

    fn with(options: CleaningOptions) -> Self {
        let cleaning = Cleaning::new(options, 4096).unwrap();
        let (dirty, idle) = (BTreeSet::new(), SECOND * 1000);
        Self { cleaning, dirty, capacity_sectors: CAPACITY_SECTORS, idle, under_way: Vec::new() }
    }

    fn write(&mut self, core: u16, line: u64, lines: u64, now: Duration) {
        self.dirty.extend((line..line + lines).map(|it| (core, it)));
        let sectors = u32::try_from(lines * 8).unwrap();
        self.cleaning
            .written(Span { core: CoreId::new(core).unwrap(), first: line * 8, sectors }, now);
    }

    /// The pieces issued at `now`, and the time of the next call.
    fn work(&mut self, now: Duration) -> (Vec<Span>, Option<Duration>) {
        let dirty_sectors = self.dirty.len() as u64 * 8;
        let facts = CleaningFacts {
            dirty_sectors,
            capacity_sectors: self.capacity_sectors,
            idle: self.idle,
        };
        let mut pieces = Vec::new();
        let next = self.cleaning.work(now, &facts, &mut pieces);
        for piece in &pieces {
            assert!(
                !self.under_way.iter().any(|(other, _)| other.overlaps(*piece)),
                "one at a time"
            );
            let core = piece.core.get();
            let lines =
                self.dirty.range((core, piece.first / 8)..(core, piece.end().div_ceil(8))).copied();
            self.under_way.push((*piece, lines.collect()));
        }
        (pieces, next)
    }

    fn end(&mut self, piece: Span, was_well: bool, now: Duration) -> u64 {
        let at = self.under_way.iter().position(|(other, _)| *other == piece).unwrap();
        let (_, lines) = self.under_way.swap_remove(at);
        if was_well {
            lines.iter().for_each(|line| _ = self.dirty.remove(line));
        }
        self.cleaning.destaged(piece, was_well, now);
        lines.len() as u64 * 4096
    }

    /// Completes all pieces until none is issued at `now`. Returns the bytes by piece, and the time of the next call.
    fn run(&mut self, now: Duration) -> (Vec<(Span, u64)>, Option<Duration>) {
        let mut all = Vec::new();
        loop {
            let (pieces, next) = self.work(now);
            if pieces.is_empty() {
                return (all, next);
            }
            all.extend(pieces.into_iter().map(|piece| (piece, self.end(piece, true, now))));
        }
    }

    /// Calls it whenever it asks to, until `end`. Returns the destaged bytes.
    fn run_until(&mut self, mut now: Duration, end: Duration) -> u64 {
        let mut bytes = 0;
        while now < end {
            let (pieces, next) = self.run(now);
            bytes += pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
            now = next.unwrap_or(end);
        }
        bytes
    }
}

fn alru() -> CleaningPolicy {
    CleaningPolicy::default()
}

fn acp() -> CleaningPolicy {
    CleaningPolicy::Acp(AcpOptions::default())
}

#[test]
fn alru_waits_for_staleness_and_for_idle_users() {
    let mut rig = Rig::new(alru());
    rig.write(0, 0, 256, SECOND);
    rig.write(0, 1 << 20, 256, SECOND * 60);
    assert_eq!(rig.run(SECOND * 60), (vec![], Some(SECOND * 80)), "nothing is stale");
    rig.idle = SECOND * 9;
    assert_eq!(rig.run(SECOND * 130), (vec![], Some(SECOND * 150)), "users are there");
    rig.idle = SECOND * 10;
    assert_eq!(rig.run(SECOND * 140), (vec![], Some(SECOND * 150)), "it looks every 20 s");
    let (pieces, next) = rig.run(SECOND * 150);
    assert_eq!(pieces.iter().map(|(_, bytes)| bytes).sum::<u64>(), MIB);
    assert!(
        pieces.iter().all(|(piece, bytes)| piece.end() <= MIB_SECTORS && *bytes <= 400 << 10),
        "{pieces:?}"
    );
    assert_eq!(next, Some(SECOND * 170));
    assert_eq!(rig.dirty.len(), 256, "what is younger stays");
    rig.write(0, 1 << 20, 1, SECOND * 170);
    assert_eq!(rig.run(SECOND * 190).0, [], "written again, it is young again");
}

#[test]
fn alru_stops_when_users_come() {
    let mut rig = Rig::new(alru());
    rig.write(0, 0, 1024, SECOND);
    let (pieces, _) = rig.work(SECOND * 200);
    assert!(!pieces.is_empty());
    rig.idle = Duration::ZERO;
    pieces.into_iter().for_each(|piece| _ = rig.end(piece, true, SECOND * 201));
    assert_eq!(rig.work(SECOND * 201), (vec![], Some(SECOND * 221)));
}

#[test]
fn alru_takes_the_oldest_first_over_all_cores() {
    let mut rig = Rig::new(alru());
    for (core, line, second) in [(1, 4096, 10), (0, 8192, 20), (0, 0, 30)] {
        rig.write(core, line, 1, SECOND * second);
    }
    let order: Vec<_> =
        rig.work(SECOND * 1000).0.iter().map(|it| (it.core.get(), it.first / 8)).collect();
    assert_eq!(order, [(1, 4096), (0, 8192), (0, 0)]);
}

#[test]
fn what_a_recovery_finds_is_stale_at_once() {
    let mut rig = Rig::new(alru());
    rig.write(0, 1 << 20, 8, SECOND);
    let span = Span { core: CoreId::new(3).unwrap(), first: 77, sectors: 1 };
    rig.cleaning.found_dirty(span);
    let piece = Span { first: 0, sectors: 78, ..span };
    assert_eq!(rig.run(SECOND * 20).0, [(piece, 0)], "up to its last sector");
}

#[test]
fn few_lines_of_many_chunks_go_out_side_by_side() {
    let mut rig = Rig::new(alru());
    (0..500).for_each(|chunk| rig.write(0, chunk * 1024, 1, SECOND));
    assert_eq!(rig.work(SECOND * 300).0.len(), 100, "lines under way");
}

#[test]
fn pieces_do_not_get_shorter_and_shorter_as_they_end() {
    let mut rig = Rig::new(acp());
    rig.write(0, 0, 4096, SECOND);
    let (mut now, mut ended) = (SECOND, 0);
    loop {
        rig.work(now);
        let pieces = rig.under_way.iter().map(|(piece, _)| *piece);
        let Some(shortest) = pieces.min_by_key(|piece| piece.sectors) else { break };
        rig.end(shortest, true, now);
        ended += 1;
        now += SECOND;
    }
    assert!(rig.dirty.is_empty());
    // 16 MiB in pieces of half of 128 lines, plus four ends of chunks.
    assert!(ended <= 64 + 4, "{ended} pieces");
}

#[test]
fn above_the_watermark_pieces_are_as_long_as_chunks() {
    let longest = |capacity_mib: u64| {
        let mut rig = Rig::new(acp());
        rig.capacity_sectors = capacity_mib * MIB_SECTORS;
        rig.write(0, 0, 4096, SECOND);
        rig.work(SECOND).0.iter().map(|piece| piece.sectors).max()
    };
    // 16 MiB are dirty.
    assert_eq!(longest(20), Some(4 * 2048), "as long as a chunk");
    assert_eq!(longest(100), Some(128 * 8), "as many lines as ACP has under way");
}

#[test]
fn acp_goes_through_the_dirtiest_region_in_order() {
    let mut rig = Rig::new(acp());
    // A MiB in the first region; 100 MiB in the third one, written backwards.
    rig.write(0, 0, 256, SECOND);
    (0..100).rev().for_each(|it| rig.write(0, (200 + it) * 256, 256, SECOND));
    let mut now = SECOND;
    let mut pieces = Vec::new();
    while !rig.dirty.is_empty() {
        let (some, next) = rig.work(now);
        let bytes: u64 = some.iter().map(|&piece| rig.end(piece, true, now)).sum();
        assert!(bytes <= 512 << 10, "{bytes} in one turn");
        pieces.extend(some);
        assert_eq!(rig.work(now).0, [], "one turn a wake-up");
        now = next.unwrap_or(now) + Duration::from_millis(10);
        assert!(now < SECOND * 60, "it goes on");
    }
    let mut starts: Vec<u64> = pieces.iter().map(|it| it.first / MIB_SECTORS).collect();
    starts.dedup();
    assert_eq!(starts, (200..300).chain([0]).collect::<Vec<_>>());
}

#[test]
fn acp_does_not_stay_where_users_write_again_and_again() {
    let mut rig = Rig::new(acp());
    rig.write(0, 0, 1024, SECOND);
    let mut now = SECOND;
    for _ in 0..40 {
        rig.run(now);
        rig.write(0, 0, 128, now);
        now += Duration::from_millis(10);
    }
    assert!(rig.dirty.iter().all(|(_, line)| *line < 128), "{:?}", rig.dirty);
}

#[test]
fn a_core_that_failed_rests_and_others_do_not() {
    for policy in [alru(), acp()] {
        let mut rig = Rig::new(policy);
        rig.write(0, 0, 16, SECOND);
        let now = SECOND * 200;
        let (pieces, _) = rig.work(now);
        rig.end(pieces[0], false, now);
        rig.dirty.extend((0..16).map(|line| (1, line)));
        rig.cleaning.found_dirty(Span { core: CoreId::new(1).unwrap(), first: 0, sectors: 128 });
        let (next, again) = rig.work(now + SECOND * 4);
        assert!(
            next.iter().all(|piece| piece.core.get() == 1) && next.len() == 1,
            "{policy:?} {next:?}"
        );
        rig.end(next[0], true, now + SECOND * 4);
        assert!(again.is_none_or(|at| at <= now + SECOND * 5), "{again:?}");
        let again = rig.work(now + SECOND * 4).1.unwrap();
        assert!(again <= now + SECOND * 5, "{again:?}");
        assert_eq!(rig.run(now + SECOND * 26).0.len(), 1, "and then it is tried again");
    }
}

#[test]
fn what_is_written_while_it_goes_out_stays_dirty() {
    let mut rig = Rig::new(acp());
    rig.write(0, 0, 16, SECOND);
    let (pieces, _) = rig.work(SECOND);
    rig.write(0, 3, 1, SECOND);
    assert_eq!(rig.work(SECOND * 2).0, [], "not twice at a time");
    rig.end(pieces[0], true, SECOND * 2);
    assert_eq!(rig.work(SECOND * 3).0, pieces, "but after it");
}

#[test]
fn above_the_watermark_it_cleans_whatever_the_policy_says() {
    for policy in [CleaningPolicy::Nop, alru(), acp()] {
        let mut rig = Rig::with(CleaningOptions {
            policy,
            dirty_high_percent: 2,
            dirty_low_percent: 1,
            ..Default::default()
        });
        rig.idle = Duration::ZERO;
        let lines = CAPACITY_SECTORS / 8;
        rig.write(0, 0, lines / 50 + 1, SECOND);
        let (pieces, next) = rig.run(SECOND);
        let left = rig.dirty.len() as u64;
        assert!(
            (lines / 100 - 1024..=lines / 100).contains(&left),
            "{policy:?}: {left} of {lines}"
        );
        assert!(!pieces.is_empty());
        if policy != acp() {
            assert_eq!(rig.run(SECOND * 500).0, [], "until it is below");
        }
        assert_eq!(next.is_none(), policy == CleaningPolicy::Nop, "{next:?}");
    }
}

#[test]
fn the_limit_holds_under_each_policy_and_is_used() {
    for policy in [CleaningPolicy::Nop, alru(), acp()] {
        // Adjacent lines, and isolated lines that were written often, whose bytes are overestimated.
        for (lines, writes) in [(2500, 1), (1, 30)] {
            let bytes_per_second = MIB;
            let options = CleaningOptions {
                policy,
                bytes_per_second,
                dirty_high_percent: 1,
                dirty_low_percent: 0,
            };
            let mut rig = Rig::with(options);
            rig.capacity_sectors = 100 * MIB_SECTORS;
            for _ in 0..writes {
                (0..5000 / lines).for_each(|it| rig.write(0, it * lines.max(1024), lines, SECOND));
            }
            let bytes = rig.run_until(SECOND * 1000, SECOND * 1010);
            assert!(
                (9 * MIB..=11 * MIB).contains(&bytes),
                "{policy:?}, {lines} lines: {} MiB",
                bytes / MIB
            );
        }
    }
}

#[test]
fn a_clock_that_is_set_does_no_harm() {
    for policy in [alru(), acp()] {
        let mut rig = Rig::new(policy);
        let mut now = SECOND * 1_000_000;
        rig.write(0, 0, 16, now);
        rig.work(now);
        for step in [SECOND * 2_000_000, Duration::MAX, Duration::ZERO, SECOND] {
            now = step;
            let next = rig.work(now).1;
            assert!(
                next.is_none_or(|next| next >= now && next <= now.saturating_add(SECOND * 20)),
                "{next:?}"
            );
            rig.write(0, 1 << 20, 16, now);
        }
        // It continues as if the clock had never been set.
        for piece in rig.under_way.iter().map(|(piece, _)| *piece).collect::<Vec<_>>() {
            rig.end(piece, true, now);
        }
        rig.run_until(now, now + SECOND * 161);
        assert!(rig.dirty.is_empty(), "{policy:?}");
    }
}

#[test]
fn policies_change_while_pieces_are_under_way() {
    let mut rig = Rig::new(acp());
    rig.write(0, 0, 4096, SECOND);
    let (pieces, _) = rig.work(SECOND);
    rig.cleaning.set(CleaningOptions { policy: alru(), ..Default::default() }).unwrap();
    pieces.into_iter().for_each(|piece| _ = rig.end(piece, false, SECOND));
    rig.run_until(SECOND, SECOND * 200);
    assert!(rig.dirty.is_empty());
    rig.write(0, 0, 1, SECOND * 200);
    let wrong = CleaningOptions { dirty_high_percent: 0, ..Default::default() };
    rig.cleaning.set(wrong).unwrap_err();
    rig.cleaning.set(CleaningOptions { policy: acp(), ..Default::default() }).unwrap();
    assert_eq!(rig.run(SECOND * 200).0.len(), 1);
}

#[test]
fn a_core_that_was_detached_is_forgotten() {
    let mut rig = Rig::new(acp());
    rig.write(0, 0, 16, SECOND);
    rig.write(1, 0, 16, SECOND);
    let (pieces, _) = rig.work(SECOND);
    assert_eq!(pieces.len(), 2);
    rig.cleaning.forget(CoreId::new(0).unwrap());
    rig.cleaning.destaged(pieces[0], false, SECOND);
    rig.cleaning.destaged(pieces[1], true, SECOND);
    assert_eq!((rig.work(SECOND * 10).0, rig.cleaning.bytes_under_way), (vec![], 0));
}
