//! Metrics of the wear of the drives of a set, and of keys that were moved to level it.

use larder::SetStatus;

use crate::metrics_text::MetricsText;
use crate::set_report::{SetReport, ShardReport, WearReport};

/// Adds the families to `text`.
pub(super) fn write(text: &mut String, set: SetStatus) {
    let report = SetReport::open(set);
    let mut page = MetricsText::new("larder_server");
    drives(&mut page, &report.shards);
    page.family("shard_keys_moved_ratio", "gauge", "Share of a shard's keys at another one.");
    for share in &report.moved {
        let labels = [("shard", &*share.from.to_string()), ("to", &*share.to.to_string())];
        page.sample("shard_keys_moved_ratio", &labels, f64::from(share.parts) / 10_000.0);
    }
    page.family("set_levelling", "info", "Why no keys were moved at the last look at the drives.");
    let levelling = report.levelling.as_ref();
    if let Some(levelling) = levelling {
        let pause = levelling.pause.as_deref().unwrap_or("");
        page.sample("set_levelling_info", &[("pause", pause)], 1);
    }
    let name = "set_levelling_step_timestamp_seconds";
    page.family(name, "gauge", "When keys were moved the last time, since 1970.");
    let moved_at_s = report.moved.iter().map(|share| share.moved_at_s).max();
    if let Some(moved_at_s) = moved_at_s {
        page.sample(name, &[], moved_at_s);
    }
    text.push_str(&page.families());
}

/// The wear of each shard's drive, and the weight of the shard.
fn drives(page: &mut MetricsText, shards: &[ShardReport]) {
    type Of = fn(&WearReport) -> Option<f64>;
    let wear: [(&str, &str, Of); 3] = [
        ("shard_used_ratio", "Used part of the rated life of a shard's drive.", |it| Some(it.used)),
        ("shard_used_per_day_ratio", "The part of it that is used per day.", |it| it.per_day),
        (
            "shard_forecast_ratio",
            "The part of it that is used at the end of the planned service.",
            |it| it.forecast,
        ),
    ];
    for (name, help, of) in wear {
        page.family(name, "gauge", help);
        for shard in shards {
            if let Some(value) = shard.wear.as_ref().and_then(of) {
                page.sample(name, &[("shard", &shard.number.to_string())], value);
            }
        }
    }
    page.family("shard_dlwa_ratio", "gauge", "Media bytes by host bytes of a shard's drive.");
    for shard in shards {
        if let Some(dlwa) = shard.dlwa {
            page.sample("shard_dlwa_ratio", &[("shard", &shard.number.to_string())], dlwa);
        }
    }
    page.family("shard_weight", "gauge", "Share of the keys, relative to the other shards.");
    for shard in shards {
        let labels = [("shard", &*shard.number.to_string())];
        page.sample("shard_weight", &labels, shard.levelled_weight);
    }
}
