//! The subset of HTTP/1.1 that we need: `GET` and `HEAD` of a path, `POST` without a body, one request per connection
//! (RFC 9112).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use larder::OpenMetrics;

use super::places::Place;
use super::text_format;

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 8 << 10;

/// How long we read the rest of a request that was refused.
const FAREWELL: Duration = Duration::from_millis(200);

/// The content security policy: a browser may do nothing but what the page itself needs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    /// As `Get`, but the answer is the head alone.
    Head,
    Post,
}

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpRequest {
    pub(super) method: Method,
    /// Without the query.
    pub(super) path: String,
    query: String,
    /// The `Host` field.
    pub(super) host: String,
    /// The request comes from a page of another origin.
    pub(super) is_foreign: bool,
    /// The bearer token, if the request has one.
    pub(super) token: Option<String>,
    /// The `Accept` field, or an empty text.
    accept: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    /// Held until the answer is sent.
    place: Option<Place>,
}

/// The header fields that we use; each may occur at most once.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a str>,
    origin: Option<&'a str>,
    site: Option<&'a str>,
    authorization: Option<&'a str>,
    length: Option<&'a str>,
    encoding: Option<&'a str>,
    accept: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn parse(lines: impl Iterator<Item = &'a str>) -> Result<Self, u16> {
        let mut fields = Self::default();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(400_u16)?;
            let slot = match name.to_ascii_lowercase().as_str() {
                "host" => &mut fields.host,
                "origin" => &mut fields.origin,
                "sec-fetch-site" => &mut fields.site,
                "authorization" => &mut fields.authorization,
                "content-length" => &mut fields.length,
                "transfer-encoding" => &mut fields.encoding,
                // It may come in parts; the first says enough.
                "accept" => {
                    fields.accept.get_or_insert(value.trim());
                    continue;
                }
                _ => continue,
            };
            if slot.replace(value.trim()).is_some() {
                return Err(400);
            }
        }
        Ok(fields)
    }
}

impl HttpRequest {
    /// Reads a request until `deadline`, however slowly it comes. The inner error is the status to refuse it with.
    pub(super) fn read(mut stream: &TcpStream, deadline: Instant) -> io::Result<Result<Self, u16>> {
        let (mut head, mut piece) = (Vec::new(), [0; 1024]);
        loop {
            stream.set_read_timeout(Some(time_until(deadline)?))?;
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

    /// Parses a head without the empty line at its end.
    pub(super) fn parse(head: &[u8]) -> Result<Self, u16> {
        let head = std::str::from_utf8(head).map_err(|_| 400_u16)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        if words.next().is_some() || !version.is_some_and(|text| text.starts_with("HTTP/1.")) {
            return Err(400);
        }
        let method = match method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("POST") => Method::Post,
            _ => return Err(405),
        };
        let target = target.filter(|target| target.starts_with('/')).ok_or(400_u16)?;
        let fields = Fields::parse(lines)?;
        if fields.encoding.is_some() || fields.length.is_some_and(|length| length != "0") {
            // Requests here have no body.
            return Err(413);
        }
        let host = fields.host.ok_or(400_u16)?;
        let elsewhere = |origin: &str| origin.split_once("://").is_none_or(|(_, it)| it != host);
        let is_other_site = fields.site.is_some_and(|site| site != "same-origin" && site != "none");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            host: host.to_owned(),
            is_foreign: fields.origin.is_some_and(elsewhere) || is_other_site,
            token: fields.authorization.and_then(bearer).map(str::to_owned),
            accept: fields.accept.unwrap_or_default().to_owned(),
        })
    }

    /// A value of the query; `None` if there is no such name, or the value is not valid text.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(known, _)| *known == name)?;
        decoded(value)
    }
}

/// The token of an `Authorization` field (RFC 6750).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Decodes a query value: `%41` stands for a byte, `+` for a space.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let number = digit(rest.next())? << 4 | digit(rest.next())?;
                u8::try_from(number).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

