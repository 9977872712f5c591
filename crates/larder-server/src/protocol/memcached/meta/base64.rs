//! Base64, for keys that are not text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes `text`; `None` if it is not padded base64, or empty.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len() - padding)?;
    if text.is_empty() || !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | value(*digit)?;
        }
        let missing = 4 - group.len();
        bits <<= 6 * missing;
        let bytes = [16, 8, 0].map(|shift| u8::try_from(bits >> shift & 0xff).unwrap_or(0));
        decoded.extend_from_slice(bytes.get(..3 - missing)?);
    }
    Some(decoded)
}

/// Appends `bytes` in base64.
pub(super) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let shifted = group.iter().zip([16, 8, 0]).map(|(byte, shift)| u32::from(*byte) << shift);
        let bits: u32 = shifted.sum();
        for digit in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or(0);
            let is_padding = digit > group.len();
            out.push(if is_padding { b'=' } else { ALPHABET.get(index).copied().unwrap_or(b'=') });
        }
    }
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        let pairs = [("TQ==", "M"), ("TWE=", "Ma"), ("TWFu", "Man"), ("44OG44K544OI", "テスト")];
        for (text, plain) in pairs {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(plain.as_bytes()), "{text}");
            let mut encoded = Vec::new();
            append(&mut encoded, plain.as_bytes());
            assert_eq!(String::from_utf8(encoded).unwrap(), text);
        }
        let all: Vec<u8> = (0..=255).collect();
        let mut encoded = Vec::new();
        append(&mut encoded, &all);
        assert_eq!(decode(&encoded), Some(all));
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["", "T", "TQ", "TQ=", "TQ===", "====", "T=Q=", "T*Q=", "TQ==TQ=="] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
