//! The process that has an image answers other commands (`ask.rs`). Requests are answered one after the other, and each
//! within some seconds, so a client that says nothing costs no memory and little time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use larder_blocks::VssdArray;
use larder_blocks::vssd::Levelling;
use larder_net::sockets::{Endpoint, ListeningSocket, Stop, wait_for};

use super::ask::place;
use super::list::listed;
use super::make::{created, deleted, grown};
use super::question::{Answer, Question};
use super::swap;
use super::wear::worn;

const QUESTION_BYTES_MAX: usize = 4096;
/// A client that is silent for this time is left.
const PATIENCE: Duration = Duration::from_secs(2);
const ONLY_OWNER: u32 = 0o600;

/// The thread that answers, until it is dropped.
pub(crate) struct Owner {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    /// Listens beside `image`. If that is not possible, it says why, and other commands cannot ask.
    pub(crate) fn listen(
        array: &VssdArray,
        levelling: Option<&Arc<Levelling>>,
        image: &Path,
    ) -> Option<Self> {
        let listening = (|| {
            let socket = Endpoint::Unix { path: place(image)?, mode: ONLY_OWNER };
            let socket = ListeningSocket::bind(&socket)?;
            let stop = Arc::new(Stop::new()?);
            let (array, levelling) = (array.clone(), levelling.cloned());
            let of_thread = Arc::clone(&stop);
            let thread = std::thread::Builder::new().name("owner".to_owned()).spawn(move || {
                serve(&socket, &of_thread, &array, levelling.as_deref());
            })?;
            Ok::<Self, io::Error>(Self { stop, thread: Some(thread) })
        })();
        listening
            .inspect_err(|error| {
                let image = image.display();
                eprintln!("note: other commands cannot ask about {image} meanwhile: {error}");
            })
            .ok()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has told so.
            let _ = thread.join();
        }
    }
}

fn serve(socket: &ListeningSocket, stop: &Stop, array: &VssdArray, levelling: Option<&Levelling>) {
    while !stop.is_set() && wait_for(&[socket], stop).is_ok() {
        while let Ok(Some((stream, _))) = socket.accept() {
            // A client that goes away, or talks nonsense, is its own loss.
            let _ = answer(UnixStream::from(stream), array, levelling);
        }
    }
}

fn answer(
    mut stream: UnixStream,
    array: &VssdArray,
    levelling: Option<&Levelling>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = question(&mut stream)?;
    let answer = match serde_json::from_slice(&line) {
        Ok(Question::List {}) => Answer::of(listed(array)),
        Ok(Question::Create(wanted)) => Answer::of(created(array, &wanted)),
        Ok(Question::Grow { vssd, units }) => Answer::of(grown(array, vssd, units)),
        Ok(Question::Delete { vssd, destroy_data }) => {
            Answer::of(deleted(array, vssd, destroy_data))
        }
        Ok(Question::Wear {}) => Answer::of(worn(array, levelling)),
        Ok(Question::Swap { drive, channels, back, yes }) => {
            let asked = swap::Asked { drive, channels, back, yes };
            Answer::of(swap::in_service(array, levelling, &asked))
        }
        Ok(Question::Pause { paused }) => Answer::of(swap::pause(array, paused)),
        Err(error) => Answer::Refused { why: format!("question: {error}"), usage: false },
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The line that a client sends, within its time.
fn question(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (mut line, mut some) = (Vec::new(), [0; 512]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || line.len() > QUESTION_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let bytes = stream.read(&mut some)?;
        line.extend_from_slice(&some[..bytes]);
        if bytes == 0 || line.contains(&b'\n') {
            return Ok(line);
        }
    }
}
