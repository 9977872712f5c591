//! memcached's classic text protocol.

use std::io::Write;

use super::line::{is_error, line_at, number};
use super::reply::{ExpectedReply, Hits, ProtocolViolation, Reply, Step};
use crate::value::{Values, key_of, put_key};
use crate::workload::KeyRequest;

/// Login for servers with a file of users: a set of any key, with user and password as the value.
pub(super) fn open(login: Option<&(String, String)>, out: &mut Vec<u8>) -> usize {
    let Some((user, password)) = login else { return 0 };
    let bytes = user.len() + 1 + password.len();
    write!(out, "set auth 0 0 {bytes}\r\n{user} {password}\r\n").expect("memory takes it");
    1
}

pub(super) fn get(asks: &[KeyRequest], out: &mut Vec<u8>) {
    out.extend_from_slice(b"get");
    for ask in asks {
        out.push(b' ');
        put_key(ask.key, ask.key_bytes, out);
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn set(ask: &KeyRequest, (values, version): (&Values, u32), out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    put_key(ask.key, ask.key_bytes, out);
    write!(out, " 0 {} {}\r\n", ask.ttl_s, ask.value_bytes).expect("memory takes it");
    values.put(ask.key, ask.value_bytes, version, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn delete(ask: &KeyRequest, out: &mut Vec<u8>) {
    out.extend_from_slice(b"delete ");
    put_key(ask.key, ask.key_bytes, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn reply(
    bytes: &[u8],
    asked: ExpectedReply,
    hits: &mut Hits<'_>,
) -> Result<Step, ProtocolViolation> {
    let (mut at, mut next_key) = (0, 0);
    let mut reply = Reply::default();
    loop {
        let Some((line, behind)) = line_at(bytes, at)? else {
            return Ok(Step::Needs(bytes.len() + 1));
        };
        if let Some(head) = line.strip_prefix(b"VALUE ") {
            let mut words = head.split(|&byte| byte == b' ');
            let (Some(key), Some(_flags), Some(length)) =
                (words.next().and_then(key_of), words.next(), words.next().and_then(number))
            else {
                return Err(ProtocolViolation::at(line));
            };
            let end = behind.checked_add(length).and_then(|end| end.checked_add(2));
            let Some(end) = end else { return Err(ProtocolViolation::at(line)) };
            let Some(value) = bytes.get(behind..end) else { return Ok(Step::Needs(end)) };
            let found = hits.found(next_key, key, value.strip_suffix(b"\r\n").unwrap_or(value));
            let Some((after, right)) = found else { return Err(ProtocolViolation::at(line)) };
            reply.hits += 1;
            reply.wrong += u32::from(!right);
            (at, next_key) = (end, after);
            continue;
        }
        reply.bytes = behind;
        reply.refused = match (line, asked) {
            (b"END", ExpectedReply::Get(_))
            | (b"STORED", ExpectedReply::Set | ExpectedReply::Hello)
            | (b"DELETED" | b"NOT_FOUND", ExpectedReply::Delete) => false,
            _ if is_error(line) => true,
            _ => return Err(ProtocolViolation::at(line)),
        };
        return Ok(Step::Whole(reply));
    }
}
