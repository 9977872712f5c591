//! How the engines share the flash.

use super::Config;
use super::soc::PERCENT as SOC_PERCENT;
use crate::base::error::Error;

impl Config {
    /// The small-object engine's share, in percent, of a cache of `flash_bytes` that begins empty.
    pub(crate) fn soc_percent(&self, flash_bytes: u64) -> f64 {
        match self.soc.percent {
            Some(percent) => percent,
            None if self.array.is_on() => self.soc_percent_beside_array(),
            None => self.soc.percent_of(flash_bytes, self.memory()),
        }
    }

    /// The default share when the array is on. The array is for hosts with little memory, so small objects go to
    /// buckets, unless no share is left for them.
    fn soc_percent_beside_array(&self) -> f64 {
        let left = 100.0 - self.array.percent - self.log_asked_for();
        if left >= SOC_PERCENT { SOC_PERCENT } else { 0.0 }
    }

    /// The share of the log before buckets, in percent, of a cache of `flash_bytes` that begins empty. Small objects
    /// have `soc_percent`, which is this number of bytes.
    pub(crate) fn log_percent(
        &self,
        (soc_percent, soc_bytes): (f64, u64),
        flash_bytes: u64,
    ) -> f64 {
        if self.array.is_on() {
            return self.log_asked_for();
        }
        self.soc.log_percent_for((soc_percent, soc_bytes), (flash_bytes, self.memory()))
    }

    fn log_asked_for(&self) -> f64 {
        self.soc.log_percent.unwrap_or(0.0)
    }

    /// The large-object engine's share, in percent, given the shares of the small-object engine and its log.
    pub(crate) fn loc_percent(&self, soc_percent: f64, log_percent: f64) -> f64 {
        let left = 100.0 - soc_percent - log_percent - self.array.percent;
        // Shares that are written to add up to 100 may miss it by a rounding error.
        if left < 1e-6 { 0.0 } else { left }
    }

    /// Refuses shares that leave some object size without an engine, or that add up to more than 100.
    pub(super) fn check_shares(&self) -> Result<(), Error> {
        if !self.array.is_on() {
            return Ok(());
        }
        let (array, log) = (self.array.percent, self.log_asked_for());
        let soc = self.soc.percent.unwrap_or(self.soc_percent_beside_array());
        if soc + log + array > 100.0 + 1e-6 || log > 0.0 && soc == 0.0 {
            return Err(Error::config(format!(
                "array.percent = {array}, soc.percent = {soc} and soc.log_percent = {log}: must be at most 100 \
                 together, and a log needs buckets; use a smaller array.percent"
            )));
        }
        let left = self.loc_percent(soc, log);
        let (from, small) = (self.array.min_object_bytes, self.soc.max_object_bytes);
        if from == 0 && left > 0.0 {
            return Err(Error::config(format!(
                "array.percent = {array} leaves {left} to the large-object engine, which no object goes to with \
                 array.min_object_bytes = 0; set array.percent = {}, or array.min_object_bytes",
                100.0 - soc - log
            )));
        }
        let taken = if soc > 0.0 { small } else { 0 };
        if from > taken.saturating_add(1) && left == 0.0 {
            return Err(Error::config(format!(
                "array.min_object_bytes = {from}: no flash is left for shorter objects of more than {taken} bytes; \
                 leave some to the large-object engine with a smaller array.percent, or set \
                 array.min_object_bytes = 0"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ArrayConfig, SocConfig};

    fn with(array: f64, from: u32, soc: Option<f64>, log: f64) -> Config {
        Config {
            array: ArrayConfig { percent: array, min_object_bytes: from, ..ArrayConfig::default() },
            soc: SocConfig { percent: soc, log_percent: Some(log), ..SocConfig::default() },
            ..Config::default()
        }
    }

    #[test]
    fn each_object_has_an_engine() {
        let works = |config: Config| config.check().is_ok();
        assert!(works(with(100.0, 0, None, 0.0)), "alone");
        assert!(works(with(96.0, 0, None, 0.0)) && works(with(95.9, 0, Some(4.1), 0.0)));
        assert!(works(with(91.0, 0, Some(4.0), 5.0)), "a log in front of the buckets");
        assert!(works(with(50.0, 8192, None, 0.0)), "three engines");
        assert!(works(with(100.0, 1, None, 0.0)) && works(with(96.0, 641, None, 0.0)));
        for (config, said) in [
            (with(50.0, 0, Some(4.0), 0.0), "leaves 46 to the large-object engine"),
            (with(50.0, 0, Some(4.0), 0.0), "set array.percent = 96"),
            (with(97.0, 0, Some(4.0), 0.0), "must be at most 100 together"),
            (with(98.0, 0, None, 2.0), "a log needs buckets"),
            (with(100.0, 2, None, 0.0), "shorter objects of more than 0 bytes"),
            (with(96.0, 642, None, 0.0), "shorter objects of more than 640 bytes"),
        ] {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_share_of_buckets_with_an_array_does_not_depend_on_memory() {
        let config = Config { dram_bytes: 1 << 30, ..with(50.0, 8192, None, 0.0) };
        assert_eq!(config.soc_percent(1 << 30), 4.0);
        assert_eq!(
            (config.loc_percent(4.0, 0.0), with(96.0, 0, None, 0.0).loc_percent(4.0, 0.0)),
            (46.0, 0.0)
        );
        assert_eq!(with(100.0, 0, None, 0.0).soc_percent(1 << 40), 0.0);
        assert_eq!(Config { dram_bytes: 1 << 30, ..Config::default() }.soc_percent(1 << 30), 0.0);
    }
}
