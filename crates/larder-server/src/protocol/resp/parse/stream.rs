//! A whole stream of requests, for tests and the fuzzer: the parser as a connection uses it.

use super::{ARGUMENTS_A_PART, Limits, Parsed, Parser, Swallow, Swallowed};

/// Requests, each with its arguments, and what ended them if they are no protocol.
pub(crate) type Asked = (Vec<Vec<Vec<u8>>>, Option<Parsed>);

/// What a stream asks of a server that takes long values.
pub(crate) fn asked(pieces: &[&[u8]]) -> Asked {
    asked_within(pieces, Limits { has_logged_in: true, value_bytes_max: 1 << 10 })
}

/// What a stream asks, shown in pieces: requests, and what ended it.
pub(crate) fn asked_within(pieces: &[&[u8]], limits: Limits) -> Asked {
    let (mut parser, mut swallow) = (Parser::default(), None::<Swallow>);
    let (mut requests, mut input, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            if let Some(rest) = &mut swallow {
                match rest.swallow(&input, limits) {
                    Swallowed::Broken(broken) => return (requests, Some(Parsed::Broken(broken))),
                    Swallowed::Needs(bytes) => {
                        assert!(bytes > input.len());
                        break;
                    }
                    Swallowed::Part(bytes) => drop(input.drain(..bytes)),
                    Swallowed::All(bytes) => {
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
                Parsed::Nothing(bytes) => drop(input.drain(..bytes)),
                Parsed::Request(bytes) => {
                    begun.extend(parser.arguments(&input).from(0).map(<[u8]>::to_vec));
                    requests.push(std::mem::take(&mut begun));
                    parser.forget();
                    input.drain(..bytes);
                }
                Parsed::Needs(bytes) => {
                    assert!(bytes > input.len(), "{bytes} of {}", input.len());
                    break;
                }
                Parsed::Many => {
                    assert_eq!(parser.arguments(&input).len(), ARGUMENTS_A_PART);
                    begun.extend(parser.arguments(&input).from(0).map(<[u8]>::to_vec));
                    let done = parser.take_begun();
                    input.drain(..done);
                }
                Parsed::TooLong => {
                    requests.push(vec![b"too long".to_vec()]);
                    begun.clear();
                    let (rest, bytes) = parser.swallow();
                    input.drain(..bytes);
                    swallow = Some(rest);
                }
                broken @ Parsed::Broken(_) => return (requests, Some(broken)),
            }
            if input.is_empty() {
                break;
            }
        }
    }
    (requests, None)
}
