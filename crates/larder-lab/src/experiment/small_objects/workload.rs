//! Requests for small objects, recorded once, so that every layout sees the same.
//!
//! An object (key and value) above a limit does not belong to the small-object engine. Its GETs are left out, and a SET
//! of it deletes the small object that its key had.

use larder_workload::{Op, RequestSource};
use std::collections::HashMap;

use super::objects::Key;
use crate::Error;

/// A request for a small object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) key: Key,
    pub(super) time_s: u32,
    pub(super) ttl_s: u32,
    /// Bytes of key and value; 0 if a GET does not know them.
    pub(super) bytes: u16,
    pub(super) op: Op,
}

/// Recorded requests.
pub(super) struct Recorded {
    pub(super) events: Vec<Event>,
    pub(super) keys: usize,
    /// Bytes of the different objects.
    pub(super) distinct_bytes: u64,
    /// Requests for objects above the limit.
    pub(super) left_out: u64,
}

/// Which requests are recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) requests: u64,
    /// The largest small object, in bytes of key and value.
    pub(super) object_bytes_max: u16,
    /// Seconds of the model for a second of the source.
    pub(super) slower: u32,
    /// Of a hundred requests this number delete their key.
    pub(super) delete_percent: u64,
}

impl Recorded {
    pub(super) fn new(source: &mut dyn RequestSource, limits: Limits) -> Result<Self, Error> {
        let mut numbers: HashMap<u64, Key> = HashMap::new();
        let mut sizes: Vec<u16> = Vec::new();
        let mut recorded = Self { events: Vec::new(), keys: 0, distinct_bytes: 0, left_out: 0 };
        for number in 1..=limits.requests {
            let Some(request) = source.next_request()? else { break };
            let bytes = request.object_bytes();
            let is_known = request.value_bytes > 0;
            let small = u16::try_from(bytes).ok().filter(|it| *it <= limits.object_bytes_max);
            let mut op = request.op;
            if is_known && small.is_none() {
                recorded.left_out += 1;
                if op != Op::Set || !numbers.contains_key(&request.key) {
                    continue;
                }
                op = Op::Delete;
            }
            // Spread over the hundred.
            if number * limits.delete_percent % 100 < limits.delete_percent {
                op = Op::Delete;
            }
            let next = numbers.len();
            let key = *numbers.entry(request.key).or_insert_with(|| {
                sizes.push(0);
                Key::try_from(next).expect("a trace of a test has fewer than 4 billion keys")
            });
            let bytes = if is_known { small.unwrap_or(0) } else { 0 };
            let size = &mut sizes[key as usize];
            *size = bytes.max(*size);
            recorded.events.push(Event {
                key,
                time_s: request.time_s.saturating_mul(limits.slower),
                ttl_s: request.ttl_s,
                bytes,
                op,
            });
        }
        recorded.keys = sizes.len();
        recorded.distinct_bytes = sizes.into_iter().map(u64::from).sum();
        Ok(recorded)
    }

    /// Mean bytes of the different objects.
    #[allow(clippy::cast_precision_loss)] // counts of a trace
    pub(super) fn object_bytes(&self) -> f64 {
        self.distinct_bytes as f64 / self.keys.max(1) as f64
    }
}
