//! Listens for HTTP requests. Each is answered by its own thread, a few at a time.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_net::sockets::{Stop, wait_for};

use super::http::{self, HttpRequest, Method, Response};
use super::places::Places;
use crate::error::{Error, ErrorKind};

/// Longest time for a whole request to come, and for an answer to be sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// A listening address.
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

    /// Its address, with the port that the kernel chose.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    /// Answers requests until `stop` is set. `respond` gets the request, the local address at which it arrived, and the
    /// places for answers.
    pub(super) fn run<R>(self, stop: &Stop, respond: R) -> io::Result<()>
    where
        R: Fn(&HttpRequest, IpAddr, &Places) -> Response + Send + Sync + 'static,
    {
        let (places, respond) = (Places::default(), Arc::new(respond));
        while !stop.is_set() {
            wait_for(&[&self.0], stop)?;
            let Ok((stream, _)) = self.0.accept() else { continue };
            let (places, respond) = (places.clone(), Arc::clone(&respond));
            let answer = move || {
                // A client that hangs up, or sends nonsense, harms only itself.
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
    respond: &dyn Fn(&HttpRequest, IpAddr, &Places) -> Response,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let reading = places.read(stream)?;
    let request = HttpRequest::read(stream, Instant::now() + PATIENCE)?;
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
