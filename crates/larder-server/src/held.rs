//! The keys that a step of several requests holds ([`crate::steps`]).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_device::Clock;
use larder_net::sockets::yield_now;

use crate::steps::Steps;
use crate::worker::Worker;

/// Looks at a stripe before a step sleeps between two of them: most requests are inside for a microsecond.
const LOOKS: usize = 64;
/// Time between two later looks: requests that wait for flash.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// The stripes that a step holds, until it is dropped.
pub(crate) struct Held {
    worker: Rc<Worker>,
    stripes: RefCell<Vec<usize>>,
}

impl Held {
    /// A step that holds nothing yet. It has the turns of all tenants whose keys it will hold.
    pub(crate) fn new(worker: &Rc<Worker>) -> Rc<Self> {
        Rc::new(Self { worker: Rc::clone(worker), stripes: RefCell::default() })
    }

    /// Holds the key of a tenant that has this name too, as soon as no request works with it.
    pub(crate) async fn holds(&self, tenant: usize, key: &[u8]) {
        let steps = &self.worker.shared.steps;
        let stripe = Steps::stripe(tenant, key);
        if self.stripes.borrow().contains(&stripe) {
            return;
        }
        self.stripes.borrow_mut().push(stripe);
        steps.hold(stripe);
        let mut looks = 0;
        while !steps.is_empty(stripe) {
            looks += 1;
            if looks < LOOKS {
                yield_now().await;
            } else {
                let clock = Arc::clone(&self.worker.clock);
                clock.sleep_until(clock.monotonic() + BETWEEN_LOOKS).await;
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for stripe in self.stripes.take() {
            self.worker.shared.steps.give_back(stripe);
        }
    }
}
