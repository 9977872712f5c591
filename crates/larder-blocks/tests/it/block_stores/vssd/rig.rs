//! Small drives, and images that lose power.

use std::sync::{Arc, Mutex, MutexGuard};

use larder_blocks::VssdArray;
use larder_blocks::vssd::{Keeper, MemoryKeeper};
use larder_ssd::nand::{BlockIndex, DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{IMAGES, ImageFailed, Images, Isolation, Request, Throughputs};

/// 4 channels of 2 dies of 12 blocks of 3 stripes of 4 pages.
pub(crate) const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 4, dies_per_channel: 2 },
    planes: 1,
    bits: 2,
    blocks_per_die: 12,
    pages_per_block: 6,
    page_bytes: 8192,
    mapping_bytes: 4096,
};
pub(crate) const PAGE: usize = 4096;
pub(crate) const RATES: Throughputs =
    Throughputs { channel_mb_s: 400, die_mb_s: 200, soft_plane_mb_s: 50 };

pub(crate) fn request(isolation: Isolation, bytes: u64) -> Request {
    Request { isolation, mb_s: 0, bytes }
}

pub(crate) struct Rig {
    pub(crate) array: VssdArray,
    pub(crate) images: PowerImages,
}

impl Rig {
    pub(crate) fn new(drives: usize) -> Self {
        Self::with(drives, Box::new(MemoryKeeper::default()), &[])
    }

    /// Drives on which programming the given pages fails.
    pub(crate) fn with(
        drives: usize,
        keeper: Box<dyn Keeper>,
        failures: &[(BlockIndex, u32)],
    ) -> Self {
        let config = RawConfig {
            spare_per_mille: 100,
            page_words: true,
            program_failures: failures.to_vec(),
            ..RawConfig::new(GEOMETRY)
        };
        let drives = (0..drives).map(|_| RawSsd::new(config.clone()).unwrap()).collect();
        let images = PowerImages::default();
        let shared = Box::new(images.clone());
        let array = VssdArray::create(drives, shared, keeper, [7; 16], RATES).unwrap();
        Self { array, images }
    }
}

/// Two images. The power may fail during any write, which leaves a part of that write.
#[derive(Debug, Clone, Default)]
pub(crate) struct PowerImages(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    bytes: [Vec<u8>; IMAGES],
    /// Number of writes until the power fails; `None` means never.
    pub(crate) left: Option<u64>,
    pub(crate) seed: u64,
}

impl PowerImages {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    /// The number of `bytes` that get written; as `Err` if the power fails.
    fn admit(&mut self, bytes: usize) -> Result<usize, usize> {
        match &mut self.left {
            None => Ok(bytes),
            Some(0) => Err(fastrand::Rng::with_seed(self.seed).usize(..=bytes)),
            Some(left) => {
                *left -= 1;
                Ok(bytes)
            }
        }
    }
}

fn failed() -> ImageFailed {
    ImageFailed("the power failed".to_owned())
}

impl Images for PowerImages {
    fn read(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed> {
        Ok(self.lock().bytes[image].clone())
    }

    fn replace(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        let mut state = self.lock();
        let admitted = state.admit(bytes.len());
        let count = admitted.unwrap_or_else(|torn| torn);
        state.bytes[image] = bytes[..count].to_vec();
        admitted.map(|_| ()).map_err(|_| failed())
    }

    fn append(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        let mut state = self.lock();
        let admitted = state.admit(bytes.len());
        let count = admitted.unwrap_or_else(|torn| torn);
        state.bytes[image].extend_from_slice(&bytes[..count]);
        admitted.map(|_| ()).map_err(|_| failed())
    }
}
