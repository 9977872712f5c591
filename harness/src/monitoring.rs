//! `cargo xtask monitoring`: Prometheus' own tool reads the metrics of a running server, checks the alert rules, and
//! tests when each alert fires. Every metric that the rules and the dashboard name is there: a test of `larder-server`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::process::Process;
use crate::step::{self, Verdict};
use crate::{fetched, port, served, workspace};

/// Options of the check.
#[derive(Debug, Args)]
pub struct MonitoringOptions {
    /// The larder program [default: one that is built now]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
}

/// With a program that is built now.
pub fn usual() -> Verdict {
    run(&MonitoringOptions { larder: None })
}

/// Runs the check.
pub fn run(options: &MonitoringOptions) -> Verdict {
    let promtool = match fetched::needs("promtool", "prometheus") {
        Ok(promtool) => promtool,
        Err(why) => return Verdict::Skipped(why),
    };
    let rules = workspace::root().join("contrib/prometheus");
    for (check, file) in [("check", "larder.rules.yml"), ("test", "larder.rules.test.yml")] {
        let mut command = Command::new(&promtool);
        command.args([check, "rules", file]).current_dir(&rules);
        if let failed @ Verdict::Failed(_) = step::run(&mut command) {
            return failed;
        }
    }
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    match metrics(&larder).and_then(|text| lint(&promtool, &text)) {
        Ok(remark) => Verdict::Passed(remark),
        Err(why) => Verdict::Failed(why),
    }
}

/// The metrics of a server on flash that has served, in the format that promtool reads.
fn metrics(larder: &Path) -> Result<String, String> {
    let dir = workspace::target().join("xtask/monitoring");
    std::fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    let (admin, resp) = (port::free()?, port::free()?);
    let mut command = Command::new(larder);
    command.args(["serve", "--memory", "128M", "--flash", "256M", "--memcached", "none"]);
    command.args(["--endurance", "600T", "--data-dir"]).arg(&dir);
    command.args(["--admin", &port::local(admin), "--resp", &port::local(resp)]);
    let _server = Process::start(&mut command, resp)?;
    port::ask(resp, "SET bread rye\r\nGET bread\r\n", |line| line == "rye")?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n";
    let lines = port::ask(admin, request, |_| false)?;
    if !lines.first().is_some_and(|line| line.starts_with("HTTP/1.1 200 ")) {
        return Err(format!("/metrics answers {lines:?}"));
    }
    let body = lines.iter().skip_while(|line| !line.is_empty()).skip(1);
    Ok(body.map(|line| format!("{line}\n")).collect())
}

fn lint(promtool: &Path, text: &str) -> Result<String, String> {
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |cause: std::io::Error| format!("promtool: {cause}");
    let mut child = command.spawn().map_err(failed)?;
    let mut input = child.stdin.take().ok_or("promtool has no input")?;
    input.write_all(text.as_bytes()).map_err(failed)?;
    drop(input);
    let output = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    print!("{said}");
    // It ends with 3 if it would name a metric otherwise, and with 1 for what it cannot read.
    match output.status.code() {
        Some(0) => Ok(String::new()),
        Some(3) => Ok(format!("{} remarks on names", said.lines().count())),
        _ => Err(format!("promtool check metrics: {said}")),
    }
}
