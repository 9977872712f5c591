//! The hosted ring in thousands of interleavings of its steps, over a fake kernel.
//!
//! The fake kernel ends requests in an order that the scheduler chooses. At each end it checks that the memory still
//! belongs to the request: the request holds the only strong reference to the ledger with its number.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use super::hosted::{HostedCore, Role};
use super::kernel::{EnterOutcome, Kernel, WAKE_EVENT, Wait};
use super::wire::Range;
use crate::buffer::IoBuffer;
use crate::error::ErrorKind;
use crate::file_options::FileOptions;
use crate::io::{Io, IoFuture};
use crate::transfer::ledger::Ledger;
use crate::transfer::{Piece, Pieces};

const ORDERS: usize = 3000;

/// A kernel for two devices, which ends requests when [`Fake::work`] runs.
#[derive(Default)]
struct Fake {
    queues: Mutex<Queues>,
    completed: Condvar,
    /// The ledgers that the requests own, by the block that they read.
    owned: Mutex<Vec<Weak<Ledger>>>,
}

#[derive(Default)]
struct Queues {
    submitted: Vec<(u64, u64)>,
    under_way: Vec<(u64, u64)>,
    completed: VecDeque<(u64, i32)>,
    wake_event_armed: bool,
    wake_event_count: u64,
    released: usize,
    closed: bool,
    ended: usize,
    breaks: bool,
}

/// The kernel of a ring, shared with the thread that plays the drive.
struct SharedKernel(Arc<Fake>);

impl Fake {
    fn ended(&self) -> usize {
        self.queues.lock().unwrap().ended
    }

    /// Ends one request that was submitted. Returns `false` if there is none.
    fn work(&self) -> bool {
        let mut queues = self.queues.lock().unwrap();
        if queues.under_way.is_empty() {
            return false;
        }
        let at = shuttle::rand::thread_rng().gen_range(0..queues.under_way.len());
        let (slot, block) = queues.under_way.swap_remove(at);
        let owned = self.owned.lock().unwrap();
        let block = usize::try_from(block).unwrap();
        assert!(owned[block].strong_count() > 0, "the kernel writes to memory that was freed");
        queues.completed.push_back((slot, 4096));
        queues.ended += 1;
        self.completed.notify_all();
        true
    }

    /// Ends requests until `requests` have ended.
    fn drive(self: Arc<Self>, requests: usize) {
        while self.ended() < requests {
            self.work();
            thread::yield_now();
        }
    }

    /// Called with the lock: a signalled wake-up event ends the armed operation.
    fn look_at_wake_event(&self, queues: &mut Queues) {
        if queues.wake_event_armed && queues.wake_event_count > 0 {
            (queues.wake_event_armed, queues.wake_event_count) = (false, 0);
            queues.completed.push_back((WAKE_EVENT, 8));
            self.completed.notify_all();
        }
    }
}

impl Kernel for SharedKernel {
    type Target = ();
    type KernelTables = ();

    fn push(&self, _: &mut (), _: &mut (), what: (u64, &mut Piece, &mut Range)) -> bool {
        let (slot, piece, _) = what;
        let mut queues = self.0.queues.lock().unwrap();
        assert!(!queues.closed);
        queues.submitted.push((slot, piece.offset() / 4096));
        true
    }

    fn arm_wake_event(&self, _: &mut ()) -> bool {
        let mut queues = self.0.queues.lock().unwrap();
        assert!(!queues.closed);
        queues.submitted.push((WAKE_EVENT, 0));
        true
    }

    fn next(&self, _: &mut ()) -> Option<(u64, i32)> {
        self.0.queues.lock().unwrap().completed.pop_front()
    }

    fn untold(&self, _: &mut ()) -> bool {
        !self.0.queues.lock().unwrap().submitted.is_empty()
    }

    fn outcome(&self, _: &mut (), _: &mut Piece, result: i32) -> Option<io::Result<usize>> {
        Some(usize::try_from(result).map_err(io::Error::other))
    }

