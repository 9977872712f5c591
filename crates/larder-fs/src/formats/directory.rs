//! A page of a directory: names, packed one after the other. A name stays in its page. Its position in the page does
//! not matter, because the name has a cookie at which a listing continues.
//!
//! ```text
//!  offset  bytes  field
//!       0      2  number of names
//!       2      2  bytes that are used, these eight among them
//!       4      4  reserved, 0
//!       8         names; each of them:
//!                   8  cookie, from 1, unique in the directory
//!                   8  inode
//!                   1  kind: bits 12 to 15 of its mode
//!                   1  n: bytes of the name, 1 to 255
//!                   n  the name, without '/' and 0
//! ```

#![deny(clippy::indexing_slicing)]

use crate::attributes::Kind;

const HEADER_BYTES: usize = 8;
const FIXED_BYTES: usize = 18;
/// Maximum bytes of a name.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) cookie: u64,
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
    pub(crate) name: Box<[u8]>,
}

impl Name {
    fn bytes(&self) -> usize {
        entry_bytes(self.name.len())
    }
}

/// Bytes of an entry whose name has `name_bytes` bytes.
pub(crate) fn entry_bytes(name_bytes: usize) -> usize {
    FIXED_BYTES + name_bytes
}

/// Used bytes of a page with these names.
pub(crate) fn used_bytes(names: &[Name]) -> usize {
    HEADER_BYTES + names.iter().map(Name::bytes).sum::<usize>()
}

/// Encodes a page with these names, which must fit.
pub(crate) fn encode(names: &[Name], page_bytes: usize) -> Vec<u8> {
    let used = used_bytes(names);
    assert!(used <= page_bytes, "{used} bytes of names in a page");
    let mut page = Vec::with_capacity(page_bytes);
    page.extend_from_slice(&u16::try_from(names.len()).unwrap_or(u16::MAX).to_le_bytes());
    page.extend_from_slice(&u16::try_from(used).unwrap_or(u16::MAX).to_le_bytes());
    page.extend_from_slice(&[0; 4]);
    for name in names {
        page.extend_from_slice(&name.cookie.to_le_bytes());
        page.extend_from_slice(&name.ino.to_le_bytes());
        page.push(u8::try_from(name.kind.mode_bits() >> 12).unwrap_or(0));
        page.push(u8::try_from(name.name.len()).unwrap_or(0));
        page.extend_from_slice(&name.name);
    }
    page.resize(page_bytes, 0);
    page
}

/// Decodes the names of a page. `None` if it is not a page of names.
pub(crate) fn decode(page: &[u8]) -> Option<Vec<Name>> {
    let count = u16::from_le_bytes(*page.first_chunk()?);
    let used = u16::from_le_bytes(*page.get(2..)?.first_chunk()?);
    let mut rest = page.get(HEADER_BYTES..usize::from(used))?;
    let mut names = Vec::new();
    for _ in 0..count {
        let (cookie, after) = rest.split_first_chunk()?;
        let (ino, after) = after.split_first_chunk()?;
        let (&[kind, length], after) = after.split_first_chunk()?;
        let name = after.get(..usize::from(length))?;
        rest = after.get(usize::from(length)..)?;
        let kind = Kind::of_mode(u32::from(kind) << 12)?;
        let cookie = u64::from_le_bytes(*cookie);
        if !is_name(name) || cookie == 0 {
            return None;
        }
        names.push(Name { cookie, ino: u64::from_le_bytes(*ino), kind, name: name.into() });
    }
    rest.is_empty().then_some(names)
}

/// Whether this is a valid name in a directory.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_odd = |byte: &u8| *byte == b'/' || *byte == 0;
    let dots = name == b"." || name == b"..";
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !dots && !name.iter().any(is_odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let name =
            |cookie, name: &[u8]| Name { cookie, ino: 7, kind: Kind::Fifo, name: name.into() };
        let names = vec![name(1, b"a"), name(9, &[b'x'; 255])];
        let page = encode(&names, 4096);
        assert_eq!(decode(&page), Some(names));
        assert_eq!(decode(&encode(&[], 4096)), Some(vec![]));
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let name = Name { cookie: 1, ino: 7, kind: Kind::File, name: (*b"a").into() };
        let page = encode(&[name], 4096);
        for (at, byte) in [(0, 2), (0, 0), (2, 26), (2, 255), (24, 0), (24, 9), (25, 0), (26, b'/')]
        {
            let mut odd = page.clone();
            *odd.get_mut(at).unwrap() = byte;
            assert_eq!(decode(&odd), None, "byte {at} is {byte}");
        }
        assert_eq!(decode(&[]), None);
        assert!(!is_name(b"..") && !is_name(b"") && !is_name(&[b'a'; 256]) && is_name(b"..."));
    }
}
