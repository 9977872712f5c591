//! Reports of a cache: the JSON output, the control protocol, and the input of the text for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_block::cache::{
    BypassReason, Cache, Health, PartCounts, ReadAheadCounts, RequestCounts, Statistics,
};
use larder_block::layout::ocf::OcfVersion;
use larder_block::layout::{ClassId, CoreId, SECTOR_BYTES};
use larder_block::manage::{
    self, CacheLabel, CheckedCore, OpenCache, StartReport, StoredCache, StoredLayout,
};
use larder_block::running::RunningCache;
use larder_device::label::Uuid;
use larder_device::{Device, Identifier, Identity, block_on};
use serde::{Deserialize, Serialize};

use super::latency::LatencyStats;
use super::ublk::{self, Disk};
use crate::args::{CleaningArg, CutOffArg, PromotionArg, ReadAheadArg, RoutingArg};

/// A cache: identity, settings, contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) uuid: String,
    pub(super) layout: String,
    pub(super) line_bytes: u32,
    pub(super) segment_bytes: Option<u32>,
    pub(super) segments: Option<u32>,
    /// Bytes of label and table, before the data.
    pub(super) data_offset_bytes: u64,
    pub(super) capacity_bytes: u64,
    /// Bytes of block metadata that hold the headers; 0: headers have their own blocks.
    #[serde(default)]
    pub(super) header_metadata_bytes: u16,
    pub(super) mode: String,
    pub(super) cores: Vec<CoreStatus>,
    /// Whether the label says that it was stopped cleanly; `None` for a running cache.
    pub(super) was_stopped: Option<bool>,
    /// Whether nothing on the device may be used, since cores were written without it.
    pub(super) is_distrusted: bool,
    /// Kernel disks of its cores, served or not.
    #[serde(default)]
    pub(super) ublk: Vec<Disk>,
    /// `None` if it is not running.
    pub(super) running: Option<Running>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CoreStatus {
    pub(super) core: u16,
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Whether a running cache is without it.
    #[serde(default)]
    pub(super) missing: bool,
    /// Bytes of it that only the cache has; `None` if the cache is not running.
    #[serde(default)]
    pub(super) dirty_bytes: Option<u64>,
    /// The comparison at the start; `None` for a core that was added later, or if the cache is not running.
    #[serde(default)]
    pub(super) compared: Option<ComparedCore>,
    /// Its identifiers: kinds, and values.
    #[serde(default)]
    pub(super) known_by: BTreeMap<String, String>,
}

fn kinds_and_values(identity: &Identity) -> BTreeMap<String, String> {
    let pair = |one: &Identifier| (one.kind.name().to_owned(), one.value.clone());
    identity.identifiers().iter().map(pair).collect()
}

/// The comparison of a core with its fingerprint.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ComparedCore {
    pub(super) blocks: u32,
    pub(super) differing: u32,
    /// Equal blocks that distinguish it from other devices.
    pub(super) distinguishing: u32,
}

/// State of a running cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) seconds: u64,
    pub(super) healthy: bool,
    /// Whether there is a cache device.
    pub(super) attached: bool,
    pub(super) usage: Usage,
    /// Parts of what the start has found that are not loaded yet; counts that include them are upper bounds.
    #[serde(default)]
    pub(super) unloaded_parts: usize,
    pub(super) cut_off: String,
    pub(super) read_ahead: String,
    pub(super) promotion: String,
    pub(super) cleaning: String,
    pub(super) routing: String,
    /// State of routing; `None` if it is off.
    pub(super) routed: Option<RoutingReport>,
    pub(super) bypass: String,
    /// `absorb`, `pressure` or `saturated`: how scarce room is for new dirty data.
    pub(super) pressure: String,
    pub(super) io_classes: usize,
    pub(super) memory_bytes: usize,
    /// Requests in flight.
    pub(super) under_way: usize,
    pub(super) found: StartFindings,
}

/// State of routing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RoutingReport {
    /// `absorb`, `pressure` or `saturated`.
    pub(super) state: String,
    /// Share of the clean hits that go to the core, in thousandths.
    pub(super) core_permille: u16,
}

/// What the start has found.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct StartFindings {
    pub(super) valid_bytes: u64,
    pub(super) dirty_bytes: u64,
    pub(super) read_bytes: u64,
    pub(super) torn: u64,
    pub(super) failed_reads: u64,
    /// Damaged parts of the metadata, and the bytes known to be lost with them.
    pub(super) damaged: u64,
    pub(super) lost_bytes: u64,
    pub(super) compared: u32,
    pub(super) changed: u32,
}

