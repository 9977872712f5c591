//! Scripts: `EVAL` and its like, and `SCRIPT`.
//!
//! Guarantees:
//! - Scripts, `EXEC`, and requests that change many keys (`RENAME`, `COPY`, `MSETNX`) that concern the same tenant run
//!   one after the other, whichever connections and workers they come from. A script concerns the tenant of its
//!   connection, and those that own the keys that it declares.
//! - To others a script is one step: single requests for the keys that it declares wait until it has ended, and for
//!   another key from the first call that names it on. Requests for other keys go on ([`crate::steps`]).
//! - A script that is stopped (by `script_time_limit`, for want of memory, by `SCRIPT KILL`, or because its connection
//!   or the server ends) leaves no writes: each key gets the value, the lifetime and the version back that it had
//!   before the script wrote to it first. `FLUSHALL` and `FLUSHDB` are not undone. An error that the script raises
//!   undoes nothing, as in Redis.

mod run;
mod shebang;
mod undo;

use larder_script::sha1_hex;

use self::run::{Job, RunRequest};
use super::command::Does;
use super::context::{Context, no_room, unknown_subcommand, wrong_arity};
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal};
use crate::scripts::ScriptName;

const NO_SCRIPT: Refusal = Refusal::Says("NOSCRIPT No matching script. Please use EVAL.");

/// `EVAL`, `EVALSHA`, and the same for scripts that only read. `has_turn`: the caller holds the turns of all tenants
/// that the keys concern. `request` runs the requests of the script.
pub(super) async fn eval(
    cx: &mut Context<'_>,
    (does, request): (Does, RunRequest),
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    let keys = keys_of(argv)?;
    let tenant = cx.caller.tenant.number;
    let is_named = matches!(does, Does::Evalsha | Does::EvalshaRo);
    let (name, found);
    let source = if is_named {
        name = script_name(argv.get(1)).ok_or(NO_SCRIPT)?;
        found = cx.caller.worker.shared.scripts.find(tenant, &name).ok_or(NO_SCRIPT)?;
        &found
    } else {
        cx.caller.work.does_bytes(8 * argv.get(1).len());
        name = sha1_hex(argv.get(1));
        argv.get(1)
    };
    let flags = shebang::flags(source)?;
    let is_read_only = flags.has_no_writes || matches!(does, Does::EvalRo | Does::EvalshaRo);
    let job = Job { name, source, argv, keys, is_read_only, request: Some(request) };
    let done = run::script(cx, &job, has_turn).await?;
    if !is_named {
        // It was compiled. Without memory for it, the client has to send it again.
        let shared = &cx.caller.worker.shared;
        let _ = shared.scripts.keep(&shared.account, tenant, &name, source);
    }
    done
}

/// How many of the arguments are keys.
fn keys_of(argv: Arguments<'_>) -> Result<usize, Refusal> {
    let keys = number::integer(argv.get(2)).ok_or(NO_INTEGER)?;
    let keys =
        usize::try_from(keys).map_err(|_| Refusal::Says("ERR Number of keys can't be negative"))?;
    if keys > argv.len() - 3 {
        return Err(Refusal::Says("ERR Number of keys can't be greater than number of args"));
    }
    Ok(keys)
}

fn script_name(digits: &[u8]) -> Option<ScriptName> {
    let mut name: ScriptName = digits.try_into().ok()?;
    name.make_ascii_lowercase();
    Some(name)
}

/// `SCRIPT`.
pub(super) async fn script(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    let tenant = cx.caller.tenant.number;
    match (&*sub, argv.len()) {
        (b"LOAD", 3) => return load(cx, argv).await,
        (b"EXISTS", 3..) => {
            cx.out.array(argv.len() - 2);
            for digits in argv.from(2) {
                let scripts = &cx.caller.worker.shared.scripts;
                let has = script_name(digits).is_some_and(|name| scripts.has(tenant, &name));
                cx.out.integer(i64::from(has));
                cx.rests_behind(digits).await;
            }
        }
        (b"FLUSH", 2) => forget(cx),
        (b"FLUSH", 3) if is_way_of_flush(argv.get(2)) => forget(cx),
        (b"FLUSH", _) => {
            return Err(Refusal::Says("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
        (b"KILL", 2) => {
            if !cx.caller.worker.shared.scripts.stop(tenant) {
                return Err(Refusal::Says("NOTBUSY No scripts in execution right now."));
            }
            cx.out.ok();
        }
        (b"DEBUG", _) => return Err(Refusal::Says("ERR there is no debugger of scripts")),
        (b"HELP", 2) => cx.help(
            "SCRIPT",
            &[
                "EXISTS <sha1> [<sha1> ...]",
                "    Which of these scripts can be run by EVALSHA.",
                "FLUSH [ASYNC|SYNC]",
                "    Forget all scripts of the tenant.",
                "KILL",
                "    Stop the tenant's scripts that run. What they have written is undone.",
                "LOAD <script>",
                "    Keep a script, and return its SHA1.",
            ],
        ),
        (b"LOAD" | b"EXISTS" | b"KILL", _) => {
            let sub = String::from_utf8_lossy(&sub).to_lowercase();
            return Err(wrong_arity(&format!("script|{sub}")));
        }
        _ => return Err(unknown_subcommand("SCRIPT", argv.get(1))),
    }
    Ok(())
}

fn is_way_of_flush(way: &[u8]) -> bool {
    way.eq_ignore_ascii_case(b"sync") || way.eq_ignore_ascii_case(b"async")
}

fn forget(cx: &mut Context<'_>) {
    let (worker, tenant) = (&cx.caller.worker, cx.caller.tenant.number);
    worker.shared.scripts.forget(tenant);
    worker.machines.forget(tenant);
    cx.out.ok();
}

async fn load(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let source = argv.get(2);
    cx.caller.work.does_bytes(8 * source.len());
    let name = sha1_hex(source);
    shebang::flags(source)?;
    let job = Job { name, source, argv, keys: 0, is_read_only: true, request: None };
    run::script(cx, &job, true).await??;
    let shared = &cx.caller.worker.shared;
    if !shared.scripts.keep(&shared.account, cx.caller.tenant.number, &name, source) {
        return Err(no_room(cx.caller));
    }
    cx.out.bulk(name);
    Ok(())
}
