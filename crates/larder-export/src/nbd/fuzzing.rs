//! Entry points for the fuzzer: options and requests of clients. Not part of the API.

use std::sync::Arc;

use super::exports::{Export, Exports};
use super::negotiation::{Encryption, Negotiation, OPTION_BYTES_MAX, Step};
use super::request::{Command, Limits, Request};
use crate::volume::Volume;

/// Arbitrary bytes that a client of an export of `volume` sends in its handshake and after it. In one piece or in two,
/// the result must be the same.
pub fn connection(volume: &Arc<dyn Volume>, bytes: &[u8]) {
    let whole = said(volume, &[bytes]);
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    assert_eq!(said(volume, &[head, tail]), whole, "pieces say what the whole says");
}

/// The server's output for these pieces, and the number of requests after the handshake: 0 if one of them is
/// malformed.
fn said(volume: &Arc<dyn Volume>, pieces: &[&[u8]]) -> (Vec<u8>, usize) {
    let export = |name| Export::new(name, Arc::clone(volume)).expect("the volume can be exported");
    let exports = Exports::new(vec![export("one"), export("two").read_only()]);
    let mut output = Vec::new();
    let mut negotiation =
        Negotiation::begin(exports.expect("they differ"), Encryption::Unavailable, &mut output);
    let mut input = Vec::new();
    let mut limits: Option<Limits> = None;
    let mut requests = 0;
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut at = 0;
        while limits.is_none() {
            match negotiation.step(&input[at..], &mut output) {
                Step::Waits => break,
                Step::GoesOn(used) => at += used,
                Step::Agreed(used, agreement) => {
                    at += used;
                    let has_contexts = !agreement.contexts.is_empty();
                    limits = Some(agreement.export.limits(agreement.is_structured, has_contexts));
                }
                // TLS follows.
                Step::Encrypts(_) | Step::Ends => return (output, requests),
            }
            assert!(at <= input.len(), "it deals with what has come");
        }
        assert!(limits.is_some() || input.len() - at < OPTION_BYTES_MAX + 16, "it waits for one");
        input.drain(..std::mem::take(&mut at));
        if let Some(limits) = &limits {
            let Some(found) = walk(&input, limits) else { return (output, 0) };
            requests = found;
        }
    }
    (output, requests)
}

/// The number of consecutive requests. `None`: one is malformed.
fn walk(bytes: &[u8], limits: &Limits) -> Option<usize> {
    let (mut at, mut count) = (0, 0);
    while let Some(request) = Request::parse(bytes.get(at..)?, limits).ok()? {
        if let Ok(Command::Read(range) | Command::Write { range, .. }) = &request.what {
            assert!(range.start < range.end && range.end <= limits.size_bytes, "it is checked");
        }
        count += 1;
        at += Request::HEADER_BYTES + usize::try_from(request.payload_bytes).ok()?;
        if at > bytes.len() {
            break;
        }
    }
    Some(count)
}
