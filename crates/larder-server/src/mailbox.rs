//! What other threads send to a worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use larder_net::sockets::Peer;

use crate::listener::Entrance;

/// The mailbox of a worker.
pub(crate) type Mailbox = larder_net::Mailbox<Letter>;

/// An order to a worker.
pub(crate) enum Letter {
    /// A connection, whose load is counted already.
    Arrived(AcceptedConnection),
    /// Some users may have been revoked: close the connections that wait for requests and hold such a login.
    UsersChanged,
    /// The server ends: answer what has come, and close.
    Drain,
    /// End at once.
    End,
}

/// A connection that was accepted.
pub(crate) struct AcceptedConnection {
    pub(crate) fd: OwnedFd,
    /// The listener at which it arrived.
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) peer: Peer,
}
