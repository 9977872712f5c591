//! How far away the next hit of an object in a bucket is thought to be (RRIP; Kangaroo, SOSP'21): a number of 3 bits.
//!
//! On flash it is stored with the bits of "long" inverted, so that a new object has zeros there, whether its bucket
//! evicts by predictions or not.

/// A prediction: from [`Prediction::NEAR`] to [`Prediction::FAR`]. The larger, the farther.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prediction(u8);

/// Bits of a prediction.
pub(super) const PREDICTION_BITS: u32 = 3;

impl Prediction {
    /// The object was hit.
    pub(crate) const NEAR: Self = Self(0);
    /// The object is new.
    pub(crate) const LONG: Self = Self(6);
    /// The object goes if room is needed.
    pub(crate) const FAR: Self = Self((1 << PREDICTION_BITS) - 1);

    /// What is stored; less than 2 to the power of [`PREDICTION_BITS`].
    pub(super) fn stored(self) -> u16 {
        u16::from(self.0 ^ Self::LONG.0)
    }

    /// The inverse of [`Prediction::stored`]; further bits do not count.
    pub(super) fn of_stored(stored: u16) -> Self {
        let [low, _] = (stored & u16::from(Self::FAR.0)).to_le_bytes();
        Self(low ^ Self::LONG.0)
    }

    /// By how much it must age to be at [`Prediction::FAR`].
    pub(super) fn steps_to_far(self) -> u8 {
        Self::FAR.0 - self.0
    }

    /// The prediction after `steps` searches for room that found no object at [`Prediction::FAR`].
    pub(super) fn aged(self, steps: u8) -> Self {
        Self(self.0.saturating_add(steps).min(Self::FAR.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prediction_is_read_as_it_was_stored_and_a_new_one_is_zero() {
        for number in 0..=Prediction::FAR.0 {
            let prediction = Prediction(number);
            assert!(prediction.stored() < 1 << PREDICTION_BITS);
            assert_eq!(Prediction::of_stored(prediction.stored()), prediction);
            assert_eq!(prediction.aged(prediction.steps_to_far()), Prediction::FAR);
        }
        assert_eq!(Prediction::LONG.stored(), 0);
        assert_eq!(
            Prediction::of_stored(0b1000),
            Prediction::LONG,
            "the bit above is another field's"
        );
        assert_eq!(Prediction::FAR.aged(3), Prediction::FAR);
    }
}
