//! Values as `DUMP` of Redis gives them and `RESTORE` takes them: the RDB encoding of one value.
//!
//! ```text
//!   type (1), the value, version of the encoding (2), CRC-64 of all before (8)
//! ```
//!
//! What is written has the plain types, which all servers since Redis 5 read; a hash whose fields expire has the type
//! of Redis 7.4. What is read may be short encodings too (listpack, intset, quicklist, LZF). The bytes come from
//! clients: what they become takes no more memory than `bytes_max`.

mod listpack;
mod reader;
mod strings;
#[cfg(test)]
mod tests;
mod wrong;

use crc_fast::CrcAlgorithm;
use zerocopy::byteorder::big_endian::{
    U16 as BigEndianU16, U32 as BigEndianU32, U64 as BigEndianU64,
};

use self::reader::Reader;
pub(crate) use self::strings::Longest;
use self::strings::Strings;
pub(crate) use self::wrong::Wrong;
use crate::collections::{
    Damaged, Encoded, ExpiryMs, Hash, ItemKind, Kind, List, Set, Shape, SortedSet,
};

/// The version of what is written: Redis 5. A hash whose fields expire has that of Redis 7.4.
const VERSION: u16 = 9;
const VERSION_OF_TIMES: u16 = 12;
/// The newest version of Redis that is read, and that of Valkey 9.
const VERSION_MAX: u16 = 12;
const VERSION_OF_VALKEY: u16 = 80;
/// Version and checksum.
const FOOTER_BYTES: usize = 10;

const STRING: u8 = 0;
const LIST: u8 = 1;
const SET: u8 = 2;
const SORTED_SET_OF_TEXTS: u8 = 3;
const HASH: u8 = 4;
const SORTED_SET: u8 = 5;
const INTSET: u8 = 11;
const HASH_LISTPACK: u8 = 16;
const SORTED_SET_LISTPACK: u8 = 17;
const QUICKLIST: u8 = 18;
const SET_LISTPACK: u8 = 20;
const HASH_WITH_TIMES: u8 = 24;
const HASH_LISTPACK_WITH_TIMES: u8 = 25;

/// The dump of an item.
pub(crate) fn dump(kind: ItemKind, value: &[u8]) -> Result<Vec<u8>, Damaged> {
    let mut out = Vec::with_capacity(value.len() + 32);
    let mut version = VERSION;
    match kind {
        ItemKind::Unknown => return Err(Damaged),
        ItemKind::String => {
            out.push(STRING);
            append(&mut out, value);
        }
        ItemKind::Collection(Kind::List) => {
            let list = List::parse(value)?;
            begin(&mut out, LIST, list.len());
            list.iter().for_each(|element| append(&mut out, element));
        }
        ItemKind::Collection(Kind::Set) => {
            let set = Set::parse(value)?;
            begin(&mut out, SET, set.len());
            set.iter().for_each(|member| append(&mut out, member));
        }
        ItemKind::Collection(Kind::SortedSet) => {
            let set = SortedSet::parse(value)?;
            begin(&mut out, SORTED_SET, set.len());
            for (at, member) in set.members().enumerate() {
                append(&mut out, member);
                out.extend_from_slice(&set.at(at).1.to_le_bytes());
            }
        }
        ItemKind::Collection(Kind::Hash) => {
            let hash = Hash::parse(value)?;
            let first = (0..hash.len()).filter_map(|at| hash.expiry(at)).min();
            if let Some(first) = first {
                version = VERSION_OF_TIMES;
                out.push(HASH_WITH_TIMES);
                out.extend_from_slice(&first.to_le_bytes());
                append_length(&mut out, hash.len());
            } else {
                begin(&mut out, HASH, hash.len());
            }
            for at in 0..hash.len() {
                let (field, value) = hash.at(at);
                if let Some(first) = first {
                    // From the first on, counted from 1; 0: it does not expire.
                    let time = hash.expiry(at).map_or(0, |at| at - first + 1);
                    append_length(&mut out, usize::try_from(time).map_err(|_| Damaged)?);
                }
                append(&mut out, field);
                append(&mut out, value);
            }
        }
    }
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc_fast::checksum(CrcAlgorithm::Crc64Redis, &out);
    out.extend_from_slice(&sum.to_le_bytes());
    Ok(out)
}