impl StartFindings {
    pub(super) fn of(started: &StartReport) -> Self {
        let bytes = |sectors: u64| sectors * SECTOR_BYTES as u64;
        Self {
            valid_bytes: bytes(started.valid_sectors),
            dirty_bytes: bytes(started.dirty_sectors),
            read_bytes: started.read_bytes,
            torn: started.torn,
            failed_reads: started.failed_reads,
            damaged: started.damaged,
            lost_bytes: bytes(started.lost_sectors),
            compared: started.compared,
            changed: started.changed,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Usage {
    pub(super) capacity_bytes: u64,
    pub(super) occupied_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) clean_bytes: u64,
    pub(super) dirty_bytes: u64,
}

impl Usage {
    pub(super) fn of(cache: &RunningCache) -> Self {
        let (usage, shape) = cache.with(|cache| (cache.usage(), cache.shape()));
        let bytes = |sectors: u64| sectors * SECTOR_BYTES as u64;
        let (occupied_bytes, dirty_bytes) =
            (bytes(usage.valid_sectors), bytes(usage.dirty_sectors));
        Self {
            capacity_bytes: shape.capacity_bytes,
            occupied_bytes,
            free_bytes: shape.capacity_bytes.saturating_sub(occupied_bytes),
            clean_bytes: occupied_bytes.saturating_sub(dirty_bytes),
            dirty_bytes,
        }
    }
}

impl Status {
    /// The status from the device of a stopped cache.
    pub(super) fn of_device(device: &Arc<dyn Device>, seen: &CacheLabel) -> Self {
        let mut own = Self::of_stored(seen.uuid, &seen.stored);
        for (id, identity) in block_on(manage::known_by(device, seen)) {
            if let Some(core) = own.cores.iter_mut().find(|core| core.core == id.get()) {
                core.known_by = kinds_and_values(&identity);
            }
        }
        Self { was_stopped: Some(seen.stored.was_stopped), ublk: own.disks_now(), ..own }
    }

    pub(super) fn of_running(uuid: Uuid, stored: &StoredCache, running: Running) -> Self {
        let own = Self::of_stored(uuid, stored);
        Self { running: Some(running), ublk: own.disks_now(), ..own }
    }

    /// The status of a cache that was just opened.
    pub(super) fn of_opened(opened: &OpenCache) -> Self {
        Self::of_stored(opened.uuid, opened.stored()).with_cores(&opened.cache, opened.checked())
    }

    /// Adds the current state of its cores.
    pub(super) fn with_cores(mut self, cache: &RunningCache, checked: &[CheckedCore]) -> Self {
        let missing = cache.missing();
        for core in &mut self.cores {
            let Some(id) = CoreId::new(core.core) else { continue };
            core.missing = missing.contains(&id);
            let known_by = cache.known_by(id);
            core.known_by = known_by.as_ref().map(kinds_and_values).unwrap_or_default();
            let dirty = cache.with(|cache| cache.dirty_sectors(id));
            core.dirty_bytes = Some(dirty * SECTOR_BYTES as u64);
            let of_start = checked.iter().find(|one| one.id == id);
            core.compared = of_start.map(|one| ComparedCore {
                blocks: one.compared.compared,
                differing: one.compared.differing,
                distinguishing: one.compared.distinguishing,
            });
        }
        self
    }

    fn of_stored(uuid: Uuid, stored: &StoredCache) -> Self {
        let (layout, line_bytes, capacity_bytes) = match &stored.layout {
            StoredLayout::Log(log) => {
                ("log", log.geometry.line_bytes, log.geometry.capacity_bytes())
            }
            StoredLayout::Ocf(ocf) => {
                let name = match ocf.geometry.version {
                    OcfVersion::V22 => "ocf22",
                    OcfVersion::V26 => "ocf26",
                    OcfVersion::Wal => "wal",
                };
                (name, ocf.geometry.line_bytes, ocf.geometry.capacity_bytes())
            }
        };
        let segments = match &stored.layout {
            StoredLayout::Log(log) => Some((log.geometry.segment_bytes, log.geometry.segments)),
            StoredLayout::Ocf(_) => None,
        };
        let data_offset_bytes = match &stored.layout {
            StoredLayout::Log(log) => log.geometry.offset,
            StoredLayout::Ocf(ocf) => ocf.geometry.offset + u64::from(ocf.geometry.pages()) * 4096,
        };
        let cores = stored.cores.iter().map(|core| CoreStatus {
            core: core.id.get(),
            path: core.name.clone(),
            bytes: core.bytes,
            missing: false,
            dirty_bytes: None,
            compared: None,
            known_by: BTreeMap::new(),
        });
        Self {
            uuid: uuid.to_string(),
            layout: layout.to_owned(),
            line_bytes,
            segment_bytes: segments.map(|(bytes, _)| bytes),
            segments: segments.map(|(_, count)| count),
            data_offset_bytes,
            capacity_bytes,
            header_metadata_bytes: stored.layout.metadata_bytes(),
            mode: stored.mode.to_string(),
            cores: cores.collect(),
            was_stopped: None,
            is_distrusted: stored.is_distrusted,
            ublk: Vec::new(),
            running: None,
        }
    }

    /// Kernel disks of its cores at this time.
    pub(super) fn disks_now(&self) -> Vec<Disk> {
        let cores: Vec<u16> = self.cores.iter().map(|core| core.core).collect();
        ublk::of_cache(&self.uuid, &cores)
    }
}

impl Running {
    pub(super) fn of(cache: &RunningCache, seconds: u64, started: &StartReport) -> Self {
        let usage = Usage::of(cache);
        cache.with(|cache| {
            let options = cache.options();
            let cut_off =
                CutOffArg { policy: options.cut_off, threshold_bytes: options.cut_off_bytes };
            Self {
                seconds,
                healthy: cache.health() != Health::Failed,
                attached: cache.health() != Health::Detached,
                usage,
                unloaded_parts: cache.unloaded_parts(),
                cut_off: cut_off.to_string(),
                read_ahead: ReadAheadArg(options.read_ahead).to_string(),
                promotion: PromotionArg(options.promotion).to_string(),
                cleaning: CleaningArg(options.cleaning).to_string(),
                routing: RoutingArg::from(options.routing).to_string(),
                routed: cache.routing().map(|(state, core_permille)| RoutingReport {
                    state: state.name().to_owned(),
                    core_permille,
                }),
                bypass: options.bypass.to_string(),
                pressure: cache.pressure().name().to_owned(),
                io_classes: options.classes.iter().count(),
                memory_bytes: cache.memory_bytes(),
                under_way: cache.under_way(),
                found: StartFindings::of(started),
            }
        })
    }
}

/// Statistics of a cache, in Open CAS's categories, and its costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stats {
    pub(super) usage: Usage,
    pub(super) reads: Requests,
    pub(super) writes: Requests,
    pub(super) core_read_bytes: u64,
    pub(super) core_written_bytes: u64,
    pub(super) cache_read_bytes: u64,
    pub(super) cache_written_bytes: u64,
    /// Part of `cache_written_bytes`: bytes that only describe where data are.
    pub(super) metadata_bytes: u64,
    /// Part of `cache_written_bytes`: data that the cores did not have.
    pub(super) dirty_bytes: u64,
    /// Part of `cache_written_bytes`: data that a core has too.
    pub(super) clean_bytes: u64,
    /// Bytes in the metadata of written blocks; not part of the numbers above.
    pub(super) beside_bytes: u64,
    /// Bytes written to the cache device for each byte that users wrote; `None` if they wrote nothing.
    pub(super) write_amplification: Option<f64>,
    pub(super) core_flushes: u64,
    pub(super) cache_flushes: u64,
    /// Hits that the core has served because the cache device was busy.
    pub(super) core_hits: u64,
    pub(super) read_ahead: ReadAhead,
    /// How often the cache device was found saturated.
    pub(super) saturations: u64,
    /// Bytes destaged for IO classes that were full of dirty data; part of `core_written_bytes`.
    pub(super) destaged_for_classes_bytes: u64,
    pub(super) bypasses: Vec<Bypass>,
    pub(super) errors: Errors,
    pub(super) cores: Vec<CoreStats>,
    /// The configured classes, and others that still have data.
    pub(super) classes: Vec<ClassStats>,
    pub(super) latencies: Vec<LatencyStats>,
}

/// What was read ahead of streams of reads; part of `core_read_bytes`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ReadAhead {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Requests that a core has refused; no user sees these errors.
    pub(super) failed: u64,
}

