//! A replay on a set of shards: the numbers of each shard, and of all together.

use serde_json::Value;

use crate::place::Place;

/// Drives that are written several times over.
const SET: &str = "replay --requests 60000 --flash 15M --dram 48K --soc 50 --shards 3";

fn sum(run: &Value, key: &str) -> u64 {
    run["shards"].as_array().unwrap().iter().map(|shard| shard[key].as_u64().unwrap()).sum()
}

#[test]
fn shards_add_up_to_their_set() {
    let outcome = Place::new().json(SET);
    let again = Place::new().json(SET);
    let (runs, others) = (outcome["runs"].as_array().unwrap(), again["runs"].as_array().unwrap());
    for (run, same) in runs.iter().zip(others) {
        assert_eq!(run["shards"].as_array().unwrap().len(), 3);
        for key in ["gets", "hits", "host_bytes", "media_bytes", "erased_bytes", "copied_bytes"] {
            assert_eq!(sum(run, key), run[key].as_u64().unwrap(), "{key}");
        }
        let streams = ["soc_bytes", "loc_bytes", "array_bytes", "metadata_bytes"];
        let by_stream: u64 = streams.iter().map(|key| run[key].as_u64().unwrap()).sum();
        assert_eq!(by_stream, sum(run, "host_bytes"));
        for shard in run["shards"].as_array().unwrap() {
            let part = shard["gets"].as_f64().unwrap() / run["gets"].as_f64().unwrap();
            assert!((0.2..0.5).contains(&part), "{part} of the keys are at {shard}");
            assert!(shard["dlwa"].as_f64().unwrap() >= 1.0, "{shard}");
        }
        assert_eq!((&run["shards"], &run["hit_ratio"]), (&same["shards"], &same["hit_ratio"]));
    }
    let dlwa = |run: usize| runs[run]["dlwa"].as_f64().unwrap();
    assert!(dlwa(0) < dlwa(1), "placement on {}, off {}", dlwa(0), dlwa(1));
}

/// A row of the table, by its first words.
fn row<'a>(table: &'a str, name: &str) -> Option<&'a str> {
    table.lines().find(|line| line.starts_with(name))
}

#[test]
fn the_table_has_rows_of_what_there_is() {
    let place = Place::new();
    let array = "replay --workload image --requests 1500 --flash 128M --dram 1M --array 96 --shards 2 --placement on";
    let set = place.succeed(array).stdout;
    for name in
        ["  least of a shard", "  median", "  most", "  by the array", "array, reads", "shards"]
    {
        let row = row(&set, name).unwrap_or_else(|| panic!("no row {name:?} in {set}"));
        assert!(row.contains(|c: char| c.is_ascii_digit()), "{row}");
    }
    let one = place.succeed("replay --requests 5000 --flash 8M --dram 256K").stdout;
    for name in ["  least", "  by the array", "array, reads", "shards"] {
        assert_eq!(row(&one, name), None, "{one}");
    }
    assert!(row(&one, "  by the LOC").is_some(), "{one}");
}
