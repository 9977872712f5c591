//! The store for `object_store` 0.13.

#[path = "adapter.rs"]
mod adapter;

pub use adapter::CachedStore;
use object_store_0_13 as object_store;

/// The results whose fields depend on the version.
mod results {
    use std::ops::Range;

    use object_store_0_13::path::Path;
    use object_store_0_13::{Attributes, GetResult, GetResultPayload, ListResult, ObjectMeta};

    use crate::store::read::CacheStatus;

    /// Results of this version have no place for where the bytes are from.
    pub(super) fn get_result(
        payload: GetResultPayload,
        (meta, attributes): (ObjectMeta, Attributes),
        range: Range<u64>,
        _status: CacheStatus,
    ) -> GetResult {
        GetResult { payload, meta, range, attributes }
    }

    pub(super) fn list_result(common_prefixes: Vec<Path>, objects: Vec<ObjectMeta>) -> ListResult {
        ListResult { common_prefixes, objects }
    }
}
