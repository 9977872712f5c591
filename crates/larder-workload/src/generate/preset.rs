//! The generators by name: workloads fitted to public traces, with the source of every number.
//!
//! The popularity models were fitted so that the LRU miss ratios of a cache that counts objects follow those of the
//! full trace (root mean square error 0.003 to 0.004 over cache sizes from 0.1 % to 80 % of the objects). Scaled to a
//! million requests the miss ratios move by less than 0.006, those of `meta-kv-small-values` by less than 0.03: its
//! smallest caches are then smaller than the window of recent requests, which does not scale. `meta-kv` has the
//! popularity of `meta-kv-small-values` over more keys, and was fitted to the numbers of published runs.

use crate::{Error, RequestSource};

use super::llm_kv::LlmKv;
use super::object_law::{ObjectLaw, SizeSubject, TtlLaw, TtlPercent};
use super::parameters::Parameters;
use super::popularity::Popularity;
use super::quantiles;
use super::records::{Laws, RecordLaw, Records, Writes, ZIPF};
use super::size_law::{Lognormal, SizeLaw};
use super::skewed::{Mix, REQUESTS_PER_S, Skewed};
use super::twitter_c12::{self, TwitterC12};

/// Options of a generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneratorOptions {
    /// Requests to generate, from 1 up.
    pub requests: u64,
    /// Requests of the whole workload, of which the generated requests are the first part: the number of keys, and how
    /// long they stay popular, grow with it. `None` means that the generated requests are the whole workload.
    pub span_requests: Option<u64>,
    /// Seed of everything random: the same seed gives the same requests.
    pub seed: u64,
}

/// A generator that has a name.
///
/// Generators are deterministic. The sizes and the TTL of a key are functions of the key; GETs have them too, for the
/// fill after a miss. If the source gives no rate, 10,000 requests make a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// A description in one line.
    pub description: &'static str,
    /// A good default for the number of requests: enough to write the default drive of a replay many times over.
    pub requests: u64,
    /// Where its numbers come from.
    pub source: &'static str,
}

