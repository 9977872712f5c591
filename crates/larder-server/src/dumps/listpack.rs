//! Listpacks: short collections as other servers dump them.
//!
//! ```text
//!   bytes (4), number of elements (2), elements, 255
//!   element: encoding and value, then the length of both, which is read from behind
//! ```

use super::reader::{Reader, signed};
use super::strings::Strings;
use super::wrong::Wrong;

const END: u8 = 255;
const HEADER_BYTES: usize = 6;

/// Adds the elements of a listpack.
pub(super) fn read(bytes: &[u8], out: &mut Strings) -> Result<(), Wrong> {
    let mut reader = Reader::new(bytes, usize::MAX);
    let total = u32::from_le_bytes(reader.array()?) as usize;
    let count = u16::from_le_bytes(reader.array()?);
    if total != bytes.len() {
        return Err(Wrong::Format);
    }
    let mut elements = 0_usize;
    loop {
        let begin = reader.left();
        let first = reader.byte()?;
        let number = match first {
            END => break,
            0..=0x7f => i64::from(first),
            0x80..=0xbf => {
                out.add(reader.take(usize::from(first & 0x3f))?)?;
                skip_length(&mut reader, begin)?;
                elements += 1;
                continue;
            }
            0xc0..=0xdf => {
                let value = i64::from(first & 0x1f) << 8 | i64::from(reader.byte()?);
                if value >= 1 << 12 { value - (1 << 13) } else { value }
            }
            0xe0..=0xf0 => {
                let length = match first {
                    0xf0 => u32::from_le_bytes(reader.array()?) as usize,
                    _ => usize::from(first & 0xf) << 8 | usize::from(reader.byte()?),
                };
                out.add(reader.take(length)?)?;
                skip_length(&mut reader, begin)?;
                elements += 1;
                continue;
            }
            0xf1 => signed(reader.take(2)?),
            0xf2 => signed(reader.take(3)?),
            0xf3 => signed(reader.take(4)?),
            0xf4 => signed(reader.take(8)?),
            _ => return Err(Wrong::Format),
        };
        out.add(number.to_string().as_bytes())?;
        skip_length(&mut reader, begin)?;
        elements += 1;
    }
    // The greatest number means that there are as many or more.
    let is_counted = count == u16::MAX || elements == usize::from(count);
    if !is_counted || reader.left() != 0 || bytes.len() < HEADER_BYTES {
        return Err(Wrong::Format);
    }
    Ok(())
}

/// Skips what says how long the element is that began when `begin` bytes were left.
fn skip_length(reader: &mut Reader<'_>, begin: usize) -> Result<(), Wrong> {
    let length = begin - reader.left();
    let bytes = match length {
        0..=0x7f => 1,
        0x80..=0x3ffe => 2,
        0x3fff..=0x1f_fffe => 3,
        0x1f_ffff..=0xfff_fffe => 4,
        _ => 5,
    };
    reader.take(bytes).map(|_| ())
}
