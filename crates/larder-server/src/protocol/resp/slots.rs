//! Slots: which slot a key is in, and which of several servers has it.
//!
//! The map is configured, and must be the same on all servers; they do not communicate.

use std::fmt;

use crc_fast::CrcAlgorithm;

use super::write::{Outcome, Refusal};
use crate::error::{Error, ErrorKind};

/// Number of slots.
pub(super) const SLOTS: u16 = 16_384;

/// Which server has which slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    pub(super) nodes: Vec<SlotNode>,
    pub(super) myself: usize,
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

    fn owner(&self, slot: u16) -> Option<(usize, &SlotNode)> {
        let has = |node: &SlotNode| node.slots.iter().any(|(a, b)| (*a..=*b).contains(&slot));
        self.nodes.iter().enumerate().find(|(_, node)| has(node))
    }

    /// Why this server does not serve a slot, if it does not.
    pub(super) fn serves(&self, slot: u16) -> Outcome {
        match self.owner(slot) {
            Some((number, _)) if number == self.myself => Ok(()),
            Some((_, SlotNode { host, port, .. })) => {
                Err(Refusal::Said(format!("MOVED {slot} {host}:{port}")))
            }
            None => Err(Refusal::Says("CLUSTERDOWN Hash slot not served")),
        }
    }

    /// Number of slots that are assigned.
    pub(super) fn served(&self) -> usize {
        let slots = self.nodes.iter().flat_map(|node| &node.slots);
        slots.map(|(first, last)| usize::from(last - first) + 1).sum()
    }
}

impl SlotNode {
    /// An identifier for clients that is the same at every server and after every start.
    pub(super) fn id(&self) -> NodeId<'_> {
        NodeId(self)
    }
}

pub(super) struct NodeId<'a>(&'a SlotNode);

impl fmt::Display for NodeId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}:{}", self.0.host, self.0.port);
        // FNV-1a of the address, from three different seeds: 40 hex digits.
        for seed in 0..3_u64 {
            let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            match seed {
                2 => write!(f, "{:08x}", hash & 0xffff_ffff)?,
                _ => write!(f, "{hash:016x}")?,
            }
        }
        Ok(())
    }
}

/// The slot of a key. If the key has a non-empty part between its first braces, only that part counts.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let behind = key.get(open + 1..)?;
        let close = behind.iter().position(|byte| *byte == b'}')?;
        behind.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, which clients compute too: appendix A of the Redis Cluster specification.
fn crc16(bytes: &[u8]) -> u16 {
    u16::try_from(crc_fast::checksum(CrcAlgorithm::Crc16Xmodem, bytes)).expect("16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_clients_compute() {
        assert_eq!((crc16(b"123456789"), crc16(b"")), (0x31c3, 0));
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "nothing stands between");
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % SLOTS);
    }

    fn node(port: u16, slots: &[(u16, u16)]) -> SlotNode {
        SlotNode { host: "h".to_owned(), port, slots: slots.to_vec() }
    }

    #[test]
    fn keys_are_sent_where_they_belong() {
        let map = SlotMap::new(vec![node(1, &[(0, 8191)]), node(2, &[(8192, 13000)])], 0).unwrap();
        let serves = |key: &str| match map.serves(slot(key.as_bytes())) {
            Ok(()) => String::new(),
            Err(Refusal::Said(text)) => text,
            Err(Refusal::Says(text)) => text.to_owned(),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(serves("bar"), "", "slot 5061");
        assert_eq!(serves("foo"), "MOVED 12182 h:2");
        let none = SlotMap::new(vec![node(1, &[])], 0).unwrap();
        assert!(none.serves(slot(b"foo")).is_err());
    }

    #[test]
    fn maps_that_cannot_be() {
        assert!(SlotMap::new(vec![node(1, &[(0, 16384)])], 0).is_err());
        assert!(SlotMap::new(vec![node(1, &[(5, 4)])], 0).is_err());
        assert!(SlotMap::new(vec![node(1, &[(0, 5)]), node(2, &[(5, 6)])], 0).is_err());
        assert!(SlotMap::new(vec![node(1, &[])], 1).is_err());
        let odd = SlotNode { host: "a\r\nb".to_owned(), port: 1, slots: vec![] };
        assert!(SlotMap::new(vec![odd], 0).is_err());
    }
}
