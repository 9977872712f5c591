//! Small used drives that virtual SSDs share, the same in each call.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use larder_blocks::vssd::VssdArray;
use larder_blocks::{BlockStore, Stream};
use larder_device::IoBuffer;
use larder_ssd::nand::{ChannelIndex, DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::image::{ImageConfig, ImageIo, ModelImage};
use larder_vssd::{
    ImageFailed, Isolation, MemoryImages, Pages, Request, Throughputs, Vssds, channel_pairs,
};

/// The byte that fills all pages.
pub const FILL: u8 = 0xa5;
/// Pages that a die programs at once.
pub const STRIPE_PAGES: u32 = 2;
const PAGE_BYTES: usize = 512;
const HEADER_BYTES: usize = 4096;
/// Bytes of a block's state in a model image.
const BLOCK_RECORD_BYTES: usize = 48;
/// Bytes of a block's entry in the protected buffer.
const TAIL_RECORD_BYTES: usize = 24 + 8 * STRIPE_PAGES as usize;
const IDENTITY: [u8; 16] = *b"an array to fuzz";
const RATES: Throughputs = Throughputs { channel_mb_s: 400, die_mb_s: 200, soft_plane_mb_s: 50 };

fn config() -> RawConfig {
    let geometry = NandGeometry {
        array: DieArray { channels: 4, dies_per_channel: 2 },
        planes: 1,
        bits: 2,
        blocks_per_die: 6,
        pages_per_block: 6,
        page_bytes: 512,
        mapping_bytes: 512,
    };
    RawConfig {
        spare_per_mille: 200,
        level_threshold: 2,
        page_words: true,
        ..RawConfig::new(geometry)
    }
}

/// A tenant of each kind.
fn requests() -> impl Iterator<Item = Request> {
    let kinds =
        [Isolation::Channel, Isolation::Die, Isolation::Software { weight: 3 }, Isolation::None];
    kinds.into_iter().map(|isolation| Request { isolation, mb_s: 0, bytes: 1 })
}

/// An array in the middle of an exchange, with blocks of each tenant, and its images: a catalogue and a journal.
pub fn used() -> (Vssds<MemoryImages>, [Vec<u8>; 2]) {
    let drives = vec![RawSsd::new(config()).expect("valid")];
    let mut array = Vssds::create(drives, MemoryImages::default(), IDENTITY, RATES).expect("valid");
    let tenants: Vec<_> =
        requests().map(|request| array.alloc(request).expect("there is room")).collect();
    let array_of = config().geometry.array;
    let exchanged =
        channel_pairs(array_of, ChannelIndex(0), ChannelIndex(3), None).expect("they are two");
    array.swap_begin(0, &exchanged).expect("nothing else is exchanged");
    for (tag, vssd) in (1..).zip(tenants) {
        let block = array.alloc_block(vssd, tag).expect("there is room");
        let words = [tag; 2 * STRIPE_PAGES as usize];
        array.append(vssd, block, 0, Pages::Words(&words)).expect("it is new");
    }
    let images = array.images_mut().0.clone();
    (array, images)
}

/// A model image in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryImage(Arc<Mutex<Vec<u8>>>);

impl MemoryImage {
    /// An image with these bytes.
    pub fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    fn with<T>(&self, what: impl FnOnce(&mut Vec<u8>) -> Option<T>) -> Result<T, ImageFailed> {
        let mut bytes = self.0.lock().expect("nobody panics with it");
        what(&mut bytes).ok_or_else(|| ImageFailed("beyond the end".to_owned()))
    }
}

fn range(at: u64, bytes: usize) -> Range<usize> {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    at..at.saturating_add(bytes)
}

impl ImageIo for MemoryImage {
    fn bytes(&mut self) -> Result<u64, ImageFailed> {
        self.with(|bytes| Some(bytes.len() as u64))
    }

    fn set_bytes(&mut self, count: u64) -> Result<(), ImageFailed> {
        self.with(|bytes| Some(bytes.resize(usize::try_from(count).ok()?, 0)))
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed> {
        self.with(|bytes| Some(into.copy_from_slice(bytes.get(range(at, into.len()))?)))
    }

    fn write_at(&mut self, at: u64, new: &[u8]) -> Result<(), ImageFailed> {
        self.with(|bytes| Some(bytes.get_mut(range(at, new.len()))?.copy_from_slice(new)))
    }

    fn release(&mut self, at: u64, count: u64) -> Result<(), ImageFailed> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.with(|bytes| Some(bytes.get_mut(range(at, count))?.fill(0)))
    }

    fn sync(&mut self) -> Result<(), ImageFailed> {
        Ok(())
    }
}

/// The bytes of a model image in which each tenant has a block of stripes and a tail.
pub fn used_image() -> Vec<u8> {
    let image = MemoryImage::default();
    let of = ImageConfig { identity: IDENTITY, drives: 1, drive: config() };
    let array = VssdArray::format_image(image.clone(), of, RATES).expect("valid");
    for request in requests() {
        let store = array.store(array.alloc(request).expect("there is room")).expect("it has none");
        let block = store.alloc(Stream::DEFAULT, 7).wait().expect("there is room");
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES * (2 * STRIPE_PAGES as usize + 1));
        buffer.as_mut_slice().fill(FILL);
        store.append(block, 0, buffer).wait().expect("it is new");
    }
    drop(array);
    image.with(|bytes| Some(bytes.clone())).expect("it is there")
}

/// The parts of a model image that exist twice.
#[derive(Debug, Clone)]
pub struct Sections {
    /// Both copies of headers, catalogues, block records, and entries of the protected buffer.
    pub copies: [[Range<usize>; 2]; 4],
}

/// Finds the sections of `image`, which must be valid.
pub fn sections(image: &[u8]) -> Sections {
    let (opened, _) = ModelImage::open(MemoryImage::holding(image.to_vec())).expect("it is whole");
    let layout = opened.layout();
    let blocks = usize::try_from(layout.blocks).expect("few");
    let lengths = [
        HEADER_BYTES,
        usize::try_from(layout.catalogue_bytes).expect("short"),
        blocks * BLOCK_RECORD_BYTES,
        blocks * TAIL_RECORD_BYTES,
    ];
    let mut places = layout.copies().into_iter().zip(lengths);
    let copies = std::array::from_fn(|_| {
        let (copies, length) = places.next().expect("there are four");
        copies.map(|at| range(at, length))
    });
    Sections { copies }
}

/// `image` with correct magics and checksums, except for those of the catalogue.
pub fn sealed(mut image: Vec<u8>, sections: &Sections) -> Vec<u8> {
    let [headers, _, blocks, tails] = &sections.copies;
    for header in headers {
        crate::seal::image_header(&mut image[header.clone()]);
    }
    let identity = *image[16..].first_chunk().expect("a header is longer");
    for (copies, bytes) in [(blocks, BLOCK_RECORD_BYTES), (tails, TAIL_RECORD_BYTES)] {
        for copy in copies {
            for (number, record) in (0..).zip(image[copy.clone()].chunks_exact_mut(bytes)) {
                // An entry of the protected buffer that was never written is zeros.
                if record.iter().any(|byte| *byte != 0) {
                    crate::seal::image_record(record, identity, number);
                }
            }
        }
    }
    image
}
