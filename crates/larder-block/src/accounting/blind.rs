//! A layout without devices: every I/O ends at once, and no bytes are moved.

use crate::layout::{Data, DeviceIo, Ending, IoId, Layout, LayoutRequest, Outcome, RequestId};

/// The value of each byte that reads return.
pub const BLIND_BYTE: u8 = 7;

/// Runs a layout whose I/Os end at once. Measures the time or the memory of its own logic, and shows which I/Os it
/// issues.
#[derive(Debug)]
pub struct Blind<L> {
    layout: L,
    ios: Vec<(IoId, DeviceIo)>,
    ended: Vec<(RequestId, Ending)>,
    next: u64,
}

impl<L: Layout> Blind<L> {
    /// A layout before its first request.
    pub fn new(layout: L) -> Self {
        Self { layout, ios: Vec::new(), ended: Vec::new(), next: 0 }
    }

    /// The layout, after all requests.
    pub fn into_layout(self) -> L {
        self.layout
    }

    /// Runs these requests to their end, all at the same time. `see` gets each I/O.
    ///
    /// # Panics
    /// If the layout does not end a request.
    pub fn run(
        &mut self,
        requests: impl Iterator<Item = LayoutRequest>,
        mut see: impl FnMut(&DeviceIo),
    ) {
        let mut under_way = 0;
        for request in requests {
            self.layout.submit(RequestId(self.next), request);
            self.next += 1;
            under_way += 1;
        }
        while self.ended.len() < under_way {
            self.layout.turn(&mut self.ios);
            assert!(
                !self.ios.is_empty() || self.ended.len() == under_way,
                "requests that do not end"
            );
            for (id, io) in self.ios.drain(..) {
                see(&io);
                let outcome = match io {
                    DeviceIo::Read { bytes, reader: None, .. } => {
                        Outcome::Read(Data::copy_of(&vec![BLIND_BYTE; bytes]))
                    }
                    _ => Outcome::Done,
                };
                self.layout.completed(id, outcome);
            }
            self.layout.ended(&mut self.ended);
        }
        self.ended.clear();
    }
}
