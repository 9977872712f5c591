//! Ctrl-C: the first asks the work to end, the second ends the process.

use larder_workload::Error;

/// Installs the handler. `stop` asks the work to end, and returns whether that had been asked before.
pub(crate) fn on_interrupt(stop: impl Fn() -> bool + Send + 'static) -> Result<(), Error> {
    let handler = move || {
        if stop() {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::run(format!("Ctrl-C handler: {error}")))
}
