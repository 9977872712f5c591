//! How a neighbour affects a reader's latency, by what they share and by the scheduling of the dies.

use super::drive::{BLOCKS_PER_DIE, CHANNELS, Drive, FOUR_PLANES, Kind, SECONDS, SERVICES};
use super::run::Beside;
use super::search::{SEARCHES, Search, TRACE};
use super::tenant::{Pattern, TenantResult};
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;

const PAPER: &str = "abstract: up to 3.1 times lower tail latency than software isolation";

/// The paper does not say how its dies serve, so its number is compared with all.
const fn paper(metric: &'static str) -> Reference {
    Reference::published(metric, 3.1, PAPER)
}

pub(in crate::experiment) static ISOLATION_LATENCY: Experiment = Experiment {
    name: "isolation-latency",
    title: "what a reader sees of a writer beside it, on channels, dies and time of its own and on shared ones",
    reproduces: "FlashBlox (FAST'17), abstract and section 4.2: tail latency by kind of isolation",
    criterion: "however dies serve: p99 of the 64 KiB reader with a fair share by that with channels of its own is two \
                thirds to 1.5 times the paper's; p99 of readers with own channels at most that with own dies, at \
                most that with a fair share, at most that with nothing of their own, each within 5 %; in order, the \
                sequential tenant loses at most 60 % of its bandwidth by own channels and at most 10 % by a fair \
                share; weights of 1 to 3 give shares within 5 %, and a tenant alone has at least 95 % of all",
    parameters: &[CHANNELS, FOUR_PLANES, SECONDS, SEARCHES, TRACE],
    metrics: &[
        (
            "p99_us.*",
            "99 % of the reader's requests take at most so long, by its neighbour, how dies serve, and kind of vSSD: \
             rw (64 KiB reads, 4 at a time, beside 64 KiB writes, 16 at a time), search (a search engine's beside \
             1 MiB reads and writes in order, 4 at a time)",
        ),
        ("p50_us.*", "half of them"),
        (
            "p99_us.like.*",
            "of two alike that read and overwrite objects of 64 KiB in a log that they clean, 4 at a time each, both \
             together",
        ),
        ("mb_s.*", "MB/s of the neighbour; of both that are alike"),
        ("p99_ratio.*", "p99 by that with own channels"),
        ("kept.*", "bandwidth of the sequential neighbour by that with nothing of its own"),
        (
            "share.*",
            "of two that write all they can, the share of the one of weight 3, with own time",
        ),
        ("alone.*", "bandwidth of one that is alone with its time by that of the whole drive"),
    ],
    references: &[
        paper("p99_ratio.rw.in_order.software"),
        paper("p99_ratio.rw.reads_first.software"),
        paper("p99_ratio.rw.reads_suspend.software"),
    ],
    needs: &[
        "p99_ratio.rw.in_order.software",
        "p99_ratio.rw.reads_first.software",
        "p99_ratio.rw.reads_suspend.software",
        "p99_ratio.search.in_order.none",
        "p99_ratio.search.reads_first.none",
        "p99_ratio.search.reads_suspend.none",
        "kept.in_order.channel",
        "kept.in_order.software",
        "share.in_order",
        "alone.in_order",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    let window = Window::of(settings)?;
    let search = Search::of(settings, window)?;
    for (name, service) in SERVICES {
        let drive = Drive::new(settings, service, BLOCKS_PER_DIE)?;
        let pairs = [
            ("rw", Pattern::Read(64 << 10, 4), Pattern::Write(64 << 10, 16)),
            ("search", Pattern::Search(search.clone()), Pattern::Job(1 << 20, 4)),
        ];
        for (pair, reader, neighbour) in pairs {
            for kind in Kind::ALL {
                let tenants = [(4, 1, reader.clone()), (4, 1, neighbour.clone())];
                let mut beside = Beside::new(&drive, kind, &tenants, seed)?;
                let mut seen = beside.measure(window, monitor)?;
                let point = format!("{pair}.{name}.{}", kind.name());
                metrics.insert(format!("p99_us.{point}"), seen[0].quantile_us(0.99));
                metrics.insert(format!("p50_us.{point}"), seen[0].quantile_us(0.5));
                metrics.insert(format!("mb_s.{point}"), seen[1].mb_s(window));
            }
            let own = metrics[&format!("p99_us.{pair}.{name}.channel")];
            let all = metrics[&format!("mb_s.{pair}.{name}.none")];
            for kind in Kind::ALL.map(Kind::name) {
                let p99 = metrics[&format!("p99_us.{pair}.{name}.{kind}")];
                metrics.insert(format!("p99_ratio.{pair}.{name}.{kind}"), p99 / own);
                if pair == "search" {
                    let kept = metrics[&format!("mb_s.{pair}.{name}.{kind}")] / all;
                    metrics.insert(format!("kept.{name}.{kind}"), kept);
                }
            }
        }
        note_alike(&mut metrics, name, &drive, window, seed, monitor)?;
        note_shares(&mut metrics, name, &drive, window, seed, monitor)?;
    }
    Ok(metrics)
}

/// Two equal tenants: log-structured stores that clean. The criterion demands nothing of them, because a tenant that
/// shares dies can use more of them while the other waits.
fn note_alike(
    metrics: &mut Metrics,
    name: &str,
    drive: &Drive,
    window: Window,
    seed: u64,
    monitor: &Monitor,
) -> Result<(), Error> {
    let like = || (4, 1, Pattern::Objects(64 << 10, 4));
    for kind in Kind::ALL {
        let mut beside = Beside::new(drive, kind, &[like(), like()], seed)?;
        let mut both = TenantResult::default();
        beside.measure(window, monitor)?.into_iter().for_each(|seen| both.add(seen));
        let point = format!("like.{name}.{}", kind.name());
        metrics.insert(format!("p99_us.{point}"), both.quantile_us(0.99));
        metrics.insert(format!("p50_us.{point}"), both.quantile_us(0.5));
        metrics.insert(format!("mb_s.{point}"), both.mb_s(window));
    }
    Ok(())
}

/// Shares by weight, and the throughput of a tenant that is alone.
fn note_shares(
    metrics: &mut Metrics,
    name: &str,
    drive: &Drive,
    window: Window,
    seed: u64,
    monitor: &Monitor,
) -> Result<(), Error> {
    let writer = || Pattern::Write(64 << 10, 128);
    let made = |kind, tenants: &[(u32, u32, Pattern)]| {
        let seen = Beside::new(drive, kind, tenants, seed)?.measure(window, monitor)?;
        Ok::<Vec<f64>, Error>(seen.iter().map(|seen| seen.mb_s(window)).collect())
    };
    let both = made(Kind::Software, &[(4, 1, writer()), (4, 3, writer())])?;
    metrics.insert(format!("share.{name}"), both[1] / (both[0] + both[1]));
    let alone = made(Kind::Software, &[(4, 1, writer()), (4, 3, Pattern::Idle)])?;
    let whole = made(Kind::Shared, &[(4, 1, writer()), (4, 1, Pattern::Idle)])?;
    metrics.insert(format!("alone.{name}"), alone[0] / whole[0]);
    Ok(())
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for (service, _) in SERVICES {
        let name = format!("p99_ratio.rw.{service}.software");
        let what = format!("{service}: p99 beside a writer, fair share by channels");
        let references = ISOLATION_LATENCY.references;
        checks = checks.times(&what, summary.mean(&name), references, &name, 1.5);
        for pair in ["rw", "search"] {
            let ratio = |kind: &str| summary.mean(&format!("p99_ratio.{pair}.{service}.{kind}"));
            let [die, software, none] = ["die", "software", "none"].map(ratio);
            let ordered = die >= 0.95 && die <= software * 1.05 && software <= none * 1.05;
            checks = checks.shape(
                ordered && none > 1.05,
                format!(
                    "{service}, {pair}: p99 with own dies, time, nothing {die:.2}, {software:.2}, {none:.2} times \
                     that with channels"
                ),
            );
        }
    }
    let kept = |kind: &str| summary.mean(&format!("kept.in_order.{kind}"));
    let (share, alone) = (summary.mean("share.in_order"), summary.mean("alone.in_order"));
    checks
        .exact(
            kept("channel") >= 0.4,
            format!(
                "own channels leave the sequential tenant {:.2} of its bandwidth",
                kept("channel")
            ),
        )
        .exact(kept("software") >= 0.9, format!("a fair share leaves it {:.2}", kept("software")))
        .exact((share / 0.75 - 1.0).abs() <= 0.05, format!("weight 3 beside 1 has {share:.3}"))
        .exact(alone >= 0.95, format!("alone has {alone:.3} of all"))
        .note(format!("with token buckets the sequential tenant keeps {:.2}", kept("bucket")))
        .judge()
}
