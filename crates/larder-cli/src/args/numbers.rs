//! Sizes and shares, as they are written on the command line.

pub(crate) fn size(text: &str) -> Result<u64, String> {
    let parser = parse_size::Config::new().with_binary();
    parser.parse_size(text).map_err(|error| {
        format!("{error}; use a number of bytes, or one with K, M, G or T, such as 64M")
    })
}

pub(super) fn positive_size(text: &str) -> Result<u64, String> {
    size(text)
        .and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("must be at least 1".into()) })
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    within(text, 100.0)
}

pub(super) fn within(text: &str, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=most).contains(&number) { Ok(number) } else { Err(format!("must be 0 to {most}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("1.5g"), Ok(3 << 29));
        assert_eq!(size("4096"), Ok(4096));
        for bad in ["", "-5", "64X", "99999999999T", "1e400"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("4"), Ok(4.0));
        for bad in ["120", "-1", "nan", "inf", "x"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
