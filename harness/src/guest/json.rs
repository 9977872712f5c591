//! Access to JSON for checks: the value at a path, as a number.

use serde_json::Value;

/// Parses a text that is a single value.
pub(super) fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|cause| format!("no JSON: {cause}"))
}

/// The value at a path of names and indices: `handles.3.ruamw`.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Result<&'a Value, String> {
    path.split('.').try_fold(value, |value, name| {
        let found = match value {
            Value::Array(values) => name.parse().ok().and_then(|at: usize| values.get(at)),
            _ => value.get(name),
        };
        found.ok_or_else(|| format!("no {name} of {path} in the JSON"))
    })
}

/// A whole number, even if written as a string. Fractions are truncated, and true is 1.
pub(super) fn number(value: &Value) -> Result<i128, String> {
    let word = match value {
        Value::Bool(value) => return Ok(i128::from(*value)),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        other => return Err(format!("{other} is no number")),
    };
    let (whole, fraction) = word.split_once('.').unwrap_or((&word, ""));
    let is_decimal = fraction.chars().all(|c| c.is_ascii_digit());
    let number = whole.parse().ok().filter(|_| is_decimal);
    number.ok_or_else(|| format!("{word:?} is no whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_numbers_however_they_are_written() {
        let json = read(r#"{"a": [{"b": 7}, {"b": "8"}, {"b": 9.75}], "on": true}"#).unwrap();
        let found = |path| at(&json, path).and_then(number);
        assert_eq!(["a.0.b", "a.1.b", "a.2.b", "on"].map(found), [7, 8, 9, 1].map(Ok));
        assert_eq!(found("a.3.b").unwrap_err(), "no 3 of a.3.b in the JSON");
        assert!(found("a").unwrap_err().ends_with("is no number"));
        assert!(read("{} {}").unwrap_err().starts_with("no JSON: trailing"));
        let large = read(r#"{"n": 18446744073709551615}"#).unwrap();
        assert_eq!(at(&large, "n").and_then(number), Ok(i128::from(u64::MAX)));
    }
}
