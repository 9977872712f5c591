//! Scripts, without a server.

mod hostile;
mod language;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use larder_script::{Budget, Machine, Outcome, Running, Script, Step, sha1_hex};

/// Memory that counts, and has an end.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) used: Arc<AtomicUsize>,
    pub(crate) bytes_max: usize,
}

impl Account {
    pub(crate) fn of(bytes_max: usize) -> Self {
        Self { used: Arc::default(), bytes_max }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// What a machine has of an account.
struct Part(Account, usize);

impl Budget for Part {
    fn grow(&mut self, bytes: usize) -> bool {
        let fits = self.0.used() + bytes <= self.0.bytes_max;
        if fits {
            self.0.used.fetch_add(bytes, Ordering::Relaxed);
            self.1 += bytes;
        }
        fits
    }

    fn shrink(&mut self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        self.1 -= bytes;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.0.used.fetch_sub(self.1, Ordering::Relaxed);
    }
}

pub(crate) fn machine() -> Machine {
    machine_of(&Account::of(1 << 30))
}

pub(crate) fn machine_of(account: &Account) -> Machine {
    Machine::new(16 << 20, Box::new(Part(account.clone(), 0))).expect("there is memory")
}

pub(crate) fn start(
    machine: Machine,
    source: &[u8],
    keys: &[&str],
    arguments: &[&[u8]],
) -> Running {
    let name = sha1_hex(source);
    let script = Script { name: &name, source, is_resp3: false, only_compiles: false };
    machine.start(script, keys.iter().map(|key| key.as_bytes()), arguments.iter().copied())
}

/// How a script ended that had at most `limit`: `None` if it was stopped.
pub(crate) fn within(
    limit: Duration,
    mut running: Running,
    mut answer: impl FnMut(&[&[u8]], &mut Vec<u8>),
) -> Option<(String, Outcome, Option<Machine>)> {
    let begun = Instant::now();
    loop {
        match running.resume() {
            Step::Rests => {}
            Step::Calls => {
                let (request, mut reply) = running.take_request();
                let (bytes, places) = request.parts();
                let argv: Vec<&[u8]> = places
                    .iter()
                    .map(|(begin, end)| &bytes[*begin as usize..*end as usize])
                    .collect();
                answer(&argv, &mut reply);
                running.replies(request, reply);
            }
            Step::Ends => {
                let end = running.end();
                let text = String::from_utf8_lossy(&end.answer).into_owned();
                return Some((text, end.outcome, end.machine));
            }
        }
        if begun.elapsed() > limit {
            return None;
        }
    }
}

/// Answers the arguments of a request, as an array.
pub(crate) fn echo(argv: &[&[u8]], reply: &mut Vec<u8>) {
    reply.extend(format!("*{}\r\n", argv.len()).bytes());
    for argument in argv {
        reply.extend(format!("${}\r\n", argument.len()).bytes());
        reply.extend_from_slice(argument);
        reply.extend(b"\r\n");
    }
}

/// The answer of a script that makes no request, or only ones that are answered by themselves.
#[track_caller]
pub(crate) fn answer(source: &str) -> String {
    let running = start(machine(), source.as_bytes(), &["k"], &[b"a"]);
    within(Duration::from_secs(20), running, echo).expect("it ends").0
}

/// The string that a script returns.
#[track_caller]
pub(crate) fn text(source: &str) -> String {
    let answer = answer(source);
    let (head, rest) = answer.split_once("\r\n").expect("a line");
    assert!(head.starts_with('$'), "{answer}");
    rest.strip_suffix("\r\n").expect("an end").to_owned()
}