const PRESETS: [Preset; 18] = [
    Preset {
        name: "meta-kv",
        description: "small values and a few large ones, GET:SET 4:1, TTLs of minutes to hours",
        requests: 10_000_000,
        source: "meta-kv-small-values, with the share of large objects fitted to the bytes of a put \
                 (983) and the number of keys to the hit ratio (75 to 81 %) that the published runs of \
                 Meta's trace kvcache/202206 report",
    },
    Preset {
        name: "meta-kv-table2",
        description: "meta-kv-small-values over twice the keys: nine of ten GETs hit",
        requests: 10_000_000,
        source: "as meta-kv-small-values, with the number of keys fitted to Table 2 of the FDP paper \
                 (EuroSys'25): to 90.32 % of hits with 42 GB of DRAM beside 1.88 TB of flash. That figure is a \
                 fit, and the others of the table are not",
    },
    Preset {
        name: "meta-kv-write-only",
        description: "the SETs of meta-kv alone: the hardest case for the flash",
        requests: 5_000_000,
        source: "as meta-kv",
    },
    Preset {
        name: "meta-kv-small-values",
        description: "meta-kv with a quarter of the large objects and a tenth of the keys",
        requests: 20_000_000,
        source: "popularity fitted to Meta's trace kvcache (meta_kvcache_traces_1); value sizes from \
                 CacheLib's kvcache_reg (Apache-2.0); TTLs and key sizes from its 2024 sample",
    },
    Preset {
        name: "twitter-c12",
        description: "SET:GET 4:1, nearly all keys new, TTL 5 minutes",
        requests: 10_000_000,
        source: "fitted to cluster 12 of Twitter's cache traces (OSDI'20, CC-BY 4.0)",
    },
    Preset {
        name: "cdn",
        description: "objects of 127 bytes to 4 MB (median 13 KB), many asked for once",
        requests: 10_000_000,
        source: "popularity fitted to Meta's CDN trace (meta_rprn); \
                 object sizes from CacheLib's cdn (Apache-2.0)",
    },
    Preset {
        name: "image",
        description: "photos of 32 to 128 KB (mean 61 KB)",
        requests: 10_000_000,
        source: "popularity fitted to Tencent's photo trace (tencent_photo1); \
                 sizes: a lognormal law, mu 10.669, sigma 0.658",
    },
    Preset {
        name: "document",
        description: "objects of about a kilobyte, wide popularity",
        requests: 10_000_000,
        source: "popularity fitted to Wikipedia's text trace (wiki_2019t); \
                 sizes: a lognormal law, mu 6.49, sigma 0.94",
    },
    Preset {
        name: "uniform",
        description: "every key as likely, objects of 1 KiB, 10 requests a key",
        requests: 1_000_000,
        source: "made up: the worst case for any cache",
    },
    Preset {
        name: "ycsb-a",
        description: "half GETs, half SETs, of scattered popularity",
        requests: 1_000_000,
        source: "YCSB 0.17.0 (Apache-2.0), workloada: values of 1 KB, Zipf 0.99 over ten billion ranks that are \
                 scattered over the records",
    },
    Preset {
        name: "ycsb-b",
        description: "95 % GETs, 5 % SETs, of scattered popularity",
        requests: 1_000_000,
        source: "YCSB 0.17.0 (Apache-2.0), workloadb: values of 1 KB, Zipf 0.99 over ten billion ranks that are \
                 scattered over the records",
    },
    Preset {
        name: "ycsb-c",
        description: "GETs alone, of scattered popularity",
        requests: 1_000_000,
        source: "YCSB 0.17.0 (Apache-2.0), workloadc: values of 1 KB, Zipf 0.99 over ten billion ranks that are \
                 scattered over the records",
    },
    Preset {
        name: "ycsb-d",
        description: "95 % GETs of what is new, 5 % SETs of new records",
        requests: 1_000_000,
        source: "YCSB 0.17.0 (Apache-2.0), workloadd: values of 1 KB, Zipf 0.99 from the newest record backwards",
    },
    Preset {
        name: "ycsb-f",
        description: "GETs, every second followed by a SET of the same record",
        requests: 1_000_000,
        source: "YCSB 0.17.0 (Apache-2.0), workloadf: values of 1 KB, Zipf 0.99 over ten billion ranks that are \
                 scattered over the records",
    },
    Preset {
        name: "hotspot",
        description: "80 % of requests for 20 % of the records, half of them SETs, values of 32 KiB",
        requests: 1_000_000,
        source: "the experiment of BigKV's artifact (EuroSys'23): YCSB, hotspot 0.2/0.8, read and update half each, \
                 fields of 32,768 bytes",
    },
    Preset {
        name: "zipf",
        description: "requests by Zipf's law 0.99 over the records, half of them SETs, values of 32 KiB",
        requests: 1_000_000,
        source: "made up: hotspot with another law",
    },
    Preset {
        name: "twitter-ttl",
        description: "GET:SET 4:1, TTLs of a minute to a month",
        requests: 1_000_000,
        source: "TTLs of the clusters in Twitter's statistics of March 2020 (OSDI'20, CC-BY 4.0), each as much; \
                 popularity: Zipf 1.2, the middle of theirs; values of 32 KiB are assumed",
    },
    Preset {
        name: "llm-kv",
        description: "blocks of 1 to 32 MiB: prefixes that many prompts share, and short chats",
        requests: 1_000_000,
        source: "fitted to the length and reuse of prompts that Mooncake (arXiv 2407.00079) reports; blocks of 256 \
                 tokens as LMCache has them",
    },
];

/// Popularity of `meta_kvcache_traces_1`; root mean square error of the fit 0.0039.
const META_KV_SMALL_VALUES: Popularity = Popularity {
    requests: 1e7,
    exponent: 1.238,
    ranks: 323_516.0,
    shift: 10.0,
    once: 0.0416,
    life: 50_996_237.0,
    repeat: 0.333,
};

/// The same popularity over ten times as many keys: the requests are the first tenth of a trace. With the number of
/// keys that this number of requests would otherwise have, a cache of the published runs' proportions has 89 to 91 % of
/// hits, and the few large objects that are requested most make up most of its bytes.
const META_KV: Popularity = META_KV_SMALL_VALUES.over(10.0);

/// The same popularity over the number of keys with which `dram-tradeoff` has the hit ratio of Table 2 of the FDP paper
/// with 42 GB of DRAM, 90.32 %, at its default number of requests and size of the drive.
const META_KV_TABLE_2: Popularity = META_KV_SMALL_VALUES.over(TABLE_2_KEYS);

/// Keys of `meta-kv-table2` by those of `meta-kv-small-values`. `meta-kv` has ten times as many. With the sizes of
/// `meta-kv`, flash would answer twice as many of the GETs that DRAM cannot.
const TABLE_2_KEYS: f64 = 2.0;

/// Popularity of `meta_rprn`; root mean square error of the fit 0.003.
const CDN: Popularity = Popularity {
    requests: 1e7,
    exponent: 0.816,
    ranks: 3_370_001.0,
    shift: 4.5,
    once: 0.2698,
    life: 200_000_000.0,
    repeat: 0.366,
};

/// Popularity of `tencent_photo1`; root mean square error of the fit 0.0022.
const IMAGE: Popularity = Popularity {
    requests: 1e7,
    exponent: 1.206,
    ranks: 421_361.0,
    shift: 522.4,
    once: 0.1758,
    life: 18_757_279.0,
    repeat: 0.221,
};

