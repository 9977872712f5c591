//! The order in which a collection is walked over, page by page.

/// A place in a walk over the members of a hash or a set: 1 or more, and the same wherever else members come and go.
/// It has 48 bits, which every client can keep in a number.
pub(crate) fn place_in_walk(member: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ member.len() as u64;
    for chunk in member.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    (hash.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16).max(1)
}
