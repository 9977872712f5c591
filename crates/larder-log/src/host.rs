//! The traits through which a log uses the engine above it.

use larder_device::Error;

use crate::footer::FooterEntry;
use crate::record::NewRecord;
use crate::region::{RegionId, RegionIdentity};

/// The engine's index: the place of the newest record of each hash. The log holds the index's lock when it calls these
/// functions.
///
/// Some indexes know the filling of each entry. Such an index need not remove the entries of regions that are gone in a
/// sweep; it may leave them until a later lookup finds them. Then [`Entries::parts`] is 0, and the functions that
/// remove entries only remove those that they find at once.
pub trait Entries {
    /// Whether the newest record of `hash` in regions of this stream lies at this place.
    fn points_to(&self, stream: usize, hash: u64, region: RegionId, offset: u32) -> bool;

    /// Sets the newest record of the entry's hash: it lies at the entry's place, in this filling for this stream.
    fn set(&mut self, stream: usize, filling: RegionIdentity, entry: &FooterEntry);

    /// Removes `hash` if its newest record lies at this place. Returns whether it did. `stream` is the stream that
    /// fills the region, if it is known: a region from an earlier opening may belong to any stream.
    fn remove_if_at(
        &mut self,
        stream: Option<usize>,
        hash: u64,
        region: RegionId,
        offset: u32,
    ) -> bool;

    /// Removes all entries that point into a region whose footer cannot be read. Returns their number.
    fn remove_region(&mut self, region: RegionId) -> u64;

    /// Number of parts for [`Entries::sweep`].
    fn parts(&self) -> usize;

    /// Removes from one part all entries that point into regions that are gone. Returns their number.
    fn sweep(&mut self, part: usize, is_gone: &dyn Fn(RegionId) -> bool) -> u64;
}

/// Events in a log, for statistics.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Bytes of a region of this stream were sent to the device.
    Wrote {
        /// The stream.
        stream: usize,
        /// The number of bytes.
        bytes: u64,
    },
    /// The write of a piece has ended.
    WriteEnded(Result<(), &'a Error>),
    /// Another operation failed on the device.
    Failed(&'a Error),
    /// A region is completely on flash.
    Sealed,
    /// A write of this region failed, and these of its records are lost.
    Retired(RegionId, &'a [FooterEntry]),
    /// This number of regions are free again after their back-off.
    Revived(u64),
    /// The footer of a sealed region could not be read or was not valid.
    BadFooter,
    /// This number of regions were given up whole, because all their records had expired.
    ExpiredRegions(u64),
    /// This number of records of such regions were removed from the index.
    ExpiredRecords(u64),
    /// A sealed region was reclaimed.
    Reclaimed,
    /// A sealed region was reclaimed whose footer could not be read: this number of records were lost without being
    /// listed.
    ReclaimedUnlisted(u64),
    /// A record of a reclaimed region was appended again; the number is its bytes of key and value.
    Reinserted(u64),
    /// Records of reclaimed regions were lost, because they were not appended again.
    Evicted {
        /// The number of records.
        records: u64,
        /// Those of them that a footer listed; empty unless the host asks for them ([`Host::wants_removals`]).
        listed: &'a [FooterEntry],
    },
    /// This number of bytes was deallocated.
    Deallocated(u64),
}

/// The owner of a log: it stores which fillings are dead, knows the time, and counts events.
pub trait Host: Send + Sync {
    /// The error if the host cannot store that something is dead.
    type Error: Send;

    /// Makes sure that nothing from the fillings of these regions before number `sequence` comes back, not even after a
    /// crash.
    ///
    /// # Errors
    /// If the host cannot store that; a crash may bring the old content back then.
    fn invalidate_before(
        &self,
        regions: &[RegionId],
        sequence: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Filling number `sequence` of a region begins, or no further filling does: the host no longer needs what it knows
    /// about dead content of earlier ones.
    fn filling_began(&self, region: RegionId, sequence: u64);

    /// A filling is completely on flash.
    fn filling_sealed(&self, filling: RegionIdentity);

    /// The current second of the clock by which records expire.
    fn now_s(&self) -> u32;

    /// Reports an event.
    fn note(&self, event: Event<'_>);

    /// Whether the host wants a list of the records that are lost.
    fn wants_removals(&self) -> bool;
}

/// A value that can be appended again as a record.
pub trait AsRecord {
    /// The value as a new record.
    fn as_record(&self) -> NewRecord<'_>;
}

/// A record that is kept when its region is reclaimed.
#[derive(Debug)]
pub struct Kept<R> {
    /// The region it was in.
    pub region: RegionId,
    /// Its offset in that region.
    pub offset: u32,
    /// The stream it goes to.
    pub stream: usize,
    /// The record itself.
    pub record: R,
}

/// Chooses the records of a reclaimed region that are kept.
pub trait Rescue: Sync {
    /// The type that kept records are read into.
    type Record: AsRecord + Send + Sync;

    /// Reads those records of a filling that deserve to stay, as long as there is `room`. Adds them to `kept`, and
    /// returns how much room is left, as [`RecordForm::bytes_in_region`](crate::RecordForm::bytes_in_region) counts it.
    fn rescue(
        &self,
        filling: RegionIdentity,
        listed: &[FooterEntry],
        room: usize,
        kept: &mut Vec<Kept<Self::Record>>,
    ) -> impl Future<Output = usize> + Send;
}
