//! `--device file:PATH`: the same cache on a plain file, which is left as it was.

use std::fs;

use crate::place::{Place, trace_of_gets};

/// Few requests, since each write to the file is a real one.
const OPTIONS: &str = "replay trace.csv --dram 64K --flash 8M --soc 50";

fn place_with_trace() -> Place {
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(6000));
    place
}

#[test]
fn hits_are_those_on_the_model_and_the_file_goes() {
    let place = place_with_trace();
    let before = place.files();
    let on_file = place.json(&format!("{OPTIONS} --device file:drive"));
    assert!(place.files() == before, "the file of the run is still there");
    let on_model = place.json(&format!("{OPTIONS} --placement off"));
    let (on_file, on_model) = (&on_file["runs"][0], &on_model["runs"][0]);
    for key in ["requests", "gets", "hits", "hit_ratio", "flash_hit_ratio", "alwa", "host_bytes"] {
        assert_eq!(on_file[key], on_model[key], "{key}");
    }
    assert!(on_file["flash_hit_ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(on_file["placement"], "off");
    for key in ["media_bytes", "erased_bytes", "copied_bytes", "dlwa"] {
        assert!(on_file[key].is_null() && !on_model[key].is_null(), "{key}");
    }
}

/// Of any length: shorter than the drive, equal, longer.
#[test]
fn a_foreign_file_stays_as_it_is() {
    for length in [6, 4096, 8 << 20, (8 << 20) + 12_345] {
        let place = place_with_trace();
        let content: Vec<u8> = b"my precious data".iter().copied().cycle().take(length).collect();
        place.write("foreign", &content);
        place.refuse(&format!("{OPTIONS} --device file:foreign"), 1, &["foreign"]);
    }
}

#[test]
fn a_path_that_leads_nowhere() {
    let place = place_with_trace();
    fs::create_dir(place.path().join("folder")).unwrap();
    place.refuse(&format!("{OPTIONS} --device file:folder"), 1, &["folder"]);
    let parts = ["absent/drive", "No such file"];
    place.refuse(&format!("{OPTIONS} --device file:absent/drive"), 1, &parts);
}
