//! The log of `dm-log-writes`, as `drivers/md/dm-log-writes.c` of Linux writes it: a super block, then entries, each a
//! header in a sector of its own with the data in the sectors behind it. All numbers are little-endian. A mark has its
//! text in the sector of its header; a discard has no data.

use std::io::{Read, Seek, SeekFrom};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of the fixed part of an entry's header.
const HEADER_BYTES: usize = 32;
/// No request of a block device is longer.
const DATA_BYTES_MAX: u64 = 1 << 30;

const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
const METADATA: u64 = 1 << 4;

/// What an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Data was written; a flush may have none.
    Written,
    Discarded,
    Marked,
}

/// An entry without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) what: What,
    /// Start on the logged device, and length, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Whether it was a flush, or was written with FUA.
    pub(crate) is_durable: bool,
    /// Text of a mark.
    pub(crate) text: String,
}

/// A log, read from start to end.
pub(crate) struct Log<R> {
    from: R,
    sector_bytes: u64,
    entries: u64,
    /// Number of the next entry, and its position in the log.
    next: u64,
    at: u64,
}

impl<R: Read + Seek> Log<R> {
    /// Reads and checks the super block.
    pub(crate) fn open(mut from: R) -> Result<Self, String> {
        let mut head = [0; 28];
        read(&mut from, 0, &mut head)?;
        let (magic, version, entries) = (number(&head, 0), number(&head, 8), number(&head, 16));
        let sector_bytes = number(&head, 20) >> 32;
        if magic != MAGIC {
            return Err(format!("magic {magic:#x}: no log of dm-log-writes begins so"));
        }
        if version != VERSION {
            return Err(format!("version {version}: {VERSION} is known"));
        }
        if !(512..=4096).contains(&sector_bytes) || !sector_bytes.is_power_of_two() {
            return Err(format!("sectors of {sector_bytes} bytes: 512 to 4096 are needed"));
        }
        Ok(Self { from, sector_bytes, entries, next: 0, at: sector_bytes })
    }

    /// Number of the next entry.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// The next entry, if there is one. Its data goes to `data`, which is left empty for an entry without data.
    pub(crate) fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Entry>, String> {
        data.clear();
        if self.next == self.entries {
            return Ok(None);
        }
        let told = |why: String| format!("entry {}: {why}", self.next);
        let mut sector = vec![0; usize::try_from(self.sector_bytes).unwrap_or(4096)];
        read(&mut self.from, self.at, &mut sector).map_err(told)?;
        let entry = self.entry(&sector).map_err(told)?;
        self.at += self.sector_bytes;
        if entry.what == What::Written {
            data.resize(usize::try_from(entry.bytes).map_err(|error| told(error.to_string()))?, 0);
            read(&mut self.from, self.at, data).map_err(told)?;
            self.at += entry.bytes;
        }
        self.next += 1;
        Ok(Some(entry))
    }

    fn entry(&self, sector: &[u8]) -> Result<Entry, String> {
        let [first, sectors, flags, text_bytes] = [0, 8, 16, 24].map(|at| number(sector, at));
        let unknown = flags & !(FLUSH | FUA | DISCARD | MARK | METADATA);
        if unknown != 0 {
            return Err(format!("flags {flags:#x}: {unknown:#x} are not known"));
        }
        let (offset, bytes) =
            (self.in_bytes(first, "sector")?, self.in_bytes(sectors, "nr_sectors")?);
        let what = match (flags & MARK != 0, flags & DISCARD != 0) {
            (true, _) => What::Marked,
            (_, true) => What::Discarded,
            _ => What::Written,
        };
        if what == What::Written && bytes > DATA_BYTES_MAX {
            return Err(format!("nr_sectors {sectors}: more than a request can have"));
        }
        let text = match usize::try_from(text_bytes)
            .ok()
            .and_then(|len| sector[HEADER_BYTES..].get(..len))
        {
            Some(text) if what == What::Marked => String::from_utf8_lossy(text).into_owned(),
            None if what == What::Marked => {
                return Err(format!("data_len {text_bytes}: a mark fits behind its header"));
            }
            _ => String::new(),
        };
        // The log driver does not make marks durable.
        let is_durable = what != What::Marked && flags & (FLUSH | FUA) != 0;
        Ok(Entry { what, offset, bytes, is_durable, text })
    }

    fn in_bytes(&self, sectors: u64, field: &str) -> Result<u64, String> {
        let bytes = sectors.checked_mul(self.sector_bytes).filter(|bytes| *bytes < 1 << 62);
        bytes.ok_or_else(|| format!("{field} {sectors}: no device is so large"))
    }
}

