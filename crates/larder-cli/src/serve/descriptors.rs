//! Open files: each connection is one, and there is a limit (`RLIMIT_NOFILE`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a server has open besides connections, listeners and threads: flash, standard streams, operators, some more.
const OTHERS: usize = 64;
/// What each thread has: a queue or ring for its sockets, a ring to flash, an event.
const EACH_WORKER: usize = 4;

/// Raises the limit if so many connections need it, as far as it goes. Says how many connections fit, and if those are
/// fewer, what to do.
pub(crate) fn make_room(
    connections: usize,
    workers: usize,
    listeners: usize,
) -> (usize, Option<String>) {
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

/// Raises the limit to `needed` if it is lower, as far as it goes. Says what it is then.
fn raise(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is no limit.
    let Some(current) = current.filter(|current| *current < needed) else { return needed };
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed)).max(current);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(_) => current,
    }
}
