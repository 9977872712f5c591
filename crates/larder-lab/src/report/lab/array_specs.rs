//! The charts of the experiments about the array engine.

use super::specs::{Places, Spec};

/// Reads of an index with a hot fifth of the keys; those of other laws beside it.
const INDEX_READS: Spec<'static> = Spec {
    title: "Reads a GET, a fifth of the keys hot",
    x: "DRAM for the index (one part in so many of all entries)",
    y: "reads of the device (1 = the value alone)",
    series: &[("get_reads.entries.hotspot.*", "entries"), ("get_reads.paged.hotspot.*", "pages")],
    places: Places::Numbers,
    base: 1.0,
};

const INDEXES: Places = Places::Listed(&[
    ("whole", "all in DRAM"),
    ("entries", "cached entries"),
    ("paged", "cached pages"),
    ("cut", "what fits"),
]);

/// By experiment.
pub(super) const SPECS: &[(&str, &[Spec<'static>])] = &[
    (
        "array-index",
        &[
            INDEX_READS,
            Spec {
                title: "Reads a GET, by Zipf's law",
                series: &[
                    ("get_reads.entries.zipf.*", "entries"),
                    ("get_reads.paged.zipf.*", "pages"),
                ],
                ..INDEX_READS
            },
            Spec {
                title: "Reads a GET, every key as likely",
                series: &[
                    ("get_reads.entries.uniform.*", "entries"),
                    ("get_reads.paged.uniform.*", "pages"),
                ],
                ..INDEX_READS
            },
            Spec {
                title: "Index written per SET",
                y: "KiB (tables or pages)",
                series: &[
                    ("set_kib.entries.hotspot.*", "entries, hotspot"),
                    ("set_kib.entries.zipf.*", "entries, Zipf"),
                    ("set_kib.paged.zipf.*", "pages, Zipf"),
                ],
                base: 0.0,
                ..INDEX_READS
            },
        ],
    ),
    (
        "array-throughput",
        &[
            Spec {
                title: "Operations a second, a fifth of the keys hot",
                x: "index",
                y: "thousands a second (all clients)",
                series: &[("kops.*.hotspot.5", "5 % SETs"), ("kops.*.hotspot.50", "50 % SETs")],
                places: INDEXES,
                base: 0.0,
            },
            Spec {
                title: "Times of GETs, a fifth of the keys hot, 5 % SETs",
                x: "index",
                y: "time (us)",
                series: &[("get_mean_us.*.hotspot.5", "mean"), ("get_p99_us.*.hotspot.5", "p99")],
                places: INDEXES,
                base: 0.0,
            },
        ],
    ),
    (
        "array-ttl",
        &[Spec {
            title: "What of the flash is alive",
            x: "regions",
            y: "share (1 = all)",
            series: &[
                ("live_share.*", "can be returned"),
                ("taken_share.*", "written"),
                ("hit.*", "hit ratio"),
            ],
            places: Places::Listed(&[("groups", "by lifetime"), ("lazy", "in one log")]),
            base: 0.0,
        }],
    ),
    (
        "array-collisions",
        &[Spec {
            title: "Values that are lost to other keys",
            x: "bits of the hash",
            y: "share of all values (1 = all)",
            series: &[("lost.*", "lost"), ("bound.*", "birthday bound")],
            places: Places::Numbers,
            base: 0.0,
        }],
    ),
];
