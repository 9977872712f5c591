//! The text, parsed by a strict reader that accepts only what the specification says.

use std::collections::{BTreeMap, HashSet};

use super::*;

type Labels = Vec<(String, String)>;

/// A metric family of the text: its type, and the samples as (suffix, labels) and value.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: String,
    help: String,
    samples: Vec<(String, Labels, f64)>,
}

/// Parses `text` by the ABNF of OpenMetrics 1.0, and its rules of order: the metadata of a family before its samples,
/// each once; families not interleaved; no sample twice; `# EOF` last.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = HashSet::new();
    for line in body.split_terminator('\n') {
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').expect(line);
            let (name, said) = rest.split_once(' ').expect(line);
            assert!(is_metric_name(name), "{line}");
            if word == "TYPE" {
                let known = ["counter", "gauge", "info", "histogram"];
                assert!(known.contains(&said), "{line}");
                current = name.to_owned();
                let family = Family { kind: said.to_owned(), ..Family::default() };
                assert!(families.insert(current.clone(), family).is_none(), "again: {line}");
                continue;
            }
            assert_eq!(name, current, "{line}: metadata of another family");
            let family = families.get_mut(&current).unwrap();
            assert!(family.samples.is_empty(), "{line}: behind samples");
            match word {
                "UNIT" => {
                    assert!(
                        family.unit.is_empty() && name.ends_with(&format!("_{said}")),
                        "{line}"
                    );
                    family.unit = said.to_owned();
                }
                "HELP" => {
                    assert!(family.help.is_empty(), "{line}");
                    family.help = unescaped(said);
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let end = line.find(['{', ' ']).expect(line);
        let (name, rest) = line.split_at(end);
        let (labels, value) = read_labels(rest);
        let value: f64 = value.strip_prefix(' ').expect(line).parse().expect(line);
        let suffix = name.strip_prefix(current.as_str()).expect(line);
        let family = families.get_mut(&current).unwrap();
        let allowed: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            _ => &["_bucket", "_count", "_sum"],
        };
        assert!(allowed.contains(&suffix), "{line}");
        assert!(family.kind == "gauge" || value >= 0.0, "{line}");
        assert!(seen.insert((name.to_owned(), labels.clone())), "twice: {line}");
        family.samples.push((suffix.to_owned(), labels, value));
    }
    for (name, family) in families.iter().filter(|(_, family)| family.kind == "histogram") {
        check_histogram(family).unwrap_or_else(|complaint| panic!("{name}: {complaint}"));
    }
    families
}

/// The rules of histograms: the samples of a label set are adjacent; its buckets are cumulative, in ascending order,
/// and end with `+Inf`; one count, equal to that of the last bucket; one sum.
fn check_histogram(family: &Family) -> Result<(), String> {
    let own = |labels: &Labels| -> Labels {
        labels.iter().filter(|(name, _)| name != "le").cloned().collect()
    };
    let mut ended = HashSet::new();
    for group in family.samples.chunk_by(|one, next| own(&one.1) == own(&next.1)) {
        let labels = own(&group[0].1);
        let refuse = |complaint: &str| Err(format!("{labels:?}: {complaint}"));
        if !ended.insert(labels.clone()) {
            return refuse("interleaved with others");
        }
        let (mut bound, mut calls) = (f64::NEG_INFINITY, 0.0);
        let (mut counts, mut sums) = (Vec::new(), 0);
        for (suffix, labels, value) in group {
            let le = labels.iter().find(|(name, _)| name == "le").map(|(_, le)| le.as_str());
            match (suffix.as_str(), le) {
                ("_bucket", Some(le)) => {
                    let le = if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() };
                    if le <= bound || *value < calls || value.fract() != 0.0 {
                        return refuse(&format!(
                            "bucket {le} of {value} behind {bound} of {calls}"
                        ));
                    }
                    (bound, calls) = (le, *value);
                }
                ("_count", None) => counts.push(*value),
                ("_sum", None) => sums += 1,
                _ => return refuse(&format!("{suffix} with le {le:?}")),
            }
        }
        if bound != f64::INFINITY || counts != [calls] || sums != 1 {
            return refuse(&format!("ends at {bound}, counts {counts:?} of {calls}, {sums} sums"));
        }
    }
    Ok(())
}

/// The labels at the start of `text`, if any, and the rest.
fn read_labels(text: &str) -> (Labels, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Vec::new(), text) };
    let mut labels = Labels::new();
    loop {
        let (name, behind) = rest.split_once("=\"").expect(text);
        assert!(is_label(name) && labels.iter().all(|(known, _)| known != name), "{text}");
        let mut escape = false;
        let end = behind.find(|letter| match (escape, letter) {
            (true, _) => {
                assert!(matches!(letter, '\\' | '"' | 'n'), "{text}");
                escape = false;
                false
            }
            (false, '\\') => {
                escape = true;
                false
            }
            (false, letter) => letter == '"',
        });
        let (value, behind) = behind.split_at(end.expect(text));
        labels.push((name.to_owned(), unescaped(value)));
        rest = &behind[1..];
        match rest.split_at(1) {
            (",", more) => rest = more,
            ("}", behind) => return (labels, behind),
            _ => panic!("{text}"),
        }
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(same @ ('\\' | '"')) => same,
                other => panic!("\\{other:?} in {text}"),
            },
            '"' => panic!("a bare quote in {text}"),
            _ => letter,
        });
    }
    plain
}

