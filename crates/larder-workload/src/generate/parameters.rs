//! The parameters that may follow a generator's name: `hotspot:records=1000000,bytes=32768`.

use crate::Error;

use super::convert::to_u64;

/// Requests for a record, on average, if the number of records is not given.
const REQUESTS_PER_RECORD: u64 = 10;
/// Smallest number of records, if it is not given.
const RECORDS_MIN: u64 = 1000;
const BYTES_MAX: u64 = 1 << 30;
const RATE_MAX: u64 = 1_000_000_000;
const RECORDS_MAX: u64 = 1_000_000_000_000;

/// See the module. `None` means the generator's default.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Parameters {
    /// Records at the start, 1 to 10^12.
    pub records: Option<u64>,
    /// Length of a value (of an object, for `uniform`), 1 to 2^30.
    pub bytes: Option<u32>,
    /// Share of SETs among the requests, 0 to 1.
    pub sets: Option<f64>,
    /// Requests a second, 1 to 10^9.
    pub rate: Option<u64>,
}

impl Parameters {
    /// Reads the parameters behind this name in a text, one by one.
    pub(super) fn read(name: &str, text: &str) -> Result<Self, Error> {
        let list = text.split_once(':').map_or("", |(_, list)| list);
        let mut parameters = Self::default();
        for parameter in list.split(',').filter(|parameter| !parameter.is_empty()) {
            parameters.set(name, parameter)?;
        }
        Ok(parameters)
    }

    fn set(&mut self, name: &str, parameter: &str) -> Result<(), Error> {
        let (what, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let within = |first: u64, last: u64| {
            let number = value.parse().ok().filter(|number| (first..=last).contains(number));
            number.ok_or_else(|| {
                let value = value.escape_debug();
                Error::usage(format!(
                    "workload {name}: {what} is \"{value}\", not a number from {first} to {last}"
                ))
            })
        };
        match what {
            "records" => self.records = Some(within(1, RECORDS_MAX)?),
            "bytes" => self.bytes = u32::try_from(within(1, BYTES_MAX)?).ok(),
            "sets" => self.sets = Some(within(0, 100)? as f64 / 100.0),
            "rate" => self.rate = Some(within(1, RATE_MAX)?),
            unknown => {
                let unknown = unknown.escape_debug();
                return Err(Error::usage(format!(
                    "workload {name} has no parameter \"{unknown}\": it may have records, bytes, sets (percent) and \
                     rate (requests a second)"
                )));
            }
        }
        Ok(())
    }

    /// Refuses any parameter: for a generator whose numbers were fitted.
    pub(super) fn must_be_none(&self, name: &str) -> Result<(), Error> {
        match *self == Self::default() {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "workload {name} has no parameters: its numbers were fitted together"
            ))),
        }
    }

    /// Refuses a rate and a share of SETs: for `llm-kv`, whose chats determine what is stored, and when.
    pub(super) fn must_not_say_when(&self, name: &str) -> Result<(), Error> {
        match self.rate.is_none() && self.sets.is_none() {
            true => Ok(()),
            false => Err(Error::usage(format!("workload {name} has records and bytes alone"))),
        }
    }

    /// Number of records for this number of requests.
    pub(super) fn records_for(&self, requests: u64) -> u64 {
        self.records.unwrap_or((requests / REQUESTS_PER_RECORD).max(RECORDS_MIN))
    }
}

/// Seconds since the first request, for request `number` at `rate` a second.
pub(super) fn time_s(number: u64, rate: f64) -> u32 {
    u32::try_from(to_u64(number as f64 / rate)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters() {
        let all = Parameters::read("a", "a:records=7,bytes=9,sets=25,rate=3").unwrap();
        let wanted =
            Parameters { records: Some(7), bytes: Some(9), sets: Some(0.25), rate: Some(3) };
        assert_eq!(all, wanted);
        assert_eq!(Parameters::read("a", "a").unwrap(), Parameters::default());
        assert_eq!(Parameters::default().records_for(1_000_000), 100_000);
        assert_eq!((all.records_for(1_000_000), Parameters::default().records_for(1)), (7, 1000));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("a:records=0", "records is \"0\", not a number from 1 to"),
            ("a:bytes=2000000000", "from 1 to 1073741824"),
            ("a:sets=101", "from 0 to 100"),
            ("a:sets", "sets is \"\""),
            ("a:colour=red", "no parameter \"colour\""),
        ] {
            let Err(Error::Usage(message)) = Parameters::read("a", text) else { panic!("{text}") };
            assert!(message.contains(says), "{message}");
        }
        assert!(Parameters { rate: Some(1), ..Parameters::default() }.must_be_none("a").is_err());
    }
}
