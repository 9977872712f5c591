//! `larder plan`: its table, its page, and refusals.

use std::fs;

use crate::place::{Place, trace_of_gets};

/// A plan on a model that is too small to be meaningful.
const SHORT: &str = "plan --simulate 8MiB --requests 30000 --dram 60G --soc-layout buckets";

#[test]
fn a_column_with_placement_and_one_without() {
    let ran = Place::new().succeed(SHORT);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let columns: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(columns, ["placement", "on", "off"]);
    for label in [
        "DLWA, simulated",
        "DLWA, by theory",
        "drive life, years of wear",
        "  larger, longer runs find",
        "drives in 5 years",
        "rating for one drive, DWPD",
        "embodied carbon, kg CO2e",
        "cost of drives and DRAM",
        "  per useful GB",
        "DLWA passes 1.5 at",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(label)), "{label}: {}", ran.stdout);
    }
    let words = [
        "With placement the drive lasts",
        "To keep DLWA at 1.5 or less",
        "1/224113 of the size",
        "note: Large objects take",
    ];
    for words in words {
        assert!(ran.stdout.replace('\n', " ").contains(words), "{words}: {}", ran.stdout);
    }
}

/// Without another wish, the plan is for the layout of small objects that the cache takes.
#[cfg(feature = "serve")]
#[test]
fn the_recommended_layout_is_that_of_the_cache() {
    let place = Place::new();
    let asked = SHORT.replace(" --soc-layout buckets", " --soc 10 --config larder.toml");
    let stdout = place.succeed(&asked).stdout;
    for label in ["in pages, chosen: years", "in buckets: years"] {
        assert!(stdout.lines().any(|line| line.starts_with(label)), "{label}: {stdout}");
    }
    let checked = place.succeed("check larder.toml").stdout;
    let layout = checked.lines().find(|line| line.starts_with("soc.layout ")).unwrap();
    assert!(layout.contains(" pages ") && layout.ends_with("file"), "{checked}");
}

/// The recommendation is a file that `larder check` understands, with the reason for each setting.
#[cfg(feature = "serve")]
#[test]
fn the_recommendation_is_a_configuration_of_the_server() {
    let place = Place::new();
    place.succeed(&format!("{SHORT} --soc 6 --dlwa-limit 1.2 --config larder.toml"));
    let text = fs::read_to_string(place.path().join("larder.toml")).unwrap();
    assert!(text.contains("it keeps DLWA below 1.2; without it"), "{text}");
    let checked = place.succeed("check larder.toml").stdout;
    let line = |name: &str| {
        checked.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap().to_owned()
    };
    assert!(
        line("soc.percent").contains(" 6 ") && line("soc.percent").ends_with("file"),
        "{checked}"
    );
    assert!(line("placement.mode").contains("required"), "{checked}");
    assert!(line("soc.layout").contains(" buckets ") && line("soc.layout").ends_with("file"));
    assert!(line("endurance").ends_with("file") && line("overprovisioning").ends_with("file"));
    // All of it, on a smaller machine: a simulated drive that places.
    let more =
        format!("file = \"model:128M,op=17\"\n{}", text.replace("memory = 60", "# memory = 60"));
    place.write("larder.toml", more);
    let checked = place.succeed("check larder.toml").stdout;
    assert!(checked.contains("model:128M,op=17"), "{checked}");
}

#[test]
fn a_trace_is_a_sample() {
    let place = Place::new();
    // Values of 1 to 2000 bytes, so that both engines have work.
    let lines = (0..20_000_u64).map(|n| {
        let key = n * 2_654_435_761 % 20_011;
        format!("{},{key},{},set\n", n / 1000, 1 + key * 7 % 2000)
    });
    place.write("trace.csv", format!("time,key,size,op\n{}", lines.collect::<String>()));
    let ran = place.succeed("plan trace.csv --simulate 8MiB --dram 60G --json plan.json");
    assert!(ran.stdout.contains("DLWA, simulated"), "{ran:?}");
    let json = fs::read_to_string(place.path().join("plan.json")).unwrap();
    assert!(json.contains("\"trace\": \"trace.csv\"") && json.contains("\"requests\": 20000"));
}

#[test]
fn one_page_that_needs_nothing_else() {
    let place = Place::new();
    let ran = place.succeed(&format!("{SHORT} --report deep/page"));
    assert!(ran.stderr.contains("deep/page/index.html"), "{ran:?}");
    let files = place.files();
    assert_eq!(files.len(), 1, "{:?}", files.keys());
    let page = String::from_utf8(files.into_values().next().unwrap()).unwrap();
    assert!(page.trim_end().ends_with("</html>") && page.matches("<svg").count() == 4);
    for foreign in ["<script", "<link", "src=", "href=", "@import", "url(", "https:"] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
}

