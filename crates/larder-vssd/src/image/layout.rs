//! The offsets of all parts of an image. They follow from the header alone.
//!
//! ```text
//!      0   4096    8192
//!      ├────┼───────┼──────┬──────┬────────┬────────┬───────┬───────┬───────┬──────────────────┐
//!      │ header     │ catalogue   │ blocks          │ tails         │ words │ slots            │
//!      │ A    B     │ 0    1      │ A      B        │ A     B       │       │                  │
//!      └────────────┴─────────────┴─────────────────┴───────────────┴───────┴──────────────────┘
//! ```
//!
//! Each part begins at a multiple of 4096.

use larder_ssd::{Error, ErrorKind};

use super::header::{HEADER_BYTES, ImageConfig};
use super::record::{BLOCK_BYTES, tail_bytes};

const ALIGN: u64 = 4096;
/// Room for the journal after a catalogue that is shorter than this itself, and for the record that exceeds the limit.
const JOURNAL_BYTES: u64 = (64 << 10) + 4096;

/// Offsets and lengths, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of all drives together.
    pub blocks: u64,
    /// Slots, one for each page of the drives.
    pub slots: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Bytes of each of the two catalogue images.
    pub catalogue_bytes: u64,
    pub(super) tail_bytes: u64,
    pub(super) catalogues: [u64; 2],
    pub(super) records: [u64; 2],
    pub(super) tails: [u64; 2],
    pub(super) words: u64,
    pub(super) slots_at: u64,
    /// Length of the image.
    pub bytes: u64,
}

/// A number that may overflow; `None` if it did.
#[derive(Clone, Copy)]
struct Sum(Option<u64>);

impl Sum {
    fn of(number: impl Into<u64>) -> Self {
        Self(Some(number.into()))
    }

    fn times(self, by: impl Into<u64>) -> Self {
        Self(self.0.and_then(|number| number.checked_mul(by.into())))
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(a, b)| a.checked_add(b)))
    }

    fn aligned(self) -> Self {
        Self(self.0.and_then(|number| number.checked_next_multiple_of(ALIGN)))
    }
}

impl Layout {
    /// Offsets of both copies of each part that is stored twice: headers, catalogues, block records, tails.
    pub fn copies(&self) -> [[u64; 2]; 4] {
        [[0, HEADER_BYTES as u64], self.catalogues, self.records, self.tails]
    }

    /// The layout of an image of `config`, which has been checked.
    pub(super) fn of(config: &ImageConfig) -> Result<Self, Error> {
        let geometry = &config.drive.geometry;
        let drives = u64::from(config.drives);
        let all_dies = Sum::of(geometry.array.dies()).times(drives);
        let blocks = Sum::of(geometry.blocks()).times(drives);
        let pages = blocks.times(geometry.block_pages());
        let slot_bytes = u64::from(geometry.mapping_bytes);
        // Header and the front of the content. Each die: its erases, its swap, and for each quarter a vSSD of 104 bytes
        // and a logical die of 16. Each block: a generation and a tag. Levelling of each drive, channel and die.
        let of_die: u64 = 8 + 8 + 4 * (104 + 16) + 40;
        let levelling = 56 + 24 * u64::from(geometry.array.channels);
        let front = Sum::of(4096u32).plus(all_dies.times(of_die));
        let front = front.plus(Sum::of(levelling).times(drives));
        let catalogue = front.plus(blocks.times(12u64));
        let catalogue = catalogue.times(2u64).plus(Sum::of(JOURNAL_BYTES)).aligned();
        let records = blocks.times(BLOCK_BYTES as u64).aligned();
        let tail_bytes = tail_bytes(geometry.stripe_pages());
        let tails = blocks.times(tail_bytes).aligned();
        let words = pages.times(8u64).aligned();
        let slots = pages.times(slot_bytes);
        let catalogues = Sum::of(2 * HEADER_BYTES as u64);
        let ends = [catalogue, catalogue, records, records, tails, tails, words, slots];
        let mut at = catalogues;
        let places = ends.map(|length| {
            let begin = at;
            at = at.plus(length);
            begin.0
        });
        let whole = at.0.filter(|bytes| *bytes <= i64::MAX as u64);
        let (
            Some(bytes),
            [Some(c0), Some(c1), Some(r0), Some(r1), Some(t0), Some(t1), Some(w), Some(s)],
        ) = (whole, places)
        else {
            let message =
                format!("an image of {drives} drives of {geometry:?}: more bytes than a file has");
            return Err(Error::new(ErrorKind::Config, message));
        };
        Ok(Self {
            blocks: blocks.0.unwrap_or_default(),
            slots: pages.0.unwrap_or_default(),
            slot_bytes,
            catalogue_bytes: c1 - c0,
            tail_bytes,
            catalogues: [c0, c1],
            records: [r0, r1],
            tails: [t0, t1],
            words: w,
            slots_at: s,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::tests::example;
    use super::*;
    use larder_ssd::nand::DieArray;

    #[test]
    fn places_follow_one_another() {
        let layout = Layout::of(&example()).unwrap();
        let Layout { catalogues, records, tails, words, slots_at, bytes, .. } = layout;
        let places = [
            catalogues[0],
            catalogues[1],
            records[0],
            records[1],
            tails[0],
            tails[1],
            words,
            slots_at,
        ];
        assert!(places.iter().all(|at| at.is_multiple_of(4096)) && places.is_sorted());
        assert_eq!((layout.blocks, layout.slots, bytes - slots_at), (48, 192, 192 * 512));
    }

    #[test]
    fn an_image_that_no_file_can_hold_is_refused() {
        let mut config = example();
        config.drives = u32::MAX;
        config.drive.geometry.array = DieArray { channels: 1 << 8, dies_per_channel: 1 << 8 };
        config.drive.geometry.blocks_per_die = 1 << 12;
        config.drive.geometry.mapping_bytes = 1 << 20;
        config.drive.geometry.page_bytes = 1 << 20;
        assert!(Layout::of(&config).unwrap_err().to_string().contains("more bytes"));
    }
}
