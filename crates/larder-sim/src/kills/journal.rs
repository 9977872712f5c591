//! Operations that a victim began and their answers, in files that survive it.
//!
//! A record is written with one call and does not cross a page of the file, so a kill leaves it complete or absent. A
//! record at the end that fails its check counts as absent.
//!
//! ```text
//!  offset  bytes  field of a record of 64 bytes
//!       0      1  moment          16      8  version
//!       1      1  verb            24      8  seen
//!       2      1  answer          32      8  time: nanoseconds since 1970
//!       3      5  zeros           40      4  seconds to live, or bytes of a sample
//!       8      4  key             44     12  zeros
//!      12      4  zeros           56      8  XXH3 of bytes 0 to 56
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use super::value::{u32_at, u64_at};

const RECORD_BYTES: usize = 64;
const COVERED_BYTES: usize = 56;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant,)*];

            fn code(self) -> u8 {
                // By its position in the list.
                let place = Self::ALL.iter().position(|it| *it == self);
                place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
            }

            fn of(code: u8) -> Option<Self> {
                Self::ALL.get(usize::from(code)).copied()
            }
        }
    };
}

codes! {
    /// Whether an operation begins or has ended.
    Moment { Begin, End, Note, }
}

codes! {
    /// The kind of operation.
    Verb {
        Get, Set, Delete, Add, Cas, Touch, Append,
        /// The observer found this key on flash.
        Sample,
        /// The observer read the number of large objects on flash, stored in `version`.
        Stats,
    }
}

codes! {
    /// The result of an operation.
    Answer {
        None,
        /// There is no value.
        Miss,
        /// There is an intact value: `seen` is its version.
        Seen,
        Torn,
        Foreign,
        /// Done, independent of the previous value.
        Done,
        Yes,
        No,
        /// An error.
        Refused,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) moment: Moment,
    pub(super) verb: Verb,
    pub(super) answer: Answer,
    pub(super) key: u32,
    /// The version that it stores.
    pub(super) version: u64,
    /// The version that it read, or that it requires.
    pub(super) seen: u64,
    pub(super) time_ns: u64,
    /// Time to live in seconds (0 means forever), or bytes of a sample.
    pub(super) number: u32,
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[0] = self.moment.code();
        out[1] = self.verb.code();
        out[2] = self.answer.code();
        out[8..12].copy_from_slice(&self.key.to_le_bytes());
        out[16..24].copy_from_slice(&self.version.to_le_bytes());
        out[24..32].copy_from_slice(&self.seen.to_le_bytes());
        out[32..40].copy_from_slice(&self.time_ns.to_le_bytes());
        out[40..44].copy_from_slice(&self.number.to_le_bytes());
        let check = xxh3_64(&out[..COVERED_BYTES]);
        out[COVERED_BYTES..].copy_from_slice(&check.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if u64_at(bytes, COVERED_BYTES)? != xxh3_64(bytes.get(..COVERED_BYTES)?) {
            return None;
        }
        Some(Self {
            moment: Moment::of(bytes[0])?,
            verb: Verb::of(bytes[1])?,
            answer: Answer::of(bytes[2])?,
            key: u32_at(bytes, 8)?,
            version: u64_at(bytes, 16)?,
            seen: u64_at(bytes, 24)?,
            time_ns: u64_at(bytes, 32)?,
            number: u32_at(bytes, 40)?,
        })
    }
}

/// Writes the journal of one thread.
pub(super) struct Writer(File);

impl Writer {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        File::create(path).map(Self)
    }

    /// Writes a record; when this returns it survives the process.
    pub(super) fn write(&mut self, record: &Record) -> io::Result<()> {
        self.0.write_all(&record.encode())
    }
}

/// Reads all records of a journal. A missing journal has none.
pub(super) fn read(path: &Path) -> Result<Vec<Record>, String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(format!("cannot read {}: {cause}", path.display())),
    };
    let records: Vec<_> = bytes.chunks(RECORD_BYTES).map_while(Record::decode).collect();
    // Only the last record can be cut off.
    if records.len() + 1 < bytes.len().div_ceil(RECORD_BYTES) {
        let (path, at) = (path.display(), records.len());
        return Err(format!("the journal {path} is damaged at record {at}: the disk is not sound"));
    }
    Ok(records)
}

/// Nanoseconds since 1970, by the clock that the cache uses.
pub(super) fn now_ns() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
