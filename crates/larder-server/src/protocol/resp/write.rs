//! Writes answers as bytes, in either version of the protocol.

use larder::{Error, ErrorKind};

use super::number::shortest;

/// The buffer for an answer, and its protocol version.
pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    /// Whether the client has asked for version 3.
    pub(super) is_resp3: bool,
}

/// Why a request was refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// This text, which begins with an error code.
    Says(&'static str),
    /// The same, with a text made at run time.
    Said(String),
    Cache(Error),
    /// A watched key has changed before the transaction has changed anything: the transaction does nothing.
    Overtaken,
}

/// The result of a request.
pub(super) type Outcome = Result<(), Refusal>;

/// Common refusals.
pub(super) const SYNTAX: Refusal = Refusal::Says("ERR syntax error");
pub(super) const NO_INTEGER: Refusal = Refusal::Says("ERR value is not an integer or out of range");
pub(super) const NO_FLOAT: Refusal = Refusal::Says("ERR value is not a valid float");
pub(super) const NO_SUCH_KEY: Refusal = Refusal::Says("ERR no such key");
pub(super) const TOO_LONG: Refusal =
    Refusal::Says("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
/// Clients take it to mean that the server has no memory for the request now. `BUSY` would mean that a script runs.
pub(super) const NO_ROOM: Refusal =
    Refusal::Says("OOM command not allowed when used memory > 'maxmemory'.");

/// The answer over a tenant's rate limit. Not `TRYAGAIN`, after which clients retry by themselves at once.
pub(super) const OVER_LIMIT: Refusal =
    Refusal::Says("ERR the tenant is over its limit; try again later");
pub(super) const TOO_LATE: Refusal = Refusal::Says("ERR not read from flash in time");

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Cache(error)
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>, is_resp3: bool) -> Self {
        Self { bytes, is_resp3 }
    }

    /// Bytes in the buffer.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Drops what was written after the first `bytes` bytes.
    pub(super) fn back_to(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A simple string of ours.
    pub(super) fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "it is a line");
        self.line(b'+', text.as_bytes());
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A count. Counts stay below 2^63.
    pub(super) fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.head(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The head of a string of `bytes` bytes that is written elsewhere.
    pub(super) fn bulk_head(&mut self, bytes: usize) {
        self.head(b'$', bytes);
    }

    /// Text for people.
    pub(super) fn verbatim(&mut self, text: &str) {
        if self.is_resp3 {
            self.head(b'=', text.len() + 4);
            self.bytes.extend_from_slice(b"txt:");
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// A null value.
    /// The answer of `TIME`.
    pub(super) fn time(&mut self, now: std::time::Duration) {
        self.array(2);
        self.bulk(now.as_secs().to_string());
        self.bulk(now.subsec_micros().to_string());
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// A null array.
    pub(super) fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// A fraction.
    pub(super) fn double(&mut self, number: f64) {
        let text = shortest(number);
        if self.is_resp3 { self.line(b',', text.as_bytes()) } else { self.bulk(text) }
    }

    /// The score of a member, or null.
    pub(super) fn score(&mut self, score: Option<f64>) {
        match score {
            Some(score) => self.double(score),
            None => self.null(),
        }
    }

    /// The head of an array of `count` answers.
    pub(super) fn array(&mut self, count: usize) {
        self.head(b'*', count);
    }

    /// The head of a set of `count` answers.
    pub(super) fn set(&mut self, count: usize) {
        self.head(if self.is_resp3 { b'~' } else { b'*' }, count);
    }

    /// The head of a map of `pairs` pairs of answers.
    pub(super) fn map(&mut self, pairs: usize) {
        if self.is_resp3 { self.head(b'%', pairs) } else { self.head(b'*', 2 * pairs) }
    }

    pub(super) fn refusal(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::Says(text) => self.error(text),
            Refusal::Said(text) => self.error(text),
            Refusal::Cache(error) => self.cache_error(error),
            Refusal::Overtaken => self.null_array(),
        }
    }

    /// An error, which begins with its code. Control characters are replaced by spaces, since the text may repeat bytes
    /// of a client and a line end would end it.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let plain = text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte });
        self.bytes.extend(plain);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn cache_error(&mut self, error: &Error) {
        match error.kind() {
            ErrorKind::Busy => {
                self.refusal(&NO_ROOM);
            }
            ErrorKind::Closed => self.error("ERR the server is shutting down"),
            _ => self.error(&format!("ERR {error}")),
        }
    }

    /// The head of a message of `count` parts that comes without a request; an array in version 2.
    pub(super) fn push(&mut self, count: usize) {
        self.head(if self.is_resp3 { b'>' } else { b'*' }, count);
    }

    /// The buffer, to which whole answers are added.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes
    }

    /// Adds an answer that is written already.
    pub(super) fn written(&mut self, answer: &[u8]) {
        self.bytes.extend_from_slice(answer);
    }

    fn head(&mut self, kind: u8, count: usize) {
        self.number(kind, i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn number(&mut self, kind: u8, number: i64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = number.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(left % 10).expect("a digit");
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.bytes.push(kind);
        if number < 0 {
            self.bytes.push(b'-');
        }
        self.bytes.extend_from_slice(&digits[at..]);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(is_resp3: bool, write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes, is_resp3));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn both_versions() {
        let both = |write: fn(&mut Writer<'_>)| (written(false, write), written(true, write));
        let pair = |two: &str, three: &str| (two.to_owned(), three.to_owned());
        assert_eq!(both(|out| out.null()), pair("$-1\r\n", "_\r\n"));
        assert_eq!(both(|out| out.null_array()), pair("*-1\r\n", "_\r\n"));
        assert_eq!(both(|out| out.map(2)), pair("*4\r\n", "%2\r\n"));
        assert_eq!(both(|out| out.set(2)), pair("*2\r\n", "~2\r\n"));
        assert_eq!(both(|out| out.push(2)), pair("*2\r\n", ">2\r\n"));
        assert_eq!(both(|out| out.verbatim("a")), pair("$1\r\na\r\n", "=5\r\ntxt:a\r\n"));
        assert_eq!(both(|out| out.integer(i64::MIN)).0, format!(":{}\r\n", i64::MIN));
        assert_eq!(both(|out| out.integer(0)).0, ":0\r\n");
    }

    #[test]
    fn errors_stay_in_their_line() {
        assert_eq!(written(false, |out| out.error("ERR 'a\r\n+OK'")), "-ERR 'a  +OK'\r\n");
    }
}
