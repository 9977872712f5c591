//! The acceptor thread: gives each connection to the worker with the fewest, or refuses it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use larder_net::sockets::{Peer, Stop};
use larder_net::{accept_until, send_to_least_loaded};

use crate::config::ProtocolKind;
use crate::listener::{Entrance, Listener};
use crate::mailbox::{AcceptedConnection, Letter};
use crate::shared::ServerState;

/// Accepts connections until `stop` is set. The listeners close when it returns.
pub(crate) fn run(listeners: &[Listener], shared: &ServerState, stop: &Stop) -> io::Result<()> {
    let sockets: Vec<_> = listeners.iter().map(Listener::socket).collect();
    accept_until(stop, &sockets, |number, fd, peer| {
        admit(fd, listeners[number].entrance(), peer, shared);
    })
}

/// Gives a connection to a worker, or refuses it if `connections_max` connections are open.
fn admit(fd: OwnedFd, entrance: &Arc<Entrance>, peer: Peer, shared: &ServerState) {
    if shared.connections() >= shared.connections_max() {
        let why: &[u8] = match entrance.protocol {
            // Before the handshake the client cannot read a plain-text answer.
            _ if entrance.is_tls => b"",
            ProtocolKind::Memcached => b"ERROR Too many open connections\r\n",
            ProtocolKind::Resp => b"-ERR max number of clients reached\r\n",
        };
        shared.rejected.fetch_add(1, Ordering::Relaxed);
        // We close the connection whether or not the client gets the message.
        let _ = rustix::net::send(&fd, why, rustix::net::SendFlags::NOSIGNAL);
        return;
    }
    let arrived = AcceptedConnection { fd, entrance: Arc::clone(entrance), peer };
    send_to_least_loaded(&shared.mailboxes, Letter::Arrived(arrived));
}
