//! One run of the emulator: it is started, watched, controlled when the guest requests it, and ended.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::frames::Frames;
use super::scenario::Scenario;
use super::tools::Tools;

/// Interval at which the guest's report is read.
const POLL: Duration = Duration::from_millis(50);
const CONSOLE: &str = "console.log";
const RESULTS: &str = "results";
const EMULATOR_LOG: &str = "emulator.log";
/// Lines of the console's end that are shown if a guest does not finish.
const TAIL_LINES: usize = 15;
/// Messages that the emulator always prints: its greeting, and features of the named processor that it lacks.
const EMULATOR_SAYS: [&str; 3] = ["monitor - type", "(qemu)", "TCG doesn't support"];
/// The emulated processor has SSE 4.2 and AES, which our programs require. It is emulated in software, so the host
/// needs no hardware virtualization.
const MACHINE: &str = "-machine q35 -accel tcg -cpu Haswell-v1 -display none -nodefaults \
                       -no-reboot -monitor stdio";
/// A panic of the guest's kernel ends the emulator at once.
const KERNEL_WORDS: &str = "console=ttyS0 panic=-1 quiet";

/// Boots a guest in `dir`, which contains its images, and returns its report.
pub(super) fn run(
    scenario: &Scenario,
    tools: &Tools,
    kernel: &Path,
    archive: &Path,
    dir: &Path,
) -> Result<Frames, String> {
    let file = |name: &str| {
        let path = dir.join(name);
        File::create(&path).map_err(|cause| format!("{}: {cause}", path.display()))
    };
    let log = file(EMULATOR_LOG)?;
    let errors = log.try_clone().map_err(|cause| format!("{EMULATOR_LOG}: {cause}"))?;
    for port in [CONSOLE, RESULTS] {
        file(port)?;
    }
    let mut command = Command::new(&tools.emulator);
    command.args(MACHINE.split_whitespace()).args(["-m", &scenario.memory]);
    command.args(["-smp", &scenario.processors.to_string()]);
    for port in [CONSOLE, RESULTS] {
        command.args(["-serial", &format!("file:{port}")]);
    }
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(archive).arg("-append");
    command.arg(format!("{KERNEL_WORDS} {}", scenario.boot));
    command.args(scenario.drive.options(Path::new("")));
    command.current_dir(dir).stdin(Stdio::piped()).stdout(log).stderr(errors);
    let child = command.spawn();
    let child = child.map_err(|cause| format!("{}: {cause}", tools.emulator.display()))?;
    let mut guest = Guest { child, frames: Frames::default() };
    guest.watched(scenario, &dir.join(RESULTS)).map_err(|message| {
        let logs = [EMULATOR_LOG, CONSOLE].map(|name| tail(name, &dir.join(name)));
        format!(
            "{message}, {}{}\n    all of it is in {}",
            guest.place(),
            logs.concat(),
            dir.display()
        )
    })?;
    Ok(std::mem::take(&mut guest.frames))
}

/// A running emulator, killed on drop.
struct Guest {
    child: Child,
    frames: Frames,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It has already exited, unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Guest {
    fn watched(&mut self, scenario: &Scenario, results: &Path) -> Result<(), String> {
        let begin = Instant::now();
        let mut length = 0;
        loop {
            // Check for the exit before reading, so that the last output is not missed.
            let ended = self.child.try_wait().map_err(|cause| cause.to_string())?;
            let bytes = fs::read(results);
            let bytes = bytes.map_err(|cause| format!("{}: {cause}", results.display()))?;
            if bytes.len() > length {
                length = bytes.len();
                self.heard(scenario, Frames::read(&bytes)?)?;
            }
            match ended {
                Some(status) => return self.judged(status),
                None if begin.elapsed() < scenario.limit => thread::sleep(POLL),
                None => {
                    let seconds = scenario.limit.as_secs();
                    return Err(format!("the guest was not done after {seconds} s"));
                }
            }
        }
    }

    /// Executes the interventions of new marks, and shows the running step.
    fn heard(&mut self, scenario: &Scenario, frames: Frames) -> Result<(), String> {
        for mark in &frames.marks[self.frames.marks.len()..] {
            for intervention in scenario.interventions.iter().filter(|i| i.mark == *mark) {
                eprintln!("  {}, {mark}: {}", scenario.name, intervention.command);
                let monitor = self.child.stdin.as_mut().ok_or("the emulator has no monitor")?;
                let told = writeln!(monitor, "{}", intervention.command);
                told.and_then(|()| monitor.flush()).map_err(|cause| format!("monitor: {cause}"))?;
            }
        }
        if frames.running != self.frames.running
            && let Some(step) = &frames.running
        {
            eprintln!("  {}: {step} ...", scenario.name);
        }
        self.frames = frames;
        Ok(())
    }

    /// How far the scenario has come.
    fn place(&self) -> String {
        match (&self.frames.running, self.frames.steps.last()) {
            (Some(step), _) => format!("in the step {step}"),
            (None, Some(step)) => format!("after the step {}", step.name),
            (None, None) => "before its first step".to_owned(),
        }
    }

    fn judged(&self, status: ExitStatus) -> Result<(), String> {
        if self.frames.done && status.success() {
            return Ok(());
        }
        Err(format!("the guest ended before its scenario did, the emulator with {status}"))
    }
}

fn tail(name: &str, path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = telling(&text);
    if lines.is_empty() { String::new() } else { format!("\n    {name}: {}", lines.join("\n    ")) }
}

/// The relevant lines: from a panic on, or else the last ones.
fn telling(text: &str) -> Vec<&str> {
    let tells = |line: &&str| !line.is_empty() && !EMULATOR_SAYS.iter().any(|s| line.contains(s));
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(tells).collect();
    let panic = lines.iter().position(|line| line.contains("Kernel panic"));
    let begin = panic.unwrap_or_else(|| lines.len().saturating_sub(TAIL_LINES));
    lines.into_iter().skip(begin).take(TAIL_LINES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_begins_with_the_panic_or_is_the_end() {
        let lines = |range: std::ops::Range<u32>| range.map(|n| format!("line {n}\n"));
        let calm: String = lines(0..40).collect();
        assert_eq!(telling(&calm).first(), Some(&"line 25"));
        let panic: String = calm + "[1] Kernel panic - x\n" + &lines(40..90).collect::<String>();
        let shown = telling(&panic);
        assert_eq!((shown[0], shown.len()), ("[1] Kernel panic - x", TAIL_LINES));
        let noise = "QEMU 10.0.2 monitor - type 'help'\r\n(qemu) \r\n\n";
        assert!(telling(noise).is_empty());
    }
}