impl Response {
    pub(super) fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status, content_type, body, place: None }
    }

    /// The answer holds `place` until it is sent.
    pub(super) fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The answer to a request for which there is no place.
    pub(super) fn busy() -> Self {
        Self::text(503, "too many requests at a time; try again\n")
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        let content_type = "text/plain; charset=utf-8";
        Self::new(status, content_type, body.as_bytes().to_vec())
    }

    /// The answer to `/metrics`, in the format that the client wants.
    pub(super) fn metrics(request: &HttpRequest, text: String) -> Self {
        match text_format::is_wanted(&request.accept) {
            true => Self::new(200, text_format::CONTENT_TYPE, text_format::of(&text).into_bytes()),
            false => Self::new(200, OpenMetrics::CONTENT_TYPE, text.into_bytes()),
        }
    }

    /// The answer to a request that tries to change something that cannot be changed.
    pub(super) fn unchangeable() -> Self {
        Self::text(405, "there is nothing to be changed here\n")
    }

    /// The answer to a request from a page of another origin.
    pub(super) fn foreign() -> Self {
        Self::text(403, "pages of other origins are not answered\n")
    }

    /// Sends the answer until `deadline`, however slowly the client takes it.
    pub(super) fn send(
        &self,
        stream: &TcpStream,
        head_only: bool,
        deadline: Instant,
    ) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            409 => "Conflict",
            413 => "Content Too Large",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            _ => "Service Unavailable",
        };
        let asks = if self.status == 401 { "WWW-Authenticate: Bearer\r\n" } else { "" };
        // A browser must not cache it, guess its type, or show it within another page.
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{asks}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {POLICY}\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        write_all(stream, head.as_bytes(), deadline)?;
        if !head_only {
            write_all(stream, &self.body, deadline)?;
        }
        Ok(())
    }
}

/// The time until the deadline. It is never zero, which the system would refuse as a timeout.
fn time_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(time_until(deadline)?))?;
        let count = stream.write(bytes)?;
        bytes = bytes.get(count..).unwrap_or_default();
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// Reads a little of what is still coming: if we closed with unread bytes, the kernel would reset the connection and
/// the client would lose its answer.
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
        HttpRequest::parse(head.as_bytes()).map(|request| request.path)
    }

    #[test]
    fn requests_are_understood_or_refused() {
        assert_eq!(path("GET /metrics?x=1 HTTP/1.1\r\nHost: a"), Ok("/metrics".to_owned()));
        let head = HttpRequest::parse(b"HEAD / HTTP/1.0\r\nhost: a\r\nx: y").unwrap();
        assert!(head.method == Method::Head && !head.is_foreign && head.token.is_none());
        assert_eq!(path("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0"), Ok("/".to_owned()));
        assert_eq!(path("PUT / HTTP/1.1\r\nHost: a"), Err(405));
        assert_eq!(path("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1"), Err(413));
        assert_eq!(path("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked"), Err(413));
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
        assert_eq!(HttpRequest::parse(b"GET /\xff HTTP/1.1\r\nHost: a"), Err(400));
    }

    #[test]
    fn pages_of_other_origins_are_foreign() {
        let is_foreign = |fields: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: a:9180\r\n{fields}");
            HttpRequest::parse(head.as_bytes()).unwrap().is_foreign
        };
        for own in ["Origin: http://a:9180", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"]
        {
            assert!(!is_foreign(own), "{own}");
        }
        for other in [
            "Origin: http://b",
            "Origin: http://a:9181",
            "Origin: null",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
        ] {
            assert!(is_foreign(other), "{other}");
        }
    }

    #[test]
    fn values_of_queries_are_decoded_or_absent() {
        let value = |query: &str| {
            let head = format!("GET /?{query} HTTP/1.1\r\nHost: a");
            HttpRequest::parse(head.as_bytes()).unwrap().value("tenant")
        };
        assert_eq!(value("tenant=a%20b%3C+%c3%a9"), Some("a b< é".to_owned()));
        assert_eq!(value("x=1&tenant="), Some(String::new()));
        for wrong in
            ["", "tenant", "tenants=1", "tenant=%", "tenant=%4", "tenant=%zz", "tenant=%ff"]
        {
            assert_eq!(value(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_token_is_what_stands_behind_its_scheme() {
        let token = |value: &str| {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nAuthorization: {value}");
            HttpRequest::parse(head.as_bytes()).unwrap().token
        };
        assert_eq!(token("bearer  rye"), Some("rye".to_owned()));
        assert_eq!(token("Basic rye"), None);
        assert_eq!(token("rye"), None);
    }
}
