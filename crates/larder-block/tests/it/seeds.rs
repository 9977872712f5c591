//! The number of seeds of a simulation, and a report of the seed that failed.

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Runs `live` for as many seeds as make `LARDER_CRASH_POINTS` points (45 if unset) of `points_a_seed` each. Prints
/// the seed that failed, and the command that replays it alone.
pub(crate) fn each_seed(test: &'static str, points_a_seed: u64, live: impl Fn(u64)) {
    struct Says(&'static str, u64);
    impl Drop for Says {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let test = format!("cargo test -p larder-block --test it -- {}", self.0);
                eprintln!("replay it: LARDER_CRASH_SEED={} {test}", self.1);
            }
        }
    }
    let seeds = match number("LARDER_CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LARDER_CRASH_POINTS").unwrap_or(45) / points_a_seed,
    };
    for seed in seeds {
        let _says = Says(test, seed);
        live(seed);
    }
}
