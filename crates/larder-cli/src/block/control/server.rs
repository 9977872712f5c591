//! The server of the control socket.

use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use larder_net::sockets::{Endpoint, ListeningSocket, Stop, wait_for, why_not};
use larder_workload::Error;

use super::answers::Answers;
use super::{Answer, LINE_BYTES_MAX, Question, line};

/// Only the owner may open the socket.
const SOCKET_MODE: u32 = 0o600;
/// Most connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// A client that sends or takes nothing for this long is disconnected.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers until it is dropped.
pub(in crate::block) struct ControlServer {
    path: PathBuf,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens at `path`.
    pub(in crate::block) fn start(path: &Path, answers: Arc<Answers>) -> Result<Self, Error> {
        let refused = |error: &io::Error| {
            Error::run(format!(
                "cannot listen on {} for control: {error}: {}",
                path.display(),
                why_not(error)
            ))
        };
        let endpoint = Endpoint::Unix { path: path.to_owned(), mode: SOCKET_MODE };
        let listener = ListeningSocket::bind(&endpoint).map_err(|error| refused(&error))?;
        let stop = Arc::new(Stop::new().map_err(|error| refused(&error))?);
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("larder-control".to_owned())
            .spawn(move || listen(&listener, &answers, &told))
            .map_err(|error| refused(&error))?;
        Ok(Self { path: path.to_owned(), stop, thread: Some(thread) })
    }

    /// The path of the socket.
    pub(in crate::block) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &ListeningSocket, answers: &Arc<Answers>, stop: &Stop) {
    let connections = Arc::new(AtomicUsize::new(0));
    while !stop.is_set() {
        if wait_for(&[listener], stop).is_err() {
            return;
        }
        let Ok(Some((socket, _))) = listener.accept() else { continue };
        if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            continue;
        }
        let place = ConnectionSlot::take(&connections);
        let answers = Arc::clone(answers);
        let serve = move || {
            let _place = place;
            // A client that hangs up, or sends nonsense, harms only itself.
            let _ = serve(socket, &answers);
        };
        let _ = std::thread::Builder::new().name("larder-asked".to_owned()).spawn(serve);
    }
}

/// One of the connections, until it is dropped.
struct ConnectionSlot(Arc<AtomicUsize>);

impl ConnectionSlot {
    fn take(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(socket: OwnedFd, answers: &Answers) -> io::Result<()> {
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut asked = BufReader::new(&stream);
    loop {
        let line = match line::next(&mut asked, LINE_BYTES_MAX) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    let long = format!("a line of more than {LINE_BYTES_MAX} bytes");
                    send(&stream, &Answer::Error(long))?;
                }
                return Err(error);
            }
        };
        match serde_json::from_slice::<Question>(&line) {
            Ok(question) => answers.answer(question, &mut |answer| send(&stream, answer))?,
            Err(error) => send(&stream, &Answer::Error(format!("no question: {error}")))?,
        }
    }
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}