fn is_label(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn is_metric_name(name: &str) -> bool {
    is_label(name) && name.starts_with("larder_")
}

#[test]
fn a_strict_reader_finds_every_number() {
    let stats = Stats { gets: 7, loc_written_bytes: u64::MAX, dram_items: 3, ..Stats::default() };
    let families = parse(&stats.open_metrics().to_string());
    for metric in stats.metrics() {
        let family = &families[&format!("larder_{}", metric.name)];
        assert_eq!(family.kind, metric.kind.to_string());
        assert_eq!(
            (family.unit.as_str(), family.help.as_str()),
            (metric.unit.unwrap_or(""), metric.help)
        );
        #[allow(clippy::cast_precision_loss)]
        let value = metric.value as f64;
        assert!(
            matches!(family.samples.as_slice(), [(_, labels, told)] if labels.is_empty() && *told == value)
        );
    }
    let text = stats.open_metrics().to_string();
    assert!(text.contains("\nlarder_loc_written_bytes_total 18446744073709551615\n"));
    assert!(text.contains("\n# UNIT larder_loc_written_bytes bytes\n"));
}

#[test]
fn several_caches_share_families_and_labels_are_escaped() {
    let (web, mail) =
        (Stats { gets: 1, ..Stats::default() }, Stats { gets: 2, ..Stats::default() });
    let hostile = "a\\b\"c\nd}é,x=\"";
    let text = OpenMetrics::new()
        .cache(&[("tenant", "web"), ("shard", "0")], &web)
        .and_then(|text| text.cache(&[("tenant", hostile)], &mail))
        .unwrap()
        .to_string();
    let families = parse(&text);
    let samples = &families["larder_gets"].samples;
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(samples[0].1, [label("shard", "0"), label("tenant", "web")]);
    assert_eq!(samples[1], ("_total".to_owned(), vec![label("tenant", hostile)], 2.0));
    let info = &families["larder_placement_path"];
    assert_eq!((info.kind.as_str(), info.samples.len()), ("info", 2));
}

#[test]
fn labels_that_no_reader_takes_are_refused() {
    let stats = Stats::default();
    let reserved = ["le", "quantile", "path", "operation", "tier", "drive"];
    for name in ["", "1st", "__name", "a-b", "é"].into_iter().chain(reserved) {
        let refused = OpenMetrics::new().cache(&[(name, "x")], &stats).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name}");
        assert!(refused.to_string().contains(name), "{refused}");
    }
    assert!(OpenMetrics::new().cache(&[("a", "x"), ("a", "y")], &stats).is_err());
    let one = OpenMetrics::new().cache(&[("a", "x"), ("b", "y")], &stats).unwrap();
    assert!(one.cache(&[("b", "y"), ("a", "x")], &stats).is_err(), "an order tells nothing apart");
    let one = OpenMetrics::new().cache(&[], &stats).unwrap();
    assert!(one.cache(&[], &stats).is_err(), "they could not be told apart");
}

#[test]
fn the_forecast_of_the_drive_is_there_where_there_is_one() {
    let life = crate::Endurance::of_tbw(1).forecast(0, 1_000_000_000, 3600);
    let (with, without) = (Stats { drive_life: Some(life), ..Stats::default() }, Stats::default());
    let text = OpenMetrics::new().cache(&[("shard", "0")], &with).unwrap();
    let text = text.cache(&[("shard", "1")], &without).unwrap();
    let families = parse(&text.to_string());
    assert_eq!(families["larder_drive_life_left_days"].samples.len(), 1);
    assert_eq!(families["larder_drive_life_left_days"].samples[0].2, 41.0);
    assert!(
        !parse(&without.open_metrics().to_string()).contains_key("larder_drive_life_left_days")
    );
}

