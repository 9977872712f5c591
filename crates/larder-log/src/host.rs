//! What a log asks of the engine above it.

use larder_device::Error;

use crate::footer::FooterEntry;
use crate::record::NewRecord;
use crate::region::{RegionId, RegionIdentity};

/// The engine's index: where the newest record of a hash lies. The log holds its lock when it asks.
///
/// An index that knows of each entry into which filling it points may leave what points into regions that are gone to
/// whoever comes by: then [`Entries::parts`] is 0, and what it removes is only what it finds at once.
pub trait Entries {
    /// Whether the newest record of `hash` in regions of this stream lies at this place.
    fn points_to(&self, stream: usize, hash: u64, region: RegionId, offset: u32) -> bool;

    /// The newest record of the entry's hash lies there, in a filling for this stream.
    fn set(&mut self, stream: usize, filling: RegionIdentity, entry: &FooterEntry);

    /// Removes `hash` if its newest record lies at this place. Says whether it did. `stream` is what fills the region,
    /// if that is known: what an earlier opening has left may be of any.
    fn remove_if_at(
        &mut self,
        stream: Option<usize>,
        hash: u64,
        region: RegionId,
        offset: u32,
    ) -> bool;

    /// Removes all that points into a region whose footer cannot be read. Returns how much that was.
    fn remove_region(&mut self, region: RegionId) -> u64;

    /// How many parts there are to [`Entries::sweep`].
    fn parts(&self) -> usize;

    /// Removes from one part all that points into regions that are gone. Returns how much that was.
    fn sweep(&mut self, part: usize, is_gone: &dyn Fn(RegionId) -> bool) -> u64;
}

/// What happens in a log, for whoever counts.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// So many bytes of a region of this stream were sent to the device.
    Wrote {
        /// Which stream.
        stream: usize,
        /// How many.
        bytes: u64,
    },
    /// A write of a piece has ended.
    WriteEnded(Result<(), &'a Error>),
    /// Something else failed on the device.
    Failed(&'a Error),
    /// A region is on flash, whole.
    Sealed,
    /// A write of this region failed, and these of its records are lost.
    Retired(RegionId, &'a [FooterEntry]),
    /// So many regions whose back-off was over are free.
    Revived(u64),
    /// The footer of a sealed region could not be read or believed.
    BadFooter,
    /// So many regions gave way whole, for all in them had expired.
    ExpiredRegions(u64),
    /// So many records of such regions are out of the index.
    ExpiredRecords(u64),
    /// A sealed region gave way.
    Reclaimed,
    /// The same, and of so many records that counted in it nobody knows which they were: its footer could
    /// not be read.
    ReclaimedUnlisted(u64),
    /// A record that gave way was appended again, with so many bytes of key and value.
    Reinserted(u64),
    /// So many records counted in regions that gave way, and were not appended again.
    Evicted {
        /// How many.
        records: u64,
        /// Those of them that were listed, if somebody wants to know ([`Host::wants_removals`]).
        listed: &'a [FooterEntry],
    },
    /// So many bytes were deallocated.
    Deallocated(u64),
}

/// Whoever runs a log: keeps what is dead, knows the time, and counts.
pub trait Host: Send + Sync {
    /// Why it could not be written down that something is dead.
    type Error: Send;

    /// Makes sure that nothing of fillings of these regions before number `sequence` comes back, not
    /// even after a crash.
    ///
    /// # Errors
    /// If that cannot be written down; a crash may bring it back then.
    fn invalidate_before(
        &self,
        regions: &[RegionId],
        sequence: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Filling number `sequence` of a region, or none after it, begins: what is known to be dead of
    /// earlier ones is needed no more.
    fn filling_began(&self, region: RegionId, sequence: u64);

    /// All of a filling is on flash.
    fn filling_sealed(&self, filling: RegionIdentity);

    /// Second of the clock that records expire by.
    fn now_s(&self) -> u32;

    /// Something happened.
    fn note(&self, event: Event<'_>);

    /// Whether it wants to know which records give way.
    fn wants_removals(&self) -> bool;
}

/// What can be appended again.
pub trait AsRecord {
    /// As a new record.
    fn as_record(&self) -> NewRecord<'_>;
}

/// A record that is kept when its region gives way.
#[derive(Debug)]
pub struct Kept<R> {
    /// Where it was.
    pub region: RegionId,
    /// Where in the region.
    pub offset: u32,
    /// Where it goes.
    pub stream: usize,
    /// What it is.
    pub record: R,
}

/// Which records are kept of a region that gives way.
pub trait Rescue: Sync {
    /// Of what a record was read into.
    type Record: AsRecord + Send + Sync;

    /// Reads those records of a filling that have earned to stay, as long as there is `room`. Adds
    /// them to `kept`, and returns how much room is left, as
    /// [`RecordForm::bytes_in_region`](crate::RecordForm::bytes_in_region) counts it.
    fn rescue(
        &self,
        filling: RegionIdentity,
        listed: &[FooterEntry],
        room: usize,
        kept: &mut Vec<Kept<Self::Record>>,
    ) -> impl Future<Output = usize> + Send;
}
