//! Key and value of an object for which a trace gives only one size.

/// Bytes of an object that belong to its key, if the trace gives only the size of key and value together.
pub const KEY_BYTES: u32 = 8;

/// Splits an object size into key and value: the key has [`KEY_BYTES`], the value the rest and at
/// least one byte. Size 0 stands for an unknown size and leaves the value at 0, which means the
/// same in a request.
pub(super) fn split_object(object_bytes: u32) -> (u32, u32) {
    match object_bytes {
        0 => (KEY_BYTES, 0),
        size => (KEY_BYTES, size.saturating_sub(KEY_BYTES).max(1)),
    }
}
