//! The Parquet reader over a cached store: what it asks of the store, cold and warm.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures_util::TryStreamExt;
use larder_object_store::v0_14::CachedStore;
use larder_object_store::{Options, PathRule};
use object_store_0_14::ObjectStore;
use object_store_0_14::path::Path;
#[allow(deprecated)] // what programs use today
use parquet::arrow::async_reader::ParquetObjectReader;
use parquet::arrow::{ArrowWriter, ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::file::properties::WriterProperties;

use crate::counting::Counting;
use crate::rig;

const ROWS: i64 = 200_000;
const GROUPS: usize = 8;

/// A file with 8 row groups of two columns of numbers.
fn file() -> Vec<u8> {
    let first: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let mixed = (0..ROWS).map(|row| row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()));
    let second: ArrayRef = Arc::new(Int64Array::from_iter_values(mixed));
    let batch = RecordBatch::try_from_iter([("row", first), ("mixed", second)]).unwrap();
    let rows = usize::try_from(ROWS).unwrap() / GROUPS;
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[allow(deprecated)]
async fn sum(store: Arc<dyn ObjectStore>, column: &str, groups: Vec<usize>) -> (usize, i64) {
    let reader = ParquetObjectReader::new(store, Path::from("t/1.parquet"));
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.unwrap();
    assert_eq!(builder.metadata().num_row_groups(), GROUPS);
    let columns = ProjectionMask::columns(builder.parquet_schema(), [column]);
    let stream = builder.with_projection(columns).with_row_groups(groups).build().unwrap();
    let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    let mut sum = 0_i64;
    for batch in &batches {
        let values = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        sum = values.values().iter().fold(sum, |sum, value| sum.wrapping_add(*value));
    }
    (batches.iter().map(RecordBatch::num_rows).sum(), sum)
}

/// Waits until what was fetched is stored.
async fn settle(cached: &CachedStore<Counting>) {
    let mut before = u64::MAX;
    while before != cached.metrics().stored_parts {
        before = cached.metrics().stored_parts;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_second_query_asks_nothing_and_the_first_no_more_than_without_a_cache() {
    let store = Counting::new();
    store.write("t/1.parquet", file()).await;
    let all = || (0..GROUPS).collect();
    let plain = sum(Arc::new(store.clone()), "mixed", all()).await;
    let without = store.taken().len();
    let options = Options { immutable: vec![PathRule::prefix("t")], ..Options::default() };
    let cached = CachedStore::with_options(store.clone(), rig::cache(), "lake", options).unwrap();
    let shared: Arc<dyn ObjectStore> = Arc::new(cached.clone());
    assert_eq!(sum(Arc::clone(&shared), "mixed", all()).await, plain);
    let cold = store.taken().len();
    assert_eq!(plain.0, usize::try_from(ROWS).unwrap());
    settle(&cached).await;
    assert_eq!(sum(Arc::clone(&shared), "mixed", all()).await, plain);
    let warm = store.taken().len();
    println!("requests: {without} without a cache, {cold} cold, {warm} warm");
    assert!(cold <= without && warm == 0, "{without} without a cache, {cold} cold, {warm} warm");
    // Another column of one group: only what is not there yet.
    assert_eq!(sum(shared, "row", vec![3]).await.0, usize::try_from(ROWS).unwrap() / GROUPS);
    assert!(store.taken().len() <= 1);
    println!("{:?}", cached.metrics());
}
