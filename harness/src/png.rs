//! Reads the header of a PNG file.

/// Signature, length and name of the header, width, height.
const HEADER_BYTES: usize = 24;

/// Width and height in pixels; `None` if this is not a PNG file.
pub(crate) fn dimensions(file: &[u8]) -> Option<(u32, u32)> {
    let header = file.get(..HEADER_BYTES)?;
    let is_png = header.starts_with(b"\x89PNG\r\n\x1a\n") && header.get(12..16)? == b"IHDR";
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    is_png.then_some((number(16)?, number(20)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_read() {
        let file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x05\0\0\0\x09\x60rest";
        assert_eq!(dimensions(file), Some((1280, 2400)));
        assert_eq!(dimensions(&file[..20]), None);
        assert_eq!(dimensions(b"<html>, which is no picture at all"), None);
    }
}
