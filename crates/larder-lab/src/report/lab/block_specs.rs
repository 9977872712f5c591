//! The charts of the experiments about block caches.

use super::specs::{Places, Spec};

const FILE: &str = "length of the file (% of the cache)";
const WRITTEN: &str = "written to the cache (1 = what users wrote)";
const CORE: &str = "written to the core (1 = what users wrote)";
const LINE_KIB: Places = Places::Listed(&[("4", "4 KiB"), ("16", "16 KiB"), ("64", "64 KiB")]);
const FILES: Places = Places::Listed(&[("150", "1.5 caches"), ("300", "3 caches")]);

const FIRST_4: Spec<'static> = Spec {
    title: "First write of a file, lines of 4 KiB",
    x: FILE,
    y: WRITTEN,
    series: &[
        ("cw.first.ocf22.4.*", "Open CAS 22"),
        ("cw.first.ocf26.4.*", "Open CAS 26"),
        ("cw.first.log.4.*", "log"),
    ],
    places: Places::Numbers,
    base: 1.0,
};

const AROUND_128: Spec<'static> = Spec {
    title: "Writes of 128 lines that go around the cache",
    x: FILE,
    y: "share of writes (1 = all)",
    series: &[
        ("around.first.ocf26.128.*", "first, Open CAS 26"),
        ("around.second.ocf26.128.*", "second, Open CAS 26"),
        ("around.second.ocf22.128.*", "second, Open CAS 22"),
    ],
    places: Places::Numbers,
    base: 0.0,
};

/// By experiment.
pub(super) const SPECS: &[(&str, &[Spec<'static>])] = &[
    (
        "block-metadata",
        &[
            FIRST_4,
            Spec {
                title: "Second write of it, lines of 4 KiB",
                series: &[
                    ("cw.second.ocf22.4.*", "Open CAS 22"),
                    ("cw.second.ocf26.4.*", "Open CAS 26"),
                    ("cw.second.log.4.*", "log"),
                ],
                ..FIRST_4
            },
            Spec {
                title: "First write of a file, lines of 64 KiB",
                series: &[
                    ("cw.first.ocf22.64.*", "Open CAS 22"),
                    ("cw.first.ocf26.64.*", "Open CAS 26"),
                    ("cw.first.log.64.*", "log"),
                    ("cw.first.dax.64.*", "log in memory"),
                ],
                ..FIRST_4
            },
            Spec {
                title: "What the second write brings to the core, lines of 4 KiB",
                y: CORE,
                series: &[
                    ("kw.second.ocf22.4.*", "Open CAS 22"),
                    ("kw.second.ocf26.4.*", "Open CAS 26"),
                    ("kw.second.log.4.*", "log"),
                ],
                base: 0.0,
                ..FIRST_4
            },
        ],
    ),
    (
        "block-eviction",
        &[
            Spec {
                title: "A stream of one and a half times the cache, again",
                x: "line, and write",
                y: WRITTEN,
                series: &[
                    ("cw.stream.ocf22.*", "Open CAS 22"),
                    ("cw.stream.ocf26.*", "Open CAS 26"),
                    ("cw.stream.log.*", "log"),
                ],
                places: LINE_KIB,
                base: 0.0,
            },
            Spec {
                title: "Skewed writes of 4 KiB",
                x: "file",
                y: WRITTEN,
                series: &[
                    ("cw.zipf.ocf22.*", "Open CAS 22"),
                    ("cw.zipf.ocf26.*", "Open CAS 26"),
                    ("cw.zipf.log.*", "log"),
                ],
                places: FILES,
                base: 0.0,
            },
            Spec {
                title: "What they bring to the core",
                x: "file",
                y: CORE,
                series: &[
                    ("kw.zipf.ocf22.*", "Open CAS 22"),
                    ("kw.zipf.ocf26.*", "Open CAS 26"),
                    ("kw.zipf.log.*", "log"),
                ],
                places: FILES,
                base: 0.0,
            },
        ],
    ),
    (
        "block-invalidate",
        &[
            AROUND_128,
            Spec {
                title: "Writes of 4 lines that do",
                series: &[
                    ("around.first.ocf26.4.*", "first, Open CAS 26"),
                    ("around.second.ocf26.4.*", "second, Open CAS 26"),
                    ("around.second.ocf22.4.*", "second, Open CAS 22"),
                ],
                ..AROUND_128
            },
        ],
    ),
];
