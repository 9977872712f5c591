//! The answer in words: what placement gains, how full the drive may be, what to look for when buying.

use super::layouts::LayoutAnswer;
use super::levelling::LevellingGain;
use super::limit::Limit;
use super::options::{PlanOptions, Rating};
use super::outcome::{Answer, Load};
use super::rows::{life, trimmed};

/// The advice calls placement useful only if it lowers DLWA by at least this share.
const GAIN_MIN: f64 = 0.05;

/// Sentences, the most important one first.
pub(super) fn sentences(
    options: &PlanOptions,
    load: &Load,
    answers: &[Answer],
    layouts: &[LayoutAnswer],
) -> Vec<String> {
    let [on, off] = answers else { return Vec::new() };
    let mut sentences = vec![gain(options, on, off)];
    sentences.push(room(options, on, off));
    if on.bill.drives > 1.0 {
        sentences.push(wear(options, load, on));
    }
    sentences.extend(on.levelling.as_ref().map(levelling));
    sentences.extend(layout(layouts));
    sentences
}

/// The gain of placement.
fn gain(options: &PlanOptions, on: &Answer, off: &Answer) -> String {
    let (with, without) = (trimmed(on.dlwa, 2), trimmed(off.dlwa, 2));
    if off.dlwa / on.dlwa - 1.0 < GAIN_MIN {
        return format!(
            "Placement changes little here: DLWA is {with} with it and {without} without."
        );
    }
    if on.bill.drives == off.bill.drives {
        return format!(
            "Placement lowers DLWA from {without} to {with}, but either way one drive lasts longer \
             than {} years: it saves no drive.",
            trimmed(options.years, 1)
        );
    }
    format!(
        "With placement the drive lasts {} years instead of {}: over {} years that is {:.1} drives \
         instead of {:.1}, and {:.0} % less cost.",
        life(on.bill.life_years),
        life(off.bill.life_years),
        trimmed(options.years, 1),
        on.bill.drives,
        off.bill.drives,
        (1.0 - on.bill.cost / off.bill.cost) * 100.0
    )
}

/// The gain of levelling across the drives of a set.
fn levelling(gain: &LevellingGain) -> String {
    let off = life(gain.life_years_off);
    match &gain.pause {
        Some(why) => format!("Levelling across the drives would move no keys ({why})."),
        None => format!(
            "With drive_levelling the first drive of the set lasts {} years instead of {off}; it moves {:.0} % of \
             the keys of the fastest one, a step a day.",
            life(gain.life_years_on),
            100.0 * gain.moved
        ),
    }
}

/// What the layout of small objects changes.
fn layout(layouts: &[LayoutAnswer]) -> Option<String> {
    let [simulated, other] = layouts else { return None };
    let told = |it: &LayoutAnswer| {
        format!(
            "{} years with placement and {} without (ALWA {}, hit ratio {:.1} %)",
            life(it.life_years_on),
            life(it.life_years_off),
            trimmed(it.alwa, 2),
            it.hit_ratio * 100.0
        )
    };
    let (first, second) =
        if other.is_recommended { (other, simulated) } else { (simulated, other) };
    Some(format!(
        "Store small objects in {}: the drive lasts {}, and in {} {}.",
        first.layout,
        told(first),
        second.layout,
        told(second)
    ))
}

/// How full the drive may be.
fn room(options: &PlanOptions, on: &Answer, off: &Answer) -> String {
    let limit = trimmed(options.dlwa_limit, 3);
    format!(
        "To keep DLWA at {limit} or less, use {} with placement and {} without.",
        most(&on.limit),
        most(&off.limit)
    )
}

fn most(limit: &Limit) -> String {
    match (limit.status, limit.utilization) {
        // Rounded down, so that the limit is not exceeded.
        (_, Some(utilization)) => format!("at most {:.0} % of the drive", utilization.floor()),
        ("kept", _) => "all of the drive".to_owned(),
        _ => "less than was simulated".to_owned(),
    }
}

/// What to look for if the drive does not last even with placement.
fn wear(options: &PlanOptions, load: &Load, on: &Answer) -> String {
    let rating = match options.rating {
        Rating::Dwpd(rating) => format!("{} DWPD", trimmed(rating, 2)),
        Rating::Tbw(terabytes) => format!("{} TBW", trimmed(terabytes, 0)),
    };
    format!(
        "Even with placement {} drive writes a day are more than a drive of {rating} takes for {} \
         years: one of {:.1} DWPD would, or an admission policy that writes less.",
        trimmed(load.drive_writes_per_day, 2),
        trimmed(options.years, 1),
        (on.bill.endurance_needed * 10.0).ceil() / 10.0
    )
}
