//! Damage that a start has found: deviations from the state in which the cache was left.
//!
//! After an orderly stop nothing was in flight, so every deviation from the label is damage. After a crash, a log ends
//! where the cache stopped, and torn writes at its end are not damage. But a sector of a collision table is always
//! written whole, so a torn one is damage. A refused read counts too, because its content is unknown.

use super::stored::StoredCache;
use crate::layout::{CoreId, Layout, SECTOR_BYTES, Span};
use crate::{Error, ErrorKind};

/// Most ranges that are named per core.
const RANGES_NAMED: usize = 4;

/// The damaged parts of the metadata, and damaged dirty data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Damaged sectors of a table.
    pub(super) sectors: u64,
    /// Lines that a table assigns twice, or to an unknown core.
    pub(super) refused_lines: u64,
    /// Reads that the device refused.
    pub(super) failed_reads: u64,
    /// Batches of a log that were complete before a crash and are missing.
    pub(super) missing_batches: u64,
    /// A log does not match the state that the stop recorded.
    pub(super) is_log: bool,
    /// Ranges of cores whose data is damaged, as far as known.
    pub(super) torn: Vec<Span>,
    /// Dirty data that is not what was written.
    pub(super) unsound: Vec<Span>,
}

/// The losses of a core, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostOfCore {
    pub(super) core: CoreId,
    pub(super) name: String,
    /// Sectors that were dirty, and the number of them that are still there.
    pub(super) sectors: (u64, u64),
}

impl Damage {
    pub(super) fn is_some(&self) -> bool {
        *self != Self::default()
    }

    /// The number of damaged parts.
    pub(super) fn parts(&self) -> u64 {
        self.sectors
            + self.refused_lines
            + self.failed_reads
            + self.missing_batches
            + u64::from(self.is_log)
            + self.unsound.len() as u64
    }

    /// Sectors of dirty data that are not what was written.
    pub(super) fn unsound_sectors(&self) -> u64 {
        self.unsound.iter().map(|span| u64::from(span.sectors)).sum()
    }

    /// The losses of the cores, compared with what an orderly stop has recorded. Everything found must be loaded.
    pub(super) fn lost(&self, stored: &StoredCache, layout: &dyn Layout) -> Vec<LostOfCore> {
        let Some(left) = stored.left.as_ref().filter(|_| self.is_some()) else { return Vec::new() };
        let of = |(core, dirty): &(CoreId, u64)| {
            let found = layout.dirty_sectors(*core);
            let name = stored.cores.iter().find(|known| known.id == *core)?.name.clone();
            (found < *dirty).then_some(LostOfCore { core: *core, name, sectors: (*dirty, found) })
        };
        left.iter().filter_map(of).collect()
    }

    /// The error that explains why such a cache is not started.
    pub(super) fn refusal(&self, device: &str, was_stopped: bool, lost: &[LostOfCore]) -> Error {
        let mut parts: Vec<String> = Vec::new();
        let mut count = |count: u64, what: &str| {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        };
        count(self.sectors, "sectors of its table are not what was written there");
        count(self.refused_lines, "lines of its table are of no core, or of one twice");
        count(self.failed_reads, "reads of what describes its data were refused");
        count(self.missing_batches, "batches of its log were complete and are gone");
        count(self.unsound.len() as u64, "pieces of dirty data are not what their checksums say");
        if self.is_log {
            parts.push("its log is not as the stop has left it".to_owned());
        }
        let how = if was_stopped { "stopped in order" } else { "not stopped in order" };
        let message = format!(
            "{device}: the cache was {how}, and is damaged: {}; {}{}. Nothing was written; if that may be lost, give \
             --accept-loss (accept_loss in OpenOptions): all that is whole is taken then",
            parts.join(", "),
            said_of_cores(lost, was_stopped, self.parts() == self.unsound.len() as u64),
            said_of_ranges([&self.torn[..], &self.unsound].concat()),
        );
        Error::new(ErrorKind::Damaged, message)
    }
}

fn said_of_cores(lost: &[LostOfCore], was_stopped: bool, is_all_known: bool) -> String {
    let sector = SECTOR_BYTES as u64;
    let of = |LostOfCore { core, name, sectors: (before, found) }: &LostOfCore| {
        format!(
            "of core {} ({name}) {} bytes are gone that only the cache had ({} of {} are there)",
            core.get(),
            (before - found) * sector,
            found * sector,
            before * sector
        )
    };
    match lost {
        [] if is_all_known => "nothing else is gone".to_owned(),
        [] if was_stopped => {
            "as many bytes as only the cache had are there, but some may be older ones".to_owned()
        }
        [] => "what only the cache had may be gone, of any core".to_owned(),
        lost => lost.iter().map(of).collect::<Vec<_>>().join(", "),
    }
}

fn said_of_ranges(mut torn: Vec<Span>) -> String {
    torn.sort_unstable();
    if torn.is_empty() {
        return String::new();
    }
    let named = torn.iter().take(RANGES_NAMED);
    let named: Vec<String> = named
        .map(|span| format!("core {} at {}+{}", span.core.get(), span.offset(), span.bytes()))
        .collect();
    let more = if torn.len() > RANGES_NAMED { ", …" } else { "" };
    format!("; data are damaged of {}{more}", named.join(", "))
}
