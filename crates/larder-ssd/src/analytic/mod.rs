//! Closed-form models of a drive, without simulation: write amplification, wear, carbon, cost.
//!
//! "The FDP paper" below is Allison et al., "Towards Efficient Flash Caches with Emerging NVMe FDP SSDs" (EuroSys 2025,
//! arXiv 2503.11665). Theorems are those of this paper; other formulas name their authors.
//!
//! | module | question |
//! |---|---|
//! | [`lambert`] | the function that the closed forms need |
//! | [`dlwa`] | how much does garbage collection write? Theorem 1, FIFO, greedy, random |
//! | [`d_choices`] | the same, when the victim is the best of `d` random units |
//! | [`carbon`] | how much carbon was emitted to make the drives? Theorem 2 |
//! | [`energy`] | how much energy does it take to run them? Theorem 3 |
//! | [`levelling`] | how often must tenants swap places so that all channels wear alike? |
//! | [`life`] | when is a drive worn out, and what does a useful gigabyte cost? |
//!
//! A GB is 10⁹ bytes. Every input is checked: a value out of range is refused with an error that names it, of kind
//! [`ErrorKind::Config`].
//!
//! ```
//! use larder_ssd::analytic::{SpareRatio, dlwa};
//!
//! # fn main() -> Result<(), larder_ssd::Error> {
//! // A drive with 17 % more media than it sells, where small objects take 64 % of the capacity.
//! let spare = SpareRatio::of_soc_percent(17.0, 64.0)?;
//! assert!((dlwa::fifo(spare) - 2.577).abs() < 5e-4);
//! # Ok(())
//! # }
//! ```

pub mod carbon;
pub mod d_choices;
pub mod dlwa;
pub mod energy;
pub mod lambert;
pub mod levelling;
pub mod life;
mod spare;

pub use spare::SpareRatio;

use crate::error::{Error, ErrorKind};

/// Refuses a value that is below `min`, infinite or not a number. The message is `what`, then "of 3".
fn at_least(what: &str, min: f64, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value >= min {
        return Ok(value);
    }
    Err(refused(what, value, format_args!("at least {min} and finite")))
}

/// Refuses a value that is not above zero, is infinite or not a number.
fn positive(what: &str, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(refused(what, value, format_args!("above 0 and finite")))
}

fn refused(what: &str, value: impl std::fmt::Display, range: std::fmt::Arguments<'_>) -> Error {
    Error::new(ErrorKind::Config, format!("{what} of {value}: must be {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_value() {
        assert_eq!(
            at_least("DLWA", 1.0, 0.5).unwrap_err().to_string(),
            "DLWA of 0.5: must be at least 1 and finite"
        );
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = positive("price", value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert_eq!(error.to_string(), format!("price of {value}: must be above 0 and finite"));
        }
        assert_eq!(positive("price", 3.0), Ok(3.0));
        assert_eq!(at_least("DLWA", 1.0, 1.0), Ok(1.0));
    }
}