fn read(from: &mut (impl Read + Seek), at: u64, bytes: &mut [u8]) -> Result<(), String> {
    let read = from.seek(SeekFrom::Start(at)).and_then(|_| from.read_exact(bytes));
    read.map_err(|error| format!("{} bytes at {at}: {error}", bytes.len()))
}

/// The 8-byte number at `at`.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use super::*;

    pub(crate) const SECTOR: usize = 512;

    /// A log of these entries: sector, number of sectors, flags, and the data or the text.
    pub(crate) fn log(entries: &[(u64, u64, u64, &[u8])]) -> Vec<u8> {
        let mut log = vec![0; SECTOR];
        log[..8].copy_from_slice(&MAGIC.to_le_bytes());
        log[8] = 1;
        log[16..24].copy_from_slice(&(entries.len() as u64).to_le_bytes());
        log[25] = 2;
        for (sector, sectors, flags, data) in entries {
            let begin = log.len();
            let text_bytes = if flags & MARK != 0 { data.len() as u64 } else { 0 };
            for number in [*sector, *sectors, *flags, text_bytes] {
                log.extend(number.to_le_bytes());
            }
            if flags & MARK != 0 {
                log.extend(*data);
            }
            log.resize(begin + SECTOR, 0);
            if flags & (MARK | DISCARD) == 0 {
                log.extend(*data);
            }
        }
        log
    }

    fn error(log: Vec<u8>) -> String {
        let mut data = Vec::new();
        match Log::open(Cursor::new(log)) {
            Err(why) => why,
            Ok(mut log) => loop {
                match log.next(&mut data) {
                    Ok(Some(_)) => {}
                    Ok(None) => return "nothing".to_owned(),
                    Err(why) => return why,
                }
            },
        }
    }

    #[test]
    fn entries_are_read_in_their_order() {
        let data = [7; 2 * SECTOR];
        let bytes = log(&[
            (3, 2, FUA, &data),
            (0, 0, FLUSH, &[]),
            (8, 100, DISCARD, &[]),
            (0, 0, MARK, b"here"),
        ]);
        let mut log = Log::open(Cursor::new(bytes)).unwrap();
        let mut found = Vec::new();
        let first = log.next(&mut found).unwrap().unwrap();
        assert_eq!((first.what, first.offset, first.bytes), (What::Written, 1536, 1024));
        assert!(first.is_durable && found == data);
        let flush = log.next(&mut found).unwrap().unwrap();
        assert!(flush.is_durable && flush.bytes == 0 && found.is_empty());
        let discard = log.next(&mut found).unwrap().unwrap();
        assert_eq!(
            (discard.what, discard.bytes, discard.is_durable),
            (What::Discarded, 51_200, false)
        );
        assert_eq!(log.next(&mut found).unwrap().unwrap().text, "here");
        assert_eq!((log.next(&mut found), log.next_number()), (Ok(None), 4));
    }

    #[test]
    fn what_no_kernel_has_written_is_refused_and_says_which_field() {
        let data = [7; SECTOR];
        let good = log(&[(3, 1, 0, &data)]);
        assert_eq!(error(good.clone()), "nothing");
        let with = |at: usize, bytes: &[u8]| {
            let mut log = good.clone();
            log[at..at + bytes.len()].copy_from_slice(bytes);
            error(log)
        };
        for (said, part) in [
            (with(0, b"x"), "magic"),
            (with(8, &[9]), "version 9"),
            (with(24, &[1]), "sectors of 513"),
            (with(24, &[0; 4]), "sectors of 0"),
            (with(16, &[2]), "entry 1: 512 bytes at 1536"),
            (with(SECTOR, &[255; 8]), "entry 0: sector 18446744073709551615"),
            (with(SECTOR + 8, &[255; 7]), "entry 0: nr_sectors"),
            (with(SECTOR + 8, &[2]), "1024 bytes at 1024"),
            (with(SECTOR + 16, &[0x20]), "flags 0x20"),
            (error(log(&[(0, 0, MARK, &[65; 480])])), "nothing"),
            (error(good[..20].to_vec()), "28 bytes at 0"),
        ] {
            assert!(said.contains(part), "{said}, not {part}");
        }
        let mut mark = log(&[(0, 0, MARK, b"x")]);
        mark[SECTOR + 24..SECTOR + 26].copy_from_slice(&[0xe1, 1]);
        assert!(error(mark).contains("data_len 481"));
    }
}
