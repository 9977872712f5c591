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
use serde_json::Value;

use super::question::{Answer, Question};

const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The owner answers when it has time: its tenants come first.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// Asks the owner of `image`, and returns the text and the JSON of its result; `None` if there is none that answers.
pub(super) fn ask(image: &Path, question: &Question) -> Option<Result<(String, Value), Error>> {
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
    let failed = |error: io::Error| {
        let image = image.display();
        Error::run(format!("--image {image}: the process that has it does not answer: {error}"))
    };
    Some(match asked {
        Ok(Answer::Refused { why, usage: true }) => Err(Error::usage(why)),
        Ok(Answer::Refused { why, usage: false }) => Err(Error::run(why)),
        Ok(Answer::Done { text, json }) => Ok((text, json)),
        Err(error) => Err(failed(error)),
    })
}
