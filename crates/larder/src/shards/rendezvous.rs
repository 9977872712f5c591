//! Which shard a key belongs to: of all shards the one whose number mixed with the key's hash gives the most. A shard
//! more takes keys from all others, and nothing else moves.

use crate::config::Config;
use crate::key::mixed;
use crate::partition::ShardNumber;

/// Which of `count` shards a key belongs to.
pub(super) fn number_of(hash: u64, count: usize) -> ShardNumber {
    let most = ShardNumber::all(count).max_by_key(|&shard| mix(hash, shard));
    most.expect("a set has a shard")
}

/// A number that looks drawn for each pair.
fn mix(hash: u64, shard: ShardNumber) -> u64 {
    mixed(hash ^ (shard.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What a shard is told: if a seed was given, another one for each.
pub(crate) fn config_of(config: &Config, shard: ShardNumber) -> Config {
    let hash_seed = config.hash_seed.map(|seed| mix(seed, shard));
    Config { hash_seed, ..config.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHasher;
    use crate::partition::SHARDS_MAX;

    #[test]
    fn a_seed_that_is_given_is_another_one_for_each_shard() {
        let config = Config { hash_seed: Some(7), ..Config::default() };
        let seeds: Vec<_> =
            ShardNumber::all(SHARDS_MAX).map(|n| config_of(&config, n).hash_seed).collect();
        assert!((0..seeds.len()).all(|n| seeds[n].is_some() && !seeds[..n].contains(&seeds[n])));
        assert_eq!(config_of(&Config::default(), ShardNumber::new(3).unwrap()).hash_seed, None);
    }

    #[test]
    fn keys_spread_evenly_and_stay_when_others_come() {
        let hash = |key: u64| KeyHasher::UNSEEDED.hash(&key.to_le_bytes()).0;
        let hashes = || (0..40_000_u64).map(hash);
        let mut of = vec![0_u32; 8];
        for hash in hashes() {
            of[number_of(hash, 8).index()] += 1;
            // A ninth shard takes keys from the others, and nothing else moves.
            let grown = number_of(hash, 9);
            assert!(grown.index() == 8 || grown == number_of(hash, 8));
        }
        assert!(of.iter().all(|&keys| (4_750..5_250).contains(&keys)), "{of:?}");
    }
}
