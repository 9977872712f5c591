//! Tutorials and how-to pages: every command of a `console` block is run, and its output compared with the page.
//!
//! A page is one shell, in a directory of its own. `$ ` begins a command, `> ` goes on with it, what follows is its
//! output; `…` stands for any text, and alone on a line for any lines. A command without output is not compared. What
//! is not run says why, in a comment above its block, which is not of the kind `console`.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place::{Place, larder};

/// The usual ports of the server, which may be in use here: for Redis' clients, for memcached's, for administrators.
const PORTS: [&str; 3] = ["6379", "11211", "9180"];

/// Seconds for all commands of a page.
const PATIENCE_S: u32 = 120;

/// A command, and what the page shows of its output.
#[derive(Debug)]
struct Step {
    command: String,
    output: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_run_here = false;
    for line in page.lines() {
        match (line, line.strip_prefix("$ ")) {
            ("```console", _) => is_run_here = true,
            ("```", _) => is_run_here = false,
            (_, Some(command)) if is_run_here => {
                steps.push(Step { command: command.to_owned(), output: Vec::new() });
            }
            _ if is_run_here && !line.is_empty() => {
                let step = steps.last_mut().unwrap();
                match line.strip_prefix('>').filter(|_| step.output.is_empty()) {
                    Some(more) => step.command += &format!("\n{}", more.trim_start_matches(' ')),
                    None => step.output.push(line.to_owned()),
                }
            }
            _ => {}
        }
    }
    steps
}

/// Whether a text is as a page shows it.
fn is_shown(shown: &str, text: &str) -> bool {
    let Some((first, rest)) = shown.split_once('…') else { return shown == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('…').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    true
}

/// Whether lines are as a page shows them.
fn are_shown(shown: &[String], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=lines.len()).any(|skipped| are_shown(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| is_shown(first, line) && are_shown(rest, lines)),
    }
}

/// The programs that a page needs beside `larder`, as its comment says.
fn lacking(page: &str) -> Option<String> {
    let needs = page.lines().find_map(|line| line.strip_prefix("<!-- needs: "))?;
    let mut names = needs.trim_end_matches(" -->").split(' ');
    let is_there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
    };
    names.find(|name| !is_there(name)).map(str::to_owned)
}

/// Runs the commands in one shell. Returns what each has printed.
fn run(steps: &[Step], place: &Place) -> Vec<String> {
    const MARK: &str = "@@ the next command @@";
    let bin = place.path().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(larder().get_program(), bin.join("larder")).unwrap();
    let mut script = String::from("exec 2>&1\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n");
    for step in steps {
        script += &format!("echo '{MARK}'\n{}\n", step.command);
    }
    // Where commands take the usual ports, they get free ones.
    let ports = PORTS.map(|usual| {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        (usual, free.to_string())
    });
    for (usual, free) in &ports {
        script = script.replace(usual, free);
    }
    let [resp, memcached, admin] = &ports;
    let listens = format!(
        "--resp 127.0.0.1:{} --memcached 127.0.0.1:{} --admin 127.0.0.1:{}",
        resp.1, memcached.1, admin.1
    );
    script = script.replace("larder serve ", &format!("larder serve {listens} "));
    script = script.replace("redis-cli ", &format!("redis-cli -p {} ", resp.1));
    let path = place.path().join("commands.sh");
    fs::write(&path, script).unwrap();
    let mut shell = Command::new("timeout");
    shell.arg(PATIENCE_S.to_string()).arg("bash").arg(&path).current_dir(place.path());
    let paths = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{paths}", bin.display())).stdin(Stdio::null());
    let said = shell.output().unwrap();
    let mut said = String::from_utf8_lossy(&said.stdout).into_owned();
    for (usual, free) in &ports {
        said = said.replace(free, usual);
    }
    said.split(&format!("{MARK}\n")).skip(1).map(str::to_owned).collect()
}

fn is_run(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = fs::read_to_string(path).unwrap();
    if let Some(program) = lacking(&page) {
        eprintln!("skipped: {name} needs {program}");
        return;
    }
    let (steps, place) = (steps(&page), Place::new());
    assert!(steps.len() > 3, "{name}: {steps:?}");
    let outputs = run(&steps, &place);
    for (at, step) in steps.iter().enumerate() {
        let output = outputs.get(at);
        let output = output.unwrap_or_else(|| {
            panic!("{name}: {} did not end: {outputs:?}", steps[at - 1].command)
        });
        let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
        let is_silent = step.output.is_empty();
        assert!(
            is_silent || are_shown(&step.output, &lines),
            "{name}: {}\nprinted\n{output}\nthe page shows\n{}\n",
            step.command,
            step.output.join("\n")
        );
    }
}

#[test]
fn a_cache_server() {
    is_run("tutorials/server.md");
}

#[test]
fn a_block_cache() {
    is_run("tutorials/block.md");
}

#[test]
fn before_you_buy() {
    is_run("tutorials/before-you-buy.md");
}

#[test]
fn moving_from_others() {
    is_run("how-to/move.md");
}

#[test]
fn several_tenants() {
    is_run("how-to/tenants.md");
}

#[test]
fn capture_and_replay() {
    is_run("how-to/capture.md");
}

#[test]
fn restart_and_upgrade() {
    is_run("how-to/restart.md");
}

#[test]
fn a_page_and_an_output_are_compared() {
    let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert!(are_shown(&owned(&["a", "…", "d"]), &["a", "b", "c", "d"]));
    assert!(are_shown(&owned(&["a…c"]), &["abc"]) && are_shown(&owned(&["a …"]), &["a b"]));
    assert!(!are_shown(&owned(&["a"]), &["a", "b"]) && !are_shown(&owned(&["a…c"]), &["abd"]));
    assert!(!are_shown(&owned(&["a", "…", "d"]), &["a", "b"]));
    let page = "```console\n$ one\n> more\nout\n> out\n\n$ two\n```\n```sh\n$ three\n```\n";
    let steps = steps(page);
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].command, "one\nmore");
    assert_eq!(steps[0].output, owned(&["out", "> out"]));
    assert_eq!(lacking("<!-- needs: bash no-such-program -->").as_deref(), Some("no-such-program"));
}
