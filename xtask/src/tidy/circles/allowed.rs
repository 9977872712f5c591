//! Circles that stay for now, each with what ties it. The table only shrinks: a circle that is cut
//! or has become smaller leaves it or changes its entry.

/// A circle that stays for a reason.
pub(super) struct Allowed {
    /// Folder of its files, with `src/`.
    pub(super) folder: &'static str,
    /// Its files below the folder, in the order of paths.
    pub(super) files: &'static [&'static str],
    /// Why it stays, and what would cut it.
    pub(super) reason: &'static str,
}

/// All of them.
pub(super) const ALLOWED: &[Allowed] = &[Allowed {
    folder: "crates/larder-device/src/",
    files: &[
        "claim.rs",
        "device.rs",
        "io.rs",
        "io/future.rs",
        "timeout/given_up.rs",
        "timeout/mod.rs",
        "timeout/watch.rs",
    ],
    reason: "the future of a request knows its deadline, which knows the claim that it keeps up",
}];
