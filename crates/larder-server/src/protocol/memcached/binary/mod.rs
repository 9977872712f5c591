//! The binary protocol. The meta protocol is its successor, but clients still use it.

mod answer;
mod header;
mod login;
mod request;
mod retrieve;

use zerocopy::IntoBytes;
use zerocopy::big_endian::U64;

use self::answer::{done, fail, status_of, succeed};
pub(crate) use self::header::REQUEST;
use self::header::{AnswerParts, HEADER_BYTES, Header, Packet, Status};
use super::items::{
    Count, CountOutcome, Delete, DeleteOutcome, Mode, Store, StoreOutcome, count, delete, store,
};
use super::lifetime::Lifetime;
use super::line::{KEY_BYTES_MAX, Words};
use super::version::VERSION;
use super::{flush, stats};
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::Step;
use request::BinaryRequest;

/// Longest request before a login, so that a stranger cannot take more memory.
const LOGIN_BYTES_MAX: usize = 2048;

/// A connection that speaks the binary protocol.
#[derive(Debug, Default)]
pub(crate) struct Binary {
    /// Bytes to discard.
    swallows: usize,
}

impl Binary {
    pub(super) async fn step(
        &mut self,
        caller: &mut Caller,
        input: &[u8],
        answers: &mut Answers<'_>,
    ) -> Step {
        if self.swallows > 0 {
            let swallowed = input.len().min(self.swallows);
            self.swallows -= swallowed;
            return Step::Done(swallowed);
        }
        let header = match Header::parse(input) {
            Ok(Some(header)) => header,
            Ok(None) => return Step::Needs(HEADER_BYTES),
            Err(_) => return Step::Close,
        };
        if header.key_bytes > KEY_BYTES_MAX {
            answers.settle().await;
            fail(answers, &header, Status::InvalidArguments);
            return Step::Close;
        }
        if let Some(refusal) = self.refusal(&header, input, caller) {
            return self.refuse(&header, refusal, input, caller, answers).await;
        }
        let Some(packet) = header.packet(input) else {
            return Step::Needs(HEADER_BYTES + header.body_bytes);
        };
        match respond(&packet, caller, answers).await {
            Continuation::On => Step::Done(HEADER_BYTES + header.body_bytes),
            Continuation::Away => Step::Close,
        }
    }

    /// Why a request is refused, if it is.
    fn refusal(&self, header: &Header, input: &[u8], caller: &Caller) -> Option<Status> {
        let whole = HEADER_BYTES + header.body_bytes;
        if caller.needs_login() && whole > LOGIN_BYTES_MAX {
            return Some(Status::AuthError);
        }
        if header.value_bytes() > caller.worker.shared.config.value_bytes_max {
            caller.worker.counters.store_too_large.add(1);
            return Some(Status::TooLarge);
        }
        let has_room = input.len() >= whole || caller.may_hold(input.len(), whole, 0);
        if !has_room {
            caller.worker.counters.refused_busy.add(1);
        }
        (!has_room).then_some(Status::OutOfMemory)
    }

    /// Answers with `why`, and discards the request. If it was an unconditional `set`, deletes the old value.
    async fn refuse(
        &mut self,
        header: &Header,
        why: Status,
        input: &[u8],
        caller: &Caller,
        answers: &mut Answers<'_>,
    ) -> Step {
        let front = HEADER_BYTES + header.extras_bytes + header.key_bytes;
        let Some(front_bytes) = input.get(..front) else { return Step::Needs(front) };
        answers.settle().await;
        let key = front_bytes.get(HEADER_BYTES + header.extras_bytes..).unwrap_or_default();
        if why != Status::AuthError && !key.is_empty() && header.replaces() {
            let _touch = caller.touches(key);
            let _ = caller.cache_for(key).delete(key).await;
        }
        fail(answers, header, why);
        self.swallows = HEADER_BYTES + header.body_bytes - front;
        Step::Done(front)
    }
}

/// Whether a connection goes on.
enum Continuation {
    On,
    Away,
}

async fn respond(
    packet: &Packet<'_>,
    caller: &mut Caller,
    answers: &mut Answers<'_>,
) -> Continuation {
    let header = &packet.header;
    let request = match BinaryRequest::parse(packet) {
        Ok(request) => request,
        Err(status) => {
            fail(answers, header, status);
            return Continuation::On;
        }
    };
    if caller.needs_login() && !request.may_come_first() {
        fail(answers, header, Status::AuthError);
        return Continuation::On;
    }
    if !request.may_come_first() && !caller.may_begin(packet.key, answers).await {
        answers.settle().await;
        if let BinaryRequest::Store { .. } = request
            && header.replaces()
        {
            let _touch = caller.touches(packet.key);
            let _ = caller.cache_for(packet.key).delete(packet.key).await;
        }
        fail(answers, header, Status::Busy);
        return Continuation::On;
    }
    match request {
        BinaryRequest::Retrieve(how) => retrieve::answer(packet, how, caller, answers).await,
        BinaryRequest::Quit { quiet } => {
            if !quiet {
                succeed(answers, header, AnswerParts::default(), b"");
            }
            return Continuation::Away;
        }
        BinaryRequest::LogIn(login) => login::answer(packet, login, caller, answers).await,
        request => {
            answers.settle().await;
            change(packet, request, caller, answers).await;
        }
    }
    Continuation::On
}

