//! The reads of a search engine: those of the SPC's WebSearch traces, with the same arrival pattern.

use std::path::Path;

use larder_workload::trace::read_text;

use super::window::Window;
use crate::Error;
use crate::experiment::{Parameter, Settings};

/// Read sizes, and their frequency in thousandths. Nearly all requests of the WebSearch trace are reads of 8 to 32 KiB.
const SIZES: [(u64, u32); 4] = [(8 << 10, 601), (16 << 10, 122), (24 << 10, 78), (32 << 10, 199)];

/// Reads a second.
pub(super) const SEARCHES: Parameter = Parameter {
    name: "searches",
    default: "8000",
    help: "reads of the search engine a second, 1 to 1000000; they do not wait for one another, and the run takes 1000 \
           of them or more",
};
/// A trace of such reads.
pub(super) const TRACE: Parameter = Parameter {
    name: "trace",
    default: "",
    help: "file of `ns device sector sectors 1=read` lines whose reads are played so fast that `searches` come a \
           second; without one they come at random, of the sizes of the WebSearch trace",
};

/// Largest text of a trace: some millions of requests.
const TRACE_BYTES_MAX: usize = 1 << 28;

/// Reads of which ten are slower than p99.
const READS_MIN: f64 = 1000.0;

/// Open-loop reads: they arrive at their own rate.
#[derive(Debug, Clone)]
pub(super) struct Search {
    arrivals: Arrivals,
}

#[derive(Debug, Clone)]
enum Arrivals {
    /// At random, with this number of reads a second.
    Random(f64),
    /// As recorded, but faster, and repeated from the start: nanoseconds to the next read, and bytes.
    Recorded { requests: Vec<(u64, u64)>, next: usize },
}

impl Search {
    /// Random (Poisson) arrivals, `per_s` a second, with the sizes of the trace.
    pub(super) fn random(per_s: f64) -> Self {
        Self { arrivals: Arrivals::Random(per_s) }
    }

    /// The reads that the settings describe, of which enough for a p99 come in `window`.
    pub(super) fn of(settings: &Settings, window: Window) -> Result<Self, Error> {
        let per_s = settings.within(SEARCHES.name, 1.0..=1e6)?;
        let reads = per_s * window.seconds();
        if reads < READS_MIN {
            let complaint = format!(
                "{reads:.0} reads in the measured time say nothing of a p99: take {READS_MIN} or more, or more seconds"
            );
            return Err(settings.refuse(SEARCHES.name, settings.text(SEARCHES.name), &complaint));
        }
        match settings.text(TRACE.name) {
            "" => Ok(Self::random(per_s)),
            path => Self::recorded(path, per_s),
        }
    }

    /// The reads of a trace in MQSim's format (`ns device sector sectors 1=read`), sped up to `per_s` reads a second.
    pub(super) fn recorded(path: &str, per_s: f64) -> Result<Self, Error> {
        let fail = |why: String| Error::usage(format!("--set trace={path}: {why}"));
        let text = read_text(Path::new(path), TRACE_BYTES_MAX)?;
        let mut reads = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let fields: Option<Vec<u64>> =
                line.split_whitespace().map(|field| field.parse().ok()).collect();
            match fields.as_deref() {
                Some(&[at, _, _, sectors, kind]) if (1..=256).contains(&sectors) => {
                    if kind == 1 {
                        reads.push((at, (sectors * 512).next_multiple_of(4096)));
                    }
                }
                Some(&[_, _, _, _, _]) => {}
                _ => {
                    return Err(fail(format!(
                        "line {number}: not `ns device sector sectors 1=read`"
                    )));
                }
            }
        }
        let (Some(&(first, _)), Some(&(last, _))) = (reads.first(), reads.last()) else {
            return Err(fail("it has no reads".to_owned()));
        };
        let recorded_ns = last.saturating_sub(first).max(1) as f64;
        let faster = per_s * recorded_ns / 1e9 / reads.len() as f64;
        let gaps = reads.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).chain([0]);
        let requests =
            gaps.zip(&reads).map(|(gap, &(_, bytes))| (scaled(gap, 1.0 / faster), bytes));
        Ok(Self { arrivals: Arrivals::Recorded { requests: requests.collect(), next: 0 } })
    }

    /// Returns the time until the next read, and the bytes of this one.
    pub(super) fn next(&mut self, rng: &mut fastrand::Rng) -> (u64, u64) {
        match &mut self.arrivals {
            Arrivals::Random(per_s) => {
                let wait_ns = -rng.f64().max(f64::MIN_POSITIVE).ln() * 1e9 / *per_s;
                let mut part = rng.u32(..1000);
                let size = SIZES.iter().find(|(_, parts)| {
                    let found = part < *parts;
                    part = part.saturating_sub(*parts);
                    found
                });
                (scaled(1, wait_ns), size.map_or(32 << 10, |(bytes, _)| *bytes))
            }
            Arrivals::Recorded { requests, next } => {
                let request = requests[*next];
                *next = (*next + 1) % requests.len();
                request
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)] // never negative
fn scaled(ns: u64, by: f64) -> u64 {
    (ns as f64 * by) as u64
}
