//! Commands for operators.

use super::request::{DebugTime, TextRequest};
use super::say::{say, say_unless};
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::memcached::items::server_error;
use crate::protocol::memcached::version::VERSION;
use crate::protocol::memcached::{flush, nodes, stats};

/// The answer to a client that asks for something of the process and is no administrator.
pub(super) const FORBIDDEN: &str = "CLIENT_ERROR this command is for administrators";

pub(super) async fn answer(request: TextRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    match request {
        TextRequest::Answer { answer, quiet } => say_unless(quiet, answers, answer),
        TextRequest::Version => {
            answers.bytes().extend_from_slice(b"VERSION ");
            say(answers, VERSION);
        }
        TextRequest::FlushAll { delay, quiet } => {
            let flushed = flush::flush_all(caller, delay).await;
            let answer = flushed.as_ref().map_or_else(server_error, |()| "OK");
            say_unless(quiet, answers, answer);
        }
        TextRequest::Stats(words) => {
            let said = stats::answer(caller, words, |name, value| {
                say(answers, &format!("STAT {name} {value}"));
            });
            say(
                answers,
                match said {
                    stats::StatsOutcome::All => "END",
                    stats::StatsOutcome::Reset => "RESET",
                    stats::StatsOutcome::Ok => "OK",
                    stats::StatsOutcome::Unknown => "ERROR",
                    stats::StatsOutcome::Forbidden => FORBIDDEN,
                    stats::StatsOutcome::Wrong => "CLIENT_ERROR usage: stats detail on|off|dump",
                },
            );
        }
        TextRequest::MemoryLimit { quiet, .. } if !caller.is_admin() => {
            say_unless(quiet, answers, FORBIDDEN);
        }
        TextRequest::DebugTime(_) if !caller.is_admin() => say(answers, FORBIDDEN),
        TextRequest::MemoryLimit { mebibytes, quiet } => {
            let set = caller.worker.shared.set_memory_bytes(mebibytes.saturating_mul(1 << 20));
            let shared = "SERVER_ERROR several tenants share the memory";
            say_unless(quiet, answers, if set { "OK" } else { shared });
        }
        TextRequest::Cluster => match &caller.worker.shared.config.memcached_nodes {
            Some(list) => say(answers, &nodes::answer(list)),
            None => say(answers, "ERROR"),
        },
        TextRequest::DebugTime(how) => {
            let Some(clock) = &caller.worker.shared.config.debug_clock else {
                return say(answers, "ERROR");
            };
            match how {
                DebugTime::Hold => clock.hold(true),
                DebugTime::GoOn => clock.hold(false),
                DebugTime::Move(seconds) => clock.move_by(seconds),
            }
            say(answers, "OK");
        }
        _ => say(answers, "ERROR"),
    }
}
