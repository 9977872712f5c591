//! Answers of one line.

use crate::answers::Answers;

/// Answers with a line.
pub(super) fn say(answers: &mut Answers<'_>, answer: &str) {
    let out = answers.bytes();
    out.extend_from_slice(answer.as_bytes());
    out.extend_from_slice(b"\r\n");
}

pub(super) fn say_unless(quiet: bool, answers: &mut Answers<'_>, answer: &str) {
    if !quiet {
        say(answers, answer);
    }
}
