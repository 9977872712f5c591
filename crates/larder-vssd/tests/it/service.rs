//! Levelling in service: the life of drives with real blocks, the order of its work, and what it remembers.

use larder_ssd::nand::{ChannelIndex, DieArray, DieIndex, Endurance, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::levelling::{PaceLimits, PausedBy};
use larder_vssd::service::{AlwaysIdle, Cause, Idle, ServiceOptions, Step, WearService};
use larder_vssd::{
    Copied, Isolation, LogicalBlock, MemoryImages, OpenParts, Pages, Request, Swap, VssdId, Vssds,
    channel_pairs,
};

use super::rig::{IDENTITY, RATES};

const SECOND: u64 = 1_000_000_000;
/// 4 channels of 2 dies of 16 blocks of 2 stripes.
const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 4, dies_per_channel: 2 },
    planes: 1,
    bits: 1,
    blocks_per_die: 18,
    pages_per_block: 2,
    page_bytes: 4096,
    mapping_bytes: 4096,
};
const BLOCK_PAGES: u32 = 4;

/// A drive with a tenant on each channel, each of which keeps some blocks and overwrites the oldest.
struct Drive {
    array: Vssds<MemoryImages>,
    vssds: Vec<VssdId>,
    blocks: Vec<std::collections::VecDeque<LogicalBlock>>,
    service: Option<WearService>,
    now: u64,
    /// Blocks that tenants have written.
    written: u64,
}

fn options() -> ServiceOptions {
    // Erases come fast here; an exchange ends between two of them.
    ServiceOptions { pace: PaceLimits::around(1 << 40), ..ServiceOptions::default() }
}

impl Drive {
    /// Tenants that keep `keep` of 100 of their blocks.
    fn new(cycles: u32, keep: usize, levelling: bool) -> Self {
        let config = RawConfig {
            spare_per_mille: 100,
            endurance: Endurance::Rated { rated: cycles, certain: 2 * cycles },
            level_threshold: 4,
            page_words: true,
            ..RawConfig::new(GEOMETRY)
        };
        let drives = vec![RawSsd::new(config).unwrap()];
        let mut array = Vssds::create(drives, MemoryImages::default(), IDENTITY, RATES).unwrap();
        let request = Request { isolation: Isolation::Channel, mb_s: 0, bytes: 1 };
        let vssds: Vec<_> = (0..4).map(|_| array.alloc(request).unwrap()).collect();
        let service = levelling.then(|| WearService::new(options()).unwrap());
        let blocks = vec![Default::default(); 4];
        let mut drive = Self { array, vssds, blocks, service, now: 0, written: 0 };
        let kept = drive.array.info(drive.vssds[0]).unwrap().blocks as usize * keep / 100;
        for tenant in 0..4 {
            (0..kept.max(1)).for_each(|_| drive.write(tenant));
        }
        drive.written = 0;
        drive
    }

    fn write(&mut self, tenant: usize) {
        let vssd = self.vssds[tenant];
        let block = self.array.alloc_block(vssd, 0).unwrap();
        let number = u64::from(BLOCK_PAGES);
        let words: Vec<u64> = (0..number).map(|page| block.number() * 64 + page + 1).collect();
        self.array.append(vssd, block, 0, Pages::Words(&words)).unwrap();
        self.blocks[tenant].push_back(block);
        self.written += 1;
    }

    fn overwrite(&mut self, tenant: usize) {
        let block = self.blocks[tenant].pop_front().unwrap();
        self.array.free_block(self.vssds[tenant], block).unwrap();
        self.write(tenant);
        self.now += SECOND;
        self.settle();
    }

    /// Lets the service work until it rests.
    fn settle(&mut self) {
        let Some(service) = &mut self.service else { return };
        for _ in 0..10_000 {
            match service.step(self.now, &mut self.array, &AlwaysIdle).unwrap() {
                Step::Rest { .. } if self.array.swap_under_way().is_none() => return,
                Step::Rest { until } => self.now = until,
                _ => {}
            }
        }
        panic!("it does not come to rest");
    }

