//! Caches lose power at random points of random loads, in every mode and while modes change. Data that was
//! acknowledged as durable is found, only written data is found, and stale data of writes around never comes back.
//! `LARDER_CRASH_POINTS`: number of power losses, 45 if unset.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::cache::{BypassReason, Cache, CacheOptions, CacheShape, Mode, Request};
use larder_block::layout::{CoreId, Ending, RequestId, Span};
use larder_block::policy::classes::IoClasses;
use larder_block::policy::pressure::BypassPolicy;
use larder_block::policy::routing::RoutingPolicy;
use larder_block::policy::{
    CutOffPolicy, NHit, PromotionPolicy, ReadAheadOptions, ReadAheadPolicy,
};

use super::classes;
use super::rig::{CORE_SECTORS, CORES, LONGEST_SECTORS, core, span_by_chance};
use super::seeds::each_seed;
use super::shadow::{Kind, Newest, Shadow, ShadowRequest};
use super::subject::{Log, Ocf, Subject};

/// Why writes of a write-back cache find no room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Press {
    /// The whole cache is dirty.
    Cache,
    /// The whole share of their IO class is dirty.
    Class,
}

struct World<S> {
    rng: Rng,
    subject: S,
    shadow: Shadow,
    /// Whether non-durable writes are volatile in write-back too, because they may have bypassed the cache.
    passes_by: bool,
    /// Set for a write-back cache that is kept full of dirty data, so that writes find no room.
    press: Option<Press>,
    /// Writes that bypassed the cache because there was no room.
    bypassed: u64,
    /// Bytes destaged for classes.
    destaged: u64,
    fails: bool,
}

/// The clock advances by a day per reading, so tuned routing would measure nothing: the shares are fixed instead.
fn by_chance(rng: &mut Rng) -> RoutingPolicy {
    let core_permille = rng.choice([300, 1000]).unwrap();
    rng.choice([RoutingPolicy::Off, RoutingPolicy::Fixed { core_permille }]).unwrap()
}

fn ahead_by_chance(rng: &mut Rng) -> ReadAheadPolicy {
    let window_bytes = rng.choice([4096, 64 << 10, 1 << 20]).unwrap();
    let on = ReadAheadPolicy::On(ReadAheadOptions { threshold_bytes: 4096, window_bytes });
    rng.choice([ReadAheadPolicy::Off, on]).unwrap()
}

/// A request in flight. For a flush, what it covers.
enum UnderWay {
    Known(ShadowRequest),
    Flush(Newest),
    Clean,
    /// The core, and the time of the request.
    Settle(CoreId, u64),
}

