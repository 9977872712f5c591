//! memcached.

use super::{Protocol, Step};
use crate::answers::Answers;
use crate::session::Session;

/// A connection that speaks it.
#[derive(Default)]
pub(crate) struct Memcached {}

impl Protocol for Memcached {
    async fn step(&mut self, _: &mut Session, input: &[u8], answers: &mut Answers<'_>) -> Step {
        match input.iter().position(|byte| *byte == b'\n') {
            Some(_) if input.starts_with(b"quit") => Step::Close,
            Some(end) => {
                answers.bytes().extend_from_slice(b"ERROR\r\n");
                Step::Done(end + 1)
            }
            None => Step::Needs(input.len() + 1),
        }
    }
}
