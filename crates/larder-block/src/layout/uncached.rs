//! The layout without a cache device: all reads and writes go to the cores, and nothing is cached.

use slab::Slab;

use super::requests::Requests;
use super::{
    ClassId, CoreId, Data, DeviceIo, Ending, IoId, Layout, LayoutRequest, Outcome, Piece,
    PieceState, PlacementClass, Refusal, RequestId, Shares, Span, Target, Usage,
};

/// The layout without a cache: see the module page.
#[derive(Debug, Default)]
pub struct UncachedLayout {
    requests: Requests,
    ios: Slab<Purpose>,
    issued: Vec<(IoId, DeviceIo)>,
    /// For each core: the number of writes, and how many of them a flush has made durable.
    cores: Vec<(CoreId, u64, u64)>,
}

/// The purpose of an I/O.
#[derive(Debug)]
enum Purpose {
    Read(RequestId),
    Write { request: RequestId, core: CoreId },
    Flush { request: RequestId, core: CoreId, covers: u64 },
}

impl UncachedLayout {
    fn issue(&mut self, request: RequestId, io: DeviceIo, purpose: Purpose) {
        self.requests.add_part(request);
        self.issued.push((IoId(self.ios.insert(purpose)), io));
    }

    fn read(&mut self, request: RequestId, span: Span) {
        let (target, bytes, reader) = (Target::Core(span.core), span.bytes(), Some((request, 0)));
        let io = DeviceIo::Read { target, offset: span.offset(), bytes, reader };
        self.issue(request, io, Purpose::Read(request));
    }

    fn write(&mut self, request: RequestId, span: Span, data: Data, durable: bool) {
        let io = DeviceIo::core_write(span, data, PlacementClass::Dirty, durable);
        self.issue(request, io, Purpose::Write { request, core: span.core });
    }

    fn flush(&mut self, request: RequestId) {
        for (core, writes, flushed) in self.cores.clone() {
            if writes > flushed {
                let io = DeviceIo::Flush { target: Target::Core(core) };
                self.issue(request, io, Purpose::Flush { request, core, covers: writes });
            }
        }
    }

    fn of(&mut self, core: CoreId) -> &mut (CoreId, u64, u64) {
        let at = self.cores.iter().position(|(known, ..)| *known == core);
        let at = at.unwrap_or_else(|| {
            self.cores.push((core, 0, 0));
            self.cores.len() - 1
        });
        &mut self.cores[at]
    }
}

impl Layout for UncachedLayout {
    fn submit_of(&mut self, _: ClassId, id: RequestId, request: LayoutRequest) {
        self.requests.begin(id);
        match request {
            LayoutRequest::Read { span } | LayoutRequest::PassThroughRead { span } => {
                self.read(id, span)
            }
            LayoutRequest::Write { span, data } => self.write(id, span, data, true),
            LayoutRequest::Bypass { span, data, durable } => self.write(id, span, data, durable),
            LayoutRequest::Flush | LayoutRequest::PrepareStop => self.flush(id),
            LayoutRequest::InsertClean { .. }
            | LayoutRequest::Discard { .. }
            | LayoutRequest::Destage { .. }
            | LayoutRequest::Settle { .. } => {}
        }
        self.requests.end_part(id, true);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        let is_well = !matches!(outcome, Outcome::Failed);
        let request = match self.ios.remove(io.0) {
            Purpose::Read(request) => request,
            Purpose::Write { request, core } => {
                // Count the write even if it failed: what a failed write has left is unknown.
                self.of(core).1 += 1;
                request
            }
            Purpose::Flush { request, core, covers } => {
                let flushed = &mut self.of(core).2;
                *flushed = if is_well { covers.max(*flushed) } else { *flushed };
                request
            }
        };
        self.requests.end_part(request, is_well);
    }

    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        self.requests.take_ended(ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        ios.append(&mut self.issued);
    }

    fn core_was_written(&mut self, core: CoreId) {
        self.of(core).1 += 1;
    }

    fn core_is_gone(&mut self, core: CoreId) {
        self.cores.retain(|(known, ..)| *known != core);
    }

    fn retry(&mut self) {}

    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        pieces.push(Piece { span, state: PieceState::Absent });
    }

    fn dirty_after(&self, _: CoreId, _: u64) -> Option<Span> {
        None
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn dirty_sectors(&self, _: CoreId) -> u64 {
        0
    }

    fn set_shares(&mut self, _: Shares) {}

    fn refuses(&self, _: ClassId, _: u32) -> Option<Refusal> {
        None
    }

    fn occupied_sectors(&self, _: ClassId) -> u64 {
        0
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}
