//! Tests of the parser.

use proptest::prelude::*;

use super::stream::asked_within as asked;
use super::*;

const LIMITS: Limits = Limits { has_logged_in: true, value_bytes_max: 1 << 20 };

fn all(bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<ParseOutcome>) {
    asked(&[bytes], LIMITS)
}

fn breaks(bytes: &[u8]) -> String {
    match all(bytes).1 {
        Some(ParseOutcome::Broken(broken)) => broken.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_and_what_is_none() {
    let (requests, end) =
        all(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n*0\r\n*-5\r\nPING \"a b\"\r\n  \r\n");
    assert_eq!(
        requests,
        [vec![b"GET".to_vec(), b"a".to_vec()], vec![b"PING".to_vec(), b"a b".to_vec()]]
    );
    assert_eq!(end, None);
    assert_eq!(all(b"*1\r\n$0\r\n\r\n").0, [vec![Vec::<u8>::new()]]);
}

#[test]
fn what_is_no_protocol() {
    assert_eq!(breaks(b"*3000000000\r\n"), "invalid multibulk length");
    assert_eq!(breaks(b"*x\r\n"), "invalid multibulk length");
    assert_eq!(breaks(b"*1\r\n$x\r\n"), "invalid bulk length");
    assert_eq!(breaks(b"*1\r\n$-1\r\n"), "invalid bulk length");
    assert_eq!(breaks(b"*1\r\n$2000000000\r\n"), "invalid bulk length");
    assert_eq!(breaks(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n:5\r\n"), "expected '$', got ':'");
    assert_eq!(breaks(b"*1\r\n\r\r\n"), "expected '$', got '\\r'");
    assert_eq!(breaks(b"SET \"a\r\n"), "unbalanced quotes in request");
    assert_eq!(breaks(&[b'a'; LINE_BYTES_MAX]), "too big inline request");
    assert_eq!(
        breaks(&[&b"*"[..], &[b'1'; LINE_BYTES_MAX]].concat()),
        "too big mbulk count string"
    );
    assert_eq!(
        breaks(&[&b"*1\r\n$"[..], &[b'1'; LINE_BYTES_MAX]].concat()),
        "too big bulk count string"
    );
}

#[test]
fn strangers_may_send_little() {
    let stranger = Limits { has_logged_in: false, ..LIMITS };
    let end = |bytes: &[u8]| asked(&[bytes], stranger).1;
    assert_eq!(end(b"*10\r\n$1\r\na\r\n"), None);
    assert_eq!(end(b"*11\r\n"), Some(ParseOutcome::Broken(ProtocolError::StrangersMultibulk)));
    assert_eq!(end(b"*1\r\n$16384\r\n"), None);
    assert_eq!(end(b"*1\r\n$16385\r\n"), Some(ParseOutcome::Broken(ProtocolError::StrangersBulk)));
}

#[test]
fn what_is_too_long_is_swallowed_and_the_rest_goes_on() {
    let few = Limits { value_bytes_max: 4, ..LIMITS };
    let bytes = b"*4\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n\r\n$3x\r\n$2\r\nEX\r\n*1\r\n$4\r\nPING\r\n";
    let wanted = vec![vec![b"too long".to_vec()], vec![b"PING".to_vec()]];
    assert_eq!(asked(&[bytes], few), (wanted.clone(), None));
    for at in 0..bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(asked(&[head, tail], few), (wanted.clone(), None), "{at}");
    }
}

#[test]
fn a_head_makes_no_room() {
    let mut parser = Parser::default();
    let head = b"*2000000000\r\n$1\r\na\r\n";
    assert!(matches!(parser.parse(head, LIMITS), ParseOutcome::Needs(_)));
    assert!(parser.places.capacity() < 100);
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let argument = prop::collection::vec(any::<u8>(), 0..20);
    let array = prop::collection::vec(argument, 1..300).prop_map(|arguments| {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
        bytes
    });
    let odd = prop::sample::select(vec![
        &b"PING\r\n"[..],
        b"\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"set 'a b' \"\\x00\"\n",
        b"*1\r\n$3000000\r\n",
        b"*1\r\n:",
        b"'a'b\n",
        b"*1",
        b"$",
    ]);
    prop_oneof![3 => array, 1 => odd.prop_map(<[u8]>::to_vec)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_ask_what_the_whole_asks(
        requests in prop::collection::vec(request(), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = requests.concat();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for place in places {
            pieces.push(&bytes[from..place]);
            from = place;
        }
        pieces.push(&bytes[from..]);
        prop_assert_eq!(asked(&pieces, LIMITS), all(&bytes));
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let few = Limits { value_bytes_max: 16, ..LIMITS };
        let _ = asked(&[&bytes], few);
    }
}
