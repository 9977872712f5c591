//! Write amplification when some pages are written more often than others, with 256 pages per unit, compared with an
//! independent event simulation: greedy and FIFO on one frontier, moved data apart from the host's, and one handle per
//! class.

use larder_ssd::managed::{GcDestination, ManagedSsd, VictimPolicy};

use super::support::{Comparison, compare, drive, on_all_cores, second_half};

const DATA_UNITS: u32 = 1_500;

/// `hot` percent of the pages get 100 - `hot` percent of the writes.
fn skewed(
    alpha: f64,
    hot: u64,
    handles: u16,
    destination: GcDestination,
    policy: VictimPolicy,
) -> f64 {
    let config = drive(256, DATA_UNITS, alpha, handles, destination, policy);
    let pages = config.geometry.logical_pages;
    let hot_pages = pages * hot / 100;
    let mut ssd = ManagedSsd::new(config).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let cold_handle = handles - 1;
    ssd.write(0, hot_pages, 0).unwrap();
    ssd.write(hot_pages, pages - hot_pages, cold_handle).unwrap();
    second_half(&mut ssd, 6 * pages, |ssd| {
        if rng.u64(..100) >= hot {
            ssd.write(rng.u64(..hot_pages), 1, 0).unwrap();
        } else {
            ssd.write(rng.u64(hot_pages..pages), 1, cold_handle).unwrap();
        }
    })
}

/// Percentage of hot pages, α, and a reference for each column.
type Row<const N: usize> = (u64, f64, [f64; N]);
/// Name, handles, destination, policy, tolerance in percent.
type Column = (&'static str, u16, GcDestination, VictimPolicy, f64);

fn check<const N: usize>(rows: &[Row<N>], columns: [Column; N]) -> Vec<f64> {
    let cells: Vec<_> = rows
        .iter()
        .flat_map(|&(hot, alpha, row)| {
            columns
                .into_iter()
                .zip(row)
                .map(move |(column, reference)| (hot, alpha, column, reference))
        })
        .collect();
    let measured = on_all_cores(&cells, |&(hot, alpha, (_, handles, to, policy, _), _)| {
        skewed(alpha, hot, handles, to, policy)
    });
    compare(cells.iter().zip(&measured).map(|(&(hot, alpha, column, reference), &measured)| {
        let name = format!("{}/{hot} alpha={alpha:.3} {}", 100 - hot, column.0);
        Comparison { name, measured, reference, percent: column.4 }
    }));
    measured
}

#[test]
fn one_frontier_and_moved_data_apart_match_the_simulation() {
    use GcDestination::{HostFrontier, Shared};
    use VictimPolicy::{Fifo, Greedy};
    check(
        &[
            (20, 1.07, [7.94, 8.16, 7.89, 8.15]),
            (20, 1.0 / 0.9, [5.44, 5.53, 5.38, 5.53]),
            (20, 1.20, [3.50, 3.53, 3.42, 3.53]),
            (20, 1.28, [2.80, 2.82, 2.70, 2.82]),
        ],
        [
            ("greedy", 1, HostFrontier, Greedy, 3.0),
            ("FIFO", 1, HostFrontier, Fifo, 3.0),
            ("greedy, moved apart", 1, Shared, Greedy, 3.0),
            ("FIFO, moved apart", 1, Shared, Fifo, 3.0),
        ],
    );
    check(
        &[
            (10, 1.07, [8.65, 8.84, 8.40]),
            (10, 1.0 / 0.9, [6.09, 6.16, 5.77]),
            (10, 1.20, [4.05, 4.07, 3.69]),
            (10, 1.28, [3.29, 3.29, 2.93]),
        ],
        [
            ("greedy", 1, HostFrontier, Greedy, 3.0),
            ("FIFO", 1, HostFrontier, Fifo, 3.0),
            ("greedy, moved apart", 1, Shared, Greedy, 3.0),
        ],
    );
}

#[test]
#[ignore = "twelve rows of a table: `cargo xtask all`"]
fn placement_helps_as_far_as_greedy_collection_lets_it() {
    use GcDestination::{HostFrontier, PerHandle, Shared};
    let greedy = VictimPolicy::Greedy;
    let columns = [
        ("mixed", 1, HostFrontier, greedy, 3.0),
        ("moved apart", 1, Shared, greedy, 3.0),
        ("initially isolated", 2, Shared, greedy, 3.0),
        ("persistently isolated", 2, PerHandle, greedy, 3.0),
    ];
    let skewed = check(
        &[
            (20, 1.07, [7.742, 7.718, 7.656, 7.373]),
            (10, 1.07, [8.445, 8.210, 8.037, 7.258]),
            (20, 1.10, [5.815, 5.768, 5.692, 5.453]),
            (10, 1.10, [6.478, 6.171, 5.986, 5.387]),
            (20, 1.20, [3.475, 3.393, 3.301, 3.124]),
            (10, 1.20, [4.028, 3.669, 3.477, 3.104]),
            (20, 1.28, [2.788, 2.695, 2.590, 2.445]),
            (10, 1.28, [3.272, 2.920, 2.720, 2.430]),
        ],
        columns,
    );
    for row in skewed.chunks_exact(4) {
        assert!(
            row.is_sorted_by(|a, b| a >= &(b * 0.995)),
            "more isolation, less copying: {row:?}"
        );
    }
    check(
        &[
            (50, 1.07, [7.376, 7.396, 7.411, 7.431]),
            (50, 1.10, [5.451, 5.461, 5.471, 5.480]),
            (50, 1.20, [3.125, 3.127, 3.129, 3.132]),
            (50, 1.28, [2.447, 2.448, 2.449, 2.451]),
        ],
        columns,
    );
}
