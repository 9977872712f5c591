//! The list of servers among which memcached clients divide their keys.
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

    /// The version, and the servers.
    pub(crate) fn get(&self) -> (u64, &[(String, u16)]) {
        (self.version, &self.nodes)
    }
}
