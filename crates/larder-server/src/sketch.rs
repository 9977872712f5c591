//! Sketches of sets: HyperLogLog, in the bytes that Redis has for it. Pure: bytes in, bytes out.
//!
//! ```text
//!   header   "HYLL", encoding (1): 0 dense, 1 sparse; zeros (3), the last count (8), whose highest bit says "unknown"
//!   dense    16,384 registers of 6 bits, the lowest bits first
//!   sparse   00xxxxxx: x + 1 registers that are 0;  01xxxxxx yyyyyyyy: xy + 1 of them
//!            1vvvvvxx: x + 1 registers that are v + 1
//! ```
//!
//! A register has the longest run of zeros, and one more, of the hashes that belong to it.

use std::fmt;

/// Bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that are left for the run of zeros.
const RUN_BITS: u32 = 64 - INDEX_BITS;
const HEADER: &[u8; 4] = b"HYLL";
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
/// A longer sparse sketch becomes dense, as does one with a register above the next constant.
const SPARSE_BYTES_MAX: usize = 3000;
const SPARSE_VALUE_MAX: u8 = 32;
/// The seed of the hash.
const SEED: u64 = 0xadc8_3b19;

/// Why bytes are no sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSketch {
    /// They do not begin as one.
    Other,
    /// They begin as one.
    Damaged,
}

/// The registers of a sketch.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sketch {
    registers: Box<[u8]>,
    is_dense: bool,
}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sketch").field("is_dense", &self.is_dense).finish_non_exhaustive()
    }
}

impl Sketch {
    /// A sketch of no member.
    pub(crate) fn empty() -> Self {
        Self { registers: vec![0; REGISTERS].into_boxed_slice(), is_dense: false }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, NoSketch> {
        let (header, data) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(NoSketch::Other)?;
        if !header.starts_with(HEADER) {
            return Err(NoSketch::Other);
        }
        let mut sketch = Self::empty();
        match header[4] {
            0 if bytes.len() == DENSE_BYTES => {
                sketch.is_dense = true;
                let chunks = data.as_chunks::<3>().0;
                for (registers, chunk) in sketch.registers.chunks_mut(4).zip(chunks) {
                    let mut bits = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], 0]);
                    for register in registers {
                        *register = u8::try_from(bits & 63).unwrap_or(0);
                        bits >>= 6;
                    }
                }
            }
            1 => sketch.read_sparse(data).ok_or(NoSketch::Damaged)?,
            _ => return Err(NoSketch::Other),
        }
        Ok(sketch)
    }

    fn read_sparse(&mut self, mut data: &[u8]) -> Option<()> {
        let mut at = 0;
        while let Some((first, rest)) = data.split_first() {
            data = rest;
            let (count, value) = match first {
                0..=0x3f => (usize::from(*first) + 1, 0),
                0x40..=0x7f => {
                    let (second, rest) = data.split_first()?;
                    data = rest;
                    (usize::from(first & 0x3f) << 8 | usize::from(*second), 0)
                }
                _ => (usize::from(first & 3) + 1, (first >> 2 & 31) + 1),
            };
            let count = if (0x40..0x80).contains(first) { count + 1 } else { count };
            self.registers.get_mut(at..at + count)?.fill(value);
            at += count;
        }
        (at == REGISTERS).then_some(())
    }

    /// Adds a member. Returns whether that has changed something.
    pub(crate) fn add(&mut self, member: &[u8]) -> bool {
        let hash = murmur(member);
        let index = usize::try_from(hash & (REGISTERS as u64 - 1)).unwrap_or(0);
        // The bit behind the last ends each run.
        let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
        let run = u8::try_from(rest.trailing_zeros() + 1).unwrap_or(0);
        match self.registers.get_mut(index) {
            Some(register) if *register < run => {
                *register = run;
                true
            }
            _ => false,
        }
    }

    /// Adds the members of another sketch.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.is_dense |= other.is_dense;
        for (register, other) in self.registers.iter_mut().zip(&other.registers) {
            *register = (*register).max(*other);
        }
    }

    /// About how many members were added: the estimate of Ertl's "New cardinality estimation algorithms for HyperLogLog
    /// sketches".
    pub(crate) fn count(&self) -> u64 {
        let mut histogram = [0_u32; 64];
        for register in &self.registers {
            histogram[usize::from(register & 63)] += 1;
        }
        let all = REGISTERS as f64;
        let last = histogram[RUN_BITS as usize + 1];
        let mut sum = all * tau((all - f64::from(last)) / all);
        for number in histogram[1..=RUN_BITS as usize].iter().rev() {
            sum = 0.5 * (sum + f64::from(*number));
        }
        sum += all * sigma(f64::from(histogram[0]) / all);
        let estimate = 0.721_347_520_444_481_7 * all * all / sum;
        number_of(estimate.round())
    }

    /// Its bytes, without a count.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(HEADER);
        bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]);
        if !self.is_dense && self.write_sparse(&mut bytes) {
            return bytes;
        }
        bytes.truncate(HEADER_BYTES);
        bytes[4] = 0;
        for registers in self.registers.chunks(4) {
            let bits = registers.iter().rev().fold(0_u32, |bits, it| bits << 6 | u32::from(*it));
            bytes.extend_from_slice(&bits.to_le_bytes()[..3]);
        }
        bytes
    }

    /// Writes the runs of equal registers. `false`: they need the dense form.
    fn write_sparse(&self, bytes: &mut Vec<u8>) -> bool {
        for run in self.registers.chunk_by(|one, other| one == other) {
            let value = run[0];
            let mut left = run.len();
            if value > SPARSE_VALUE_MAX {
                return false;
            }
            while left > 0 {
                let most = match (value, left) {
                    (0, ..=64) => 64,
                    (0, _) => REGISTERS,
                    _ => 4,
                };
                let count = left.min(most);
                let short = u16::try_from(count - 1).unwrap_or(0).to_le_bytes();
                match (value, most) {
                    (0, 64) => bytes.push(short[0]),
                    (0, _) => bytes.extend_from_slice(&[0x40 | short[1], short[0]]),
                    _ => bytes.push(0x80 | (value - 1) << 2 | short[0]),
                }
                left -= count;
            }
            if bytes.len() > SPARSE_BYTES_MAX + HEADER_BYTES {
                return false;
            }
        }
        true
    }
}

