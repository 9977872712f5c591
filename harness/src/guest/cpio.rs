//! An archive in the format that the kernel unpacks at boot: cpio, "newc".
//!
//! An entry is a header of 110 characters (`070701`, then thirteen numbers of eight hexadecimal digits), the
//! NUL-terminated name, and the content. Name and content are each padded to a multiple of four bytes.

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";
const ALIGN: usize = 4;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive being written. Directories come before their files.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: Vec<String>,
}

impl Archive {
    /// Adds a file that can be read and executed, and its parent directories. `path` has no leading slash.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) -> Result<(), String> {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above)?;
        }
        self.entry(path, PROGRAM, content)
    }

    /// Adds a directory and its parents.
    pub(super) fn directory(&mut self, path: &str) -> Result<(), String> {
        if self.directories.iter().any(|known| known == path) {
            return Ok(());
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.directory(above)?;
        }
        self.directories.push(path.to_owned());
        self.entry(path, DIRECTORY, &[])
    }

    /// Returns the whole archive.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, String> {
        self.entry(TRAILER, 0, &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<(), String> {
        let length = |bytes: usize| {
            u32::try_from(bytes).map_err(|_| format!("{name}: an archive holds no file of 4 GiB"))
        };
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let (size, name_size) = (length(content.len())?, length(name.len() + 1)?);
        // Number, mode, owner, group, links, time, size, two devices of two numbers, name, checksum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(MAGIC.as_bytes());
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of an archive: name, mode, content.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&bytes[..6], MAGIC.as_bytes());
            let number = |index: usize| {
                let digits = &bytes[6 + 8 * index..14 + 8 * index];
                u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            let (mode, size, name_size) = (number(1), number(6) as usize, number(11) as usize);
            let name = String::from_utf8(bytes[110..110 + name_size - 1].to_vec()).unwrap();
            assert_eq!(bytes[110 + name_size - 1], 0);
            let begin = (110 + name_size).next_multiple_of(4);
            if name == TRAILER {
                assert_eq!(bytes.len(), begin);
                return entries;
            }
            entries.push((name, mode, bytes[begin..begin + size].to_vec()));
            bytes = &bytes[(begin + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn an_archive_reads_back_with_directories_first_and_once() {
        let mut archive = Archive::default();
        archive.file("init", b"#!").unwrap();
        archive.file("lib/x/a.so", b"12345").unwrap();
        archive.file("lib/b.so", b"").unwrap();
        archive.directory("proc").unwrap();
        let entries = read(&archive.finish().unwrap());
        let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["init", "lib", "lib/x", "lib/x/a.so", "lib/b.so", "proc"]);
        assert_eq!(entries[3], ("lib/x/a.so".to_owned(), PROGRAM, b"12345".to_vec()));
        assert_eq!(entries[5].1, DIRECTORY);
    }
}
