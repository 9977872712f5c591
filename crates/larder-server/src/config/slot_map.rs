//! Which of several servers has which slots of the keys of RESP clients.
//!
//! The map is configured, and must be the same on all servers; they do not communicate.

use crate::error::{Error, ErrorKind};

/// Number of slots.
pub(crate) const SLOTS: u16 = 16_384;

/// Which server has which slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    pub(crate) nodes: Vec<SlotNode>,
    pub(crate) myself: usize,
}

/// A server of a [`SlotMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotNode {
    /// Host name or address for clients.
    pub host: String,
    /// Port for clients.
    pub port: u16,
    /// Its slots: first and last of each range.
    pub slots: Vec<(u16, u16)>,
}

impl SlotMap {
    /// A map of these servers, of which `myself` is this one.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a slot that is out of range or assigned twice, for a host that is no name or address,
    /// or if `myself` is not in the list.
    pub fn new(nodes: Vec<SlotNode>, myself: usize) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if myself >= nodes.len() {
            return refuse(format!("cluster: there is no server {myself} among {}", nodes.len()));
        }
        let mut taken = vec![false; usize::from(SLOTS)];
        for SlotNode { host, port, slots } in &nodes {
            if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
                return refuse(format!("cluster: host {host:?} must be a name or an address"));
            }
            for (first, last) in slots {
                if first > last || *last >= SLOTS {
                    return refuse(format!("cluster: slots {first}-{last} must be in 0-16383"));
                }
                for slot in *first..=*last {
                    if std::mem::replace(&mut taken[usize::from(slot)], true) {
                        return refuse(format!(
                            "cluster: slot {slot} of {host}:{port} is another's too"
                        ));
                    }
                }
            }
        }
        Ok(Self { nodes, myself })
    }

    /// All servers.
    pub fn nodes(&self) -> &[SlotNode] {
        &self.nodes
    }

    /// The server that has a slot, and its number.
    pub(crate) fn owner(&self, slot: u16) -> Option<(usize, &SlotNode)> {
        let has = |node: &SlotNode| node.slots.iter().any(|(a, b)| (*a..=*b).contains(&slot));
        self.nodes.iter().enumerate().find(|(_, node)| has(node))
    }

    /// Number of slots that are assigned.
    pub(crate) fn served(&self) -> usize {
        let slots = self.nodes.iter().flat_map(|node| &node.slots);
        slots.map(|(first, last)| usize::from(last - first) + 1).sum()
    }
}
