//! Layouts lose power at random points of random loads, with any non-durable sectors lost. They must have all
//! acknowledged data, and nothing that was never written. `LARDER_CRASH_POINTS`: number of power losses, 45 if unset.

use std::collections::HashMap;

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::layout::{CoreId, Data, Ending, LayoutRequest, RequestId, Span};

use super::rig::{CORE_SECTORS, CORES, LONGEST_SECTORS, core, span_by_chance};
use super::seeds::each_seed;
use super::shadow::{Kind, Shadow, ShadowRequest};
use super::subject::{Log, Ocf, Subject};

struct World<S> {
    rng: Rng,
    subject: S,
    shadow: Shadow,
    /// Whether devices fail now and then.
    fails: bool,
}

impl<S: Subject> World<S> {
    fn new(seed: u64, fails: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let subject = S::draw(&mut rng);
        Self { rng, subject, shadow: Shadow::default(), fails }
    }

    fn recover(&mut self, cache: Image, cores: HashMap<CoreId, Image>) -> Accounting<S::Layout> {
        let layout = self.subject.recover(&mut self.rng, &cache);
        Accounting::new(layout, cache).with_cores(cores).tearing_between(self.subject.whole_bytes())
    }

    /// Runs a load until power is lost.
    fn live(&mut self, mut run: Accounting<S::Layout>) -> (Image, HashMap<CoreId, Image>) {
        let mut under_way: Vec<(RequestId, ShadowRequest)> = Vec::new();
        let mut stream = 0;
        run.fail_one_in(if self.fails { 50 } else { 0 }, self.rng.u64(..));
        let depth = self.rng.choice([1, 4, 16]).unwrap();
        for _ in 0..self.rng.usize(10..400) {
            while under_way.len() < depth && self.rng.u8(..8) > 0 {
                let (mut span, kind) = (
                    span_by_chance(&mut self.rng, self.subject.block_bytes()),
                    self.rng.choice(KINDS).unwrap(),
                );
                if self.rng.u8(..4) == 0 {
                    (span.first, span.core) = (stream, core(0));
                    stream = (span.end()) % (CORE_SECTORS - LONGEST_SECTORS);
                }
                let overlap = |other: &ShadowRequest| {
                    other.span.overlaps(span)
                        && !matches!(kind, Kind::Destage | Kind::Settle)
                        && !matches!(other.kind, Kind::Destage | Kind::Settle)
                };
                if under_way.iter().any(|(_, other)| overlap(other)) {
                    continue;
                }
                if matches!(kind, Kind::Destage | Kind::Settle) {
                    (span.first, span.sectors) = (span.first / 512 * 512, 512);
                }
                let (known, request) = self.shadow.request(span, kind);
                under_way.push((run.submit(request), known));
            }
            run.retry();
            if self.rng.u8(..60) == 0 {
                self.flush(&mut run, &mut under_way);
            }
            run.turn();
            let rng = &mut self.rng;
            run.carry_out_all(|count| {
                let mut order: Vec<usize> = (0..count).collect();
                rng.shuffle(&mut order);
                order.truncate(rng.usize(..=count));
                order
            });
            self.hear(&mut run, &mut under_way);
        }
        let lost: Vec<ShadowRequest> = under_way.into_iter().map(|(_, known)| known).collect();
        self.shadow.lost_power(&lost);
        let chance = self.rng.choice([0, 50, 90, 100]).unwrap();
        let rng = &mut self.rng;
        run.lose_power(|| rng.u8(..100) < chance)
    }

    fn hear(
        &mut self,
        run: &mut Accounting<S::Layout>,
        under_way: &mut Vec<(RequestId, ShadowRequest)>,
    ) {
        let mut inserts = Vec::new();
        under_way.retain(|(id, known)| match run.take_ended(*id) {
            Some((ending, read)) => {
                match ending {
                    Ending::Done => {
                        self.shadow.ended(known, &read);
                        if known.kind.reads() {
                            inserts.push((known.span, Data::copy_of(&read)));
                        } else if matches!(known.kind, Kind::Bypass | Kind::DurableBypass) {
                            inserts.push((known.span, stamps(known.span, known.version)));
                        }
                    }
                    Ending::Failed => {
                        assert!(self.fails, "no device has failed");
                        self.shadow.failed(known);
                    }
                }
                false
            }
            None => true,
        });
        // No write has come in between, so this is the data of the core.
        for (span, data) in inserts {
            let is_free = under_way.iter().all(|(_, other)| !other.span.overlaps(span));
            if is_free && self.rng.bool() {
                let id = run.submit(LayoutRequest::InsertClean { span, data });
                under_way.push((id, ShadowRequest { span, kind: Kind::Insert, version: 0 }));
            }
        }
    }

