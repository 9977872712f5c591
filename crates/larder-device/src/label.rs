//! What Larder's formats begin with on a device: enough to tell a file of ours from one of another
//! program before anything of it is changed. What follows the mark is for `larder` to read.

/// Bytes of a mark.
const MARK_BYTES: usize = 8;

/// The superblock of a cache that has a device, or a part of one, for itself.
pub const SUPERBLOCK_MARK: [u8; MARK_BYTES] = *b"LARDERSB";

/// The table of the parts that a device is divided into.
pub const PARTITION_TABLE_MARK: [u8; MARK_BYTES] = *b"LARDERPT";

/// The blocks that may begin with a mark: the second is the table's copy.
const MARKED_AT: [usize; 2] = [0, 4096];

/// How far into a device to look before taking it for blank: file systems and volume managers leave
/// their marks within the first 64 KiB or just behind, and often not in the first block.
pub const FRONT_BYTES: u64 = 128 << 10;

/// Bits of a mark that may have flipped: fewer than half of what tells the marks apart. Bytes of another
/// program come that close to a mark once in 10^16 times.
const FLIPPED_BITS_MAX: u32 = 2;

/// Whether `block` begins with `mark`, but for a few flipped bits.
pub fn begins_nearly_with(block: &[u8], mark: [u8; MARK_BYTES]) -> bool {
    let Some(found) = block.first_chunk::<MARK_BYTES>() else { return false };
    let flipped: u32 = found.iter().zip(mark).map(|(a, b)| (a ^ b).count_ones()).sum();
    flipped <= FLIPPED_BITS_MAX
}

/// Whether the front of a device shows nothing of another program: it is all zeros, or has a mark of
/// ours, a damaged one too.
pub fn is_blank_or_ours(front: &[u8]) -> bool {
    let marks = [SUPERBLOCK_MARK, PARTITION_TABLE_MARK];
    front.iter().all(|&byte| byte == 0)
        || MARKED_AT.iter().any(|&at| {
            let block = front.get(at..).unwrap_or_default();
            marks.iter().any(|&mark| begins_nearly_with(block, mark))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_told_from_others() {
        assert!(is_blank_or_ours(&[]) && is_blank_or_ours(&[0; 10_000]));
        assert!(!is_blank_or_ours(b"\x7fELF") && !is_blank_or_ours(&[7; 10_000]));
        assert!(is_blank_or_ours(b"LARDERSB and more") && !is_blank_or_ours(b"LARDER"));
        let mut second = vec![7; 8192];
        second[4096..4104].copy_from_slice(&PARTITION_TABLE_MARK);
        assert!(is_blank_or_ours(&second), "the copy of a table");
    }

    #[test]
    fn flipped_bits_do_not_make_a_mark_another_programs() {
        for bit in 0..64 {
            let mut mark = SUPERBLOCK_MARK;
            mark[bit / 8] ^= 1 << (bit % 8);
            assert!(begins_nearly_with(&mark, SUPERBLOCK_MARK));
            assert!(!begins_nearly_with(&mark, PARTITION_TABLE_MARK));
        }
        assert!(!begins_nearly_with(b"LARDERXX", SUPERBLOCK_MARK), "six bits");
    }
}
