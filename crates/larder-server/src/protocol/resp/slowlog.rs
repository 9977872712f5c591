//! `SLOWLOG`: the slow requests of the client's tenant; an administrator sees those of all tenants.

use super::context::{Context, unknown_subcommand};
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal};

/// `SLOWLOG`.
pub(super) fn slowlog(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"GET", 2 | 3) => get(cx, argv),
        (b"LEN", 2) => {
            let entries = cx.board().slow.len(cx.visible());
            cx.out.count(entries);
            Ok(())
        }
        (b"RESET", 2) => {
            cx.board().slow.clear(cx.visible());
            cx.out.ok();
            Ok(())
        }
        (b"HELP", 2) => {
            cx.help("SLOWLOG", &[
                "GET [<count>]",
                "    The newest entries (10, -1: all) of this tenant, for an administrator of all tenants:",
                "    number, time, microseconds, arguments, client, its name.",
                "LEN",
                "    How many entries there are.",
                "RESET",
                "    Forgets all of them.",
            ]);
            Ok(())
        }
        _ => Err(unknown_subcommand("SLOWLOG", argv.get(1))),
    }
}

fn get(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let count = match argv.len() {
        2 => 10,
        _ => number::integer(argv.get(2)).ok_or(NO_INTEGER)?,
    };
    let count = match count {
        -1 => usize::MAX,
        _ => usize::try_from(count)
            .map_err(|_| Refusal::Says("ERR count should be greater than or equal to -1"))?,
    };
    let entries = cx.board().slow.newest(cx.visible(), count);
    cx.out.array(entries.len());
    for entry in entries {
        cx.out.array(6);
        cx.out.integer(i64::try_from(entry.id).unwrap_or(i64::MAX));
        cx.out.integer(i64::try_from(entry.at_s).unwrap_or(i64::MAX));
        cx.out.integer(i64::try_from(entry.micros).unwrap_or(i64::MAX));
        cx.out.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| cx.out.bulk(argument));
        cx.out.bulk(&entry.peer);
        cx.out.bulk(&entry.name);
    }
    Ok(())
}
