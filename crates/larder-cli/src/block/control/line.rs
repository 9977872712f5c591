//! Lines of a stream, with a limit on their length.

use std::io::{self, BufRead, Read};

/// The next line, without its end. `None` at the end of the stream, or if the stream ends in the middle of a line.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if the line is longer than `bytes_max` including its end; errors of the system.
pub(super) fn next(stream: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    stream.by_ref().take(most).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() + 1 >= bytes_max => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a line that is too long"))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_and_are_no_longer_than_they_may_be() {
        let mut stream: &[u8] = b"abc\n\nabcd\n";
        assert_eq!(next(&mut stream, 5).unwrap(), Some(b"abc".to_vec()));
        assert_eq!(next(&mut stream, 5).unwrap(), Some(Vec::new()));
        assert_eq!(next(&mut stream, 5).unwrap(), Some(b"abcd".to_vec()));
        assert_eq!(next(&mut stream, 5).unwrap(), None);
        let mut cut: &[u8] = b"abc";
        assert_eq!(next(&mut cut, 5).unwrap(), None);
        let mut long: &[u8] = b"abcde\n";
        assert_eq!(next(&mut long, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