    fn enter(&self, wait: Wait) -> EnterOutcome {
        let mut queues = self.0.queues.lock().unwrap();
        if queues.breaks {
            return EnterOutcome::Broken;
        }
        for (slot, block) in std::mem::take(&mut queues.submitted) {
            if slot == WAKE_EVENT {
                queues.wake_event_armed = true;
            } else {
                queues.under_way.push((slot, block));
            }
        }
        self.0.look_at_wake_event(&mut queues);
        while wait != Wait::No && queues.completed.is_empty() {
            queues = self.0.completed.wait(queues).unwrap();
        }
        EnterOutcome::Told
    }

    fn wake(&self) {
        let mut queues = self.0.queues.lock().unwrap();
        queues.wake_event_count += 1;
        self.0.look_at_wake_event(&mut queues);
    }

    fn await_wake(&self, _: Option<Duration>) {}

    fn release(&self, _: &mut (), (): ()) {
        self.0.queues.lock().unwrap().released += 1;
    }

    fn abandon(&self, (): ()) {}

    fn close(&self, _: &mut ()) {
        let mut queues = self.0.queues.lock().unwrap();
        assert!(
            queues.under_way.is_empty() && queues.submitted.is_empty() && !queues.wake_event_armed
        );
        queues.closed = true;
    }
}

type Ring = Arc<HostedCore<SharedKernel>>;

fn ring(slots: usize) -> (Ring, Arc<Fake>) {
    let fake = Arc::<Fake>::default();
    (HostedCore::new(SharedKernel(Arc::clone(&fake)), (), slots), fake)
}

/// A read of the next block, which alone owns its ledger.
fn read(ring: &Ring, fake: &Fake, device: u64) -> IoFuture {
    let ledger = Arc::new(Ledger::default());
    let block = {
        let mut owned = fake.owned.lock().unwrap();
        owned.push(Arc::downgrade(&ledger));
        owned.len() as u64 - 1
    };
    try_read(ring, block, device, &ledger).expect("the ring is whole")
}

fn try_read(ring: &Ring, block: u64, device: u64, ledger: &Arc<Ledger>) -> Option<IoFuture> {
    let (future, completer) = IoFuture::pending();
    let io = Io::Read { offset: 4096 * block, buffer: IoBuffer::zeroed(4096) };
    let pieces = Pieces::new(io, completer, 4096, ledger);
    let submitted = ring.submit(device, &FileOptions::default(), |_, _| Some(()), pieces);
    submitted.is_ok().then_some(future)
}

/// Calls the host, as the waker of its executor does.
struct HostCall(Ring);

impl Wake for HostCall {
    fn wake(self: Arc<Self>) {
        self.0.signal();
    }
}

/// The heir of a host that goes.
fn hand_on(ring: Ring) -> Option<thread::JoinHandle<()>> {
    (!ring.close()).then(|| thread::spawn(move || ring.see_out()))
}

/// Futures are dropped, or polled and dropped by another thread, while the kernel is working.
#[test]
fn what_is_dropped_is_adopted() {
    shuttle::check_random(
        || {
            let (ring, fake) = ring(2);
            let drive = thread::spawn({
                let fake = Arc::clone(&fake);
                move || fake.drive(3)
            });
            drop(read(&ring, &fake, 0));
            let theirs = read(&ring, &fake, 0);
            let other = thread::spawn(move || {
                let mut theirs = theirs;
                let _ = Pin::new(&mut theirs).poll(&mut Context::from_waker(Waker::noop()));
            });
            drop(read(&ring, &fake, 0));
            while ring.pending() > 0 {
                ring.turn(None);
            }
            other.join().unwrap();
            drive.join().unwrap();
        },
        ORDERS,
    );
}

