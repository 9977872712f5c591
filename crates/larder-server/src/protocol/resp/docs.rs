//! `COMMAND`: the table of commands, for clients.

use super::command::{Command, flags};
use super::context::{Context, unknown_subcommand, wrong_arity};
use super::glob;
use super::parse::Arguments;
use super::table::{TABLE, find};
use super::write::{Outcome, Refusal, SYNTAX};

/// `COMMAND`.
pub(super) fn command(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    if matches!(&*sub, b"INFO" | b"DOCS") && argv.len() > 2 + TABLE.len() {
        return Err(Refusal::Says("ERR more names than there are commands"));
    }
    match (&*sub, argv.len()) {
        (_, 1) | (b"INFO", 2) => {
            cx.out.array(TABLE.len());
            TABLE.iter().for_each(|command| row(cx, command));
        }
        (b"COUNT", 2) => cx.out.count(TABLE.len()),
        (b"INFO", _) => {
            cx.out.array(argv.len() - 2);
            for name in argv.from(2) {
                match find(name) {
                    Some((_, command)) => row(cx, command),
                    None => cx.out.null_array(),
                }
            }
        }
        (b"DOCS", _) => docs(cx, argv),
        (b"LIST", _) => return list(cx, argv),
        (b"GETKEYS", 3..) => return keys(cx, argv, false),
        (b"GETKEYSANDFLAGS", 3..) => return keys(cx, argv, true),
        (b"HELP", 2) => cx.help(
            "COMMAND",
            &[
                "(no subcommand), INFO [<name> ...]",
                "    Commands as clients want them.",
                "COUNT, LIST [FILTERBY (MODULE <module>|ACLCAT <category>|PATTERN <pattern>)]",
                "    How many there are, and what they are called.",
                "DOCS [<name> ...]",
                "    What they are for.",
                "GETKEYS, GETKEYSANDFLAGS <command>",
                "    The keys among the arguments of a command.",
            ],
        ),
        (b"GETKEYS" | b"GETKEYSANDFLAGS", _) => return Err(wrong_arity("command|getkeys")),
        _ => return Err(unknown_subcommand("COMMAND", argv.get(1))),
    }
    Ok(())
}

/// Writes a row of ten fields.
fn row(cx: &mut Context<'_>, command: &Command) {
    let out = &mut cx.out;
    out.array(10);
    out.bulk(command.name);
    out.integer(command.arity.into());
    let names: Vec<_> = command.flag_names().collect();
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
    out.integer(command.keys.first.into());
    out.integer(command.keys.last.into());
    out.integer(command.keys.step.into());
    let categories = command.categories();
    out.set(categories.len());
    categories.iter().for_each(|name| out.simple(name));
    // Tips, key specifications, subcommands.
    out.array(0);
    out.array(0);
    out.array(0);
}

fn docs(cx: &mut Context<'_>, argv: Arguments<'_>) {
    let wanted: Vec<&Command> = match argv.len() {
        2 => TABLE.iter().collect(),
        _ => argv.from(2).filter_map(|name| find(name).map(|(_, command)| command)).collect(),
    };
    cx.out.map(wanted.len());
    for command in wanted {
        cx.out.bulk(command.name);
        cx.out.map(3);
        cx.out.bulk("summary");
        cx.out.bulk(command.summary);
        cx.out.bulk("since");
        cx.out.bulk(command.since);
        cx.out.bulk("group");
        cx.out.bulk(command.group.name());
    }
}

fn list(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let filter = argv.get(3).to_ascii_uppercase();
    let value = argv.get(4);
    let fits = |command: &&Command| match &*filter {
        b"PATTERN" => glob::matches(value, command.name.as_bytes()),
        b"ACLCAT" => {
            let category = value.to_ascii_lowercase();
            command.categories().iter().any(|own| own.as_bytes().get(1..) == Some(&*category))
        }
        b"MODULE" => false,
        _ => true,
    };
    let is_right = argv.len() == 2
        || argv.len() == 5
            && argv.get(2).eq_ignore_ascii_case(b"FILTERBY")
            && matches!(&*filter, b"PATTERN" | b"ACLCAT" | b"MODULE");
    if !is_right {
        return Err(SYNTAX);
    }
    let found: Vec<&Command> = TABLE.iter().filter(fits).collect();
    cx.out.array(found.len());
    found.iter().for_each(|command| cx.out.bulk(command.name));
    Ok(())
}

fn keys(cx: &mut Context<'_>, argv: Arguments<'_>, with_flags: bool) -> Outcome {
    let invalid = Refusal::Says("ERR Invalid command specified");
    let (_, command) = find(argv.get(2)).ok_or(invalid)?;
    let arguments = argv.len() - 2;
    if !command.takes(arguments) {
        return Err(Refusal::Says("ERR Invalid number of arguments specified for command"));
    }
    let places: Vec<usize> = command.key_places_of(argv.behind(2)).collect();
    if places.is_empty() {
        return Err(Refusal::Says("ERR The command has no key arguments"));
    }
    cx.out.array(places.len());
    for place in places {
        if with_flags {
            cx.out.array(2);
        }
        cx.out.bulk(argv.get(place + 2));
        if with_flags {
            let flags: &[&str] =
                if command.has(flags::WRITE) { &["RW", "update"] } else { &["RO", "access"] };
            cx.out.set(flags.len());
            flags.iter().for_each(|flag| cx.out.simple(flag));
        }
    }
    Ok(())
}
