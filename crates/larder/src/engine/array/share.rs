//! How much of a reclaimed region may be appended again: a share that follows how busy writes are.
//!
//! Objects that are appended again take the place of new ones in the open region. While the drive has time, they may be
//! half of it; when writes wait for the drive, they shrink to the few that are asked for most. The share changes with
//! each region that begins, by the mean of what was seen while the last one was filled:
//!
//! ```text
//!   busy above 90 %   share ← 0.7 share, at least 8 %
//!   busy below 80 %   share ← 1.15 share + 0.5 %, at most 50 %
//!   between           share stays
//! ```
//!
//! Of the chosen objects fewer are appended than the share: some were replaced, and some reads come too late. On a fast
//! full drive at saturation the least share of 8 % appends 1.2 % of what is written, and costs 3 % of the throughput.

/// Least share: the objects with the most hits cost little and are worth most.
const MIN: f64 = 0.08;
/// Largest share. With more, an append could start a chain of reclaims that ends only when no object is hot any more.
const MAX: f64 = 0.5;
/// The share of a log that has not filled a region yet.
const START: f64 = 0.1;
const BUSY: f64 = 0.9;
const IDLE: f64 = 0.8;
const DOWN: f64 = 0.7;
const UP: f64 = 1.15;
const UP_BY: f64 = 0.005;
const _: () = assert!(0.0 < MIN && MIN < START && START < MAX && IDLE < BUSY && DOWN < 1.0);

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    share: f64,
    /// Sum and number of what was seen since the last step.
    busy: f64,
    seen: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self { share: START, busy: 0.0, seen: 0 }
    }
}

impl Share {
    /// The least share of a region of this number of bytes, which is appended again however busy the drive is.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 4 GiB
    pub(super) fn least_of(bytes: usize) -> usize {
        (MIN * bytes as f64) as usize
    }

    /// The share of a region of this number of bytes.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 4 GiB
    pub(super) fn of(self, bytes: usize) -> usize {
        (self.share * bytes as f64) as usize
    }

    /// Notes how busy the write path is at a write: 0 is idle, 1 means that the next write has to wait.
    pub(super) fn note(&mut self, busy: f64) {
        debug_assert!((0.0..=1.0).contains(&busy), "{busy}");
        self.busy += busy;
        self.seen = self.seen.saturating_add(1);
    }

    /// A region was filled. If nothing was seen, nothing changes.
    pub(super) fn step(&mut self) {
        if self.seen == 0 {
            return;
        }
        let busy = self.busy / f64::from(self.seen);
        (self.busy, self.seen) = (0.0, 0);
        if busy > BUSY {
            self.share = (self.share * DOWN).max(MIN);
        } else if busy < IDLE {
            self.share = (self.share * UP + UP_BY).min(MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(share: &mut Share, busy: f64, steps: u32) -> Vec<f64> {
        let step = |_| {
            share.note(busy);
            share.step();
            share.share
        };
        (0..steps).map(step).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(found.iter().zip(expected).all(is_near), "{found:?}, not {expected:?}");
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn it_shrinks_under_pressure_grows_at_leisure_and_stays_between() {
        let mut share = Share::default();
        assert_near(&steps(&mut share, 1.0, 4), &[0.08; 4]);
        assert_near(&steps(&mut share, 1.0, 50)[49..], &[0.08]);
        assert_near(&steps(&mut share, 0.85, 3), &[0.08; 3]);
        assert_near(&steps(&mut share, 0.5, 2), &[0.097, 0.116_55]);
        assert_near(&steps(&mut share, 0.0, 50)[49..], &[0.5]);
        // The bounds themselves change nothing.
        assert_near(&steps(&mut share, 0.9, 1), &[0.5]);
        assert_near(&steps(&mut share, 1.0, 1), &[0.35]);
        assert_near(&steps(&mut share, 0.8, 1), &[0.35]);
        assert!((349..=350).contains(&share.of(1000)), "{}", share.of(1000));
    }

    #[test]
    fn a_step_takes_the_mean_since_the_last_one() {
        let mut share = Share::default();
        [1.0, 1.0, 0.55].into_iter().for_each(|busy| share.note(busy));
        share.step();
        assert_near(&[share.share], &[0.1]); // a mean of 0.85
        share.step();
        assert_near(&[share.share], &[0.1]);
        [1.0, 0.0].into_iter().for_each(|busy| share.note(busy));
        share.step();
        assert_near(&[share.share], &[0.12]);
    }
}
