//! `larder advise`: asks a running server which settings would serve its load better.

use indicatif::{BinaryBytes, HumanCount};
use larder_workload::Error;
use serde_json::Value;

use crate::admin_client::AdminClient;
use crate::args::AdviseArgs;
use crate::ending::Ending;
use crate::json::JsonTarget;

pub(crate) fn run(arguments: &AdviseArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.json.as_deref())?;
    let client = AdminClient::at(&arguments.server);
    let (status, text) = client.get("/api/advice")?;
    if !status.is_success() {
        return Err(client.refused(status, &text));
    }
    let unreadable = || client.failed("its answer is none that this `larder advise` can read");
    let answer: Value = serde_json::from_str(&text).map_err(|_| unreadable())?;
    let tenants = answer["tenants"].as_array().ok_or_else(unreadable)?;
    let rendered: Vec<String> =
        tenants.iter().map(|tenant| render(tenant, tenants.len())).collect();
    json.tell(&rendered.join("\n"))?;
    json.write(&answer)?;
    Ok(Ending::Complete)
}

/// The advice for a tenant, for people.
fn render(tenant: &Value, tenants: usize) -> String {
    let number = |name: &str| tenant[name].as_u64().unwrap_or(0);
    let mut text = String::new();
    if tenants > 1 {
        text += &format!("tenant {}\n", tenant["name"].as_str().unwrap_or_default());
    }
    text += &format!(
        "{} objects went to flash or were refused there; {} of flash, {} of memory\n",
        HumanCount(number("objects")),
        BinaryBytes(number("flash_bytes")),
        BinaryBytes(number("memory_bytes")),
    );
    let advice = &tenant["advice"];
    let Some(choices) = advice["choices"].as_array() else {
        let why = match number("flash_bytes") {
            0 => "there is no flash, so there is nothing to choose",
            _ => "these are too few objects to tell: at least 1,000 must have left DRAM",
        };
        return text + why + "\n";
    };
    let best = advice["best"].as_u64().unwrap_or(0);
    text += &format!(
        "\n  {:<46}{:>14}{:>8}{:>18}\n",
        "engines", "memory, full", "ALWA", "written in a day"
    );
    for (place, choice) in choices.iter().enumerate() {
        text += &row(choice, place as u64 == best);
    }
    let stays =
        usize::try_from(best).ok().and_then(|best| choices.get(best)).is_some_and(is_current);
    let why = advice["why"].as_str().unwrap_or_default();
    text += &match stays {
        true => format!("\nKeep the engines: of these {why}.\n"),
        false => format!("\nTake the engines marked with *: {why}. A change empties the cache.\n"),
    };
    let hints = advice["hints"].as_array().map_or(&[][..], Vec::as_slice);
    text += &hints
        .iter()
        .filter_map(Value::as_str)
        .map(|hint| format!("{hint}.\n"))
        .collect::<String>();
    text
}

fn is_current(choice: &Value) -> bool {
    choice["is_current"].as_bool() == Some(true)
}

fn row(choice: &Value, is_best: bool) -> String {
    let percent = choice["soc_percent"].as_f64().unwrap_or(0.0);
    let engines = match percent > 0.0 {
        true => {
            // Servers before there were pages do not say.
            let layout = choice["soc_layout"].as_str().unwrap_or("buckets");
            format!(
                "soc {percent:.1} % in {layout}, up to {} bytes",
                choice["soc_max_object_bytes"]
            )
        }
        false => "one log of all objects (soc 0)".to_owned(),
    };
    let now = if is_current(choice) { ", now" } else { "" };
    let number = |name: &str| choice[name].as_u64().unwrap_or(0);
    format!(
        "{} {:<46}{:>14}{:>8.2}{:>18}\n",
        if is_best { '*' } else { ' ' },
        engines + now,
        BinaryBytes(number("memory_bytes")).to_string(),
        choice["alwa"].as_f64().unwrap_or(0.0),
        BinaryBytes(number("written_bytes_per_day")).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_best_engines_are_marked_and_the_current_ones_named() {
        let choice = |soc_percent: f64, is_current: bool| {
            json!({
                "soc_percent": soc_percent, "soc_layout": "pages", "soc_max_object_bytes": 640,
                "memory_bytes": 1 << 20, "alwa": 1.5,
                "written_bytes_per_day": 1_u64 << 30, "is_current": is_current
            })
        };
        let advice = json!({
            "choices": [choice(0.0, true), choice(4.0, false)], "best": 1, "why": "it is small", "hints": ["a hint"]
        });
        let mut tenant = json!({ "name": "a", "objects": 5000, "flash_bytes": 1 << 30, "memory_bytes": 1 << 20,
                                 "advice": advice });
        let text = render(&tenant, 2);
        assert!(text.starts_with("tenant a\n5,000 objects"), "{text}");
        assert!(text.contains("  one log of all objects (soc 0), now"), "{text}");
        assert!(text.contains("* soc 4.0 % in pages, up to 640 bytes"), "{text}");
        assert!(
            text.contains("Take the engines marked with *: it is small.")
                && text.ends_with("a hint.\n")
        );
        tenant["advice"]["best"] = json!(0);
        assert!(render(&tenant, 1).contains("Keep the engines"));
        tenant["advice"] = Value::Null;
        assert!(render(&tenant, 1).contains("too few objects to tell"));
        tenant["flash_bytes"] = json!(0);
        assert!(render(&tenant, 1).contains("there is no flash"));
    }
}
