//! Values that identify themselves: one piece, or several that were appended one after the other.
//!
//! ```text
//!  offset  bytes  field of a piece
//!       0      4  magic
//!       4      4  length of the piece in bytes, all of it
//!       8      8  seed of the run
//!      16      8  version: round, thread, and a number that the thread gave once
//!      24      8  version of the piece in front of this one, 0 for the first
//!      32      4  key
//!      36      *  pseudorandom bytes
//!     end      8  XXH3 of all of it
//! ```

use xxhash_rust::xxh3::xxh3_64;

const MAGIC: u32 = 0x7666_7831;
const HEADER_BYTES: usize = 36;
const CHECK_BYTES: usize = 8;

/// Minimum length of a piece.
pub(super) const PIECE_BYTES_MIN: usize = HEADER_BYTES + CHECK_BYTES;

/// The header of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Seed of the run.
    pub(super) run: u64,
    pub(super) key: u32,
    /// Grows with every change of the key.
    pub(super) version: u64,
    /// Version of the value to which it was appended; 0 if it is the first piece.
    pub(super) after: u64,
}

/// The result of checking a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Intact and of this key. The version is that of the last piece, which depends on all before it.
    Whole { version: u64, pieces: u32 },
    /// Bytes that were never stored.
    Torn,
    /// Intact, but of another key or run.
    Foreign,
}

/// Name of a key in the cache. Lengths differ, as in real use.
pub(super) fn name_of(key: u32) -> Vec<u8> {
    let tail = "-".repeat(key as usize % 17);
    format!("{key:08x}{tail}").into_bytes()
}

/// Version `number` of a thread; versions of later rounds are larger. Numbers begin at 1.
pub(super) fn version_of(round: u32, thread: u32, number: u32) -> u64 {
    u64::from(round) << 40 | u64::from(thread & 0xff) << 32 | u64::from(number)
}

/// Encodes a piece of `bytes` bytes, but at least [`PIECE_BYTES_MIN`].
pub(super) fn encode(piece: Piece, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.max(PIECE_BYTES_MIN)];
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    let covered = out.len() - CHECK_BYTES;
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4..8].copy_from_slice(&length.to_le_bytes());
    out[8..16].copy_from_slice(&piece.run.to_le_bytes());
    out[16..24].copy_from_slice(&piece.version.to_le_bytes());
    out[24..32].copy_from_slice(&piece.after.to_le_bytes());
    out[32..36].copy_from_slice(&piece.key.to_le_bytes());
    let seed = xxh3_64(&out[..HEADER_BYTES]);
    fastrand::Rng::with_seed(seed).fill(&mut out[HEADER_BYTES..covered]);
    let check = xxh3_64(&out[..covered]);
    out[covered..].copy_from_slice(&check.to_le_bytes());
    out
}

/// Checks `value`, found under `key`.
pub(super) fn read(run: u64, key: u32, value: &[u8]) -> Reading {
    let (mut rest, mut version, mut pieces, mut own) = (value, 0, 0, true);
    while !rest.is_empty() {
        let Some((piece, after)) = first_piece(rest) else { return Reading::Torn };
        if piece.after != version {
            return Reading::Torn;
        }
        own &= piece.run == run && piece.key == key;
        (rest, version, pieces) = (after, piece.version, pieces + 1);
    }
    match (pieces, own) {
        (0, _) => Reading::Torn,
        (_, true) => Reading::Whole { version, pieces },
        (_, false) => Reading::Foreign,
    }
}

fn first_piece(bytes: &[u8]) -> Option<(Piece, &[u8])> {
    let length = usize::try_from(u32_at(bytes, 4)?).ok()?;
    if u32_at(bytes, 0)? != MAGIC || length < PIECE_BYTES_MIN {
        return None;
    }
    let (piece, rest) = bytes.split_at_checked(length)?;
    let covered = length - CHECK_BYTES;
    if u64_at(piece, covered)? != xxh3_64(&piece[..covered]) {
        return None;
    }
    let said = Piece {
        run: u64_at(piece, 8)?,
        version: u64_at(piece, 16)?,
        after: u64_at(piece, 24)?,
        key: u32_at(piece, 32)?,
    };
    Some((said, rest))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}
