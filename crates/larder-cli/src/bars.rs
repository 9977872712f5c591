//! Progress bars on a terminal, with rate and remaining time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{prefix:14} {wide_bar} {percent:>3} %  {msg}  {eta:>4} left";
/// Steps of a bar. Bars show shares, not requests, since the number of requests in a trace is not known.
const STEPS: u64 = 10_000;

/// Runs `work` while a bar shows the result of `share`: the share that is done, and a message.
pub(crate) fn watch_share<T: Send>(
    name: &'static str,
    share: &(dyn Fn() -> (f64, String) + Sync),
    work: impl FnOnce() -> T + Send,
) -> T {
    let bar = bar(name);
    let draw = || {
        let (share, message) = share();
        set_share(&bar, share, message);
    };
    draw();
    while_working(draw, || bar.finish_and_clear(), work)
}

/// Runs `work`. Until it ends, even by a panic, calls `draw` every 200 ms; then calls `clear`.
pub(crate) fn while_working<T: Send>(
    draw: impl Fn() + Send,
    clear: impl FnOnce() + Send,
    work: impl FnOnce() -> T + Send,
) -> T {
    let (finished, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                draw();
            }
            clear();
        });
        // Dropped when the work ends; the drawing ends then.
        let _finished = finished;
        work()
    })
}

/// A bar with this name.
pub(crate) fn bar(name: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(TEMPLATE)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─");
    let bar = ProgressBar::new(STEPS).with_style(style).with_prefix(name);
    bar.enable_steady_tick(TICK);
    bar
}

/// Moves a bar that counts requests.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(crate) fn set(bar: &ProgressBar, requests: u64, share: f64) {
    let seconds = bar.elapsed().as_secs_f64().max(0.001);
    let rate = HumanCount((requests as f64 / seconds) as u64);
    set_share(bar, share, format!("{rate} requests/s"));
}

/// Moves a bar.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(crate) fn set_share(bar: &ProgressBar, share: f64, message: String) {
    bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    bar.set_message(message);
}
