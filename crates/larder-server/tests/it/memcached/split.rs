//! The answers do not depend on how the network splits the requests.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crate::serving::{Client, in_memory};

/// Requests whose answers contain no times and no versions.
const DIALOGUES: [&str; 6] = [
    "set a 0 0 3\r\nabc\r\nget a b\r\nappend a 0 0 2 noreply\r\nde\r\nget a\r\n",
    "set a 0 0 2\r\nabcd\r\nget a\r\nset a 0 0 x\r\n\r\nfoo\r\nget  a  \r\n",
    "ms a 2 F3\r\nhi\r\nmg a v f s k Oq\r\nms b 1 MZ\r\nx\r\nmg TWFu b v k\r\nmn\r\n",
    "set n 0 0 1\r\n9\r\nincr n 1\r\ndecr n 20\r\ndelete n\r\ndelete n 5\r\ntouch n 0\r\n",
    "gat 0 a\r\nset b 0 0 0\r\n\r\ngat 0 b\r\nflush_all\r\nget b\nlru_crawler metadump all\r\nmn\r\n",
    "set big 0 0 1100000\r\n",
];

fn answers(server: &larder_server::Server, pieces: &[&[u8]]) -> Vec<u8> {
    let mut client = Client::memcached(server);
    client.asks("flush_all\r\n", "OK\r\n");
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            // Long enough for the server to handle the previous piece.
            std::thread::sleep(Duration::from_millis(2));
        }
        client.0.write_all(piece).unwrap();
    }
    client.0.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    client.0.read_to_end(&mut heard).unwrap();
    heard
}

#[test]
fn requests_that_are_cut_anywhere_are_answered_as_whole_ones() {
    let server = in_memory();
    for dialogue in DIALOGUES {
        let mut bytes = dialogue.as_bytes().to_vec();
        if dialogue.starts_with("set big") {
            bytes.extend_from_slice(&vec![b'x'; 1_100_000]);
            bytes.extend_from_slice(b"\r\nget big\r\n");
        }
        let whole = answers(&server, &[&bytes]);
        for cut in 1..dialogue.len() {
            let (head, tail) = bytes.split_at(cut);
            let cut_answers = answers(&server, &[head, tail]);
            assert_eq!(
                cut_answers.escape_ascii().to_string(),
                whole.escape_ascii().to_string(),
                "{dialogue:?} cut at {cut}"
            );
        }
        let each: Vec<&[u8]> = dialogue.as_bytes().chunks(1).collect();
        if bytes.len() == dialogue.len() {
            assert_eq!(answers(&server, &each), whole, "{dialogue:?} byte by byte");
        }
    }
}