impl ReadAhead {
    fn of(counts: ReadAheadCounts) -> Self {
        let ReadAheadCounts { requests, bytes, failed } = counts;
        Self { requests, bytes, failed }
    }
}

/// Results of the requests of a core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CoreStats {
    pub(super) core: u16,
    pub(super) reads: Requests,
    pub(super) writes: Requests,
    /// Requests, and reads that might have been kept, that bypassed the cache.
    pub(super) bypasses: u64,
}

/// The size of an IO class, and the results of its requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ClassStats {
    pub(super) class: u8,
    /// Its rule.
    pub(super) name: String,
    pub(super) occupied_bytes: u64,
    /// Most bytes that it may have.
    pub(super) most_bytes: u64,
    pub(super) reads: Requests,
    pub(super) writes: Requests,
    /// Requests, and reads that might have been kept, that bypassed the cache.
    pub(super) bypasses: u64,
}

impl CoreStats {
    fn of(cache: &Cache, core: CoreId) -> Self {
        let PartCounts { reads, writes, bypasses } = cache.core_counts(core);
        let (reads, writes) = (Requests::of(&reads), Requests::of(&writes));
        Self { core: core.get(), reads, writes, bypasses }
    }
}

impl ClassStats {
    fn all(cache: &Cache) -> Vec<Self> {
        let known = |class: &ClassId| cache.options().classes.get(*class).id() == *class;
        let shown = |class: &ClassId| known(class) || cache.class_sectors(*class) > 0;
        ClassId::all().filter(shown).map(|class| Self::of(cache, class, known(&class))).collect()
    }

