//! TLS handshakes of clients of the server: how long they may take, what they may hold, and the user whose certificate
//! they show.

use std::rc::Rc;
use std::task::Context;

use larder_net::sockets::Socket;
use larder_net::tls::{Tls, TlsSocket};
use larder_net::{Handshaking, accept_tls};

use crate::caller::Caller;

/// Makes a handshake, and logs in the user that the client's certificate names. Returns `None` if it failed; the
/// failure is counted.
pub(crate) async fn accept<S: Socket>(
    socket: S,
    tls: &Tls,
    caller: &mut Caller,
) -> Option<TlsSocket<S>> {
    let worker = Rc::clone(&caller.worker);
    let credentials = (tls, Rc::clone(&worker.buffers));
    let time = (&*worker.clock as _, worker.shared.config.idle_timeout);
    let made = accept_tls(socket, credentials, &worker.handshake_turn, time, caller).await;
    caller.is_busy();
    match made {
        Ok(socket) => {
            worker.counters.tls_handshakes.add(1);
            Some(socket)
        }
        Err(failure) => {
            worker.counters.tls_failures.add(1);
            tracing::debug!(peer = %caller.peer, ?failure, "a TLS handshake failed");
            None
        }
    }
}

impl Handshaking for Caller {
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Option<&'static str> {
        if self.is_evicted(cx) {
            return Some("others need the memory");
        }
        self.is_over(None, false, cx).then_some("the server ends, or waits no longer")
    }

    fn may_hold(&mut self, bytes: usize) -> bool {
        self.holds_nothing();
        Self::may_hold(self, 0, 0, bytes)
    }

    fn admit(&mut self, name: Option<&str>) -> Result<(), &'static str> {
        self.holds_nothing();
        let is_known = self.comes_with_certificate(name);
        is_known.then_some(()).ok_or("the client's certificate names no user")
    }
}
