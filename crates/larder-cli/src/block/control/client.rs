//! Asks a running cache.

use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::BinaryBytes;
use larder_workload::Error;
use serde::de::DeserializeOwned;

use super::{Answer, Question, beside, line};
use crate::args::{AskArgs, WhichArgs};
use crate::bars;

/// Longest line of an answer: all dirty ranges of all cores that a cache may have.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The place to ask a running cache.
#[derive(Clone, Debug)]
pub(in crate::block) struct ControlClient {
    path: PathBuf,
    /// Timeout for each line of an answer; `None`: no timeout.
    patience: Option<Duration>,
}

impl ControlClient {
    /// From the socket by which it serves, or from its control socket.
    fn at(unix: Option<&PathBuf>, control: Option<&PathBuf>) -> Self {
        let path = control.cloned().or_else(|| unix.map(|path| beside(path)));
        Self { path: path.unwrap_or_default(), patience: None }
    }

    /// A control socket, with a timeout.
    pub(in crate::block) fn briefly(path: PathBuf, patience: Duration) -> Self {
        Self { path, patience: Some(patience) }
    }

    pub(in crate::block) fn of(arguments: &AskArgs) -> Self {
        Self::at(arguments.unix.as_ref(), arguments.control.as_ref())
    }

    /// For arguments that may also name a stopped cache; this one runs.
    pub(in crate::block) fn of_which(arguments: &WhichArgs) -> Self {
        Self::at(arguments.unix.as_ref(), arguments.control.as_ref())
    }
}

/// Asks, and waits for the answer while a bar shows the progress.
pub(in crate::block) fn ask<T: DeserializeOwned>(
    ControlClient { path, patience }: &ControlClient,
    question: &Question,
) -> Result<T, Error> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Error::run(format!("{}: {what}: {error}", path.display()))
    };
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            let why = "no cache runs there; `larder block start` runs one";
            failed(why, &error)
        }
        _ => failed("it cannot be asked", &error),
    })?;
    let waits = stream.set_read_timeout(*patience).and(stream.set_write_timeout(*patience));
    waits.map_err(|error| failed("it cannot be asked", &error))?;
    let mut asked = serde_json::to_vec(question).map_err(|error| failed("asking", &error))?;
    asked.push(b'\n');
    (&stream).write_all(&asked).map_err(|error| failed("asking", &error))?;
    let mut answers = BufReader::new(&stream);
    let mut bar = None;
    loop {
        let line = line::next(&mut answers, LINE_BYTES_MAX);
        let line = line.map_err(|error| match (error.kind(), patience) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(patience)) => {
                failed("its answer", &format_args!("none within {patience:?}"))
            }
            _ => failed("its answer", &error),
        })?;
        let line = line.ok_or_else(|| failed("its answer", &"it ended before it answered"))?;
        match serde_json::from_slice(&line).map_err(|error| failed("its answer", &error))? {
            Answer::Progress(progress) => {
                let left = format!("{} dirty", BinaryBytes(progress.dirty_bytes));
                let bar = bar.get_or_insert_with(|| bars::bar("destaging"));
                bars::set_share(bar, progress.share(), left);
            }
            Answer::Error(message) => return Err(Error::run(message)),
            Answer::Done(value) => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                return serde_json::from_value(value).map_err(|error| failed("its answer", &error));
            }
        }
    }
}
