//! Requests that are not completed yet.

use std::collections::HashMap;

use larder_ssd::timed::Nanoseconds;

/// Open requests and operations, by tenant and die.
///
/// Invariant: a request is open while an operation that it waits for is in progress.
#[derive(Debug)]
pub(super) struct Requests {
    open: HashMap<u64, OpenRequest>,
    ops: HashMap<u64, Op>,
    /// The last number used for a request or an operation.
    last: u64,
    dies: usize,
    /// Operations in progress, by tenant and die.
    depth: Vec<u32>,
}

/// An open request.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenRequest {
    pub(super) tenant: usize,
    pub(super) token: u64,
    pub(super) submitted: Nanoseconds,
    /// Operations that are not completed.
    left: u32,
}

#[derive(Debug, Clone, Copy)]
struct Op {
    /// Index into [`Requests::depth`].
    queue: usize,
    request: Option<u64>,
}

impl Requests {
    pub(super) fn new(tenants: usize, dies: usize) -> Self {
        let depth = vec![0; tenants * dies];
        Self { open: HashMap::new(), ops: HashMap::new(), last: 0, dies, depth }
    }

    /// Operations of `tenant` on the die that has most of them.
    pub(super) fn deepest(&self, tenant: usize) -> u32 {
        let queues = &self.depth[tenant * self.dies..][..self.dies];
        queues.iter().copied().max().unwrap_or(0)
    }

    /// Begins a request and returns its number.
    pub(super) fn begin(&mut self, submitted: Nanoseconds, tenant: usize, token: u64) -> u64 {
        self.last += 1;
        self.open.insert(self.last, OpenRequest { tenant, token, submitted, left: 0 });
        self.last
    }

    /// Adds an operation of `tenant` on `die` and returns its number; `request` waits for it.
    pub(super) fn add(&mut self, tenant: usize, die: usize, request: Option<u64>) -> u64 {
        self.last += 1;
        let queue = tenant * self.dies + die;
        self.depth[queue] += 1;
        if let Some(request) = request.and_then(|request| self.open.get_mut(&request)) {
            request.left += 1;
        }
        self.ops.insert(self.last, Op { queue, request });
        self.last
    }

    /// The die of operation `op`, counted over all drives.
    pub(super) fn die_of(&self, op: u64) -> Option<usize> {
        self.ops.get(&op).map(|op| op.queue % self.dies)
    }

    /// Ends operation `op`. Returns its request, if that waits for no other operation.
    pub(super) fn end(&mut self, op: u64) -> Option<OpenRequest> {
        let Op { queue, request } = self.ops.remove(&op)?;
        self.depth[queue] -= 1;
        let id = request?;
        let request = self.open.get_mut(&id)?;
        request.left -= 1;
        if request.left > 0 { None } else { self.open.remove(&id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_done_with_its_last_operation() {
        let mut requests = Requests::new(2, 4);
        let id = requests.begin(100, 1, 7);
        let ops: Vec<u64> =
            [0, 3, 3].into_iter().map(|die| requests.add(1, die, Some(id))).collect();
        let erase = requests.add(1, 3, None);
        assert_eq!((requests.deepest(0), requests.deepest(1)), (0, 3));
        assert!(requests.end(ops[2]).is_none() && requests.end(ops[0]).is_none());
        let done = requests.end(ops[1]).unwrap();
        assert_eq!((done.tenant, done.token, done.submitted), (1, 7, 100));
        assert_eq!(requests.deepest(1), 1, "the erase is left");
        assert!(requests.end(erase).is_none());
        assert!(requests.end(erase).is_none(), "it is done once");
        assert_eq!(requests.deepest(1), 0);
        assert!(requests.open.is_empty() && requests.ops.is_empty());
    }
}
