//! A layout without devices: every I/O ends at once, and no bytes are moved.

use crate::layout::{Data, DeviceIo, Ending, IoId, Layout, Outcome, Request, RequestId};

/// What reads bring, byte for byte.
pub const BLIND_BYTE: u8 = 7;

/// A layout whose I/Os end at once: what its own logic costs, in time or in memory, and which I/Os it asks for.
#[derive(Debug)]
pub struct Blind<L> {
    layout: L,
    ios: Vec<(IoId, DeviceIo)>,
    ended: Vec<(RequestId, Ending)>,
    next: u64,
}

impl<L: Layout> Blind<L> {
    /// A layout before anything was asked of it.
    pub fn new(layout: L) -> Self {
        Self { layout, ios: Vec::new(), ended: Vec::new(), next: 0 }
    }

    /// The layout, after all that was asked of it.
    pub fn into_layout(self) -> L {
        self.layout
    }

    /// Lets these end, all at once. `see` gets each I/O.
    ///
    /// # Panics
    /// If the layout does not end one.
    pub fn run(&mut self, requests: impl Iterator<Item = Request>, mut see: impl FnMut(&DeviceIo)) {
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
