//! What operators and their tools ask of a server: metrics, whether it lives, whether it is ready. HTTP on a port of
//! its own, answered by threads of their own: no worker waits for it.
//!
//! ```text
//!   /metrics   OpenMetrics text: each tenant's cache, and the server's requests
//!   /live      200 as long as the process answers
//!   /ready     200 as long as it takes connections in, with a line if flash is not used; else 503 with the reason
//! ```
//!
//! Nothing here changes anything, so nothing is asked who it is; which address is listened on says who comes in. A page
//! of another origin gets no answer, so that a browser inside does not read metrics for somebody outside.

mod http;
mod metrics;
mod tenants;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use larder::OpenMetrics;

use self::http::{Request, Response};
use crate::acceptor::{Stop, wait_for};
use crate::error::{Error, ErrorKind};
use crate::shared::{Shared, flash_not_used};

/// Answers at a time; who comes when there are so many is told so.
const AT_A_TIME: usize = 8;
/// A request that takes longer to come, or an answer to go, ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where operators come in.
pub(crate) struct Admin {
    listener: TcpListener,
}

impl Admin {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(Self { listener })
        });
        bound.map_err(|error| {
            let doing =
                format!("cannot listen on {address} for metrics; choose another address, or none");
            Error::system(ErrorKind::Listen, doing, error)
        })
    }

    /// Where it is, with the port that was free.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers until it is told to stop.
    pub(crate) fn run(self, shared: &Arc<Shared>, stop: &Stop) -> io::Result<()> {
        let answering = Arc::new(AtomicUsize::new(0));
        while !stop.is_set() {
            wait_for(&[&self.listener], stop)?;
            let Ok((stream, _)) = self.listener.accept() else { continue };
            let place = Place::take(&answering);
            let shared = Arc::clone(shared);
            let answer = move || {
                // Whoever hangs up, or sends nonsense, is nobody's trouble but its own.
                let _ = answer(&stream, place.is_some(), &shared);
            };
            let _ = std::thread::Builder::new().name("larder-admin".to_owned()).spawn(answer);
        }
        Ok(())
    }
}

/// One of the answers at a time, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(answering: &Arc<AtomicUsize>) -> Option<Self> {
        let before = answering.fetch_add(1, Ordering::Relaxed);
        let place = Self(Arc::clone(answering));
        (before < AT_A_TIME).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(stream: &TcpStream, has_place: bool, shared: &Shared) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if !has_place {
        return Response::text(503, "too many requests at a time\n").send(stream, false);
    }
    match Request::read(stream)? {
        Ok(request) => respond(&request, shared).send(stream, request.is_head),
        Err(status) => {
            Response::text(status, "").send(stream, false)?;
            http::hang_up(stream)
        }
    }
}

fn respond(request: &Request, shared: &Shared) -> Response {
    if request.is_foreign {
        return Response::text(403, "pages of other origins are not answered\n");
    }
    match &*request.path {
        "/metrics" => Response {
            status: 200,
            content_type: OpenMetrics::CONTENT_TYPE,
            body: metrics::text(shared).into_bytes(),
        },
        "/live" => Response::text(200, "live\n"),
        "/ready" => match shared.why_not_ready() {
            None => match shared.flash_avoided_since().map(flash_not_used) {
                None => Response::text(200, "ready\n"),
                Some(but) => Response::text(200, &format!("ready\n{but}\n")),
            },
            Some(why) => Response::text(503, &format!("not ready: {why}\n")),
        },
        _ => Response::text(404, "here are /metrics, /live and /ready\n"),
    }
}
