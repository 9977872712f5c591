//! Sectors that identify themselves: number and version at the start, followed by bytes derived from both and the seed.

/// Bytes of a sector, the unit of the shadow.
pub(super) const SECTOR_BYTES: usize = 512;

/// Fills the sectors from `first` on, all with one version. Version 0 is zeros.
pub(super) fn fill(seed: u64, first: u64, version: u64, data: &mut [u8]) {
    for (sector, bytes) in (first..).zip(data.chunks_exact_mut(SECTOR_BYTES)) {
        if version == 0 {
            bytes.fill(0);
            continue;
        }
        for (word, place) in words(seed, sector, version).zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The version of a sector; the error describes the content.
pub(super) fn version_of(seed: u64, sector: u64, bytes: &[u8]) -> Result<u64, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let mut found = bytes
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)));
    let (version, of) = (found.next().unwrap_or(0), found.next().unwrap_or(0));
    if version == 0 || of != sector {
        return Err(format!("what says it is version {version} of sector {of}"));
    }
    match words(seed, sector, version).skip(2).zip(found).position(|(due, is)| due != is) {
        None => Ok(version),
        Some(at) => {
            Err(format!("version {version} up to byte {}, other bytes from there", 16 + 8 * at))
        }
    }
}

fn words(seed: u64, sector: u64, version: u64) -> impl Iterator<Item = u64> {
    let mut state = seed ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.rotate_left(32);
    let rest = std::iter::repeat_with(move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 32
    });
    [version, sector].into_iter().chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_says_whose_it_is_and_no_byte_may_differ() {
        let mut data = vec![7; 2 * SECTOR_BYTES];
        fill(5, 40, 9, &mut data);
        let second = &data[SECTOR_BYTES..];
        assert_eq!(version_of(5, 41, second), Ok(9));
        assert!(version_of(5, 40, second).unwrap_err().contains("of sector 41"));
        assert!(version_of(6, 41, second).unwrap_err().contains("other bytes from there"));
        for at in 0..SECTOR_BYTES {
            let mut torn = second.to_vec();
            torn[at] ^= 1;
            assert!(version_of(5, 41, &torn).is_err(), "byte {at}");
        }
        fill(5, 40, 0, &mut data);
        assert_eq!(version_of(5, 40, &data[..SECTOR_BYTES]), Ok(0));
    }
}
