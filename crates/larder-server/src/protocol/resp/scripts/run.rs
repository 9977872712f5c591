//! Runs a script in steps, and the requests that it makes.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use larder_script::{LogLevel, Outcome as Ending, Running, Script, Step};

use super::super::command::{Command, Does, flags};
use super::super::context::{Context, no_room};
use super::super::parse::Arguments;
use super::super::timing::Timing;
use super::super::write::{Outcome, Refusal, Writer};
use super::super::{key_names, slots, table, turns};
use super::undo::UndoGuard;
use crate::scripts::{RunningScript, ScriptName};
use crate::worker::Worker;

/// Units of work of one step of a script, which takes about 10 µs.
const UNITS_A_STEP: usize = 10;

/// About how many bytes the name of a key takes beside those of the key.
const NAME_BYTES: usize = 48;

/// A script to run.
pub(super) struct Job<'a> {
    pub(super) name: ScriptName,
    pub(super) source: &'a [u8],
    /// The request, whose keys and arguments begin behind the third argument.
    pub(super) argv: Arguments<'a>,
    pub(super) keys: usize,
    pub(super) is_read_only: bool,
    /// Runs its requests. `None`: it is only compiled.
    pub(super) request: Option<RunRequest>,
}

/// Runs a request.
pub(in super::super) type RunRequest = for<'c> fn(
    &'c mut Context<'_>,
    &'static Command,
    Arguments<'c>,
) -> Pin<Box<dyn Future<Output = Outcome> + 'c>>;

/// Why a script is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Time,
    Killed,
    /// The server ends.
    Draining,
    Memory,
    /// It is part of a transaction whose watched key has changed, and has changed nothing itself.
    Overtaken,
}

/// A script on its way.
struct Course<'w> {
    worker: &'w Worker,
    begun: Instant,
    time_limit: Duration,
    registered: RunningScript<'w>,
    is_read_only: bool,
    request: Option<RunRequest>,
    /// The time that `TIME` answers.
    wall: Option<Duration>,
    undo: UndoGuard,
}

