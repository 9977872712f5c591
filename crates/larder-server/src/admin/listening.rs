//! Listening for requests by HTTP. Each is answered by a thread of its own, a few at a time.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use larder_device::sockets::{Stop, wait_for};

use super::http::{self, Method, Request, Response};
use crate::error::{Error, ErrorKind};

/// Answers at a time; who comes when there are so many is told so.
const AT_A_TIME: usize = 8;
/// A request that takes longer to come, or an answer to go, ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// An address that is listened on.
pub(crate) struct Listening(TcpListener);

impl Listening {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(Self(listener))
        });
        bound.map_err(|error| {
            let doing =
                format!("cannot listen on {address} for metrics; choose another address, or none");
            Error::system(ErrorKind::Listen, doing, error)
        })
    }

    /// Where it is, with the port that was free.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    /// Answers, by what was asked and the address at which it was, until it is told to stop.
    pub(super) fn run<R>(self, stop: &Stop, respond: R) -> io::Result<()>
    where
        R: Fn(&Request, IpAddr) -> Response + Send + Sync + 'static,
    {
        let (answering, respond) = (Arc::new(AtomicUsize::new(0)), Arc::new(respond));
        while !stop.is_set() {
            wait_for(&[&self.0], stop)?;
            let Ok((stream, _)) = self.0.accept() else { continue };
            let place = Place::take(&answering);
            let respond = Arc::clone(&respond);
            let answer = move || {
                // Whoever hangs up, or sends nonsense, is nobody's trouble but its own.
                let _ = answer(&stream, place.is_some(), &*respond);
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

fn answer(
    stream: &TcpStream,
    has_place: bool,
    respond: &dyn Fn(&Request, IpAddr) -> Response,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if !has_place {
        return Response::text(503, "too many requests at a time\n").send(stream, false);
    }
    let request = match Request::read(stream)? {
        Ok(request) => request,
        Err(status) => {
            Response::text(status, "").send(stream, false)?;
            return http::hang_up(stream);
        }
    };
    let local = stream.local_addr().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip());
    respond(&request, local).send(stream, request.method == Method::Head)
}
