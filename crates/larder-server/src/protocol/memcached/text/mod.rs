//! The text protocol: lines, some with a value behind them.

mod admin;
mod dump;
mod login;
pub(super) mod request;
mod retrieve;
mod say;
mod store;
mod watch;

use std::pin::pin;
use std::task::{Context, Poll};

use self::dump::Dump;
use self::request::{TextRequest, parse};
use self::retrieve::{Next, Retrieving};
use self::say::{say, say_unless};
use self::watch::Watching;
use super::fault::{Fault, OVER_LIMIT};
use super::items::{
    Count, CountOutcome, Delete, DeleteOutcome, count, delete, let_pass, server_error,
};
use super::lifetime::Lifetime;
use super::line::{self, Words, append_number};
use super::{meta, watched};
use crate::answers::Answers;
use crate::caller::Caller;
use crate::keyspace::EXPIRE;
use crate::protocol::Step;
use crate::watchers::CloseReason;

/// Longest line, except lines that name many keys.
const LINE_BYTES_MAX: usize = 2048;
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// A longer line of keys is answered key by key as it comes.
const WHOLE_LINE_BYTES_MAX: usize = 64 << 10;

/// A connection that speaks text.
#[derive(Default)]
pub(crate) struct Text {
    going: ConnectionPhase,
}

/// What a connection is doing between two steps.
#[derive(Default)]
enum ConnectionPhase {
    #[default]
    Nothing,
    /// Answering a line of keys.
    Retrieving(Retrieving),
    /// Discarding bytes; then it sends this answer.
    Swallowing {
        bytes: usize,
        answer: Option<&'static str>,
    },
    /// Discarding the rest of a line.
    SwallowingLine,
    Dumping(Dump),
    /// Sending lines of events; what comes is discarded.
    Watching(Watching),
}

impl Text {
    pub(super) async fn step(
        &mut self,
        caller: &mut Caller,
        input: &[u8],
        answers: &mut Answers<'_>,
    ) -> Step {
        match &mut self.going {
            ConnectionPhase::Nothing => self.begin(caller, input, answers).await,
            ConnectionPhase::Retrieving(retrieving) => {
                let (step, next) = retrieving.step(caller, input, answers).await;
                match next {
                    Next::Keys => {}
                    Next::Line => self.going = ConnectionPhase::Nothing,
                    Next::Rest => self.going = ConnectionPhase::SwallowingLine,
                }
                step
            }
            ConnectionPhase::Swallowing { bytes, answer } => {
                let swallowed = input.len().min(*bytes);
                *bytes -= swallowed;
                if *bytes == 0 {
                    answer.map(|answer| say(answers, answer));
                    self.going = ConnectionPhase::Nothing;
                }
                Step::Done(swallowed)
            }
            ConnectionPhase::SwallowingLine => match line::first(input) {
                Some((_, bytes)) => {
                    self.going = ConnectionPhase::Nothing;
                    Step::Done(bytes)
                }
                None => Step::Done(input.len()),
            },
            ConnectionPhase::Dumping(dump) => match dump.step(caller, answers).await {
                true => Step::Again,
                false => {
                    // The end of its line was left unread, because a step must have input.
                    self.going = ConnectionPhase::Nothing;
                    Step::Done(1)
                }
            },
            ConnectionPhase::Watching(_) => Step::Done(input.len()),
        }
    }

    /// Whether it only gets lines of events.
    pub(super) fn is_watching(&self) -> bool {
        matches!(self.going, ConnectionPhase::Watching(_))
    }

    /// Ready when there are lines of events to send.
    pub(super) fn poll_lines(&self, cx: &Context<'_>) -> Poll<()> {
        match &self.going {
            ConnectionPhase::Watching(watching) => watching.poll(cx),
            _ => Poll::Pending,
        }
    }

    /// Answers with lines of events that have come.
    pub(super) async fn lines(&self, caller: &Caller, answers: &mut Answers<'_>) {
        if let ConnectionPhase::Watching(watching) = &self.going {
            watching.lines(caller, answers).await;
        }
    }

