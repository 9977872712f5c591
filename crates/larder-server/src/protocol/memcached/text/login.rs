//! Login: the client sends a `set` whose value has its name and password. Nothing else is answered before.

use super::say::say;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::Step;
use crate::protocol::memcached::items::Mode;
use crate::protocol::memcached::line;
use crate::protocol::memcached::text::request::{Store, TextRequest, parse};
use crate::users::LoginRefusal;

/// Longest line and longest value before a login, so that a stranger cannot take more memory.
const BYTES_MAX: usize = 2048;

const FAILED: &str = "CLIENT_ERROR authentication failure";
const BUSY: &str = "SERVER_ERROR busy comparing other passwords, try again later";

/// Answers the first line with its value. `Err`: the number of bytes behind it to discard.
pub(super) async fn step(
    caller: &mut Caller,
    input: &[u8],
    answers: &mut Answers<'_>,
) -> Result<Step, usize> {
    let Some((line, taken)) = line::first(input) else {
        return Ok(if input.len() > BYTES_MAX {
            Step::Close
        } else {
            Step::Needs(input.len() + 1)
        });
    };
    if line.len() > BYTES_MAX {
        return Ok(Step::Close);
    }
    let Ok(TextRequest::Store(Store { mode: Mode::Set, bytes, unique: None, .. })) = parse(line)
    else {
        say(answers, "CLIENT_ERROR unauthenticated");
        return Ok(Step::Done(taken));
    };
    if bytes > BYTES_MAX {
        say(answers, FAILED);
        return Err(bytes + 2);
    }
    let whole = taken + bytes + 2;
    let Some(data) = input.get(taken..whole) else { return Ok(Step::Needs(whole)) };
    let said = data.strip_suffix(b"\r\n").and_then(split);
    let said = match said {
        Some((user, password)) => caller.log_in(user, password).await,
        None => Err(LoginRefusal::Wrong),
    };
    say(
        answers,
        match said {
            Ok(()) => "STORED",
            Err(LoginRefusal::Wrong) => FAILED,
            Err(LoginRefusal::Busy) => BUSY,
        },
    );
    Ok(Step::Done(whole))
}

fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', data)?;
    Some((data.get(..space)?, data.get(space + 1..)?))
}