#[test]
fn amplification_is_there_where_it_is_known() {
    use larder_device::nvme::Written;
    let written = Written { host_bytes: 400, media_bytes: 500, ..Written::default() };
    let report = |path: &str, recent| DriveReport {
        path: path.to_owned(),
        since_open: Some(written),
        recent,
        used_percent: Some(3),
        ..DriveReport::default()
    };
    let drives = vec![report("/dev/a\"b", Some(written)), report("/dev/c", None)];
    let drives = drives.into_iter().map(std::sync::Arc::new).collect();
    let with = Stats { drives, admitted_bytes: 100, loc_written_bytes: 150, ..Stats::default() };
    let without = Stats::default();
    let text = OpenMetrics::new().cache(&[("tenant", "web")], &with).unwrap();
    let families = parse(&text.cache(&[("tenant", "mail")], &without).unwrap().to_string());
    let values = |name: &str| -> Vec<f64> {
        families[&format!("larder_{name}")].samples.iter().map(|sample| sample.2).collect()
    };
    assert_eq!(values("alwa"), [1.5]);
    assert_eq!(values("drive_dlwa"), [1.25], "of the drive that says something");
    assert_eq!(values("drive_host_written_bytes"), [400.0, 400.0]);
    assert_eq!(values("drive_media_written_bytes"), [500.0, 500.0]);
    assert_eq!(values("drive_used_percent"), [3.0, 3.0]);
    let drive = &families["larder_drive_dlwa"].samples[0].1;
    assert!(drive.contains(&("drive".to_owned(), "/dev/a\"b".to_owned())), "{drive:?}");
    assert!(!parse(&without.open_metrics().to_string()).contains_key("larder_alwa"));
}

/// A clock on which each interval between two readings is twice as long as the one before, starting with a nanosecond.
#[derive(Default)]
struct Doubling(std::sync::atomic::AtomicU32);

impl crate::Clock for Doubling {
    fn now(&self) -> Duration {
        Duration::from_secs(1000)
    }

    fn monotonic(&self) -> Duration {
        let looks = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Duration::from_nanos(1 << looks.min(40))
    }
}

/// The statistics of a cache after 20 sets, which took from a nanosecond to 9 minutes.
fn with_latencies() -> Stats {
    let config = crate::Config { latency_histograms: true, ..crate::Config::default() };
    let clock = std::sync::Arc::new(Doubling::default());
    let cache = crate::block_on(crate::Larder::open(config, None, clock)).unwrap();
    (0..20_u8).for_each(|key| crate::block_on(cache.set(&[key], b"rye", None)).unwrap());
    cache.stats()
}

#[test]
fn histograms_are_cumulative_and_whole() {
    let (one, other) = (with_latencies(), with_latencies());
    let text = OpenMetrics::new().cache(&[("shard", "0")], &one).unwrap();
    let text = text.cache(&[("shard", "1")], &other).unwrap().to_string();
    let families = parse(&text);
    let family = &families["larder_latency_seconds"];
    assert_eq!((family.kind.as_str(), family.unit.as_str()), ("histogram", "seconds"));
    let sets: Vec<_> = family
        .samples
        .iter()
        .filter(|(_, labels, _)| labels.contains(&("operation".to_owned(), "set".to_owned())))
        .filter(|(_, labels, _)| labels.contains(&("shard".to_owned(), "1".to_owned())))
        .collect();
    let of = |suffix: &'static str| sets.iter().filter(move |(own, ..)| own == suffix);
    assert_eq!(of("_count").map(|sample| sample.2).collect::<Vec<_>>(), [20.0]);
    // The k-th set took 4^k ns. The sum is the number with 20 digits 1 in base 4.
    let sum_s = ((1_u64 << 40) - 1) as f64 / 3.0 / 1e9;
    let told = of("_sum").map(|sample| sample.2).next().unwrap();
    assert!((told - sum_s).abs() < 1e-6, "{told} for {sum_s}");
    let bound = |sample: &&&(String, Labels, f64)| {
        let le = sample.1.iter().find(|(name, _)| name == "le").unwrap();
        le.1.parse::<f64>().unwrap()
    };
    for sample in of("_bucket").filter(|sample| bound(sample).is_finite()) {
        let within =
            (0..20).filter(|k| (1_u64 << (2 * k)) as f64 <= bound(&sample) * 1e9 * 1.000_001);
        assert_eq!(sample.2, within.count() as f64, "{sample:?}");
    }
    assert_eq!(of("_bucket").map(|sample| sample.2).next_back(), Some(20.0));
}

#[test]
fn the_reader_refuses_histograms_that_are_not() {
    let whole = || {
        let text = with_latencies().open_metrics().to_string();
        parse(&text).remove("larder_latency_seconds").unwrap()
    };
    check_histogram(&whole()).unwrap();
    let samples = whole().samples;
    let at = |suffix: &str| samples.iter().rposition(|(own, ..)| own == suffix).unwrap();
    let broken: [&dyn Fn(&mut Family); 6] = [
        &|family| family.samples[at("_count")].2 += 1.0,
        &|family| family.samples[at("_bucket")].2 -= 0.5,
        &|family| family.samples.swap(0, 1),
        &|family| _ = family.samples.remove(at("_bucket")),
        &|family| _ = family.samples.remove(at("_sum")),
        &|family| family.samples.rotate_left(3),
    ];
    for (number, damage) in broken.iter().enumerate() {
        let mut family = whole();
        damage(&mut family);
        assert!(check_histogram(&family).is_err(), "damage {number}");
    }
}
