//! Test rigs of Larder: our programs under the tests, clients, browsers and kernels of others; and, as examples,
//! programs that measure the libraries.
//!
//! `cargo xtask NAME` runs a rig. The rigs start programs, and link none of the code that they test: a tree that does
//! not build can still be checked. What a rig fetches and writes is in `target/xtask/NAME`.
//!
//! | rig | what it runs |
//! |---|---|
//! | `chart` | Helm and the schemas of Kubernetes, on the chart |
//! | `conformance` | the tests of memcached, Redis, Valkey and their clients, against `larder serve` |
//! | `frameworks` | caches, locks and limits of frameworks, against `larder serve`, Valkey and memcached |
//! | `fs` | fsx, pjdfstest, RocksDB, fio, git and sqlite on a mounted virtual SSD |
//! | `guest` | Linux under QEMU with an FDP drive, and our programs in it |
//! | `hits` | a hit under valgrind: the source files that it passes through |
//! | `nbd` | libnbd, QEMU, fio and nbd-tester-client, against `larder block export` |
//! | `page` | the admin page of `larder serve` in Chromium |
//! | `python` | the Python package: its tests, those of Django and Flask-Caching, and speed next to other caches |
//! | `report` | a report of `larder replay` in Chromium |
//! | `servers` | `larder serve` next to memcached and Valkey, under one load |
//! | `ycsb` | YCSB in Java, against `larder serve` |
//!
//! | shared by them | content |
//! |---|---|
//! | `step` | commands that are run, and the verdict of a step |
//! | `workspace` | the root of the workspace, and the build directory |
//! | `tools`, `fetched`, `maven` | programs that cargo installs, packages that others fetch, jars that Maven fetches |
//! | `problem`, `log` | why a suite did not pass, and the log of its programs |
//! | `served`, `process`, `hears`, `port` | a server under test: its start, its first output, its port |
//! | `browser`, `devtools`, `png` | a headless browser, its remote control, and the size of its screenshots |
//! | `narrow` | whether pages fit into the window of a phone |
//!
//! | example | what it measures |
//! |---|---|
//! | `budgets` | memory of a cache whose budget changes under load |
//! | `cache_on` | a cache on a device: the counters of the drive, and the time after the drive is gone |
//! | `counts` | allocations of requests of one kind, for `cargo xtask bench-gate` |
//! | `closing` | the time in which a cache closes and opens |
//! | `crash_safety` | sets a second at each level of crash safety |
//! | `one_hit` | one hit and nothing else, for `hits` |
//! | `resident` | resident memory of a cache that runs for long, next to its budget |
//! | `small_sets` | sets of small values when DRAM and flash are full |

mod browser;
pub mod chart;
pub mod conformance;
mod devtools;
mod fetched;
pub mod frameworks;
pub mod fs;
pub mod guest;
mod hears;
pub mod hits;
mod log;
mod maven;
pub mod monitoring;
pub mod narrow;
pub mod nbd;
pub mod page;
mod png;
mod port;
mod problem;
mod process;
pub mod python;
pub mod report;
mod served;
pub mod servers;
pub mod step;
pub mod tools;
pub mod workspace;
pub mod ycsb;