fn begin(out: &mut Vec<u8>, kind: u8, members: usize) {
    out.push(kind);
    append_length(out, members);
}

fn append(out: &mut Vec<u8>, string: &[u8]) {
    append_length(out, string.len());
    out.extend_from_slice(string);
}

fn append_length(out: &mut Vec<u8>, length: usize) {
    match (u8::try_from(length), u16::try_from(length), u32::try_from(length)) {
        (Ok(length @ 0..=0x3f), ..) => out.push(length),
        (_, Ok(length @ 0..=0x3fff), _) => {
            out.extend_from_slice(&BigEndianU16::new(0x4000 | length).to_bytes())
        }
        (_, _, Ok(length)) => {
            out.push(0x80);
            out.extend_from_slice(&BigEndianU32::new(length).to_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&BigEndianU64::new(length as u64).to_bytes());
        }
    }
}

/// The item of a dump: what it is, and its bytes.
pub(crate) fn restore(dump: &[u8], longest: Longest) -> Result<(ItemKind, Vec<u8>), Wrong> {
    let (body, footer) = dump
        .len()
        .checked_sub(FOOTER_BYTES)
        .and_then(|at| dump.split_at_checked(at))
        .ok_or(Wrong::Version)?;
    let (version, sum) = footer.split_first_chunk::<2>().ok_or(Wrong::Version)?;
    let sum = u64::from_le_bytes(sum.try_into().map_err(|_| Wrong::Version)?);
    let summed = dump.get(..body.len() + 2).unwrap_or_default();
    // Some tools write no sum.
    let is_right = sum == 0 || sum == crc_fast::checksum(CrcAlgorithm::Crc64Redis, summed);
    let version = u16::from_le_bytes(*version);
    if version > VERSION_MAX && version != VERSION_OF_VALKEY || !is_right {
        return Err(Wrong::Version);
    }
    let (kind, rest) = body.split_first().ok_or(Wrong::Format)?;
    if *kind == STRING {
        let mut reader = Reader::new(rest, longest.string);
        let value = reader.string().map_err(|wrong| match wrong {
            Wrong::CollectionTooLong => Wrong::StringTooLong,
            other => other,
        })?;
        let value = value.into_owned();
        reader.ends()?;
        return Ok((ItemKind::String, value));
    }
    // Its encoding may be shorter here than in the dump.
    let bytes_max = longest.collection.max(dump.len());
    let mut reader = Reader::new(rest, bytes_max);
    let (kind, encoded) = collection(*kind, &mut reader, bytes_max)?;
    reader.ends()?;
    if encoded.is_empty() {
        return Err(Wrong::Format);
    }
    Ok((ItemKind::Collection(kind), encoded.into_bytes()))
}

