//! The settings of a cache by their names in `larder.toml`: `[soc]`, `[loc]`, `[array]`, `[admission]`, `[placement]`,
//! `[dram]`, `[demotion]`, and keys without a section. A tenant has the same keys.

use std::collections::BTreeMap;

use larder::Config;
use larder_workload::Error;
use toml::Spanned;

use super::source::{From, Source};
use crate::args::ArrayEngineArgs;
use crate::args::cache_keys::{CacheKey, Change, KEYS, default_config, find};

/// A value of any type.
pub(super) type Value = Spanned<toml::Value>;
/// A section, such as `[soc]`.
pub(super) type Section = Option<Spanned<BTreeMap<String, Value>>>;

/// The key of the share of the array engine, without which its other keys mean nothing.
const ARRAY_PERCENT: &str = "array.percent";
/// The key that says whether placement is wanted.
const PLACEMENT_MODE: &str = "placement.mode";

/// What a file has about a cache, by the names of sections and of keys without a section.
pub(super) struct Sections<'a> {
    pub(super) sections: Vec<(&'static str, &'a Section)>,
    pub(super) keys: Vec<(&'static str, &'a Option<Value>)>,
}

/// Fields of `$of` with their names.
macro_rules! named {
    ($of:expr, $($field:ident)*) => {
        vec![$((stringify!($field), &$of.$field)),*]
    };
}
pub(super) use named;

/// What was said of a cache, on the command line or in a file: the text of each key, and where it comes from. All other
/// keys have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CacheSettings(BTreeMap<&'static str, (String, From)>);

impl CacheSettings {
    /// What a file says in `sections`; `whose` comes first in errors.
    pub(super) fn read(
        sections: &Sections<'_>,
        whose: &str,
        source: &Source,
    ) -> Result<Self, Error> {
        let mut settings = Self::default();
        let of_sections = sections.sections.iter().flat_map(|(section, content)| {
            let values = content.iter().flat_map(|content| content.get_ref());
            values.map(move |(key, value)| (format!("{section}.{key}"), value))
        });
        let alone = sections.keys.iter();
        let alone = alone.filter_map(|(key, value)| Some(((*key).to_owned(), value.as_ref()?)));
        for (name, value) in of_sections.chain(alone) {
            let said = text(value.get_ref())
                .ok_or_else(|| format!("{name}: must be a number, a text, true, false, or a list"))
                .and_then(|text| settings.say(&name, &text, From::File));
            said.map_err(|why| source.refuse(Some(value.span()), &format!("{whose}{why}")))?;
        }
        Ok(settings)
    }

