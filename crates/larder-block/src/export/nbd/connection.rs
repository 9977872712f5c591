//! A connection from its beginning to its end.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use event_listener::EventListener;
use futures_util::future::{Either, select};
use larder_device::Clock;
use larder_device::sockets::{Output, Socket};

use super::negotiation::{Agreement, Negotiation, OPTION_BYTES_MAX, Step};
use super::transmission::Transmission;
use super::worker::Worker;

/// Who has not chosen an export by then has the connection closed.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);
/// Who does not take its last replies within so long does not get them.
const FAREWELL_TIME: Duration = Duration::from_secs(5);
/// What is read at a time before requests come: more than an option has.
const INPUT_BYTES: usize = OPTION_BYTES_MAX + 1024;
/// When so many bytes are to be said, they are, before more is understood.
const SAID_AT: usize = 64 << 10;

/// Serves a connection until one side ends it. `look` is its descriptor again, to look at.
pub(super) async fn serve<S: Socket>(mut socket: S, look: OwnedFd, worker: Rc<Worker>) {
    let drained = worker.drained.listen();
    if worker.is_draining() {
        return;
    }
    let deadline = worker.clock.sleep_until(worker.clock.monotonic() + HANDSHAKE_TIME);
    let shaken = {
        let shaking = pin!(shake(&mut socket, &worker));
        match select(shaking, select(drained, deadline)).await {
            Either::Left((shaken, _)) => shaken,
            Either::Right(_) => return,
        }
    };
    let Ok(Some((agreement, input, output))) = shaken else { return };
    let entered = agreement.export.presences.enter(look);
    let pool = worker.pool.clone();
    let mut transmission = Transmission::new(socket, agreement, entered, pool, (input, output));
    until_it_ends(&mut transmission, &worker).await;
    let deadline = worker.clock.sleep_until(worker.clock.monotonic() + FAREWELL_TIME);
    transmission.leave();
    select(poll_fn(|cx| transmission.poll_farewell(cx)), deadline).await;
}

/// Serves requests until the client ends the connection, or the server.
async fn until_it_ends<S: Socket>(transmission: &mut Transmission<S>, worker: &Worker) {
    // Made before it is looked: what happens in between is heard.
    let mut drained: EventListener = worker.drained.listen();
    if worker.is_draining() {
        transmission.ends();
    }
    poll_fn(|cx| {
        if !worker.is_draining() {
            // Once it is, nobody has to be told.
            let _ = std::future::Future::poll(std::pin::Pin::new(&mut drained), cx);
        }
        if worker.is_draining() {
            transmission.ends();
        }
        transmission.poll(cx)
    })
    .await;
}

/// Makes the handshake. Returns what was agreed, what has come behind it, and what is still to be said. `None`: it came
/// to nothing.
async fn shake<S: Socket>(
    socket: &mut S,
    worker: &Worker,
) -> io::Result<Option<(Agreement, Vec<u8>, Output)>> {
    let mut output = Output::default();
    let mut negotiation = Negotiation::begin(worker.exports.clone(), output.buffer());
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
                    return Ok(Some((agreement, input, output)));
                }
                Step::Ends => {
                    poll_fn(|cx| socket.poll_send(cx, &mut output)).await?;
                    poll_fn(|cx| socket.poll_close(cx)).await;
                    return Ok(None);
                }
            }
        }
        input.drain(..at);
        poll_fn(|cx| socket.poll_send(cx, &mut output)).await?;
        if poll_fn(|cx| socket.poll_receive(cx, &mut input)).await? == 0 {
            return Ok(None);
        }
        // Who sends without end leaves the others their turns.
        yield_now().await;
    }
}

/// Lets the worker's other connections have their turns.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
