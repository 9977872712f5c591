//! Four tenants of different size: own channels against limits on shared ones.

use super::drive::{BLOCKS_PER_DIE, Drive, FOUR_PLANES, Kind, SECONDS};
use super::run::Beside;
use super::tenant::Pattern;
use super::window::Window;
use crate::Error;
use crate::experiment::judge::{Checks, SAME};
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;
use larder_ssd::timed::DieService;

pub(in crate::experiment) static HARDWARE_VS_SOFTWARE: Experiment = Experiment {
    name: "hardware-vs-software",
    title: "four tenants with 1, 2, 2 and 3 of 8 channels, against the same shares of time or of bytes",
    reproduces: "FlashBlox (FAST'17), Figure 1: pinning to channels against rate limits",
    criterion: "throughput of all tenants with channels of their own by that with limits within 15 % of the paper's, \
                and p99 with limits by that with own channels two thirds to 1.5 times the paper's ratio of latencies; \
                limits give each tenant its weight of all bytes, within 15 %",
    parameters: &[FOUR_PLANES, SECONDS],
    metrics: &[
        (
            "p99_us.*",
            "p99 of the requests of all four, by kind: channel, software (weights), bucket (limits of bytes by weight)",
        ),
        ("mean_us.*", "their mean"),
        ("mb_s.*", "MB/s of all four"),
        ("tenant_mb_s.*", "of each, by kind and tenant: 1 and 3 read, 2 and 4 write, 64 KiB each"),
        ("p99_ratio.*", "p99 by that with own channels"),
        ("mean_ratio.*", "mean by that with own channels"),
        ("gain.*", "MB/s of all four with own channels by that with this kind"),
    ],
    references: &[
        Reference::published(
            "p99_ratio.bucket",
            1.7,
            "Figure 1: latency 1.7 times lower on pinned channels",
        ),
        Reference::published(
            "mean_ratio.bucket",
            1.7,
            "Figure 1, if its latency is the mean: not with as many requests always in flight",
        ),
        Reference::published(
            "gain.bucket",
            1.108,
            "Figure 1: 10.8 % more throughput on pinned channels",
        ),
    ],
    needs: &[
        "gain.bucket",
        "p99_ratio.bucket",
        "tenant_mb_s.bucket.1",
        "tenant_mb_s.bucket.2",
        "tenant_mb_s.bucket.3",
        "tenant_mb_s.bucket.4",
    ],
    measure,
    judge,
};

/// For each tenant: eighths of the channels, and whether it reads. Below: requests in flight for each eighth.
const TENANTS: [(u32, bool); 4] = [(1, true), (2, false), (2, true), (3, false)];
const DEPTH: usize = 8;
/// Channels of the figure's drive: those of the tenants.
const CHANNELS: u32 = 8;

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let (mut metrics, window) = (Metrics::new(), Window::of(settings)?);
    // In order: else the channels of the model are not full of reads, however many there are.
    let drive = Drive::with(settings, CHANNELS, DieService::InOrder, BLOCKS_PER_DIE)?;
    let kinds = [Kind::Channel, Kind::Software, Kind::Bucket];
    for kind in kinds {
        let tenants = TENANTS.map(|(eighths, reads)| {
            let depth = DEPTH * eighths as usize;
            let bytes = 64 << 10;
            let pattern =
                if reads { Pattern::Read(bytes, depth) } else { Pattern::Write(bytes, depth) };
            (eighths, eighths, pattern)
        });
        let mut seen = Beside::new(&drive, kind, &tenants, seed)?.measure(window, monitor)?;
        for (number, seen) in (1..).zip(&seen) {
            metrics.insert(format!("tenant_mb_s.{}.{number}", kind.name()), seen.mb_s(window));
        }
        let mut all = seen.remove(0);
        seen.into_iter().for_each(|other| all.add(other));
        let mean = all.took.iter().sum::<u64>() as f64 / all.took.len() as f64 / 1000.0;
        metrics.insert(format!("mb_s.{}", kind.name()), all.mb_s(window));
        metrics.insert(format!("mean_us.{}", kind.name()), mean);
        metrics.insert(format!("p99_us.{}", kind.name()), all.quantile_us(0.99));
    }
    for kind in kinds.map(Kind::name) {
        let by = |metric: &str, kind: &str| metrics[&format!("{metric}.{kind}")];
        let ratios = [
            ("p99_ratio", by("p99_us", kind) / by("p99_us", "channel")),
            ("mean_ratio", by("mean_us", kind) / by("mean_us", "channel")),
            ("gain", by("mb_s", "channel") / by("mb_s", kind)),
        ];
        metrics.extend(ratios.map(|(name, value)| (format!("{name}.{kind}"), value)));
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |name: &str| summary.mean(name);
    let references = HARDWARE_VS_SOFTWARE.references;
    let (p99, gain) = (mean("p99_ratio.bucket"), mean("gain.bucket"));
    let by_tenant = [1, 2, 3, 4].map(|tenant| mean(&format!("tenant_mb_s.bucket.{tenant}")));
    let all: f64 = by_tenant.iter().sum();
    let weighted = |(mb_s, (eighths, _)): (&f64, (u32, bool))| {
        (mb_s / all / (f64::from(eighths) / 8.0) - 1.0).abs() <= SAME
    };
    Checks::default()
        .near("throughput, own channels by limits", gain, references, "gain.bucket", SAME)
        .times("p99, limits by own channels", p99, references, "p99_ratio.bucket", 1.5)
        .exact(
            by_tenant.iter().zip(TENANTS).all(weighted),
            format!("MB/s of each with limits: {by_tenant:.0?}, weights 1, 2, 2, 3"),
        )
        .shape(gain > 1.0 && p99 > 1.0, "own channels give more and shorten the tail")
        .note(format!(
            "as many requests are always in flight, so the ratio of mean latencies, {:.2}, is that of throughput: the \
             paper's 1.7 is judged as that of tails",
            mean("mean_ratio.bucket")
        ))
        .note(format!(
            "against shares of time p99 is {:.2} times, throughput {:.2} times",
            mean("p99_ratio.software"),
            mean("gain.software")
        ))
        .judge()
}
