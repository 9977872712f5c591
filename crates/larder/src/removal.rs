//! What leaves the cache, and why: for whoever wants to know of each object.
//!
//! Where an object goes, locks are held. So it is only noted there, and told when the call that it
//! happened in has given everything back: a listener may take its time, panic, or call the cache, and
//! keeps nobody waiting but its caller. Without a listener a note is a look at an `Option`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::KeyHasher;
use crate::tier::Tier;

/// Why an object left the cache, or a tier of it, and which counters of [`Stats`](crate::Stats) count the
/// same.
///
/// ```
/// use larder::RemovalReason;
///
/// assert_ne!(RemovalReason::Evicted, RemovalReason::RegionReclaimed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemovalReason {
    /// A newer value took its place in DRAM (`replaced_objects`). What is replaced while only flash has it
    /// is not told: nobody reads it.
    Replaced,
    /// Somebody deleted it, or set a value in its place that no tier can hold (`deleted_objects`).
    Deleted,
    /// Its time was over (`expired`), or that of all of its region (`loc_expired_objects`, `array_expired_regions`).
    /// Told each time that it is found, which may be twice where it is found on flash.
    Expired,
    /// DRAM evicted it, and there is no flash, or it was for DRAM only (`dram_evicted_objects`).
    Evicted,
    /// DRAM evicted it, and the admission policy turned it away (`rejected_by_admission_objects`, which
    /// also counts what a flush offers in vain and DRAM keeps).
    RejectedByAdmission,
    /// DRAM evicted it, and no flash engine can hold objects of its size (`rejected_too_large_objects`,
    /// as above).
    RejectedTooLarge,
    /// DRAM evicted it, and writes were suspended (`rejected_in_outage_objects`, as above).
    RejectedInOutage,
    /// It was to be stored, and values in use pin all of DRAM (`rejected_dram_pinned_objects`).
    RejectedDramPinned,
    /// It was to be stored, and too much was on its way to flash for too long
    /// (`rejected_demotions_objects`).
    RejectedDemotions,
    /// Its small-object bucket dropped it for a newer object (`soc_evicted_objects`).
    BucketOverflow,
    /// The small-object log dropped it (`soc_log_dropped_objects`).
    LogDropped,
    /// It went with its region, which was reclaimed or given up (`loc_evicted_objects`, `array_evicted_objects`).
    RegionReclaimed,
    /// A device error: a write failed and took it along (`lost_to_device_errors_objects`). If it was
    /// sent by a flush, DRAM still has it.
    Lost,
    /// A close had no time for it ([`Larder::close_within`](crate::Larder::close_within);
    /// `left_out_objects`).
    LeftOut,
    /// What flash gave back is not what was written, or a part of it is missing (among
    /// `loc_bad_records`, `loc_incomplete_objects`, `array_bad_records` and `array_incomplete_objects`), or its
    /// table had no room (`array_table_overflows`).
    Damaged,
}

/// An object that left.
///
/// ```
/// use larder::{Removal, RemovalReason};
///
/// fn name(removal: &Removal<'_>) -> String {
///     match (removal.key, removal.hash) {
///         (Some(key), _) => String::from_utf8_lossy(key).into_owned(),
///         (None, Some(hash)) => format!("{hash:x}"),
///         (None, None) => "unknown".to_owned(),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removal<'a> {
    /// Its key. `None` where only its hash is known: of what goes with a region
    /// ([`RemovalReason::RegionReclaimed`], [`RemovalReason::Lost`]), be it a whole object or a part of a value
    /// longer than a region.
    pub key: Option<&'a [u8]>,
    /// Hash of the key (XXH3, 64 bits, under the seed of the cache: see
    /// [`Config::hash_seed`](crate::Config::hash_seed)). `None` where not even that is known: of regions that
    /// expire whole, and of those whose footer cannot be read. Not for the eyes of clients: from hashes of
    /// keys that they chose they could learn to make keys that share a place.
    pub hash: Option<u64>,
    /// The tier that it left.
    pub tier: Tier,
    /// Key and value together, in bytes; where the key is not known, the object's record on flash. `None`
    /// where it is not known.
    pub bytes: Option<u64>,
    /// Why.
    pub reason: RemovalReason,
}

