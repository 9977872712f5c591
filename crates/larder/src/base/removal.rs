//! Reports each object that leaves the cache, and why, to a listener.
//!
//! Objects leave while locks are held. So the removal is only noted there; the listener is called when the operation
//! has released all locks. A listener may be slow, panic or call the cache, and delays only the caller of that
//! operation. Without a listener a note costs a check of an `Option`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::key::KeyHasher;
use crate::base::tier::Tier;

/// Why an object left the cache, or a tier of it. In parentheses: the counters of [`Stats`](crate::Stats) that count
/// the same.
///
/// ```
/// use larder::RemovalReason;
///
/// assert_ne!(RemovalReason::Evicted, RemovalReason::RegionReclaimed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemovalReason {
    /// A newer value took its place in DRAM (`replaced_objects`). Values that only flash holds are replaced without a
    /// report, since the cache does not read them.
    Replaced,
    /// A caller deleted it, or set a value in its place that no tier can hold (`deleted_objects`).
    Deleted,
    /// It expired (`expired`), or all of its region did (`loc_expired_objects`, `array_expired_regions`). Reported
    /// each time that it is found, which may be twice for an object found on flash.
    Expired,
    /// DRAM evicted it, and there is no flash, or it was for DRAM only (`dram_evicted_objects`).
    Evicted,
    /// DRAM evicted it, and the admission policy rejected it (`rejected_by_admission_objects`, which also counts
    /// objects that a flush offers in vain and that DRAM keeps).
    RejectedByAdmission,
    /// DRAM evicted it, and no flash engine can hold objects of its size (`rejected_too_large_objects`, as above).
    RejectedTooLarge,
    /// DRAM evicted it while writes were suspended (`rejected_in_outage_objects`, as above).
    RejectedInOutage,
    /// It was to be stored, but values in use pin all of DRAM (`rejected_dram_pinned_objects`).
    RejectedDramPinned,
    /// It was to be stored, but too much was on its way to flash for too long (`rejected_demotions_objects`).
    RejectedDemotions,
    /// Its small-object bucket dropped it for a newer object (`soc_evicted_objects`).
    BucketOverflow,
    /// The small-object log dropped it (`soc_log_dropped_objects`).
    LogDropped,
    /// It went with its region, which was reclaimed or given up (`loc_evicted_objects`, `array_evicted_objects`).
    RegionReclaimed,
    /// Lost to a failed write (`lost_to_device_errors_objects`). If a flush had sent it, DRAM still has it.
    Lost,
    /// A close had no time to write it ([`Larder::close_within`](crate::Larder::close_within); `left_out_objects`).
    LeftOut,
    /// Its data on flash is not what was written, or a part of it is missing (among `loc_bad_records`,
    /// `loc_incomplete_objects`, `array_bad_records` and `array_incomplete_objects`), or its table had no room
    /// (`array_table_overflows`).
    Damaged,
}

/// An object that left the cache.
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
    /// Its key. `None` if only its hash is known: for objects that went with a region
    /// ([`RemovalReason::RegionReclaimed`], [`RemovalReason::Lost`]), both whole objects and parts of a value longer
    /// than a region.
    pub key: Option<&'a [u8]>,
    /// Hash of the key (XXH3, 64 bits, with the seed of the cache: see
    /// [`Config::hash_seed`](crate::Config::hash_seed)). `None` if even that is not known: for regions that expire
    /// whole, and those whose footer cannot be read. Do not show it to clients: from the hashes of keys that they
    /// chose they could learn to make keys that collide.
    pub hash: Option<u64>,
    /// The tier that it left.
    pub tier: Tier,
    /// Bytes of key and value; if the key is not known, bytes of the object's record on flash. `None` if not known.
    pub bytes: Option<u64>,
    /// The reason.
    pub reason: RemovalReason,
}

/// A function that is called for each object that leaves the cache, for
/// [`Config::removal_listener`](crate::Config::removal_listener).
///
/// It runs on the thread of the call in which the object left, before that call returns, or on the thread of a
/// concurrent call. There is no order between threads. Objects that the cache's own thread sends to flash
/// ([`Demotions::Thread`](crate::config::Demotions::Thread)) are reported by a later call that changes something or
/// misses DRAM, on the thread of that call; at the latest by a close. The cache holds no lock while it runs. It may
/// call the cache, but must not block inside a future of its own executor on another future of the same thread. What
/// such a call removes is reported after the listener has returned. If the listener panics, the panic reaches that
/// caller; the cache stays intact and reports the rest with the next call.
///
/// What [`Larder::clear`](crate::Larder::clear) removes is not reported, nor what an opening after a crash finds
/// void.
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
    /// Calls `listen` for each object.
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

/// Equal if both are the same function.
impl PartialEq for RemovalListener {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What is known of the identity of a removed object.
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

/// Removals that are not reported yet.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Whether there is a listener, so that a note without one costs a load.
    is_wanted: AtomicBool,
    /// The listener.
    listener: Mutex<Option<RemovalListener>>,
    /// The hash of the cache.
    hasher: Option<KeyHasher>,
    notes: Mutex<VecDeque<Note>>,
}

impl Removals {
    pub(crate) fn new(listener: Option<RemovalListener>, hasher: KeyHasher) -> Self {
        let is_wanted = AtomicBool::new(listener.is_some());
        Self {
            is_wanted,
            listener: Mutex::new(listener),
            hasher: Some(hasher),
            notes: Mutex::default(),
        }
    }

    /// Reports to this listener from now on. Without one, what was not reported yet is forgotten.
    pub(crate) fn set(&self, listener: Option<RemovalListener>) {
        let mut current = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(listener.is_some(), Ordering::Relaxed);
        if listener.is_none() {
            self.lock().clear();
        }
        *current = listener;
    }

    /// Whether there is a listener.
    #[inline]
    pub(crate) fn wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Notes that the object of this key has left. `bytes` of key and value, 0 if not known.
    #[inline]
    pub(crate) fn key(&self, reason: RemovalReason, tier: Tier, key: &[u8], bytes: usize) {
        if self.wanted() {
            self.note(Whose::Key(key.into()), reason, tier, bytes);
        }
    }

    /// Notes that an object of this hash has left.
    #[inline]
    pub(crate) fn hash(&self, reason: RemovalReason, tier: Tier, hash: u64, bytes: usize) {
        if self.wanted() {
            self.note(Whose::Hash(hash), reason, tier, bytes);
        }
    }

    /// Notes that `count` objects have left of which nothing is known.
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

    /// Reports the noted removals. The caller holds no lock of the cache.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.wanted() {
            self.tell_all();
        }
    }

    fn tell_all(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(RemovalListener(listen)) = listener else { return };
        let Some(hasher) = self.hasher else { return };
        let Some(_notifying) = Notifying::begin(self) else { return };
        // Take one at a time: if the listener panics, the others wait for the next call.
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

/// Marks that this thread is reporting to the listener of a cache. A call of the cache from that listener only notes
/// what it removes, so that the recursion does not get ever deeper.
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
