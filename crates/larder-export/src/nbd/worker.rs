//! The state that all connections of a worker share.

use std::cell::Cell;
use std::rc::Rc;

use event_listener::Event;
use larder_device::{BufferPool, LoopClock};
use larder_net::HandshakeTurn;
use larder_net::sockets::Buffers;
use larder_net::tls::Tls;

use super::exports::Exports;

/// The state that all connections of a worker share.
pub(super) struct Worker {
    pub(super) exports: Exports,
    /// If set, clients must use TLS.
    pub(super) tls: Option<Tls>,
    /// Buffers of TLS connections, while they contain data.
    pub(super) buffers: Rc<Buffers>,
    pub(super) pool: BufferPool,
    /// Held by the TLS handshake that is computing.
    pub(super) handshake_turn: HandshakeTurn,
    pub(super) clock: LoopClock,
    /// Notified when connections must stop reading.
    pub(super) drained: Event,
    is_draining: Cell<bool>,
}

impl Worker {
    pub(super) fn new(exports: Exports, tls: Option<Tls>, clock: LoopClock) -> Self {
        Self {
            exports,
            tls,
            buffers: Rc::default(),
            pool: BufferPool::new(),
            handshake_turn: HandshakeTurn::default(),
            clock,
            drained: Event::new(),
            is_draining: Cell::new(false),
        }
    }

    /// From now on connections must stop reading.
    pub(super) fn drain(&self) {
        self.is_draining.set(true);
        self.drained.notify(usize::MAX);
    }

    /// Whether connections must stop reading.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }
}
