//! The charts of each experiment. Add a row here for a new experiment; until then [`inferred`](super::inferred) makes
//! its charts.

use super::spec::{Places, Spec};
use super::{array_specs, block_specs};

const DLWA: &str = "DLWA (media bytes per host byte)";
const UTILISATION: &str = "share of the drive that the cache uses (%)";
const SOC: &str = "share of the small-object engine (%)";
const ON_OFF: &[(&str, &str)] = &[("dlwa.on.*", "placement on"), ("dlwa.off.*", "placement off")];
const LOAD: &str = "load (% of what the drive takes without placement)";
const SHARE: &str = "share (1 = all)";

/// DLWA with and without placement, by utilisation.
const BY_UTILISATION: Spec<'static> = Spec {
    title: "DLWA by utilisation",
    x: UTILISATION,
    y: DLWA,
    series: ON_OFF,
    places: Places::Numbers,
    base: 1.0,
};

const OVER_TIME: Spec<'static> = Spec {
    title: "DLWA over time",
    x: "requests made (% of the run)",
    y: DLWA,
    series: &[
        ("interval.on.100.*", "on, 100 %"),
        ("interval.off.100.*", "off, 100 %"),
        ("interval.on.50.*", "on, 50 %"),
        ("interval.off.50.*", "off, 50 %"),
    ],
    places: Places::Numbers,
    base: 1.0,
};

/// DLWA from fresh, SOC 4 %. The charts of the other sizes derive from it.
const REAL_4: Spec<'static> = Spec {
    title: "DLWA from fresh, SOC 4 %",
    x: "drive writes since fresh",
    y: DLWA,
    series: &[("dlwa.on.4.*", "placement on"), ("dlwa.off.4.*", "placement off")],
    places: Places::Numbers,
    base: 1.0,
};
const REAL_20: Spec<'static> = Spec {
    title: "DLWA from fresh, SOC 20 %",
    series: &[("dlwa.on.20.*", "placement on"), ("dlwa.off.20.*", "placement off")],
    ..REAL_4
};
const REAL_40: Spec<'static> = Spec {
    title: "DLWA from fresh, SOC 40 %",
    series: &[("dlwa.on.40.*", "placement on"), ("dlwa.off.40.*", "placement off")],
    ..REAL_4
};

const LIFE: &str = "life (share of the ideal one, 1 = all)";
const HOT: &str = "channels that get all writes";
const MIX_POLICIES: Places = Places::Listed(&[
    ("none", "none"),
    ("literal", "paper's rule"),
    ("week4", "4 weeks"),
    ("week1", "1 week"),
    ("pair2", "gamma/2"),
    ("pair4", "gamma/4"),
]);
const VSSD_KINDS: Places = Places::Listed(&[
    ("channel", "channels"),
    ("die", "dies"),
    ("software", "time by weight"),
    ("bucket", "token buckets"),
    ("none", "nothing own"),
]);

const LESS_OWN: Places =
    Places::Listed(&[("die", "dies"), ("software", "time by weight"), ("none", "nothing own")]);

const CHANNELS: Places = Places::Listed(&[("shared", "shared"), ("own", "of their own")]);

const DIE_LOADS: Places = Places::Listed(&[
    ("mixed", "mixed"),
    ("channels", "by channel"),
    ("one_die", "one die"),
    ("die_each", "one of each"),
]);

const RU_AWARE: Places = Places::Listed(&[
    ("kv", "meta-kv"),
    ("document", "document"),
    ("small", "document, small units"),
]);