/// A whole number that is not negative.
fn number_of(whole: f64) -> u64 {
    // A sketch whose registers are all full has no finite estimate.
    if whole.is_finite() { format!("{whole:.0}").parse().unwrap_or(u64::MAX) } else { u64::MAX }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

/// MurmurHash64A.
fn murmur(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 47;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_about() {
        let mut sketch = Sketch::empty();
        assert_eq!(sketch.count(), 0);
        let mut bytes = Vec::new();
        for number in 1_u64..=100_000 {
            sketch.add(format!("member:{number}").as_bytes());
            if number.is_power_of_two() || number == 100_000 {
                let off = sketch.count().abs_diff(number) as f64 / number as f64;
                assert!(off < 0.03, "{} instead of {number}", sketch.count());
                bytes = sketch.clone().into_bytes();
                let read = Sketch::parse(&bytes).unwrap();
                assert_eq!(read.registers, sketch.registers);
                assert_eq!(bytes[4] == 0, read.is_dense);
            }
        }
        assert_eq!(bytes.len(), DENSE_BYTES);
        assert!(!sketch.add(b"member:77"));
    }

    #[test]
    fn a_sketch_is_sparse_while_it_is_short() {
        let mut sketch = Sketch::empty();
        let empty = sketch.clone().into_bytes();
        assert_eq!(&empty[..], b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff");
        sketch.add(b"a");
        assert!(sketch.clone().into_bytes().len() < 32);
        let mut other = Sketch::empty();
        other.add(b"b");
        sketch.merge(&other);
        assert_eq!(sketch.count(), 2);
    }

    #[test]
    fn what_is_no_sketch_is_refused() {
        let other = [&b""[..], b"HYLL", b"XYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff", &[0; 100]];
        for bytes in other {
            assert_eq!(Sketch::parse(bytes), Err(NoSketch::Other));
        }
        let head = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80";
        for data in [&b""[..], b"\x7f", b"\x7f\xfe", b"\x7f\xff\x00", b"\x7f\xff\x7f"] {
            let bytes = [&head[..], data].concat();
            assert_eq!(Sketch::parse(&bytes), Err(NoSketch::Damaged), "{data:?}");
        }
        let mut dense = head.to_vec();
        dense[4] = 0;
        dense.resize(DENSE_BYTES - 1, 0);
        assert_eq!(Sketch::parse(&dense), Err(NoSketch::Other));
        dense.resize(DENSE_BYTES, 0xff);
        // Registers beyond what a hash can have.
        Sketch::parse(&dense).unwrap().count();
    }
}
