//! The header of an image: identity and configuration of its drives. Stored twice, at 0 and at 4096.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERVI"
//!       8      2  version: 2
//!      10      2  reserved: 0, checked
//!      12      4  CRC-32C of bytes 16 to 4096
//!      16     16  identity of the array
//!      32      4  drives
//!      36     32  geometry of each: channels, dies of a channel, planes, bits, blocks of a die, pages of a block,
//!                 bytes of a page, bytes of mapping
//!      68      8  thousandths of spare; erases by which blocks of a die may differ
//!      76      8  rated erases, and the one that fails for sure; both 0: none fails
//!      84      8  seed of what fails by chance
//!      92   4004  reserved: 0
//! ```

use larder_ssd::nand::{DieArray, Endurance, NandGeometry};
use larder_ssd::raw::RawConfig;
use larder_ssd::{Error, ErrorKind};

use crate::fields::Fields;

pub(super) const HEADER_BYTES: usize = 4096;
const MAGIC: [u8; 8] = *b"LARDERVI";
const VERSION: u16 = 2;
const USED_BYTES: usize = 92;

/// Whether a file that begins with these bytes, at least 8192 of them, was created as an image, intact or not.
pub fn is_image(first: &[u8]) -> bool {
    [0, HEADER_BYTES].iter().any(|&at| first.get(at..).is_some_and(|it| it.starts_with(&MAGIC)))
}

/// The configuration of the drives of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageConfig {
    /// Identity of the array.
    pub identity: [u8; 16],
    /// Number of drives, all of the same configuration; at least 1.
    pub drives: u32,
    /// Configuration of each drive. Words are always kept with pages, whatever `page_words` says; bad blocks and
    /// planned failures are refused.
    pub drive: RawConfig,
}

impl ImageConfig {
    pub(super) fn check(&self) -> Result<(), Error> {
        let fail = |message: &str| Err(Error::new(ErrorKind::Config, message));
        if self.drives == 0 {
            return fail("drives of 0: must be at least 1");
        }
        let drive = &self.drive;
        if !drive.bad_blocks.is_empty() || !drive.program_failures.is_empty() {
            return fail("bad_blocks and program_failures are no part of an image: leave them out");
        }
        if matches!(drive.endurance, Endurance::Planned(_)) {
            return fail("an endurance by plan is no part of an image: use a rated one");
        }
        if drive.geometry.mapping_bytes > 1 << 20 {
            return fail("mapping_bytes above 1 MiB: a page is read and written at once");
        }
        drive.check()
    }

