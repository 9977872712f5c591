//! RESP, the protocol of Redis and Valkey, in its versions 2 and 3: strings, collections, and keys.
//!
//! Bytes become requests (`parse.rs`); the table has the commands (`table.rs`). A request that reads one value is
//! answered at once from DRAM, or in parallel with its neighbours when flash has been read (`read.rs`). Any other
//! request begins when those before it have their answers, and ends before the next one begins (`run.rs`).

mod absent;
mod acl;
mod amend;
mod bit_fields;
mod bits;
mod blocking;
mod client;
mod clients;
mod cluster;
mod collection;
mod command;
mod config;
mod connection;
mod context;
mod databases;
mod docs;
mod dumping;
mod events;
mod expiry;
mod field_lifetimes;
mod glob;
mod hashes;
mod hyperloglog;
mod info;
mod inline;
mod key_names;
mod keys;
mod latency;
mod lifetimes;
mod list_search;
mod lists;
pub(crate) mod notices;
mod number;
pub(crate) mod parse;
mod queue;
mod random;
mod read;
mod run;
mod scan;
mod score_algebra;
mod score_ranges;
mod scores;
mod scripts;
mod set_algebra;
mod sets;
mod slots;
mod slowlog;
mod sort;
mod sorted_sets;
mod strings;
mod subscribe;
mod subscriptions;
mod table;
mod timing;
mod tracked;
mod tracking;
mod transaction;
mod turns;
mod waiting;
mod walk;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use self::client::Client;
use self::command::{Command, Does, Group, flags};
use self::context::Context;
use self::parse::{Arguments, DiscardProgress, Limits, ParseOutcome, Parser, Swallow};
use self::read::ValueRead;
use self::write::{OVER_LIMIT, Refusal, TOO_LONG, Writer};
use super::{Protocol, Step};
use crate::answers::Answers;
use crate::caller::Caller;
use crate::channels::Inbox;
use crate::resp_board::ClientEntry;
use crate::work::STEPS_A_UNIT;

/// Number of commands.
pub(crate) fn commands() -> usize {
    table::TABLE.len()
}

/// A connection that speaks RESP.
#[derive(Default)]
pub(crate) struct Resp {
    parser: Parser,
    /// The rest of a request that was refused.
    swallow: Option<Swallow>,
    client: Client,
    leaves: ListingGuard,
}

/// Takes the connection off the list of clients when it is dropped.
#[derive(Default)]
struct ListingGuard(Option<(Arc<crate::shared::ServerState>, u64)>);

impl Drop for ListingGuard {
    fn drop(&mut self) {
        if let Some((shared, id)) = &self.0 {
            shared.resp.strike(*id);
        }
    }
}

/// A request that may need no future.
#[derive(Clone, Copy)]
enum PlainRequest {
    /// It reads one value.
    Reads(ValueRead),
    /// `SET` without options.
    Sets,
    /// What DRAM may answer in one call.
    Ends(&'static Command),
}

impl Protocol for Resp {
    fn inbox(&self) -> Option<&Arc<Inbox>> {
        // Within the answer of an MGET that has begun, a message would be taken for a value.
        self.client.inbox().filter(|_| self.client.mget_left == 0)
    }

    fn is_waiting(&self) -> bool {
        self.client.waiting.is_some()
    }

    fn poll_waiting(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        self.client.waiting.as_mut().map_or(Poll::Pending, |waiting| waiting.poll(cx))
    }

    fn waits_for_messages(&self) -> bool {
        self.client.hears() || self.client.waiting.is_some()
    }

    async fn messages(&mut self, caller: &mut Caller, answers: &mut Answers<'_>) {
        blocking::go_on(&mut self.client, caller, answers).await;
        subscribe::messages(&self.client, caller, answers).await;
    }

    async fn ends(&mut self) {
        subscribe::end_all(&mut self.client).await;
        tracking::end(&mut self.client).await;
    }

