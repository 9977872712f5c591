//! The page of a replay: its layout.

use super::markup::Markup;
use super::page::{self, section};
use super::{figures, finding, tables, units};
use crate::replay::outcome::Outcome;

/// The whole page.
pub(super) fn render(outcome: &Outcome) -> String {
    let title = format!("Larder {}", outcome.command);
    page::document(&title, |out| content(out, &title, outcome))
}

fn content(out: &mut Markup, title: &str, outcome: &Outcome) {
    let runs = &outcome.runs;
    page::header(out, title, &finding::sentence(runs), &finding::notes(runs));
    if !runs.is_empty() {
        section(out, "Summary", |out| tables::summary(out, runs));
        section(out, "Over time", |out| figures::over_time(out, runs));
        section(out, "What the cache wrote", |out| figures::streams(out, runs));
        section(out, "The drive at the end", |out| units::drives(out, runs));
    }
    section(out, "How to reproduce", |out| {
        let lead = "The same parameters and seed give the same numbers to the byte; only requests \
                    per second differ.";
        let outcome = (outcome.command, &outcome.parameters, outcome.seed);
        tables::reproduce(out, lead, outcome);
    });
    page::terms(out);
}
