//! Policies of a block cache as text, `POLICY[,KEY=VALUE…]`: the same on the command line, in `larder.toml` and over
//! the control socket.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use larder_block::calibration::Profile;
use larder_block::policy::cleaning::{AcpOptions, AlruOptions, CleaningOptions, CleaningPolicy};
use larder_block::policy::routing::RoutingPolicy;
use larder_block::policy::{
    CutOffPolicy, NHit, Promotion, PromotionPolicy, ReadAheadOptions, ReadAheadPolicy,
    SequentialCutOff,
};

use crate::args::numbers::size;

/// When dirty data go to the core in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CleaningArg(pub(crate) CleaningOptions);

/// Which sequential requests bypass the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutOffArg {
    pub(crate) policy: CutOffPolicy,
    pub(crate) threshold_bytes: u64,
}

/// Which streams of reads are read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAheadArg(pub(crate) ReadAheadPolicy);

/// Which missed data are kept in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromotionArg(pub(crate) PromotionPolicy);

/// Which clean hits the core serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RoutingArg {
    #[default]
    Off,
    /// A share that is tuned, starting from the calibration.
    Auto,
    /// A fixed share.
    Split { core_percent: u8 },
}

/// A policy and its keys.
struct Words<'a> {
    policy: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let mut words = text.split(',').map(str::trim);
        let policy = words.next().unwrap_or_default();
        let pairs = words.map(|word| {
            word.split_once('=').ok_or_else(|| format!("{word:?}: give KEY=VALUE behind {policy}"))
        });
        Ok(Self { policy, pairs: pairs.collect::<Result<_, _>>()? })
    }

    /// Takes the value of `key`, parsed by `read`. The last one counts.
    fn take<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
        default: T,
    ) -> Result<T, String> {
        let mut value = default;
        for (_, text) in self.pairs.extract_if(.., |(known, _)| *known == key) {
            value = read(text).map_err(|error| format!("{key}={text}: {error}"))?;
        }
        Ok(value)
    }

    /// Refuses keys that were not taken.
    fn end(self, keys: &str) -> Result<(), String> {
        let policy = self.policy;
        match self.pairs.first() {
            None => Ok(()),
            Some((key, _)) if keys.is_empty() => {
                Err(format!("{key}: {policy} has nothing to be set"))
            }
            Some((key, _)) => Err(format!("{key}: unknown; {policy} has {keys}")),
        }
    }
}

/// Parses `20`, `20s` or `10ms`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let wrong = |_| "give seconds such as 20, or milliseconds such as 10ms".to_owned();
    match text.strip_suffix("ms") {
        Some(number) => number.parse().map(Duration::from_millis).map_err(wrong),
        None => {
            let number = text.strip_suffix('s').unwrap_or(text);
            number.parse().map(Duration::from_secs).map_err(wrong)
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "give a whole number within its range".to_owned())
}

/// The time as text.
fn written(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

impl FromStr for CleaningArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words::of(text)?;
        let default = CleaningOptions::default();
        let bytes_per_second = words.take("limit", size, default.bytes_per_second)?;
        let dirty_high_percent = words.take("high", number, default.dirty_high_percent)?;
        let dirty_low_percent = words.take("low", number, default.dirty_low_percent)?;
        let (policy, keys) = match words.policy {
            "nop" => (CleaningPolicy::Nop, "limit, high, low"),
            "alru" => {
                let it = AlruOptions::default();
                let it = AlruOptions {
                    wake_up: words.take("wake-up", time, it.wake_up)?,
                    staleness: words.take("staleness", time, it.staleness)?,
                    flush_max_buffers: words.take("buffers", number, it.flush_max_buffers)?,
                    activity_threshold: words.take("activity", time, it.activity_threshold)?,
                };
                let keys = "wake-up, staleness, buffers, activity, limit, high, low";
                (CleaningPolicy::Alru(it), keys)
            }
            "acp" => {
                let it = AcpOptions::default();
                let it = AcpOptions {
                    wake_up: words.take("wake-up", time, it.wake_up)?,
                    flush_max_buffers: words.take("buffers", number, it.flush_max_buffers)?,
                };
                (CleaningPolicy::Acp(it), "wake-up, buffers, limit, high, low")
            }
            other => return Err(format!("cleaning {other:?}: give nop, alru or acp")),
        };
        words.end(keys)?;
        let options =
            CleaningOptions { policy, bytes_per_second, dirty_high_percent, dirty_low_percent };
        options.check().map_err(|error| error.to_string())?;
        Ok(Self(options))
    }
}