    fn at_once(&mut self, caller: &mut Caller, input: &[u8], out: &mut Vec<u8>) -> usize {
        let limits = limits_of(caller);
        let Some((at, does, bytes)) = self.plain_request(caller, input, limits) else { return 0 };
        let is_known = |it: &Arc<ClientEntry>| !it.is_killed.load(Ordering::Relaxed);
        if !self.client.listed.as_ref().is_some_and(is_known) {
            return 0;
        }
        let argv = self.parser.arguments(input);
        let space = caller.tenant.databases.space(self.client.database());
        let mut buffer = std::mem::take(&mut self.client.name);
        let key = space.name(argv.get(1), &mut buffer);
        let is_answered = caller.may_begin_at_once(key)
            && match does {
                PlainRequest::Reads(read) => {
                    read::at_once(read, caller, key, Writer::new(out, self.client.is_resp3))
                }
                PlainRequest::Sets => strings::set_at_once(caller, key, argv.get(2), out),
                PlainRequest::Ends(command) => {
                    let out = Writer::new(out, self.client.is_resp3);
                    run::at_once(caller, &mut self.client, out, (at, command), argv)
                }
            };
        self.client.name = buffer;
        if !is_answered {
            return 0;
        }
        if let Some(listed) = &self.client.listed {
            listed.asks(at);
        }
        caller.worker.counters.resp_commands.add(1);
        // Those that run are timed, and counted there.
        let is_timed = matches!(does, PlainRequest::Ends(_));
        let calls = caller.worker.shared.resp.calls(caller.worker.number, at);
        if let Some(calls) = calls.filter(|_| !is_timed) {
            calls.calls.add(1);
        }
        self.parser.forget();
        bytes
    }

    async fn step(&mut self, caller: &mut Caller, input: &[u8], answers: &mut Answers<'_>) -> Step {
        if self.client.waiting.is_some() {
            return Step::Needs(input.len() + 1);
        }
        let limits = limits_of(caller);
        if let Some(swallow) = &mut self.swallow {
            return match swallow.swallow(input, limits) {
                DiscardProgress::Part(bytes) => Step::Done(bytes),
                DiscardProgress::Needs(bytes) => Step::Needs(bytes),
                DiscardProgress::Broken(broken) => self.breaks(broken, answers),
                DiscardProgress::All(bytes) => {
                    self.swallow = None;
                    Step::Done(bytes)
                }
            };
        }
        loop {
            match self.parser.parse(input, limits) {
                ParseOutcome::Nothing(bytes) => return Step::Done(bytes),
                ParseOutcome::Broken(broken) => return self.breaks(broken, answers),
                ParseOutcome::Needs(bytes)
                    if caller.may_hold(input.len(), bytes, self.parser.places_bytes()) =>
                {
                    return Step::Needs(bytes);
                }
                ParseOutcome::Rests => {
                    if !caller.may_hold(input.len(), input.len(), self.parser.places_bytes()) {
                        return self.refuse(&context::no_room(caller), answers);
                    }
                    caller
                        .work
                        .does(parse::ARGUMENTS_A_LOOK * parse::STEPS_AN_ARGUMENT / STEPS_A_UNIT);
                    caller.rests().await;
                }
                ParseOutcome::Needs(_) => {
                    return self.refuse(&context::no_room(caller), answers);
                }
                ParseOutcome::TooLong => return self.refuse(&TOO_LONG, answers),
                ParseOutcome::Many if self.answers_in_parts(caller, input) => {
                    if !self.may_go_on(caller, input, answers).await {
                        return self.refuse(&OVER_LIMIT, answers);
                    }
                    self.answer_part(caller, input, answers).await;
                    return Step::Done(self.parser.take_begun());
                }
                ParseOutcome::Many => self.parser.wait_for_all(),
                ParseOutcome::Request(bytes) => {
                    let goes_on = if self.client.mget_left > 0 {
                        self.answer_part(caller, input, answers).await;
                        tracking::uses_up(&mut self.client);
                        true
                    } else {
                        self.request(caller, input, answers).await
                    };
                    self.parser.forget();
                    return if goes_on { Step::Done(bytes) } else { Step::Close };
                }
            }
        }
    }
}

impl Resp {
    /// A request that may need no future: the place of its command in the table, what it does, and its bytes.
    fn plain_request(
        &mut self,
        caller: &Caller,
        input: &[u8],
        limits: Limits,
    ) -> Option<(usize, PlainRequest, usize)> {
        let is_plain = self.swallow.is_none()
            && self.client.mget_left == 0
            && self.client.is_plain()
            && self.client.subscriptions.is_none()
            && self.client.tracking.is_none()
            && self.client.waiting.is_none()
            && limits.has_logged_in
            && caller.worker.shared.config.cluster.is_none();
        // Two to nine arguments: the parser neither rests nor passes on parts of it.
        let has_few = matches!(input, [b'*', b'2'..=b'9', b'\r', b'\n', ..]);
        if !is_plain || !has_few {
            return None;
        }
        let ParseOutcome::Request(bytes) = self.parser.parse(input, limits) else { return None };
        let argv = self.parser.arguments(input);
        let (at, command) = table::find(argv.get(0))?;
        let does = match (command.does, argv.len()) {
            (Does::Set, 3) => PlainRequest::Sets,
            (does, arguments) if run::may_end_at_once(does) && command.takes(arguments) => {
                PlainRequest::Ends(command)
            }
            (does, 2) if command.takes(2) => PlainRequest::Reads(ValueRead::of(does, argv)?.ok()?),
            _ => return None,
        };
        Some((at, does, bytes))
    }

