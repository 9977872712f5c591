//! The names that keys have in the cache, and the databases that requests name.

use super::command::{Command, Does, Group};
use super::context::Context;
use super::number;
use super::parse::{Arguments, RenamedKeys};
use super::write::Refusal;
use crate::databases::{DatabaseIndex, KeySpace};

const OUT_OF_RANGE: Refusal = Refusal::Says("ERR DB index is out of range");
pub(super) const SAME: Refusal = Refusal::Says("ERR source and destination objects are the same");

/// The request with the names that its keys have in the cache. `None`: they are those that the client says. The keys
/// of a script keep theirs, because each request that it makes comes here too.
pub(super) fn renamed(
    space: KeySpace,
    command: &Command,
    argv: Arguments<'_>,
) -> Option<RenamedKeys> {
    if command.group == Group::Scripting {
        return None;
    }
    let of_memory = (command.does == Does::Memory && argv.len() > 2).then_some(2);
    let places = command.key_places_of(argv).chain(of_memory);
    argv.renamed(places, |key, out| {
        let renames = space.renames(key);
        if renames {
            space.append_name(key, out);
        }
        renames
    })
}

/// An argument that names a database.
pub(super) fn database(argument: &[u8], wrong: Refusal) -> Result<DatabaseIndex, Refusal> {
    DatabaseIndex::of(number::integer(argument).ok_or(wrong)?).ok_or(OUT_OF_RANGE)
}

/// The name in another database of the key that has this name in the client's.
pub(super) fn name_in(cx: &Context<'_>, target: DatabaseIndex, name: &[u8]) -> Vec<u8> {
    let databases = &cx.caller.tenant.databases;
    databases.uses(target);
    let mut to = Vec::with_capacity(name.len() + 4);
    databases.space(target).append_name(crate::databases::key_in(name), &mut to);
    to
}
