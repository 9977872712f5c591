//! What a script may set of `cjson`.

/// What a script may set. Each script begins with the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonSettings {
    /// Tables that are mostly holes: become objects, or are refused.
    pub(crate) converts_sparse: bool,
    pub(crate) sparse_ratio: i64,
    pub(crate) sparse_safe: i64,
    pub(crate) encode_depth_max: i64,
    pub(crate) decode_depth_max: i64,
    /// Digits of a number.
    pub(crate) digits: usize,
    pub(crate) encodes_invalid: Invalid,
    pub(crate) decodes_invalid: bool,
}

/// What becomes of numbers that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for JsonSettings {
    fn default() -> Self {
        Self {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            digits: 14,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
        }
    }
}
