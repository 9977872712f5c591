//! The tags of a device's blocks.
//!
//! ```text
//!  bits 40 to 63  "LDB"
//!  bits 32 to 39  kind: 1 pages, 2 slot, 3 being formatted
//!  bits  0 to 31  number of the slot; else 0
//! ```

const MARK: u64 = 0x4c_4442 << 40;
const MARK_BITS: u64 = 0xff_ffff << 40;

/// The purpose of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Batches of pages, which are mapped one by one.
    Pages,
    /// The bytes of this slot, in order.
    Slot(u32),
    /// A mark that the other blocks are in the middle of a format.
    Formatting,
}

impl Purpose {
    pub(super) fn tag(self) -> u64 {
        let (kind, slot) = match self {
            Self::Pages => (1, 0),
            Self::Slot(slot) => (2, slot),
            Self::Formatting => (3, 0),
        };
        MARK | kind << 32 | u64::from(slot)
    }

    /// `None` if the block is not of a device on blocks.
    pub(super) fn of(tag: u64) -> Option<Self> {
        let low = tag & !MARK_BITS;
        let slot = u32::try_from(low & u64::from(u32::MAX)).expect("32 bits");
        if tag & MARK_BITS != MARK {
            return None;
        }
        match (low >> 32, slot) {
            (1, 0) => Some(Self::Pages),
            (2, slot) => Some(Self::Slot(slot)),
            (3, 0) => Some(Self::Formatting),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_what_it_was_made_of() {
        for purpose in
            [Purpose::Pages, Purpose::Slot(0), Purpose::Slot(u32::MAX), Purpose::Formatting]
        {
            assert_eq!(Purpose::of(purpose.tag()), Some(purpose));
        }
        assert_eq!(Purpose::Slot(7).tag(), 0x4c44_4202_0000_0007);
        for foreign in [0, 7, Purpose::Pages.tag() + 1, Purpose::Pages.tag() ^ 1 << 63, MARK] {
            assert_eq!(Purpose::of(foreign), None);
        }
    }
}
