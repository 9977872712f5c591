//! A job on channels of its own that also writes to blocks of its neighbour's idle channels.

use larder_ssd::nand::DieIndex;
use larder_ssd::timed::{DieService, Nanoseconds};

use super::drive::{BLOCKS_PER_DIE, CHANNELS, Drive, Kind, PLANES, SECONDS};
use super::failed;
use super::run::Beside;
use super::tenant::{Bursts, Pattern, TenantResult};
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const LENDS: Parameter = Parameter {
    name: "lends",
    default: "1",
    help: "1: the neighbour lends blocks of its idle dies; 0: it does not, and the criterion must not hold",
};
const OWNERS_FIRST: Parameter = Parameter {
    name: "owners_first",
    default: "1",
    help: "1: operations on lent blocks come after those of the dies' owner; 0: both wait for each other, and the \
           criterion must not hold",
};

pub(in crate::experiment) static HARVESTING: Experiment = Experiment {
    name: "harvesting",
    title: "a job on channels of its own borrows blocks of its neighbour's idle channels: what both get",
    reproduces: "BlockFlex (OSDI'22) and FleetIO (ASPLOS'25): idle channels are lent as ghost superblocks",
    criterion: "the neighbour idle, or in bursts of a fifth of the time: 1.3 to 2 times the bytes of the drive without \
                loans; its p50 and p99 within 0.9 to 1.1 times, also while it fills its blocks and calls loans back; \
                no page is copied, and the erases of its dies are those of the loans",
    parameters: &[CHANNELS, PLANES, SECONDS, LENDS, OWNERS_FIRST],
    metrics: &[
        (
            "mb_s.*",
            "MB/s of the job and the owner, by neighbour and loans. The job reads all it has and writes as much, 1 MiB \
             each. Neighbours: idle; bursts (64 KiB reads and writes for 200 ms of each second, half full); fills \
             (asleep for 3 s, 70 % full, then writes alone, also when it is full). Loans: off, on",
        ),
        ("mb_s.whole", "MB/s of the same job with all dies of the drive, and nothing beside it"),
        ("kept.*", "MB/s of the job beside an idle neighbour by that with all dies, by loans"),
        ("gain.*", "MB/s of both with loans by that without, by neighbour"),
        ("p50_us.*", "half of the owner's requests take at most so long, by neighbour and loans"),
        ("p99_us.*", "99 % of them"),
        ("p999_us.*", "99.9 % of them"),
        ("max_us.*", "all of them"),
        ("p50_ratio.*", "p50 of the owner with loans by that without"),
        ("p99_ratio.*", "p99 of the owner with loans by that without"),
        ("p999_ratio.*", "the same of p99.9"),
        ("loans.*", "blocks that were lent"),
        ("called_back.*", "blocks that the owner has called back"),
        ("misses.*", "reads of the job that found their block gone"),
        ("lent_gib.*", "GiB that the job has written to lent blocks"),
        ("copied_pages", "pages that were copied because of loans, all runs"),
        ("wear_ratio", "erases of an idle neighbour's dies by those that are booked on loans"),
    ],
    references: &[Reference::published(
        "gain.bursts",
        1.4,
        "FleetIO (ASPLOS'25): utilisation up to 1.4 times that of fixed channels",
    )],
    needs: &[
        "kept.off",
        "kept.on",
        "gain.idle",
        "gain.bursts",
        "p50_ratio.bursts",
        "p99_ratio.bursts",
        "p50_ratio.fills",
        "p99_ratio.fills",
        "called_back.fills",
        "copied_pages",
        "wear_ratio",
    ],
    measure,
    judge,
};

const MS: Nanoseconds = 1_000_000;
/// What an owner has allocated in the last two seconds stays its own, and all data are written at the beginning.
const SETTLED_NS: Nanoseconds = 2_000 * MS;
/// Bytes of the job's requests, and the number in flight.
const JOB: (u64, usize) = (1 << 20, 8);

const BURSTS: Bursts = Bursts {
    bytes: 64 << 10,
    depth: 4,
    reads: true,
    on_ns: 200 * MS,
    period_ns: 1_000 * MS,
    first_ns: 0,
    filled: (50, 50),
};
/// Owners that begin to write when some blocks are lent, and write all they can.
const FILLS: Bursts = Bursts {
    depth: 16,
    reads: false,
    on_ns: 1_000 * MS,
    first_ns: SETTLED_NS + 1_000 * MS,
    filled: (70, 100),
    ..BURSTS
};
/// Owners that sleep for the whole run, half full.
const IDLE: Bursts = Bursts { depth: 0, ..BURSTS };

/// What a run shows.
struct Shown {
    job: TenantResult,
    owner: TenantResult,
    loans: larder_vssd::LoanTotals,
    misses: u64,
    copied_pages: u64,
    /// Erases of the owner's dies.
    owner_erases: u64,
}

