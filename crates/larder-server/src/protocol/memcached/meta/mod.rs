//! Meta requests: two letters, a key, and flags that select the operation and the answer.

mod answer;
mod base64;
mod debug;
mod delete;
mod flags;
mod get;
mod number;
mod request;
mod set;

pub(crate) use request::{MetaRequest, Verb, parse};

use crate::answers::Answers;
use crate::caller::Caller;

/// Answers a request other than `ms`; `line` has its words as they came.
pub(super) async fn answer(
    request: &MetaRequest<'_>,
    line: &[u8],
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    caller.worker.counters.cmd_meta.add(1);
    match request.verb {
        Verb::Get => get::answer(request, line, caller, answers).await,
        Verb::Delete => delete::answer(request, caller, answers).await,
        Verb::Arithmetic => number::answer(request, caller, answers).await,
        Verb::Debug => debug::answer(request, caller, answers).await,
        Verb::Set { .. } => unreachable!("its value is awaited first"),
    }
}

/// Answers `mg` of an item that DRAM has, if nothing is changed. Returns whether it did.
pub(super) fn at_once(request: &MetaRequest<'_>, caller: &Caller, out: &mut Vec<u8>) -> bool {
    let is_answered = get::reads_only(request) && get::at_once(request, caller, || out);
    if is_answered {
        caller.worker.counters.cmd_meta.add(1);
    }
    is_answered
}

/// Answers `ms`, once its value has come.
pub(super) async fn store(
    request: &MetaRequest<'_>,
    value: &[u8],
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    caller.worker.counters.cmd_meta.add(1);
    set::answer(request, value, caller, answers).await;
}
