//! memcached's binary protocol: a header of 24 bytes before each request and each answer.
//!
//! One key is a `get`, which is answered whether or not the key is found. Several keys are quiet gets with a `noop`
//! behind them, as clients of this protocol do it: only keys that are found are answered, and the answer to the `noop`
//! marks the end. The opaque number of an answer tells which key it is for.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::reply::{ExpectedReply, Hits, ProtocolViolation, Reply, Step};
use crate::value::{Values, key_bytes, key_of, put_key};
use crate::workload::KeyRequest;

const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER_BYTES: usize = size_of::<Header>();

/// Largest body that we accept: the longest value that can be requested, and what may precede it.
const BODY_MAX: usize = (1 << 30) + (1 << 17);

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const DELETE: u8 = 0x04;
const NOOP: u8 = 0x0a;
/// A quiet get whose answer has the key.
const GETKQ: u8 = 0x0d;
const SASL_AUTH: u8 = 0x21;

const SUCCESS: u16 = 0;
const NOT_FOUND: u16 = 1;

/// A header on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: u8,
    opcode: u8,
    key_bytes: U16,
    extras_bytes: u8,
    data_type: u8,
    /// The status of an answer; 0 in a request.
    status: U16,
    /// Extras, key and value together.
    body_bytes: U32,
    opaque: U32,
    cas: U64,
}

/// The lengths of the parts of a body: extras, key and value.
#[derive(Clone, Copy, Default)]
struct Lengths {
    extras: u8,
    key: usize,
    value: usize,
}

fn header(opcode: u8, lengths: Lengths, opaque: usize, out: &mut Vec<u8>) {
    let body = usize::from(lengths.extras) + lengths.key + lengths.value;
    let header = Header {
        magic: REQUEST,
        opcode,
        key_bytes: u16::try_from(lengths.key).expect("keys have 250 bytes at most").into(),
        extras_bytes: lengths.extras,
        data_type: 0,
        status: 0.into(),
        body_bytes: u32::try_from(body).expect("values have 1 GiB at most").into(),
        opaque: u32::try_from(opaque).expect("fewer keys than that are asked at a time").into(),
        cas: 0.into(),
    };
    out.extend_from_slice(header.as_bytes());
}

/// A request that consists of a key.
fn of_key(opcode: u8, ask: &KeyRequest, opaque: usize, out: &mut Vec<u8>) {
    let key = key_bytes(ask.key, ask.key_bytes);
    header(opcode, Lengths { key, ..Lengths::default() }, opaque, out);
    put_key(ask.key, ask.key_bytes, out);
}

/// SASL login with the mechanism PLAIN.
pub(super) fn open(login: Option<&(String, String)>, out: &mut Vec<u8>) -> usize {
    const PLAIN: &[u8] = b"PLAIN";
    let Some((user, password)) = login else { return 0 };
    let message = [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat();
    let lengths = Lengths { extras: 0, key: PLAIN.len(), value: message.len() };
    header(SASL_AUTH, lengths, 0, out);
    out.extend_from_slice(PLAIN);
    out.extend_from_slice(&message);
    1
}

pub(super) fn get(asks: &[KeyRequest], out: &mut Vec<u8>) {
    if let [ask] = asks {
        return of_key(GET, ask, 0, out);
    }
    for (at, ask) in asks.iter().enumerate() {
        of_key(GETKQ, ask, at, out);
    }
    header(NOOP, Lengths::default(), asks.len(), out);
}

pub(super) fn set(ask: &KeyRequest, (values, version): (&Values, u32), out: &mut Vec<u8>) {
    let key = key_bytes(ask.key, ask.key_bytes);
    header(SET, Lengths { extras: 8, key, value: ask.value_bytes as usize }, 0, out);
    // The client's flags, and the lifetime.
    out.extend_from_slice([U32::new(0), U32::new(ask.ttl_s)].as_bytes());
    put_key(ask.key, ask.key_bytes, out);
    values.put(ask.key, ask.value_bytes, version, out);
}

pub(super) fn delete(ask: &KeyRequest, out: &mut Vec<u8>) {
    of_key(DELETE, ask, 0, out);
}

/// A complete answer of the server.
struct Packet<'a> {
    opcode: u8,
    status: u16,
    opaque: usize,
    key: &'a [u8],
    value: &'a [u8],
    /// Where it ends.
    end: usize,
}