    /// The configuration of one drive of the image: with page words.
    pub(super) fn drive_of_image(&self) -> RawConfig {
        RawConfig { page_words: true, ..self.drive.clone() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(self.identity);
        let RawConfig { geometry, spare_per_mille, level_threshold, .. } = &self.drive;
        let (rated, certain) = match self.drive.endurance {
            Endurance::Rated { rated, certain } => (rated, certain),
            Endurance::Unlimited | Endurance::Planned(_) => (0, 0),
        };
        for number in [
            self.drives,
            geometry.array.channels,
            geometry.array.dies_per_channel,
            geometry.planes,
            geometry.bits,
            geometry.blocks_per_die,
            geometry.pages_per_block,
            geometry.page_bytes,
            geometry.mapping_bytes,
            *spare_per_mille,
            *level_threshold,
            rated,
            certain,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.drive.seed.to_le_bytes());
        debug_assert_eq!(bytes.len(), USED_BYTES);
        bytes.resize(HEADER_BYTES, 0);
        let checksum = larder_checksum::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes one copy of the header. The error says what is wrong with it.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        // `bytes` is long enough for all of the fields.
        let mut fields = Fields(bytes);
        if fields.take::<8>() != Some(MAGIC) {
            return Err("it does not begin with LARDERVI: it is no model image".to_owned());
        }
        let version = fields.take().map(u16::from_le_bytes);
        if version != Some(VERSION) {
            let version = version.unwrap_or_default();
            return Err(format!("it has version {version}, and this program knows {VERSION}"));
        }
        if fields.take::<2>() != Some([0; 2]) {
            return Err("reserved bytes are set".to_owned());
        }
        let checksum = fields.number();
        if Some(larder_checksum::crc32c(&bytes[16..])) != checksum {
            return Err("its checksum is another".to_owned());
        }
        let identity = fields.take().unwrap_or_default();
        let mut number = || fields.number().unwrap_or_default();
        let drives = number();
        let array = DieArray { channels: number(), dies_per_channel: number() };
        let geometry = NandGeometry {
            array,
            planes: number(),
            bits: number(),
            blocks_per_die: number(),
            pages_per_block: number(),
            page_bytes: number(),
            mapping_bytes: number(),
        };
        let (spare_per_mille, level_threshold) = (number(), number());
        let endurance = match (number(), number()) {
            (0, 0) => Endurance::Unlimited,
            (rated, certain) => Endurance::Rated { rated, certain },
        };
        let seed = fields.take().map_or(0, u64::from_le_bytes);
        let drive = RawConfig {
            endurance,
            spare_per_mille,
            level_threshold,
            seed,
            page_words: true,
            ..RawConfig::new(geometry)
        };
        let config = Self { identity, drives, drive };
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn example() -> ImageConfig {
        let geometry = NandGeometry {
            array: DieArray { channels: 2, dies_per_channel: 2 },
            planes: 1,
            bits: 2,
            blocks_per_die: 6,
            pages_per_block: 4,
            page_bytes: 512,
            mapping_bytes: 512,
        };
        let drive = RawConfig { page_words: true, seed: 77, ..RawConfig::new(geometry) };
        let drive = drive.with_endurance(Endurance::Rated { rated: 3000, certain: 6000 });
        ImageConfig { identity: *b"0123456789abcdef", drives: 2, drive }
    }

    fn array(bytes: Vec<u8>) -> [u8; HEADER_BYTES] {
        bytes.try_into().unwrap()
    }

    #[test]
    fn what_is_encoded_is_decoded_and_lies_where_the_table_says() {
        let bytes = array(example().encode());
        assert_eq!(ImageConfig::decode(&bytes), Ok(example()));
        assert_eq!((&bytes[..8], &bytes[8..10]), (&b"LARDERVI"[..], &[2, 0][..]));
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([32, 36, 52, 64, 68, 72].map(number), [2, 2, 6, 512, 10, 150]);
        assert_eq!([76, 80, 84].map(number), [3000, 6000, 77]);
        let endless = RawConfig { page_words: true, ..RawConfig::new(example().drive.geometry) };
        let endless = ImageConfig { drive: endless, ..example() };
        assert_eq!(ImageConfig::decode(&array(endless.encode())), Ok(endless));
    }

    #[test]
    fn flipped_bits_are_seen_and_another_version_is_named() {
        let bytes = array(example().encode());
        for bit in 0..USED_BYTES * 8 + 64 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(ImageConfig::decode(&flipped).is_err(), "bit {bit}");
        }
        let mut newer = bytes;
        newer[8] = 3;
        assert!(ImageConfig::decode(&newer).unwrap_err().contains("version 3"));
    }

    #[test]
    fn what_no_image_can_be_of_is_refused_though_its_checksum_fits() {
        let refused = |change: fn(&mut ImageConfig)| {
            let mut config = example();
            change(&mut config);
            ImageConfig::decode(&array(config.encode())).unwrap_err()
        };
        assert!(refused(|c| c.drives = 0).contains("drives of 0"));
        assert!(refused(|c| c.drive.geometry.planes = 0).contains("planes of 0"));
        assert!(refused(|c| c.drive.spare_per_mille = 1000).contains("spare_per_mille"));
        assert!(refused(|c| c.drive.level_threshold = 0).contains("level_threshold"));
        let dead = Endurance::Rated { rated: 3, certain: 2 };
        let config =
            ImageConfig { drive: RawConfig { endurance: dead, ..example().drive }, ..example() };
        assert!(ImageConfig::decode(&array(config.encode())).unwrap_err().contains("endurance"));
    }
}
