//! What an experiment is made of.

use super::judge::Judgement;
use super::measured::{Metrics, PaperValue, Summary};
use super::settings::{Parameter, Settings};
use crate::Error;
use crate::replay::Monitor;

/// One experiment: data, and two functions.
#[derive(Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Which figure, table or section it reproduces.
    pub reproduces: &'static str,
    /// When it counts as reproduced, in words.
    pub criterion: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// What it measures: the stable names of its metrics and what they mean. A name that ends with
    /// `.*` stands for a series.
    pub metrics: &'static [(&'static str, &'static str)],
    /// What the paper says, by metric.
    pub paper: &'static [PaperValue],
    /// The metrics without which there is no judging.
    pub needs: &'static [&'static str],
    /// Measures everything once.
    pub measure: fn(&Settings, u64, &Monitor) -> Result<Metrics, Error>,
    /// Judges what was measured over all seeds; see [`judge`](super::judge).
    pub judge: fn(&Summary) -> Judgement,
}
