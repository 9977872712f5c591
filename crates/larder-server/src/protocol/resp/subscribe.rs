//! Channels: `SUBSCRIBE` and its kin, `PUBLISH`, `PUBSUB`.

use std::sync::Arc;

use super::client::Client;
use super::command::{Command, Does};
use super::context::{Context, no_room, unknown_subcommand, wrong_arity};
use super::glob::{self, Matcher};
use super::parse::Arguments;
use super::subscriptions::Subscriptions;
use super::tracking;
use super::write::{Outcome, Refusal, Writer};
use crate::answers::Answers;
use crate::caller::Caller;
use crate::channels::{Kind, Mail, Message};

/// Steps of a comparison with a pattern between two looks at the turn.
const STEPS_A_LOOK: usize = 4096;
/// Names in a list between two looks at the turn cost this number of units of work each.
const NAME_UNITS: usize = 1;

/// What is special about a kind of name.
struct Words {
    subscribes: &'static str,
    unsubscribes: &'static str,
    message: &'static str,
}

const fn words(kind: Kind) -> Words {
    match kind {
        Kind::Channel => {
            Words { subscribes: "subscribe", unsubscribes: "unsubscribe", message: "message" }
        }
        Kind::Pattern => {
            Words { subscribes: "psubscribe", unsubscribes: "punsubscribe", message: "pmessage" }
        }
        Kind::Shard => {
            Words { subscribes: "ssubscribe", unsubscribes: "sunsubscribe", message: "smessage" }
        }
    }
}

/// Refuses what a client of version 2 of the protocol may not ask while it has subscriptions: it could not tell answers
/// from messages.
pub(super) fn allows(client: &Client, command: &Command) -> Outcome {
    let is_bound = !client.is_resp3 && client.hears();
    let is_allowed = changes_subscriptions(command)
        || matches!(command.does, Does::Ping | Does::Quit | Does::Reset);
    if is_bound && !is_allowed {
        return Err(Refusal::Said(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context",
            command.name
        )));
    }
    Ok(())
}

/// Whether the answer is a message, which is sent even while answers are suppressed.
pub(super) fn confirms_by_push(client: &Client, command: &Command) -> bool {
    client.is_resp3 && changes_subscriptions(command)
}

fn changes_subscriptions(command: &Command) -> bool {
    matches!(
        command.does,
        Does::Subscribe
            | Does::Psubscribe
            | Does::Ssubscribe
            | Does::Unsubscribe
            | Does::Punsubscribe
            | Does::Sunsubscribe
    )
}

/// `SUBSCRIBE`, `PSUBSCRIBE`, `SSUBSCRIBE`.
pub(super) async fn subscribe(cx: &mut Context<'_>, argv: Arguments<'_>, kind: Kind) -> Outcome {
    for name in argv.from(1) {
        if kind == Kind::Pattern && name.len() > glob::PATTERN_BYTES_MAX {
            return Err(Refusal::Says("ERR the pattern is too long"));
        }
        let Context { caller, client, .. } = cx;
        let Some(inbox) = client.opens_inbox(caller).cloned() else { return Err(no_room(caller)) };
        let subscriptions = client
            .subscriptions
            .get_or_insert_with(|| Box::new(Subscriptions::new(caller, &inbox)));
        if !subscriptions.add(kind, name) {
            note(client);
            return Err(no_room(caller));
        }
        let count = subscriptions.count(kind);
        confirm(&mut cx.out, words(kind).subscribes, Some(name), count);
        cx.rests_behind(name).await;
    }
    note(cx.client);
    Ok(())
}

/// `UNSUBSCRIBE`, `PUNSUBSCRIBE`, `SUNSUBSCRIBE`: of all names if none is given.
pub(super) async fn unsubscribe(cx: &mut Context<'_>, argv: Arguments<'_>, kind: Kind) -> Outcome {
    let word = words(kind).unsubscribes;
    if argv.len() > 1 {
        for name in argv.from(1) {
            end(cx, word, kind, name).await;
        }
    } else {
        let first = |cx: &Context<'_>| cx.client.subscriptions.as_ref()?.of(kind).first().cloned();
        if first(cx).is_none() {
            let count = cx.client.subscriptions.as_ref().map_or(0, |it| it.count(kind));
            confirm(&mut cx.out, word, None, count);
        }
        while let Some(name) = first(cx) {
            end(cx, word, kind, &name).await;
        }
    }
    note(cx.client);
    Ok(())
}

