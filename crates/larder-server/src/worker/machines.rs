//! Interpreters of scripts that are idle, and how many scripts run at a time.

use std::cell::RefCell;

use larder_script::{Budget, Machine};

use super::turns::{Turn, Turns};
use crate::account::KeptBytes;

/// Scripts that a worker runs at a time; others wait.
const RUNNING_MAX: usize = 16;
/// Interpreters that a worker keeps for the next scripts.
const IDLE_MAX: usize = 16;

/// The interpreters of a worker.
pub(crate) struct Machines {
    turns: Turns,
    /// With the number of the tenant whose scripts each has run, and the limit of its memory. The last was used last.
    idle: RefCell<Vec<(usize, usize, Machine)>>,
}

impl Machines {
    pub(super) fn new(tenants: usize) -> Self {
        Self { turns: Turns::new(RUNNING_MAX, tenants), idle: RefCell::default() }
    }

    /// Waits until another script may run.
    pub(crate) async fn turn(&self, tenant: usize, weight: u16) -> Turn {
        self.turns.take(tenant, weight).await
    }

    /// An interpreter for the tenant's script; `None` without memory for one.
    pub(crate) fn take(
        &self,
        tenant: usize,
        bytes_max: usize,
        charge: impl FnOnce() -> KeptBytes,
    ) -> Option<Machine> {
        let mut idle = self.idle.borrow_mut();
        let found =
            idle.iter().rposition(|(owner, bytes, _)| (*owner, *bytes) == (tenant, bytes_max));
        if let Some(place) = found {
            return Some(idle.remove(place).2);
        }
        drop(idle);
        Machine::new(bytes_max, Box::new(ScriptBudget(charge())))
    }

    /// Drops the tenant's idle interpreters, with what they have compiled.
    pub(crate) fn forget(&self, tenant: usize) {
        self.idle.borrow_mut().retain(|(owner, ..)| *owner != tenant);
    }

    /// Keeps an interpreter for the tenant's next script.
    pub(crate) fn give(&self, tenant: usize, bytes_max: usize, machine: Machine) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push((tenant, bytes_max, machine));
    }
}

/// The account of clients' memory, for an interpreter.
struct ScriptBudget(KeptBytes);

impl Budget for ScriptBudget {
    fn grow(&mut self, bytes: usize) -> bool {
        self.0.grow(bytes)
    }

    fn shrink(&mut self, bytes: usize) {
        self.0.shrink(bytes);
    }
}
