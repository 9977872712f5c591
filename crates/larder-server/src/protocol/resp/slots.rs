//! Slots: which slot a key is in, and whether this server has it.

use std::fmt;

use crc_fast::CrcAlgorithm;

use super::write::{Outcome, Refusal};
use crate::caller::Caller;
use crate::config::{SLOTS, SlotMap, SlotNode};

/// Why this server does not serve a slot, if it does not.
pub(super) fn serves(map: &SlotMap, slot: u16) -> Outcome {
    match map.owner(slot) {
        Some((number, _)) if number == map.myself => Ok(()),
        Some((_, SlotNode { host, port, .. })) => {
            Err(Refusal::Said(format!("MOVED {slot} {host}:{port}")))
        }
        None => Err(Refusal::Says("CLUSTERDOWN Hash slot not served")),
    }
}

/// Why a server with this map does not serve these keys, if it does not. Yields between two keys.
pub(super) async fn check<'k>(
    map: &SlotMap,
    keys: impl Iterator<Item = &'k [u8]>,
    caller: &Caller,
) -> Outcome {
    let mut first = None;
    for key in keys {
        let slot = slot(key);
        if *first.get_or_insert(slot) != slot {
            return Err(Refusal::Says("CROSSSLOT Keys in request don't hash to the same slot"));
        }
        caller.work.does(1);
        caller.work.does_bytes(key.len());
        caller.rests().await;
    }
    first.map_or(Ok(()), |slot| serves(map, slot))
}

/// An identifier of a server for clients. It is the same at every server and after every start.
pub(super) struct NodeId<'a>(pub(super) &'a SlotNode);

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
        let serves = |key: &str| match serves(&map, slot(key.as_bytes())) {
            Ok(()) => String::new(),
            Err(Refusal::Said(text)) => text,
            Err(Refusal::Says(text)) => text.to_owned(),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(serves("bar"), "", "slot 5061");
        assert_eq!(serves("foo"), "MOVED 12182 h:2");
        let none = SlotMap::new(vec![node(1, &[])], 0).unwrap();
        assert!(super::serves(&none, slot(b"foo")).is_err());
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
