//! Helpers of the table tests: drives with the sizes of their sources, rows that run in parallel, and a comparison that
//! prints every row before it fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, ManagedSsd, VictimPolicy};

/// A drive with `data_units` units of data and `alpha` times that many units in total, not counting those that are open
/// or in reserve: this is the α of the formulas.
pub(crate) fn drive(
    pages_per_unit: u32,
    data_units: u32,
    alpha: f64,
    handles: u16,
    gc_destination: GcDestination,
    victim_policy: VictimPolicy,
) -> ManagedConfig {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let units = (f64::from(data_units) * alpha).round() as u32;
    let gc_frontiers = match gc_destination {
        GcDestination::PerHandle => handles,
        GcDestination::Shared => 1,
        _ => 0,
    };
    let geometry = Geometry {
        logical_pages: u64::from(pages_per_unit) * u64::from(data_units),
        pages_per_unit,
        // Collection starts at the reserve of two; one of these is the unit that is opened.
        units: units + u32::from(handles + gc_frontiers) + 1,
    };
    ManagedConfig {
        handles,
        gc_destination,
        gc_reserve_units: 2,
        victim_policy,
        ..ManagedConfig::new(geometry)
    }
}

/// Write amplification of `writes` host pages, after the same number of uncounted ones.
pub(crate) fn second_half(
    ssd: &mut ManagedSsd,
    writes: u64,
    mut write: impl FnMut(&mut ManagedSsd),
) -> f64 {
    for _ in 0..writes {
        write(ssd);
    }
    let before = ssd.stats().clone();
    for _ in 0..writes {
        write(ssd);
    }
    ssd.audit().unwrap();
    ssd.stats().dlwa_since(&before).unwrap()
}

/// Applies `run` to every row, in parallel on all cores.
pub(crate) fn on_all_cores<R: Sync, T: Send>(rows: &[R], run: impl Fn(&R) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(row) = rows.get(i) else { return done };
                done.push((i, run(row)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A measured number and its reference.
pub(crate) struct Comparison {
    pub(crate) name: String,
    pub(crate) measured: f64,
    pub(crate) reference: f64,
    pub(crate) percent: f64,
}

/// Prints all rows and fails if one is off by more than its tolerance.
pub(crate) fn compare(rows: impl IntoIterator<Item = Comparison>) {
    let mut off = Vec::new();
    for Comparison { name, measured, reference, percent } in rows {
        let error = (measured / reference - 1.0) * 100.0;
        let line = format!("{name}: {measured:.3}, reference {reference:.3} ({error:+.2} %)");
        println!("{line}");
        if error.is_nan() || error.abs() > percent {
            off.push(line);
        }
    }
    assert!(off.is_empty(), "off by too much:\n{}", off.join("\n"));
}
