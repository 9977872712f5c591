//! Helpers of the tests of virtual SSDs: small drives, and images that lose power.

use larder_ssd::nand::{DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{IMAGES, ImageFailed, Images, Isolation, Request, Throughputs, Vssds};

/// 4 channels of 2 dies of 12 blocks of 3 stripes of 2 pages.
pub(crate) const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 4, dies_per_channel: 2 },
    planes: 1,
    bits: 1,
    blocks_per_die: 12,
    pages_per_block: 3,
    page_bytes: 8192,
    mapping_bytes: 4096,
};
pub(crate) const STRIPE: u64 = 2;
/// Bytes of a physical block.
pub(crate) const BLOCK_BYTES: u64 = 6 * 4096;
/// Usable blocks of a die, which has a spare of 2.
pub(crate) const CAPACITY: u64 = 10;
pub(crate) const RATES: Throughputs =
    Throughputs { channel_mb_s: 400, die_mb_s: 200, soft_plane_mb_s: 50 };
pub(crate) const IDENTITY: [u8; 16] = *b"an array of test";

pub(crate) fn config() -> RawConfig {
    RawConfig {
        spare_per_mille: 100,
        level_threshold: 4,
        page_words: true,
        ..RawConfig::new(GEOMETRY)
    }
}

/// An array of `drives` new drives.
pub(crate) fn array(drives: usize) -> Vssds<PowerImages> {
    let drives = (0..drives).map(|_| RawSsd::new(config()).unwrap()).collect();
    Vssds::create(drives, PowerImages::default(), IDENTITY, RATES).unwrap()
}

pub(crate) fn request(isolation: Isolation, bytes: u64) -> Request {
    Request { isolation, mb_s: 0, bytes }
}

/// The array, reopened after a power loss.
pub(crate) fn reopened(array: Vssds<PowerImages>) -> Vssds<PowerImages> {
    let (mut drives, images) = array.into_parts();
    drives.iter_mut().for_each(RawSsd::power_loss);
    let (array, _) = Vssds::open(drives, images).unwrap();
    array.audit().unwrap();
    array
}

/// Two images. The power may fail during any write; the result is then any mixture of new and old bytes that a disk may
/// leave.
#[derive(Debug, Clone, Default)]
pub(crate) struct PowerImages {
    pub(crate) bytes: [Vec<u8>; IMAGES],
    /// Writes until the power fails.
    pub(crate) left: Option<u64>,
    pub(crate) seed: u64,
    /// Writes so far.
    pub(crate) writes: u64,
}

impl PowerImages {
    fn admit(&mut self) -> bool {
        self.writes += 1;
        match &mut self.left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    /// The result of an interrupted write of `bytes`: a prefix, part of which may be garbage.
    fn torn(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(self.seed ^ self.writes);
        let mut torn = bytes[..rng.usize(..=bytes.len())].to_vec();
        if rng.bool() && !torn.is_empty() {
            let from = rng.usize(..torn.len());
            torn[from..].iter_mut().for_each(|byte| *byte = rng.u8(..));
        }
        torn
    }
}

impl Images for PowerImages {
    fn read(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed> {
        Ok(self.bytes[image].clone())
    }

    fn replace(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        if self.admit() {
            self.bytes[image] = bytes.to_vec();
            return Ok(());
        }
        let mut torn = self.torn(bytes);
        let old = self.bytes[image].get(torn.len()..).unwrap_or_default();
        torn.extend_from_slice(old);
        self.bytes[image] = torn;
        Err(ImageFailed("the power failed".to_owned()))
    }

    fn append(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        if self.admit() {
            self.bytes[image].extend_from_slice(bytes);
            return Ok(());
        }
        let torn = self.torn(bytes);
        self.bytes[image].extend(torn);
        Err(ImageFailed("the power failed".to_owned()))
    }
}