/// The host goes while other threads wait for requests that it began, and while a device is dropped.
#[test]
fn what_a_host_hands_on_ends() {
    shuttle::check_random(
        || {
            let (ring, fake) = ring(1);
            let futures = [read(&ring, &fake, 0), read(&ring, &fake, 1)];
            drop(read(&ring, &fake, 0));
            let waiting = futures.map(|future| {
                thread::spawn(move || assert!(shuttle::future::block_on(future).is_ok()))
            });
            let drive = thread::spawn({
                let fake = Arc::clone(&fake);
                move || fake.drive(3)
            });
            let leaving = thread::spawn({
                let ring = Arc::clone(&ring);
                move || ring.leave(1, Role::Visitor)
            });
            let heir = hand_on(ring);
            waiting.into_iter().for_each(|waiter| waiter.join().unwrap());
            leaving.join().unwrap();
            heir.into_iter().for_each(|heir| heir.join().unwrap());
            drive.join().unwrap();
            let queues = fake.queues.lock().unwrap();
            assert!(queues.closed && queues.released == 2);
        },
        ORDERS,
    );
}

/// A device leaves while the host sleeps for another device's request, whose completion the visitor may fetch.
#[test]
fn a_visitor_leaves_no_waiter_asleep() {
    shuttle::check_random(
        || {
            let (ring, fake) = ring(4);
            let (mine, theirs) = (read(&ring, &fake, 0), read(&ring, &fake, 1));
            let drive = thread::spawn({
                let fake = Arc::clone(&fake);
                move || fake.drive(2)
            });
            let leaving = thread::spawn({
                let ring = Arc::clone(&ring);
                move || ring.leave(1, Role::Visitor)
            });
            let mut mine = mine;
            let waker = Waker::from(Arc::new(HostCall(Arc::clone(&ring))));
            let mut context = Context::from_waker(&waker);
            // As a loop of its own does: polls its task, and sleeps if there is nothing to do.
            while Pin::new(&mut mine).poll(&mut context).is_pending() {
                ring.turn(None);
            }
            leaving.join().unwrap();
            drop(theirs);
            drive.join().unwrap();
        },
        ORDERS,
    );
}

/// Threads call the host, which checks what they called for and sleeps again, while a device leaves.
#[test]
fn no_call_is_lost() {
    shuttle::check_random(
        || {
            let (ring, fake) = ring(4);
            let theirs = read(&ring, &fake, 1);
            let calls = Arc::new(shuttle::sync::atomic::AtomicUsize::new(0));
            let callers = [(); 2].map(|()| {
                let (ring, calls) = (Arc::clone(&ring), Arc::clone(&calls));
                thread::spawn(move || {
                    calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    ring.signal();
                })
            });
            let drive = thread::spawn({
                let fake = Arc::clone(&fake);
                move || fake.drive(1)
            });
            let leaving = thread::spawn({
                let ring = Arc::clone(&ring);
                move || ring.leave(1, Role::Visitor)
            });
            while calls.load(std::sync::atomic::Ordering::SeqCst) < 2 {
                ring.turn(None);
            }
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            leaving.join().unwrap();
            drive.join().unwrap();
            drop(theirs);
        },
        ORDERS,
    );
}

/// The ring breaks while the host begins requests, others wait and a device leaves.
#[test]
fn no_waiter_hangs_on_a_broken_ring() {
    shuttle::check_random(
        || {
            let (ring, fake) = ring(1);
            let futures = [read(&ring, &fake, 0), read(&ring, &fake, 1)];
            let waiting = futures.map(|future| {
                thread::spawn(move || match shuttle::future::block_on(future) {
                    Ok(buffer) => assert_eq!(buffer.len(), 4096),
                    Err(failure) => assert_eq!(failure.error.kind(), ErrorKind::Gone),
                })
            });
            let breaking = thread::spawn({
                let fake = Arc::clone(&fake);
                move || {
                    fake.work();
                    fake.queues.lock().unwrap().breaks = true;
                }
            });
            let leaving = thread::spawn({
                let ring = Arc::clone(&ring);
                move || ring.leave(1, Role::Visitor)
            });
            breaking.join().unwrap();
            let late = try_read(&ring, 2, 0, &Arc::default());
            ring.turn(None);
            ring.turn(None);
            waiting.into_iter().for_each(|waiter| waiter.join().unwrap());
            leaving.join().unwrap();
            if let Some(late) = late {
                let failure = shuttle::future::block_on(late).unwrap_err();
                assert_eq!(failure.error.kind(), ErrorKind::Gone);
            }
        },
        ORDERS,
    );
}
