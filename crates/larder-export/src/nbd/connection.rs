//! Serves a connection from its beginning to its end.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use event_listener::EventListener;
use futures_util::future::{Either, select};
use larder_device::Clock;
use larder_net::accept_tls;
use larder_net::sockets::{Output, Socket, yield_now};
use larder_net::tls::TlsSocket;

use super::negotiation::{Agreement, Encryption, Negotiation, OPTION_BYTES_MAX, Step};
use super::transmission::Transmission;
use super::withdrawal::Withdrawal;
use super::worker::Worker;

/// A connection whose client has not chosen an export within this time is closed.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);
/// How long we try to send the last replies.
const FAREWELL_TIME: Duration = Duration::from_secs(5);
/// Bytes that are read at a time before requests begin: more than the longest option.
const INPUT_BYTES: usize = OPTION_BYTES_MAX + 1024;
/// Once this number of bytes is to be sent, they are sent before more input is processed.
const SAID_AT: usize = 64 << 10;

/// Where requests follow: on the original socket, or in TLS.
enum Transport<S> {
    Plain(Opening<S>),
    Encrypted(Opening<TlsSocket<S>>),
}

/// What was agreed, the input that follows it, and the output that is not sent yet.
struct Opening<S> {
    socket: S,
    agreement: Agreement,
    input: Vec<u8>,
    output: Output,
}

/// Serves a connection until one side ends it. `look` is a duplicate of its descriptor, for polling.
pub(super) async fn serve<S: Socket>(socket: S, look: OwnedFd, worker: Rc<Worker>) {
    let drained = worker.drained.listen();
    if worker.is_draining() {
        return;
    }
    let deadline = worker.clock.sleep_until(worker.clock.monotonic() + HANDSHAKE_TIME);
    let begun = {
        let beginning = pin!(begin(socket, &worker));
        match select(beginning, select(drained, deadline)).await {
            Either::Left((begun, _)) => begun,
            Either::Right(_) => return,
        }
    };
    match begun {
        Ok(Some(Transport::Plain(opening))) => answer(opening, look, worker).await,
        Ok(Some(Transport::Encrypted(opening))) => answer(opening, look, worker).await,
        Ok(None) | Err(_) => {}
    }
}

/// Performs the handshake, or both handshakes. `None`: it ended without an agreement.
async fn begin<S: Socket>(mut socket: S, worker: &Worker) -> io::Result<Option<Transport<S>>> {
    let encryption =
        if worker.tls.is_some() { Encryption::Required } else { Encryption::Unavailable };
    let mut output = Output::default();
    let mut negotiation = Negotiation::begin(worker.exports.clone(), encryption, output.buffer());
    match shake(&mut socket, &mut negotiation, output).await? {
        HandshakeOutcome::Nothing => Ok(None),
        HandshakeOutcome::Agreed(agreement, input, output) => {
            Ok(Some(Transport::Plain(Opening { socket, agreement, input, output })))
        }
        HandshakeOutcome::Encrypts => {
            let Some(tls) = &worker.tls else { return Ok(None) };
            let buffers = Rc::clone(&worker.buffers);
            let (turn, time) = (&worker.handshake_turn, (&worker.clock as _, None));
            let mut socket = match accept_tls(socket, (tls, buffers), turn, time, &mut ()).await {
                Ok(socket) => socket,
                Err(failure) => {
                    tracing::debug!(?failure, "a TLS handshake failed");
                    return Ok(None);
                }
            };
            let shaken = shake(&mut socket, &mut negotiation, Output::default()).await?;
            let HandshakeOutcome::Agreed(agreement, input, output) = shaken else {
                return Ok(None);
            };
            Ok(Some(Transport::Encrypted(Opening { socket, agreement, input, output })))
        }
    }
}

/// Answers requests until one side ends the connection.
async fn answer<S: Socket>(opening: Opening<S>, look: OwnedFd, worker: Rc<Worker>) {
    let Opening { socket, agreement, input, output } = opening;
    let export = Arc::clone(&agreement.export);
    let entered = export.presences.enter(look);
    let pool = worker.pool.clone();
    let mut transmission = Transmission::new(socket, agreement, entered, pool, (input, output));
    until_it_ends(&mut transmission, &worker, &export.withdrawal).await;
    let deadline = worker.clock.sleep_until(worker.clock.monotonic() + FAREWELL_TIME);
    transmission.leave();
    select(poll_fn(|cx| transmission.poll_farewell(cx)), deadline).await;
}

/// Serves requests until the client or the server ends the connection, or its export is withdrawn.
async fn until_it_ends<S: Socket>(
    transmission: &mut Transmission<S>,
    worker: &Worker,
    withdrawal: &Withdrawal,
) {
    // Register the listeners before the first check, so that no event is missed.
    let mut told: [EventListener; 2] = [worker.drained.listen(), withdrawal.listen()];
    let is_to_end = || worker.is_draining() || withdrawal.is_withdrawn();
    if is_to_end() {
        transmission.ends();
    }
    poll_fn(|cx| {
        if !is_to_end() {
            // Afterwards no notification is needed.
            for one in &mut told {
                let _ = std::future::Future::poll(std::pin::Pin::new(one), cx);
            }
        }
        if is_to_end() {
            transmission.ends();
        }
        transmission.poll(cx)
    })
    .await;
}

/// The result of a handshake.
enum HandshakeOutcome {
    Nothing,
    /// The agreement, the input that follows it, and the output that is not sent yet.
    Agreed(Agreement, Vec<u8>, Output),
    /// It continues in TLS.
    Encrypts,
}

/// Performs the handshake on `socket`, as far as it goes there.
async fn shake<S: Socket>(
    socket: &mut S,
    negotiation: &mut Negotiation,
    mut output: Output,
) -> io::Result<HandshakeOutcome> {
    let mut input: Vec<u8> = Vec::with_capacity(INPUT_BYTES);
    loop {
        let mut at = 0;
        loop {
            if output.len() >= SAID_AT {
                poll_fn(|cx| socket.poll_send(cx, &mut output)).await?;
            }
            match negotiation.step(&input[at..], output.buffer()) {
                Step::Waits => break,
                Step::GoesOn(used) => at += used,
                Step::Agreed(used, agreement) => {
                    input.drain(..at + used);
                    return Ok(HandshakeOutcome::Agreed(agreement, input, output));
                }
                Step::Encrypts(used) => {
                    poll_fn(|cx| socket.poll_send(cx, &mut output)).await?;
                    // An attacker on the way may have injected this input, which would be taken for the client's.
                    let is_alone = input.len() == at + used;
                    return Ok(if is_alone {
                        HandshakeOutcome::Encrypts
                    } else {
                        HandshakeOutcome::Nothing
                    });
                }
                Step::Ends => {
                    poll_fn(|cx| socket.poll_send(cx, &mut output)).await?;
                    poll_fn(|cx| socket.poll_close(cx)).await;
                    return Ok(HandshakeOutcome::Nothing);
                }
            }
        }
        input.drain(..at);
        poll_fn(|cx| socket.poll_send(cx, &mut output)).await?;
        if poll_fn(|cx| socket.poll_receive(cx, &mut input)).await? == 0 {
            return Ok(HandshakeOutcome::Nothing);
        }
        // Let other connections run, even if this client sends without end.
        yield_now().await;
    }
}
