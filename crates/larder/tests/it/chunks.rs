//! Values that are read and written chunk by chunk.

use std::io;

use larder::{
    ArrayConfig, Config, ErrorKind, FetchError, LocConfig, SetOptions, SocConfig, block_on,
};

use crate::long::{get, patterned, set};
use crate::rig::{Rig, config, drive, key_of};

const REGION: usize = 64 << 10;

fn both_engines() -> [Config; 2] {
    let region_bytes = Some(u32::try_from(REGION).unwrap());
    let array = ArrayConfig {
        percent: 95.0,
        region_bytes,
        write_bytes: 16 << 10,
        mean_object_bytes: 4096,
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let soc = SocConfig { percent: Some(5.0), log_percent: Some(0.0), ..config().soc };
    let loc = LocConfig { region_bytes, ..config().loc };
    let in_regions = Config { dram_bytes: 0, soc, loc, ..config() };
    [Config { array, ..in_regions.clone() }, in_regions]
}

/// The value assembled from all chunks, and their lengths. `None` if there is no value.
fn chunks(rig: &Rig, key: u32) -> Option<(Vec<u8>, Vec<usize>)> {
    let mut stream = block_on(rig.cache.get_stream(&key_of(key))).unwrap()?;
    let (mut value, mut lengths) = (Vec::new(), Vec::new());
    while let Some(chunk) = block_on(stream.next()).unwrap() {
        value.extend_from_slice(&chunk);
        lengths.push(chunk.len());
    }
    assert_eq!(value.len(), stream.value_bytes());
    Some((value, lengths))
}

#[test]
fn a_value_in_parts_comes_part_by_part_and_a_shorter_one_at_once() {
    for config in both_engines() {
        let rig = Rig::open(config, &drive());
        let long = patterned(1, 1, 10 * REGION + 77);
        let options = SetOptions { flags: 9, ..SetOptions::default() };
        block_on(rig.cache.set_with(&key_of(1), &long, options)).unwrap();
        let (value, lengths) = chunks(&rig, 1).unwrap();
        assert!(value == long);
        assert!(lengths.len() >= 80 && lengths.iter().all(|&bytes| bytes <= REGION / 8));
        let stream = block_on(rig.cache.get_stream(&key_of(1))).unwrap().unwrap();
        assert_eq!((stream.flags(), stream.expires_at()), (9, None));
        for bytes in [100, 5000] {
            let short = patterned(2, 1, bytes);
            set(&rig, 2, &short);
            assert_eq!(chunks(&rig, 2), Some((short, vec![bytes])));
        }
        let stats = rig.cache.stats();
        assert_eq!((stats.gets, stats.hits()), (4, 4));
        assert!(rig.delete(1) && chunks(&rig, 1).is_none());
    }
}

#[test]
fn a_stream_is_of_one_version_or_ends_with_an_error() {
    for config in both_engines() {
        let rig = Rig::open(config, &drive());
        let old = patterned(1, 1, 10 * REGION);
        set(&rig, 1, &old);
        let mut stream = block_on(rig.cache.get_stream(&key_of(1))).unwrap().unwrap();
        let mut came = block_on(stream.next()).unwrap().unwrap().to_vec();
        // Replaced, but the old parts are still on flash.
        set(&rig, 1, &patterned(1, 2, 10 * REGION));
        for _ in 0..20 {
            came.extend_from_slice(&block_on(stream.next()).unwrap().unwrap());
        }
        assert!(old.starts_with(&came));
        // The log goes round.
        (100..400).for_each(|key| set(&rig, key, &patterned(key, 1, REGION / 2)));
        let error = loop {
            match block_on(stream.next()) {
                Ok(chunk) => came.extend_from_slice(&chunk.expect("not all has come")),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Incomplete);
        assert!(old.starts_with(&came) && came.len() < old.len());
        assert!(block_on(stream.next()).unwrap().is_none(), "it has ended");
    }
}

/// Delivers a value in pieces of `bytes` bytes, and an empty piece at the end.
fn pieces(value: &[u8], bytes: usize) -> impl AsyncFnMut() -> io::Result<Vec<u8>> {
    let mut pieces = value.chunks(bytes).map(<[u8]>::to_vec);
    async move || Ok(pieces.next().unwrap_or_default())
}

#[test]
fn what_a_source_brings_is_stored_whole_and_takes_the_place_of_what_was_there() {
    for config in both_engines() {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        for (version, bytes) in (1..).zip([300, 5000, 3 * REGION, 10 * REGION + 5, REGION, 200]) {
            let value = patterned(1, version, bytes);
            let source = pieces(&value, 3000);
            let options = SetOptions { flags: version, ..SetOptions::default() };
            block_on(rig.cache.set_stream(&key_of(1), bytes, options, source)).unwrap();
            let found = block_on(rig.cache.get(&key_of(1))).unwrap().unwrap();
            assert!(found[..] == value && found.flags() == version, "{bytes}");
        }
        let last = patterned(1, 9, 6 * REGION);
        let source = pieces(&last, 7 * REGION);
        block_on(rig.cache.set_stream(&key_of(1), last.len(), SetOptions::default(), source))
            .unwrap();
        let _ = block_on(rig.cache.flush()).unwrap();
        drop(rig);
        let rig = Rig::open(config, &drive);
        block_on(rig.cache.rebuild());
        assert!(get(&rig, 1) == Some(last));
    }
}

#[test]
fn a_source_that_fails_or_brings_another_length_changes_nothing() {
    for config in both_engines() {
        let rig = Rig::open(config, &drive());
        let before = patterned(1, 1, 4 * REGION);
        set(&rig, 1, &before);
        let value = patterned(1, 2, 4 * REGION);
        for bytes in [value.len() - 1, value.len() + 1] {
            let source = pieces(&value, 10_000);
            let key = key_of(1);
            let set = rig.cache.set_stream(&key, bytes, SetOptions::default(), source);
            let refused = block_on(set).unwrap_err();
            assert!(
                matches!(&refused, FetchError::Cache(it) if it.kind() == ErrorKind::InvalidInput)
            );
            assert!(get(&rig, 1).as_ref() == Some(&before), "{refused}");
        }
        let mut good = pieces(&value, REGION);
        let mut left = 3;
        let failing = async || {
            left -= 1;
            if left == 0 { Err(io::Error::other("the line is dead")) } else { good().await }
        };
        let key = key_of(1);
        let set = rig.cache.set_stream(&key, value.len(), SetOptions::default(), failing);
        assert!(matches!(block_on(set).unwrap_err(), FetchError::Fetch(_)));
        assert!(get(&rig, 1) == Some(before));
    }
}
