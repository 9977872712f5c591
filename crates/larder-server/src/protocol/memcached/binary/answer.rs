//! Answers of the binary protocol with no value, or with a value that is in memory.

use larder::ErrorKind;

use super::header::{AnswerParts, Header, Status, head};
use crate::answers::Answers;

pub(super) fn status_of(error: &larder::Error) -> Status {
    match error.kind() {
        ErrorKind::Busy => Status::OutOfMemory,
        ErrorKind::InvalidInput => Status::TooLarge,
        _ => Status::Internal,
    }
}

/// Answers a success without further content, unless the request is quiet.
pub(super) fn done(quiet: bool, answers: &mut Answers<'_>, header: &Header, cas: u64) {
    if !quiet {
        succeed(answers, header, AnswerParts { cas, ..AnswerParts::default() }, b"");
    }
}

pub(super) fn succeed(
    answers: &mut Answers<'_>,
    header: &Header,
    answered: AnswerParts<'_>,
    value: &[u8],
) {
    let out = answers.bytes();
    head(out, header, Status::Success, answered, value.len());
    out.extend_from_slice(value);
}

pub(super) fn fail(answers: &mut Answers<'_>, header: &Header, status: Status) {
    failed(answers.bytes(), header, status);
}

pub(super) fn failed(out: &mut Vec<u8>, header: &Header, status: Status) {
    let text = status.text().as_bytes();
    head(out, header, status, AnswerParts::default(), text.len());
    out.extend_from_slice(text);
}
