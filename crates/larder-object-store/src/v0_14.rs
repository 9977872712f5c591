//! The store for `object_store` 0.14.

#[path = "adapter.rs"]
mod adapter;

pub use adapter::CachedStore;
use object_store_0_14 as object_store;

/// The results whose fields depend on the version.
mod results {
    use std::ops::Range;

    use object_store_0_14::path::Path;
    use object_store_0_14::{
        Attributes, Extensions, GetResult, GetResultPayload, ListResult, ObjectMeta,
    };

    use crate::store::read::CacheStatus;

    /// With where the bytes are from, for callers that look.
    pub(super) fn get_result(
        payload: GetResultPayload,
        (meta, attributes): (ObjectMeta, Attributes),
        range: Range<u64>,
        status: CacheStatus,
    ) -> GetResult {
        let mut extensions = Extensions::new();
        extensions.insert(status);
        GetResult { payload, meta, range, attributes, extensions }
    }

    pub(super) fn list_result(common_prefixes: Vec<Path>, objects: Vec<ObjectMeta>) -> ListResult {
        ListResult { common_prefixes, objects, extensions: Extensions::new() }
    }
}