enum PacketProgress<'a> {
    Whole(Packet<'a>),
    /// At least this number of bytes is needed.
    Needs(usize),
}

/// Parses the answer that begins at `at`.
fn packet(bytes: &[u8], at: usize) -> Result<PacketProgress<'_>, ProtocolViolation> {
    let rest = bytes.get(at..).unwrap_or_default();
    // Check the first byte even of an incomplete header: a server of another protocol may have sent everything already.
    if rest.first().is_some_and(|magic| *magic != RESPONSE) {
        return Err(ProtocolViolation::at(rest));
    }
    let Ok((header, _)) = Header::ref_from_prefix(rest) else {
        return Ok(PacketProgress::Needs(at + HEADER_BYTES));
    };
    let broken = || ProtocolViolation::at(rest.get(..HEADER_BYTES).unwrap_or(rest));
    let (extras, key) = (usize::from(header.extras_bytes), usize::from(header.key_bytes.get()));
    let body = usize::try_from(header.body_bytes.get()).ok().filter(|body| *body <= BODY_MAX);
    let body = body.filter(|body| extras + key <= *body).ok_or_else(broken)?;
    let begin = at + HEADER_BYTES;
    let Some(whole) = bytes.get(begin..begin + body) else {
        return Ok(PacketProgress::Needs(begin + body));
    };
    let (front, value) = whole.split_at(extras + key);
    Ok(PacketProgress::Whole(Packet {
        opcode: header.opcode,
        status: header.status.get(),
        opaque: usize::try_from(header.opaque.get()).map_err(|_| broken())?,
        key: front.get(extras..).unwrap_or_default(),
        value,
        end: begin + body,
    }))
}

pub(super) fn reply(
    bytes: &[u8],
    asked: ExpectedReply,
    hits: &mut Hits<'_>,
) -> Result<Step, ProtocolViolation> {
    let mut reply = Reply::default();
    let mut next = 0;
    loop {
        let at = reply.bytes;
        let answer = match packet(bytes, at)? {
            PacketProgress::Whole(answer) => answer,
            PacketProgress::Needs(least) => return Ok(Step::Needs(least)),
        };
        reply.bytes = answer.end;
        let nonsense = || ProtocolViolation::at(bytes.get(at..answer.end).unwrap_or_default());
        let is_last = match (asked, answer.opcode) {
            (ExpectedReply::Get(1), GET) => {
                match answer.status {
                    SUCCESS => hit(&mut reply, hits.at(0, answer.value).ok_or_else(nonsense)?),
                    NOT_FOUND => {}
                    _ => reply.refused = true,
                }
                true
            }
            (ExpectedReply::Get(keys @ 2..), GETKQ) => {
                // Answers come in the order of the request, each at most once.
                if answer.opaque < next || answer.opaque >= keys as usize {
                    return Err(nonsense());
                }
                next = answer.opaque + 1;
                match answer.status {
                    SUCCESS => {
                        let is_key = key_of(answer.key).as_ref() == hits.keys.get(answer.opaque);
                        let right = hits.at(answer.opaque, answer.value).ok_or_else(nonsense)?;
                        hit(&mut reply, is_key && right);
                    }
                    NOT_FOUND => {}
                    _ => reply.refused = true,
                }
                false
            }
            (ExpectedReply::Get(keys @ 2..), NOOP) if answer.opaque == keys as usize => {
                reply.refused |= answer.status != SUCCESS;
                true
            }
            (ExpectedReply::Set, SET) | (ExpectedReply::Hello, SASL_AUTH) => {
                reply.refused = answer.status != SUCCESS;
                true
            }
            (ExpectedReply::Delete, DELETE) => {
                reply.refused = !matches!(answer.status, SUCCESS | NOT_FOUND);
                true
            }
            _ => return Err(nonsense()),
        };
        if is_last {
            return Ok(Step::Whole(reply));
        }
    }
}

fn hit(reply: &mut Reply, right: bool) {
    reply.hits += 1;
    reply.wrong += u32::from(!right);
}