impl fmt::Display for CleaningArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CleaningOptions { policy, bytes_per_second, dirty_high_percent, dirty_low_percent } =
            self.0;
        match policy {
            CleaningPolicy::Nop => f.write_str("nop")?,
            CleaningPolicy::Alru(it) => write!(
                f,
                "alru,wake-up={},staleness={},buffers={},activity={}",
                written(it.wake_up),
                written(it.staleness),
                it.flush_max_buffers,
                written(it.activity_threshold)
            )?,
            CleaningPolicy::Acp(it) => {
                write!(f, "acp,wake-up={},buffers={}", written(it.wake_up), it.flush_max_buffers)?;
            }
        }
        write!(f, ",limit={bytes_per_second},high={dirty_high_percent},low={dirty_low_percent}")
    }
}

impl FromStr for CutOffArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words::of(text)?;
        let policy = match words.policy {
            "always" => CutOffPolicy::Always,
            "full" => CutOffPolicy::Full,
            "never" => CutOffPolicy::Never,
            other => return Err(format!("cut-off {other:?}: give always, full or never")),
        };
        let threshold_bytes = words.take("threshold", size, SequentialCutOff::THRESHOLD_BYTES)?;
        words.end("threshold")?;
        Ok(Self { policy, threshold_bytes })
    }
}

impl fmt::Display for CutOffArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            CutOffPolicy::Always => "always",
            CutOffPolicy::Full => "full",
            CutOffPolicy::Never => "never",
        };
        write!(f, "{policy},threshold={}", self.threshold_bytes)
    }
}

impl FromStr for ReadAheadArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words::of(text)?;
        let (policy, keys) = match words.policy {
            "off" => (ReadAheadPolicy::Off, ""),
            "on" => {
                let it = ReadAheadOptions::default();
                let it = ReadAheadOptions {
                    threshold_bytes: words.take("threshold", size, it.threshold_bytes)?,
                    window_bytes: words.take("window", size, it.window_bytes)?,
                };
                (ReadAheadPolicy::On(it), "threshold, window")
            }
            other => return Err(format!("read-ahead {other:?}: give off or on")),
        };
        words.end(keys)?;
        policy.check().map_err(|error| error.to_string())?;
        Ok(Self(policy))
    }
}

impl fmt::Display for ReadAheadArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ReadAheadPolicy::Off => f.write_str("off"),
            ReadAheadPolicy::On(it) => {
                let ReadAheadOptions { threshold_bytes, window_bytes } = it;
                write!(f, "on,threshold={threshold_bytes},window={window_bytes}")
            }
        }
    }
}

impl FromStr for PromotionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words::of(text)?;
        let (policy, keys) = match words.policy {
            "always" => (PromotionPolicy::Always, ""),
            "nhit" | "n-hit" => {
                let it = NHit::default();
                let it = NHit {
                    insertion_threshold: words.take("threshold", number, it.insertion_threshold)?,
                    trigger_percent: words.take("trigger", number, it.trigger_percent)?,
                };
                (PromotionPolicy::NHit(it), "threshold, trigger")
            }
            other => return Err(format!("promotion {other:?}: give always or nhit")),
        };
        words.end(keys)?;
        Promotion::new(policy, 1, 4096).map_err(|error| error.to_string())?;
        Ok(Self(policy))
    }
}

impl fmt::Display for PromotionArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PromotionPolicy::Always => f.write_str("always"),
            PromotionPolicy::NHit(it) => {
                let NHit { insertion_threshold, trigger_percent } = it;
                write!(f, "nhit,threshold={insertion_threshold},trigger={trigger_percent}")
            }
        }
    }
}

impl FromStr for RoutingArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words::of(text)?;
        let (routing, keys) = match words.policy {
            "off" => (Self::Off, ""),
            "auto" => (Self::Auto, ""),
            "split" => {
                let core_percent = words.take("core", number, 50)?;
                if core_percent > 100 {
                    return Err(format!("core={core_percent}: give 0 to 100 percent"));
                }
                (Self::Split { core_percent }, "core")
            }
            other => return Err(format!("routing {other:?}: give off, auto or split")),
        };
        words.end(keys)?;
        Ok(routing)
    }
}

impl fmt::Display for RoutingArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Split { core_percent } => write!(f, "split,core={core_percent}"),
        }
    }
}

