//! memcached's protocols: classic text, meta, and binary.
//!
//! The first byte of a connection decides: 0x80 begins a binary request, everything else a line of text. Parsers are
//! pure functions from bytes to requests (`text/request.rs`, `meta/`, `binary/header.rs`). `items/` has the operations
//! on items for all dialects.

mod binary;
mod fault;
mod flush;
mod items;
mod lifetime;
mod line;
mod meta;
mod nodes;
mod stats;
mod text;
mod version;
mod watched;

use std::task::{Context, Poll};

use super::{Protocol, Step};
use crate::answers::Answers;
use crate::caller::Caller;

/// A connection that speaks memcached.
#[derive(Default)]
pub(crate) enum Memcached {
    /// Nothing has come yet.
    #[default]
    Undecided,
    Text(text::Text),
    Binary(binary::Binary),
}

impl Memcached {
    fn decide(&mut self, input: &[u8]) {
        if let Self::Undecided = self {
            *self = match input.first() {
                Some(&binary::REQUEST) => Self::Binary(binary::Binary::default()),
                _ => Self::Text(text::Text::default()),
            };
        }
    }
}

impl Protocol for Memcached {
    async fn step(&mut self, caller: &mut Caller, input: &[u8], answers: &mut Answers<'_>) -> Step {
        self.decide(input);
        match self {
            Self::Binary(binary) => binary.step(caller, input, answers).await,
            Self::Text(text) => text.step(caller, input, answers).await,
            Self::Undecided => unreachable!("it was just decided"),
        }
    }

    fn at_once(&mut self, caller: &mut Caller, input: &[u8], out: &mut Vec<u8>) -> usize {
        self.decide(input);
        match self {
            Self::Text(text) => text.at_once(caller, input, out),
            Self::Binary(_) | Self::Undecided => 0,
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_watching())
    }

    fn waits_for_messages(&self) -> bool {
        self.is_waiting()
    }

    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Text(text) => text.poll_lines(cx),
            Self::Binary(_) | Self::Undecided => Poll::Pending,
        }
    }

    async fn messages(&mut self, caller: &mut Caller, answers: &mut Answers<'_>) {
        if let Self::Text(text) = self {
            text.lines(caller, answers).await;
        }
    }
}

/// Parses all requests in `bytes`, and checks that the results lie within the input.
pub(crate) fn parse_all(mut bytes: &[u8]) -> usize {
    let mut requests = 0;
    while let Some(first) = bytes.first() {
        let taken = match first {
            &binary::REQUEST => binary::check(bytes),
            _ => line::first(bytes).map(|(line, taken)| {
                text::request::check(line);
                taken
            }),
        };
        let Some(taken) = taken else { return requests };
        assert!(taken > 0, "it goes on");
        bytes = bytes.get(taken..).unwrap_or_default();
        requests += 1;
    }
    requests
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_of_all_dialects_are_parsed() {
        let text = b"get a b\r\nset a 0 0 1\r\nms b 1 F3\r\nmg TWFu b v\r\n\r\nfoo\n";
        assert_eq!(parse_all(text), 6);
        let mut packet = vec![0; 24];
        packet[0] = binary::REQUEST;
        packet.extend_from_slice(text);
        assert_eq!(parse_all(&packet), 7);
        assert_eq!(parse_all(b"get a"), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse_all(&bytes);
        }

        #[test]
        fn no_words_are_too_much(
            verb in "set|cas|mg|ms|md|ma|me|incr|delete|gat|flush_all|lru_crawler|stats",
            words in "( [a-zA-Z0-9=+/ -]{0,12}){0,8}",
        ) {
            parse_all(format!("{verb}{words}\r\n").as_bytes());
        }
    }
}
