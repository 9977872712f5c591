//! Simple calls, one at a time.

use std::sync::Arc;

use larder_blocks::{BlockStore, MemoryBlocks};
use larder_fs::{ErrorKind, FileSystem, Kind, Options, Owner, ROOT, Renaming, SetAttributes};

pub(crate) fn store(blocks: u64, block_pages: u64) -> Arc<MemoryBlocks> {
    Arc::new(MemoryBlocks::new(blocks, block_pages * 4096, 4096).unwrap())
}

pub(crate) fn owner() -> Owner {
    Owner { uid: 1, gid: 2, permissions: 0o644 }
}

#[test]
fn what_was_synced_is_there_after_an_opening() {
    let store = store(64, 32);
    let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
    let directory = fs.mkdir(ROOT, b"pantry", owner()).unwrap().ino;
    let file = fs.create(directory, b"flour", owner()).unwrap().ino;
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| it.to_le_bytes()[it as usize % 3]).collect();
    assert_eq!(fs.write(file, 5000, &bytes).unwrap(), bytes.len());
    fs.fsync(file).unwrap();
    fs.write(file, 0, b"lost").unwrap();
    drop(fs);
    let fs = FileSystem::open(store.clone(), Options::default()).unwrap();
    let found = fs.find(fs.find(ROOT, b"pantry").unwrap().ino, b"flour").unwrap();
    assert_eq!((found.ino, found.size), (file, 3_005_000));
    assert_eq!(fs.read(file, 0, 5000).unwrap(), [0; 5000]);
    assert!(fs.read(file, 5000, usize::MAX).unwrap() == bytes);
    fs.close().unwrap();
    let before = store.stats().host_written_bytes;
    drop(FileSystem::open(store.clone(), Options::default()).unwrap());
    assert_eq!(store.stats().host_written_bytes, before, "after a close nothing is to be done");
}

#[test]
fn a_file_lives_until_it_is_released() {
    let store = store(64, 32);
    let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
    let free = fs.space().free_pages;
    let file = fs.create(ROOT, b"a", owner()).unwrap().ino;
    fs.hold(file, 2).unwrap();
    fs.write(file, 0, b"still").unwrap();
    fs.unlink(ROOT, b"a").unwrap();
    fs.sync().unwrap();
    assert_eq!(fs.read(file, 0, 9).unwrap(), b"still");
    assert_eq!(fs.attributes(file).unwrap().links, 0);
    assert_eq!(fs.link(file, ROOT, b"b").unwrap_err().kind(), ErrorKind::NotFound);
    fs.release(file, 1).unwrap();
    assert!(fs.read(file, 0, 9).is_ok());
    fs.release(file, 1).unwrap();
    assert_eq!(fs.read(file, 0, 9).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs.space().free_pages, free);
    // It is removed after a power loss as well.
    let file = fs.create(ROOT, b"c", owner()).unwrap().ino;
    fs.hold(file, 1).unwrap();
    fs.unlink(ROOT, b"c").unwrap();
    fs.sync().unwrap();
    drop(fs);
    let fs = FileSystem::open(store, Options::default()).unwrap();
    assert_eq!((fs.space().free_pages, fs.space().inodes), (free, 1));
}

#[test]
fn a_file_that_grows_again_reads_zeros_where_it_was_cut() {
    let fs = FileSystem::format(store(64, 32), false, Options::default()).unwrap();
    let file = fs.create(ROOT, b"a", owner()).unwrap().ino;
    fs.write(file, 0, &[7; 10_000]).unwrap();
    fs.sync().unwrap();
    let cut = |bytes| SetAttributes { size: Some(bytes), ..Default::default() };
    fs.set_attributes(file, cut(100)).unwrap();
    fs.set_attributes(file, cut(10_000)).unwrap();
    let read = fs.read(file, 0, 10_000).unwrap();
    assert!(read[..100] == [7; 100] && read[100..].iter().all(|byte| *byte == 0));
}

#[test]
fn readings_of_a_directory_go_on_whatever_happens_there() {
    let fs = FileSystem::format(store(64, 32), false, Options::default()).unwrap();
    for number in 0..300 {
        fs.create(ROOT, format!("file {number}").as_bytes(), owner()).unwrap();
    }
    let first = fs.read_directory(ROOT, 0, 100).unwrap();
    assert_eq!((&first[0].name[..], &first[1].name[..]), (&b"."[..], &b".."[..]));
    for number in 0..150 {
        fs.unlink(ROOT, format!("file {number}").as_bytes()).unwrap();
        fs.create(ROOT, format!("new {number}").as_bytes(), owner()).unwrap();
    }
    let rest = fs.read_directory(ROOT, first[99].cookie, 1000).unwrap();
    let old = rest.iter().filter(|entry| entry.name.starts_with(b"file")).count();
    assert_eq!(old, 150, "each that stayed comes once");
    assert_eq!(rest.len(), 300);
}

#[test]
fn names_have_rules() {
    let fs = FileSystem::format(store(64, 32), false, Options::default()).unwrap();
    let kind = |name: &[u8]| fs.create(ROOT, name, owner()).unwrap_err().kind();
    assert_eq!(kind(b""), ErrorKind::InvalidRequest);
    assert_eq!(kind(b".."), ErrorKind::InvalidRequest);
    assert_eq!(kind(b"a/b"), ErrorKind::InvalidRequest);
    assert_eq!(kind(&[b'a'; 256]), ErrorKind::NameTooLong);
    let one = fs.mkdir(ROOT, b"one", owner()).unwrap();
    assert_eq!((one.kind, one.links), (Kind::Directory, 2));
    let two = fs.mkdir(one.ino, b"two", owner()).unwrap().ino;
    let into_itself = fs.rename((ROOT, b"one"), (two, b"x"), Renaming::Replace);
    assert_eq!(into_itself.unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert_eq!(fs.link(two, ROOT, b"x").unwrap_err().kind(), ErrorKind::NotPermitted);
    assert_eq!(fs.rmdir(ROOT, b"one").unwrap_err().kind(), ErrorKind::NotEmpty);
}

#[test]
fn stores_that_hold_no_file_system_are_refused() {
    let kind = |result: Result<FileSystem, larder_fs::Error>| result.err().unwrap().kind();
    assert_eq!(kind(FileSystem::open(store(64, 32), Options::default())), ErrorKind::Setup);
    assert_eq!(kind(FileSystem::format(store(8, 32), false, Options::default())), ErrorKind::Setup);
    let foreign = store(64, 32);
    foreign.alloc(larder_blocks::Stream::DEFAULT, 7).wait().unwrap();
    assert_eq!(kind(FileSystem::open(foreign.clone(), Options::default())), ErrorKind::Setup);
    let refused = FileSystem::format(foreign.clone(), false, Options::default());
    assert_eq!(kind(refused), ErrorKind::Setup);
    assert_eq!(foreign.list().len(), 1);
    FileSystem::format(foreign.clone(), true, Options::default()).unwrap();
    FileSystem::open(foreign, Options { read_only: true, ..Options::default() }).unwrap();
}
