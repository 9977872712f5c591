//! The parameters of an experiment: names, defaults, and the user's values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Error;

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name in `--set name=value`.
    pub name: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Its meaning, with unit and range.
    pub help: &'static str,
}

/// The values of an experiment's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    experiment: &'static str,
    defaults: BTreeMap<&'static str, &'static str>,
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// The defaults of `parameters`, overridden by `assignments` of the form `name=value`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a malformed assignment, or for a name that the experiment does not have.
    pub fn new(
        experiment: &'static str,
        parameters: &'static [Parameter],
        assignments: &[String],
    ) -> Result<Self, Error> {
        let defaults: BTreeMap<_, _> = parameters.iter().map(|p| (p.name, p.default)).collect();
        let mut values: BTreeMap<_, _> =
            defaults.iter().map(|(name, default)| (*name, (*default).to_owned())).collect();
        for assignment in assignments {
            let (name, value) = assignment.split_once('=').ok_or_else(|| {
                Error::usage(format!("--set {assignment}: must be of the form name=value"))
            })?;
            let known = parameters.iter().find(|parameter| parameter.name == name);
            let Some(parameter) = known else {
                let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
                return Err(Error::usage(format!(
                    "--set {name}: {experiment} has no such parameter; it has {}",
                    names.join(", ")
                )));
            };
            values.insert(parameter.name, value.to_owned());
        }
        Ok(Self { experiment, defaults, values })
    }

    /// The value of `name` as text.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The value of `name`.
    ///
    /// # Errors
    /// [`Error::Usage`] if it cannot be read as a `T`.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<T, Error> {
        let text = self.text(name);
        text.parse().map_err(|_| self.refuse(name, text, "not a value of its kind"))
    }

    /// The value of `name`, which must be in `range`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the value cannot be read as a `T` or is out of range.
    pub fn within<T: FromStr + PartialOrd + Display>(
        &self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<T, Error> {
        let value: T = self.get(name)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let complaint = format!("must be {} to {}", range.start(), range.end());
        Err(self.refuse(name, self.text(name), &complaint))
    }

    /// The values of `name`, separated by commas.
    ///
    /// # Errors
    /// [`Error::Usage`] if one cannot be read as a `T`.
    pub fn list<T: FromStr>(&self, name: &str) -> Result<Vec<T>, Error> {
        let items = self.text(name).split(',').map(str::trim);
        items
            .map(|item| {
                item.parse().map_err(|_| self.refuse(name, item, "not a value of its kind"))
            })
            .collect()
    }

    /// All values by name.
    pub fn values(&self) -> &BTreeMap<&'static str, String> {
        &self.values
    }

    /// The parameters that are not at their defaults, each with its default. `4.0` equals `4`.
    pub fn changed(&self) -> BTreeMap<&'static str, &'static str> {
        let items = |text: &str| -> Vec<String> {
            let number =
                |item: &str| item.parse::<f64>().map_or(item.to_owned(), |n| n.to_string());
            text.split(',').map(|item| number(item.trim())).collect()
        };
        let defaults = self.defaults.iter().map(|(name, default)| (*name, *default));
        defaults.filter(|(name, default)| items(self.text(name)) != items(default)).collect()
    }

    /// An error about the value of `name`.
    pub fn refuse(&self, name: &str, value: &str, complaint: &str) -> Error {
        Error::usage(format!("{}: --set {name}={value}: {complaint}", self.experiment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: &[Parameter] = &[
        Parameter { name: "op", default: "17", help: "" },
        Parameter { name: "soc", default: "4,8", help: "" },
    ];

    fn settings(assignments: &[&str]) -> Result<Settings, Error> {
        let assignments: Vec<_> = assignments.iter().map(|a| (*a).to_owned()).collect();
        Settings::new("test", PARAMETERS, &assignments)
    }

    #[test]
    fn values_are_defaults_until_set() {
        let set = settings(&["op=7"]).unwrap();
        assert_eq!(set.get::<f64>("op").unwrap(), 7.0);
        assert_eq!(set.list::<f64>("soc").unwrap(), [4.0, 8.0]);
    }

    #[test]
    fn what_differs_from_its_default_is_known() {
        assert!(settings(&[]).unwrap().changed().is_empty());
        assert!(settings(&["op=17.0", "soc=4, 8.0"]).unwrap().changed().is_empty());
        let changed = settings(&["op=7", "soc=4"]).unwrap().changed();
        assert_eq!(changed.into_iter().collect::<Vec<_>>(), [("op", "17"), ("soc", "4,8")]);
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        let message = |assignment| settings(&[assignment]).unwrap_err().to_string();
        assert!(message("op").contains("name=value"));
        assert!(message("x=1").contains("it has op, soc"));
        let set = settings(&["op=many", "soc=4,x"]).unwrap();
        assert!(set.get::<f64>("op").unwrap_err().to_string().contains("--set op=many"));
        assert!(set.list::<f64>("soc").unwrap_err().to_string().contains("--set soc=x"));
        assert!(settings(&["op=200"]).unwrap().within("op", 0.0..=100.0).is_err());
    }
}
