//! Measured object sizes, as inverse distribution functions.
//!
//! Source: the size distributions that CacheLib publishes for its benchmark CacheBench (Apache-2.0;
//! Meta's production caches), reduced to quantiles over distinct objects.

/// The probabilities of the quantiles in this module.
pub(super) const PROBABILITIES: [f64; COUNT] = [
    0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55,
    0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999,
    0.9995, 0.9999, 1.0,
];

/// Number of quantiles of a law.
const COUNT: usize = 34;

/// Value sizes of Meta's regional key-value cache in bytes (`kvcache_reg`; 95 % are up to 351
/// bytes).
pub(super) const META_KV_SMALL_VALUE: [f64; COUNT] = [
    31.0, 95.0, 95.0, 95.0, 95.0, 95.0, 95.0, 127.0, 127.0, 127.0, 127.0, 127.0, 159.0, 159.0,
    159.0, 159.0, 159.0, 159.0, 159.0, 159.0, 159.0, 159.0, 191.0, 255.0, 351.0, 511.0, 671.0,
    959.0, 1_663.0, 4_607.0, 12_991.0, 85_951.0, 357_791.0, 523_487.0,
];

/// The same with four times as many large values (above 576 bytes), in the same proportions among themselves, so that
/// an object has 983 bytes in the mean. This is the mean of a put in the published runs of Meta's trace of June 2022,
/// whose ALWA is 4.3. (The quantile at 0.995 is fitted to the DLWA of these runs, with the drive: see the experiment
/// `real-drive`.)
pub(super) const META_KV_VALUE: [f64; COUNT] = [
    31.0, 95.0, 95.0, 95.0, 95.0, 95.0, 101.0, 127.0, 127.0, 127.0, 127.0, 146.0, 159.0, 159.0,
    159.0, 159.0, 159.0, 159.0, 159.0, 159.0, 171.0, 252.0, 591.0, 707.0, 887.0, 1_311.0, 1_663.0,
    4_116.0, 18_000.0, 76_000.0, 225_000.0, 325_000.0, 475_000.0, 523_487.0,
];

/// Object sizes of Meta's content delivery network in bytes (`cdn`; key and value; median 13 KB).
pub(super) const META_CDN_OBJECT: [f64; COUNT] = [
    127.0,
    159.0,
    159.0,
    159.0,
    159.0,
    159.0,
    159.0,
    159.0,
    1_791.0,
    2_783.0,
    4_031.0,
    5_727.0,
    7_615.0,
    10_143.0,
    13_343.0,
    17_151.0,
    21_567.0,
    27_039.0,
    33_599.0,
    41_343.0,
    50_079.0,
    59_839.0,
    77_631.0,
    93_983.0,
    118_495.0,
    153_887.0,
    189_087.0,
    274_239.0,
    412_543.0,
    631_199.0,
    827_039.0,
    1_006_911.0,
    1_642_367.0,
    4_176_255.0,
];
