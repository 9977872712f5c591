//! memcached's protocols: classic text, meta, and binary.
//!
//! The first byte of a connection decides: 0x80 begins a binary request, everything else a line of text. Parsers are
//! pure functions from bytes to requests (`text/request.rs`, `meta/`, `binary/header.rs`); `items/` is what requests of
//! all dialects do to items.

mod binary;
mod flush;
mod items;
mod lifetime;
mod line;
mod meta;
mod stats;
mod text;

use super::{Protocol, Step};
use crate::answers::Answers;
use crate::session::Session;

/// What clients are told that this is: the release of memcached whose requests are understood, and ours. Some choose by
/// it what they ask for.
const VERSION: &str = concat!("1.6.38-larder-", env!("CARGO_PKG_VERSION"));

/// A connection that speaks it.
#[derive(Default)]
pub(crate) enum Memcached {
    /// Nothing has come yet.
    #[default]
    Undecided,
    Text(text::Text),
    Binary(binary::Binary),
}

impl Protocol for Memcached {
    async fn step(&mut self, session: &mut Session, input: &[u8], answers: &mut Answers) -> Step {
        if let Self::Undecided = self {
            *self = match input.first() {
                Some(&binary::REQUEST) => Self::Binary(binary::Binary::default()),
                _ => Self::Text(text::Text::default()),
            };
        }
        match self {
            Self::Binary(binary) => binary.step(session, input, answers).await,
            Self::Text(text) => text.step(session, input, answers).await,
            Self::Undecided => unreachable!("it was just decided"),
        }
    }
}
