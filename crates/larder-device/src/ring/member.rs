//! The connection between a device and the rings that threads host.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::fixed::BufferGrant;
use super::host::{here, role_in};
use super::hosted::HostedCore;
use super::linux::{Guest, Linux};
use super::wire::AnyWire;
use crate::file_options::FileOptions;
use crate::transfer::Pieces;

/// A device, and the hosted rings that it has joined. It joins a ring with its first request from the thread that hosts
/// the ring.
pub(crate) struct Member {
    number: u64,
    guest: Arc<Guest>,
    options: FileOptions,
    rings: Mutex<Vec<Weak<HostedCore<Linux>>>>,
}

impl Member {
    pub(crate) fn new(wire: Arc<dyn AnyWire>, file: &Arc<File>, options: &FileOptions) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let guest = Guest {
            wire,
            file: Arc::clone(file),
            registered_buffers: options.registered_buffers,
            fixed_pieces: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        };
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            guest: Arc::new(guest),
            options: options.clone(),
            rings: Mutex::default(),
        }
    }

    /// Takes a request if this thread hosts a ring that serves the device, else gives it back.
    pub(crate) fn submit(&self, pieces: Pieces) -> Result<(), Pieces> {
        let Some(ring) = here() else { return Err(pieces) };
        let register = |kernel: &Linux, tables: &mut _| {
            let target = kernel.admit(tables, &self.guest)?;
            let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
            rings.retain(|other| other.strong_count() > 0);
            rings.push(Arc::downgrade(&ring));
            Some(target)
        };
        ring.submit(self.number, &self.options, register, pieces)
    }

    fn rings(&self) -> Vec<Arc<HostedCore<Linux>>> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether the file is registered with all these rings.
    pub(crate) fn registered_file(&self) -> bool {
        let known =
            |ring: &Arc<HostedCore<Linux>>| ring.look(self.number, |_, it| it.registered_file());
        self.rings().iter().all(|ring| known(ring).unwrap_or(true))
    }

    /// Whether all these rings were granted registered buffers.
    pub(crate) fn registered_buffers(&self) -> bool {
        let granted =
            |ring: &Arc<HostedCore<Linux>>| ring.look(self.number, |tables, _| tables.granted());
        let all = |granted: Option<BufferGrant>| granted.is_none_or(|it| it.all);
        self.rings().iter().all(|ring| all(granted(ring)))
    }

    /// Pieces that went to these rings with a registered buffer.
    pub(crate) fn fixed_pieces(&self) -> u64 {
        self.guest.fixed_pieces.load(Ordering::Relaxed)
    }

    /// Waits until these rings have no request of the device in flight. Nothing must be submitted any more. Returns
    /// `false` if one of them was broken: the kernel may then still be working on the file.
    pub(crate) fn leave(&self) -> bool {
        self.rings().iter().for_each(|ring| ring.leave(self.number, role_in(ring)));
        !self.guest.broken.load(Ordering::SeqCst)
    }
}
