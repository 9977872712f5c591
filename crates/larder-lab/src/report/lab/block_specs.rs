//! The charts of the experiments about block caches.

use super::spec::{Places, Spec};

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

const RATE: &str = "10^6 bytes a second";
const KIB: &str = "request (KiB)";

const RAW_WRITES: Spec<'static> = Spec {
    title: "Writes, one at a time",
    x: KIB,
    y: RATE,
    series: &[
        ("mb_s.write.pmem.1.*", "persistent memory as blocks"),
        ("mb_s.write.p5800x.1.*", "P5800X"),
        ("mb_s.write.pm9a3.1.*", "PM9A3"),
        ("mb_s.write.pm863.1.*", "PM863"),
    ],
    places: Places::Numbers,
    base: 0.0,
};

const ACCESS: Spec<'static> = Spec {
    title: "Part of the second access's bandwidth that the first lacks, persistent memory",
    x: "line, and write",
    y: "part (1 = all)",
    series: &[
        ("loss.pmem.ocf22.*", "Open CAS 22"),
        ("loss.pmem.ocf26.*", "Open CAS 26"),
        ("loss.pmem.log.*", "log"),
    ],
    places: LINE_KIB,
    base: 0.0,
};

const LOGIC: Spec<'static> = Spec {
    title: "Logic of the cache, of the processor's time on files, first access",
    x: "line, and write",
    y: "part (1 = all)",
    series: &[
        ("logic_of_cpu.files.first.ocf22.*.1", "Open CAS 22"),
        ("logic_of_cpu.files.first.ocf26.*.1", "Open CAS 26"),
        ("logic_of_cpu.files.first.log.*.1", "log"),
        ("logic_of_cpu.files.first.log.*.32", "log, 32 under way"),
    ],
    places: LINE_KIB,
    base: 0.0,
};

/// By experiment.
pub(super) const SPECS: &[(&str, &[Spec<'static>])] = &[
    (
        "block-raw",
        &[
            RAW_WRITES,
            Spec {
                title: "Reads, one at a time",
                series: &[
                    ("mb_s.read.pmem.1.*", "persistent memory as blocks"),
                    ("mb_s.read.p5800x.1.*", "P5800X"),
                    ("mb_s.read.pm9a3.1.*", "PM9A3"),
                    ("mb_s.read.pm863.1.*", "PM863"),
                ],
                ..RAW_WRITES
            },
        ],
    ),
    (
        "block-access",
        &[
            ACCESS,
            Spec {
                title: "The same on the Optane SSD",
                series: &[
                    ("loss.p5800x.ocf22.*", "Open CAS 22"),
                    ("loss.p5800x.ocf26.*", "Open CAS 26"),
                    ("loss.p5800x.log.*", "log"),
                ],
                ..ACCESS
            },
            Spec {
                title: "Second access, lines of 4 KiB",
                series: &[
                    ("mb_s.second.pmem.ocf22.4.*", "Open CAS 22, persistent memory"),
                    ("mb_s.second.p5800x.ocf22.4.*", "Open CAS 22, P5800X"),
                    ("mb_s.second.pmem.log.4.*", "log, persistent memory"),
                    ("mb_s.second.p5800x.log.4.*", "log, P5800X"),
                ],
                ..RAW_WRITES
            },
            Spec {
                title: "Second access before a PM863, lines of 4 KiB",
                x: FILE,
                series: &[
                    ("file_mb_s.second.pm863.ocf22.4.*", "Open CAS 22"),
                    ("file_mb_s.second.pm863.ocf26.4.*", "Open CAS 26"),
                    ("file_mb_s.second.pm863.log.4.*", "log"),
                ],
                ..RAW_WRITES
            },
        ],
    ),
    (
        "block-full",
        &[Spec {
            title: "A stream that comes to a cache full of dirty data",
            x: "devices",
            y: "bandwidth (1 = the core's own)",
            series: &[
                ("of_core.*.stream", "full of a stream"),
                ("of_core.*.runs", "full of runs of 1 MiB"),
                ("of_core.*.lines", "full of lines"),
            ],
            places: Places::Listed(&[
                ("nvme.hdd", "NVMe, disk"),
                ("nvme.sata", "NVMe, SATA"),
                ("pmem.pm9a3", "memory, PM9A3"),
            ]),
            base: 0.0,
        }],
    ),
    (
        "block-recovery",
        &[Spec {
            title: "Start after a crash, NVMe",
            x: "capacity (MiB)",
            y: "device time (ms)",
            series: &[("start_ms.log.nvme.*", "log"), ("start_ms.ocf26.nvme.*", "Open CAS 26")],
            places: Places::Numbers,
            base: 0.0,
        }],
    ),
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
                    ("cw.first.beside.64.*", "log beside metadata"),
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
        "block-offload",
        &[Spec {
            title: "Rates with a tuned share, by those of classic caching",
            x: "speed of the core, percent of the cache device's",
            y: "bandwidth (1 = classic caching)",
            series: &[
                ("gain.hits.*", "hits"),
                ("gain.misses.*", "5 % misses"),
                ("gain.writes.*", "30 % writes"),
            ],
            places: Places::Numbers,
            base: 0.0,
        }],
    ),
    (
        "block-cpu",
        &[
            LOGIC,
            Spec {
                title: "Part of the second access's bandwidth that the first lacks, on files",
                series: &[
                    ("loss.files.ocf22.*.1", "Open CAS 22"),
                    ("loss.files.ocf26.*.1", "Open CAS 26"),
                    ("loss.files.log.*.1", "log"),
                ],
                ..LOGIC
            },
            Spec {
                title: "First access on files, one request at a time",
                y: RATE,
                series: &[
                    ("mb_s.files.first.ocf22.*.1", "Open CAS 22"),
                    ("mb_s.files.first.ocf26.*.1", "Open CAS 26"),
                    ("mb_s.files.first.log.*.1", "log"),
                ],
                ..LOGIC
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
