//! Lua 5.1 scripts, as Redis clients send them, in steps that a server's loop can take between other work.
//!
//! - A [`Machine`] is an interpreter with a stack of its own. [`Machine::start`] begins a script, which makes a
//!   [`Running`] of it; at the end the machine is free for the next script.
//! - [`Running::resume`] runs the script until it has run for about 10 µs ([`Step::Rests`]), makes a request
//!   ([`Step::Calls`]) or ends ([`Step::Ends`]). Between two steps, nothing of the script runs.
//! - A [`Running`] that is dropped ends the script there, whatever it does: no `pcall` can prevent it. That is how a
//!   limit of time is kept.
//! - The memory of a script is limited, and is counted in a [`Budget`].
//! - A script cannot change what the next script on the same machine sees: `libs` locks all tables.
//!
//! The files: `raw` and `stack` have all unsafe code, and its rules; `host` what lies beside a state; `run` a
//! script's course; `libs` its libraries; `pattern` the matcher of `string.find`; `reply`, `answer` and `number`
//! convert values.

mod answer;
mod budget;
mod host;
mod libs;
mod name;
mod number;
mod pattern;
mod random;
mod raw;
mod reply;
mod run;
mod settings;
mod stack;

pub use crate::budget::Budget;
pub use crate::host::LogLevel;
use crate::host::{Ending, Host, Name, Purse, Signal, Strings};
pub use crate::name::sha1_hex;
use crate::stack::{Interpreter, ScriptStack, Suspended};

/// A machine with more memory than this after a script is not used again.
const IDLE_BYTES_MAX: usize = 256 << 10;

/// An interpreter that runs one script after the other, all of one owner.
pub struct Machine {
    interpreter: Interpreter,
    stack: ScriptStack,
}

/// A script to run.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// SHA-1 of the source, as [`sha1_hex`] gives it.
    pub name: &'a [u8; 40],
    /// The source.
    pub source: &'a [u8],
    /// Whether its answer is in version 3 of RESP.
    pub is_resp3: bool,
    /// Whether it is compiled alone, and not run.
    pub only_compiles: bool,
}

/// A script in the middle of its course. Dropping it ends the script.
pub struct Running(Suspended);

/// Why a script does not run on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has run for about 10 µs.
    Rests,
    /// It makes a request: [`Running::take_request`], and then [`Running::replies`].
    Calls,
    /// It has ended: [`Running::end`].
    Ends,
}

/// A request that a script makes.
#[derive(Debug, Default)]
pub struct Request(Strings);

/// How a script ended.
pub struct End {
    /// Its answer, in RESP; empty without memory for one.
    pub answer: Vec<u8>,
    /// Why there is no answer, or one that is an error.
    pub outcome: Outcome,
    /// The machine, if it may be used again.
    pub machine: Option<Machine>,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has returned a value.
    Returned,
    /// It raised an error, which is the answer.
    Failed,
    /// It is not Lua, which is the answer.
    Uncompiled,
    /// Its memory was not enough.
    WithoutMemory,
}

impl Machine {
    /// A machine whose scripts may use `bytes_max` bytes of memory each, and `budget` together with others. `None`
    /// without memory for it.
    pub fn new(bytes_max: usize, budget: Box<dyn Budget>) -> Option<Self> {
        let host = Host::new(Purse::new(bytes_max, budget));
        Some(Self { interpreter: Interpreter::new(host, libs::open)?, stack: ScriptStack::new()? })
    }

    /// Begins a script; [`Running::resume`] runs it.
    pub fn start<'k>(
        self,
        script: Script<'_>,
        keys: impl Iterator<Item = &'k [u8]>,
        arguments: impl Iterator<Item = &'k [u8]>,
    ) -> Running {
        {
            let mut data = self.interpreter.host().data.borrow_mut();
            data.clear();
            data.name = Name(*script.name);
            data.source.extend_from_slice(script.source);
            (data.answers_in_resp3, data.only_compiles) = (script.is_resp3, script.only_compiles);
            for key in keys {
                data.keys.push(key);
            }
            for argument in arguments {
                data.arguments.push(argument);
            }
        }
        Running(Suspended::new(self.interpreter, self.stack, run::script))
    }

    /// Bytes of memory that the interpreter uses.
    pub fn used_bytes(&self) -> usize {
        self.interpreter.host().purse.used()
    }
}

impl Running {
    /// Runs the script on.
    pub fn resume(&mut self) -> Step {
        match self.0.resume() {
            Ok(Signal::Slice) => Step::Rests,
            Ok(Signal::Call) => Step::Calls,
            Err(is_well) => {
                if !is_well {
                    self.0.host().data.borrow_mut().ending = Ending::WithoutMemory;
                }
                Step::Ends
            }
        }
    }

    /// The request that it makes, and a buffer for the reply.
    pub fn take_request(&mut self) -> (Request, Vec<u8>) {
        let mut data = self.0.host().data.borrow_mut();
        let mut reply = std::mem::take(&mut data.reply);
        reply.clear();
        (Request(std::mem::take(&mut data.request)), reply)
    }

    /// Gives it the reply to its request, in RESP of the version that [`Running::replies_in_resp3`] says.
    pub fn replies(&mut self, request: Request, reply: Vec<u8>) {
        const KEPT: usize = 64 << 10;
        let mut data = self.0.host().data.borrow_mut();
        data.reply = reply;
        if request.0.bytes.capacity() <= KEPT {
            data.request = request.0;
        }
    }

    /// Whether replies to its requests have version 3 of RESP.
    pub fn replies_in_resp3(&self) -> bool {
        self.0.host().data.borrow().replies_in_resp3
    }

    /// Lines that it has logged since the last call.
    pub fn take_logs(&mut self) -> Vec<(LogLevel, Vec<u8>)> {
        std::mem::take(&mut self.0.host().data.borrow_mut().logs)
    }

    /// Bytes that it may still take.
    pub fn bytes_left(&self) -> usize {
        self.0.host().purse.left()
    }

    /// Counts bytes that the server keeps for the script among its memory, until it ends. On `false` there is no room.
    pub fn take_bytes(&self, bytes: usize) -> bool {
        let host = self.0.host();
        let fits = host.purse.take(bytes);
        if fits {
            host.kept_beside.set(host.kept_beside.get() + bytes);
        }
        fits
    }

    /// How it ended, after [`Step::Ends`].
    pub fn end(self) -> End {
        let (ending, answer) = {
            let mut data = self.0.host().data.borrow_mut();
            (data.ending, std::mem::take(&mut data.answer))
        };
        let outcome = match ending {
            Ending::Answered => Outcome::Returned,
            Ending::Failed => Outcome::Failed,
            Ending::Uncompiled => Outcome::Uncompiled,
            Ending::WithoutMemory => Outcome::WithoutMemory,
        };
        let answer = if outcome == Outcome::WithoutMemory { Vec::new() } else { answer };
        let machine = self.0.into_parts().and_then(|(interpreter, stack)| {
            let kept = interpreter.host().kept_beside.take();
            interpreter.host().purse.give(kept);
            interpreter.host().purse.settle();
            let is_small = interpreter.host().purse.used() <= IDLE_BYTES_MAX;
            is_small.then_some(Machine { interpreter, stack })
        });
        End { answer, outcome, machine }
    }
}

impl Request {
    /// The bytes of its arguments, one behind the other, and the begin and the end of each.
    pub fn parts(&self) -> (&[u8], &[(u32, u32)]) {
        (&self.0.bytes, &self.0.places)
    }
}
