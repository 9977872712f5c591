//! Listening for requests by HTTP. Each is answered by a thread of its own, a few at a time.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_device::sockets::{Stop, wait_for};

use super::http::{self, Method, Request, Response};
use super::places::Places;
use crate::error::{Error, ErrorKind};

/// A whole request that takes longer to come, or an answer to go, ends.
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

    /// Answers, by what was asked, the address at which it was, and the places for answers, until it is told to stop.
    pub(super) fn run<R>(self, stop: &Stop, respond: R) -> io::Result<()>
    where
        R: Fn(&Request, IpAddr, &Places) -> Response + Send + Sync + 'static,
    {
        let (places, respond) = (Places::default(), Arc::new(respond));
        while !stop.is_set() {
            wait_for(&[&self.0], stop)?;
            let Ok((stream, _)) = self.0.accept() else { continue };
            let (places, respond) = (places.clone(), Arc::clone(&respond));
            let answer = move || {
                // Whoever hangs up, or sends nonsense, is nobody's trouble but its own.
                let _ = answer(&stream, &places, &*respond);
            };
            let _ = std::thread::Builder::new().name("larder-admin".to_owned()).spawn(answer);
        }
        Ok(())
    }
}

fn answer(
    stream: &TcpStream,
    places: &Places,
    respond: &dyn Fn(&Request, IpAddr, &Places) -> Response,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let reading = places.read(stream)?;
    let request = Request::read(stream, Instant::now() + PATIENCE)?;
    drop(reading);
    let request = match request {
        Ok(request) => request,
        Err(status) => {
            Response::text(status, "").send(stream, false, Instant::now() + PATIENCE)?;
            return http::hang_up(stream);
        }
    };
    let local = stream.local_addr().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip());
    let response = respond(&request, local, places);
    response.send(stream, request.method == Method::Head, Instant::now() + PATIENCE)
}
