//! Parses a whole stream of requests as a connection does, for tests and the fuzzer.

use super::{ARGUMENTS_A_PART, DiscardProgress, Limits, ParseOutcome, Parser, Swallow};

/// The requests, each with its arguments, and the error that ended the stream, if any.
pub(crate) type ParsedStream = (Vec<Vec<Vec<u8>>>, Option<ParseOutcome>);

/// Limits of a server with long values.
const LONG: Limits = Limits { has_logged_in: true, value_bytes_max: 1 << 10 };

/// An event of a walk over a stream.
enum StreamEvent<'a> {
    /// The next argument of a request.
    Argument(&'a [u8]),
    /// The end of the request.
    End,
    /// The request was too long, and is dropped.
    TooLong,
}

/// The requests of a stream, for a server with long values.
pub(crate) fn asked(pieces: &[&[u8]]) -> ParsedStream {
    asked_within(pieces, LONG)
}

/// The requests of a stream that comes in pieces, and the error that ended it.
pub(crate) fn asked_within(pieces: &[&[u8]], limits: Limits) -> ParsedStream {
    let (mut requests, mut begun) = (Vec::new(), Vec::new());
    let ended = walk_within(pieces, limits, |met| match met {
        StreamEvent::Argument(argument) => begun.push(argument.to_vec()),
        StreamEvent::End => requests.push(std::mem::take(&mut begun)),
        StreamEvent::TooLong => {
            begun.clear();
            requests.push(vec![b"too long".to_vec()]);
        }
    });
    (requests, ended)
}

/// Parses a stream, and keeps nothing.
pub(crate) fn walk(bytes: &[u8]) {
    walk_within(&[bytes], LONG, |_| {});
}

/// Passes on the arguments that were parsed.
fn show(parser: &Parser, input: &[u8], meets: &mut impl FnMut(StreamEvent<'_>)) {
    parser.arguments(input).from(0).for_each(|argument| meets(StreamEvent::Argument(argument)));
}

/// Passes on the events of a stream that comes in pieces, and returns the error that ended it early.
fn walk_within(
    pieces: &[&[u8]],
    limits: Limits,
    mut meets: impl FnMut(StreamEvent<'_>),
) -> Option<ParseOutcome> {
    let (mut parser, mut swallow) = (Parser::default(), None::<Swallow>);
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            if let Some(rest) = &mut swallow {
                match rest.swallow(&input, limits) {
                    DiscardProgress::Broken(broken) => return Some(ParseOutcome::Broken(broken)),
                    DiscardProgress::Needs(bytes) => {
                        assert!(bytes > input.len());
                        break;
                    }
                    DiscardProgress::Part(bytes) => drop(input.drain(..bytes)),
                    DiscardProgress::All(bytes) => {
                        input.drain(..bytes);
                        swallow = None;
                    }
                }
                if input.is_empty() {
                    break;
                }
                continue;
            }
            match parser.parse(&input, limits) {
                ParseOutcome::Rests => continue,
                ParseOutcome::Nothing(bytes) => drop(input.drain(..bytes)),
                ParseOutcome::Request(bytes) => {
                    show(&parser, &input, &mut meets);
                    meets(StreamEvent::End);
                    parser.forget();
                    input.drain(..bytes);
                }
                ParseOutcome::Needs(bytes) => {
                    assert!(bytes > input.len(), "{bytes} of {}", input.len());
                    break;
                }
                ParseOutcome::Many => {
                    assert_eq!(parser.arguments(&input).len(), ARGUMENTS_A_PART);
                    show(&parser, &input, &mut meets);
                    let done = parser.take_begun();
                    input.drain(..done);
                }
                ParseOutcome::TooLong => {
                    meets(StreamEvent::TooLong);
                    let (rest, bytes) = parser.swallow();
                    input.drain(..bytes);
                    swallow = Some(rest);
                }
                broken @ ParseOutcome::Broken(_) => return Some(broken),
            }
            if input.is_empty() {
                break;
            }
        }
    }
    None
}
