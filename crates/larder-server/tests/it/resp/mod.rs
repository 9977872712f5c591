//! RESP, as clients see it.

mod connections;
mod keys;
mod lines;
mod messages;
mod strings;
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