fn collection(
    kind: u8,
    reader: &mut Reader<'_>,
    bytes_max: usize,
) -> Result<(Kind, Encoded), Wrong> {
    let mut strings = Strings::new(bytes_max);
    match kind {
        LIST | SET => reader.strings(1, &mut strings)?,
        HASH => reader.strings(2, &mut strings)?,
        SORTED_SET | SORTED_SET_OF_TEXTS => {
            let mut scores = Vec::new();
            for _ in 0..reader.length()? {
                strings.add(&reader.string()?)?;
                scores.push(if kind == SORTED_SET {
                    reader.double()?
                } else {
                    reader.text_double()?
                });
            }
            return Ok((Kind::SortedSet, sorted_set(strings.iter().zip(scores))?));
        }
        INTSET => reader.intset(&mut strings)?,
        QUICKLIST => quicklist(reader, &mut strings)?,
        HASH_LISTPACK | SET_LISTPACK | SORTED_SET_LISTPACK => {
            listpack::read(&reader.string()?, &mut strings)?;
        }
        HASH_WITH_TIMES => return hash_with_times(reader, strings),
        HASH_LISTPACK_WITH_TIMES => {
            reader.u64()?;
            listpack::read(&reader.string()?, &mut strings)?;
            return hash_of_triples(&strings);
        }
        _ => return Err(Wrong::Format),
    }
    let all: Vec<&[u8]> = strings.iter().collect();
    Ok(match kind {
        LIST | QUICKLIST => (Kind::List, List::empty().with(0..0, all.into_iter())),
        SET | INTSET | SET_LISTPACK => (Kind::Set, Set::empty().with(all)),
        HASH | HASH_LISTPACK => {
            let (pairs, rest) = all.as_chunks::<2>();
            let pairs: Vec<_> = pairs.iter().map(|[field, value]| (*field, Some(*value))).collect();
            if !rest.is_empty() {
                return Err(Wrong::Format);
            }
            (Kind::Hash, Hash::empty().with(&pairs))
        }
        _ => {
            let (pairs, rest) = all.as_chunks::<2>();
            let scored =
                pairs.iter().map(|[member, score]| Some((*member, reader::double_of(score)?)));
            let scored: Vec<_> = scored.collect::<Option<_>>().ok_or(Wrong::Format)?;
            if !rest.is_empty() {
                return Err(Wrong::Format);
            }
            (Kind::SortedSet, sorted_set(scored.into_iter())?)
        }
    })
}

/// A list in pieces.
fn quicklist(reader: &mut Reader<'_>, out: &mut Strings) -> Result<(), Wrong> {
    const PLAIN: usize = 1;
    const PACKED: usize = 2;
    for _ in 0..reader.length()? {
        match reader.length()? {
            PLAIN => out.add(&reader.string()?)?,
            PACKED => listpack::read(&reader.string()?, out)?,
            _ => return Err(Wrong::Format),
        }
    }
    Ok(())
}

fn sorted_set<'a>(scored: impl Iterator<Item = (&'a [u8], f64)>) -> Result<Encoded, Wrong> {
    let mut scored: Vec<_> = scored.map(|(member, score)| (member, Some(score))).collect();
    scored.sort_unstable_by_key(|(member, _)| *member);
    let is_double = scored.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0));
    if is_double || scored.iter().any(|(_, score)| score.is_some_and(f64::is_nan)) {
        return Err(Wrong::Format);
    }
    Ok(SortedSet::empty().with(scored))
}

fn hash_with_times(
    reader: &mut Reader<'_>,
    mut strings: Strings,
) -> Result<(Kind, Encoded), Wrong> {
    let first = reader.u64()?;
    let mut times = Vec::new();
    for _ in 0..reader.length()? {
        let time = reader.length()? as u64;
        let expires =
            time.checked_sub(1).map(|behind| first.checked_add(behind).ok_or(Wrong::Format));
        times.push(expires.transpose()?);
        strings.add(&reader.string()?)?;
        strings.add(&reader.string()?)?;
    }
    let all: Vec<&[u8]> = strings.iter().collect();
    let pairs = all.as_chunks::<2>().0;
    let fields = pairs.iter().zip(times).map(|([field, value], expires)| (*field, *value, expires));
    Ok((Kind::Hash, Hash::empty().with_fields(fields)))
}

fn hash_of_triples(strings: &Strings) -> Result<(Kind, Encoded), Wrong> {
    let all: Vec<&[u8]> = strings.iter().collect();
    let (triples, rest) = all.as_chunks::<3>();
    let mut fields = Vec::with_capacity(triples.len());
    for [field, value, time] in triples {
        let time = std::str::from_utf8(time).ok().and_then(|time| time.parse::<ExpiryMs>().ok());
        let time = time.ok_or(Wrong::Format)?;
        fields.push((*field, *value, Some(time).filter(|time| *time > 0)));
    }
    if !rest.is_empty() {
        return Err(Wrong::Format);
    }
    Ok((Kind::Hash, Hash::empty().with_fields(fields.into_iter())))
}
