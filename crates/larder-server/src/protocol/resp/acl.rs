//! `ACL`: the users of the configuration, as Redis' access lists show them. Nothing can be changed.

use std::sync::Arc;

use super::context::{Context, shown, unknown_subcommand, wrong_arity};
use super::parse::Arguments;
use super::table::TABLE;
use super::write::{Outcome, Refusal};
use crate::users::{ListedUser, Users};

/// All categories of commands, sorted.
fn categories() -> Vec<&'static str> {
    let mut all: Vec<_> = TABLE.iter().flat_map(|command| command.categories()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What a user may do, in the language of access lists. Keys and channels are those of the user's tenant.
fn commands(user: &ListedUser<'_>) -> &'static str {
    if user.is_admin { "+@all" } else { "+@all -@admin" }
}

/// `ACL`.
pub(super) fn acl(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"WHOAMI", 2) => {
            let user = cx.caller.user().to_owned();
            cx.out.bulk(user);
        }
        (b"CAT", 2) => {
            let all = categories();
            cx.out.array(all.len());
            all.iter().for_each(|category| cx.out.bulk(category.trim_start_matches('@')));
        }
        (b"CAT", 3) => return commands_of(cx, argv.get(2)),
        (b"LIST", 2) => {
            let users = admins_view(cx, "acl|list")?;
            let users = users.listed();
            cx.out.array(users.len());
            for user in users {
                let password = if user.has_password { "" } else { "nopass " };
                let (name, commands) = (user.name, commands(&user));
                cx.out.bulk(format!("user {name} on {password}~* &* {commands}"));
            }
        }
        (b"USERS", 2) => {
            let users = admins_view(cx, "acl|users")?;
            let users = users.listed();
            cx.out.array(users.len());
            users.iter().for_each(|user| cx.out.bulk(user.name));
        }
        (b"GETUSER", 3) => return user(cx, argv.get(2)),
        (b"SETUSER", 3..) | (b"DELUSER", 3..) | (b"LOAD" | b"SAVE", 2) => {
            return Err(Refusal::Says(
                "ERR users are in the server's configuration file ([[user]]); SIGHUP makes the server read it again",
            ));
        }
        (b"LOG", 2 | 3) => {
            cx.needs_admin("acl|log")?;
            return Err(Refusal::Says(
                "ERR refused logins are not listed; INFO counts them (acl_access_denied_auth)",
            ));
        }
        (b"HELP", 2) => cx.help(
            "ACL",
            &[
                "CAT [<category>]",
                "    Categories of commands, or the commands of one.",
                "GETUSER <name>, LIST, USERS",
                "    For administrators: users of the configuration. A user has the keys of one tenant.",
                "WHOAMI",
                "    The user that this connection has logged in as.",
            ],
        ),
        (b"WHOAMI" | b"CAT" | b"LIST" | b"USERS" | b"GETUSER" | b"LOAD" | b"SAVE" | b"LOG", _) => {
            return Err(wrong_arity(&format!("acl|{}", shown(argv.get(1)).to_lowercase())));
        }
        _ => return Err(unknown_subcommand("ACL", argv.get(1))),
    }
    Ok(())
}

fn admins_view(cx: &Context<'_>, command: &str) -> Result<Arc<Users>, Refusal> {
    cx.needs_admin(command)?;
    Ok(cx.caller.worker.shared.users())
}

fn commands_of(cx: &mut Context<'_>, category: &[u8]) -> Outcome {
    let wanted = category.to_ascii_lowercase();
    let is_it = |name: &str| name.trim_start_matches('@').as_bytes() == wanted;
    if !categories().into_iter().any(is_it) {
        return Err(Refusal::Said(format!("ERR Unknown category '{}'", shown(category))));
    }
    let commands = TABLE.iter().filter(|command| command.categories().into_iter().any(is_it));
    let names: Vec<_> = commands.map(|command| command.name).collect();
    cx.out.array(names.len());
    names.iter().for_each(|name| cx.out.bulk(name));
    Ok(())
}

/// `ACL GETUSER`. Passwords are salted hashes, which nothing can be compared with; none is shown.
fn user(cx: &mut Context<'_>, name: &[u8]) -> Outcome {
    let users = admins_view(cx, "acl|getuser")?;
    let Some(user) = users.listed().into_iter().find(|user| user.name.as_bytes() == name) else {
        cx.out.null();
        return Ok(());
    };
    let out = &mut cx.out;
    out.map(6);
    out.bulk("flags");
    let flags: &[&str] = if user.has_password { &["on"] } else { &["on", "nopass"] };
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag));
    out.bulk("passwords");
    out.array(0);
    out.bulk("commands");
    out.bulk(commands(&user));
    out.bulk("keys");
    out.bulk("~*");
    out.bulk("channels");
    out.bulk("&*");
    out.bulk("selectors");
    out.array(0);
    Ok(())
}