/// Popularity of `wiki_2019t`; root mean square error of the fit 0.004.
const DOCUMENT: Popularity = Popularity {
    requests: 1e7,
    exponent: 1.123,
    ranks: 363_340.0,
    shift: 321.7,
    once: 0.0509,
    life: 19_951_708.0,
    repeat: 0.135,
};

/// Share of SETs in `meta-kv`: GET:SET is 4:1.
const META_KV_SETS: f64 = 0.2;

/// TTLs of Meta's sample of 2024, the most frequent ones.
const META_KV_TTL: [TtlPercent; 10] = [
    (14_400, 33),
    (7200, 17),
    (10_800, 13),
    (21_600, 8),
    (1320, 8),
    (3600, 5),
    (13_740, 4),
    (900, 4),
    (120, 4),
    (0, 4),
];

/// TTLs of 53 of Twitter's clusters; each cluster has the same weight.
const TWITTER_TTL: [TtlPercent; 13] = [
    (60, 16),
    (300, 9),
    (600, 6),
    (3600, 7),
    (7200, 11),
    (28_800, 8),
    (43_200, 8),
    (86_400, 9),
    (172_800, 6),
    (432_000, 4),
    (604_800, 4),
    (1_209_600, 5),
    (2_592_000, 7),
];

/// The median of the exponents of Twitter's clusters.
const TWITTER_ZIPF: f64 = 1.2;

/// TTLs of Twitter's cluster 12.
const TWITTER_C12_TTL: [TtlPercent; 2] = [(300, 98), (299, 2)];

/// The generators that [`preset`] offers.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The entry of [`presets`] for a generator that this text names.
pub fn find(text: &str) -> Option<&'static Preset> {
    let name = text.split_once(':').map_or(text, |(name, _)| name);
    PRESETS.iter().find(|preset| preset.name == name)
}

/// The generator of this name. The generators over a number of records, and `llm-kv`, may have parameters behind the
/// name, such as `hotspot:records=1000000,bytes=32768`: `records`, `bytes` (of a value), `sets` (percent) and `rate`
/// (requests a second).
///
/// ```
/// use larder_workload::generate::{GeneratorOptions, preset};
///
/// let options = GeneratorOptions { requests: 10, span_requests: None, seed: 1 };
/// let mut hotspot = preset("hotspot:records=5,bytes=100", options)?;
/// assert_eq!(hotspot.next_request()?.unwrap().value_bytes, 100);
/// # Ok::<(), larder_workload::Error>(())
/// ```
///
/// # Errors
/// [`Error::Usage`] if the name is not in [`presets`], if the generator does not have a parameter or the parameter is
/// out of range, or if the number of requests is 0.
pub fn preset(text: &str, options: GeneratorOptions) -> Result<Box<dyn RequestSource>, Error> {
    let GeneratorOptions { requests, span_requests, seed } = options;
    let name = find(text).ok_or_else(|| unknown_name(text))?.name;
    let parameters = Parameters::read(name, text)?;
    let span = span_requests.unwrap_or(requests);
    if requests == 0 || span == 0 {
        return Err(Error::usage("a workload needs at least 1 request"));
    }
    let skewed = |model: Popularity, objects, mix: Mix| -> Box<dyn RequestSource> {
        Box::new(Skewed::new(model.scaled(mix.drawn(span)), objects, mix, requests, seed))
    };
    if let Some(laws) = of_records(name, &parameters, span) {
        return Ok(Box::new(Records::new(laws, requests, seed)));
    }
    if name == "llm-kv" {
        parameters.must_not_say_when(name)?;
        return Ok(Box::new(LlmKv::new(&parameters, requests, seed)));
    }
    parameters.must_be_none(name)?;
    let lognormal = |law| sized_objects(SizeLaw::Lognormal(law));
    Ok(match name {
        "meta-kv" => skewed(META_KV, meta_kv_objects(), Mix::Sets(META_KV_SETS)),
        "meta-kv-table2" => {
            skewed(META_KV_TABLE_2, meta_kv_small_objects(), Mix::Sets(META_KV_SETS))
        }
        "meta-kv-write-only" => skewed(META_KV, meta_kv_objects(), Mix::SetsOnly(META_KV_SETS)),
        "meta-kv-small-values" => {
            skewed(META_KV_SMALL_VALUES, meta_kv_small_objects(), Mix::Sets(META_KV_SETS))
        }
        "twitter-c12" => Box::new(TwitterC12::new(twitter_c12_objects(), requests, seed)),
        "cdn" => {
            let sizes = SizeLaw::quantiles(&quantiles::META_CDN_OBJECT);
            skewed(CDN, sized_objects(sizes), Mix::Gets)
        }
        "image" => {
            let law = Lognormal::new(10.669, 0.658).truncated(32_768, 131_072);
            skewed(IMAGE, lognormal(law), Mix::Gets)
        }
        "document" => skewed(DOCUMENT, lognormal(Lognormal::new(6.49, 0.94)), Mix::Gets),
        unknown => unreachable!("{unknown} is in the list and not here"),
    })
}

