//! A victim from its start to its end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::journal;
use super::options::Ending;
use super::victim::{CLOSED, CLOSING, MARK, OPENED, ORDERS_VARIABLE, Orders, PANICKED};

/// A victim that takes longer than this to open or to close is considered hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// When to end the victim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) ending: Ending,
    /// Delay after the beginning of the phase in which it is to be killed.
    pub(super) delay: Duration,
}

/// How the victim ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// The phase that it had reached.
    pub(super) ending: Ending,
    /// When it was certainly gone, in nanoseconds since 1970.
    pub(super) gone_ns: u64,
    /// Time from its start until it was open.
    pub(super) opening: Option<Duration>,
    /// Duration of closing.
    pub(super) closing: Option<Duration>,
}

/// Starts the victim and ends it as planned.
pub(super) fn run(command: &mut Command, orders: &Orders, plan: Plan) -> Result<Ended, String> {
    let text = serde_json::to_string(orders).map_err(|why| format!("cannot give orders: {why}"))?;
    command.env(ORDERS_VARIABLE, text).stdin(Stdio::null()).stdout(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.spawn().map_err(|why| format!("cannot start the victim: {why}"))?;
    let mut incarnation = Incarnation { begin, marks: Vec::new(), words: listen(&mut child) };
    let waited = incarnation.wait_for_moment(plan);
    let killed = child.kill();
    let status = child.wait();
    let gone_ns = journal::now_ns();
    // Read the rest of its output from the pipe.
    while incarnation.hear(PATIENCE).is_ok() {}
    waited?;
    killed.map_err(|why| format!("cannot kill the victim: {why}"))?;
    let status = status.map_err(|why| format!("cannot wait for the victim: {why}"))?;
    incarnation.ended(status, gone_ns)
}

/// The reports of a victim.
struct Incarnation {
    begin: Instant,
    marks: Vec<(String, Instant)>,
    words: Receiver<(String, Instant)>,
}

impl Incarnation {
    /// Returns when it is time for the kill, or the victim is gone.
    fn wait_for_moment(&mut self, plan: Plan) -> Result<(), String> {
        let last = match plan.ending {
            Ending::Opening => None,
            Ending::Running => Some(OPENED),
            Ending::Closing => Some(CLOSING),
            Ending::Closed => Some(CLOSED),
        };
        if let Some(last) = last {
            while self.at(last).is_none() {
                match self.hear(PATIENCE) {
                    Ok(()) => {}
                    // Its exit status tells more.
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Err(RecvTimeoutError::Timeout) => {
                        let seconds = PATIENCE.as_secs();
                        return Err(format!("the victim hangs: not {last} after {seconds} s"));
                    }
                }
            }
        }
        if plan.ending == Ending::Closed {
            while self.hear(PATIENCE).is_ok() {} // until it has exited
        } else {
            thread::sleep(plan.delay);
        }
        Ok(())
    }

    fn hear(&mut self, patience: Duration) -> Result<(), RecvTimeoutError> {
        let word = self.words.recv_timeout(patience)?;
        self.marks.push(word);
        Ok(())
    }

    fn at(&self, mark: &str) -> Option<Instant> {
        self.marks.iter().find(|(word, _)| word == mark).map(|(_, at)| *at)
    }

    fn ended(&self, status: ExitStatus, gone_ns: u64) -> Result<Ended, String> {
        if self.at(PANICKED).is_some() {
            return Err("the victim panicked".to_owned());
        }
        if !status.success() && !was_killed(status) {
            return Err(format!("the victim ended by itself: {status}"));
        }
        let (opened, closing, closed) = (self.at(OPENED), self.at(CLOSING), self.at(CLOSED));
        let ending = match (opened, closing, closed) {
            (_, _, Some(_)) => Ending::Closed,
            (_, Some(_), None) => Ending::Closing,
            (Some(_), None, None) => Ending::Running,
            (None, None, None) => Ending::Opening,
        };
        Ok(Ended {
            ending,
            gone_ns,
            opening: opened.map(|at| at - self.begin),
            closing: closing.zip(closed).map(|(begin, end)| end - begin),
        })
    }
}

/// Passes on the reports of the victim, with their times, until its pipe ends.
fn listen(child: &mut Child) -> Receiver<(String, Instant)> {
    let (say, hear) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if let Some(word) = line.strip_prefix(MARK)
                    && say.send((word.to_owned(), Instant::now())).is_err()
                {
                    break;
                }
            }
        });
    }
    hear
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    const SIGKILL: i32 = 9;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    // On these systems a killed process has this exit code.
    status.code() == Some(1)
}