    /// Erases by channel.
    fn wear(&self) -> Vec<u64> {
        self.array.channel_wear(0).iter().map(|channel| channel.erases).collect()
    }

    /// All words are those that were written.
    fn check(&self) {
        for (vssd, blocks) in self.vssds.iter().zip(&self.blocks) {
            for block in blocks {
                for page in 0..u64::from(BLOCK_PAGES) {
                    let word = self.array.word(*vssd, *block, page).unwrap();
                    assert_eq!(word, Some(block.number() * 64 + page + 1), "{block:?}");
                }
            }
        }
        self.array.audit().unwrap();
    }

    /// Tenants overwrite at `rates` until a die has erased as many blocks as it is rated for. Returns what they have
    /// erased by what the whole drive is rated for.
    fn live(&mut self, rates: [u64; 4], cycles: u32) -> f64 {
        let all: u64 = rates.iter().sum();
        let rated = u64::from(cycles) * u64::from(GEOMETRY.blocks_per_die);
        let mut due = [0; 4];
        loop {
            for tenant in 0..4 {
                due[tenant] += rates[tenant];
                while due[tenant] >= all {
                    due[tenant] -= all;
                    self.overwrite(tenant);
                }
            }
            let most = self.array.die_wear(0).iter().map(|die| die.erases).max().unwrap();
            if most >= rated {
                let dies = u64::from(GEOMETRY.array.dies());
                let spent = self.array.levelling(0).unwrap().spent();
                let erases: u64 = self.wear().iter().sum();
                return (erases - spent) as f64 / (rated * dies) as f64;
            }
        }
    }
}

const MIXES: [[u64; 4]; 4] = [[1, 0, 0, 0], [10, 1, 1, 1], [8, 4, 2, 1], [4, 2, 1, 1]];

/// The lives of the four mixes, with full channels and with half-full ones.
fn lives(cycles: u32, full: [std::ops::Range<f64>; 4], half: [std::ops::Range<f64>; 4]) {
    for (keep, bounds) in [(100, full), (50, half)] {
        for (rates, bounds) in MIXES.into_iter().zip(bounds) {
            let mut drive = Drive::new(cycles, keep, true);
            let life = drive.live(rates, cycles);
            drive.check();
            let state = drive.array.levelling(0).unwrap().clone();
            let said = format!(
                "{rates:?}, {cycles} erases, {keep} % kept: {:.1} % of the ideal life, {} exchanges, {} erases for \
                 moves of {}, {:?}",
                life * 100.0,
                state.exchanges,
                state.spent(),
                state.spent() + state.seen(),
                state.gamma
            );
            println!("{said}");
            assert!(bounds.contains(&life), "{said}");
        }
    }
}

#[test]
fn channels_of_300_erases_wear_out_nearly_together() {
    for (rates, ideal) in MIXES.into_iter().zip([0.25, 0.325, 15.0 / 32.0, 0.5]) {
        let life = Drive::new(300, 100, false).live(rates, 300);
        assert!((life - ideal).abs() < 0.01, "{rates:?} without levelling: {life}");
    }
    let full = [0.93..0.99, 0.93..0.99, 0.93..0.99, 0.93..0.99];
    let half = [0.95..0.99, 0.95..0.99, 0.95..0.99, 0.95..0.99];
    lives(300, full, half);
}

#[test]
fn channels_of_2000_erases_wear_out_together() {
    let bounds = || [0.95..0.999, 0.95..0.999, 0.95..0.999, 0.95..0.999];
    lives(2000, bounds(), bounds());
}

#[test]
fn channels_of_3000_erases_wear_out_together() {
    let bounds = || [0.95..0.999, 0.95..0.999, 0.95..0.999, 0.95..0.999];
    lives(3000, bounds(), bounds());
}

/// Dies that their tenants never leave alone.
struct NeverIdle;

impl Idle for NeverIdle {
    fn idle_ns(&self, _: u32, _: DieIndex) -> u64 {
        0
    }
}

