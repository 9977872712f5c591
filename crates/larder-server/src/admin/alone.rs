//! A `/metrics` server for other programs, with the same limits as the server's own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use larder_net::sockets::Stop;

use super::hosts;
use super::http::{HttpRequest, Method, Response};
use super::listening::Listening;
use super::places::Places;
use crate::error::{Error, ErrorKind};

/// Answers `/metrics` and `/live` by HTTP until it is dropped: eight requests at a time, each at most 8 KiB and 5 s
/// long. A request whose host name is not an address of this machine, or that comes from a page of another origin, gets
/// no data.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens on `address` (port 0: any free port), and answers each request with the current `text`.
    ///
    /// # Errors
    /// [`ErrorKind::Listen`] if the address cannot be had.
    pub fn start(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let refused =
            |error| Error::system(ErrorKind::Listen, format!("cannot answer on {address}"), error);
        let listening = Listening::bind(address)?;
        let address = listening.address().unwrap_or(address);
        let stop = Arc::new(Stop::new().map_err(refused)?);
        let told = Arc::clone(&stop);
        let run = move || {
            // It ends when waiting for sockets fails.
            let _ = listening
                .run(&told, move |request, local, places| respond(request, local, places, &text));
        };
        let thread = std::thread::Builder::new().name("larder-metrics".to_owned()).spawn(run);
        Ok(Self { address, stop, thread: Some(thread.map_err(refused)?) })
    }

    /// Its address, with the port that the kernel chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn respond(
    request: &HttpRequest,
    local: IpAddr,
    places: &Places,
    text: &dyn Fn() -> String,
) -> Response {
    if !hosts::is_ours(&request.host, local, &[]) {
        return Response::text(421, "ask by an address, or as localhost\n");
    }
    if request.method == Method::Post {
        return Response::unchangeable();
    }
    if request.is_foreign {
        return Response::foreign();
    }
    match &*request.path {
        "/metrics" => match places.take() {
            Some(place) => Response::metrics(request, text()).at(place),
            None => Response::busy(),
        },
        "/live" => Response::text(200, "live\n"),
        _ => Response::text(404, "here are /metrics and /live\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn answer(server: &MetricsServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_told_and_strangers_are_not() {
        let server =
            MetricsServer::start("127.0.0.1:0".parse().unwrap(), || "a 1\n# EOF\n".to_owned())
                .unwrap();
        let host = "Host: 127.0.0.1";
        let told = answer(&server, &format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n"));
        assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("a 1\n# EOF\n"), "{told}");
        let long = format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(9000));
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), 421),
            (format!("GET /metrics HTTP/1.1\r\n{host}\r\nOrigin: http://evil\r\n\r\n"), 403),
            (format!("POST /metrics HTTP/1.1\r\n{host}\r\n\r\n"), 405),
            (format!("GET / HTTP/1.1\r\n{host}\r\n\r\n"), 404),
            ("nonsense\r\n\r\n".to_owned(), 400),
            (long, 431),
        ] {
            let told = answer(&server, &request);
            assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{request:.40}: {told}");
        }
    }
}
