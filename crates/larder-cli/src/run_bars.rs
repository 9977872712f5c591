//! Progress bars of the runs with and without placement.

use indicatif::{MultiProgress, ProgressBar};
use larder_lab::replay::Monitor;

use crate::bars::{bar, set, while_working};

/// Runs `work` while bars show the progress of the runs of `monitor`. Draws nothing if standard error is not a
/// terminal.
pub(crate) fn watch<T: Send>(
    monitor: &Monitor,
    placements: &[bool],
    work: impl FnOnce() -> T + Send,
) -> T {
    let all = MultiProgress::new();
    let bars: Vec<(bool, ProgressBar)> = placements
        .iter()
        .map(|&placement| {
            (placement, all.add(bar(if placement { "placement on" } else { "placement off" })))
        })
        .collect();
    while_working(
        || bars.iter().for_each(|(placement, bar)| draw(monitor, *placement, bar)),
        || bars.iter().for_each(|(_, bar)| bar.finish_and_clear()),
        work,
    )
}

fn draw(monitor: &Monitor, placement: bool, bar: &ProgressBar) {
    let run = monitor.run(placement);
    set(bar, run.requests(), run.share());
}
