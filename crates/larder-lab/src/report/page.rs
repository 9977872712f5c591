//! The order of things on the page.

use super::markup::Markup;
use super::{figures, finding, tables, units};
use crate::replay::outcome::Outcome;

/// Colours, type and layout.
const STYLE: &str = include_str!("style.css");

/// Words of the field that the page uses.
const TERMS: [(&str, &str); 8] = [
    (
        "DLWA",
        "device-level write amplification: bytes that the drive writes to flash for each byte that \
         the host writes to the drive. Garbage collection makes the difference; 1 is the least.",
    ),
    (
        "ALWA",
        "application-level write amplification: bytes that the cache writes to the drive for each \
         byte of keys and values admitted to flash.",
    ),
    ("SOC", "the small-object engine: 4 KiB buckets, written in place, so pages die at random."),
    ("LOC", "the large-object engine: a log, written and dropped in order."),
    (
        "metadata",
        "what the cache writes about itself, so that it finds everything again after a restart.",
    ),
    ("RU", "reclaim unit: the pages that the drive erases together."),
    (
        "placement",
        "telling the drive with each write which stream it belongs to (NVMe Flexible Data \
         Placement), so that a reclaim unit holds bytes that die together.",
    ),
    ("warm-up", "the part of a run while caches fill: drawn, but not part of the summary."),
];

/// The whole page.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut out = Markup::document();
    let title = format!("Larder {}", outcome.command);
    out.tag("html", &[("lang", &"en"), ("xmlns", &"http://www.w3.org/1999/xhtml")], |out| {
        out.tag("head", &[], |out| {
            out.empty("meta", &[("charset", &"utf-8")]);
            let viewport = "width=device-width, initial-scale=1";
            out.empty("meta", &[("name", &"viewport"), ("content", &viewport)]);
            out.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
            out.leaf("title", &[], &title);
            out.style(STYLE);
        });
        out.tag("body", &[], |out| out.tag("main", &[], |out| content(out, &title, outcome)));
    });
    out.finish()
}

fn content(out: &mut Markup, title: &str, outcome: &Outcome) {
    let runs = &outcome.runs;
    out.tag("header", &[], |out| {
        out.leaf("h1", &[], title);
        out.leaf("p", &[("class", &"finding")], &finding::sentence(runs));
        for note in finding::notes(runs) {
            out.leaf("p", &[("class", &"lead")], &note);
        }
    });
    if !runs.is_empty() {
        section(out, "Summary", |out| tables::summary(out, runs));
        section(out, "Over time", |out| figures::over_time(out, runs));
        section(out, "What the cache wrote", |out| figures::streams(out, runs));
        section(out, "The drive at the end", |out| units::drives(out, runs));
    }
    section(out, "How to reproduce", |out| {
        let lead = "The same parameters and seed give the same numbers to the byte; only requests \
                    per second differ.";
        out.leaf("p", &[("class", &"lead")], lead);
        out.tag("pre", &[], |out| out.leaf("code", &[], &tables::command_line(outcome)));
        tables::parameters(out, outcome);
    });
    section(out, "Terms", |out| {
        out.tag("dl", &[], |out| {
            for (term, meaning) in TERMS {
                out.leaf("dt", &[], term);
                out.leaf("dd", &[], meaning);
            }
        });
    });
    let maker = format!("Made by larder {}.", env!("CARGO_PKG_VERSION"));
    out.leaf("footer", &[], &maker);
}

fn section(out: &mut Markup, title: &str, content: impl FnOnce(&mut Markup)) {
    out.tag("section", &[], |out| {
        out.leaf("h2", &[], title);
        content(out);
    });
}
