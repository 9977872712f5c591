//! A connection to a server by RESP2, one request at a time.

use std::io;
use std::net::SocketAddr;

use crate::kills::line_stream::{LineStream, nonsense};

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Line(String),
    Refusal(String),
    Number(i64),
    /// A string, or none.
    Bulk(Option<Vec<u8>>),
    /// Several answers, or none: a transaction that was overtaken.
    Array(Option<Vec<Self>>),
}

impl Answer {
    /// Whether the server has stopped the script, and undone it.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self, Self::Refusal(text) if text.starts_with("ERR Script stopped"))
    }
}

/// See the module.
pub(super) struct Connection(LineStream);

impl Connection {
    pub(super) fn to(address: SocketAddr) -> io::Result<Self> {
        LineStream::to(address).map(Self)
    }

    /// Sends requests together, and returns the answer of the last.
    pub(super) fn ask(&mut self, requests: &[&[&[u8]]]) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        for words in requests {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in *words {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.0.send(&bytes)?;
        let answers = requests.iter().map(|_| self.answer()).collect::<io::Result<Vec<_>>>()?;
        answers.into_iter().next_back().ok_or_else(|| nonsense(""))
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let line = self.0.line()?;
        let rest = line.get(1..).unwrap_or_default();
        let number = || rest.parse::<i64>().map_err(|_| nonsense(&line));
        Ok(match line.as_bytes().first() {
            Some(b'+') => Answer::Line(rest.to_owned()),
            Some(b'-') => Answer::Refusal(rest.to_owned()),
            Some(b':') => Answer::Number(number()?),
            Some(b'$') => Answer::Bulk(match usize::try_from(number()?) {
                Err(_) => None,
                Ok(bytes) => {
                    let mut value = self.0.bytes(bytes + 2)?;
                    value.truncate(bytes);
                    Some(value)
                }
            }),
            Some(b'*') => Answer::Array(match usize::try_from(number()?) {
                Err(_) => None,
                Ok(count) => Some((0..count).map(|_| self.answer()).collect::<io::Result<_>>()?),
            }),
            _ => return Err(nonsense(&line)),
        })
    }
}
