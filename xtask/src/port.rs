//! Ports of this machine for servers that are started here.

use std::net::{Ipv4Addr, TcpListener};

/// The loopback address with this port.
pub(crate) fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A port that nobody has now.
pub(crate) fn free() -> Result<u16, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
    bound.map(|address| address.port()).map_err(|cause| format!("no free port: {cause}"))
}