    /// See [`Protocol::at_once`](crate::protocol::Protocol::at_once): `get`, `gets`, `mg` and `set`.
    pub(super) fn at_once(
        &mut self,
        caller: &mut Caller,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> usize {
        match &self.going {
            ConnectionPhase::Retrieving(retrieving) => {
                let (bytes, next) = retrieving.at_once(caller, input, out);
                if next == Next::Line {
                    self.going = ConnectionPhase::Nothing;
                }
                bytes
            }
            ConnectionPhase::Nothing => self.begin_at_once(caller, input, out).unwrap_or(0),
            _ => 0,
        }
    }

    fn begin_at_once(
        &mut self,
        caller: &mut Caller,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let (how, head) = match retrieve::plain(input) {
            Some(plain) => plain,
            None if input.starts_with(b"set ") => return store::at_once(caller, input, out),
            None => return meta_at_once(caller, input, out),
        };
        let (line, taken) = line::first(input.get(..WHOLE_LINE_BYTES_MAX).unwrap_or(input))?;
        let keys = line.get(head..)?;
        let first = Words(keys).next()?;
        if caller.needs_login() || !caller.may_begin_at_once(first) {
            return None;
        }
        let retrieving = Retrieving::new(how, caller).check(keys).ok()?;
        let (bytes, next) = retrieving.at_once(caller, input.get(head..taken)?, out);
        if next == Next::Keys {
            // The next step waits for the next key.
            self.going = ConnectionPhase::Retrieving(retrieving);
        }
        Some(head + bytes)
    }

    /// Begins with the next line.
    async fn begin(
        &mut self,
        caller: &mut Caller,
        input: &[u8],
        answers: &mut Answers<'_>,
    ) -> Step {
        if caller.needs_login() {
            return login::step(caller, input, answers).await.unwrap_or_else(|bytes| {
                self.going = ConnectionPhase::Swallowing { bytes, answer: None };
                Step::Done(line::first(input).map_or(1, |(_, taken)| taken))
            });
        }
        let keys = retrieve::begins(input);
        let longest = if keys.is_some() { WHOLE_LINE_BYTES_MAX } else { LINE_BYTES_MAX };
        let found = line::first(input.get(..longest + 2).unwrap_or(input));
        match (found, keys) {
            (Some((line, taken)), _) if line.len() <= longest => {
                self.answer(line, taken, input, caller, answers).await
            }
            (None, _) if input.len() <= longest + 1 => {
                if caller.may_hold(input.len(), input.len() + 1, 0) {
                    return Step::Needs(input.len() + 1);
                }
                caller.worker.counters.refused_busy.add(1);
                say(answers, "SERVER_ERROR out of memory reading request");
                self.going = ConnectionPhase::SwallowingLine;
                Step::Done(input.len())
            }
            (_, Some(_)) if !caller.may_begin(retrieve::first_key(input), answers).await => {
                say(answers, OVER_LIMIT);
                self.going = ConnectionPhase::SwallowingLine;
                Step::Again
            }
            (_, Some(keys)) => match keys.long(input, caller) {
                Ok((retrieving, taken)) => {
                    self.going = ConnectionPhase::Retrieving(retrieving);
                    Step::Done(taken)
                }
                Err(answer) => {
                    say(answers, answer);
                    self.going = ConnectionPhase::SwallowingLine;
                    Step::Again
                }
            },
            // It speaks another protocol.
            (_, None) => {
                caller.closes_for(CloseReason::Error);
                Step::Close
            }
        }
    }

    /// Answers a line, or begins to; the line is `taken` bytes of the input.
    async fn answer(
        &mut self,
        line: &[u8],
        taken: usize,
        input: &[u8],
        caller: &mut Caller,
        answers: &mut Answers<'_>,
    ) -> Step {
        let request = match parse(line) {
            Ok(request) => request,
            Err(Fault::Answer(answer)) => {
                say(answers, answer);
                return Step::Done(taken);
            }
            Err(Fault::Quiet) => return Step::Done(taken),
            Err(Fault::Swallow { answer, bytes }) => {
                self.going = ConnectionPhase::Swallowing { bytes, answer: Some(answer) };
                return Step::Done(taken);
            }
            Err(Fault::Close) => {
                caller.closes_for(CloseReason::Error);
                return Step::Close;
            }
        };
        if request == TextRequest::Quit {
            return Step::Close;
        }
        if let Some(bytes) = request.value_bytes() {
            return self.store(&request, (taken, bytes), input, caller, answers).await;
        }
        let (key, quiet) = request.key_and_quiet();
        if !caller.may_begin(key, answers).await {
            say_unless(quiet, answers, OVER_LIMIT);
            return Step::Done(taken);
        }
        match request {
            TextRequest::Retrieve(how, keys) => match Retrieving::new(how, caller).check(keys) {
                Ok(retrieving) => {
                    self.going = ConnectionPhase::Retrieving(retrieving);
                    return Step::Done(line.len() - keys.len());
                }
                Err(answer) => say(answers, answer),
            },
            TextRequest::Meta(request) => {
                meta::answer(&request, line, caller, answers).await;
                return Step::Done(taken);
            }
            TextRequest::Dump { keys_only } => {
                self.going = ConnectionPhase::Dumping(Dump::new(keys_only));
                return Step::Done(taken - 1);
            }
            TextRequest::Watch(words) => self.watch(words, caller, answers),
            request => self.change(request, caller, answers).await,
        }
        Step::Done(taken)
    }

    fn watch(&mut self, words: Words<'_>, caller: &Caller, answers: &mut Answers<'_>) {
        let streams = watch::streams(words).ok_or("ERROR");
        let watching = match caller.is_admin() {
            true => streams.and_then(|streams| Watching::begin(streams, caller)),
            false => Err(admin::FORBIDDEN),
        };
        match watching {
            Ok(watching) => {
                self.going = ConnectionPhase::Watching(watching);
                say(answers, "OK");
            }
            Err(answer) => say(answers, answer),
        }
    }

    /// Answers a request with a value, once the value has come: `taken` bytes of line, `bytes` bytes of value.
    async fn store(
        &mut self,
        request: &TextRequest<'_>,
        (taken, bytes): (usize, usize),
        input: &[u8],
        caller: &mut Caller,
        answers: &mut Answers<'_>,
    ) -> Step {
        let (key, quiet) = request.key_and_quiet();
        let announced = store::AnnouncedValue { taken, bytes, quiet };
        let value = match self.value(announced, input, request, caller, answers).await {
            Ok(value) => value,
            Err(step) => return step,
        };
        if caller.may_begin(key, answers).await {
            match request {
                TextRequest::Store(store) => {
                    answers.settle().await;
                    store::answer(store, value, caller, answers).await;
                }
                TextRequest::Meta(request) => meta::store(request, value, caller, answers).await,
                _ => unreachable!("no other brings a value"),
            }
        } else {
            answers.settle().await;
            refused(request, caller).await;
            say_unless(quiet, answers, OVER_LIMIT);
        }
        Step::Done(taken + bytes + 2)
    }

    /// Answers requests that are neither a retrieval nor bring a value.
    async fn change(&self, request: TextRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
        answers.settle().await;
        match request {
            TextRequest::Delete { key, quiet } => {
                let deleted = delete(caller, key, Delete::default()).await;
                say_unless(
                    quiet,
                    answers,
                    match &deleted {
                        Ok(DeleteOutcome::Deleted) => "DELETED",
                        Ok(DeleteOutcome::NotFound | DeleteOutcome::Exists) => "NOT_FOUND",
                        Err(why) => server_error(why),
                    },
                );
            }
            TextRequest::Count { key, up, delta, quiet } => {
                let counted = count(caller, key, Count::new(up, delta)).await;
                let answer = match &counted {
                    Ok(CountOutcome::Number { number, .. }) => {
                        if !quiet {
                            append_number(answers.bytes(), *number);
                            say(answers, "");
                        }
                        return;
                    }
                    Ok(CountOutcome::NotFound | CountOutcome::Exists) => "NOT_FOUND",
                    Ok(CountOutcome::NotNumeric) => {
                        "CLIENT_ERROR cannot increment or decrement non-numeric value"
                    }
                    Err(why) => server_error(why),
                };
                say_unless(quiet, answers, answer);
            }
            TextRequest::Touch { key, exptime, quiet } => {
                touch(key, exptime, quiet, caller, answers).await;
            }
            request => admin::answer(request, caller, answers).await,
        }
    }

    /// The value behind a line, if it has come. If not, returns the next step: to wait for it, or to discard it.
    async fn value<'a>(
        &mut self,
        announced: store::AnnouncedValue,
        input: &'a [u8],
        request: &TextRequest<'_>,
        caller: &Caller,
        answers: &mut Answers<'_>,
    ) -> Result<&'a [u8], Step> {
        let store::AnnouncedValue { taken, bytes, quiet } = announced;
        let whole = taken + bytes + 2;
        let refusal = if bytes > caller.worker.shared.config.value_bytes_max {
            caller.worker.counters.store_too_large.add(1);
            Some(TOO_LARGE)
        } else if input.len() < whole && !caller.may_hold(input.len(), whole, 0) {
            caller.worker.counters.refused_busy.add(1);
            Some("SERVER_ERROR out of memory storing object")
        } else {
            None
        };
        if let Some(answer) = refusal {
            answers.settle().await;
            let status = if answer == TOO_LARGE { "too_large" } else { "no_memory" };
            let (key, how) = (request.key_and_quiet().0, (status, request.stores_as()));
            watched::stored(caller, key, how, Lifetime::Endless, None);
            refused(request, caller).await;
            let answer = (!quiet).then_some(answer);
            self.going = ConnectionPhase::Swallowing { bytes: bytes + 2, answer };
            return Err(Step::Done(taken));
        }
        let Some(data) = input.get(taken..whole) else {
            return Err(Step::Needs(whole));
        };
        data.strip_suffix(b"\r\n").ok_or_else(|| {
            say_unless(quiet, answers, "CLIENT_ERROR bad data chunk");
            Step::Done(whole)
        })
    }
}

