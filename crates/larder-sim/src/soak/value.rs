//! Keys and values that identify themselves: any wrong or missing byte, or a value of another key, is noticed.

/// First bytes of every piece; no decimal number begins with them.
const MAGIC: [u8; 4] = *b"\xa5pc\x01";
/// Magic, key, piece, length.
const HEADER_BYTES: usize = 16;
/// A number consists of key, piece and count, from the top.
const KEY_SHIFT: u32 = 40;
const PIECE_SHIFT: u32 = 8;

/// The content of a value. No two writes of a run create the same piece, so a value shows which writes created it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Content {
    /// Pieces, in the order in which they were appended.
    Pieces(Vec<u32>),
    /// A decimal number, for counters.
    Number(u64),
}

/// The name of key number `key` in the cache.
pub(super) fn key_of(key: u32) -> Vec<u8> {
    format!("soak-{key:06}").into_bytes()
}

/// A piece of `bytes` bytes, but at least as long as its header.
pub(super) fn piece_of(key: u32, piece: u32, bytes: usize) -> Vec<u8> {
    let bytes = bytes.max(HEADER_BYTES);
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&key.to_le_bytes());
    out.extend_from_slice(&piece.to_le_bytes());
    out.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    out.resize(bytes, filler(key, piece));
    out
}

/// The number at which a counter created by the write of `piece` starts.
pub(super) fn first_number(key: u32, piece: u32) -> u64 {
    (u64::from(key) + 1) << KEY_SHIFT | u64::from(piece) << PIECE_SHIFT
}

/// The piece with which the counter started, if it was not changed since.
pub(super) fn first_piece(key: u32, number: u64) -> Option<u32> {
    let piece = u32::try_from(number >> PIECE_SHIFT & u64::from(u32::MAX)).ok()?;
    (first_number(key, piece) == number).then_some(piece)
}

/// Decodes `bytes`, which must be intact and belong to `key`.
pub(super) fn content_of(key: u32, bytes: &[u8]) -> Result<Content, String> {
    if bytes.first().is_some_and(u8::is_ascii_digit) {
        let text = str::from_utf8(bytes).map_err(|_| "a torn number".to_owned())?;
        let number: u64 = text.parse().map_err(|_| format!("a torn number: {text:?}"))?;
        return if number >> KEY_SHIFT == u64::from(key) + 1 {
            Ok(Content::Number(number))
        } else {
            Err(format!("a number of another key: {number:#x}"))
        };
    }
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = split_piece(key, rest)?;
        pieces.push(piece);
        rest = behind;
    }
    if pieces.is_empty() { Err("an empty value".to_owned()) } else { Ok(Content::Pieces(pieces)) }
}

fn split_piece(key: u32, bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
        word.map(|word| u32::from_le_bytes(*word)).ok_or_else(|| "a value cut short".to_owned())
    };
    let (found, piece, length) = (word(4)?, word(8)?, word(12)? as usize);
    if bytes[..4] != MAGIC {
        return Err("a value that no client wrote".to_owned());
    }
    if found != key {
        return Err(format!("a value of key {found}"));
    }
    let Some((whole, rest)) = bytes.split_at_checked(length).filter(|_| length >= HEADER_BYTES)
    else {
        return Err(format!("piece {piece} of {length} bytes, cut to {}", bytes.len()));
    };
    if whole[HEADER_BYTES..].iter().any(|&byte| byte != filler(key, piece)) {
        return Err(format!("a torn value: piece {piece}"));
    }
    Ok((piece, rest))
}

fn filler(key: u32, piece: u32) -> u8 {
    (key.wrapping_mul(31).wrapping_add(piece) % 251).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_matters() {
        let value = [piece_of(7, 1, 40), piece_of(7, 2, 0)].concat();
        assert_eq!(content_of(7, &value), Ok(Content::Pieces(vec![1, 2])));
        assert!(content_of(8, &value).is_err());
        for cut in (0..value.len()).filter(|&cut| cut != 40) {
            assert!(content_of(7, &value[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..value.len() {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert_ne!(content_of(7, &wrong), content_of(7, &value), "byte {at}");
        }
    }

    #[test]
    fn numbers_tell_their_key() {
        let number = first_number(3, 9) + 5;
        let text = number.to_string();
        assert_eq!(content_of(3, text.as_bytes()), Ok(Content::Number(number)));
        assert!(content_of(4, text.as_bytes()).is_err());
    }
}