/// Generators over a number of records.
fn of_records(name: &str, parameters: &Parameters, requests: u64) -> Option<Laws> {
    let scattered = RecordLaw::ScatteredZipf;
    let hotspot = RecordLaw::Hotspot { set: 0.2, requests: 0.8 };
    let (law, writes) = match name {
        "ycsb-a" => (scattered, Writes::sets(0.5)),
        "ycsb-b" => (scattered, Writes::sets(0.05)),
        "ycsb-c" => (scattered, Writes::default()),
        "ycsb-d" => (RecordLaw::Latest, Writes { inserts: 0.05, ..Writes::default() }),
        "ycsb-f" => (scattered, Writes { read_modify_writes: 0.5, ..Writes::default() }),
        "hotspot" => (hotspot, Writes::sets(0.5)),
        "zipf" => (RecordLaw::Zipf(ZIPF), Writes::sets(0.5)),
        "twitter-ttl" => (RecordLaw::Zipf(TWITTER_ZIPF), Writes::sets(0.2)),
        "uniform" => (RecordLaw::Uniform, Writes::default()),
        _ => return None,
    };
    let of_values = |bytes: u32, ttl| ObjectLaw {
        // "user" and 19 digits.
        key_size: SizeLaw::Fixed(23),
        size: SizeLaw::Fixed(parameters.bytes.unwrap_or(bytes)),
        sized: SizeSubject::Value,
        ttl: TtlLaw::new(ttl),
    };
    let objects = match name {
        "uniform" => sized_objects(SizeLaw::Fixed(parameters.bytes.unwrap_or(1024))),
        "hotspot" | "zipf" => of_values(32_768, &[(0, 100)]),
        "twitter-ttl" => of_values(32_768, &TWITTER_TTL),
        _ => of_values(1000, &[(0, 100)]),
    };
    Some(Laws {
        objects,
        law,
        writes: parameters.sets.map_or(writes, |sets| Writes { sets, ..writes }),
        records: parameters.records_for(requests),
        rate: parameters.rate.unwrap_or(REQUESTS_PER_S),
    })
}

fn unknown_name(name: &str) -> Error {
    let known = PRESETS.map(|preset| preset.name).join(", ");
    Error::usage(format!("unknown workload \"{}\": known are {known}", name.escape_debug()))
}

/// Key sizes of the sample lie between 21 and 120 bytes with a mean of 64; uniform from 21 to 107
/// bytes has the same mean.
fn meta_kv_small_objects() -> ObjectLaw {
    ObjectLaw {
        key_size: SizeLaw::Uniform(21, 107),
        size: SizeLaw::quantiles(&quantiles::META_KV_SMALL_VALUE),
        sized: SizeSubject::Value,
        ttl: TtlLaw::new(&META_KV_TTL),
    }
}

/// The same keys, with larger values.
fn meta_kv_objects() -> ObjectLaw {
    ObjectLaw { size: SizeLaw::quantiles(&quantiles::META_KV_VALUE), ..meta_kv_small_objects() }
}

fn twitter_c12_objects() -> ObjectLaw {
    ObjectLaw {
        key_size: SizeLaw::Fixed(44),
        size: SizeLaw::Lognormal(twitter_c12::value_law()),
        sized: SizeSubject::Value,
        ttl: TtlLaw::new(&TWITTER_C12_TTL),
    }
}

/// Objects that never expire, with keys of 16 bytes; the size law gives the size of key and value together.
fn sized_objects(size: SizeLaw) -> ObjectLaw {
    ObjectLaw {
        key_size: SizeLaw::Fixed(16),
        size,
        sized: SizeSubject::Object,
        ttl: TtlLaw::never(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_there() {
        for entry in presets() {
            let options = GeneratorOptions { requests: 10, span_requests: None, seed: 1 };
            let mut source = preset(entry.name, options).unwrap();
            for _ in 0..10 {
                assert!(source.next_request().unwrap().is_some(), "{}", entry.name);
            }
            assert_eq!(source.next_request().unwrap(), None, "{}", entry.name);
            assert_eq!(source.progress(), Some(1.0));
        }
    }

    #[test]
    fn unknown_names_and_empty_workloads_are_refused() {
        let options = GeneratorOptions { requests: 10, span_requests: None, seed: 1 };
        let Err(Error::Usage(message)) = preset("metakv", options) else { panic!("accepted") };
        assert!(message.contains("meta-kv-write-only") && message.contains("uniform"));
        let options = GeneratorOptions { requests: 0, ..options };
        assert!(matches!(preset("cdn", options), Err(Error::Usage(_))));
    }
}
