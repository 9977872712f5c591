//! `LATENCY`: we keep no latency spikes by event. The slow log and the metrics have the times of requests.

use super::context::{Context, unknown_subcommand, wrong_arity};
use super::parse::Arguments;
use super::write::{Outcome, Refusal};

/// `LATENCY`.
pub(super) fn latency(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    if &*sub != b"HELP" {
        cx.needs_admin("latency")?;
    }
    match (&*sub, argv.len()) {
        (b"LATEST", 2) | (b"HISTORY", 3) => cx.out.array(0),
        (b"RESET", _) => cx.out.integer(0),
        (b"HISTOGRAM", _) => cx.out.map(0),
        (b"DOCTOR", 2) => cx.out.verbatim(
            "Events are not watched one by one. SLOWLOG GET has the requests that took long, and the metrics of the \
             cache have percentiles of its reads and writes.\n",
        ),
        (b"GRAPH", 3) => {
            let event = super::context::shown(argv.get(2));
            return Err(Refusal::Said(format!("ERR No samples available for event '{event}'")));
        }
        (b"HELP", 2) => cx.help("LATENCY", &[
            "DOCTOR",
            "    Where to look.",
            "HISTOGRAM, HISTORY <event>, LATEST, RESET",
            "    Nothing: events are not watched.",
        ]),
        (b"HISTORY" | b"GRAPH", _) => {
            let sub = String::from_utf8_lossy(&sub).to_lowercase();
            return Err(wrong_arity(&format!("latency|{sub}")));
        }
        _ => return Err(unknown_subcommand("LATENCY", argv.get(1))),
    }
    Ok(())
}