    /// What the command line says: names of keys and their texts.
    pub(crate) fn said<'a>(
        options: impl IntoIterator<Item = (&'static str, Option<&'a String>)>,
        array: &ArrayEngineArgs,
    ) -> Result<Self, Error> {
        let mut settings = Self::default();
        let options = options.into_iter().filter_map(|(name, text)| Some((name, text?.clone())));
        let array = array.said().into_iter().filter_map(|(name, text)| Some((name, text?)));
        for (name, text) in options.chain(array) {
            settings.say(name, &text, From::CommandLine).map_err(Error::usage)?;
        }
        Ok(settings)
    }

    /// Sets one key.
    fn say(&mut self, name: &str, text: &str, from: From) -> Result<(), String> {
        let key = find(name)?;
        (key.set)(&mut default_config(), text).map_err(|why| format!("{name} = {text}: {why}"))?;
        self.0.insert(key.name, (text.to_owned(), from));
        Ok(())
    }

    /// These settings, and those of `below` that are not among them.
    pub(crate) fn over(&self, below: &Self) -> Self {
        let mut all = below.clone();
        all.0.extend(self.0.clone());
        all
    }

    /// Puts them into `config`.
    pub(crate) fn put_into(&self, config: &mut Config) {
        KEYS.iter().for_each(|key| self.put(key, config));
    }

    /// Puts one key into `config`, if it was said.
    fn put(&self, key: &CacheKey, config: &mut Config) {
        if let Some(text) = self.text(key.name) {
            let put = (key.set)(config, text);
            debug_assert!(put.is_ok(), "a text was checked when it was said: {put:?}");
        }
    }

    /// The text of a key, if it was said.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(text, _)| text.as_str())
    }

    /// The wish for placement, if it was said: required, preferred or off.
    pub(crate) fn placement(&self) -> Option<larder_device::PlacementMode> {
        self.text(PLACEMENT_MODE)?.parse().ok()
    }

    /// What is wrong with all of it together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let of_array = self.0.keys().find(|name| name.starts_with("array."));
        match of_array.filter(|_| !self.0.contains_key(ARRAY_PERCENT)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "{name}: means nothing without {ARRAY_PERCENT}, the array engine's share of the flash"
            )),
        }
    }

    /// All keys: name, value, and where it comes from.
    pub(crate) fn explained(&self) -> impl Iterator<Item = (&'static str, String, From)> {
        let mut config = default_config();
        self.put_into(&mut config);
        KEYS.iter().map(move |key| match self.0.get(key.name) {
            Some((text, from)) => (key.name, text.clone(), *from),
            None => (key.name, (key.get)(&config), From::Default),
        })
    }

    /// What was said, for people: `soc.percent 4, admission.policy freq:2`.
    pub(crate) fn listed(&self) -> String {
        let each: Vec<String> =
            self.0.iter().map(|(name, (text, _))| format!("{name} {text}")).collect();
        each.join(", ")
    }

    /// The keys in which `other` differs, with what a change of each needs.
    pub(crate) fn changed(&self, other: &Self) -> Vec<(&'static str, Change)> {
        // The texts may differ and mean the same, as 1K and 1024, or the default.
        let means = |settings: &Self, key: &CacheKey| {
            let mut config = default_config();
            settings.put(key, &mut config);
            config
        };
        let differs = |key: &&CacheKey| {
            means(self, key) != means(other, key)
                || key.name == PLACEMENT_MODE && self.placement() != other.placement()
        };
        KEYS.iter().filter(differs).map(|key| (key.name, key.change)).collect()
    }
}

