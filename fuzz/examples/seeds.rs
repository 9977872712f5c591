//! Writes `seeds/`: a few valid inputs for each target, the same ones in each run.
//!
//! `cargo run --example seeds` in the directory `fuzz`.
//!
//! The seeds of on-flash formats are cut out of the data that a cache wrote to a memory device. The targets themselves
//! fix identities and checksums. The seeds of traces are literals in this file.

use std::fs;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use larder::SocLayout;
use larder_fuzz::seal::SNAPSHOT_HEADER_BYTES;
use larder_fuzz::{array, drive};
use liblzma::write::XzEncoder;

/// Region size of the caches whose data is used.
const REGION_BYTES: usize = 8192;
/// Bytes of label and superblock.
const SUPERBLOCK_BYTES: usize = 512;

fn main() -> Result<()> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    flash(&seeds)?;
    arrays(&seeds)?;
    requests(&seeds)?;
    collections(&seeds)?;
    block_log(&seeds)?;
    block_fingerprint(&seeds)?;
    traces(&seeds.join("trace_readers"))
}

fn flash(seeds: &Path) -> Result<()> {
    let image = drive::after_clean_shutdown(SocLayout::Buckets);
    let snapshot_end =
        drive::SNAPSHOT_AT + SNAPSHOT_HEADER_BYTES + drive::number(&image, drive::SNAPSHOT_AT + 16);
    let snapshot = &image[drive::SNAPSHOT_AT..snapshot_end];
    save(seeds, "metadata", "superblock", &image[..SUPERBLOCK_BYTES])?;
    save(seeds, "metadata", "snapshot", snapshot)?;
    save(seeds, "restart", "whole", &snapshot[SNAPSHOT_HEADER_BYTES..])?;
    let image = drive::after_clean_shutdown(SocLayout::Pages);
    let end =
        drive::SNAPSHOT_AT + SNAPSHOT_HEADER_BYTES + drive::number(&image, drive::SNAPSHOT_AT + 16);
    let content = &image[drive::SNAPSHOT_AT + SNAPSHOT_HEADER_BYTES..end];
    save(seeds, "restart", "whole-pages", content)?;

    let buckets = image.chunks_exact(4096).enumerate();
    for (number, bucket) in buckets.filter(|(_, bucket)| bucket.starts_with(b"LBKT")).take(3) {
        let used = usize::from(u16::from_le_bytes([bucket[12], bucket[13]]));
        save(seeds, "soc_bucket", &format!("bucket-{number}"), &bucket[..32 + used])?;
    }
    let regions = image[drive::regions_at(&image)..].chunks_exact(REGION_BYTES).enumerate();
    for (number, region) in regions.filter(|(_, region)| region.starts_with(b"LREC")).take(2) {
        let key_bytes = usize::from(u16::from_le_bytes([region[6], region[7]]));
        let record = &region[..32 + key_bytes + half(region, 12)];
        save(seeds, "loc_record", &format!("record-{number}"), record)?;
        let entries = half(region, REGION_BYTES - 24);
        let footer = &region[REGION_BYTES - 36 - 16 * entries..];
        save(seeds, "loc_footer", &format!("footer-{number}"), footer)?;
    }
    // Two records, one of them with flags. The target writes magic, identity and checksum.
    let mut page = vec![0; 32];
    page[12] = 26;
    page[14] = 2;
    page.extend_from_slice(b"\x01\0\x02\0\0\0\0\0kv1\x01\0\x02\x80\0\0\0\0\x07\0\0\0kv2");
    save(seeds, "soc_log_page", "two", &page)?;
    // Three pages with 3, 0 and 1 objects; a page with the two records.
    save(seeds, "soc_pages", "directory", &[3, 3, 1, 0, 2, 0, 255, 255, 0, 1, 9, 0])?;
    save(seeds, "soc_pages", "page", &[&[1], &page[32..]].concat())?;
    // The shortest inputs: a key of one byte without a value, an empty bucket, an empty footer.
    let mut record = [0; 33];
    record[6] = 1;
    save(seeds, "loc_record", "shortest", &record)?;
    save(seeds, "loc_footer", "empty", &[0; 32])?;
    save(seeds, "soc_log_page", "empty", &[0; 32])?;
    save(seeds, "soc_bucket", "empty", &[0; 32])
}

