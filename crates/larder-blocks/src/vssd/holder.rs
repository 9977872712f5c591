//! Finds the process that has a file locked, for the error message.

use std::fs::{File, read_to_string};

/// Most characters of a command line that are shown.
const COMMAND_CHARS: usize = 120;

/// The process that has `file` locked, by number and command line, where the system tells.
#[cfg(target_os = "linux")]
pub(super) fn holder(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let name = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
    let process = process_of(&read_to_string("/proc/locks").ok()?, &name)?;
    let line = read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    Some(described(process, &line))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn holder(_: &File) -> Option<String> {
    None
}

/// Parses lines such as `1: FLOCK  ADVISORY  WRITE 708 fe:00:2359 0 EOF`. A process of another namespace appears there
/// as 0.
fn process_of(locks: &str, file: &str) -> Option<u32> {
    let words = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let holds = |words: &Vec<&str>| words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file);
    words.filter(holds).find_map(|words| words[4].parse().ok().filter(|&process| process != 0))
}

fn described(process: u32, command_line: &str) -> String {
    let words = command_line.split('\0').filter(|word| !word.is_empty());
    let mut command = words.collect::<Vec<_>>().join(" ").replace(char::is_control, "?");
    if command.is_empty() {
        return format!("process {process}");
    }
    if let Some((end, _)) = command.char_indices().nth(COMMAND_CHARS) {
        command.truncate(end);
        command += "…";
    }
    format!("process {process} ({command})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_name_their_process() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 0 fe:00:8 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 12 fe:00:7 0 EOF\n";
        assert_eq!(process_of(locks, "fe:00:7"), Some(12));
        assert_eq!((process_of(locks, "fe:00:8"), process_of("", "fe:00:7")), (None, None));
        assert_eq!(described(7, "larder\0vssd\0a\nb\0"), "process 7 (larder vssd a?b)");
        assert_eq!(described(7, ""), "process 7");
        assert!(described(7, &"ä".repeat(200)).ends_with("…)"));
    }
}