/// Layouts of small objects with DRAM of a 32nd of flash.
const SMALL_HITS: Spec<'static> = Spec {
    title: "Hits by layout of small objects, DRAM 1/32 of flash",
    x: SOC,
    y: "hit ratio (%)",
    series: &[
        ("hit.fifo.32.*", "buckets, FIFO"),
        ("hit.rrip.32.*", "buckets, RRIP"),
        ("hit.log33.32.*", "log 33 %, RRIP"),
        ("hit.fold.32.*", "fold"),
        ("hit.groups.32.*", "groups"),
        ("hit.companions.32.*", "pages with companions"),
        ("hit.pages.32.*", "pages by set"),
    ],
    places: Places::Numbers,
    base: 0.0,
};
const SMALL_WRITES: Spec<'static> = Spec {
    title: "Bytes written by layout of small objects, DRAM 1/32 of flash",
    y: "bytes written by admitted byte (1 = once)",
    series: &[
        ("writes.fifo.32.*", "buckets, FIFO"),
        ("writes.rrip.32.*", "buckets, RRIP"),
        ("writes.log33.32.*", "log 33 %, RRIP"),
        ("writes.fold.32.*", "fold"),
        ("writes.groups.32.*", "groups"),
        ("writes.companions.32.*", "pages with companions"),
        ("writes.pages.32.*", "pages by set"),
    ],
    ..SMALL_HITS
};
const SMALL_BITS: Spec<'static> = Spec {
    title: "DRAM by layout of small objects, DRAM 1/32 of flash",
    y: "DRAM (bits by object on flash)",
    series: &[
        ("bits.fifo.32.*", "buckets, FIFO"),
        ("bits.rrip.32.*", "buckets, RRIP"),
        ("bits.log33.32.*", "log 33 %, RRIP"),
        ("bits.fold.32.*", "fold"),
        ("bits.groups.32.*", "groups"),
        ("bits.companions.32.*", "pages with companions"),
        ("bits.pages.32.*", "pages by set"),
    ],
    ..SMALL_HITS
};

