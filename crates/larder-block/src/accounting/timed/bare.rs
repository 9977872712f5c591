//! A core without a cache, for comparison.

use std::collections::HashMap;

use crate::accounting::Driven;
use crate::cache::{Keep, RequestCompletion};
use crate::layout::{
    Data, DeviceIo, Ending, IoId, LayoutRequest, Outcome, PlacementClass, RequestId, Span, Target,
};

/// Passes each request to its core as one I/O.
#[derive(Debug, Default)]
pub struct Bare {
    writes_durably: bool,
    issued: Vec<(IoId, DeviceIo)>,
    under_way: HashMap<usize, RequestId>,
    ended: Vec<RequestCompletion>,
    next_io: usize,
}

impl Bare {
    /// `writes_durably`: whether each write must survive a power loss when it ends.
    pub fn new(writes_durably: bool) -> Self {
        Self { writes_durably, ..Self::default() }
    }

    fn write(&self, span: Span, data: Data, durable: bool) -> DeviceIo {
        DeviceIo::Write {
            target: Target::Core(span.core),
            offset: span.offset(),
            parts: vec![data],
            class: PlacementClass::Dirty,
            beside: None,
            metadata_bytes: 0,
            durable: durable || self.writes_durably,
        }
    }
}

impl Driven for Bare {
    type Request = LayoutRequest;

    /// # Panics
    /// If the request is one that only a cache can serve.
    fn submit(&mut self, id: RequestId, request: LayoutRequest) {
        let io = match request {
            LayoutRequest::Read { span } | LayoutRequest::PassThroughRead { span } => {
                DeviceIo::Read {
                    target: Target::Core(span.core),
                    offset: span.offset(),
                    bytes: span.bytes(),
                    reader: Some((id, 0)),
                }
            }
            LayoutRequest::Write { span, data } => self.write(span, data, false),
            LayoutRequest::Bypass { span, data, durable } => self.write(span, data, durable),
            other => panic!("a bare core does not know {other:?}"),
        };
        self.under_way.insert(self.next_io, id);
        self.issued.push((IoId(self.next_io), io));
        self.next_io += 1;
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        let id = self.under_way.remove(&io.0).expect("an I/O under way");
        let ending = match outcome {
            Outcome::Failed => Ending::Failed,
            Outcome::Done | Outcome::Read(_) => Ending::Done,
        };
        self.ended.push(RequestCompletion { id, ending, keep: None });
    }

    fn ended(&mut self, ended: &mut Vec<RequestCompletion>) {
        ended.append(&mut self.ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        ios.append(&mut self.issued);
    }

    fn keep(&mut self, _: Keep, _: Option<Data>) {
        unreachable!("it keeps nothing")
    }

    fn retry(&mut self) {}
}
