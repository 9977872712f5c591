//! Extended attributes of an inode: one separate node for all of them.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERFX"
//!       8      2  version of the formats
//!      10      2  number of attributes
//!      12      4  reserved, 0
//!      16      8  inode
//!      24         attributes, in the order of their names; each of them:
//!                   1  n: bytes of the name, 1 to 255
//!                   2  v: bytes of the value
//!                   n  the name
//!                   v  the value
//! ```

#![deny(clippy::indexing_slicing)]

use std::collections::BTreeMap;

use larder_device::label::FORMAT_VERSION;

const ATTRIBUTES_MAGIC: [u8; 8] = *b"LARDERFX";
const HEADER_BYTES: usize = 24;
/// Maximum bytes of an attribute's name, as in Linux.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Attributes by name.
pub(crate) type Attributes = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Encodes the attributes of an inode as a page. `None` if they do not fit.
pub(crate) fn encode(ino: u64, attributes: &Attributes, page_bytes: usize) -> Option<Vec<u8>> {
    let mut page = Vec::with_capacity(page_bytes);
    page.extend_from_slice(&ATTRIBUTES_MAGIC);
    page.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    page.extend_from_slice(&u16::try_from(attributes.len()).ok()?.to_le_bytes());
    page.extend_from_slice(&[0; 4]);
    page.extend_from_slice(&ino.to_le_bytes());
    for (name, value) in attributes {
        page.push(u8::try_from(name.len()).ok()?);
        page.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
        page.extend_from_slice(name);
        page.extend_from_slice(value);
    }
    if page.len() > page_bytes {
        return None;
    }
    page.resize(page_bytes, 0);
    Some(page)
}

/// Decodes the attributes in a page, which must be that of `ino`. `None` if it is not.
pub(crate) fn decode(ino: u64, page: &[u8]) -> Option<Attributes> {
    let (header, mut rest) = page.split_at_checked(HEADER_BYTES)?;
    let version = u16::from_le_bytes(*header.get(8..)?.first_chunk()?);
    let count = u16::from_le_bytes(*header.get(10..)?.first_chunk()?);
    let of = u64::from_le_bytes(*header.get(16..)?.first_chunk()?);
    if !header.starts_with(&ATTRIBUTES_MAGIC) || version != FORMAT_VERSION || of != ino {
        return None;
    }
    let mut attributes = Attributes::new();
    for _ in 0..count {
        let (&[name_bytes], after) = rest.split_first_chunk()?;
        let (value_bytes, after) = after.split_first_chunk()?;
        let (name, after) = after.split_at_checked(name_bytes.into())?;
        let (value, after) = after.split_at_checked(u16::from_le_bytes(*value_bytes).into())?;
        rest = after;
        if name.is_empty() || attributes.insert(name.into(), value.into()).is_some() {
            return None;
        }
    }
    Some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_back() {
        let pair = |name: &[u8], value: &[u8]| (name.into(), value.into());
        let some = Attributes::from([pair(b"user.a", b""), pair(b"user.b", &[7; 900])]);
        let page = encode(5, &some, 4096).unwrap();
        assert_eq!(decode(5, &page), Some(some.clone()));
        assert_eq!(decode(6, &page), None);
        assert_eq!(encode(5, &Attributes::from([pair(b"user.a", &[0; 4090])]), 4096), None);
        for (at, byte) in [(0, 0), (8, 0), (10, 200), (24, 0), (25, 0xff)] {
            let mut odd = page.clone();
            *odd.get_mut(at).unwrap() = byte;
            assert_ne!(decode(5, &odd), Some(some.clone()), "byte {at} is {byte}");
        }
    }
}