    fn flush(
        &mut self,
        run: &mut Accounting<S::Layout>,
        under_way: &mut Vec<(RequestId, ShadowRequest)>,
    ) {
        while !under_way.is_empty() {
            run.retry();
            let (goes_on, before) = (run.turn(), under_way.len());
            run.carry_out_all(|count| (0..count).collect());
            self.hear(run, under_way);
            let has_ended = under_way.len() < before;
            assert!(
                goes_on || has_ended,
                "nothing is under way, and these do not end: {under_way:?}"
            );
        }
        if run.run(LayoutRequest::Flush).0 == Ending::Done {
            self.shadow.flushed();
        }
    }

    /// Reads everything, and inserts clean copies of some of it.
    fn check(&mut self, run: &mut Accounting<S::Layout>) {
        for number in 0..CORES {
            for first in (0..CORE_SECTORS).step_by(64) {
                let span = Span { core: core(number), first, sectors: 64 };
                let (_, read) = run.run(LayoutRequest::Read { span });
                self.shadow.found(span, &read);
                if self.rng.u8(..8) == 0 {
                    let data = Data::copy_of(&read);
                    run.run(LayoutRequest::InsertClean { span, data });
                }
            }
        }
    }
}

const KINDS: [Kind; 13] = [
    Kind::Write,
    Kind::Write,
    Kind::Write,
    Kind::Write,
    Kind::Write,
    Kind::Read,
    Kind::Read,
    Kind::PassThroughRead,
    Kind::Destage,
    Kind::Settle,
    Kind::Bypass,
    Kind::DurableBypass,
    Kind::Discard,
];

/// Five lives of a cache, each ended by a power loss.
fn five_lives<S: Subject>(seed: u64, fails: bool) {
    let mut world = World::<S>::new(seed, fails);
    let mut run = Accounting::new(world.subject.create(), Image::default())
        .tearing_between(world.subject.whole_bytes());
    for _ in 0..5 {
        let (cache, cores) = world.live(run);
        run = world.recover(cache, cores);
        world.shadow.owed().check(run.layout_mut(), (0..CORES).map(core));
        world.check(&mut run);
    }
}

/// Acknowledged data survives power losses.
fn lose_power<S: Subject>() {
    each_seed("crash", 5 * S::VARIANTS, |seed| five_lives::<S>(seed, false));
}

/// The same with failing devices.
fn lose_power_and_fail<S: Subject>() {
    each_seed("crash", 10 * S::VARIANTS, |seed| five_lives::<S>(1 << 32 | seed, true));
}

#[test]
fn a_log_keeps_what_was_acknowledged() {
    lose_power::<Log>();
}

#[test]
fn a_log_keeps_what_was_acknowledged_when_devices_fail() {
    lose_power_and_fail::<Log>();
}

#[test]
fn lines_of_2022_keep_what_was_acknowledged() {
    lose_power::<Ocf<0>>();
}

#[test]
fn lines_of_2022_keep_what_was_acknowledged_when_devices_fail() {
    lose_power_and_fail::<Ocf<0>>();
}

#[test]
fn lines_of_2026_keep_what_was_acknowledged() {
    lose_power::<Ocf<1>>();
}

#[test]
fn lines_of_2026_keep_what_was_acknowledged_when_devices_fail() {
    lose_power_and_fail::<Ocf<1>>();
}

#[test]
fn lines_with_a_log_keep_what_was_acknowledged() {
    lose_power::<Ocf<2>>();
}

#[test]
fn lines_with_a_log_keep_what_was_acknowledged_when_devices_fail() {
    lose_power_and_fail::<Ocf<2>>();
}
