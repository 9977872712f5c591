//! SASL login, with PLAIN as the only mechanism.

use super::answer::{fail, succeed};
use super::header::{AnswerParts, Packet, Status};
use super::request::LogIn;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::users::LoginRefusal;

const PLAIN: &[u8] = b"PLAIN";

pub(super) async fn answer(
    packet: &Packet<'_>,
    step: LogIn,
    caller: &mut Caller,
    answers: &mut Answers<'_>,
) {
    answers.settle().await;
    let header = &packet.header;
    // On a server without users there is no login.
    if caller.worker.shared.users().is_empty() {
        return fail(answers, header, Status::UnknownCommand);
    }
    match step {
        LogIn::Mechanisms => succeed(answers, header, AnswerParts::default(), PLAIN),
        // PLAIN sends everything in the first step.
        LogIn::Begin | LogIn::Continue => {
            let said = if packet.key == PLAIN { split(packet.value) } else { None };
            let said = match said {
                Some((user, password)) => caller.log_in(user, password).await,
                None => Err(LoginRefusal::Wrong),
            };
            match said {
                Ok(()) => succeed(answers, header, AnswerParts::default(), b"Authenticated"),
                Err(LoginRefusal::Wrong) => fail(answers, header, Status::AuthError),
                Err(LoginRefusal::Busy) => fail(answers, header, Status::Busy),
            }
        }
    }
}

/// User and password of a message: `authorises NUL user NUL password`.
fn split(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.split(|byte| *byte == 0);
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_three_parts() {
        assert_eq!(split(b"\0me\0secret"), Some((&b"me"[..], &b"secret"[..])));
        assert_eq!(split(b"x\0me\0"), Some((&b"me"[..], &b""[..])));
        assert_eq!(split(b"me\0secret"), None);
        assert_eq!(split(b"\0me\0secret\0more"), None);
    }
}