async fn end(cx: &mut Context<'_>, word: &str, kind: Kind, name: &[u8]) {
    let mut count = 0;
    if let Some(subscriptions) = &mut cx.client.subscriptions {
        subscriptions.remove(kind, name);
        count = subscriptions.count(kind);
    }
    confirm(&mut cx.out, word, Some(name), count);
    cx.rests_behind(name).await;
}

fn confirm(out: &mut Writer<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    out.push(3);
    out.bulk(word);
    match name {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    out.count(count);
}

/// Shows the client's numbers of subscriptions in the list of clients.
fn note(client: &Client) {
    if let Some(listed) = &client.listed {
        let of = |kind| client.subscriptions.as_ref().map_or(0, |it| it.of(kind).len());
        listed.subscribes_to(Kind::ALL.map(of));
    }
}

/// Ends the client's subscriptions.
pub(super) async fn end_all(client: &mut Client) {
    if let Some(mut subscriptions) = client.subscriptions.take() {
        subscriptions.end_all().await;
        note(client);
    }
}

/// Writes the messages that have come for the client.
pub(super) async fn messages(client: &Client, caller: &Caller, answers: &mut Answers<'_>) {
    let Some(inbox) = client.inbox() else { return };
    while let Some(mail) = inbox.take() {
        answers.room().await;
        let before = answers.bytes().len();
        let mut out = Writer::new(answers.bytes(), client.is_resp3);
        match &mail {
            Mail::Message(message) => write_message(client, message, &mut out),
            Mail::Invalidated(told) => tracking::write_invalidated(client, told, &mut out),
            Mail::RedirectionBroken(id) => tracking::write_broken(client, *id, &mut out),
        }
        caller.work.does(1);
        caller.work.does_bytes(answers.bytes().len() - before);
        caller.rests().await;
    }
}

/// Writes a message, unless the client has unsubscribed before it was sent.
fn write_message(client: &Client, message: &Message, out: &mut Writer<'_>) {
    let Message { kind, pattern, channel, payload } = message;
    let heard = client.subscriptions.as_ref().map(|it| it.of(*kind));
    if heard.is_some_and(|names| names.contains(message.name())) {
        out.push(if pattern.is_some() { 4 } else { 3 });
        out.bulk(words(*kind).message);
        if let Some(pattern) = pattern {
            out.bulk(pattern);
        }
        out.bulk(channel);
        out.bulk(payload);
    }
}

/// `PUBLISH`, `SPUBLISH`: answers how many clients of this server have heard it.
pub(super) async fn publish(cx: &mut Context<'_>, argv: Arguments<'_>, kind: Kind) -> Outcome {
    let (channel, payload) = (argv.get(1), argv.get(2));
    let message = Message { kind, pattern: None, channel: channel.into(), payload: payload.into() };
    cx.caller.work.does_bytes(channel.len() + payload.len());
    let mut heard = deliver(cx, &message).await;
    if kind == Kind::Channel {
        heard += deliver_by_patterns(cx, &message).await;
    }
    cx.out.count(heard);
    Ok(())
}

/// Gives the message to all subscribers of its name.
async fn deliver(cx: &mut Context<'_>, message: &Message) -> usize {
    let (mut heard, mut behind) = (0, None);
    loop {
        let shared = &cx.caller.worker.shared;
        let name = (message.kind, message.name());
        let done = shared.channels.deliver(cx.caller.tenant.number, name, behind, message);
        heard += done.to;
        cx.caller.worker.counters.pubsub_delivered.add(done.to as u64);
        cx.caller.work.does(done.to);
        if done.more_behind.is_none() {
            return heard;
        }
        behind = done.more_behind;
        cx.caller.rests().await;
    }
}

/// Gives the message to the subscribers of all patterns that describe its channel.
async fn deliver_by_patterns(cx: &mut Context<'_>, message: &Message) -> usize {
    let mut heard = 0;
    let mut behind: Option<Box<[u8]>> = None;
    loop {
        let page = names_behind(cx, Kind::Pattern, behind.as_deref());
        let Some((last, _)) = page.last() else { return heard };
        behind = Some(last.clone());
        for (pattern, _) in page {
            if describes(cx, &pattern, &message.channel).await {
                let pattern: Arc<[u8]> = pattern.into();
                let by = Message { kind: Kind::Pattern, pattern: Some(pattern), ..message.clone() };
                heard += deliver(cx, &by).await;
            }
        }
    }
}

/// Whether a pattern describes a name. Lets other connections have their turns in between.
async fn describes(cx: &mut Context<'_>, pattern: &[u8], name: &[u8]) -> bool {
    let mut matcher = Matcher::new(pattern, name);
    loop {
        let mut steps = STEPS_A_LOOK;
        let fits = matcher.run(&mut steps);
        cx.caller.work.does_bytes(STEPS_A_LOOK - steps);
        cx.caller.rests().await;
        if let Some(fits) = fits {
            return fits;
        }
    }
}

fn names_behind(cx: &Context<'_>, kind: Kind, behind: Option<&[u8]>) -> Vec<(Box<[u8]>, usize)> {
    cx.caller.worker.shared.channels.names_behind(cx.caller.tenant.number, kind, behind)
}

/// `PUBSUB`.
pub(super) async fn pubsub(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"CHANNELS", 2 | 3) => names(cx, argv, Kind::Channel).await,
        (b"SHARDCHANNELS", 2 | 3) => names(cx, argv, Kind::Shard).await,
        (b"NUMSUB", _) => numbers(cx, argv, Kind::Channel).await,
        (b"SHARDNUMSUB", _) => numbers(cx, argv, Kind::Shard).await,
        (b"NUMPAT", 2) => {
            let channels = &cx.caller.worker.shared.channels;
            let number = channels.names(cx.caller.tenant.number, Kind::Pattern);
            cx.out.count(number);
            Ok(())
        }
        (b"HELP", 2) => {
            cx.help(
                "PUBSUB",
                &[
                    "CHANNELS [<pattern>]",
                    "    Channels that have subscribers.",
                    "NUMPAT",
                    "    Number of patterns that have subscribers.",
                    "NUMSUB [<channel> ...]",
                    "    Subscribers of channels, without those of patterns.",
                    "SHARDCHANNELS [<pattern>]",
                    "    Sharded channels that have subscribers.",
                    "SHARDNUMSUB [<channel> ...]",
                    "    Subscribers of sharded channels.",
                ],
            );
            Ok(())
        }
        (b"CHANNELS" | b"SHARDCHANNELS" | b"NUMPAT", _) => {
            let name = String::from_utf8_lossy(&sub).to_lowercase();
            Err(wrong_arity(&format!("pubsub|{name}")))
        }
        _ => Err(unknown_subcommand("PUBSUB", argv.get(1))),
    }
}

