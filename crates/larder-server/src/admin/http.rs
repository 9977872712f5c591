//! As much of HTTP/1.1 as is asked here: `GET` and `HEAD` of a path, one request a connection (RFC 9112).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 8 << 10;

/// What still comes of a request that was refused is waited for so long.
const FAREWELL: Duration = Duration::from_millis(200);

/// What was asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Without its query.
    pub(super) path: String,
    /// Only the head of the answer is wanted.
    pub(super) is_head: bool,
    /// It comes from a page of another origin.
    pub(super) is_foreign: bool,
}

/// What is answered.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads a request, or the status that refuses it.
    pub(super) fn read(mut stream: &TcpStream) -> io::Result<Result<Self, u16>> {
        let (mut head, mut piece) = (Vec::new(), [0; 1024]);
        loop {
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head.extend_from_slice(piece.get(..count).unwrap_or_default());
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                head.truncate(end);
                return Ok(Self::parse(&head));
            }
            if head.len() > HEAD_MAX {
                return Ok(Err(431));
            }
        }
    }

    /// Understands a head without the empty line at its end.
    fn parse(head: &[u8]) -> Result<Self, u16> {
        let head = std::str::from_utf8(head).map_err(|_| 400_u16)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        if words.next().is_some() || !version.is_some_and(|text| text.starts_with("HTTP/1.")) {
            return Err(400);
        }
        let is_head = match method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Err(405),
        };
        let target = target.filter(|target| target.starts_with('/')).ok_or(400_u16)?;
        let (mut host, mut origin, mut site) = (None, None, None);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(400_u16)?;
            let slot = match name.to_ascii_lowercase().as_str() {
                "host" => &mut host,
                "origin" => &mut origin,
                "sec-fetch-site" => &mut site,
                _ => continue,
            };
            if slot.replace(value.trim()).is_some() {
                return Err(400);
            }
        }
        let host = host.ok_or(400_u16)?;
        let elsewhere = |origin: &str| origin.split_once("://").is_none_or(|(_, it)| it != host);
        let is_foreign = origin.is_some_and(elsewhere) || site == Some("cross-site");
        let path = target.split('?').next().unwrap_or_default().to_owned();
        Ok(Self { path, is_head, is_foreign })
    }
}

impl Response {
    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.as_bytes().to_vec() }
    }

    pub(super) fn send(&self, mut stream: &TcpStream, head_only: bool) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        // What is here is data for whoever asked, and nothing that a browser should run, keep or guess at.
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        stream.write_all(head.as_bytes())?;
        if !head_only {
            stream.write_all(&self.body)?;
        }
        Ok(())
    }
}

/// Takes a little of what is still coming: who hangs up before all was received takes its answer back.
pub(super) fn hang_up(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(FAREWELL))?;
    let mut piece = [0; 1024];
    for _ in 0..64 {
        if stream.read(&mut piece)? == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(head: &str) -> Result<String, u16> {
        Request::parse(head.as_bytes()).map(|request| request.path)
    }

    #[test]
    fn requests_are_understood_or_refused() {
        assert_eq!(path("GET /metrics?x=1 HTTP/1.1\r\nHost: a"), Ok("/metrics".to_owned()));
        let head = Request::parse(b"HEAD / HTTP/1.0\r\nhost: a\r\nx: y").unwrap();
        assert!(head.is_head && !head.is_foreign);
        assert_eq!(path("POST / HTTP/1.1\r\nHost: a"), Err(405));
        for wrong in [
            "",
            "GET",
            "GET / HTTP/2\r\nHost: a",
            "GET x HTTP/1.1\r\nHost: a",
            "GET http://x/ HTTP/1.1\r\nHost: a",
            "GET / HTTP/1.1 x\r\nHost: a",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
            "GET / HTTP/1.1\r\nHost: a\r\nnonsense",
        ] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Request::parse(b"GET /\xff HTTP/1.1\r\nHost: a"), Err(400));
    }

    #[test]
    fn pages_of_other_origins_are_foreign() {
        let is_foreign = |fields: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: a:9180\r\n{fields}");
            Request::parse(head.as_bytes()).unwrap().is_foreign
        };
        assert!(!is_foreign("Origin: http://a:9180"));
        assert!(!is_foreign("Sec-Fetch-Site: same-origin"));
        assert!(is_foreign("Origin: http://b"));
        assert!(is_foreign("Origin: null"));
        assert!(is_foreign("Sec-Fetch-Site: cross-site"));
    }
}
