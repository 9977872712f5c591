//! Statistics over the rounds of a measurement. There are few rounds, so these are exact; a histogram is for requests.

use std::fmt;

/// The median, the least and the greatest of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle number, or the mean of the two in the middle.
    pub median: f64,
    /// The least number.
    pub min: f64,
    /// The greatest number.
    pub max: f64,
}

impl Spread {
    /// The spread of these numbers; `None` if there are none.
    ///
    /// ```
    /// use larder_workload::Spread;
    ///
    /// let spread = Spread::of([3.0, 1.0, 2.5]).expect("there are some");
    /// assert_eq!(spread.to_string(), "2.50 (1.00 to 3.00)");
    /// assert_eq!(format!("{spread:.0}"), "2 (1 to 3)");
    /// ```
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*numbers.first()?, *numbers.last()?);
        let upper = numbers[numbers.len() / 2];
        let median = match numbers.len().is_multiple_of(2) {
            true => f64::midpoint(numbers[numbers.len() / 2 - 1], upper),
            false => upper,
        };
        Some(Self { median, min, max })
    }
}

/// With two decimals, or with the precision that the format gives.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (digits, Self { median, min, max }) = (f.precision().unwrap_or(2), self);
        write!(f, "{median:.digits$} ({min:.digits$} to {max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_one_or_between_two() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([4.0, 2.0, 9.0]), Some(Spread { median: 4.0, min: 2.0, max: 9.0 }));
        assert_eq!(Spread::of([2.0, 1.0]), Some(Spread { median: 1.5, min: 1.0, max: 2.0 }));
    }
}