async fn names(cx: &mut Context<'_>, argv: Arguments<'_>, kind: Kind) -> Outcome {
    let pattern = (argv.len() == 3).then(|| argv.get(2));
    if pattern.is_some_and(|it| it.len() > glob::PATTERN_BYTES_MAX) {
        return Err(Refusal::Says("ERR the pattern is too long"));
    }
    let (mut found, mut kept) = (Vec::new(), cx.caller.keep());
    let mut behind: Option<Box<[u8]>> = None;
    loop {
        let page = names_behind(cx, kind, behind.as_deref());
        let Some((last, _)) = page.last() else { break };
        behind = Some(last.clone());
        for (name, _) in page {
            let fits = match pattern {
                Some(pattern) => describes(cx, pattern, &name).await,
                None => true,
            };
            // Once here and once in the answer.
            if fits && !kept.grow(2 * (name.len() + size_of::<Box<[u8]>>())) {
                return Err(no_room(cx.caller));
            }
            found.extend(fits.then_some(name));
            cx.caller.work.does(NAME_UNITS);
            cx.caller.rests().await;
        }
    }
    cx.out.array(found.len());
    found.iter().for_each(|name| cx.out.bulk(name));
    Ok(())
}

async fn numbers(cx: &mut Context<'_>, argv: Arguments<'_>, kind: Kind) -> Outcome {
    cx.out.array(2 * (argv.len() - 2));
    for name in argv.from(2) {
        let channels = &cx.caller.worker.shared.channels;
        let number = channels.subscribers(cx.caller.tenant.number, kind, name);
        cx.out.bulk(name);
        cx.out.count(number);
        cx.rests_behind(name).await;
    }
    Ok(())
}