/// Who is told of each object that leaves the cache: a function, for
/// [`Config::removal_listener`](crate::Config::removal_listener).
///
/// It is called on the thread of the call in which the object left, before that returns, or of another call
/// beside it, in no order between threads. What leaves while the cache's own thread sends it to flash
/// ([`Demotions::Thread`](crate::config::Demotions::Thread)) is told with a later call that changes
/// something or misses DRAM, on the thread of that call; with a close at the latest. No lock of the cache is
/// held: it may call the cache, but for waiting inside a future of its own executor for one that runs on the
/// same thread. What such a call removes is told when the listener has
/// returned. If it panics, the panic goes to that caller; the cache is whole, and goes on to tell the rest
/// with the next call.
///
/// What [`Larder::clear`](crate::Larder::clear) empties is not told, nor what a crash has left and the
/// opening finds void.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
/// use larder::{Config, Larder, RealClock, RemovalListener, RemovalReason, block_on};
///
/// let replaced = Arc::new(AtomicU64::new(0));
/// let count = Arc::clone(&replaced);
/// let listener = RemovalListener::new(move |removal| {
///     assert_eq!((removal.key, removal.reason), (Some(&b"bread"[..]), RemovalReason::Replaced));
///     count.fetch_add(1, Ordering::Relaxed);
/// });
/// let config = Config { removal_listener: Some(listener), ..Config::default() };
/// let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
/// block_on(cache.set(b"bread", b"rye", None))?;
/// block_on(cache.set(b"bread", b"oat", None))?;
/// assert_eq!(replaced.load(Ordering::Relaxed), 1);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Clone)]
pub struct RemovalListener(Arc<dyn Fn(Removal<'_>) + Send + Sync>);

impl RemovalListener {
    /// Tells `listen` of each.
    ///
    /// ```
    /// use larder::RemovalListener;
    ///
    /// let listener = RemovalListener::new(|removal| println!("{removal:?}"));
    /// assert_eq!(listener, listener.clone());
    /// ```
    pub fn new(listen: impl Fn(Removal<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listen))
    }
}

impl fmt::Debug for RemovalListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemovalListener").finish_non_exhaustive()
    }
}

/// The same if it is the same function.
impl PartialEq for RemovalListener {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// As much as is known of who left.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Key(Box<[u8]>),
    Hash(u64),
    Nobody,
}

#[derive(Debug)]
struct Note {
    whose: Whose,
    tier: Tier,
    bytes: Option<u64>,
    reason: RemovalReason,
}

/// What has left and was not told yet.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Who listens, and how keys are hashed.
    listener: Option<(RemovalListener, KeyHasher)>,
    notes: Mutex<VecDeque<Note>>,
}

impl Removals {
    pub(crate) fn new(listener: Option<RemovalListener>, hasher: KeyHasher) -> Self {
        Self { listener: listener.map(|listener| (listener, hasher)), notes: Mutex::default() }
    }

    /// Whether anybody listens.
    #[inline]
    pub(crate) fn wanted(&self) -> bool {
        self.listener.is_some()
    }

    /// The object of this key has left. `bytes` of key and value, 0 if they are not known.
    #[inline]
    pub(crate) fn key(&self, reason: RemovalReason, tier: Tier, key: &[u8], bytes: usize) {
        if self.wanted() {
            self.note(Whose::Key(key.into()), reason, tier, bytes);
        }
    }

    /// An object of this hash has left.
    #[inline]
    pub(crate) fn hash(&self, reason: RemovalReason, tier: Tier, hash: u64, bytes: usize) {
        if self.wanted() {
            self.note(Whose::Hash(hash), reason, tier, bytes);
        }
    }

    /// So many have left of which nothing is known.
    pub(crate) fn unknown(&self, reason: RemovalReason, tier: Tier, count: u64) {
        if self.wanted() {
            (0..count).for_each(|_| self.note(Whose::Nobody, reason, tier, 0));
        }
    }

    #[cold]
    fn note(&self, whose: Whose, reason: RemovalReason, tier: Tier, bytes: usize) {
        let bytes = (bytes > 0).then_some(bytes as u64);
        self.lock().push_back(Note { whose, tier, bytes, reason });
    }

    /// Tells what was noted. The caller holds nothing of the cache.
    #[inline]
    pub(crate) fn tell(&self) {
        if let Some((RemovalListener(listen), hasher)) = &self.listener {
            self.tell_to(&**listen, *hasher);
        }
    }

    fn tell_to(&self, listen: &(dyn Fn(Removal<'_>) + Send + Sync), hasher: KeyHasher) {
        let Some(_notifying) = Notifying::begin(self) else { return };
        // One at a time: if the listener panics, the others wait for the next call.
        while let Some(note) = self.next() {
            let Note { whose, tier, bytes, reason } = note;
            let (key, hash) = match &whose {
                Whose::Key(key) => (Some(&**key), Some(hasher.hash(key).0)),
                Whose::Hash(hash) => (None, Some(*hash)),
                Whose::Nobody => (None, None),
            };
            listen(Removal { key, hash, tier, bytes, reason });
        }
    }

    fn next(&self) -> Option<Note> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As long as it lives, this thread tells the listener of a cache, and a call of the cache by the listener
/// leaves what it removes to it: so a listener that calls the cache does not go ever deeper.
struct Notifying;

thread_local! {
    static NOTIFYING: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Notifying {
    fn begin(whose: &Removals) -> Option<Self> {
        let id = std::ptr::from_ref(whose).addr();
        NOTIFYING.with_borrow_mut(|notifying| {
            let is_inside = notifying.contains(&id);
            (!is_inside).then(|| {
                notifying.push(id);
                Self
            })
        })
    }
}

impl Drop for Notifying {
    fn drop(&mut self) {
        NOTIFYING.with_borrow_mut(Vec::pop);
    }
}
