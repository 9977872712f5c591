//! `CLIENT`: what a client says about itself, and the clients of its tenant. An administrator can see and end all.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::client::Replies;
use super::context::{Context, no_room, shown, unknown_subcommand, wrong_arity};
use super::number;
use super::parse::Arguments;
use super::table::TABLE;
use super::tracking;
use super::write::{Outcome, Refusal, SYNTAX};
use crate::resp_board::ClientEntry;
use crate::waiters::Unblock;

/// Longest name that a client may give itself.
const NAME_BYTES_MAX: usize = 1024;

/// Clients that are checked in a unit of work.
const CLIENTS_A_UNIT: usize = 32;
/// Units of work to format the line of one client.
const LINE_UNITS: usize = 2;

const HELP: &[&str] = &[
    "GETNAME, SETNAME <name>",
    "    The name of this connection.",
    "ID, INFO, LIST [ID <id> ...] [TYPE NORMAL|MASTER|REPLICA|PUBSUB]",
    "    This connection, or all of this tenant (for an administrator: of all) that have asked something.",
    "KILL ID <id> | ADDR <ip:port> | <ip:port> [SKIPME yes|no]",
    "    They are closed when they ask something next.",
    "NO-EVICT, NO-TOUCH <ON|OFF>",
    "    Accepted, and without effect.",
    "REPLY <ON|OFF|SKIP>",
    "    Which answers are sent.",
    "SETINFO <LIB-NAME|LIB-VER> <value>",
    "    What the client's library is.",
    "TRACKING <ON|OFF> [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]",
    "    Whether the client is told when keys change that it has read, or that begin with a prefix.",
    "CACHING <YES|NO>",
    "    Whether the keys of the next request are tracked, with OPTIN or OPTOUT.",
    "TRACKINGINFO, GETREDIR",
    "    How keys are tracked, and which client is told.",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    "    It waits no longer, as if its time were over, or with an error.",
];

/// `CLIENT`.
pub(super) async fn client(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"ID", 2) => {
            cx.out.integer(i64::try_from(cx.caller.id).unwrap_or(i64::MAX));
            Ok(())
        }
        (b"GETNAME", 2) => {
            match cx.client.listed.as_ref().map(|it| it.words().name) {
                Some(name) if !name.is_empty() => cx.out.bulk(name),
                _ => cx.out.null(),
            }
            Ok(())
        }
        (b"SETNAME", 3) => {
            check_word(argv.get(2))?;
            say(cx, |listed| listed.set_name(argv.get(2)));
            Ok(())
        }
        (b"SETINFO", 4) => set_info(cx, argv),
        (b"INFO", 2) => {
            let line = cx.client.listed.as_ref().map(|it| line(it)).unwrap_or_default();
            cx.out.verbatim(&line);
            Ok(())
        }
        (b"LIST", _) => list(cx, argv).await,
        (b"KILL", 3..) => kill(cx, argv).await,
        (b"REPLY", 3) => reply(cx, argv),
        (b"NO-EVICT" | b"NO-TOUCH", 3) => on_or_off(argv.get(2)).map(|_| cx.out.ok()),
        (b"TRACKING", 3..) => tracking::tracking(cx, argv).await,
        (b"CACHING", 3) => tracking::caching(cx, argv),
        (b"TRACKINGINFO", 2) => {
            tracking::info(cx);
            Ok(())
        }
        (b"GETREDIR", 2) => {
            tracking::redirection(cx);
            Ok(())
        }
        (b"UNBLOCK", 3 | 4) => unblock(cx, argv),
        (b"HELP", 2) => {
            cx.help("CLIENT", HELP);
            Ok(())
        }
        (
            b"ID" | b"GETNAME" | b"SETNAME" | b"SETINFO" | b"INFO" | b"KILL" | b"REPLY"
            | b"NO-EVICT" | b"NO-TOUCH" | b"TRACKING" | b"CACHING" | b"TRACKINGINFO" | b"GETREDIR"
            | b"UNBLOCK",
            _,
        ) => Err(wrong_arity(&format!("client|{}", shown(argv.get(1)).to_lowercase()))),
        _ => Err(unknown_subcommand("CLIENT", argv.get(1))),
    }
}

