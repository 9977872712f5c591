//! Four tenants of different size: own channels against limits on shared ones.

use super::drive::{BLOCKS_PER_DIE, CHANNELS, Drive, Kind, PLANES, SECONDS};
use super::run::Beside;
use super::tenant::Pattern;
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;
use larder_ssd::timed::DieService;

pub(in crate::experiment) static HARDWARE_VS_SOFTWARE: Experiment = Experiment {
    name: "hardware-vs-software",
    title: "four tenants with 1, 2, 2 and 3 of 8 channels, against the same shares of time or of requests",
    reproduces: "FlashBlox (FAST'17), Figure 1: pinning to channels against rate limits",
    criterion: "channels of their own: all tenants together at least what they have with limits, and p99 at least 1.3 \
                times lower",
    parameters: &[CHANNELS, PLANES, SECONDS],
    metrics: &[
        (
            "p99_us.*",
            "p99 of the requests of all four, by kind: channel, software (weights), bucket (limits)",
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
            "mean_ratio.bucket",
            1.7,
            "Figure 1: latency 1.7 times lower on pinned channels",
        ),
        Reference::published(
            "gain.bucket",
            1.108,
            "Figure 1: 10.8 % more throughput on pinned channels",
        ),
    ],
    needs: &["p99_us.channel", "p99_us.bucket", "p99_us.software", "mb_s.channel", "mb_s.bucket"],
    measure,
    judge,
};

/// For each tenant: eighths of the channels, and whether it reads. Below: requests in flight for each eighth.
const TENANTS: [(u32, bool); 4] = [(1, true), (2, false), (2, true), (3, false)];
const DEPTH: usize = 8;

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let (mut metrics, window) = (Metrics::new(), Window::of(settings)?);
    let drive = Drive::new(settings, DieService::InOrder, BLOCKS_PER_DIE)?;
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
    let (p99, gain) = (mean("p99_ratio.bucket"), mean("gain.bucket"));
    Checks::default()
        .exact(p99 >= 1.3, format!("p99 with limits {p99:.1} times that with own channels"))
        .exact(gain >= 1.0, format!("own channels make {gain:.2} times the MB/s of limits"))
        .shape(p99 > 1.0, "limits lengthen the tail")
        .note(format!(
            "shares of time: p99 {:.1} times, and own channels make {:.2} times their MB/s, for a fair share leaves \
             no time unused",
            mean("p99_ratio.software"),
            mean("gain.software")
        ))
        .judge()
}
