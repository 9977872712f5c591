//! A set that a server has open, accessed over the server's admin address.

use std::io::Read;
use std::path::Path;

use larder_server::SetReport;
use larder_workload::Error;
use ureq::http::StatusCode;

use crate::admin_client::AdminClient;

pub(super) struct Server {
    client: AdminClient,
    token: Option<String>,
}

impl Server {
    /// The server at `address`; `token` is the file with the admin token, which changes need.
    pub(super) fn at(address: &str, token: Option<&Path>) -> Result<Self, Error> {
        let token = token.map(token_in).transpose()?;
        Ok(Self { client: AdminClient::at(address), token })
    }

    pub(super) fn status(&self) -> Result<SetReport, Error> {
        let (status, text) = self.client.get("/api/array")?;
        match status {
            StatusCode::OK => serde_json::from_str(&text).map_err(|error| {
                let why = format!("its answer is one that no `larder array` can read: {error}");
                self.client.failed(&why)
            }),
            StatusCode::NOT_FOUND => Err(self
                .client
                .failed("it has no set of shards open, or is no admin address of Larder's")),
            _ => Err(self.client.refused(status, &text)),
        }
    }

    /// Sends an order; `order` is the last part of its path. Returns the message about the result.
    pub(super) fn order(&self, order: &str, query: &[(&str, String)]) -> Result<String, Error> {
        let path = format!("/api/array/{order}");
        let (status, text) = self.client.post(&path, query, self.token.as_deref())?;
        if status == StatusCode::OK { Ok(text) } else { Err(self.client.refused(status, &text)) }
    }
}

/// Reads the token: the first line.
fn token_in(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text),
        _ => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| Error::run(format!("--token-file {}: {error}", path.display())))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() || token.contains(|c: char| !c.is_ascii_graphic()) {
        return Err(Error::usage(format!(
            "--token-file {}: its first line is no token: one word of ASCII",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that gives this answer once; returns its address.
    fn one_answer(status: &'static str, body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = BufReader::new(stream.try_clone().unwrap()).lines();
            head.take_while(|line| line.as_ref().is_ok_and(|it| !it.is_empty())).for_each(drop);
            let length = body.len();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        });
        address
    }

    #[test]
    fn the_error_names_an_address_that_serves_no_set() {
        for (status, body, part) in [
            ("404 Not Found", "here are /, /metrics", "no set of shards open"),
            ("200 OK", "<html>", "no `larder array` can read"),
            ("200 OK", "{\"epoch\":1}", "missing field `shards`"),
            ("302 Found", "", "302"),
            ("421 Misdirected Request", "no such name\n", "421 no such name"),
        ] {
            let address = one_answer(status, body);
            let server = Server::at(&address, None).unwrap();
            let error = server.status().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(&address), "{error}");
        }
    }

    #[test]
    fn a_token_is_one_word() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let token = |text: &str| {
            std::fs::write(&path, text).unwrap();
            token_in(&path)
        };
        assert_eq!(token("rye\n").unwrap(), "rye");
        assert_eq!(token(" rye \r\nbread").unwrap(), "rye");
        for wrong in ["", "\nrye", "two words", "r\u{fc}ben", "a\u{1}b"] {
            assert!(token(wrong).unwrap_err().to_string().contains("no token"), "{wrong:?}");
        }
    }
}
