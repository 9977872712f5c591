//! The list of servers among which memcached clients divide their keys: `config get cluster`.
//!
//! The list is configured, and must be the same on all servers; they do not communicate.

use crate::error::{Error, ErrorKind};

/// The servers among which clients divide their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList {
    version: u64,
    nodes: Vec<(String, u16)>,
}

impl NodeList {
    /// A list of servers by host and port. Clients replace their list only if the new version is higher.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a host that is no name or address, or if there is no server.
    pub fn new(version: u64, nodes: Vec<(String, u16)>) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if nodes.is_empty() {
            return refuse("memcached nodes: there must be one at least".to_owned());
        }
        let is_word = |host: &str| {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|')
        };
        match nodes.iter().find(|(host, _)| !is_word(host)) {
            Some((host, _)) => {
                refuse(format!("memcached nodes: host {host:?} must be a name or an address"))
            }
            None => Ok(Self { version, nodes }),
        }
    }

    /// The answer to a client that asks for the list.
    pub(super) fn answer(&self) -> String {
        let text = self.text();
        format!("CONFIG cluster 0 {}\r\n{text}\r\nEND", text.len())
    }

    /// The list as clients read it: each server is `host|address|port`. We repeat the host as the address, since
    /// clients that use the address resolve whatever is there.
    fn text(&self) -> String {
        let node = |(host, port): &(String, u16)| format!("{host}|{host}|{port}");
        let nodes: Vec<String> = self.nodes.iter().map(node).collect();
        format!("{}\n{}\n", self.version, nodes.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_clients_read_them() {
        let nodes = vec![("a.example".to_owned(), 11211), ("10.0.0.2".to_owned(), 11212)];
        let list = NodeList::new(12, nodes).unwrap();
        assert_eq!(list.text(), "12\na.example|a.example|11211 10.0.0.2|10.0.0.2|11212\n");
        assert!(NodeList::new(1, Vec::new()).is_err());
        for wrong in ["", "a b", "a|b", "a\r\n"] {
            assert!(NodeList::new(1, vec![(wrong.to_owned(), 1)]).is_err(), "{wrong:?}");
        }
    }
}
