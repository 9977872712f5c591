//! Redis' protocol, versions 2 and 3. For strings they differ only in the requests that open a connection, and in the
//! null reply.

use std::io::Write;

use super::line::{line_at, number};
use super::reply::{ExpectedReply, Hits, ProtocolViolation, Reply, Step};
use crate::value::{Values, key_bytes, put_key};
use crate::workload::KeyRequest;

pub(super) fn open(version: u8, login: Option<&(String, String)>, out: &mut Vec<u8>) -> usize {
    let mut words: Vec<String> = Vec::new();
    match (version, login) {
        (2, None) => return 0,
        (2, Some((user, password))) => {
            words.extend(["AUTH".to_owned(), user.clone(), password.clone()]);
        }
        (_, login) => {
            words.extend(["HELLO".to_owned(), version.to_string()]);
            if let Some((user, password)) = login {
                words.extend(["AUTH".to_owned(), user.clone(), password.clone()]);
            }
        }
    }
    array(words.len(), out);
    words.iter().for_each(|word| bulk(word.as_bytes(), out));
    1
}

pub(super) fn get(asks: &[KeyRequest], out: &mut Vec<u8>) {
    array(asks.len() + 1, out);
    bulk(if asks.len() == 1 { b"GET" } else { b"MGET" }, out);
    asks.iter().for_each(|ask| key(ask, out));
}

pub(super) fn set(ask: &KeyRequest, (values, version): (&Values, u32), out: &mut Vec<u8>) {
    array(if ask.ttl_s == 0 { 3 } else { 5 }, out);
    bulk(b"SET", out);
    key(ask, out);
    write!(out, "${}\r\n", ask.value_bytes).expect("memory takes it");
    values.put(ask.key, ask.value_bytes, version, out);
    out.extend_from_slice(b"\r\n");
    if ask.ttl_s > 0 {
        bulk(b"EX", out);
        bulk(ask.ttl_s.to_string().as_bytes(), out);
    }
}

pub(super) fn delete(ask: &KeyRequest, out: &mut Vec<u8>) {
    array(2, out);
    bulk(b"DEL", out);
    key(ask, out);
}

fn array(words: usize, out: &mut Vec<u8>) {
    write!(out, "*{words}\r\n").expect("memory takes it");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    write!(out, "${}\r\n", bytes.len()).expect("memory takes it");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn key(ask: &KeyRequest, out: &mut Vec<u8>) {
    write!(out, "${}\r\n", key_bytes(ask.key, ask.key_bytes)).expect("memory takes it");
    put_key(ask.key, ask.key_bytes, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn reply(
    bytes: &[u8],
    asked: ExpectedReply,
    hits: &mut Hits<'_>,
) -> Result<Step, ProtocolViolation> {
    let Some((line, behind)) = line_at(bytes, 0)? else {
        return Ok(Step::Needs(bytes.len() + 1));
    };
    let mut reply = Reply { bytes: behind, ..Reply::default() };
    match (line.first(), asked) {
        (Some(b'-'), _) => reply.refused = true,
        (Some(b'+'), ExpectedReply::Set | ExpectedReply::Hello)
        | (Some(b':'), ExpectedReply::Delete) => {}
        (Some(b'$' | b'_'), ExpectedReply::Get(1)) => return string(bytes, 0, 0, reply, hits),
        (Some(b'*'), ExpectedReply::Get(keys)) => {
            if number(line.get(1..).unwrap_or_default()) != Some(keys as usize) {
                return Err(ProtocolViolation::at(line));
            }
            for key in 0..keys as usize {
                match string(bytes, reply.bytes, key, reply, hits)? {
                    Step::Whole(with) => reply = with,
                    needs @ Step::Needs(_) => return Ok(needs),
                }
            }
        }
        (Some(b'%' | b'*'), ExpectedReply::Hello) => return skip(bytes, reply),
        _ => return Err(ProtocolViolation::at(line)),
    }
    Ok(Step::Whole(reply))
}

/// The bulk string that begins at `at`, which is the value of one of the keys.
fn string(
    bytes: &[u8],
    at: usize,
    key: usize,
    mut reply: Reply,
    hits: &mut Hits<'_>,
) -> Result<Step, ProtocolViolation> {
    let Some((line, behind)) = line_at(bytes, at)? else {
        return Ok(Step::Needs(bytes.len() + 1));
    };
    reply.bytes = behind;
    if line == b"$-1" || line == b"_" {
        return Ok(Step::Whole(reply));
    }
    let length = line.strip_prefix(b"$").and_then(number);
    let end = length.and_then(|length| behind.checked_add(length)?.checked_add(2));
    let Some(end) = end else { return Err(ProtocolViolation::at(line)) };
    let Some(value) = bytes.get(behind..end) else { return Ok(Step::Needs(end)) };
    let right = hits.at(key, value.strip_suffix(b"\r\n").unwrap_or(value));
    reply.hits += 1;
    reply.wrong += u32::from(right != Some(true));
    reply.bytes = end;
    Ok(Step::Whole(reply))
}

/// Skips the answer to HELLO, a map.
fn skip(bytes: &[u8], mut reply: Reply) -> Result<Step, ProtocolViolation> {
    let mut left: usize = 1;
    let mut at = 0;
    while left > 0 {
        let Some((line, behind)) = line_at(bytes, at)? else {
            return Ok(Step::Needs(bytes.len() + 1));
        };
        (at, left) = (behind, left - 1);
        let count = number(line.get(1..).unwrap_or_default());
        match (line.first(), count) {
            (Some(b'%'), Some(pairs)) if pairs <= 64 => left += 2 * pairs,
            (Some(b'*'), Some(items)) if items <= 64 => left += items,
            (Some(b'$'), Some(length)) if length <= 4096 => at += length + 2,
            (Some(b'+' | b':' | b'_' | b'#' | b','), _) => {}
            _ => return Err(ProtocolViolation::at(line)),
        }
    }
    if at > bytes.len() {
        return Ok(Step::Needs(at));
    }
    reply.bytes = at;
    Ok(Step::Whole(reply))
}