    fn of(cache: &Cache, class: ClassId, is_known: bool) -> Self {
        let PartCounts { reads, writes, bypasses } = cache.class_counts(class);
        let said = cache.options().classes.get(class);
        Self {
            class: class.get(),
            name: if is_known { said.name().to_string() } else { "none any more".to_owned() },
            occupied_bytes: cache.class_sectors(class) * SECTOR_BYTES as u64,
            most_bytes: said.share().of(cache.shape().capacity_bytes),
            reads: Requests::of(&reads),
            writes: Requests::of(&writes),
            bypasses,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Requests {
    pub(super) hits: u64,
    pub(super) partial_misses: u64,
    pub(super) full_misses: u64,
    pub(super) pass_through: u64,
    pub(super) total: u64,
    pub(super) bytes: u64,
    /// Share of hits; `None` if there were no requests.
    pub(super) hit_ratio: Option<f64>,
}

/// Requests that bypassed the cache for one reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bypass {
    pub(super) reason: String,
    pub(super) requests: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Errors {
    pub(super) cache_reads: u64,
    pub(super) cache_writes: u64,
    pub(super) core_reads: u64,
    pub(super) core_writes: u64,
    pub(super) total: u64,
    pub(super) tried_again: u64,
}

impl Requests {
    fn of(counts: &RequestCounts) -> Self {
        let RequestCounts { hits, partial_misses, full_misses, pass_through, bytes } = *counts;
        let (total, hit_ratio) = (counts.total(), ratio(hits, counts.total()));
        Self { hits, partial_misses, full_misses, pass_through, total, bytes, hit_ratio }
    }
}

impl Stats {
    /// The statistics since the last reset; `resets` resets them.
    pub(super) fn of(cache: &RunningCache, resets: bool) -> Self {
        let usage = Usage::of(cache);
        let latencies = if resets { cache.take_latencies() } else { cache.latencies() };
        let numbers: Vec<CoreId> = cache.cores().collect();
        let (done, cores, classes): (Statistics, Vec<_>, Vec<_>) = cache.with(|cache| {
            let done = *cache.statistics();
            let cores = numbers.iter().map(|core| CoreStats::of(cache, *core)).collect();
            let classes = ClassStats::all(cache);
            if resets {
                cache.reset_statistics();
            }
            (done, cores, classes)
        });
        let bypasses = BypassReason::ALL.into_iter().map(|reason| Bypass {
            reason: reason.name().to_owned(),
            requests: done.bypasses(reason),
        });
        Self {
            usage,
            reads: Requests::of(&done.reads),
            writes: Requests::of(&done.writes),
            core_read_bytes: done.core_read_bytes,
            core_written_bytes: done.core_written_bytes,
            cache_read_bytes: done.cache_read_bytes,
            cache_written_bytes: done.cache_written_bytes,
            metadata_bytes: done.metadata_bytes,
            dirty_bytes: done.dirty_bytes,
            clean_bytes: done.clean_bytes,
            beside_bytes: done.beside_bytes,
            write_amplification: ratio(done.cache_written_bytes, done.writes.bytes),
            core_flushes: done.core_flushes,
            cache_flushes: done.cache_flushes,
            core_hits: done.core_hits,
            read_ahead: ReadAhead::of(done.read_ahead),
            saturations: done.saturations,
            destaged_for_classes_bytes: done.destaged_for_classes_bytes,
            bypasses: bypasses.collect(),
            errors: Errors {
                cache_reads: done.errors.cache_reads,
                cache_writes: done.errors.cache_writes,
                core_reads: done.errors.core_reads,
                core_writes: done.errors.core_writes,
                total: done.errors.total(),
                tried_again: done.errors.tried_again,
            },
            cores,
            classes,
            latencies: LatencyStats::all(&latencies),
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The result of destaging.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Destaged {
    pub(super) dirty_before_bytes: u64,
    pub(super) dirty_bytes: u64,
}

/// Ranges of a core that only the cache has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DirtyCore {
    pub(super) core: u16,
    pub(super) ranges: Vec<DirtyRange>,
    /// There are more than are listed.
    pub(super) has_more: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct DirtyRange {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}
