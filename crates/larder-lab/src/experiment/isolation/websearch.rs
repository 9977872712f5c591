//! A search engine next to a job that reads and writes as fast as it can.

use super::drive::{BLOCKS_PER_DIE, CHANNELS, Drive, FOUR_PLANES, Kind, SECONDS, SERVICES};
use super::run::Beside;
use super::search::{SEARCHES, Search, TRACE};
use super::tenant::Pattern;
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;

const PAPER: &str = "section 4.2: web search and map-reduce";
const KEPT: &str = "section 4.2: the job loses 36 % of its bandwidth, 1 / (1 - 0.36)";
const LIMITED: &str = "section 4.2: more than 4 times lower";

/// The paper does not say how its dies serve, so its numbers are compared with all.
const fn none(metric: &'static str) -> Reference {
    Reference::published(metric, 2.0, PAPER)
}

const fn bucket(metric: &'static str) -> Reference {
    Reference::published(metric, 1.0, PAPER)
}

const fn channel(metric: &'static str) -> Reference {
    Reference::derived(metric, 1.5625, KEPT)
}

const fn limited(metric: &'static str) -> Reference {
    Reference::published(metric, 4.0, LIMITED)
}

pub(in crate::experiment) static WEBSEARCH_MAPREDUCE: Experiment = Experiment {
    name: "websearch-mapreduce",
    title: "a search engine's tail and a job's bandwidth, with own channels, limits, and nothing of their own",
    reproduces: "FlashBlox (FAST'17), section 4.2: WebSearch and MapReduce beside one another",
    criterion: "however dies serve: the tail with nothing of its own and with limits, by that with own channels, and \
                the job's bandwidth with nothing of its own, by that with own channels and with limits, are two \
                thirds to 1.5 times the paper's; with nothing of its own the job has most and the tail is longest",
    parameters: &[CHANNELS, FOUR_PLANES, SECONDS, SEARCHES, TRACE],
    metrics: &[
        (
            "p99_us.*",
            "p99 of the search engine, by how dies serve and by kind: channel, die, software (weights), bucket (limits \
             of bytes), half (half those limits), none",
        ),
        ("p999_us.*", "its p99.9"),
        ("mb_s.*", "MB/s of the job, half of it read"),
        ("tail.*", "p99 by that with own channels"),
        ("slower.*", "the job's bandwidth with nothing of its own by that with this kind"),
    ],
    references: &[
        none("tail.in_order.none"),
        none("tail.reads_first.none"),
        none("tail.reads_suspend.none"),
        bucket("tail.in_order.bucket"),
        bucket("tail.reads_first.bucket"),
        bucket("tail.reads_suspend.bucket"),
        channel("slower.in_order.channel"),
        channel("slower.reads_first.channel"),
        channel("slower.reads_suspend.channel"),
        limited("slower.in_order.bucket"),
        limited("slower.reads_first.bucket"),
        limited("slower.reads_suspend.bucket"),
    ],
    needs: &[
        "tail.in_order.none",
        "tail.reads_first.none",
        "tail.reads_suspend.none",
        "tail.in_order.bucket",
        "tail.reads_first.bucket",
        "tail.reads_suspend.bucket",
        "slower.in_order.channel",
        "slower.reads_first.channel",
        "slower.reads_suspend.channel",
        "slower.in_order.bucket",
        "slower.reads_first.bucket",
        "slower.reads_suspend.bucket",
    ],
    measure,
    judge,
};

/// Kinds by name in metrics, and the part of the dies' program bandwidth that limits give. Equal weights and all of the
/// bandwidth are what the paper's text says; half of it shows what a lower rate does, for it names none.
const KINDS: [(&str, Kind, f64); 6] = [
    ("channel", Kind::Channel, 1.0),
    ("die", Kind::Die, 1.0),
    ("software", Kind::Software, 1.0),
    ("bucket", Kind::Bucket, 1.0),
    ("half", Kind::Bucket, 0.5),
    ("none", Kind::Shared, 1.0),
];

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let (mut metrics, window) = (Metrics::new(), Window::of(settings)?);
    let search = Pattern::Search(Search::of(settings, window)?);
    for (service, order) in SERVICES {
        let drive = Drive::new(settings, order, BLOCKS_PER_DIE)?;
        for (kind, shared, part) in KINDS {
            let tenants = [(4, 1, search.clone()), (4, 1, Pattern::Job(1 << 20, 4))];
            let mut beside = Beside::limited(&drive, (shared, part), &tenants, seed)?;
            let mut seen = beside.measure(window, monitor)?;
            let point = format!("{service}.{kind}");
            metrics.insert(format!("p99_us.{point}"), seen[0].quantile_us(0.99));
            metrics.insert(format!("p999_us.{point}"), seen[0].quantile_us(0.999));
            metrics.insert(format!("mb_s.{point}"), seen[1].mb_s(window));
        }
        for (kind, ..) in KINDS {
            let by = |metric: &str, kind: &str| metrics[&format!("{metric}.{service}.{kind}")];
            let tail = by("p99_us", kind) / by("p99_us", "channel");
            let slower = by("mb_s", "none") / by("mb_s", kind);
            metrics.insert(format!("tail.{service}.{kind}"), tail);
            metrics.insert(format!("slower.{service}.{kind}"), slower);
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    let mut half = Vec::new();
    for (service, _) in SERVICES {
        let mean = |name: &str, kind: &str| summary.mean(&format!("{name}.{service}.{kind}"));
        let (tail, slower) = (mean("tail", "none"), mean("slower", "channel"));
        for (what, metric, kind) in [
            ("tail with nothing of its own", "tail", "none"),
            ("tail with limits", "tail", "bucket"),
            ("job with own channels slower", "slower", "channel"),
            ("job with limits slower", "slower", "bucket"),
        ] {
            let name = format!("{metric}.{service}.{kind}");
            let what = format!("{service}: {what}");
            let references = WEBSEARCH_MAPREDUCE.references;
            checks = checks.times(&what, summary.mean(&name), references, &name, 1.5);
        }
        checks = checks.shape(
            tail > 1.05 && tail * 1.05 >= mean("tail", "bucket") && slower > 1.0,
            format!("{service}: with nothing of its own the tail is longest, and the job has most"),
        );
        let (slower, tail) = (mean("slower", "half"), mean("tail", "half"));
        half.push(format!("{slower:.1} and {tail:.1} {service}"));
    }
    checks
        .note(format!(
            "the paper names no rate of its limits; with half of these the job is slower, and the tail longer than \
             with own channels, by {}",
            half.join(", ")
        ))
        .judge()
}
