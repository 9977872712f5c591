//! The common parts of pages: the document, sections, and explanations of terms.

use super::markup::Markup;

/// Colours, type and layout.
const STYLE: &str = include_str!("style.css");

/// Technical terms that pages use.
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

/// A whole document, with the content in its `main`.
pub(super) fn document(title: &str, content: impl FnOnce(&mut Markup)) -> String {
    let mut out = Markup::document();
    out.tag("html", &[("lang", &"en"), ("xmlns", &"http://www.w3.org/1999/xhtml")], |out| {
        out.tag("head", &[], |out| {
            out.empty("meta", &[("charset", &"utf-8")]);
            let viewport = "width=device-width, initial-scale=1";
            out.empty("meta", &[("name", &"viewport"), ("content", &viewport)]);
            out.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
            out.leaf("title", &[], title);
            out.style(STYLE);
        });
        out.tag("body", &[], |out| {
            out.tag("main", &[], |out| {
                content(out);
                let maker = format!("Made by larder {}.", env!("CARGO_PKG_VERSION"));
                out.leaf("footer", &[], &maker);
            });
        });
    });
    out.finish()
}

/// The head of the page: title, result in a sentence, and notes.
pub(super) fn header(out: &mut Markup, title: &str, finding: &str, notes: &[String]) {
    out.tag("header", &[], |out| {
        out.leaf("h1", &[], title);
        out.leaf("p", &[("class", &"finding")], finding);
        for note in notes {
            out.leaf("p", &[("class", &"lead")], note);
        }
    });
}

/// A section of the page under a heading.
pub(super) fn section(out: &mut Markup, title: &str, content: impl FnOnce(&mut Markup)) {
    out.tag("section", &[], |out| {
        out.leaf("h2", &[], title);
        content(out);
    });
}

/// The explanations of terms.
pub(super) fn terms(out: &mut Markup) {
    section(out, "Terms", |out| {
        out.tag("dl", &[], |out| {
            for (term, meaning) in TERMS {
                out.leaf("dt", &[], term);
                out.leaf("dd", &[], meaning);
            }
        });
    });
}