/// Whole catalogues; and small patches for images that are too long to be inputs.
fn arrays(seeds: &Path) -> Result<()> {
    let (mut array, [used, _]) = array::used();
    save(seeds, "vssd_catalogue", "exchange", &used)?;
    array.swap_abandon().expect("the images do not fail");
    save(seeds, "vssd_catalogue", "back", &array.images_mut().0[0])?;
    let patch = |how: u8, place: u32, bytes: &[u8]| {
        let length = u8::try_from(bytes.len() - 1).expect("at most 16");
        [&[how][..], &place.to_le_bytes(), &[length], bytes].concat()
    };
    // In both copies: the number of drives in the header, the state of a block, a catalogue, a tail.
    for (name, part, place) in
        [("header", 0, 32), ("block", 2, 52), ("catalogue", 1, 52), ("tail", 3, 4)]
    {
        save(seeds, "model_image", name, &patch(part << 1 | 1, place, &[3]))?;
    }
    save(seeds, "model_image", "nothing", &[0])?;
    save(seeds, "filesystem", "nothing", &[0])?;
    save(seeds, "filesystem", "flipped", &patch(0, 5 * 4096 + 100, &[0xff]))?;
    save(seeds, "filesystem", "sealed", &patch(1, 2 * 4096 + 64, &[2, 0, 0, 0]))
}

/// A collection of each kind, with the members `a` and `bc`.
fn collections(seeds: &Path) -> Result<()> {
    let ends = |ends: &[u8]| ends.iter().flat_map(|end| [*end, 0, 0, 0]).collect::<Vec<u8>>();
    let header = |kind| [1, kind, 0, 0, 2, 0, 0, 0];
    let hash = [&header(1)[..], &ends(&[1, 2, 4, 6]), b"a1bc22"].concat();
    save(seeds, "collection", "hash", &hash)?;
    for (kind, name) in [(2, "set"), (4, "list")] {
        let strings = [&header(kind)[..], &ends(&[1, 3]), b"abc"].concat();
        save(seeds, "collection", name, &strings)?;
    }
    let scores = [2.5_f64.to_le_bytes(), 1_f64.to_le_bytes()].concat();
    let sorted = [&header(3)[..], &ends(&[1, 3]), &scores, &ends(&[1, 0]), b"abc"].concat();
    save(seeds, "collection", "sorted-set", &sorted)
}

/// The first byte selects the format by its index in `TraceFormat::ALL`; 6 means detection.
fn requests(seeds: &Path) -> Result<()> {
    let text = b"get a b\r\nset a 0 0 1\r\nms b 1 F3\r\nmg TWFu b v\r\nincr n 1 noreply\r\n";
    save(seeds, "memcached", "text", text)?;
    let binary = b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0atags\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0av";
    save(seeds, "memcached", "binary", binary)?;
    let agreed = b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0IHAVEOPT\0\0\0\x0a\0\0\0\x1e\0\0\0\x03one\0\0\0\x01\0\0\0\x0f\
        base:allocationIHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03one\0\0";
    let write = b"\x25\x60\x95\x13\0\x01\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x10\0\0\0\0\x04data";
    let status = b"\x25\x60\x95\x13\0\0\0\x07\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\0\0\0\x10\0";
    save(seeds, "nbd", "requests", &[&agreed[..], write, status].concat())?;
    let name = b"\0\0\0\x01IHAVEOPT\0\0\0\x03\0\0\0\0IHAVEOPT\0\0\0\x01\0\0\0\x03two";
    save(seeds, "nbd", "export-name", &[&name[..], write].concat())
}

/// Consecutive numbers of 8 bytes. The target adds magics and checksums.
fn block_log(seeds: &Path) -> Result<()> {
    let numbers = |all: &[u64]| all.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<u8>>();
    // A dirty record of eight sectors of core 1, and its word.
    let record = |first: u64, word: u64| numbers(&[first, 1 | 7 << 16 | 0x11 << 24 | word << 32]);
    // A batch of 512 and 4096 bytes: generation 9, sequence 10, horizon 8, void below 2, epoch 1.
    let header = [&numbers(&[1 << 48, 0, 4608 << 32, 9, 10, 8, 2, 1])[..], &record(64, 7)].concat();
    // The same batch, and another one at 60416.
    let trailer = numbers(&[0, 0, 2 | 60416 << 32, 9, 10, 8, 2, 1]);
    let footer = [&[0; 928][..], &record(64, 0), &record(128, 1), &trailer].concat();
    save(seeds, "block_log_header", "header", &[&header[..], &[0; 1024]].concat())?;
    save(seeds, "block_log_header", "both", &[&header[..], &footer].concat())?;
    let sizes = [8 | 65536 << 32, 512 | 4096 << 32];
    let superblock =
        [&b"LOG1\x01\0\0\0"[..], &numbers(&[32768]), &numbers(&sizes), &[0; 8]].concat();
    save(seeds, "block_log_header", "superblock", &superblock)
}

