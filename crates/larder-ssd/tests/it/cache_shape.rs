//! The writes of a flash cache: small objects uniformly at random over a part of the drive, large ones as a ring over
//! the rest. Compared with an event simulation of 256 pages per unit.
//!
//! Without separation the result depends on the position of the ring's pointer and on how the two streams interleave,
//! by 15 % either way; with one handle per stream it does not.

use larder_ssd::managed::{GcDestination, ManagedSsd, VictimPolicy};

use super::support::{Comparison, compare, drive, on_all_cores, second_half};

const DATA_UNITS: u32 = 1_500;
/// Number of times that the drive is overwritten before the measurement, and again during it.
const PASSES_EACH_HALF: u64 = 7;

/// The share of the small objects, in percent of the pages and in percent of the writes.
#[derive(Clone, Copy)]
struct Shape {
    alpha: f64,
    soc_pages: u64,
    soc_writes: u64,
}

fn cache_shaped(shape: Shape, handles: u16, destination: GcDestination) -> f64 {
    let config = drive(256, DATA_UNITS, shape.alpha, handles, destination, VictimPolicy::Greedy);
    let pages = config.geometry.logical_pages;
    let small = pages * shape.soc_pages / 100;
    let mut ssd = ManagedSsd::new(config).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let large_handle = handles - 1;
    ssd.write(0, small, 0).unwrap();
    ssd.write(small, pages - small, large_handle).unwrap();
    let mut pointer = small;
    second_half(&mut ssd, PASSES_EACH_HALF * pages, |ssd| {
        if rng.u64(..100) < shape.soc_writes {
            ssd.write(rng.u64(..small), 1, 0).unwrap();
        } else {
            ssd.write(pointer, 1, large_handle).unwrap();
            pointer = if pointer + 1 == pages { small } else { pointer + 1 };
        }
    })
}

/// α, pages and writes of the small objects in percent, and the references: mixed, moved data apart, initially
/// isolated, persistently isolated.
type Row = (f64, u64, u64, [f64; 4]);

fn check(rows: &[Row]) {
    use GcDestination::{HostFrontier, PerHandle, Shared};
    let columns = [
        ("mixed", 1, HostFrontier, 15.0),
        ("moved apart", 1, Shared, 15.0),
        ("initially isolated", 2, Shared, 3.0),
        ("persistently isolated", 2, PerHandle, 3.0),
    ];
    let cells: Vec<_> = rows
        .iter()
        .flat_map(|&(alpha, soc_pages, soc_writes, references)| {
            let shape = Shape { alpha, soc_pages, soc_writes };
            columns.into_iter().zip(references).map(move |(column, w)| (shape, column, w))
        })
        .collect();
    let measured = on_all_cores(&cells, |&(shape, (_, handles, destination, _), _)| {
        cache_shaped(shape, handles, destination)
    });
    compare(cells.iter().zip(measured).map(|(&(shape, column, reference), measured)| {
        let Shape { alpha, soc_pages, soc_writes } = shape;
        let name = format!("alpha={alpha} soc {soc_pages} % share {soc_writes} % {}", column.0);
        Comparison { name, measured, reference, percent: column.3 }
    }));
}

#[test]
fn half_of_the_writes_small_at_7_per_cent_over_provisioning() {
    check(&[
        (1.07, 4, 50, [7.68, 5.81, 1.042, 1.042]),
        (1.07, 10, 50, [6.15, 5.71, 1.260, 1.240]),
        (1.07, 20, 50, [5.58, 5.64, 1.765, 1.629]),
        (1.07, 40, 50, [5.25, 5.47, 2.675, 2.397]),
        (1.07, 64, 50, [5.52, 5.10, 3.670, 3.257]),
    ]);
}

#[test]
#[ignore = "more rows of a table: `cargo xtask all`"]
fn half_of_the_writes_small_at_14_and_28_per_cent_over_provisioning() {
    check(&[
        (1.145, 4, 50, [4.12, 3.39, 1.004, 1.004]),
        (1.145, 10, 50, [3.39, 3.33, 1.065, 1.065]),
        (1.145, 20, 50, [3.05, 3.25, 1.254, 1.232]),
        (1.145, 40, 50, [3.25, 3.17, 1.743, 1.610]),
        (1.145, 64, 50, [2.85, 2.87, 2.245, 2.071]),
        (1.28, 4, 50, [2.39, 2.00, 1.000, 1.000]),
        (1.28, 10, 50, [2.02, 2.05, 1.011, 1.012]),
        (1.28, 20, 50, [2.04, 2.14, 1.072, 1.071]),
        (1.28, 40, 50, [1.87, 2.07, 1.273, 1.248]),
        (1.28, 64, 50, [1.54, 1.50, 1.573, 1.483]),
    ]);
}

#[test]
#[ignore = "more rows of a table: `cargo xtask all`"]
fn nine_tenths_of_the_writes_small() {
    check(&[
        (1.07, 4, 90, [11.46, 8.11, 1.075, 1.075]),
        (1.07, 20, 90, [7.86, 7.78, 2.096, 2.032]),
        (1.145, 4, 90, [6.25, 4.66, 1.007, 1.007]),
        (1.145, 20, 90, [4.51, 4.42, 1.416, 1.397]),
        (1.28, 4, 90, [3.78, 2.99, 1.000, 1.000]),
        (1.28, 20, 90, [2.93, 2.82, 1.129, 1.127]),
    ]);
}