impl<S: Subject> World<S>
where
    S::Layout: 'static,
{
    fn new(seed: u64, fails: bool, press: Option<Press>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let subject = S::draw(&mut rng);
        let passes_by = rng.bool() || press.is_some();
        let (shadow, bypassed, destaged) = (Shadow::default(), 0, 0);
        Self { rng, subject, shadow, passes_by, press, bypassed, destaged, fails }
    }

    fn cache(&mut self, layout: S::Layout) -> Cache {
        let shape = CacheShape { capacity_bytes: 768 << 10, line_bytes: 4096 };
        let n_hit = NHit { insertion_threshold: 2, trigger_percent: 0 };
        let options = CacheOptions {
            mode: self.rng.choice(Mode::all()).unwrap(),
            cut_off: if self.passes_by { CutOffPolicy::Always } else { CutOffPolicy::Never },
            cut_off_bytes: 32 << 10,
            promotion: if self.passes_by {
                PromotionPolicy::NHit(n_hit)
            } else {
                PromotionPolicy::Always
            },
            routing: by_chance(&mut self.rng),
            read_ahead: ahead_by_chance(&mut self.rng),
            bypass: self.bypass(),
            classes: self.classes(),
            // The handling of a device that was given up is tested elsewhere.
            cache_errors_max: u32::MAX,
            ..CacheOptions::default()
        };
        let options = self.press.map_or(options, |press| self.pressed(press));
        let mut cache = Cache::new(Box::new(layout), shape, options).unwrap();
        (0..CORES).for_each(|number| cache.set_core_bytes(core(number), CORE_SECTORS * 512));
        cache
    }

    fn pressed(&mut self, press: Press) -> CacheOptions {
        let (bypass, of_classes) = match press {
            Press::Cache => {
                (self.rng.choice([BypassPolicy::Cost, BypassPolicy::Full]).unwrap(), "")
            }
            Press::Class => (
                BypassPolicy::Never,
                "0,unclassified,7,0.15\n1,core_id:0,7,0.30\n2,request_size:le:4096,7,0.05",
            ),
        };
        CacheOptions {
            mode: Mode::WriteBack,
            cut_off: CutOffPolicy::Never,
            bypass,
            classes: classes::classes(of_classes),
            cache_errors_max: u32::MAX,
            ..CacheOptions::default()
        }
    }

    /// The time advances by days, so the measured costs are random too.
    fn bypass(&mut self) -> BypassPolicy {
        let all = [BypassPolicy::Never, BypassPolicy::Cost, BypassPolicy::Full];
        if self.passes_by { self.rng.choice(all).unwrap() } else { BypassPolicy::Never }
    }

    /// Writes of some classes may bypass the cache.
    fn classes(&mut self) -> IoClasses {
        if self.passes_by { classes::by_chance(&mut self.rng) } else { IoClasses::default() }
    }

    fn recover(&mut self, cache: Image, cores: HashMap<CoreId, Image>) -> Accounting<Cache> {
        let mut layout = self.subject.recover(&mut self.rng, &cache);
        self.shadow.owed().check(&mut layout, (0..CORES).map(core));
        let whole_bytes = self.subject.whole_bytes();
        let run = Accounting::new(self.cache(layout), cache).with_cores(cores);
        run.tearing_between(whole_bytes)
    }

    /// Submits a request.
    fn ask(&mut self, run: &mut Accounting<Cache>) -> (RequestId, UnderWay) {
        let mut span = span_by_chance(&mut self.rng, self.subject.block_bytes());
        let choice = self.rng.u8(if self.press.is_some() { 2 } else { 0 }..16);
        if choice == 0 {
            return (run.submit(Request::Flush), UnderWay::Flush(self.shadow.newest()));
        }
        if choice == 1 {
            let core = span.core;
            if self.rng.bool() {
                return (run.submit(Request::Clean { core }), UnderWay::Clean);
            }
            let now = self.shadow.now();
            return (run.submit(Request::Settle { core }), UnderWay::Settle(core, now));
        }
        if choice < 5 {
            // A stream.
            let end = self.shadow.last().map_or(0, Span::end);
            span.first = end % (CORE_SECTORS - LONGEST_SECTORS) / 8 * 8;
        }
        let durable = self.rng.u8(..4) == 0;
        let mode = run.layout().options().mode;
        let kind = match choice {
            2..=4 | 8.. if durable || (mode.may_be_dirty() && !self.passes_by) => Kind::Write,
            2..=4 | 8.. => Kind::Bypass,
            5..=6 => Kind::Read,
            _ => Kind::Discard,
        };
        let known = self.shadow.known(span, kind);
        // Classes may have modes of their own.
        if kind.writes() && (mode.may_be_dirty() || self.passes_by) {
            self.shadow.owed().begins(span, known.version);
        }
        let request = match kind {
            Kind::Read => Request::Read { span },
            Kind::Discard => Request::Trim { span },
            _ => Request::Write { span, data: stamps(span, known.version), durable },
        };
        (run.submit(request), UnderWay::Known(known))
    }

    /// Runs a load until power is lost.
    fn live(&mut self, mut run: Accounting<Cache>) -> (Image, HashMap<CoreId, Image>) {
        let mut under_way: Vec<(RequestId, UnderWay)> = Vec::new();
        run.fail_one_in(if self.fails { 50 } else { 0 }, self.rng.u64(..));
        let depth = self.rng.choice([1, 4, 16]).unwrap();
        for _ in 0..self.rng.usize(10..400) {
            while under_way.len() < depth && self.rng.u8(..8) > 0 {
                under_way.push(self.ask(&mut run));
            }
            if self.press.is_none() && self.rng.u8(..40) == 0 {
                let mode = self.rng.choice(Mode::all()).unwrap();
                run.layout_mut().set_mode(mode);
                run.layout_mut().set_classes(self.classes());
                run.layout_mut().set_bypass(self.bypass());
                for (_, one) in &mut under_way {
                    // It may begin in this mode, or have begun in the previous one.
                    if let UnderWay::Known(known) = one
                        && known.kind == Kind::Write
                    {
                        known.kind = Kind::Bypass;
                    }
                    if let UnderWay::Known(known) = one
                        && known.kind.writes()
                    {
                        self.shadow.owed().begins(known.span, known.version);
                    }
                }
            }
            run.retry();
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
        if self.rng.bool() {
            self.end_all(&mut run, &mut under_way);
        }
        let lost: Vec<ShadowRequest> = under_way
            .into_iter()
            .filter_map(
                |(_, one)| if let UnderWay::Known(known) = one { Some(known) } else { None },
            )
            .collect();
        self.shadow.lost_power(&lost);
        let statistics = run.layout().statistics();
        self.bypassed += statistics.bypasses(BypassReason::NoRoom);
        self.bypassed += statistics.bypasses(BypassReason::Pressure);
        self.destaged += statistics.destaged_for_classes_bytes;
        let chance = self.rng.choice([0, 50, 90, 100]).unwrap();
        let rng = &mut self.rng;
        run.lose_power(|| rng.u8(..100) < chance)
    }

    /// All requests end if no more are submitted.
    fn end_all(&mut self, run: &mut Accounting<Cache>, under_way: &mut Vec<(RequestId, UnderWay)>) {
        let mut idle = 0;
        while !under_way.is_empty() {
            run.retry();
            let (goes_on, before) = (run.turn(), under_way.len());
            run.carry_out_all(|count| (0..count).collect());
            self.hear(run, under_way);
            idle = if goes_on || under_way.len() < before { 0 } else { idle + 1 };
            assert!(idle < 3, "{} requests do not end: {:?}", under_way.len(), run.layout());
        }
    }

    fn hear(&mut self, run: &mut Accounting<Cache>, under_way: &mut Vec<(RequestId, UnderWay)>) {
        under_way.retain(|(id, one)| {
            let Some((ending, read)) = run.take_ended(*id) else { return true };
            assert!(self.fails || ending == Ending::Done, "no device has failed");
            match (one, ending) {
                (UnderWay::Known(known), Ending::Done) => self.shadow.ended(known, &read),
                (UnderWay::Known(known), Ending::Failed) => self.shadow.failed(known),
                (UnderWay::Flush(newest), Ending::Done) => self.shadow.flush_ended(newest),
                (UnderWay::Settle(core, asked), Ending::Done) => {
                    self.shadow.owed().settled(|of, _| of == *core, *asked);
                }
                _ => {}
            }
            false
        });
    }

    fn check(&mut self, run: &mut Accounting<Cache>) {
        for number in 0..CORES {
            for first in (0..CORE_SECTORS).step_by(64) {
                let span = Span { core: core(number), first, sectors: 64 };
                let (_, read) = run.run(Request::Read { span });
                self.shadow.found(span, &read);
            }
        }
    }
}

/// Five lives of a cache, each ended by a power loss.
fn five_lives<S: Subject>(seed: u64, fails: bool)
where
    S::Layout: 'static,
{
    five_lives_of(&mut World::<S>::new(seed, fails, None));
}

fn five_lives_of<S: Subject>(world: &mut World<S>)
where
    S::Layout: 'static,
{
    let layout = world.subject.create();
    let whole_bytes = world.subject.whole_bytes();
    let mut run =
        Accounting::new(world.cache(layout), Image::default()).tearing_between(whole_bytes);
    for _ in 0..5 {
        let (cache, cores) = world.live(run);
        run = world.recover(cache, cores);
        world.check(&mut run);
    }
}

/// A log that is full of dirty data, and is bypassed.
fn full_of_dirty_data(fails: bool) {
    let bypassed = AtomicU64::new(0);
    each_seed("cache_crash", 5, |seed| {
        let mut world = World::<Log>::new(seed, fails, Some(Press::Cache));
        five_lives_of(&mut world);
        bypassed.fetch_add(world.bypassed, Ordering::Relaxed);
    });
    assert!(bypassed.into_inner() > 0, "no write has passed by for want of room");
}

/// A log whose IO classes are full of dirty data, some of which is destaged for them.
fn classes_full_of_dirty_data(fails: bool) {
    let destaged = AtomicU64::new(0);
    each_seed("cache_crash", 5, |seed| {
        let mut world = World::<Log>::new(seed, fails, Some(Press::Class));
        five_lives_of(&mut world);
        destaged.fetch_add(world.destaged, Ordering::Relaxed);
    });
    assert!(destaged.into_inner() > 0, "nothing was destaged for a class");
}

#[test]
fn a_log_whose_classes_are_full_of_dirty_data_keeps_what_was_durable() {
    classes_full_of_dirty_data(false);
}

#[test]
fn a_log_whose_classes_are_full_of_dirty_data_keeps_what_was_durable_when_devices_fail() {
    classes_full_of_dirty_data(true);
}

#[test]
fn a_log_full_of_dirty_data_keeps_what_was_durable() {
    full_of_dirty_data(false);
}

#[test]
fn a_log_full_of_dirty_data_keeps_what_was_durable_when_devices_fail() {
    full_of_dirty_data(true);
}

#[test]
fn in_every_mode_a_log_keeps_what_was_durable() {
    each_seed("cache_crash", 5, |seed| five_lives::<Log>(seed, false));
}

#[test]
fn in_every_mode_a_log_keeps_what_was_durable_when_devices_fail() {
    each_seed("cache_crash", 10, |seed| five_lives::<Log>(seed, true));
}

#[test]
fn in_every_mode_lines_keep_what_was_durable() {
    each_seed("cache_crash", 10, |seed| five_lives::<Ocf<0>>(seed, false));
    each_seed("cache_crash", 10, |seed| five_lives::<Ocf<1>>(seed, false));
    each_seed("cache_crash", 10, |seed| five_lives::<Ocf<2>>(seed, false));
}

#[test]
fn in_every_mode_lines_keep_what_was_durable_when_devices_fail() {
    each_seed("cache_crash", 15, |seed| five_lives::<Ocf<0>>(seed, true));
    each_seed("cache_crash", 15, |seed| five_lives::<Ocf<1>>(seed, true));
    each_seed("cache_crash", 15, |seed| five_lives::<Ocf<2>>(seed, true));
}
