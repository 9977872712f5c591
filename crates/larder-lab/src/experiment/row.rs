//! The parts of an experiment.

use super::judge::Judgement;
use super::measured::{Metrics, Reference, Summary};
use super::settings::{Parameter, Settings};
use crate::Error;
use crate::replay::Monitor;

/// One experiment: data and two functions.
#[derive(Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One line about what it shows.
    pub title: &'static str,
    /// Which figure, table or section it reproduces.
    pub reproduces: &'static str,
    /// The criterion for "reproduced", in words.
    pub criterion: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Its metrics: stable names and their meaning. A name that ends with `.*` stands for a series.
    pub metrics: &'static [(&'static str, &'static str)],
    /// The values that its metrics are compared with.
    pub references: &'static [Reference],
    /// The metrics without which the result is not judged.
    pub needs: &'static [&'static str],
    /// Runs all measurements for one seed.
    pub measure: fn(&Settings, u64, &Monitor) -> Result<Metrics, Error>,
    /// Judges the measurements of all seeds; see [`judge`](super::judge).
    pub judge: fn(&Summary) -> Judgement,
}