impl RoutingArg {
    /// The policy for a cache with this calibration, if it has one.
    pub(crate) fn policy(self, profile: Option<&Profile>) -> Result<RoutingPolicy, String> {
        match self {
            Self::Off => Ok(RoutingPolicy::Off),
            Self::Split { core_percent } => {
                Ok(RoutingPolicy::Fixed { core_permille: u16::from(core_percent) * 10 })
            }
            Self::Auto => {
                let known = profile.and_then(Profile::routing).map(RoutingPolicy::Tuned);
                let message = "routing auto: the cache was not calibrated: `larder block calibrate CACHE --store` does \
                               it, while it does not run";
                known.ok_or_else(|| message.to_owned())
            }
        }
    }
}

impl From<RoutingPolicy> for RoutingArg {
    fn from(policy: RoutingPolicy) -> Self {
        match policy {
            RoutingPolicy::Off => Self::Off,
            RoutingPolicy::Tuned(_) => Self::Auto,
            RoutingPolicy::Fixed { core_permille } => {
                Self::Split { core_percent: u8::try_from(core_permille / 10).unwrap_or(100) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn again<T: FromStr<Err = String> + fmt::Display>(text: &str, written: &str) {
        let read = |text: &str| text.parse::<T>().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read(text).to_string(), written);
        assert_eq!(read(written).to_string(), written);
    }

    #[test]
    fn what_is_written_is_read() {
        again::<CleaningArg>("nop", "nop,limit=0,high=80,low=75");
        again::<CleaningArg>(
            "alru,staleness=30,limit=1K, high=50,low=10,activity=100ms",
            "alru,wake-up=20s,staleness=30s,buffers=100,activity=100ms,limit=1024,high=50,low=10",
        );
        again::<CleaningArg>("acp,buffers=9", "acp,wake-up=10ms,buffers=9,limit=0,high=80,low=75");
        again::<CutOffArg>("full,threshold=2M", "full,threshold=2097152");
        again::<CutOffArg>("never", "never,threshold=1048576");
        again::<ReadAheadArg>("off", "off");
        again::<ReadAheadArg>("on", "on,threshold=65536,window=262144");
        again::<ReadAheadArg>("on,window=1M,threshold=128K", "on,threshold=131072,window=1048576");
        again::<PromotionArg>("n-hit,threshold=5", "nhit,threshold=5,trigger=80");
        again::<PromotionArg>("always", "always");
        again::<RoutingArg>("off", "off");
        again::<RoutingArg>("auto", "auto");
        again::<RoutingArg>("split,core=30", "split,core=30");
    }

    #[track_caller]
    fn refused<T: FromStr<Err = String> + fmt::Debug>(text: &str, part: &str) {
        let error = text.parse::<T>().unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        refused::<CleaningArg>("", "give nop, alru or acp");
        refused::<CleaningArg>("nop,staleness=1", "staleness: unknown; nop has limit, high, low");
        refused::<CleaningArg>("alru,staleness", "give KEY=VALUE behind alru");
        refused::<CleaningArg>("alru,staleness=0", "staleness of 0ns: give 1s to 3600s");
        refused::<CleaningArg>("acp,wake-up=x", "wake-up=x: give seconds");
        refused::<CleaningArg>("acp,low=90", "dirty_low_percent of 90");
        refused::<CutOffArg>("full,threshold=x", "threshold=x");
        refused::<ReadAheadArg>("always", "give off or on");
        refused::<ReadAheadArg>("off,window=1M", "off has nothing to be set");
        refused::<ReadAheadArg>("on,depth=3", "depth: unknown; on has threshold, window");
        refused::<ReadAheadArg>(
            "on,threshold=4095",
            "threshold of 4095 bytes: give 4 KiB to 1 GiB",
        );
        refused::<ReadAheadArg>("on,window=17M", "window of 17825792 bytes: give 4 KiB to 16 MiB");
        refused::<PromotionArg>("always,trigger=1", "always has nothing to be set");
        refused::<PromotionArg>("nhit,threshold=1", "insertion_threshold of 1: give 2 to 1000");
        refused::<PromotionArg>("nhit,trigger=300", "give a whole number");
        refused::<RoutingArg>("on", "give off, auto or split");
        refused::<RoutingArg>("auto,core=3", "auto has nothing to be set");
        refused::<RoutingArg>("split,core=101", "core=101: give 0 to 100 percent");
    }
}
