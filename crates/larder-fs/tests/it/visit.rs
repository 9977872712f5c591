//! Uses all of a file system with arbitrary content: reads it, and changes whatever can be changed.

use larder_fs::{FileSystem, Ino, Owner, ROOT, Renaming, SeekTo};

/// Reads everything that can be found, up to a limited number of names.
pub(crate) fn walk(fs: &FileSystem, mut file: impl FnMut(Ino, Vec<u8>)) {
    let mut waiting = vec![ROOT];
    for _ in 0..500 {
        let Some(ino) = waiting.pop() else { return };
        if let Ok(entries) = fs.read_directory(ino, 2, 100) {
            waiting.extend(entries.iter().map(|entry| entry.ino));
        } else if fs.attributes(ino).is_ok_and(|found| found.size < 1 << 22)
            && let Ok(bytes) = fs.read(ino, 0, 1 << 22)
        {
            file(ino, bytes);
        }
        let _ = (fs.extended_names(ino), fs.read_link(ino), fs.seek(ino, 0, SeekTo::Hole));
    }
}

/// Changes whatever can be changed. Errors are fine.
pub(crate) fn work(fs: &FileSystem, rng: &mut fastrand::Rng) {
    let owner = Owner { uid: 1, gid: 2, permissions: 0o644 };
    let entries = fs.read_directory(ROOT, 2, 30).unwrap_or_default();
    for entry in &entries {
        match rng.u8(..6) {
            0 => drop(fs.unlink(ROOT, &entry.name)),
            1 => drop(fs.rmdir(ROOT, &entry.name)),
            2 => drop(fs.write(entry.ino, rng.u64(..2_000_000), &[7; 5000])),
            3 => drop(fs.create(entry.ino, b"new", owner)),
            4 => drop(fs.rename((ROOT, &entry.name), (entry.ino, b"x"), Renaming::Replace)),
            _ => drop(fs.rename((ROOT, &entry.name), (ROOT, b"x"), Renaming::Exchange)),
        }
    }
    for number in 0..40_u32 {
        let Ok(made) = fs.create(ROOT, &number.to_le_bytes(), owner) else { continue };
        let _ = (fs.write(made.ino, 0, &[9; 20_000]), fs.sync());
    }
    let _ = fs.close();
}
