//! Long work on a thread of its own: the caller's thread tells its progress, and is interrupted by Ctrl-C.

use std::thread;
use std::time::Duration;

use larder_lab::replay::Monitor;
use pyo3::prelude::*;

const TICK: Duration = Duration::from_millis(20);
/// Ticks between two calls of the program's function.
const TOLD_EVERY: u32 = 10;

/// Runs `work` without the interpreter's lock. Calls `progress` with the result of `share`, from 0 to 1, five times a
/// second. If that raises, or a signal's handler does, the work is stopped, and the exception is raised.
pub(super) fn watched<T: Send>(
    py: Python<'_>,
    monitor: &Monitor,
    progress: Option<&Bound<'_, PyAny>>,
    share: &dyn Fn() -> f64,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        let mut raised = None;
        for tick in 1_u32.. {
            py.detach(|| thread::sleep(TICK));
            if worker.is_finished() {
                break;
            }
            if raised.is_none() {
                let told = py.check_signals().and_then(|()| match progress {
                    Some(progress) if tick.is_multiple_of(TOLD_EVERY) => {
                        progress.call1((share(),)).map(drop)
                    }
                    _ => Ok(()),
                });
                raised = told.err().inspect(|_| monitor.stop());
            }
        }
        let ended = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (raised, progress) {
            (Some(error), _) => Err(error),
            (None, Some(progress)) => progress.call1((1.0,)).map(|_| ended),
            (None, None) => Ok(ended),
        }
    })
}
