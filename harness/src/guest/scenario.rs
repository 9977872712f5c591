//! A scenario: a script for the guest. Lines with `#:` at its top describe the machine that it needs and the checks of
//! its report. `scenarios/README.md` says how to write one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::{self, Check};
use super::drive::{Drive, Namespace};
use crate::workspace;

/// Prefix of the lines for the host.
const MARK: &str = "#:";
const MEMORY_USUAL: &str = "512M";
/// The emulator computes all of them in software.
const PROCESSORS_MAX: u8 = 4;
const LIMIT_USUAL: Duration = Duration::from_secs(300);

/// The Linux version to boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kernel {
    /// With write streams in the block layer (6.16 and later).
    New,
    /// With NVMe passthrough, without write streams (6.1).
    Old,
}

/// A program of this workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binary {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) example: bool,
}

/// A command for the emulator when the guest sends a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intervention {
    pub(super) mark: String,
    /// A command of QEMU's monitor.
    pub(super) command: String,
}

/// One guest: its machine, its script, and its checks.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) kernel: Kernel,
    pub(super) memory: String,
    pub(super) processors: u8,
    pub(super) limit: Duration,
    pub(super) drive: Drive,
    pub(super) binaries: Vec<Binary>,
    /// Programs of the host that are copied into the guest.
    pub(super) programs: Vec<String>,
    /// Kernel modules that are loaded with their dependencies before the first step.
    pub(super) modules: Vec<String>,
    /// Additional kernel parameters.
    pub(super) boot: String,
    pub(super) interventions: Vec<Intervention>,
    pub(super) checks: Vec<Check>,
    pub(super) script: String,
}