    fn breaks(&mut self, broken: parse::ProtocolError, answers: &mut Answers<'_>) -> Step {
        let refusal = Refusal::Said(format!("ERR Protocol error: {broken}"));
        self.client.refuse(&refusal, answers);
        Step::Close
    }

    /// Refuses an incomplete request, and discards the rest of it.
    fn refuse(&mut self, refusal: &Refusal, answers: &mut Answers<'_>) -> Step {
        self.client.refuse(refusal, answers);
        if self.client.mget_left > 0 {
            // Its answer has begun and cannot be finished.
            return Step::Close;
        }
        if let Some(transaction) = &mut self.client.transaction {
            transaction.is_spoilt = true;
        }
        let (swallow, bytes) = self.parser.swallow();
        self.swallow = Some(swallow);
        Step::Done(bytes)
    }

    /// Whether a long request can be answered in parts: only MGET, which is equivalent to one request per key.
    fn answers_in_parts(&mut self, caller: &Caller, input: &[u8]) -> bool {
        self.client.mget_left > 0
            || self.parser.arguments(input).get(0).eq_ignore_ascii_case(b"mget")
                && !caller.needs_login()
                && self.client.transaction.is_none()
                && self.client.replies == client::Replies::On
                && caller.worker.shared.config.cluster.is_none()
    }

    /// Whether a part of a long request may be answered; the first part takes the decision by the rate limit.
    async fn may_go_on(
        &self,
        caller: &mut Caller,
        input: &[u8],
        answers: &mut Answers<'_>,
    ) -> bool {
        let key = self.parser.arguments(input).get(1);
        self.client.mget_left > 0 || caller.may_begin(key, answers).await
    }

    async fn answer_part(&mut self, caller: &mut Caller, input: &[u8], answers: &mut Answers<'_>) {
        let argv = self.parser.arguments(input);
        let mut first = 0;
        if self.client.mget_left == 0 {
            self.client.mget_left = self.parser.arguments_left() - 1;
            first = 1;
            note_mget(caller, &self.client);
            Writer::new(answers.bytes(), self.client.is_resp3).array(self.client.mget_left);
        }
        let space = caller.tenant.databases.space(self.client.database());
        let mut buffer = Vec::new();
        for key in argv.from(first) {
            self.client.mget_left -= 1;
            let name = space.name(key, &mut buffer);
            tracking::reads(caller, &self.client, name);
            read::answer(ValueRead::GetString, (caller, &self.client), name, answers).await;
        }
    }

