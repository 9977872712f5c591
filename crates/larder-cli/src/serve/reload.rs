//! SIGHUP: takes over what can change while the server runs, and names the rest.

use larder_server::Server;
use larder_workload::Error;

use super::descriptors::config_that_fits;
use super::settings::Settings;
use super::words;
use crate::args::cache_keys::Change;

/// Changes `server`, which was started with `started` and has taken over `applied` since, to `wanted`, as far as that
/// goes without another start. Returns what was done, for people.
///
/// # Errors
/// If `wanted` cannot work, or another start with it would empty a cache without being told to. Nothing is changed
/// then.
pub(super) fn reload(
    server: &Server,
    (started, applied): (&Settings, &Settings),
    wanted: &Settings,
) -> Result<String, Error> {
    let changed = started.changed_caches(wanted);
    let of = |needs: Change| {
        let names = changed.iter().filter(move |(_, change)| *change == needs);
        names.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let empties = of(Change::Empties);
    if !empties.is_empty() && wanted.on_change.0 == larder::OnChange::Refuse {
        return Err(Error::usage(format!(
            "{}: another start with this would empty the cache; take it back, or set on_change = \"discard\" and start \
             again",
            empties.join(", ")
        )));
    }
    let config = config_that_fits(wanted)?;
    let refused = |why: String| Error::usage(why);
    let mut rest: Vec<String> = server
        .reload(&config)
        .map_err(|error| refused(words::of_serve(&error)))?
        .into_iter()
        .map(str::to_owned)
        .collect();
    // A policy that stays keeps what it knows of keys, and what it has left of a budget.
    for tenant in &wanted.tenants {
        let policy = wanted.tenant(tenant).config.admission;
        let before = applied.tenants.iter().find(|before| before.name == tenant.name);
        if before.is_some_and(|before| applied.tenant(before).config.admission != policy) {
            let set = server.set_admission(&tenant.name, policy);
            set.map_err(|error| refused(words::of_serve(&error)))?;
        }
    }
    // Clients may have changed the memory since.
    if applied.cache_bytes() != wanted.cache_bytes() {
        server.set_cache_memory(wanted.cache_bytes());
    }
    rest.extend(of(Change::Start).into_iter().map(str::to_owned));
    rest.extend(empties.iter().map(|name| format!("{name} (which empties the cache)")));
    let others = [
        ("log", started.watching.log() == wanted.watching.log()),
        ("flash", started.flash.0 == wanted.flash.0),
        ("file", started.files.0 == wanted.files.0),
        ("flash_depth", started.flash_depth.0 == wanted.flash_depth.0),
        ("data_dir", started.data_dir.0 == wanted.data_dir.0),
    ];
    rest.extend(others.into_iter().filter(|(_, same)| !same).map(|(name, _)| name.to_owned()));
    let done =
        "users, certificates, connections, limits, memory and admission are as the file says";
    Ok(match rest.as_slice() {
        [] => done.to_owned(),
        rest => format!("{done}; these need another start: {}", rest.join(", ")),
    })
}
