//! Files and directories that only their owner may read and write, whatever the umask: caches hold other people's data.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Creates a file of mode 0600, open for reading and writing.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::AlreadyExists`] if the file exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    let mut how = File::options();
    how.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut how, 0o600);
    let file = how.open(path)?;
    // The umask may have removed bits of the owner.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

/// Creates a directory of mode 0700, and its missing parents. An existing directory keeps its mode.
///
/// # Errors
/// Those of the system.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut how = fs::DirBuilder::new();
    how.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut how, 0o700);
    how.create(path)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn others_may_not_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        create_private_directory(&inner).unwrap();
        assert_eq!((mode(&outer), mode(&inner)), (0o700, 0o700));
        let file = inner.join("file");
        create_private_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        let again = create_private_file(&file).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        create_private_directory(&inner).unwrap();
    }
}