/// Answers a request that may change something.
async fn change(
    packet: &Packet<'_>,
    request: BinaryRequest,
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    let header = &packet.header;
    match request {
        BinaryRequest::Store { mode, flags, exptime, quiet } => {
            let moment = caller.cache_for(packet.key).moment(packet.key);
            let lifetime = Lifetime::new(exptime, moment.wall());
            let compare = (header.cas != 0).then_some(header.cas);
            let how = Store { compare, wants_version: true, ..Store::new(mode, flags, lifetime) };
            let stored = store(caller, packet.key, packet.value, how).await;
            let status = match stored {
                Ok(StoreOutcome::Stored(cas)) => return done(quiet, answers, header, cas),
                Ok(StoreOutcome::NotStored) => not_stored(mode),
                Ok(StoreOutcome::Exists) => Status::KeyExists,
                Ok(StoreOutcome::NotFound) => Status::KeyNotFound,
                Ok(StoreOutcome::TooLarge) => Status::TooLarge,
                Ok(StoreOutcome::ReservedFlags) => Status::InvalidArguments,
                Err(why) => status_of(&why),
            };
            fail(answers, header, status);
        }
        BinaryRequest::Count { up, delta, vivify, quiet } => {
            let wall = caller.cache_for(packet.key).moment(packet.key).wall();
            let vivify = vivify.map(|(initial, exptime)| (initial, Lifetime::new(exptime, wall)));
            let compare = (header.cas != 0).then_some(header.cas);
            let how = Count { compare, vivify, ..Count::new(up, delta) };
            let status = match count(caller, packet.key, how).await {
                Ok(CountOutcome::Number { .. }) if quiet => return,
                Ok(CountOutcome::Number { number, version, .. }) => {
                    let answered = AnswerParts { cas: version, ..AnswerParts::default() };
                    return succeed(answers, header, answered, U64::new(number).as_bytes());
                }
                Ok(CountOutcome::NotFound) => Status::KeyNotFound,
                Ok(CountOutcome::NotNumeric) => Status::NonNumeric,
                Ok(CountOutcome::Exists) => Status::KeyExists,
                Err(why) => status_of(&why),
            };
            fail(answers, header, status);
        }
        BinaryRequest::Delete { quiet } => {
            let compare = (header.cas != 0).then_some(header.cas);
            let deleted = delete(caller, packet.key, Delete { compare, ..Delete::default() }).await;
            let status = match deleted {
                Ok(DeleteOutcome::Deleted) => return done(quiet, answers, header, 0),
                Ok(DeleteOutcome::NotFound) => Status::KeyNotFound,
                Ok(DeleteOutcome::Exists) => Status::KeyExists,
                Err(why) => status_of(&why),
            };
            fail(answers, header, status);
        }
        BinaryRequest::Flush { delay, quiet } => match flush::flush_all(caller, delay).await {
            Ok(()) => done(quiet, answers, header, 0),
            Err(why) => fail(answers, header, status_of(&why)),
        },
        BinaryRequest::Version => {
            succeed(answers, header, AnswerParts::default(), VERSION.as_bytes())
        }
        BinaryRequest::Stats => statistics(packet, caller, answers),
        // Includes requests that have no effect here.
        _ => succeed(answers, header, AnswerParts::default(), b""),
    }
}

/// Answers a request for statistics: one answer for each, then one that ends them or says why there are none.
fn statistics(packet: &Packet<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    let header = &packet.header;
    let outcome = stats::answer(caller, Words(packet.key), |name, value| {
        let answered = AnswerParts { key: name.as_bytes(), ..AnswerParts::default() };
        succeed(answers, header, answered, value.to_string().as_bytes());
    });
    match outcome {
        stats::StatsOutcome::Unknown => fail(answers, header, Status::KeyNotFound),
        stats::StatsOutcome::Forbidden => fail(answers, header, Status::AuthError),
        _ => succeed(answers, header, AnswerParts::default(), b""),
    }
}

/// The answer when `add` finds a value, or the other modes find none.
fn not_stored(mode: Mode) -> Status {
    match mode {
        Mode::Add => Status::KeyExists,
        Mode::Replace => Status::KeyNotFound,
        Mode::Set | Mode::Append | Mode::Prepend => Status::NotStored,
    }
}

pub(super) fn check(bytes: &[u8]) -> Option<usize> {
    let header = Header::parse(bytes).ok().flatten()?;
    let packet = header.packet(bytes)?;
    let parts = packet.extras.len() + packet.key.len() + packet.value.len();
    assert_eq!(parts, header.body_bytes, "nothing is left over");
    let _ = BinaryRequest::parse(&packet);
    Some(HEADER_BYTES + header.body_bytes)
}