fn pairs() -> Vec<(DieIndex, DieIndex)> {
    channel_pairs(GEOMETRY.array, ChannelIndex(0), ChannelIndex(1), None).unwrap()
}

/// Runs an exchange that an operator asked for. Returns the times of its copies, and of its erases by die.
fn run(
    drive: &mut Drive,
    service: &mut WearService,
    idle: &dyn Idle,
) -> (Vec<u64>, Vec<(DieIndex, u64)>) {
    let (mut copies, mut erases, mut now) = (Vec::new(), Vec::new(), 0);
    drive.array.swap_begin(0, &pairs()).unwrap();
    service.began(now, &drive.array);
    loop {
        let olds = drive.array.old_copies();
        match service.step(now, &mut drive.array, idle).unwrap() {
            Step::Copied { .. } => copies.push(now),
            Step::Erased => {
                let left = drive.array.old_copies();
                let gone = olds.iter().find(|old| !left.contains(old)).unwrap();
                erases.push((gone.1, now));
            }
            Step::Rest { until } => now = until,
            Step::Ended => return (copies, erases),
            Step::Begun => {}
        }
    }
}

#[test]
fn an_exchange_keeps_its_pace_and_busy_dies_erase_once_a_second() {
    let part = u64::from(GEOMETRY.block_pages()) * 4096;
    let pace = PaceLimits::around(part * 10);
    let options = ServiceOptions { pace, ..ServiceOptions::default() };
    let mut drive = Drive::new(300, 50, false);
    let mut service = WearService::new(options).unwrap();
    let (copies, _) = run(&mut drive, &mut service, &AlwaysIdle);
    let moved = copies.len() as u64;
    assert!(moved > 20, "{moved}");
    // Ten parts a second into each of both channels.
    let took = copies.last().unwrap() - copies[0];
    let expected = (moved - 1) * SECOND / 20;
    assert!(took.abs_diff(expected) * 20 <= expected, "{took} {expected}");

    let (_, erases) = run(&mut drive, &mut service, &NeverIdle);
    let mut last = std::collections::BTreeMap::new();
    for (die, at) in erases {
        if let Some(before) = last.insert(die, at) {
            assert!(at - before >= SECOND, "{die:?} at {before} and {at}");
        }
    }
    assert_eq!(last.len(), 4, "each die has erased");
    drive.check();
}

/// Slow tenants halve the rate, others do not.
#[test]
fn an_exchange_rests_for_the_tenants_that_move() {
    let rate = |slow: usize| {
        let mut drive = Drive::new(300, 50, false);
        let mut service = WearService::new(ServiceOptions::default()).unwrap();
        let usual: Vec<_> = drive.vssds.iter().map(|&id| (id, 1000)).collect();
        (0..5).for_each(|_| service.second(1, &usual));
        drive.array.swap_begin(0, &pairs()).unwrap();
        service.began(0, &drive.array);
        let mut now = usual;
        now[slow].1 = 1500;
        (0..3).for_each(|_| service.second(2, &now));
        let report = service.report(&drive.array, 2).exchange.unwrap();
        (report.bytes_per_s, report.moving_slowdown, report.rest_slowdown)
    };
    assert_eq!(rate(0), (250_000, Some(1.5), Some(1.0)));
    assert_eq!(rate(2), (8_000_000, Some(1.0), Some(1.5)));
}

#[test]
fn open_parts_wait_for_their_tenants_and_move_in_the_end() {
    let mut drive = Drive::new(300, 20, false);
    let vssd = drive.vssds[0];
    let open = drive.array.alloc_block(vssd, 0).unwrap();
    drive.array.append(vssd, open, 0, Pages::Words(&[5])).unwrap();
    let wait = 3 * SECOND;
    let options = ServiceOptions { open_wait_ns: wait, ..options() };
    let mut service = WearService::new(options).unwrap();
    let (copies, _) = run(&mut drive, &mut service, &AlwaysIdle);
    let gap = copies.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!((wait..2 * wait).contains(&gap), "{gap}");
    assert_eq!(drive.array.word(vssd, open, 0).unwrap(), Some(5));
    drive.check();
}

