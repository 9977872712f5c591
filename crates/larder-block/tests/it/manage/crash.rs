//! Power is lost during everything that a cache does on its devices apart from serving: a format, a start and its
//! first writes, a change of mode, a detach, an attach, a stop; and again during the start that follows. No durable
//! data is lost, no old data comes back, and a crash is no reason to refuse a start. `LARDER_CRASH_POINTS`: number of
//! power losses, 45 if unset.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use larder_block::accounting::stamps;
use larder_block::layout::ocf::Geometry;
use larder_block::layout::{CoreId, Span};
use larder_block::manage::{AttachOptions, Over, front_bytes, look};
use larder_block::policy::pressure::BypassPolicy;
use larder_block::running::RunningCache;
use larder_device::Durability;
use larder_device::IoFuture;

use super::super::rig::{CORE_SECTORS, CORES, log_options, span_by_chance};
use super::super::seeds::each_seed;
use super::super::shadow::{Kind, Newest, Shadow, ShadowRequest};
use super::power::Power;
use super::*;

/// Power losses per seed.
const LIVES: u64 = 5;
/// All requests end within this number of steps.
const STEPS_MAX: u32 = 100_000;

enum UnderWay {
    Known(ShadowRequest),
    Flush(Newest),
}

struct World {
    rng: Rng,
    create: CreateOptions,
    power: Arc<Power>,
    /// Two devices that take turns as the cache device.
    fronts: Vec<DynDevice>,
    cores: Vec<Core>,
    shadow: Shadow,
    under_way: Vec<(IoFuture, UnderWay)>,
    /// Block size of the exports, with a cache device or without.
    block_bytes: u32,
    /// The device that is given to a start.
    front: usize,
    /// Non-durable writes may go to a core without becoming durable: temporarily, or because they bypass a cache that
    /// is full of dirty data.
    passes_by: bool,
    bypass: BypassPolicy,
    now: Duration,
}

/// The log, and the versions of Open CAS's lines.
const LAYOUTS: usize = 4;

fn options_of(layout: usize, rng: &mut Rng) -> (LayoutOptions, u64, u32) {
    let block_bytes = rng.choice([512, 512, 4096]).unwrap();
    if layout > 0 {
        let version = OcfVersion::ALL[layout - 1];
        let of = OcfOptions { version, line_bytes: rng.choice([4096, 4096, 16384]).unwrap() };
        let bytes = Geometry::device_bytes(
            front_bytes(usize::from(CORES)),
            rng.choice([64, 100, 200]).unwrap(),
            &of,
        );
        return (LayoutOptions::Ocf(of), bytes, block_bytes);
    }
    let log = LogOptions {
        segment_bytes: 64 << 10,
        line_bytes: rng.choice([4096, 16384]).unwrap(),
        ..log_options(rng)
    };
    let block_bytes = rng.choice([64, block_bytes]).unwrap();
    (LayoutOptions::Log(log), front_bytes(usize::from(CORES)) + 12 * (64 << 10), block_bytes)
}

impl World {
    fn new(seed: u64, layout: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (layout, bytes, block_bytes) = options_of(layout, &mut rng);
        let whole = if block_bytes < 512 { None } else { rng.choice([None, Some(4096)]).unwrap() };
        let (front, core_of) = ((bytes, block_bytes, whole), (CORE_SECTORS * 512, 512, None));
        let (power, mut fronts) = Power::feed(&[front, front, core_of, core_of]);
        let cores = (0..CORES).zip(fronts.split_off(2)).map(|(number, device)| Core {
            id: core(number),
            name: format!("core-{number}"),
            device,
        });
        let (mode, over) = (Mode::WriteBack, Over::default());
        Self {
            rng,
            create: CreateOptions { layout, mode, over },
            power,
            fronts,
            cores: cores.collect(),
            shadow: Shadow::default(),
            under_way: Vec::new(),
            block_bytes: block_bytes.max(512),
            front: 0,
            passes_by: false,
            bypass: BypassPolicy::Never,
            now: Duration::ZERO,
        }
    }