fn run(
    drive: &Drive,
    neighbour: Bursts,
    (lends, owners_first): (bool, bool),
    (seed, window): (u64, Window),
    monitor: &Monitor,
) -> Result<Shown, Error> {
    let (bytes, depth) = JOB;
    let tenants = [(4, 1, Pattern::Harvest(bytes, depth)), (4, 1, Pattern::Bursts(neighbour))];
    let mut beside = Beside::new(drive, Kind::Channel, &tenants, seed)?;
    let [job, owner] = [0, 1].map(|tenant: usize| beside.tenants[tenant].vssd());
    beside.timed.put_owners_first(owners_first);
    beside.timed.array_mut().set_lends(owner, lends).map_err(failed)?;
    let mut seen = beside.measure(window, monitor)?.into_iter();
    let array = beside.timed.array();
    array.audit().map_err(Error::run)?;
    let dies = array.info(owner).map_err(failed)?.dies;
    let counters = |drive: u32, die: DieIndex| array.drive(drive)?.die(die);
    let of_owner = dies.iter().filter_map(|&(drive, die)| counters(drive, die));
    let all = (0..drive.timing.dies()).filter_map(|die| counters(0, DieIndex(die)));
    Ok(Shown {
        job: seen.next().unwrap_or_default(),
        owner: seen.next().unwrap_or_default(),
        loans: array.loan_totals(job),
        misses: beside.tenants[0].misses(),
        copied_pages: all.map(|view| view.counters.migrated_pages).sum(),
        owner_erases: of_owner.map(|view| view.counters.erases).sum(),
    })
}

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let (mut metrics, Window { from, until }) = (Metrics::new(), Window::of(settings)?);
    let window = Window { from: from + SETTLED_NS, until: until + SETTLED_NS };
    let lends = settings.within::<u8>(LENDS.name, 0..=1)? == 1;
    let owners_first = settings.within::<u8>(OWNERS_FIRST.name, 0..=1)? == 1;
    let drive = Drive::new(settings, DieService::InOrder, BLOCKS_PER_DIE)?;
    let (bytes, depth) = JOB;
    let alone = [(4, 1, Pattern::Job(bytes, depth)), (4, 1, Pattern::Idle)];
    let mut whole = Beside::new(&drive, Kind::Shared, &alone, seed)?;
    let whole = whole.measure(window, monitor)?[0].mb_s(window);
    metrics.insert("mb_s.whole".to_owned(), whole);
    let mut copied_pages = 0;
    for (name, neighbour) in [("idle", IDLE), ("bursts", BURSTS), ("fills", FILLS)] {
        for (mode, lends) in [("off", false), ("on", lends)] {
            let modes = (lends, owners_first);
            let mut shown = run(&drive, neighbour, modes, (seed, window), monitor)?;
            copied_pages += shown.copied_pages;
            let mut put = |metric: &str, value| {
                metrics.insert(format!("{metric}.{name}.{mode}"), value);
            };
            put("mb_s.job", shown.job.mb_s(window));
            put("mb_s.owner", shown.owner.mb_s(window));
            if name != "idle" {
                put("p50_us", shown.owner.quantile_us(0.5));
                put("p99_us", shown.owner.quantile_us(0.99));
                put("p999_us", shown.owner.quantile_us(0.999));
                put("max_us", shown.owner.quantile_us(1.0));
            }
            if mode == "off" {
                continue;
            }
            let lent_gib = (shown.loans.written_pages << 12) as f64 / (1_u64 << 30) as f64;
            let loans = [
                ("loans", shown.loans.begun as f64),
                ("called_back", shown.loans.called_back as f64),
                ("misses", shown.misses as f64),
                ("lent_gib", lent_gib),
            ];
            metrics.extend(loans.map(|(metric, value)| (format!("{metric}.{name}"), value)));
            if name == "idle" {
                let ratio = shown.owner_erases as f64 / shown.loans.erases.max(1) as f64;
                metrics.insert("wear_ratio".to_owned(), ratio);
            }
        }
    }
    metrics.insert("copied_pages".to_owned(), copied_pages as f64);
    note_ratios(&mut metrics, whole);
    Ok(metrics)
}

fn note_ratios(metrics: &mut Metrics, whole: f64) {
    for mode in ["off", "on"] {
        let kept = metrics[&format!("mb_s.job.idle.{mode}")] / whole;
        metrics.insert(format!("kept.{mode}"), kept);
    }
    for name in ["idle", "bursts", "fills"] {
        let both = |mode: &str| {
            ["job", "owner"].map(|of| metrics[&format!("mb_s.{of}.{name}.{mode}")]).iter().sum()
        };
        let (off, on): (f64, f64) = (both("off"), both("on"));
        metrics.insert(format!("gain.{name}"), on / off);
        for metric in ["p50", "p99", "p999"].into_iter().filter(|_| name != "idle") {
            let by = |mode: &str| metrics[&format!("{metric}_us.{name}.{mode}")];
            let ratio = by("on") / by("off");
            metrics.insert(format!("{metric}_ratio.{name}"), ratio);
        }
    }
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for (name, when) in [("idle", "an idle neighbour"), ("bursts", "one that works in bursts")] {
        let gain = summary.get(&format!("gain.{name}"));
        checks = checks
            .exact(
                gain.min >= 1.3 && gain.max <= 2.0,
                format!("beside {when}, {:.2} times the bytes", gain.mean),
            )
            .shape(gain.mean > 1.05, format!("loans help beside {when}"));
    }
    for (name, when) in [("bursts", "in bursts"), ("fills", "while it calls blocks back")] {
        for metric in ["p50", "p99"] {
            let ratio = summary.get(&format!("{metric}_ratio.{name}"));
            checks = checks.exact(
                ratio.min >= 0.9 && ratio.max <= 1.1,
                format!("{metric} of the owner {when} {:.2} times that without", ratio.mean),
            );
        }
    }
    let (copied, wear) = (summary.max("copied_pages"), summary.get("wear_ratio"));
    let called_back = summary.get("called_back.fills").min;
    checks
        .exact(called_back >= 1.0, format!("at least {called_back:.0} blocks are called back"))
        .exact(copied <= 0.0, format!("{copied:.0} pages are copied"))
        .exact(
            (0.99..=1.01).contains(&wear.min) && (0.99..=1.01).contains(&wear.max),
            format!("the dies of the neighbour erase {:.2} times what is booked", wear.mean),
        )
        .note(format!(
            "of the bandwidth of all dies, the job has {:.2} without loans, {:.2} with them",
            summary.mean("kept.off"),
            summary.mean("kept.on")
        ))
        .judge()
}