/// Slots of cores of 1 GiB and 1 MiB, with known, uniform, void and trimmed blocks. The target fixes the magic.
fn block_fingerprint(seeds: &Path) -> Result<()> {
    let slot = |core_bytes: u64, identity: &str, entries: &[(u64, u64, u32)]| {
        let lengths = entries.len() as u64 | (identity.len() as u64) << 16;
        let header = [0, 0, 0, 0, 7, 8192, core_bytes, lengths];
        let mut bytes: Vec<u8> = header.iter().flat_map(|one: &u64| one.to_le_bytes()).collect();
        bytes.extend_from_slice(identity.as_bytes());
        bytes.resize(512, 0);
        for (block, flags, checksum) in entries {
            bytes.extend_from_slice(&(block | flags << 56).to_le_bytes());
            bytes.extend_from_slice(&checksum.to_le_bytes());
        }
        bytes
    };
    let known = "WWN=naa.50\nserial=9\nfile-system UUID=11111111-2222-3333-4444-555555555555\n";
    let entries = [(0, 1, 7), (16, 5, 8), (99, 3, 9), (100, 0, 0), (101, 8, 0), (1 << 17, 2, 0)];
    save(seeds, "block_fingerprint", "disk", &slot(1 << 30, known, &entries))?;
    save(seeds, "block_fingerprint", "file", &slot(1 << 20, "inode=3:4\n", &entries[..2]))
}

fn traces(dir: &Path) -> Result<()> {
    const CSV: &str = "time,object,size,op,ttl\n0,7,100,get,0\n1.5,apple,2000,set,60\n";
    const TWITTER: &str = "0,aQz,3,230,5,get,0\n0,bb,2,0,1,delete,0\n2,c,1,9,5,set,300\n";
    const META: &str =
        "op_time,key,key_size,op,op_count,size\n5,k1,20,GET,3,100\n6,k2,21,SET,1,0\n";
    const KEYS: &str = "1\n2\nthree\r\n\n1\n";
    let mut oracle = Vec::new();
    for (time, object, next) in [(1_u32, 7_u64, 3_i64), (1, 8, -1), (4, 7, -1)] {
        oracle.extend_from_slice(&time.to_le_bytes());
        oracle.extend_from_slice(&object.to_le_bytes());
        oracle.extend_from_slice(&512_u32.to_le_bytes());
        oracle.extend_from_slice(&next.to_le_bytes());
    }
    let words: Vec<u8> = (0..300_u32).flat_map(|i| (i * i % 97 + 1).to_be_bytes()).collect();
    let files = [
        ("csv", CSV.as_bytes()),
        ("twitter", TWITTER.as_bytes()),
        ("meta-kv", META.as_bytes()),
        ("oracle-general", &oracle),
        ("keys", KEYS.as_bytes()),
        ("keys-u32", &words),
    ];
    for (number, (name, file)) in (b'0'..).zip(files) {
        save_trace(dir, name, number, file)?;
        save_trace(dir, &format!("detect-{name}"), b'6', file)?;
    }
    save_trace(dir, "zstd", b'6', &zstd::encode_all(CSV.as_bytes(), 3)?)?;
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(TWITTER.as_bytes())?;
    save_trace(dir, "gzip", b'6', &gzip.finish()?)?;
    let mut xz = XzEncoder::new(Vec::new(), 0);
    xz.write_all(META.as_bytes())?;
    save_trace(dir, "xz", b'6', &xz.finish()?)
}

fn save_trace(dir: &Path, name: &str, choice: u8, file: &[u8]) -> Result<()> {
    save_in(dir.to_owned(), name, &[&[choice], file].concat())
}

fn save(seeds: &Path, target: &str, name: &str, bytes: &[u8]) -> Result<()> {
    save_in(seeds.join(target), name, bytes)
}

fn save_in(dir: PathBuf, name: &str, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(&dir)?;
    fs::write(dir.join(name), bytes)
}

/// A 4-byte field, as a count or a length.
fn half(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes[at..].first_chunk().expect("within the device");
    u32::from_le_bytes(*bytes) as usize
}
