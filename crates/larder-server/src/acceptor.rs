//! The acceptor thread: accepts connections and gives each to the worker with the fewest connections.
//!
//! We do not use `SO_REUSEPORT`: the kernel distributes by a hash, and 50 connections on two workers rarely split
//! evenly.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::sockets::{Peer, Stop, wait_for};

use crate::config::ProtocolKind;
use crate::listener::{Entrance, Listener};
use crate::mailbox::{Arrived, Letter};
use crate::shared::Shared;

/// Pause before the next `accept` after the system has run out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stop` is set. The listeners close when it returns.
pub(crate) fn run(listeners: &[Listener], shared: &Arc<Shared>, stop: &Stop) -> io::Result<()> {
    let all: Vec<&Listener> = listeners.iter().collect();
    while !stop.is_set() {
        for number in wait_for(&all, stop)? {
            accept_all(&listeners[number], shared);
        }
    }
    Ok(())
}

fn accept_all(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        match listener.accept() {
            Ok(Some((fd, peer))) => admit(fd, listener.entrance(), peer, shared),
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted; is the limit of open files too low?");
                return std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Gives a connection to a worker, or refuses it if `connections_max` connections are open.
fn admit(fd: OwnedFd, entrance: &Arc<Entrance>, peer: Peer, shared: &Arc<Shared>) {
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
    let fewest = shared.mailboxes.iter().min_by_key(|mailbox| mailbox.load.load(Ordering::Relaxed));
    let mailbox = fewest.expect("there is a worker");
    mailbox.load.fetch_add(1, Ordering::Relaxed);
    mailbox.send(Letter::Arrived(Arrived { fd, entrance: Arc::clone(entrance), peer }));
}