#[test]
fn a_pause_holds_until_it_ends_and_outlives_a_loss_of_power() {
    let mut drive = Drive::new(300, 50, true);
    drive.array.pause_levelling(Some(PausedBy::Operator)).unwrap();
    (0..3000).for_each(|_| drive.overwrite(0));
    assert_eq!(drive.array.levelling(0).unwrap().exchanges, 0);
    let (mut drives, images) = drive.array.into_parts();
    drives.iter_mut().for_each(RawSsd::power_loss);
    drive.array = Vssds::open(drives, images).unwrap().0;
    drive.service = Some(WearService::new(options()).unwrap());
    (0..1000).for_each(|_| drive.overwrite(0));
    let state = drive.array.levelling(0).unwrap();
    assert_eq!((state.exchanges, state.paused), (0, Some(PausedBy::Operator)));
    drive.array.pause_levelling(None).unwrap();
    (0..1000).for_each(|_| drive.overwrite(0));
    assert!(drive.array.levelling(0).unwrap().exchanges > 0);
}

/// A drive whose power fails again and again, each time in the middle of an exchange, lives as long.
#[test]
fn levelling_goes_on_where_the_catalogue_says() {
    let mut drive = Drive::new(300, 50, true);
    let mut rng = fastrand::Rng::with_seed(8);
    let (mut resumed, mut host) = (0, 0);
    while drive.array.die_wear(0).iter().all(|die| die.erases < 300 * 18) {
        let tenant = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3][rng.usize(..13)];
        let block = drive.blocks[tenant].pop_front().unwrap();
        drive.array.free_block(drive.vssds[tenant], block).unwrap();
        drive.write(tenant);
        (drive.now, host) = (drive.now + SECOND, host + 1);
        let (service, cut) = (drive.service.as_mut().unwrap(), rng.u32(..20));
        for step in 0.. {
            match service.step(drive.now, &mut drive.array, &AlwaysIdle).unwrap() {
                Step::Rest { .. } if drive.array.swap_under_way().is_none() => break,
                Step::Rest { until } => drive.now = until,
                _ if step > cut => break,
                _ => {}
            }
        }
        let Some(report) = service.report(&drive.array, 0).exchange else { continue };
        resumed += u32::from(report.cause == Cause::Resumed);
        let (mut drives, images) = drive.array.into_parts();
        drives.iter_mut().for_each(RawSsd::power_loss);
        drive.array = Vssds::open(drives, images).unwrap().0;
        drive.service = Some(WearService::new(options()).unwrap());
        drive.check();
    }
    let life = f64::from(host) * 2.0 / f64::from(300 * 18 * 8);
    assert!(resumed > 20 && (0.94..0.99).contains(&life), "{resumed} {life}");
}

/// Old copies that wait to be erased take no room from tenants of full dies.
#[test]
fn a_full_tenant_writes_while_old_copies_wait() {
    let mut drive = Drive::new(300, 100, false);
    let mut waited = 0;
    for round in 0..400 {
        if drive.array.swap_under_way().is_none() {
            drive.array.swap_begin(0, &pairs()).unwrap();
        }
        if let Copied::OldCopy(die) = drive.array.swap_copy(OpenParts::Leave).unwrap() {
            // Only when nothing else can be done.
            if round % 3 == 0 {
                drive.array.erase_old_copy(0, die).unwrap();
            }
        }
        waited += drive.array.old_copies().len();
        (0..4).for_each(|tenant| drive.overwrite(tenant));
        drive.array.audit().unwrap();
    }
    assert!(waited > 50, "{waited}");
    while drive.array.swap_step().unwrap() != Swap::Done {}
    drive.check();
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let refused = |options| WearService::new(options).unwrap_err().to_string();
    assert!(refused(ServiceOptions { gamma: Some(0), ..options() }).contains("gamma of 0"));
    let pace = PaceLimits::around(0);
    assert!(refused(ServiceOptions { pace, ..options() }).contains("pace of 0"));
}
