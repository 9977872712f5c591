//! Operations on a log.

use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

use super::log::{Log, What};

/// Longer runs of zeros are written in pieces.
const ZEROS_BYTES: usize = 1 << 20;

/// Numbers of the entries that follow durable ones, `count` of them evenly spread; the last is the end of the log.
pub(crate) fn points(log: &mut Log<impl Read + Seek>, count: u64) -> Result<Vec<u64>, String> {
    let (mut all, mut data) = (Vec::new(), Vec::new());
    while let Some(entry) = log.next(&mut data)? {
        if entry.is_durable {
            all.push(log.next_number());
        }
    }
    if all.last() != Some(&log.next_number()) {
        all.push(log.next_number());
    }
    let last = all.len() - 1;
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(all.len());
    // Counted from the end, so that the last of the `count` points is always the end of the log.
    Ok((1..=count).map(|n| all[last - (count - n) * all.len() / count]).collect())
}

/// The marks, each behind the number of the entry that follows it.
pub(crate) fn marks(log: &mut Log<impl Read + Seek>) -> Result<Vec<String>, String> {
    let (mut marks, mut data) = (Vec::new(), Vec::new());
    while let Some(entry) = log.next(&mut data)? {
        if entry.what == What::Marked {
            marks.push(format!("{} {}", log.next_number(), entry.text));
        }
    }
    Ok(marks)
}

/// Does to `image` what these entries did to the device. Returns the marks among them.
pub(crate) fn replay(
    log: &mut Log<impl Read + Seek>,
    image: &mut (impl Seek + Write),
    entries: Range<u64>,
) -> Result<Vec<String>, String> {
    let end = image.seek(SeekFrom::End(0)).map_err(|error| format!("the image: {error}"))?;
    let (mut marks, mut data) = (Vec::new(), Vec::new());
    while log.next_number() < entries.end {
        let number = log.next_number();
        let Some(entry) = log.next(&mut data)? else {
            return Err(format!("--to {}: the log has {number} entries", entries.end));
        };
        if number < entries.start {
            continue;
        }
        if entry.what != What::Marked && entry.offset + entry.bytes > end {
            return Err(format!(
                "entry {number}: {} bytes at {}, and the image has {end}",
                entry.bytes, entry.offset
            ));
        }
        let told = |error| format!("entry {number}: the image: {error}");
        match entry.what {
            What::Marked => marks.push(entry.text),
            What::Written => write(image, entry.offset, &data).map_err(told)?,
            What::Discarded => discard(image, entry.offset, entry.bytes).map_err(told)?,
        }
    }
    Ok(marks)
}

fn write(image: &mut (impl Seek + Write), offset: u64, data: &[u8]) -> std::io::Result<()> {
    image.seek(SeekFrom::Start(offset))?;
    image.write_all(data)
}

/// After a discard the device may return zeros or anything else; here it is zeros.
fn discard(image: &mut (impl Seek + Write), offset: u64, bytes: u64) -> std::io::Result<()> {
    image.seek(SeekFrom::Start(offset))?;
    let zeros = vec![0; ZEROS_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES);
        image.write_all(&zeros[..now])?;
        left -= now as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::log::tests::{SECTOR, log};
    use super::*;

    fn opened() -> Log<Cursor<Vec<u8>>> {
        let (a, b) = ([1; SECTOR], [2; SECTOR]);
        let bytes = log(&[
            (0, 1, 0, &a),
            (0, 0, 8, b"one"),
            (2, 1, 2, &b),
            (0, 0, 1, &[]),
            (2, 1, 4, &[]),
            (0, 0, 8, b"two"),
            (1, 1, 2, &b),
            (3, 1, 0, &a),
        ]);
        Log::open(Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn points_are_behind_what_was_to_be_durable_and_the_last_is_the_end() {
        assert_eq!(points(&mut opened(), 9), Ok(vec![3, 4, 7, 8]));
        assert_eq!(points(&mut opened(), 2), Ok(vec![4, 8]));
        assert_eq!(points(&mut opened(), 1), Ok(vec![8]));
    }

    #[test]
    fn marks_are_behind_the_number_to_replay_to() {
        assert_eq!(marks(&mut opened()), Ok(vec!["2 one".to_owned(), "6 two".to_owned()]));
        let mut image = Cursor::new(vec![0; 4 * SECTOR]);
        assert_eq!(replay(&mut opened(), &mut image, 2..6), Ok(vec!["two".to_owned()]));
    }

    #[test]
    fn an_image_is_what_the_entries_before_a_point_have_made_of_it() {
        let mut image = Cursor::new(vec![9; 4 * SECTOR]);
        let first = |image: &Cursor<Vec<u8>>| {
            image.get_ref().iter().step_by(SECTOR).copied().collect::<Vec<u8>>()
        };
        assert_eq!(replay(&mut opened(), &mut image, 0..4), Ok(vec!["one".to_owned()]));
        assert_eq!(first(&image), [1, 9, 2, 9]);
        assert_eq!(replay(&mut opened(), &mut image, 4..8), Ok(vec!["two".to_owned()]));
        assert_eq!(first(&image), [1, 2, 0, 1]);
        let behind = replay(&mut opened(), &mut image, 0..9).unwrap_err();
        assert!(behind.contains("--to 9: the log has 8"), "{behind}");
        let mut short = Cursor::new(vec![9; 3 * SECTOR]);
        let outside = replay(&mut opened(), &mut short, 0..8).unwrap_err();
        assert!(
            outside.contains("entry 7: 512 bytes at 1536, and the image has 1536"),
            "{outside}"
        );
    }
}
