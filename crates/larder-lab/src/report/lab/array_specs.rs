//! The charts of the experiments about the array engine.

use super::spec::{Places, Spec};

/// Reads of an index with a hot fifth of the keys. The charts of other laws derive from it.
const INDEX_READS: Spec<'static> = Spec {
    title: "Reads a GET, a fifth of the keys hot",
    x: "DRAM for the index (as the divisor of all entries)",
    y: "reads of the device (1 = the value alone)",
    series: &[
        ("get_reads.engine.hotspot.*", "the engine"),
        ("get_reads.entries.hotspot.*", "its model"),
        ("get_reads.paged.hotspot.*", "pages"),
    ],
    places: Places::Numbers,
    base: 1.0,
};

const LAWS: Places =
    Places::Listed(&[("hotspot", "a hot fifth"), ("zipf", "Zipf's law"), ("uniform", "even")]);
const LOADS: Places = Places::Listed(&[("half", "half"), ("full", "saturated")]);

const INDEXES: Places = Places::Listed(&[
    ("whole", "all in DRAM"),
    ("engine", "the engine"),
    ("entries", "its rule"),
    ("udepot-opt", "uDepot in DRAM"),
    ("udepot-cache", "uDepot-Cache"),
    ("slickcache", "SlickCache"),
    ("paged", "pages at best"),
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
                    ("get_reads.engine.zipf.*", "the engine"),
                    ("get_reads.entries.zipf.*", "its model"),
                    ("get_reads.paged.zipf.*", "pages"),
                ],
                ..INDEX_READS
            },
            Spec {
                title: "Reads a GET, every key as likely",
                series: &[
                    ("get_reads.engine.uniform.*", "the engine"),
                    ("get_reads.entries.uniform.*", "its model"),
                    ("get_reads.paged.uniform.*", "pages"),
                ],
                ..INDEX_READS
            },
            Spec {
                title: "Index written per SET",
                y: "KiB (tables or pages)",
                series: &[
                    ("set_kib.engine.hotspot.*", "the engine, hotspot"),
                    ("set_kib.engine.zipf.*", "the engine, Zipf"),
                    ("set_kib.entries.zipf.*", "its model, Zipf"),
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
                title: "Operations a second, a fifth of the keys hot, half SETs",
                x: "index",
                y: "thousands a second (all clients)",
                series: &[
                    ("kops.*.hotspot.3.1", "3 % filled, as the artifact's script"),
                    ("kops.*.hotspot.85.1", "85 % filled"),
                ],
                places: INDEXES,
                base: 0.0,
            },
            Spec {
                title: "Times of operations, a fifth of the keys hot, 3 % filled",
                x: "index",
                y: "time (us)",
                series: &[("mean_us.*.hotspot.3.1", "mean"), ("p99_us.*.hotspot.3.1", "p99")],
                places: INDEXES,
                base: 0.0,
            },
            Spec {
                title: "The same, 85 % filled",
                x: "index",
                y: "time (us)",
                series: &[("mean_us.*.hotspot.85.1", "mean"), ("p99_us.*.hotspot.85.1", "p99")],
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
            places: Places::Listed(&[
                ("engine", "the engine"),
                ("engine_one", "in one group"),
                ("groups", "its model"),
                ("lazy", "lazy log"),
            ]),
            base: 0.0,
        }],
    ),
    (
        "array-placement",
        &[Spec {
            title: "What drives write for the array engine",
            x: "drive",
            y: "DLWA (1 = what the host wrote)",
            series: &[("dlwa.*", "DLWA")],
            places: Places::Listed(&[
                ("fdp", "handles for groups"),
                ("one", "one handle"),
                ("raw", "blocks of a vSSD"),
            ]),
            base: 1.0,
        }],
    ),
    (
        "array-reinsertion",
        &[
            Spec {
                title: "What is found",
                x: "popularity",
                y: "hit ratio (1 = all)",
                series: &[("hit.on.*", "hot objects written again"), ("hit.off.*", "none")],
                places: LAWS,
                base: 0.0,
            },
            Spec {
                title: "What is written for an object",
                x: "popularity",
                y: "ALWA (bytes written by bytes of objects)",
                series: &[
                    ("alwa.on.*", "hot objects written again"),
                    ("reinserted_alwa.on.*", "of these, written again"),
                    ("alwa.off.*", "none"),
                ],
                places: LAWS,
                base: 0.0,
            },
        ],
    ),
    (
        "array-pressure",
        &[
            Spec {
                title: "What is found",
                x: "load",
                y: "hit ratio (1 = all)",
                series: &[
                    ("hit.on.*.hotspot", "with reinsertion"),
                    ("hit.off.*.hotspot", "without"),
                ],
                places: LOADS,
                base: 0.5,
            },
            Spec {
                title: "How long GETs take",
                x: "load",
                y: "p99 (us)",
                series: &[
                    ("get_p99_us.on.*.hotspot", "with reinsertion"),
                    ("get_p99_us.off.*.hotspot", "without"),
                ],
                places: LOADS,
                base: 0.0,
            },
        ],
    ),
    (
        "array-crash",
        &[Spec {
            title: "What a restart reads",
            x: "flash (MiB)",
            y: "share of the flash (1 = all)",
            series: &[("read_share.clean.*", "closed"), ("read_share.crash.*", "killed")],
            places: Places::Numbers,
            base: 0.0,
        }],
    ),
    (
        "array-memory",
        &[Spec {
            title: "Memory for each object",
            x: "flash (GiB)",
            y: "memory (bytes an object)",
            series: &[
                ("index_per_object.4.*", "objects of 4 KiB"),
                ("index_per_object.32.*", "of 32 KiB"),
                ("whole_per_object.32.*", "index whole in DRAM"),
            ],
            places: Places::Numbers,
            base: 0.0,
        }],
    ),
    (
        "array-failure",
        &[
            Spec {
                title: "One of eight drives dies, comes back, dies and comes back again",
                x: "slice of the run (four for each part)",
                y: "operations (thousands a second)",
                series: &[("kops_at.*", "operations")],
                places: Places::Numbers,
                base: 0.0,
            },
            Spec {
                title: "Hits during the run",
                x: "slice of the run (four for each part)",
                y: "hit ratio (1 = all)",
                series: &[("hit_at.*", "hits")],
                places: Places::Numbers,
                base: 0.0,
            },
        ],
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
