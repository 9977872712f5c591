//! The requests of a cache: those in flight, with their range locks and I/Os; those that are held back; and those that
//! have ended.
//!
//! *Always:* an op that needs a lock has an entry among the locks from its beginning to its end. A key is valid until
//! its op is [removed](Ops::remove).

use std::ops::{Index, IndexMut};

use slab::Slab;

use super::locks::RangeLocks;
use super::op::{IoUnderWay, Op, OpKind, Step};
use super::request::{Keep, Request, RequestCompletion};
use crate::layout::{CoreId, DeviceIo, Ending, IoId, RequestId, Span};

/// See the [module](self). Indexed by the key of an op.
#[derive(Debug, Default)]
pub(super) struct Ops {
    all: Slab<Op>,
    locks: RangeLocks,
    ios: Slab<IoUnderWay>,
    /// I/Os of the cache itself, for the next turn.
    issued: Vec<(IoId, DeviceIo)>,
    ended: Vec<RequestCompletion>,
    /// The requests that are held back; `None` if requests are not held back.
    held: Option<Vec<(RequestId, Request)>>,
}

impl Index<usize> for Ops {
    type Output = Op;

    fn index(&self, key: usize) -> &Op {
        &self.all[key]
    }
}

impl IndexMut<usize> for Ops {
    fn index_mut(&mut self, key: usize) -> &mut Op {
        &mut self.all[key]
    }
}

impl Ops {
    /// Takes a request of a client. Returns its key if it may begin at once: it needs no lock, or has it.
    pub(super) fn submit(&mut self, id: RequestId, request: Request) -> Option<usize> {
        if let Some(held) = &mut self.held {
            held.push((id, request));
            return None;
        }
        let op = Op::new(id, request);
        let lock = op.lock();
        let key = self.all.insert(op);
        let may_begin =
            lock.is_none_or(|(span, is_exclusive)| self.locks.acquire(key, span, is_exclusive));
        may_begin.then_some(key)
    }

    /// Begins an op of the cache itself that needs no lock. No client waits for it.
    pub(super) fn begin_own(&mut self, what: OpKind) -> usize {
        self.all.insert(Op::of(RequestId(u64::MAX), what))
    }

    /// Begins an op of the cache itself that has the lock of `span`; `None` if another request holds or wants a part
    /// of it.
    pub(super) fn begin_own_locked(&mut self, what: OpKind, span: Span) -> Option<usize> {
        if !self.locks.is_free(span) {
            return None;
        }
        let key = self.begin_own(what);
        self.locks.acquire(key, span, true);
        Some(key)
    }

    /// Turns the lock of a read into an exclusive lock of the part that is cached. Returns the ops that get their lock
    /// because of the released rest.
    pub(super) fn keep_lock(&mut self, key: usize, span: Span) -> Vec<usize> {
        let mut freed = Vec::new();
        self.all[key].is_locked = self.locks.keep(key, span, &mut freed);
        freed
    }

    /// Removes an op and releases its lock. Returns the op, and the ops that get their lock now.
    pub(super) fn remove(&mut self, key: usize) -> (Op, Vec<usize>) {
        let op = self.all.remove(key);
        let mut freed = Vec::new();
        if op.lock().is_some() {
            self.locks.release(key, &mut freed);
        }
        (op, freed)
    }

    /// Completes the client request of an op.
    pub(super) fn tell(&mut self, key: usize, ending: Ending, keep: Option<Keep>) {
        self.ended.push(RequestCompletion { id: self.all[key].user, ending, keep });
    }

    /// Appends the requests that have ended since the last call.
    pub(super) fn take_ended(&mut self, ended: &mut Vec<RequestCompletion>) {
        ended.append(&mut self.ended);
    }

    /// The client's name for the request of the layout that has this name.
    pub(super) fn user_of(&self, id: RequestId) -> RequestId {
        self.all[key_of(id)].user
    }

    /// Issues an I/O of the cache itself for an op.
    pub(super) fn issue_own(&mut self, key: usize, io: DeviceIo) {
        let under_way = IoUnderWay::Own { key, target: io.target(), reads: io.reads() };
        let id = self.io_begins(under_way);
        self.issued.push((id, io));
    }

    /// Appends the I/Os that were issued since the last call.
    pub(super) fn take_issued(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        ios.append(&mut self.issued);
    }

    /// An I/O begins. Returns its name.
    pub(super) fn io_begins(&mut self, under_way: IoUnderWay) -> IoId {
        IoId(self.ios.insert(under_way))
    }

    pub(super) fn io_ended(&mut self, io: IoId) -> IoUnderWay {
        self.ios.remove(io.0)
    }

    /// Whether an I/O is in flight.
    pub(super) fn has_ios(&self) -> bool {
        !self.ios.is_empty()
    }

    /// The number of requests that have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.all.len() + self.held.as_ref().map_or(0, Vec::len)
    }

    /// Whether a write that may leave dirty data is in flight, other than these.
    pub(super) fn writes_besides(&self, others: &[usize]) -> bool {
        let writes =
            |op: &Op| matches!(op.step, Step::WriteBack | Step::Bypass { .. } | Step::Discard);
        self.all.iter().any(|(key, op)| writes(op) && !others.contains(&key))
    }

    /// The cleanings of whole cores that have paused.
    pub(super) fn paused_cleanings(&self) -> Vec<usize> {
        let is_paused = |what: &OpKind| match what {
            OpKind::Clean(clean) => clean.next.is_some() && clean.outstanding == 0,
            _ => false,
        };
        let paused = self.all.iter().filter(|(_, op)| is_paused(&op.what));
        paused.map(|(key, _)| key).collect()
    }

    /// Holds back all requests from now on, until [`release`](Self::release).
    pub(super) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Whether requests are held back.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Takes out the requests that were held back. Later ones are not.
    pub(super) fn release(&mut self) -> Vec<(RequestId, Request)> {
        self.held.take().unwrap_or_default()
    }

    /// Whether requests are held back and no request or I/O is in flight. The cleaning of a whole core may be
    /// unfinished: it pauses.
    pub(super) fn is_quiet(&self) -> bool {
        let has_paused =
            |op: &Op| matches!(&op.what, OpKind::Clean(clean) if clean.outstanding == 0);
        self.held.is_some()
            && self.all.iter().all(|(_, op)| has_paused(op))
            && self.ios.is_empty()
            && self.ended.is_empty()
    }

    /// A core was removed: held requests to it fail.
    pub(super) fn refuse_held_of(&mut self, core: CoreId) {
        let of_core = |(_, request): &mut (RequestId, Request)| request.core() == Some(core);
        let refused = self.held.iter_mut().flat_map(|held| held.extract_if(.., of_core));
        let failed = |(id, _)| RequestCompletion { id, ending: Ending::Failed, keep: None };
        self.ended.extend(refused.map(failed));
    }
}

/// The key of the op for which a request of the layout was made.
pub(super) fn key_of(RequestId(key): RequestId) -> usize {
    usize::try_from(key).expect("a key of this cache")
}