/// Runs a script. The outer result is an error if it was not compiled, or did not begin; the inner one if it failed or
/// was stopped.
pub(super) async fn script(
    cx: &mut Context<'_>,
    job: &Job<'_>,
    has_turn: bool,
) -> Result<Outcome, Refusal> {
    let worker = Rc::clone(&cx.caller.worker);
    let scripts = &worker.shared.scripts;
    let (tenant, weight) = (cx.caller.tenant.number, cx.caller.tenant.weight());
    let keys = || job.argv.from(3).take(job.keys);
    let mut kept = cx.caller.keep();
    if !kept.grow(keys().map(|key| key.len() + NAME_BYTES).sum()) {
        return Err(no_room(cx.caller));
    }
    let names: Vec<Vec<u8>> = keys().map(|key| cx.name_of(key)).collect();
    let names = || names.iter().map(|name| &name[..]);
    let held = match has_turn {
        true => {
            turns::hold(cx.caller, names()).await;
            None
        }
        false => Some(turns::take(cx.caller, names).await),
    };
    let place = worker.machines.turn(tenant, weight).await;
    let bytes_max = scripts.memory_bytes_max();
    let machine = worker.machines.take(tenant, bytes_max, || cx.caller.keep());
    let machine = machine.ok_or_else(|| no_room(cx.caller))?;
    let script = Script {
        name: &job.name,
        source: job.source,
        is_resp3: cx.out.is_resp3,
        only_compiles: job.request.is_none(),
    };
    let arguments = if job.request.is_none() { usize::MAX } else { 3 + job.keys };
    let mut running = machine.start(script, keys(), job.argv.from(arguments));
    let mut course = Course {
        worker: &worker,
        begun: Instant::now(),
        time_limit: scripts.time_limit(),
        registered: scripts.begins(tenant),
        is_read_only: job.is_read_only,
        request: job.request,
        wall: None,
        undo: UndoGuard::new(Rc::clone(&worker), held, place),
    };
    let stopped = course.runs(cx, &mut running).await;
    let micros = u64::try_from(course.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    worker.counters.scripts_run.add(1);
    worker.counters.script_micros.add(micros);
    if let Err(stop) = stopped {
        drop(running);
        return Ok(Err(course.stops(stop, job).await));
    }
    let end = running.end();
    if let Some(machine) = end.machine {
        worker.machines.give(tenant, bytes_max, machine);
    }
    match end.outcome {
        Ending::WithoutMemory => Ok(Err(course.stops(Stop::Memory, job).await)),
        Ending::Returned => {
            course.undo.keeps();
            cx.out.written(&end.answer);
            Ok(Ok(()))
        }
        Ending::Failed => {
            course.undo.keeps();
            Ok(Err(error_of(&end.answer)))
        }
        Ending::Uncompiled => Err(error_of(&end.answer)),
    }
}

/// The refusal that an error is, which is written in RESP.
fn error_of(answer: &[u8]) -> Refusal {
    let text = answer.strip_prefix(b"-").unwrap_or(answer);
    Refusal::Said(String::from_utf8_lossy(text.trim_ascii_end()).into_owned())
}

impl Course<'_> {
    /// Runs the script until it ends or is stopped.
    async fn runs(&mut self, cx: &mut Context<'_>, running: &mut Running) -> Result<(), Stop> {
        loop {
            let step = running.resume();
            log(running);
            match step {
                Step::Ends => return Ok(()),
                Step::Rests => cx.caller.work.does(UNITS_A_STEP),
                Step::Calls => {
                    self.calls(cx, running).await?;
                    cx.caller.work.does(1);
                }
            }
            if let Some(stop) = self.stop() {
                return Err(stop);
            }
            cx.caller.rests().await;
        }
    }

    /// Whether it must not go on.
    fn stop(&mut self) -> Option<Stop> {
        if self.begun.elapsed() >= self.time_limit {
            return Some(Stop::Time);
        }
        if self.registered.is_stopped() {
            return Some(Stop::Killed);
        }
        // Connections may finish what they have begun, but the end does not wait for a long script.
        if self.worker.idle.is_draining() {
            let half = self.worker.shared.config.drain_time / 2;
            self.time_limit = self.time_limit.min(half);
            return (self.begun.elapsed() >= half).then_some(Stop::Draining);
        }
        None
    }

    /// Undoes what the stopped script has written. Returns what the client is told.
    async fn stops(self, stop: Stop, job: &Job<'_>) -> Refusal {
        if stop == Stop::Overtaken {
            self.undo.keeps();
            return Refusal::Overtaken;
        }
        self.worker.counters.scripts_stopped.add(1);
        let limit = self.time_limit.as_millis();
        let name = String::from_utf8_lossy(&job.name);
        Box::pin(self.undo.undoes()).await;
        Refusal::Said(match stop {
            Stop::Time => format!(
                "ERR Script stopped: it ran longer than script_time_limit, {limit} ms. Its writes are undone. \
                 script: {name}"
            ),
            Stop::Killed => format!(
                "ERR Error running script, Script killed by user with SCRIPT KILL. Its writes are undone. \
                 script: {name}"
            ),
            Stop::Draining => format!(
                "ERR Script stopped: the server ends. Its writes are undone. script: {name}"
            ),
            _ => format!(
                "ERR Script stopped: not enough memory below script_memory_max, or for clients. Its writes are \
                 undone. script: {name}"
            ),
        })
    }

    /// Runs the request that the script makes.
    async fn calls(&mut self, cx: &mut Context<'_>, running: &mut Running) -> Result<(), Stop> {
        let (request, mut reply) = running.take_request();
        let (bytes, places) = request.parts();
        let argv = Arguments::new(bytes, places);
        let out = Writer::new(&mut reply, running.replies_in_resp3());
        let mut cx = Context { caller: &mut *cx.caller, client: &mut *cx.client, out };
        match self.admitted(&cx, argv).await {
            Err(refusal) => cx.out.refusal(&refusal),
            Ok((_, command)) if command.does == Does::Time => {
                let now = *self.wall.get_or_insert_with(|| cx.wall(b""));
                cx.out.time(now);
            }
            Ok(command) => {
                if command.1.has(flags::WRITE) {
                    self.notes(&mut cx, running, command.1, argv).await?;
                }
                let timing = Timing::begins(&cx);
                let done = match self.request {
                    Some(request) => request(&mut cx, command.1, argv).await,
                    None => Ok(()),
                };
                let done = timing.ends(&mut cx, command, argv, done);
                if matches!(done, Err(Refusal::Overtaken)) {
                    return Err(Stop::Overtaken);
                }
            }
        }
        running.replies(request, reply);
        Ok(())
    }

    /// The command, if a script may run it.
    async fn admitted(
        &self,
        cx: &Context<'_>,
        argv: Arguments<'_>,
    ) -> Result<(usize, &'static Command), Refusal> {
        let found = table::find(argv.get(0));
        let (at, command) =
            found.ok_or(Refusal::Says("ERR Unknown Redis command called from script"))?;
        if !command.takes(argv.len()) {
            return Err(Refusal::Says(
                "ERR Wrong number of args calling Redis command from script",
            ));
        }
        if command.has(flags::NOSCRIPT) {
            return Err(Refusal::Says("ERR This Redis command is not allowed from script"));
        }
        if self.is_read_only && command.has(flags::WRITE) {
            return Err(Refusal::Says(
                "ERR Write commands are not allowed from read-only scripts.",
            ));
        }
        if let Some(map) = &self.worker.shared.config.cluster {
            slots::check(map, command.keys_of(argv), cx.caller).await?;
        }
        Ok((at, command))
    }

    /// Notes the values of the keys that a request is about to change.
    async fn notes(
        &mut self,
        cx: &mut Context<'_>,
        running: &Running,
        command: &Command,
        argv: Arguments<'_>,
    ) -> Result<(), Stop> {
        let renamed = key_names::renamed(cx.space(), command, argv);
        let argv = renamed.as_ref().map_or(argv, |renamed| argv.with_names(renamed));
        let mut keys = command.keys_of(argv).peekable();
        while let Some(key) = keys.next() {
            // An error of the cache is met again by the request itself, which then changes nothing.
            match self.undo.note(cx.caller, running, key).await {
                Ok(true) | Err(_) => {}
                Ok(false) => return Err(Stop::Memory),
            }
            // Behind the last key, the request itself follows as soon as it can.
            if keys.peek().is_some() {
                cx.rests_behind(key).await;
            }
        }
        Ok(())
    }
}

/// Passes on what the script has logged.
fn log(running: &mut Running) {
    for (level, line) in running.take_logs() {
        let line = String::from_utf8_lossy(&line);
        match level {
            LogLevel::Debug | LogLevel::Verbose => tracing::debug!(%line, "a script"),
            LogLevel::Notice => tracing::info!(%line, "a script"),
            LogLevel::Warning => tracing::warn!(%line, "a script"),
        }
    }
}