    /// Power returns.
    fn begin(&mut self, changes_max: u64) {
        let overtaken = self.rng.choice([0, 3, 10]).unwrap();
        self.power.return_with(self.rng.u64(..), overtaken);
        self.lose_within(changes_max);
    }

    /// Power will be lost at one of the next changes.
    fn lose_within(&mut self, changes: u64) {
        self.power.lose_after(self.rng.u64(..changes));
    }

    /// Runs `what` to its end, under a load if there is a cache. `None`: power was lost.
    fn drive<T>(&mut self, of: Option<&RunningCache>, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        for _ in 0..STEPS_MAX {
            let polled = what.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if self.power.is_lost() {
                return None;
            }
            self.hear();
            if let Poll::Ready(ended) = polled {
                return Some(ended);
            }
            self.step(of);
            self.power.rests();
        }
        panic!("it does not end: {} requests under way", self.under_way.len());
    }

    /// A client submits a request, time passes, or a held I/O continues.
    fn step(&mut self, of: Option<&RunningCache>) {
        match (self.rng.u8(..4), of) {
            (0 | 1, Some(cache)) if self.under_way.len() < 12 => self.ask(cache),
            (2, Some(cache)) => {
                self.now += Duration::from_millis(self.rng.u64(1..100));
                let _next = cache.work(self.now);
            }
            _ => self.power.let_go(),
        }
    }

    fn ask(&mut self, cache: &RunningCache) {
        let number = CoreId::new(self.rng.u16(..CORES)).unwrap();
        let device = cache.core(number).unwrap();
        let span = span_by_chance(&mut self.rng, self.block_bytes);
        let span = Span { core: number, ..span };
        let choice = self.rng.u8(..16);
        if choice == 0 {
            let newest = UnderWay::Flush(self.shadow.newest());
            return self.under_way.push((device.submit(Io::Flush), newest));
        }
        let durable = self.rng.u8(..4) == 0;
        let may_be_dirty = cache.with(|cache| cache.options().mode.may_be_dirty());
        let kind = match choice {
            1 => Kind::Discard,
            2..=4 => Kind::Read,
            _ if durable || (may_be_dirty && !self.may_pass_by()) => Kind::Write,
            _ => Kind::Bypass,
        };
        let known = self.shadow.known(span, kind);
        let future = device.submit(io_of(&known, durable));
        self.under_way.push((future, UnderWay::Known(known)));
    }

    fn may_pass_by(&self) -> bool {
        self.passes_by || self.bypass != BypassPolicy::Never
    }

    fn hear(&mut self) {
        let shadow = &mut self.shadow;
        self.under_way.retain_mut(|(future, one)| {
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(ended) = Pin::new(future).poll(&mut context) else { return true };
            let buffer = ended.unwrap_or_else(|failure| panic!("no device failed: {failure:?}"));
            match one {
                UnderWay::Known(known) if known.kind == Kind::Read => {
                    shadow.ended(known, buffer.as_slice());
                }
                UnderWay::Known(known) => shadow.ended(known, &[]),
                UnderWay::Flush(newest) => shadow.flush_ended(newest),
            }
            false
        });
    }

    /// From now on writes may go only to a core, including those in flight.
    fn pass_by(&mut self) {
        self.passes_by = true;
        for (_, one) in &mut self.under_way {
            if let UnderWay::Known(known) = one
                && known.kind == Kind::Write
            {
                known.kind = Kind::Bypass;
            }
        }
    }

