//! A `larder block` process that serves, and a minimal NBD client for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::place::Place;

/// A server that ends with the test.
pub(crate) struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Its output before it was ready.
    said: Vec<String>,
}

impl Serving {
    #[track_caller]
    pub(crate) fn start(place: &Place, arguments: &str) -> Self {
        Self::run(place.command(&format!("block {arguments}")))
    }

    /// Runs `command`, until it prints that it is ready.
    #[track_caller]
    pub(crate) fn run(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.starts_with("ready")) {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended: {said:?}");
            said.push(line.trim_end().to_owned());
        }
        Self { child, stdout, said }
    }

    /// The rest of the output line that begins with `word`.
    #[track_caller]
    pub(crate) fn line(&self, word: &str) -> &str {
        let line = self.said.iter().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("no {word} in {:?}", self.said)).trim()
    }

    /// Whether it has this file open for writing.
    #[track_caller]
    pub(crate) fn opens_for_writing(&self, path: &std::path::Path) -> bool {
        let own = format!("/proc/{}", self.child.id());
        let open = std::fs::read_dir(format!("{own}/fd")).unwrap().flatten();
        let real = std::fs::canonicalize(path).unwrap();
        let of_file = open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|it| it == real));
        let flags: Vec<u32> = of_file
            .map(|fd| {
                let number = fd.file_name().into_string().unwrap();
                let said = std::fs::read_to_string(format!("{own}/fdinfo/{number}")).unwrap();
                let octal = said.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
                u32::from_str_radix(octal.trim(), 8).unwrap()
            })
            .collect();
        assert!(!flags.is_empty(), "{} is not open", path.display());
        // O_WRONLY or O_RDWR.
        flags.iter().any(|flags| flags & 3 != 0)
    }

    /// Sends a signal. Returns the exit code, and the rest of the output.
    pub(crate) fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Selects an export of this many MiB by the oldest option. Returns its flags.
pub(crate) fn open(stream: &mut (impl Read + Write), name: &[u8], mebibytes: u8) -> u8 {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    let name_bytes = u8::try_from(name.len()).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0").unwrap();
    stream.write_all(&[&[name_bytes], name].concat()).unwrap();
    let mut about = [0; 10];
    stream.read_exact(&mut about).unwrap();
    assert_eq!(about[..8], [0, 0, 0, 0, 0, 16 * mebibytes, 0, 0]);
    about[9]
}

/// Writes or reads 5 bytes at offset 4094. Returns the error.
pub(crate) fn request(stream: &mut (impl Read + Write), kind: u8, data: &mut [u8; 5]) -> u8 {
    let head = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind];
    let rest = [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x0f, 0xfe, 0, 0, 0, 5];
    stream.write_all(&[&head[..], &rest].concat()).unwrap();
    if kind == 1 {
        stream.write_all(data).unwrap();
    }
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..4], reply[15]), (&[0x67, 0x44, 0x66, 0x98][..], 9));
    if kind == 0 && reply[7] == 0 {
        stream.read_exact(data).unwrap();
    }
    reply[7]
}
