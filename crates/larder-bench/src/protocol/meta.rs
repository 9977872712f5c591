//! memcached's meta commands. Several keys are sent as one `mg` each, with one answer each.

use std::io::Write;

use super::line::{is_error, line_at, number};
use super::reply::{ExpectedReply, Hits, ProtocolViolation, Reply, Step};
use crate::value::{Values, put_key};
use crate::workload::KeyRequest;

pub(super) fn get(asks: &[KeyRequest], out: &mut Vec<u8>) {
    for ask in asks {
        out.extend_from_slice(b"mg ");
        put_key(ask.key, ask.key_bytes, out);
        out.extend_from_slice(b" v\r\n");
    }
}

pub(super) fn set(ask: &KeyRequest, (values, version): (&Values, u32), out: &mut Vec<u8>) {
    out.extend_from_slice(b"ms ");
    put_key(ask.key, ask.key_bytes, out);
    write!(out, " {} T{}\r\n", ask.value_bytes, ask.ttl_s).expect("memory takes it");
    values.put(ask.key, ask.value_bytes, version, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn delete(ask: &KeyRequest, out: &mut Vec<u8>) {
    out.extend_from_slice(b"md ");
    put_key(ask.key, ask.key_bytes, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn reply(
    bytes: &[u8],
    asked: ExpectedReply,
    hits: &mut Hits<'_>,
) -> Result<Step, ProtocolViolation> {
    let mut reply = Reply::default();
    let answers = match asked {
        ExpectedReply::Get(keys) => keys as usize,
        ExpectedReply::Set | ExpectedReply::Delete | ExpectedReply::Hello => 1,
    };
    for answer in 0..answers {
        let Some((line, behind)) = line_at(bytes, reply.bytes)? else {
            return Ok(Step::Needs(bytes.len() + 1));
        };
        reply.bytes = behind;
        if let Some(head) = line.strip_prefix(b"VA ") {
            let length = head.split(|&byte| byte == b' ').next().and_then(number);
            let end = length.and_then(|length| behind.checked_add(length)?.checked_add(2));
            let Some(end) = end else { return Err(ProtocolViolation::at(line)) };
            let Some(value) = bytes.get(behind..end) else { return Ok(Step::Needs(end)) };
            let right = hits.at(answer, value.strip_suffix(b"\r\n").unwrap_or(value));
            reply.hits += 1;
            reply.wrong += u32::from(right != Some(true));
            reply.bytes = end;
        } else if is_error(line) {
            reply.refused = true;
        } else if !matches!(
            (line.get(..2), asked),
            (Some(b"EN"), ExpectedReply::Get(_))
                | (Some(b"HD" | b"NF"), ExpectedReply::Delete)
                | (Some(b"HD" | b"ST"), ExpectedReply::Set | ExpectedReply::Hello)
        ) {
            return Err(ProtocolViolation::at(line));
        }
    }
    Ok(Step::Whole(reply))
}
