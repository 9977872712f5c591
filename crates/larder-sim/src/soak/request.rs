//! Requests of clients, their answers, and what these tell about the key.

use std::time::Duration;

use larder::{Cas, ErrorKind, Value};

use super::history::{Effect, Need, Operation};
use super::value::Content;

/// One call.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Get(u32),
    GetMany(Vec<u32>),
    /// A scan of everything, of which only these keys are checked.
    Scan(Vec<u32>),
    /// Writes data that is only in DRAM to flash.
    Flush,
    Contains(u32),
    Delete(u32),
    Touch(u32, Option<Duration>),
    Store(u32, Verb, Write),
    Append(u32, u32),
    Count(u32, u64),
    /// The flag makes the fetch fail.
    GetOrFetch(u32, Write, bool),
}

/// How a value is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verb {
    Set,
    Add,
    Replace,
    /// With the version and content that the caller has read.
    Cas(u64, Content),
    /// Replaces and returns the existing value.
    Swap,
}

/// The data of a store.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) content: Content,
    /// Identifies this write.
    pub(super) piece: u32,
    pub(super) bytes: usize,
    pub(super) ttl: Option<Duration>,
}

impl Write {
    /// Length of the value.
    pub(super) fn stored_bytes(&self) -> usize {
        match &self.content {
            Content::Pieces(_) => self.bytes,
            Content::Number(number) => number.to_string().len(),
        }
    }
}

/// A value that the cache returned.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) content: Result<Content, String>,
    pub(super) version: u64,
    pub(super) flags: u32,
    /// The value itself; the cache must not touch its memory while this exists.
    pub(super) pin: Option<Value>,
}

/// The result of a call.
#[derive(Debug)]
pub(super) enum Answer {
    Found(Option<Found>),
    Many(Vec<Option<Found>>),
    Done,
    /// A flush, with the number of objects lost during it.
    Flushed(u64),
    Said(bool),
    Cas(Cas),
    Counted(Option<u64>),
    /// By a fetch or not; `None` if the fetch failed.
    Fetched(Option<Found>),
    Refused(ErrorKind, String),
}

impl Request {
    /// The keys of the request.
    pub(super) fn keys(&self) -> Vec<u32> {
        match self {
            Self::GetMany(keys) | Self::Scan(keys) => keys.clone(),
            Self::Flush => Vec::new(),
            Self::Get(key)
            | Self::Contains(key)
            | Self::Delete(key)
            | Self::Touch(key, _)
            | Self::Store(key, _, _)
            | Self::Append(key, _)
            | Self::Count(key, _)
            | Self::GetOrFetch(key, _, _) => vec![*key],
        }
    }

    /// Whether it may change its key.
    pub(super) fn changes(&self) -> bool {
        match self {
            Self::Get(_) | Self::GetMany(_) | Self::Scan(_) | Self::Flush | Self::Contains(_) => {
                false
            }
            Self::Delete(_)
            | Self::Touch(..)
            | Self::Store(..)
            | Self::Append(..)
            | Self::Count(..)
            | Self::GetOrFetch(..) => true,
        }
    }

    pub(super) fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Store(_, _, write) | Self::GetOrFetch(_, write, _) => write.ttl,
            Self::Touch(_, ttl) => *ttl,
            _ => None,
        }
    }

    /// The possible effect of this call on a key, before its answer is known.
    pub(super) fn intend(&self, operation: &mut Operation) {
        let (need, effect) = match self {
            Self::Get(_)
            | Self::GetMany(_)
            | Self::Scan(_)
            | Self::Flush
            | Self::Contains(_)
            | Self::GetOrFetch(..) => (Need::Nothing, None),
            Self::Delete(_) => (Need::Nothing, Some(Effect::Remove)),
            Self::Touch(..) => (Need::Value, Some(Effect::Touch)),
            Self::Append(_, piece) => (Need::Value, Some(Effect::Append(*piece))),
            Self::Count(_, delta) => (Need::Value, Some(Effect::Count(*delta))),
            Self::Store(_, verb, write) => {
                let need = match verb {
                    Verb::Set | Verb::Add | Verb::Swap => Need::Nothing,
                    Verb::Replace => Need::Value,
                    Verb::Cas(_, seen) => Need::Content(seen.clone()),
                };
                (need, Some(Effect::Store(write.content.clone())))
            }
        };
        operation.need = need;
        operation.effect = effect;
    }

    /// Updates the operation from the answer. `Err`: no order of operations makes the answer right.
    pub(super) fn learn(&self, answer: &Answer, operation: &mut Operation) -> Result<(), String> {
        operation.certain = true;
        match (self, answer) {
            (Self::Get(_), Answer::Found(found)) => learn_found(found.as_ref(), operation)?,
            (Self::Store(..), Answer::Found(found)) => learn_found(found.as_ref(), operation)?,
            (Self::Contains(_), Answer::Said(true)) => operation.need = Need::Value,
            (Self::Touch(..) | Self::Append(..) | Self::Store(..), Answer::Said(true))
            // The answer may refer to an expired value: see `Larder::delete`.
            | (Self::Delete(_), Answer::Said(_))
            | (Self::Store(..), Answer::Done | Answer::Cas(Cas::Stored)) => {}
            (Self::Store(_, Verb::Add, _), Answer::Said(false))
            | (Self::Store(..), Answer::Cas(Cas::OtherVersion)) => {
                operation.need = Need::Value;
                operation.effect = None;
            }
            (Self::Count(_, delta), Answer::Counted(Some(sum))) => {
                operation.need = Need::Content(Content::Number(sum.wrapping_sub(*delta)));
            }
            // A set that is refused as invalid leaves the key without a value.
            (Self::Store(_, Verb::Set, _), Answer::Refused(ErrorKind::InvalidInput, _)) => {
                operation.effect = Some(Effect::Remove);
            }
            // A change that is refused leaves the value unchanged.
            (Self::Store(..), Answer::Refused(ErrorKind::InvalidInput | ErrorKind::Busy, _))
            | (
                Self::Touch(..) | Self::Append(..) | Self::Count(..),
                Answer::Refused(ErrorKind::InvalidInput | ErrorKind::Busy, _),
            )
            | (Self::Contains(_) | Self::Touch(..) | Self::Append(..), Answer::Said(false))
            | (Self::Store(..), Answer::Said(false) | Answer::Cas(Cas::NotFound))
            | (Self::Count(..), Answer::Counted(None)) => nothing_happened(operation),
            // The change was made in spite of the error, or may have been.
            (_, Answer::Refused(ErrorKind::Device, _)) => {
                operation.certain = false;
                operation.doubtful = true;
            }
            (_, Answer::Refused(_, message)) => return Err(format!("refused: {message}")),
            (request, answer) => return Err(format!("{request:?} was answered {answer:?}")),
        }
        Ok(())
    }
}

fn nothing_happened(operation: &mut Operation) {
    operation.need = Need::Nothing;
    operation.effect = None;
}

/// A found value was present.
pub(super) fn learn_found(found: Option<&Found>, operation: &mut Operation) -> Result<(), String> {
    if let Some(found) = found {
        operation.need = Need::Content(found.content.clone()?);
    }
    Ok(())
}
