//! Observes the requests of a shard's device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event_listener::Event;
use larder_device::{Ending, Observer, RequestKind};

use super::detect::{RequestEnd, Vitals};
use crate::base::signal::ALL;

/// Records how the requests of a device end, for [`detect`](super::detect).
pub(super) struct DeviceHealth {
    vitals: Mutex<Vitals>,
    /// Notified when a request fails.
    alarm: Arc<Event>,
}

impl DeviceHealth {
    pub(super) fn new(alarm: &Arc<Event>) -> Self {
        Self { vitals: Mutex::default(), alarm: Arc::clone(alarm) }
    }

    pub(super) fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for DeviceHealth {
    fn begins(&self, kind: RequestKind, now: Duration) -> u64 {
        self.vitals().begins(kind, now)
    }

    fn ended(&self, number: u64, now: Duration, ending: Ending<'_>) {
        let ended = match ending {
            Ending::Well => RequestEnd::Well,
            Ending::Failed(error) => RequestEnd::Failed(error.kind()),
            Ending::GivenUp => RequestEnd::GivenUp,
        };
        self.vitals().ended(number, now, ended);
        if matches!(ended, RequestEnd::Failed(_)) {
            self.alarm.notify(ALL);
        }
    }
}
