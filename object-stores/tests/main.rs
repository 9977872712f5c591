//! A cached store under the Parquet reader, and in front of a server that speaks S3.

#![allow(clippy::unwrap_used)] // a test that cannot continue should stop

#[path = "../../crates/larder-object-store/tests/it/counting.rs"]
#[allow(dead_code)] // these tests use a part of it
mod counting;
mod parquet_files;
#[path = "../../crates/larder-object-store/tests/it/rig.rs"]
#[allow(dead_code)] // these tests use a part of it
mod rig;
mod s3;

use object_store_0_14 as object_store;