/// A value as it is written on the command line.
fn text(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Array(values) => {
            values.iter().map(text).collect::<Option<Vec<String>>>()?.join(",")
        }
        toml::Value::Table(_) | toml::Value::Datetime(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use larder::{
        AdmissionPolicy, CrashSafety, DramPolicy, RegionEviction, Reinsertion, SocEviction,
        SocLayout,
    };
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        soc: Section,
        loc: Section,
        array: Section,
        admission: Section,
        crash_safety: Option<Value>,
        dram: Section,
    }

    fn read(toml: &str) -> Result<CacheSettings, String> {
        let file: File = toml::from_str(toml).unwrap();
        let sections = vec![
            ("soc", &file.soc),
            ("loc", &file.loc),
            ("array", &file.array),
            ("admission", &file.admission),
            ("dram", &file.dram),
        ];
        let sections = Sections { sections, keys: vec![("crash_safety", &file.crash_safety)] };
        let read = CacheSettings::read(&sections, "", &Source::of(Path::new("f"), toml));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_what_the_cache_gets() {
        let settings = read(
            "crash_safety = \"power\"\n[soc]\npercent = 4\nmax_object = \"1K\"\nlog = 2.5\neviction = \"rrip\"\n\
             [loc]\neviction = \"lru\"\nreinsertion = \"hits:2\"\nttl_classes = [60, 3600]\nregion = \"4M\"\n\
             [admission]\npolicy = \"freq:2\"\nmemory = \"1M\"\n[dram]\npolicy = \"lru\"\n",
        )
        .unwrap();
        let mut config = Config::default();
        settings.put_into(&mut config);
        assert_eq!((config.soc.percent, config.soc.max_object_bytes), (Some(4.0), 1024));
        assert_eq!((config.soc.log_percent, config.loc.region_bytes), (Some(2.5), Some(4 << 20)));
        assert_eq!(config.soc.eviction, SocEviction::Rrip);
        assert_eq!(config.loc.eviction, RegionEviction::Lru);
        assert_eq!(config.loc.reinsertion, Reinsertion::Hits(2));
        assert_eq!(config.loc.ttl_classes, [60, 3600]);
        assert_eq!(config.admission, AdmissionPolicy::Frequency { asks: 2 });
        assert_eq!((config.admission_memory_bytes, config.dram_policy), (1 << 20, DramPolicy::Lru));
        assert_eq!(config.crash_safety, CrashSafety::Power);
        assert_eq!(config.check().map_err(|error| error.to_string()), Ok(()));
        let said = settings.explained().find(|(name, ..)| *name == "loc.ttl_classes").unwrap();
        assert_eq!((said.1.as_str(), said.2), ("60,3600", From::File));
    }

    #[test]
    fn small_objects_may_be_stored_in_pages() {
        let settings = read("[soc]\nlayout = \"pages\"\npages_per_set = 30\n").unwrap();
        let mut config = Config::default();
        settings.put_into(&mut config);
        assert_eq!(
            (config.soc.layout, config.soc.pages_per_set),
            (Some(SocLayout::Pages), Some(30))
        );
        assert!(config.check().is_ok());
    }

    #[test]
    fn errors_name_the_place_the_key_and_the_remedy() {
        for (toml, says) in [
            ("[soc]\npercent = 120", "f:2:11: soc.percent = 120: must be 0 to 100"),
            (
                "[soc]\nmax_objekt = 5",
                "unknown key \"max_objekt\" in [soc]: did you mean \"max_object\"?",
            ),
            ("[loc]\nxyz = 5", "the keys there are region"),
            ("[loc]\nregion = 1970-01-01", "loc.region: must be a number"),
            ("[loc]\neviction = \"mru\"", "use fifo, lru or segmented-fifo"),
            (
                "[soc]\neviction = \"lru\"",
                "f:2:12: soc.eviction = lru: \"lru\" is not an eviction policy of buckets: use fifo or rrip",
            ),
            (
                "[soc]\nlayout = \"sets\"",
                "f:2:10: soc.layout = sets: \"sets\" is not a layout of small objects: use buckets or pages",
            ),
            ("[admission]\npolicy = \"never\"", "is not an admission policy"),
        ] {
            let refused = read(toml).unwrap_err();
            assert!(refused.contains(says), "{toml}: {refused}");
        }
        let alone = read("[array]\nmin_object = 5").unwrap().check().unwrap_err();
        assert!(alone.contains("array.min_object: means nothing without array.percent"), "{alone}");
    }

    #[test]
    fn a_layer_covers_the_one_below_key_by_key() {
        let below = read("[soc]\npercent = 4\nmax_object = 500").unwrap();
        let above = read("[soc]\npercent = 10\n[admission]\npolicy = \"all\"").unwrap();
        let both = above.over(&below);
        assert_eq!(
            (both.text("soc.percent"), both.text("soc.max_object")),
            (Some("10"), Some("500"))
        );
        let changed = below.changed(&both);
        assert_eq!(changed, [("soc.percent", Change::Empties)]);
    }

    #[test]
    fn a_change_is_one_of_meaning_however_small() {
        let of = |size: &str| read(&format!("[soc]\nmax_object = {size}")).unwrap();
        assert_eq!(of("1024").changed(&of("1025")), [("soc.max_object", Change::Start)]);
        assert_eq!(of("1024").changed(&of("\"1K\"")), []);
        assert_eq!(of("640").changed(&read("").unwrap()), [], "it is the default");
    }
}
