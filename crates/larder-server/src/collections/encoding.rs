//! The encodings that `OBJECT ENCODING` tells.

use super::{Damaged, Hash, Kind, List, Set, Shape, SortedSet};

/// The encoding that other servers report for a collection of this size: most of them have two.
pub(crate) fn encoding(kind: Kind, bytes: &[u8]) -> Result<&'static str, Damaged> {
    /// Most members of a short encoding (of a hash: more), and longest member in it.
    const SHORT: (usize, usize) = (128, 64);
    const SHORT_FIELDS: usize = 512;
    let is_short = |members: usize, longest: usize| members <= SHORT.0 && longest <= SHORT.1;
    Ok(match kind {
        Kind::Hash => {
            let hash = Hash::parse(bytes)?;
            let longest = hash.iter().map(|(field, value)| field.len().max(value.len())).max();
            let is_short = hash.len() <= SHORT_FIELDS && longest.unwrap_or(0) <= SHORT.1;
            if is_short { "listpack" } else { "hashtable" }
        }
        Kind::Set => {
            let set = Set::parse(bytes)?;
            let longest = set.iter().map(<[u8]>::len).max().unwrap_or(0);
            match () {
                () if set.len() <= 512 && set.iter().all(is_integer) => "intset",
                () if is_short(set.len(), longest) => "listpack",
                () => "hashtable",
            }
        }
        Kind::SortedSet => {
            let set = SortedSet::parse(bytes)?;
            let longest = set.members().map(<[u8]>::len).max().unwrap_or(0);
            if is_short(set.len(), longest) { "listpack" } else { "skiplist" }
        }
        Kind::List => {
            List::parse(bytes)?;
            if bytes.len() <= 8 << 10 { "listpack" } else { "quicklist" }
        }
    })
}

/// Whether a member is a number of 64 bits in its canonical form.
fn is_integer(member: &[u8]) -> bool {
    match member {
        [b'0'] => true,
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] if member.len() <= 20 => {
            std::str::from_utf8(member).is_ok_and(|text| text.parse::<i64>().is_ok())
        }
        _ => false,
    }
}
