//! RESP, as clients see it.

mod bits;
mod blocking;
mod connections;
mod damage;
mod databases;
mod dumps;
mod hashes;
mod keys;
mod lines;
mod lists;
mod messages;
mod notifications;
mod scripts;
mod sets;
mod sort;
mod sorted_sets;
mod strings;
mod tracking;
mod transactions;

use larder_server::Server;

use crate::serving::Client;

/// Requests are sent as a line, and answers end with a line end.
impl Client {
    #[track_caller]
    pub(crate) fn says(&mut self, request: &str, answer: &str) {
        self.asks(format!("{request}\r\n"), format!("{answer}\r\n"));
    }

    /// Expects a bulk string.
    #[track_caller]
    pub(crate) fn gives(&mut self, request: &str, answer: &str) {
        self.says(request, &format!("${}\r\n{answer}", answer.len()));
    }

    /// Expects a number or a line; returns it without its first byte.
    #[track_caller]
    pub(crate) fn line_of(&mut self, request: &str) -> String {
        self.send(format!("{request}\r\n"));
        self.line_heard()
    }

    /// The next line, without its first byte.
    #[track_caller]
    pub(crate) fn line_heard(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            std::io::Read::read_exact(&mut self.0, &mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim_end().get(1..).unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn bulk(&mut self, request: &str) -> Vec<u8> {
        let length: usize = self.line_of(request).parse().unwrap();
        let mut bytes = vec![0; length + 2];
        std::io::Read::read_exact(&mut self.0, &mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }
}

impl Client {
    /// Sends a request, as libraries do if no argument is quoted, and returns the answer as a short text: `[a b]` is an
    /// array, `{a b}` a map, `~[a b]` a set, `nil` a null. Numbers, errors and doubles keep their mark.
    #[track_caller]
    pub(crate) fn asked(&mut self, request: &str) -> String {
        match request.contains(['"', '\'']) {
            true => self.send(format!("{request}\r\n")),
            false => {
                self.send(array(&request.split_whitespace().map(str::as_bytes).collect::<Vec<_>>()))
            }
        }
        self.told()
    }

    /// Sends a request, and checks its answer in the form of [`Client::asked`].
    #[track_caller]
    pub(crate) fn tells(&mut self, request: &str, answer: &str) {
        assert_eq!(self.asked(request), answer, "{request}");
    }

    /// The next answer, in the form of [`Client::asked`].
    #[track_caller]
    pub(crate) fn told(&mut self) -> String {
        let line = self.line();
        let (mark, rest) = line.trim_end().split_at(1);
        let count = || rest.parse::<i64>().unwrap();
        match mark {
            "+" => rest.to_owned(),
            "$" if count() < 0 => "nil".to_owned(),
            "$" => {
                let mut bytes = vec![0; usize::try_from(count()).unwrap() + 2];
                std::io::Read::read_exact(&mut self.0, &mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).unwrap()
            }
            "*" if count() < 0 => "nil".to_owned(),
            "_" => "nil".to_owned(),
            "*" | "~" | "%" => {
                let parts = count() * if mark == "%" { 2 } else { 1 };
                let parts: Vec<_> = (0..parts).map(|_| self.told()).collect();
                let text = parts.join(" ");
                match mark {
                    "*" => format!("[{text}]"),
                    "~" => format!("~[{text}]"),
                    _ => format!("{{{text}}}"),
                }
            }
            _ => line.trim_end().to_owned(),
        }
    }

    /// A client of version 3 of the protocol.
    pub(crate) fn resp3(server: &Server) -> Self {
        let mut it = Self::resp(server);
        assert!(it.asked("HELLO 3").starts_with("{server redis"));
        it
    }
}

/// A request as a RESP array.
pub(crate) fn array(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn client(server: &Server) -> Client {
    Client::resp(server)
}