#[test]
fn options_that_make_no_sense() {
    let place = Place::new();
    for (options, parts) in [
        ("--dram 0", &["--dram 0", "must be above 0"][..]),
        ("--dram x", &["'x'", "--dram", "such as 1.88TB"]),
        ("--dram 1MB", &["--dram 1000000", "no object fits", "use at least 229492188"]),
        ("--flash 1MB", &["--flash 1000000", "at least 8 MiB"]),
        ("--flash 0", &["--flash 0", "at least 8 MiB"]),
        ("--op -1", &["--op -1", "must be 4 to 100"]),
        ("--op 300", &["--op 300", "must be 4 to 100"]),
        ("--op nan", &["--op NaN", "must be 4 to 100"]),
        ("--op many", &["'many'", "--op"]),
        ("--op 4 --simulate 8MiB", &["--op 4", "the drive could not work"]),
        ("--utilization 120", &["--utilization 120", "must be 10 to 100"]),
        ("--soc 0", &["--soc 0", "must be 1 to 99"]),
        ("--soc-max-object 5000", &["--soc-max-object 5000", "must be 1 to 4050"]),
        ("--endurance 0", &["--endurance 0", "must be above 0"]),
        ("--tbw -5", &["--tbw -5", "must be above 0"]),
        ("--warranty-years 0", &["--warranty-years 0", "must be above 0"]),
        ("--rated-dlwa 0.5", &["--rated-dlwa 0.5", "must be 1 to 100"]),
        ("--rate 0", &["--rate 0", "must be above 0"]),
        ("--rate inf", &["--rate inf", "must be above 0 and finite"]),
        ("--years 0", &["--years 0", "must be above 0"]),
        ("--dlwa-limit 1", &["--dlwa-limit 1", "must be above 1"]),
        ("--price-flash -0.1", &["--price-flash -0.1", "must be at least 0"]),
        ("--price-dram -1", &["--price-dram -1", "must be at least 0"]),
        ("--carbon-flash -1", &["--carbon-flash -1", "must be at least 0"]),
        ("--carbon-dram nan", &["--carbon-dram NaN", "must be at least 0"]),
        ("--simulate 1MB", &["--simulate 1000000", "8 MiB to 64 GiB"]),
        ("--requests 0", &["--requests 0", "must be at least 1"]),
        ("--workload nope", &["--workload nope: unknown", "meta-kv"]),
    ] {
        place.refuse(&format!("plan {options} --json result.json"), 2, parts);
    }
}

#[test]
fn two_ratings_are_one_too_many() {
    let ran = Place::new().run("plan --endurance 1 --tbw 1000");
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("--tbw"), "{ran:?}");
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Place::new();
    place.write("file", "text");
    let parts = ["--json absent/plan.json: there is no directory absent", "create it"];
    place.refuse("plan --json absent/plan.json", 1, &parts);
    let parts = ["report: cannot create directory file", "name a directory"];
    place.refuse("plan --report file --json plan.json", 1, &parts);
}

#[test]
fn traces_that_cannot_be_planned_for() {
    let place = Place::new();
    place.write("small.csv", trace_of_gets(1000));
    let options = "--simulate 8MiB --dram 60G --json plan.json";
    place.refuse(&format!("plan absent.csv {options}"), 1, &["absent.csv"]);
    let parts = ["--soc-max-object 4050", "hardly an object above it"];
    place.refuse(&format!("plan small.csv --soc-max-object 4050 {options}"), 2, &parts);
}

#[test]
fn help_teaches() {
    let help = Place::new().succeed("plan --help").stdout;
    for word in ["EXAMPLES:", "READING THE ANSWER:", "powers of 1000", "--dlwa-limit", "DWPD"] {
        assert!(help.contains(word), "{word}");
    }
}

/// The figures in docs/sizing.md are those of its command, to the last digit: the simulation has a seed.
#[test]
#[ignore = "takes minutes: `cargo xtask all` runs it"]
fn the_sizing_page_shows_what_plan_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sizing.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once("\nlarder plan ").unwrap();
    let (command, rest) = rest.split_once('\n').unwrap();
    let (_, rest) = rest.split_once("```text\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut plan = std::process::Command::new(env!("CARGO_BIN_EXE_larder"));
    plan.arg("plan").args(command.split(' ')).current_dir(directory.path());
    let printed = String::from_utf8(plan.output().unwrap().stdout).unwrap();
    let mut lines = printed.lines();
    for line in shown.lines().filter(|line| *line != "…") {
        assert!(lines.any(|it| it == line), "{line:?} is not in\n{printed}");
    }
}
