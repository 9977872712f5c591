//! resp.

use super::{Protocol, Step};
use crate::answers::Answers;
use crate::session::Session;

/// A connection that speaks it.
#[derive(Default)]
pub(crate) struct Resp {}

impl Protocol for Resp {
    async fn step(&mut self, _: &mut Session, input: &[u8], answers: &mut Answers<'_>) -> Step {
        match input.iter().position(|byte| *byte == b'\n') {
            Some(_) if input.starts_with(b"quit") => Step::Close,
            Some(end) => {
                let answer: &[u8] = match input.starts_with(b"PING") {
                    true => b"+PONG\r\n",
                    false => b"-ERR unknown command\r\n",
                };
                answers.bytes().extend_from_slice(answer);
                Step::Done(end + 1)
            }
            None => Step::Needs(input.len() + 1),
        }
    }
}