/// Every scenario, sorted by name.
pub(super) fn all() -> Result<Vec<Scenario>, String> {
    let dir = workspace::root().join("harness/src/guest/scenarios");
    let told = |cause: std::io::Error| format!("{}: {cause}", dir.display());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&dir).map_err(told)? {
        paths.push(entry.map_err(told)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sh"));
    paths.sort();
    let read = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, String>>()?;
    Ok(read.into_iter().flatten().collect())
}

fn read(path: &Path) -> Result<Vec<Scenario>, String> {
    let text = fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let variants = variants(&name.unwrap_or_default(), &text)?;
    variants.iter().map(|(name, text)| Scenario::read(name, text)).collect()
}

/// The scenarios of one file: itself, or one for each of its variant lines. The words of that line replace their names
/// between two `@`.
fn variants(name: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let words = |line: &str| {
        let line = line.trim_start().strip_prefix(MARK)?.trim().strip_prefix("variant ")?;
        Some(line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let all: Vec<Vec<String>> = text.lines().filter_map(words).collect();
    if all.is_empty() {
        return Ok(vec![(name.to_owned(), text.to_owned())]);
    }
    let common = text.lines().filter(|line| words(line).is_none());
    let common: String = common.flat_map(|line| [line, "\n"]).collect();
    let one = |words: &Vec<String>| {
        let (variant, values) =
            words.split_first().ok_or_else(|| format!("{name}.sh: a variant without a name"))?;
        let text = values.iter().try_fold(common.clone(), |text, word| {
            let (from, to) = word
                .split_once('=')
                .ok_or_else(|| format!("{name}.sh: variant {variant}: {word} has no ="))?;
            Ok::<String, String>(text.replace(&format!("@{from}@"), to))
        })?;
        Ok((format!("{name}_{variant}"), text))
    };
    all.iter().map(one).collect()
}

impl Scenario {
    /// Parses the text of a scenario.
    pub(super) fn read(name: &str, text: &str) -> Result<Self, String> {
        let mut scenario = Self {
            name: name.to_owned(),
            about: text.lines().next().unwrap_or("").trim_start_matches('#').trim().to_owned(),
            kernel: Kernel::New,
            memory: MEMORY_USUAL.to_owned(),
            processors: 1,
            limit: LIMIT_USUAL,
            drive: Drive::default(),
            binaries: Vec::new(),
            programs: Vec::new(),
            modules: Vec::new(),
            boot: String::new(),
            interventions: Vec::new(),
            checks: Vec::new(),
            script: text.to_owned(),
        };
        for (index, line) in text.lines().enumerate() {
            if let Some(line) = line.trim_start().strip_prefix(MARK) {
                let (key, value) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
                let told = |message: String| format!("{name}.sh, line {}: {message}", index + 1);
                scenario.line(key, value.trim()).map_err(told)?;
            }
        }
        if scenario.about.is_empty() || scenario.about.starts_with(':') {
            return Err(format!("{name}.sh: the first line must say what it is about"));
        }
        if scenario.checks.is_empty() {
            return Err(format!("{name}.sh: a scenario without a check proves nothing"));
        }
        scenario.drive.check().map_err(|message| format!("{name}.sh: {message}"))?;
        Ok(scenario)
    }

    fn line(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "kernel" => {
                self.kernel = match value {
                    "new" => Kernel::New,
                    "old" => Kernel::Old,
                    _ => return Err(format!("kernel {value}: new or old is needed")),
                }
            }
            "memory" => {
                check::size(value)?;
                value.clone_into(&mut self.memory);
            }
            "processors" => {
                let number =
                    value.parse().ok().filter(|number| (1..=PROCESSORS_MAX).contains(number));
                self.processors = number.ok_or_else(|| {
                    format!("processors {value}: 1 to {PROCESSORS_MAX} are needed")
                })?;
            }
            "limit" => self.limit = Duration::from_secs(check::size(value)?),
            "subsystem" => self.drive.subsystem(value)?,
            "namespace" => self.drive.namespaces.push(Namespace::read(value)?),
            "binary" => self.binaries.push(Binary::read(value, false)?),
            "example" => self.binaries.push(Binary::read(value, true)?),
            "program" => self.programs.push(value.to_owned()),
            "module" => self.modules.push(value.to_owned()),
            "boot" => value.clone_into(&mut self.boot),
            "at" => {
                let (mark, command) = value
                    .split_once(' ')
                    .ok_or_else(|| format!("at {value}: a command is missing"))?;
                let (mark, command) = (mark.to_owned(), command.trim().to_owned());
                self.interventions.push(Intervention { mark, command });
            }
            "check" => self.checks.push(Check::read(value)?),
            _ => return Err(format!("nothing is called {key}")),
        }
        Ok(())
    }
}

impl Binary {
    fn read(value: &str, example: bool) -> Result<Self, String> {
        let (package, name) =
            value.split_once(':').ok_or_else(|| format!("{value}: PACKAGE:NAME is needed"))?;
        Ok(Self { package: package.to_owned(), name: name.to_owned(), example })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# What it is about.
#: kernel old
#: memory 1G
#: processors 2
#: limit 30
#: subsystem fdp=on fdp.runs=16M fdp.nruh=4
#: namespace size=64M block=4096 ruhs=0;1 partition=8M+16M
#: binary larder-cli:larder
#: example larder-device:device_check
#: program fio
#: at pull device_del nvme0
#: check exit(x) = 1
step x false
";

    #[test]
    fn a_scenario_is_read() {
        let scenario = Scenario::read("x", TEXT).unwrap();
        assert_eq!(scenario.about, "What it is about.");
        assert_eq!((scenario.kernel, scenario.limit.as_secs()), (Kernel::Old, 30));
        assert_eq!((scenario.drive.namespaces.len(), scenario.processors), (1, 2));
        assert!(scenario.binaries[1].example && !scenario.binaries[0].example);
        assert_eq!(scenario.interventions[0].command, "device_del nvme0");
        assert_eq!(scenario.checks[0].text(), "exit(x) = 1");
    }

    #[test]
    fn a_file_may_be_several_scenarios() {
        let text =
            "# On @PATH@.\n#: variant a PATH=/x\n#: variant b PATH=/y\n#: limit 7\nls @PATH@\n";
        let expected = |path| format!("# On {path}.\n#: limit 7\nls {path}\n");
        let found = variants("ls", text).unwrap();
        let both = [("ls_a".to_owned(), expected("/x")), ("ls_b".to_owned(), expected("/y"))];
        assert_eq!(found, both);
        assert_eq!(variants("x", TEXT).unwrap(), [("x".to_owned(), TEXT.to_owned())]);
        assert!(variants("x", "#: variant a PATH\n").unwrap_err().contains("PATH has no ="));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (from, to, word) in [
            ("kernel old", "kernel 5", "line 2: kernel 5"),
            ("processors 2", "processors 5", "line 4: processors 5: 1 to 4"),
            ("limit 30", "limits 30", "nothing is called limits"),
            ("larder-cli:larder", "larder", "PACKAGE:NAME"),
            ("pull device_del nvme0", "pull", "a command is missing"),
            ("check exit(x) = 1", "check exit(x", "missing"),
            ("#: check exit(x) = 1\n", "", "proves nothing"),
            ("# What it is about.\n", "", "the first line"),
            ("size=64M", "size=16M", "partition"),
        ] {
            let error = Scenario::read("x", &TEXT.replace(from, to)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_example_for_contributors_is_a_scenario() {
        let path = workspace::root().join("harness/src/guest/scenarios/README.md");
        let text = fs::read_to_string(path).unwrap();
        let example = text.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
        let scenario = Scenario::read("example", example).unwrap();
        assert_eq!((scenario.drive.namespaces.len(), scenario.interventions.len()), (2, 1));
    }

    #[test]
    fn all_scenarios_of_this_tree_can_be_read() {
        let all = all().unwrap();
        let names: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        assert!(names.contains(&"smoke") && names.contains(&"unplug"), "{names:?}");
    }
}
