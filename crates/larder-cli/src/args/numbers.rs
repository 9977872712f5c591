//! Sizes and shares on the command line.

/// Parses bytes, in every command: K, M, G and T are powers of 1024, as are KiB to TiB; KB, MB, GB and TB are powers of
/// 1000, as drives are sold.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let is_decimal = text.trim_end().strip_suffix(['b', 'B']).is_some_and(|front| {
        front.ends_with(|unit: char| "kmgtpe".contains(unit.to_ascii_lowercase()))
    });
    let parser = parse_size::Config::new();
    let parser = if is_decimal { parser.with_decimal() } else { parser.with_binary() };
    parser.parse_size(text).map_err(|error| {
        format!(
            "{error}; use a number of bytes, one with K, M, G or T (powers of 1024), such as 64M, or one with KB, MB, \
             GB or TB (powers of 1000), such as 1.88TB"
        )
    })
}

pub(super) fn positive_size(text: &str) -> Result<u64, String> {
    size(text)
        .and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("must be at least 1".into()) })
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    within(text, 100.0)
}

/// Flash beyond the capacity of a drive, in percent of it.
#[cfg(any(feature = "lab", feature = "serve"))]
pub(super) fn overprovisioning(text: &str) -> Result<f64, String> {
    within(text, 1000.0)
}

/// Years that a drive is to be in service.
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(super) fn years_of_service(text: &str) -> Result<f64, String> {
    let years: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    check_years(years).map(|()| years)
}

/// Checks a number of years that a drive is to be in service.
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) fn check_years(years: f64) -> Result<(), String> {
    match (0.01..=100.0).contains(&years) {
        true => Ok(()),
        false => Err("must be 0.01 to 100 years".to_owned()),
    }
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
        assert_eq!((size("2K"), size("2KiB")), (Ok(2048), Ok(2048)));
        for bad in ["", "-5", "64X", "99999999999T", "1e400"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn drives_are_sold_in_powers_of_1000() {
        assert_eq!(size("1.88TB"), Ok(1_880_000_000_000));
        assert_eq!(size("16GB"), Ok(16_000_000_000));
        assert_eq!((size("3KB"), size("4096B")), (Ok(3000), Ok(4096)));
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("4"), Ok(4.0));
        for bad in ["120", "-1", "nan", "inf", "x"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
