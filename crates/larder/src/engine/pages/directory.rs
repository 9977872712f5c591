//! The directory of a region: the last record before its footer. It lists the fingerprints of the objects in the
//! region's pages, so that an opening reads kilobytes of a region and not its pages. Little-endian.
//!
//! ```text
//!  for each page, in the order of the footer
//!       1  n, number of slots
//!     2 n  fingerprint of the object in each slot, not 0
//! ```

#![deny(clippy::indexing_slicing)]

use larder_log::NewRecord;

use super::page::{SETS_END, SLOTS_MAX};

/// The key of its record.
const KEY: [u8; 1] = *b"D";

/// The directory of the region that is being filled.
#[derive(Debug, Default)]
pub(super) struct Directory {
    bytes: Vec<u8>,
}

impl Directory {
    /// Adds a page.
    pub(super) fn push(&mut self, fingerprints: &[u16]) {
        let slots = u8::try_from(fingerprints.len()).expect("a page has few slots");
        self.bytes.push(slots);
        fingerprints.iter().for_each(|it| self.bytes.extend_from_slice(&it.to_le_bytes()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of key and value of its record, once a page with this number of slots was added.
    pub(super) fn object_bytes_with(&self, slots: usize) -> usize {
        KEY.len() + self.bytes.len() + 1 + 2 * slots
    }

    /// Its record.
    pub(super) fn as_record(&self) -> NewRecord<'_> {
        NewRecord {
            hash: SETS_END.into(),
            key: &KEY,
            value: &self.bytes,
            expiry_s: 0,
            flags: 0,
            marks: 0,
            stamp: None,
        }
    }
}

/// Whether a record of the log is a directory, by its key.
pub(super) fn is_directory(key: &[u8]) -> bool {
    key == KEY
}

/// The fingerprints of each page. `None` if these are not the bytes of a directory of this number of pages.
pub(super) fn parse(mut bytes: &[u8], pages: usize) -> Option<Vec<Vec<u16>>> {
    let mut all = Vec::with_capacity(pages);
    while let Some((&slots, rest)) = bytes.split_first() {
        let (listed, behind) = rest.split_at_checked(2 * usize::from(slots))?;
        let fingerprints: Vec<u16> =
            listed.as_chunks().0.iter().map(|it| u16::from_le_bytes(*it)).collect();
        let is_valid = usize::from(slots) <= SLOTS_MAX && fingerprints.iter().all(|&it| it != 0);
        all.push(fingerprints);
        bytes = behind;
        if !is_valid || all.len() > pages {
            return None;
        }
    }
    (all.len() == pages).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_the_pages_in_order() {
        let pages = [vec![1, 2, 65_535], vec![], vec![9]];
        let mut directory = Directory::default();
        for page in &pages {
            let expected = directory.object_bytes_with(page.len());
            directory.push(page);
            assert_eq!(directory.as_record().object_bytes(), expected);
        }
        let bytes = directory.as_record().value;
        assert_eq!(bytes, [3, 1, 0, 2, 0, 255, 255, 0, 1, 9, 0]);
        assert_eq!(parse(bytes, 3), Some(pages.to_vec()));
        assert!(parse(bytes, 2).is_none() && parse(bytes, 4).is_none());
        let cut = bytes.split_last().unwrap().1;
        assert!(parse(cut, 3).is_none() && parse(&[1, 0, 0], 1).is_none());
        assert!(is_directory(directory.as_record().key) && !is_directory(b"DD"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), pages in 0..20_usize) {
            if let Some(all) = parse(&bytes, pages) {
                let mut again = Directory::default();
                all.iter().for_each(|page| again.push(page));
                prop_assert_eq!(again.as_record().value, &bytes[..]);
            }
        }
    }
}
