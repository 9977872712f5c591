//! Expiry times: seconds of the host's clock; 0 means never.

/// Whether something with expiry `expiry_s` has expired at `now_s`.
///
/// ```
/// use larder_log::is_expired;
///
/// assert!(is_expired(10, 10) && !is_expired(11, 10) && !is_expired(0, u32::MAX));
/// ```
pub fn is_expired(expiry_s: u32, now_s: u32) -> bool {
    expiry_s != 0 && expiry_s <= now_s
}

/// The later of two expiries; `None` means that there is no record yet.
pub(crate) fn later_expiry(latest: Option<u32>, expiry_s: u32) -> Option<u32> {
    match latest {
        Some(0) => Some(0),
        Some(latest) if expiry_s > 0 => Some(latest.max(expiry_s)),
        _ => Some(expiry_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_expires_is_the_latest() {
        let latest = |expiries: &[u32]| expiries.iter().copied().fold(None, later_expiry);
        assert_eq!([latest(&[]), latest(&[5, 9, 7]), latest(&[5])], [None, Some(9), Some(5)]);
        assert_eq!([latest(&[0, 5]), latest(&[5, 0, 9])], [Some(0), Some(0)]);
    }
}
