//! A layout without devices: every I/O ends at once, and no bytes are moved.

use larder_block::layout::{Data, DeviceIo, Ending, IoId, Layout, Outcome, Request, RequestId};

/// What reads bring.
pub(crate) const BYTE: u8 = 7;

pub(crate) struct Blind<L> {
    pub(crate) layout: L,
    ios: Vec<(IoId, DeviceIo)>,
    ended: Vec<(RequestId, Ending)>,
    next: u64,
}

impl<L: Layout> Blind<L> {
    pub(crate) fn new(layout: L) -> Self {
        Self { layout, ios: Vec::new(), ended: Vec::new(), next: 0 }
    }

    /// Lets these end, all at once. `see` gets each I/O.
    pub(crate) fn run(
        &mut self,
        requests: impl Iterator<Item = Request>,
        mut see: impl FnMut(&DeviceIo),
    ) {
        let first = self.next;
        for request in requests {
            self.layout.submit(RequestId(self.next), request);
            self.next += 1;
        }
        let count = usize::try_from(self.next - first).expect("a few");
        while self.ended.len() < count {
            self.layout.turn(&mut self.ios);
            assert!(!self.ios.is_empty() || self.ended.len() == count, "requests that do not end");
            for (id, io) in self.ios.drain(..) {
                see(&io);
                let outcome = match io {
                    DeviceIo::Read { bytes, reader: None, .. } => {
                        Outcome::Read(Data::copy_of(&vec![BYTE; bytes]))
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
