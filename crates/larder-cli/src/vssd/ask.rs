//! Questions of commands to the process that has an image, at a Unix socket beside the image: `m.img.owner`, for its
//! owner alone (mode 0600).
//!
//! A client sends one line of JSON of at most 4 KiB, a [`Question`], and gets one line back, an [`Answer`]: the text
//! and the JSON that the command prints.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use larder_workload::Error;
use serde::{Deserialize, Serialize};

use super::output::deliver;
use super::wanted::Wanted;
use crate::ending::Ending;
use crate::json::JsonTarget;

const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The owner answers when it has time: its tenants come first.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a command asks the owner of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Question {
    /// `larder vssd list`.
    List {},
    /// `larder vssd create`.
    Create(Wanted),
    /// `larder vssd delete`.
    Delete { vssd: u32, destroy_data: bool },
    /// `larder vssd wear`.
    Wear {},
    /// `larder vssd swap`.
    Swap { drive: u32, channels: Option<[u32; 2]>, back: bool, yes: bool },
    /// `larder vssd swap --pause` and `--resume`.
    Pause { paused: bool },
}

/// What the owner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done { text: String, json: serde_json::Value },
    Refused { why: String, usage: bool },
}

impl Answer {
    pub(super) fn done(text: String, result: &impl Serialize) -> Self {
        match serde_json::to_value(result) {
            Ok(json) => Self::Done { text, json },
            Err(error) => Self::Refused { why: error.to_string(), usage: false },
        }
    }
}

/// The socket of an image. Links are followed, so that all names of an image lead to one socket.
pub(super) fn place(image: &Path) -> io::Result<PathBuf> {
    let mut name = image.canonicalize()?.into_os_string();
    name.push(".owner");
    let absolute = PathBuf::from(name);
    // The name of a socket is short. Relative to the present directory it may still fit.
    let relative = std::env::current_dir()
        .ok()
        .and_then(|here| Some(absolute.strip_prefix(here).ok()?.to_owned()));
    Ok(relative.unwrap_or(absolute))
}

/// Asks the owner of `image`; `None` if there is none that answers.
pub(super) fn ask(image: &Path, question: &Question) -> Option<Result<Answer, Error>> {
    let mut stream = UnixStream::connect(place(image).ok()?).ok()?;
    let asked = (|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut line = String::new();
        BufReader::new(&stream).take(ANSWER_BYTES_MAX).read_line(&mut line)?;
        Ok::<Answer, io::Error>(serde_json::from_str(&line)?)
    })();
    let failed = |error| {
        let image = image.display();
        Error::run(format!("--image {image}: the process that has it does not answer: {error}"))
    };
    Some(match asked {
        Ok(Answer::Refused { why, usage: true }) => Err(Error::usage(why)),
        Ok(Answer::Refused { why, usage: false }) => Err(Error::run(why)),
        asked => asked.map_err(failed),
    })
}

/// Prints what the owner says.
pub(super) fn deliver_answer(json: JsonTarget, answer: &Answer) -> Result<Ending, Error> {
    if let Answer::Done { text, json: result } = answer {
        deliver(json, text, result)?;
    }
    Ok(Ending::Complete)
}
