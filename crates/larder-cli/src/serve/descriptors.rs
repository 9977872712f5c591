//! Open files: each connection is one, and there is a limit (`RLIMIT_NOFILE`).

use larder_server::ServerConfig;
use larder_workload::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::settings::Settings;
use super::telling::complain;

/// Descriptors that a server needs besides connections, listeners and threads: flash, standard streams, operators, and
/// some spare.
const OTHERS: usize = 64;
/// Descriptors of each thread: a queue or ring for its sockets, a ring to flash, an event.
const EACH_WORKER: usize = 4;

/// The server configuration, with no more connections than open files allow. Prints warnings.
pub(super) fn config_that_fits(settings: &Settings) -> Result<ServerConfig, Error> {
    let mut config = settings.server()?;
    let (fits, shortage) =
        make_room(config.connections_max, config.workers, config.listeners.len());
    config.connections_max = fits;
    for warning in settings.warnings().into_iter().chain(shortage) {
        complain(format_args!("warning: {warning}"));
    }
    Ok(config)
}

/// Raises the limit for `connections` if needed, as far as it goes. Returns how many connections fit and, if that is
/// fewer, what to do.
fn make_room(connections: usize, workers: usize, listeners: usize) -> (usize, Option<String>) {
    let others = OTHERS + EACH_WORKER * workers + listeners;
    let needed = connections.saturating_add(others);
    let limit = raise(u64::try_from(needed).unwrap_or(u64::MAX));
    let fits = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(others).max(1);
    if connections <= fits {
        return (connections, None);
    }
    let why = format!(
        "connections = {connections} need {needed} open files, and this process may have {limit}: {fits} connections \
         are served; raise the limit (LimitNOFILE= of systemd, ulimit -Hn, --ulimit nofile= of a container), or lower \
         connections"
    );
    (fits, Some(why))
}

/// Raises the limit to `needed` if it is lower, as far as it goes. Returns the new limit.
fn raise(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` means no limit.
    let Some(current) = current.filter(|current| *current < needed) else { return needed };
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed)).max(current);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(_) => current,
    }
}
