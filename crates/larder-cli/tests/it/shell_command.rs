//! `larder completions` and `larder man`.

use std::fs;
use std::process::Command;

use crate::place::Place;

#[test]
fn a_shell_understands_the_script_and_completes_a_command() {
    let place = Place::new();
    let script = place.succeed("completions bash").stdout;
    let path = place.path().join("larder.bash");
    fs::write(&path, &script).unwrap();
    // What bash does when a user types "larder ser" and a tab.
    let typed = format!(
        "source {}; COMP_WORDS=(larder ser); COMP_CWORD=1; _larder larder ser larder; echo \"${{COMPREPLY[@]}}\"",
        path.display()
    );
    let Ok(ran) = Command::new("bash").args(["-c", &typed]).output() else { return };
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "serve");
    for shell in ["zsh", "fish"] {
        assert!(place.succeed(&format!("completions {shell}")).stdout.contains("serve"), "{shell}");
    }
}

#[test]
fn each_command_has_a_manual_page_with_its_options() {
    let place = Place::new();
    place.succeed("man --to pages/man1");
    let page = |name: &str| fs::read_to_string(place.path().join("pages/man1").join(name)).unwrap();
    assert!(page("larder.1").contains("larder\\-serve(1)"));
    assert!(page("larder-serve.1").contains("\\-\\-memory"));
    assert!(page("larder-block-create.1").contains("\\-\\-core"));
}