    /// Answers a request. `false`: the connection ends.
    async fn request(
        &mut self,
        caller: &mut Caller,
        input: &[u8],
        answers: &mut Answers<'_>,
    ) -> bool {
        let Self { parser, client, leaves, .. } = self;
        let argv = parser.arguments(input);
        caller.worker.counters.resp_commands.add(1);
        let name = argv.get(0);
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            // A web page may make a browser send requests to us.
            tracing::warn!(peer = %caller.peer, "HTTP was sent, as if to attack across protocols");
            return false;
        }
        if client.listed.is_none() {
            let shared = &caller.worker.shared;
            let (peer, known) = (caller.peer.to_string(), context::known_as(caller));
            client.listed = Some(shared.resp.list(caller.id, peer, known));
            leaves.0 = Some((Arc::clone(shared), caller.id));
        }
        if client.listed.as_ref().is_some_and(|it| it.is_killed.load(Ordering::Relaxed)) {
            return false;
        }
        let mut found = admitted(caller, argv);
        if let (Ok(command), Some(map)) = (&found, &caller.worker.shared.config.cluster)
            && let Err(refusal) = slots::check(map, command.1.keys_of(argv), caller).await
        {
            found = Err(rejected(caller, command.0, refusal));
        }
        if let Ok((at, command)) = found
            && let Err(refusal) = subscribe::allows(client, command)
        {
            found = Err(rejected(caller, at, refusal));
        }
        let found = match found {
            Ok(found) => found,
            Err(refusal) => {
                if let Some(transaction) = &mut client.transaction {
                    transaction.is_spoilt = true;
                }
                client.refuse(&refusal, answers);
                return true;
            }
        };
        if !may_begin(found.1, argv, caller, answers).await {
            if let Some(transaction) = &mut client.transaction {
                transaction.is_spoilt = true;
            }
            client.refuse(&OVER_LIMIT, answers);
            return true;
        }
        if let Some(listed) = &client.listed {
            listed.asks(found.0);
        }
        answer(found, argv, (caller, client), answers).await;
        !client.closes
    }
}

/// Whether a request may begin under the rate limits of its tenant. Login and connection commands always may, and so
/// may the end of a transaction, whose requests were admitted one by one.
async fn may_begin(
    command: &Command,
    argv: Arguments<'_>,
    caller: &mut Caller,
    answers: &mut Answers<'_>,
) -> bool {
    if command.has(flags::NO_AUTH) || matches!(command.does, Does::Exec | Does::Discard) {
        return true;
    }
    let key = command.keys_of(argv).next().unwrap_or_default();
    caller.may_begin(key, answers).await
}

fn limits_of(caller: &Caller) -> Limits {
    Limits {
        has_logged_in: !caller.needs_login(),
        value_bytes_max: caller.worker.shared.config.value_bytes_max,
    }
}

fn note_mget(caller: &Caller, client: &Client) {
    caller.worker.counters.resp_commands.add(1);
    let Some((at, _)) = table::find(b"mget") else { return };
    if let Some(listed) = &client.listed {
        listed.asks(at);
    }
    if let Some(calls) = caller.worker.shared.resp.calls(caller.worker.number, at) {
        calls.calls.add(1);
    }
}

/// The command that the request names, if it is allowed.
fn admitted(caller: &Caller, argv: Arguments<'_>) -> Result<(usize, &'static Command), Refusal> {
    let needs_login = caller.needs_login();
    let Some((at, command)) = table::find(argv.get(0)) else {
        return Err(unknown(argv));
    };
    if !command.takes(argv.len()) {
        return Err(rejected(caller, at, context::wrong_arity(command.name)));
    }
    if needs_login && !command.has(flags::NO_AUTH) {
        return Err(rejected(caller, at, Refusal::Says("NOAUTH Authentication required.")));
    }
    Ok((at, command))
}

/// Counts a refusal of the command at this index of the table.
fn rejected(caller: &Caller, at: usize, refusal: Refusal) -> Refusal {
    if let Some(calls) = caller.worker.shared.resp.calls(caller.worker.number, at) {
        calls.rejected.add(1);
    }
    refusal
}

