//! The formats of traces, by name.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Format of a trace, after decompression.
///
/// Without an override the first 64 KiB decide, by the first of these rules that holds:
///
/// 1. Bytes that no text has (control characters): [`OracleGeneral`](Self::OracleGeneral) if the
///    first records (up to 256) have times that never fall, sizes up to 1 GiB and a plausible
///    `next`; otherwise [`KeysU32`](Self::KeysU32) if there are at least 256 words of 4 bytes, a
///    twentieth of them are repeats, and nothing hints at another kind of file: a known magic
///    number, 32 equal words in a row, or records of 2 to 16 words with one that never changes.
/// 2. The first line is a header: [`MetaKv`](Self::MetaKv) with columns `key`, `op`, `op_count` and
///    `size`; [`Csv`](Self::Csv) with a key column and `size` or `value_size`.
/// 3. The first line has 3 to 7 columns and begins with a time: [`Csv`](Self::Csv) with three
///    columns or with an operation in the fourth of up to five; otherwise
///    [`Twitter`](Self::Twitter).
/// 4. No line has a comma or a blank: [`Keys`](Self::Keys).
///
/// Anything else is an error that says what was found. In all text formats blank lines are skipped,
/// lines may end in CR LF, and a line is at most 64 KiB long.
///
/// Times: requests carry seconds since the first request, fractions cut off; where a trace steps
/// back in time, the clock stands still. Formats without times leave it at 0.
///
/// Keys: a decimal number without leading zeros that fits 64 bits stands for itself, any other text
/// for its XXH3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TraceFormat {
    /// `time,object,size[,op[,ttl]]`, with a header that may order the columns otherwise and add
    /// more (known: `time`, `timestamp`; `object`, `key`, `id`, `obj_id`; `size`; `key_size`;
    /// `value_size`; `op`, `operation`; `ttl`), or without one. `size` is key and value together.
    /// Where it has `value_size`, `size` is not used; without that, `key_size` is not. No operation
    /// means GET.
    Csv,
    /// `timestamp,key,key size,value size,client,operation,TTL`, without a header: the cache traces
    /// of Twitter. The short forms are without client (6 columns), without client and TTL (5),
    /// without client, operation and TTL (4); `timestamp,key,size` (3) is a `csv` without a header.
    Twitter,
    /// The key-value cache traces of Meta: a header names the columns (`op_time`, `key`,
    /// `key_size`, `op`, `op_count`, `size`, `ttl`, others ignored). A row stands for `op_count`
    /// requests. `size` is the value's; 0 on a GET is a miss, whose size is unknown.
    MetaKv,
    /// The binary format of libCacheSim: records of 24 bytes, little-endian: `u32` time in seconds,
    /// `u64` object, `u32` size (key and value), `i64` number of the next request of the object
    /// (not used).
    OracleGeneral,
    /// Text, one key a line, all GETs. The size of objects comes from the options.
    Keys,
    /// Keys of 4 bytes, big-endian (what Java's `DataOutputStream` writes, as cache2k's traces),
    /// all GETs. The size of objects comes from the options.
    KeysU32,
}

impl TraceFormat {
    /// All formats, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Csv, Self::Twitter, Self::MetaKv, Self::OracleGeneral, Self::Keys, Self::KeysU32];

    /// The name by which [`FromStr`] knows the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Twitter => "twitter",
            Self::MetaKv => "meta-kv",
            Self::OracleGeneral => "oracle-general",
            Self::Keys => "keys",
            Self::KeysU32 => "keys-u32",
        }
    }

    /// The names of all formats, comma-separated.
    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            Error::usage(format!(
                "unknown trace format {}: known are {}",
                super::fault::shown(name.as_bytes()),
                Self::names()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for format in TraceFormat::ALL {
            assert_eq!(format.to_string().parse::<TraceFormat>().unwrap(), format);
        }
        let error = "excel".parse::<TraceFormat>().unwrap_err().to_string();
        assert!(error.contains("\"excel\"") && error.contains("oracle-general"), "{error}");
    }
}