/// The charts of each experiment.
const SPECS: &[(&str, &[Spec<'static>])] = &[
    (
        "ftl-uniform",
        &[Spec {
            title: "Write amplification",
            x: "pattern of the writes",
            y: "write amplification (media pages per host page)",
            series: &[("*", "the model")],
            places: Places::Listed(&[("wa", "as set")]),
            base: 0.0,
        }],
    ),
    ("dlwa-interval", &[OVER_TIME, BY_UTILISATION]),
    ("utilization", &[BY_UTILISATION]),
    ("twitter", &[BY_UTILISATION]),
    ("write-only", &[BY_UTILISATION]),
    ("full-scale", &[BY_UTILISATION]),
    ("real-drive", &[REAL_4, REAL_20, REAL_40]),
    (
        "soc-size",
        &[
            Spec { title: "DLWA by the size of the SOC", x: SOC, ..BY_UTILISATION },
            Spec {
                title: "What placement gains",
                x: SOC,
                y: "gain: 1 - on / off (1 = all)",
                series: &[("gain.*", "gain")],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
    ),
    (
        "gc-events",
        &[
            Spec {
                title: "What garbage collection did",
                x: "kind of event",
                y: "events per 1000 units or pages of the host",
                series: &[("*.on", "placement on"), ("*.off", "placement off")],
                places: Places::Listed(&[
                    ("erases", "units erased"),
                    ("relocations", "units copied from"),
                    ("copied_pages", "pages copied"),
                ]),
                base: 0.0,
            },
            Spec {
                title: "How many times more without placement",
                x: "ratio",
                y: "off / on (times)",
                series: &[("*", "ours")],
                places: Places::Listed(&[
                    ("relocation_ratio", "units copied from"),
                    ("dlwa_ratio", "DLWA"),
                ]),
                base: 0.0,
            },
        ],
    ),
    (
        "dram-tradeoff",
        &[
            Spec { title: "DLWA by DRAM", x: "DRAM (% of the usual)", ..BY_UTILISATION },
            Spec {
                title: "Hit ratios by DRAM",
                x: "DRAM (% of the usual)",
                y: SHARE,
                series: &[("hit.*", "all hits"), ("flash_hit.*", "flash hits")],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
    ),
    (
        "tenants",
        &[Spec {
            title: "DLWA of the shared drive",
            x: "tenants on the drive",
            y: DLWA,
            series: &[
                ("dlwa.on.*", "placement on"),
                ("dlwa.first_come.*", "first come, first served"),
                ("dlwa.off.*", "placement off"),
            ],
            places: Places::Listed(&[
                ("identical", "2 alike"),
                ("different", "2 that differ"),
                ("four", "4, enough handles"),
                ("one_short", "4, one too few"),
                ("half_short", "4, half too few"),
            ]),
            base: 0.0,
        }],
    ),
    (
        "model-validation",
        &[
            Spec {
                title: "Theorem 1 and the drive",
                x: SOC,
                y: DLWA,
                series: &[
                    ("sim.*", "simulated"),
                    ("model.*", "Theorem 1"),
                    ("model_weighted.*", "weighted"),
                ],
                places: Places::Numbers,
                base: 1.0,
            },
            Spec {
                title: "Uniform writes alone",
                x: "over-provisioning (% of the logical capacity)",
                y: DLWA,
                series: &[("uniform_sim.*", "simulated"), ("uniform_model.*", "Theorem 1")],
                places: Places::Numbers,
                base: 1.0,
            },
        ],
    ),
    (
        "carbon",
        &[
            Spec {
                title: "Embodied carbon by DRAM",
                x: "DRAM (GB)",
                y: "embodied carbon (kg CO2e)",
                series: &[("co2e_kg.on.*", "placement on"), ("co2e_kg.off.*", "placement off")],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "How many times more without placement",
                x: "what is compared",
                y: "off / on (times)",
                series: &[("ratio.*", "ours")],
                places: Places::Listed(&[
                    ("ssd", "the drive"),
                    ("equal_dram", "equal DRAM"),
                    ("headline", "42 GB by 4 GB of DRAM"),
                ]),
                base: 0.0,
            },
        ],
    ),
    (
        "isolation-type",
        &[Spec {
            title: "DLWA by over-provisioning and size of the SOC",
            x: "over-provisioning and share of the SOC (%)",
            y: DLWA,
            series: &[
                ("dlwa.ii.*", "initially"),
                ("dlwa.pi.*", "persistently"),
                ("dlwa.small.*", "small units"),
            ],
            places: Places::Names(op_and_soc),
            base: 0.0,
        }],
    ),
    (
        "mislabelled",
        &[Spec {
            title: "DLWA by mislabelled writes",
            x: "writes mislabelled (%)",
            series: &[("dlwa.on.*", "placement on")],
            ..BY_UTILISATION
        }],
    ),
    (
        "ru-aware-eviction",
        &[
            Spec {
                title: "DLWA with placement",
                x: "workload",
                y: DLWA,
                series: &[("dlwa.region.*", "by region"), ("dlwa.unit.*", "by whole unit")],
                places: RU_AWARE,
                base: 0.0,
            },
            Spec {
                title: "Hit ratio",
                x: "workload",
                y: SHARE,
                series: &[("hit.region.*", "by region"), ("hit.unit.*", "by whole unit")],
                places: RU_AWARE,
                base: 0.0,
            },
        ],
    ),
    (
        "dynamic-placement",
        &[
            Spec {
                title: "DLWA by the size of the SOC",
                x: SOC,
                series: &[("dlwa.static.*", "a handle each"), ("dlwa.dynamic.*", "a third one")],
                ..BY_UTILISATION
            },
            Spec {
                title: "Hot buckets",
                x: SOC,
                y: "share of the SOC's writes (1 = all)",
                series: &[("hot_share.*", "to hot buckets")],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
    ),
    (
        "latency",
        &[
            Spec {
                title: "p99 of reads by load",
                x: LOAD,
                y: "latency (us)",
                series: &[
                    ("read_p99_us.on.*", "placement on"),
                    ("read_p99_us.off.*", "placement off"),
                ],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "p99 of GETs that wait for flash by load",
                x: LOAD,
                y: "time (us)",
                series: &[
                    ("get_p99_us.on.*", "placement on"),
                    ("get_p99_us.off.*", "placement off"),
                ],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "p99 of writes by load",
                x: LOAD,
                y: "latency (us)",
                series: &[
                    ("write_p99_us.on.*", "placement on"),
                    ("write_p99_us.off.*", "placement off"),
                ],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "How many times slower without placement",
                x: LOAD,
                y: "off / on (times)",
                series: &[("read_p99_ratio.*", "p99 read"), ("write_p99_ratio.*", "p99 write")],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
    ),
    (
        "noisy-handle",
        &[Spec {
            title: "DLWA of the shared drive",
            x: "neighbour",
            y: DLWA,
            series: ON_OFF,
            places: Places::Listed(&[("quiet", "is quiet"), ("noisy", "writes at random")]),
            base: 0.0,
        }],
    ),
    (
        "wear-analysis",
        &[Spec {
            title: "Days between two exchanges",
            x: "units and imbalance",
            y: "time (days)",
            series: &[("days90.*", "in 90 % of the life"), ("days100.*", "in all of it")],
            places: Places::Listed(&[
                ("n4_d10", "4, 10 %"),
                ("n8_d10", "8, 10 %"),
                ("n16_d5", "16, 5 %"),
                ("n16_d10", "16, 10 %"),
                ("n16_d20", "16, 20 %"),
                ("n32_d10", "32, 10 %"),
                ("n64_d10", "64, 10 %"),
            ]),
            base: 0.0,
        }],
    ),
    (
        "wear-adversary",
        &[
            Spec {
                title: "Life by rule",
                x: HOT,
                y: LIFE,
                series: &[
                    ("life.pair2.*", "pair rule, gamma/2"),
                    ("life.none.*", "no exchanges"),
                    ("life.literal.*", "paper's rule"),
                    ("life.together2.*", "pair, paper's counters"),
                ],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "Life at fixed periods",
                x: HOT,
                y: LIFE,
                series: &[
                    ("life.week1.*", "1 week"),
                    ("life.week2.*", "2 weeks"),
                    ("life.week4.*", "4 weeks"),
                    ("life.week8.*", "8 weeks"),
                ],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "Erases of migrations",
                x: HOT,
                y: "share of all erases (1 = all)",
                series: &[
                    ("migration.pair1.*", "gamma"),
                    ("migration.pair2.*", "gamma/2"),
                    ("migration.pair4.*", "gamma/4"),
                ],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
    ),
    (
        "wear-mixes",
        &[
            Spec {
                title: "Life of random mixes",
                x: "how tenants change places",
                y: LIFE,
                series: &[("life_mean.*", "mean"), ("life_min.*", "shortest")],
                places: MIX_POLICIES,
                base: 0.0,
            },
            Spec {
                title: "Wear by channel, rates 12 times apart",
                x: "channel",
                y: "erases of a block (1 = once)",
                series: &[("cycles.pair2.*", "with exchanges"), ("cycles.none.*", "without")],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
    ),
    (
        "die-wear",
        &[
            Spec {
                title: "The most worn die",
                x: "writers",
                y: "erases by the mean (1 = even)",
                series: &[
                    ("imbalance.all.*", "also inside channels"),
                    ("imbalance.channels.*", "channels alone"),
                    ("imbalance.carried_one.*", "paper's die carried"),
                    ("imbalance.carried.*", "all dies carried"),
                ],
                places: DIE_LOADS,
                base: 0.0,
            },
            Spec {
                title: "Life until the first die is worn out",
                x: "writers",
                y: LIFE,
                series: &[
                    ("life.all.*", "also inside channels"),
                    ("life.channels.*", "channels alone"),
                    ("life.carried_one.*", "paper's die carried"),
                    ("life.carried.*", "all dies carried"),
                ],
                places: DIE_LOADS,
                base: 0.0,
            },
        ],
    ),
    (
        "isolation-latency",
        &[
            Spec {
                title: "A reader's tail beside a writer, dies in order",
                x: "what they share",
                y: "p99 of reads (us)",
                series: &[
                    ("p99_us.rw.in_order.*", "64 KiB writes beside it"),
                    ("p99_us.search.in_order.*", "a job beside a search engine"),
                    ("p99_us.like.in_order.*", "two logs that are cleaned"),
                ],
                places: VSSD_KINDS,
                base: 0.0,
            },
            Spec {
                title: "The same where reads suspend what dies do",
                x: "what they share",
                y: "p99 of reads (us)",
                series: &[
                    ("p99_us.rw.reads_suspend.*", "64 KiB writes beside it"),
                    ("p99_us.search.reads_suspend.*", "a job beside a search engine"),
                ],
                places: VSSD_KINDS,
                base: 0.0,
            },
            Spec {
                title: "What the sequential neighbour keeps",
                x: "what they share",
                y: "bandwidth (1 = nothing of its own)",
                series: &[("kept.in_order.*", "dies in order")],
                places: VSSD_KINDS,
                base: 0.0,
            },
        ],
    ),
    (
        "placement-and-isolation",
        &[
            Spec {
                title: "A reader's tail beside a cache that writes, dies in order",
                x: "channels",
                y: "p99 of reads (us)",
                series: &[
                    ("p99_us.in_order.off.*", "placement off"),
                    ("p99_us.in_order.on.*", "placement on"),
                ],
                places: CHANNELS,
                base: 0.0,
            },
            Spec {
                title: "DLWA",
                x: "channels",
                y: DLWA,
                series: &[("dlwa.off.*", "placement off"), ("dlwa.on.*", "placement on")],
                places: CHANNELS,
                base: 0.0,
            },
        ],
    ),
    (
        "ycsb",
        &[
            Spec {
                title: "What own channels give LevelDB in throughput",
                x: "against",
                y: "throughput (1 = the same)",
                series: &[
                    ("throughput_gain.2.*", "2 instances"),
                    ("throughput_gain.4.*", "4 instances"),
                ],
                places: LESS_OWN,
                base: 0.0,
            },
            Spec {
                title: "And in the tail",
                x: "against",
                y: "p99 (1 = the same)",
                series: &[("p99_gain.2.*", "2 instances"), ("p99_gain.4.*", "4 instances")],
                places: LESS_OWN,
                base: 0.0,
            },
        ],
    ),
    ("small-objects", &[SMALL_HITS, SMALL_WRITES, SMALL_BITS]),
    (
        "vssd-accounting",
        &[Spec {
            title: "DLWA of a cache, on a managed drive and on blocks",
            x: "cache",
            y: DLWA,
            series: &[
                ("dlwa.off.*", "placement off"),
                ("dlwa.on.*", "placement on"),
                ("dlwa.raw.*", "blocks"),
            ],
            places: Places::Listed(&[
                ("loc", "large objects"),
                ("loc_safe", "and the tombstone log"),
                ("both", "and buckets"),
            ]),
            base: 0.0,
        }],
    ),
    (
        "websearch-mapreduce",
        &[Spec {
            title: "A search engine's tail",
            x: "what they share",
            y: "p99 of reads (us)",
            series: &[("p99_us.*", "p99"), ("p999_us.*", "p99.9")],
            places: VSSD_KINDS,
            base: 0.0,
        }],
    ),
];

/// The charts of an experiment; empty if it has no description.
pub(super) fn of(experiment: &str) -> &'static [Spec<'static>] {
    all().find(|(name, _)| *name == experiment).map_or(&[], |(_, specs)| specs)
}

fn all() -> impl Iterator<Item = &'static (&'static str, &'static [Spec<'static>])> {
    SPECS.iter().chain(array_specs::SPECS).chain(block_specs::SPECS)
}

/// Formats "10.4" as over-provisioning 10 %, SOC 4 %.
fn op_and_soc(point: &str) -> String {
    match point.rsplit_once('.') {
        Some((op, soc)) => format!("OP {op} SOC {soc}"),
        None => point.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    /// Each pattern matches a metric that the experiment declares; otherwise a chart would silently be missing.
    #[test]
    fn descriptions_are_of_metrics_that_are_there() {
        for (name, specs) in all() {
            let experiment = experiment::find(name).unwrap();
            let declares = |pattern: &str| {
                experiment.metrics.iter().any(|(metric, _)| *metric == pattern)
                    || experiment.metrics.iter().any(|(metric, _)| {
                        metric.strip_suffix('*').is_some_and(|series| pattern.starts_with(series))
                    })
            };
            for spec in *specs {
                for (pattern, _) in spec.series {
                    let declared = match spec.places {
                        Places::Listed(list) => {
                            list.iter().all(|(key, _)| declares(&pattern.replace('*', key)))
                        }
                        _ => declares(pattern),
                    };
                    assert!(declared, "{name}: {pattern}");
                }
            }
        }
    }

    #[test]
    fn every_chart_has_titles_with_units() {
        for (name, specs) in all() {
            assert!(!specs.is_empty(), "{name}");
            for spec in *specs {
                assert!(!spec.x.is_empty() && spec.y.contains(['(', '1']), "{name}: {}", spec.y);
            }
        }
    }
}
