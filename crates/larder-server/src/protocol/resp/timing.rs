//! The time that a request takes, and what is told of it.

use std::time::Instant;

use super::command::{Command, Does};
use super::context::Context;
use super::parse::Arguments;
use super::write::Outcome;

/// A request that runs.
pub(super) struct Timing {
    begun: Instant,
    /// Bytes in the buffer for its answer.
    before: usize,
}

impl Timing {
    pub(super) fn begins(cx: &Context<'_>) -> Self {
        Self { begun: Instant::now(), before: cx.out.len() }
    }

    /// Writes the refusal if there is one, counts the request, and logs it if it was slow.
    pub(super) fn ends(
        self,
        cx: &mut Context<'_>,
        (at, command): (usize, &'static Command),
        argv: Arguments<'_>,
        done: Outcome,
    ) -> Outcome {
        if let Err(refusal) = &done {
            cx.out.back_to(self.before);
            cx.out.refusal(refusal);
        }
        let took = self.begun.elapsed();
        if let Some(listed) = &cx.client.listed {
            listed.is_seen();
        }
        if let Some(calls) = cx.board().calls(cx.caller.worker.number, at) {
            calls.calls.add(1);
            calls.micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            calls.failed.add(u64::from(done.is_err()));
        }
        // The requests within EXEC are logged by themselves, and AUTH has a password.
        let is_told = !matches!(command.does, Does::Exec | Does::Auth | Does::Hello);
        if is_told && cx.caller.worker.shared.slow_log.wants(took) {
            let key = command.keys_of(argv).next().unwrap_or_default();
            cx.caller.note_slow(took, command.name, key);
        }
        if is_told && cx.board().slow.wants(took) {
            let name = cx.client.listed.as_ref().map(|it| it.words().name).unwrap_or_default();
            let (tenant, peer) = (cx.caller.tenant.number, cx.caller.peer.to_string());
            cx.board().slow.add(tenant, took, (argv.len(), argv.from(0)), peer, name);
        }
        done
    }
}
