//! Requests in flight. A request ends when all of its parts have ended.

use rustc_hash::FxHashMap;

use crate::layout::{Ending, RequestId};

#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The driver of the cache chooses the ids.
    under_way: FxHashMap<RequestId, Progress>,
    ended: Vec<(RequestId, Ending)>,
}

#[derive(Debug)]
struct Progress {
    parts: u32,
    has_failed: bool,
}

impl Requests {
    /// Begins a request with one part, which the caller ends after it has added the others.
    ///
    /// # Panics
    /// If a request with this id is in flight.
    pub(super) fn begin(&mut self, id: RequestId) {
        let before = self.under_way.insert(id, Progress { parts: 1, has_failed: false });
        assert!(before.is_none(), "two requests of the name {}", id.0);
    }

    pub(super) fn add_part(&mut self, id: RequestId) {
        self.under_way.get_mut(&id).expect("under way").parts += 1;
    }

    pub(super) fn end_part(&mut self, id: RequestId, is_well: bool) {
        let progress = self.under_way.get_mut(&id).expect("under way");
        progress.parts -= 1;
        progress.has_failed |= !is_well;
        if progress.parts == 0 {
            let ending = if progress.has_failed { Ending::Failed } else { Ending::Done };
            self.under_way.remove(&id);
            self.ended.push((id, ending));
        }
    }

    pub(super) fn take_ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        ended.append(&mut self.ended);
    }
}