/// Ends the wait of a client.
fn unblock(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let id = number::integer(argv.get(2)).ok_or(super::write::NO_INTEGER)?;
    let how = match &*argv.get(3).to_ascii_uppercase() {
        b"TIMEOUT" => Unblock::TimedOut,
        _ if argv.len() == 3 => Unblock::TimedOut,
        b"ERROR" => Unblock::Failed,
        _ => return Err(Refusal::Says("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let clients = cx.board().clients(cx.visible());
    let found = clients.iter().find(|it| i64::try_from(it.id) == Ok(id));
    cx.out.integer(i64::from(found.is_some_and(|listed| listed.unblock(how))));
    Ok(())
}

/// Checks a name: lists separate names by spaces.
pub(super) fn check_word(word: &[u8]) -> Outcome {
    if word.len() > NAME_BYTES_MAX || !word.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(Refusal::Says(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    Ok(())
}

fn say(cx: &mut Context<'_>, say: impl FnOnce(&ClientEntry)) {
    if let Some(listed) = &cx.client.listed {
        say(listed);
    }
    cx.out.ok();
}

fn set_info(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let option = argv.get(2).to_ascii_lowercase();
    let value = argv.get(3);
    let name = match &*option {
        b"lib-name" => "lib-name",
        b"lib-ver" => "lib-ver",
        _ => {
            let option = shown(argv.get(2));
            return Err(Refusal::Said(format!("ERR Unrecognized option '{option}'")));
        }
    };
    if check_word(value).is_err() {
        return Err(Refusal::Said(format!(
            "ERR {name} cannot contain spaces, newlines or special characters."
        )));
    }
    say(cx, |listed| {
        listed.say(|words| match name {
            "lib-name" => words.library = value.to_vec(),
            _ => words.library_version = value.to_vec(),
        });
    });
    Ok(())
}

fn on_or_off(word: &[u8]) -> Result<bool, Refusal> {
    match &*word.to_ascii_uppercase() {
        b"ON" => Ok(true),
        b"OFF" => Ok(false),
        _ => Err(SYNTAX),
    }
}

fn reply(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    match &*argv.get(2).to_ascii_uppercase() {
        b"ON" => {
            cx.client.replies = Replies::On;
            cx.out.ok();
        }
        b"OFF" => cx.client.replies = Replies::Off,
        b"SKIP" if cx.client.replies != Replies::Off => cx.client.replies = Replies::SkipNext,
        b"SKIP" => {}
        _ => return Err(SYNTAX),
    }
    Ok(())
}

/// Lists the clients. The lines are counted in the account until the answer is written: there may be many, with long
/// names. Yields between two clients.
async fn list(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut clients = cx.board().clients(cx.visible());
    match (&*argv.get(2).to_ascii_uppercase(), argv.len()) {
        (_, 2) => {}
        (b"TYPE", 4) => match &*argv.get(3).to_ascii_lowercase() {
            b"normal" => clients.retain(|it| !it.hears_messages()),
            b"pubsub" => clients.retain(|it| it.hears_messages()),
            b"master" | b"replica" | b"slave" => clients.clear(),
            _ => {
                let kind = shown(argv.get(3));
                return Err(Refusal::Said(format!("ERR Unknown client type '{kind}'")));
            }
        },
        (b"ID", 4..) => {
            let mut ids = HashSet::new();
            for id in argv.from(3) {
                ids.insert(number::integer(id).ok_or(Refusal::Says("ERR Invalid client ID"))?);
                cx.rests_behind(id).await;
            }
            clients.retain(|it| i64::try_from(it.id).is_ok_and(|id| ids.contains(&id)));
        }
        _ => return Err(SYNTAX),
    }
    let (mut lines, mut kept) = (String::new(), cx.caller.keep());
    for listed in clients {
        let line = line(&listed);
        // Once here and once in the answer.
        if !kept.grow(2 * line.len()) {
            return Err(no_room(cx.caller));
        }
        lines += &line;
        cx.caller.work.does(LINE_UNITS);
        cx.rests_behind(line.as_bytes()).await;
    }
    cx.out.verbatim(&lines);
    Ok(())
}

/// The line of one client.
fn line(listed: &ClientEntry) -> String {
    let words = listed.words();
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let (age, idle) = listed.age_and_idle();
    let command = TABLE.get(listed.command.load(Ordering::Relaxed)).map_or("NULL", |it| it.name);
    let queued = listed.queued.load(Ordering::Relaxed);
    let version = if listed.is_resp3.load(Ordering::Relaxed) { 3 } else { 2 };
    let [channels, patterns, sharded] = listed.subscriptions();
    let follower = listed.follower();
    let redirection = tracking::shown_redirection(follower.map(|it| it.redirects_to()));
    let mut line = format!("id={} addr={} fd=0 ", listed.id, listed.peer);
    let _ = writeln!(
        line,
        "name={} age={} idle={} flags={} db={} sub={channels} psub={patterns} ssub={sharded} multi={queued} \
         cmd={command} user={} redir={redirection} resp={version} lib-name={} lib-ver={}",
        text(&words.name),
        age.as_secs(),
        idle.as_secs(),
        flags_of(listed),
        listed.database.load(Ordering::Relaxed),
        text(&words.user),
        text(&words.library),
        text(&words.library_version),
    );
    line
}

/// What is special about a client, a letter each.
fn flags_of(listed: &ClientEntry) -> String {
    let follower = listed.follower();
    let tracks = |has: fn(&crate::keyspace::Follower) -> bool| follower.as_deref().is_some_and(has);
    let flags = [
        ('P', listed.hears_messages()),
        ('x', listed.queued.load(Ordering::Relaxed) >= 0),
        ('b', listed.is_waiting()),
        ('t', tracks(|_| true)),
        ('R', tracks(|it| it.is_broken())),
        ('B', tracks(|it| it.has_prefixes())),
    ];
    let has: String = flags.into_iter().filter(|(_, has)| *has).map(|(letter, _)| letter).collect();
    if has.is_empty() { "N".to_owned() } else { has }
}

/// Marks the clients to close; each is closed at its next request.
async fn kill(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let clients = cx.board().clients(cx.visible());
    cx.caller.work.does(clients.len() / CLIENTS_A_UNIT);
    cx.caller.rests().await;
    if argv.len() == 3 {
        let of_address = clients.iter().find(|it| it.peer.as_bytes() == argv.get(2));
        let listed = of_address.ok_or(Refusal::Says("ERR No such client"))?;
        end(cx, listed);
        cx.out.ok();
        return Ok(());
    }
    let (mut id, mut address, mut skips_me) = (None, None, true);
    for at in (2..argv.len()).step_by(2) {
        let value = (at + 1 < argv.len()).then(|| argv.get(at + 1)).ok_or(SYNTAX)?;
        match &*argv.get(at).to_ascii_uppercase() {
            b"ID" => {
                let wrong = Refusal::Says("ERR client-id should be greater than 0");
                id = Some(
                    number::integer(value).and_then(|id| u64::try_from(id).ok()).ok_or(wrong)?,
                );
            }
            b"ADDR" => address = Some(value),
            b"SKIPME" => skips_me = value.eq_ignore_ascii_case(b"yes"),
            _ => return Err(SYNTAX),
        }
    }
    let me = cx.caller.id;
    let wanted = clients.iter().filter(|it| {
        id.is_none_or(|id| it.id == id)
            && address.is_none_or(|address| it.peer.as_bytes() == address)
            && !(skips_me && it.id == me)
    });
    let mut killed = 0;
    for listed in wanted {
        end(cx, listed);
        killed += 1;
        cx.caller.work.does(1);
        cx.caller.rests().await;
    }
    cx.out.count(killed);
    Ok(())
}

fn end(cx: &mut Context<'_>, listed: &ClientEntry) {
    listed.is_killed.store(true, Ordering::Relaxed);
    listed.unblock(Unblock::Failed);
    cx.board().strike(listed.id);
    cx.client.closes |= listed.id == cx.caller.id;
}
