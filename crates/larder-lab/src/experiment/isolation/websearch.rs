//! A search engine next to a job that reads and writes as fast as it can.

use larder_ssd::timed::DieService;

use super::drive::{BLOCKS_PER_DIE, CHANNELS, Drive, Kind, PLANES, SECONDS};
use super::run::Beside;
use super::search::{SEARCHES, Search, TRACE};
use super::tenant::Pattern;
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;

const PAPER: &str = "section 4.2: web search and map-reduce";

const fn paper(metric: &'static str, value: f64) -> Reference {
    Reference::published(metric, value, PAPER)
}

pub(in crate::experiment) static WEBSEARCH_MAPREDUCE: Experiment = Experiment {
    name: "websearch-mapreduce",
    title: "a search engine's tail and a job's bandwidth, with own channels, limits, and nothing of their own",
    reproduces: "FlashBlox (FAST'17), section 4.2: WebSearch and MapReduce beside one another",
    criterion: "with nothing of its own the job has most and the search engine waits longest; with own channels its \
                tail is at least 2 times shorter, and the job loses at most 60 % of its bandwidth; with limits the \
                job has less than with own channels",
    parameters: &[CHANNELS, PLANES, SECONDS, SEARCHES, TRACE],
    metrics: &[
        (
            "p99_us.*",
            "p99 of the search engine, by kind: channel, die, software (weights), bucket (limits), none",
        ),
        ("p999_us.*", "its p99.9"),
        ("mb_s.*", "MB/s of the job, half of it read"),
        ("tail.*", "p99 by that with own channels"),
        ("lost.*", "share of the job's bandwidth that is lost against nothing of its own"),
    ],
    references: &[
        paper("tail.none", 2.0),
        paper("lost.channel", 0.36),
        paper("tail.bucket", 1.0),
        Reference::published("lost.bucket", 0.75, "section 4.2: more than 4 times lower"),
    ],
    needs: &["p99_us.channel", "p99_us.none", "lost.channel", "lost.bucket", "mb_s.channel"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let (mut metrics, window) = (Metrics::new(), Window::of(settings)?);
    let drive = Drive::new(settings, DieService::InOrder, BLOCKS_PER_DIE)?;
    let search = Pattern::Search(Search::of(settings)?);
    for kind in Kind::ALL {
        let tenants = [(4, 1, search.clone()), (4, 1, Pattern::Job(1 << 20, 4))];
        let mut seen = Beside::new(&drive, kind, &tenants, seed)?.measure(window, monitor)?;
        metrics.insert(format!("p99_us.{}", kind.name()), seen[0].quantile_us(0.99));
        metrics.insert(format!("p999_us.{}", kind.name()), seen[0].quantile_us(0.999));
        metrics.insert(format!("mb_s.{}", kind.name()), seen[1].mb_s(window));
    }
    for kind in Kind::ALL.map(Kind::name) {
        let by = |metric: &str, kind: &str| metrics[&format!("{metric}.{kind}")];
        let tail = by("p99_us", kind) / by("p99_us", "channel");
        let lost = 1.0 - by("mb_s", kind) / by("mb_s", "none");
        metrics.insert(format!("tail.{kind}"), tail);
        metrics.insert(format!("lost.{kind}"), lost);
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |name: &str| summary.mean(name);
    let most = Kind::ALL
        .iter()
        .all(|kind| mean("mb_s.none") * 1.05 >= mean(&format!("mb_s.{}", kind.name())));
    let longest = Kind::ALL
        .iter()
        .all(|kind| mean("p99_us.none") * 1.05 >= mean(&format!("p99_us.{}", kind.name())));
    let (tail, lost, limited) = (mean("tail.none"), mean("lost.channel"), mean("lost.bucket"));
    Checks::default()
        .exact(most && longest, "nothing of their own: most bandwidth, longest tail")
        .exact(tail >= 2.0, format!("own channels: the tail is {tail:.1} times shorter"))
        .exact((0.0..=0.6).contains(&lost), format!("the job loses {:.0} % of its bandwidth", lost * 100.0))
        .exact((lost..=1.0).contains(&limited), format!("with limits it loses {:.0} %", limited * 100.0))
        .shape(tail > 1.0, "own channels shorten the tail")
        .note(format!(
            "a fair share of time costs the job {:.0} %, and the tail is {:.1} times that with own channels; with \
             limits it is {:.1} times, and the paper has it the same",
            mean("lost.software") * 100.0,
            mean("tail.software"),
            mean("tail.bucket")
        ))
        .judge()
}