    fn load(&mut self, cache: &RunningCache, steps: usize) -> Option<()> {
        let mut left = steps;
        let enough = std::future::poll_fn(move |_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        self.drive(Some(cache), enough)
    }

    /// All requests end.
    fn end_all(&mut self) -> Option<()> {
        while !self.under_way.is_empty() {
            self.drive(None, std::future::ready(()))?;
            self.power.let_go();
        }
        (!self.power.is_lost()).then_some(())
    }

    /// Requests in flight are either done or not.
    fn power_lost(&mut self) {
        if !self.power.is_lost() {
            self.power.lose();
        }
        let of = |(_, one)| if let UnderWay::Known(known) = one { Some(known) } else { None };
        let lost: Vec<ShadowRequest> = self.under_way.drain(..).filter_map(of).collect();
        self.power.forget_the_unheard();
        self.shadow.lost_power(&lost);
        self.passes_by = false;
    }

    /// Formats the first device, however often power is lost.
    fn format(&mut self) {
        loop {
            self.begin(16);
            let over = self.over(0).expect("nothing is changed");
            let (device, create_options) =
                (Arc::clone(&self.fronts[0]), CreateOptions { over, ..self.create.clone() });
            let cores = self.cores.clone();
            match self.drive(None, create(&device, &cores, &create_options)) {
                Some(done) => {
                    done.unwrap();
                    return;
                }
                None => self.power_lost(),
            }
        }
    }

    /// The option that allows to overwrite the content of a device.
    fn over(&mut self, front: usize) -> Option<Over> {
        let device = Arc::clone(&self.fronts[front]);
        let seen = self.drive(None, look(&device))?;
        Some(seen.map_or(Over::Other, |seen| Over::Cache(seen.uuid)))
    }

    fn open(&mut self) -> Option<OpenCache> {
        let device = Arc::clone(&self.fronts[self.front]);
        let mode = self.rng.choice([None, None, Some(Mode::WriteBack)]).unwrap();
        let bypasses =
            [BypassPolicy::Never, BypassPolicy::Never, BypassPolicy::Cost, BypassPolicy::Full];
        self.bypass = self.rng.choice(bypasses).unwrap();
        let opening = OpenOptions {
            cache: CacheOptions { bypass: self.bypass, ..options().cache },
            log: log_options(&mut self.rng),
            mode,
            seed: self.rng.u64(..),
            ..options()
        };
        let cores = self.cores.clone();
        let opened = self.drive(None, open(&device, &cores, &opening))?.unwrap();
        let found = opened.started;
        assert_eq!((found.failed_reads, found.changed), (0, 0), "{found:?}");
        for checked in opened.checked() {
            assert_eq!(checked.compared.differing, 0, "{checked:?}");
        }
        Some(opened)
    }

    /// Checks that all data on the devices is legal.
    fn check(&mut self, of: impl Fn(u16) -> DynDevice) -> Option<()> {
        for number in 0..CORES {
            let device = of(number);
            for first in (0..CORE_SECTORS).step_by(64) {
                let span = Span { core: core(number), first, sectors: 64 };
                let buffer = IoBuffer::zeroed(span.bytes());
                let read = device.submit(Io::Read { offset: span.offset(), buffer });
                let read = self.drive(None, read)?.unwrap();
                self.shadow.found(span, read.as_slice());
            }
        }
        Some(())
    }

    /// Checks the content of the cores without the cache.
    fn check_cores(&mut self) {
        self.begin(u64::MAX);
        let devices: Vec<DynDevice> =
            self.cores.iter().map(|core| Arc::clone(&core.device)).collect();
        self.check(|number| Arc::clone(&devices[usize::from(number)])).expect("power is there");
        self.power.lose();
    }

    /// From a start to a power loss; `None`: power was lost within it.
    fn life(&mut self) -> Option<()> {
        let changes_max = self.rng.choice([10, 40, 400, 4000]).unwrap();
        self.begin(changes_max);
        let mut opened = self.open()?;
        let cache = opened.cache.clone();
        self.check(|number| Arc::new(cache.core(core(number)).unwrap()))?;
        for _ in 0..self.rng.u8(1..5) {
            let steps = self.rng.usize(1..200);
            self.load(&cache, steps)?;
            match self.rng.u8(..8) {
                0 => self.drive(Some(&cache), opened.note_clean())?.unwrap(),
                1 => self.change_mode(&mut opened)?,
                2..=4 => self.change_device(&mut opened)?,
                _ => {}
            }
        }
        if self.rng.bool() { self.stop(opened) } else { Some(()) }
    }

    fn change_mode(&mut self, opened: &mut OpenCache) -> Option<()> {
        let (mode, destages) = (self.rng.choice(Mode::all()).unwrap(), self.rng.bool());
        let cache = opened.cache.clone();
        self.pass_by();
        self.drive(Some(&cache), opened.set_mode(mode, destages))?.unwrap();
        self.passes_by = false;
        Some(())
    }

    /// Detaches the cache device, and attaches the other one.
    fn change_device(&mut self, opened: &mut OpenCache) -> Option<()> {
        let cache = opened.cache.clone();
        self.pass_by();
        if self.rng.bool() {
            self.lose_within(60);
        }
        self.drive(Some(&cache), opened.detach())?.unwrap();
        let steps = self.rng.usize(1..60);
        self.load(&cache, steps)?;
        if self.rng.u8(..4) == 0 {
            self.power_lost();
            self.check_cores();
            return None;
        }
        if self.rng.bool() {
            self.lose_within(30);
        }
        let next = 1 - self.front;
        let attaching = AttachOptions {
            layout: self.create.layout.clone(),
            over: self.over(next)?,
            log: log_options(&mut self.rng),
            ..AttachOptions::default()
        };
        let device = Arc::clone(&self.fronts[next]);
        let attached = self.drive(Some(&cache), opened.attach(&device, &attaching));
        let Some(attached) = attached else {
            self.attach_was_cut_off(next);
            return None;
        };
        attached.unwrap();
        (self.front, self.passes_by) = (next, false);
        Some(())
    }

    /// If the label of the device is trusted, the device belongs to the cache; if not, neither device has trusted
    /// content.
    fn attach_was_cut_off(&mut self, next: usize) {
        self.power_lost();
        self.begin(u64::MAX);
        let device = Arc::clone(&self.fronts[next]);
        let label = self.drive(None, look(&device)).expect("power is there");
        if label.is_ok_and(|seen| !seen.stored.is_distrusted || self.rng.bool()) {
            self.front = next;
        }
        self.power.lose();
    }

    fn stop(&mut self, opened: OpenCache) -> Option<()> {
        self.end_all()?;
        let destages = self.rng.bool();
        if self.rng.bool() {
            self.lose_within(60);
        }
        let is_attached = opened.is_attached();
        self.drive(None, opened.stop(destages))?.unwrap();
        if destages || !is_attached {
            self.power_lost();
            self.check_cores();
        }
        Some(())
    }
}

fn io_of(known: &ShadowRequest, durable: bool) -> Io {
    let (offset, bytes) = (known.span.offset(), known.span.bytes());
    match known.kind {
        Kind::Read => Io::Read { offset, buffer: IoBuffer::zeroed(bytes) },
        Kind::Discard => Io::Deallocate { offset, bytes: bytes as u64 },
        _ => {
            let mut buffer = IoBuffer::zeroed(bytes);
            buffer.copy_in(0, stamps(known.span, known.version).bytes());
            let durability = if durable { Durability::Power } else { Durability::Device };
            Io::Write { offset, buffer, handle: PlacementHandle::DEFAULT, durability }
        }
    }
}

fn lives(layout: usize) {
    each_seed("manage::crash", LIVES, |seed| {
        let mut world = World::new(seed, layout);
        world.format();
        world.power_lost();
        for _ in 0..LIVES {
            let _ended = world.life();
            world.power_lost();
        }
    });
}

#[test]
fn a_log_survives_losses_of_power_within_its_starts_and_ends() {
    lives(0);
}

#[test]
fn lines_survive_losses_of_power_within_their_starts_and_ends() {
    (1..LAYOUTS).for_each(lives);
}