/// Answers `mg` of an item that DRAM has.
fn meta_at_once(caller: &mut Caller, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if !input.starts_with(b"mg ") || caller.needs_login() {
        return None;
    }
    let (line, taken) = line::first(input.get(..LINE_BYTES_MAX).unwrap_or(input))?;
    let Ok(TextRequest::Meta(request)) = parse(line) else { return None };
    let is_answered =
        caller.may_begin_at_once(&request.key) && meta::at_once(&request, caller, out);
    is_answered.then_some(taken)
}

/// Handles a refused value: if it was to replace the old value unconditionally, deletes that.
async fn refused(request: &TextRequest<'_>, caller: &Caller) {
    if request.replaces() {
        let (key, _) = request.key_and_quiet();
        // When it is dropped, copies of the value are invalid.
        let _touch = caller.touches(key);
        let _ = caller.cache_for(key).delete(key).await;
    }
}

async fn touch(key: &[u8], exptime: i64, quiet: bool, caller: &Caller, answers: &mut Answers<'_>) {
    let cache = caller.cache_for(key);
    let lifetime = Lifetime::new(exptime, cache.moment(key).wall());
    let size = watched::size(caller, key).await;
    let changing = caller.touches(key);
    let touched = caller.watch("touch", key, pin!(cache.touch(key, lifetime.ttl()))).await;
    if let Ok(is_hit) = touched {
        watched::fetched(caller, key, is_hit.then_some(size.unwrap_or(0)));
    }
    match &touched {
        Ok(true) => changing.changed(caller.id, &[EXPIRE]),
        Ok(false) => changing.settles(),
        Err(_) => drop(changing),
    }
    let counters = &caller.worker.counters;
    counters.cmd_touch.add(1);
    say_unless(
        quiet,
        answers,
        match &touched {
            Ok(true) => {
                counters.touch_hits.add(1);
                "TOUCHED"
            }
            Ok(false) => {
                counters.touch_misses.add(1);
                "NOT_FOUND"
            }
            Err(why) => server_error(why),
        },
    );
    let_pass(caller, lifetime).await;
}