fn unknown(argv: Arguments<'_>) -> Refusal {
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        context::shown(argv.get(0))
    );
    for argument in argv.from(1) {
        if text.len() >= 256 {
            break;
        }
        text += &format!("'{}' ", context::shown(argument));
    }
    if let Some(instead) = absent::instead_of(argv.get(0)) {
        text += instead;
    }
    Refusal::Said(text)
}

/// Answers a request that reads the values of its keys, each by itself.
async fn answer_reads(
    (read, command): (ValueRead, &'static Command),
    argv: Arguments<'_>,
    (caller, client): (&mut Caller, &mut Client),
    answers: &mut Answers<'_>,
) {
    let keys = if command.does == Does::Mget { argv.len() } else { 2 };
    let space = caller.tenant.databases.space(client.database());
    let renamed = key_names::renamed(space, command, argv);
    let argv = renamed.as_ref().map_or(argv, |renamed| argv.with_names(renamed));
    for key in argv.from(1).take(keys - 1) {
        tracking::reads(caller, client, key);
        read::answer(read, (caller, client), key, answers).await;
    }
    tracking::request_ends(client, command);
}

/// Answers a request that was admitted.
async fn answer(
    (at, command): (usize, &'static Command),
    argv: Arguments<'_>,
    (caller, client): (&mut Caller, &mut Client),
    answers: &mut Answers<'_>,
) {
    let is_plain = client.is_plain();
    if is_plain && command.has(flags::READONLY) {
        let read = match (command.does, ValueRead::of(command.does, argv)) {
            (_, Some(Ok(read))) => Some(read),
            (Does::Mget, _) => {
                Writer::new(answers.bytes(), client.is_resp3).array(argv.len() - 1);
                Some(ValueRead::GetString)
            }
            _ => None,
        };
        if let Some(read) = read {
            if let Some(calls) = caller.worker.shared.resp.calls(caller.worker.number, at) {
                calls.calls.add(1);
            }
            answer_reads((read, command), argv, (caller, client), answers).await;
            return;
        }
    }
    if command.waits_for_earlier() || !is_plain {
        answers.settle().await;
    }
    let is_muted = client.is_muted() && !subscribe::confirms_by_push(client, command);
    let mut nobody = Vec::new();
    let bytes = if is_muted { &mut nobody } else { answers.bytes() };
    let out = Writer::new(bytes, client.is_resp3);
    let mut cx = Context { caller, client, out };
    let is_queued = cx.client.transaction.is_some()
        && !matches!(
            command.does,
            Does::Exec | Does::Discard | Does::Multi | Does::Watch | Does::Quit | Does::Reset
        );
    if is_queued {
        if let Err(refusal) = transaction::queue(&mut cx, (at, command), argv) {
            cx.out.refusal(&refusal);
        }
        return;
    }
    if cx.client.transaction.is_some() && matches!(command.does, Does::Multi | Does::Watch) {
        cx.out.refusal(&Refusal::Says(match command.does {
            Does::Multi => "ERR MULTI calls can not be nested",
            _ => "ERR WATCH inside MULTI is not allowed",
        }));
        return;
    }
    let was_off = cx.client.replies == client::Replies::Off;
    // The refusal is written as well.
    let _ = if command.group == Group::Scripting {
        // A future of its own, which is shorter than that of all other commands.
        let timing = timing::Timing::begins(&cx);
        let done = Box::pin(run::of_scripts(&mut cx, command.does, argv, false)).await;
        timing.ends(&mut cx, (at, command), argv, done)
    } else {
        run::timed(&mut cx, (at, command), argv, false).await
    };
    cx.client.changed = None;
    tracking::request_ends(cx.client, command);
    if was_off && cx.client.replies == client::Replies::On {
        // The first answer that is sent again is that of the request that turns answers on.
        answers.bytes().extend_from_slice(&nobody);
    }
}
