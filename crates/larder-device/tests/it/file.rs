//! What is special to the file device: setup, splitting, and memory that outlives the caller's request.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use larder_device::{
    Device, DirectIo, Durability, ErrorKind, FileDevice, FileOptions, Io, IoBuffer, IoEngine,
    IoFuture, PlacementHandle, VolatileCache,
};

use crate::support::{
    BLOCK, LoopDisk, TinyFilesystem, engines, file, flush, options, pattern, read, start_read,
    start_write, write,
};

const MIB: usize = 1 << 20;

#[test]
fn large_transfers_are_split_and_come_back_whole() {
    for engine in engines() {
        let (device, _directory) = file(&options(32 << 20, engine));
        assert_eq!(device.info().max_transfer_bytes, 1 << 20);
        let blocks = 17 * MIB / BLOCK + 3;
        write(&device, 5, pattern(1, blocks)).unwrap();
        flush(&device).unwrap();
        let back = read(&device, 5, blocks).unwrap();
        assert!(back.as_slice() == pattern(1, blocks).as_slice());
        let stats = device.stats();
        assert_eq!(stats.host_written_bytes, (blocks * BLOCK) as u64);
        assert_eq!(stats.host_written_bytes_by_handle, [(blocks * BLOCK) as u64]);
        assert_eq!(stats.host_read_bytes, (blocks * BLOCK) as u64);
    }
}

#[test]
fn content_survives_reopening_and_engines_agree() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    for (round, engine) in engines().into_iter().enumerate() {
        let device = FileDevice::open(&path, &options(MIB as u64, engine)).unwrap();
        assert_eq!(device.engine(), engine);
        if round > 0 {
            let back = read(&device, 7, 3).unwrap();
            assert_eq!(back.as_slice(), pattern(9, 3).as_slice());
        }
        write(&device, 7, pattern(9, 3)).unwrap();
    }
}

#[test]
fn direct_and_buffered_are_reported() {
    let off = FileOptions { direct: DirectIo::Off, ..options(MIB as u64, IoEngine::Auto) };
    assert!(!file(&off).0.direct());
    let (device, directory) = file(&options(MIB as u64, IoEngine::Auto));
    let required = FileOptions { direct: DirectIo::Required, ..off };
    let outcome = FileDevice::open(directory.path().join("other"), &required);
    assert_eq!(outcome.is_ok(), device.direct(), "{outcome:?}");
    println!("direct: {}, preallocated: {}", device.direct(), device.preallocated());
}

/// If the kernel refuses a requested feature, requests are served another way. The device reports which it is.
#[test]
fn what_the_ring_was_granted_is_reported() {
    for engine in engines() {
        let (device, _directory) = file(&options(MIB as u64, engine));
        write(&device, 0, pattern(1, 2)).unwrap();
        let granted = device.registered_file();
        println!("{engine}: registered file: {granted}");
        assert!(engine == IoEngine::IoUring || !granted, "threads register nothing");
        assert_eq!(read(&device, 0, 2).unwrap().as_slice(), pattern(1, 2).as_slice());
    }
}

#[test]
fn refused_requests_never_reach_the_file() {
    for engine in engines() {
        let (device, _directory) = file(&options(MIB as u64, engine));
        let refusal = |io| device.submit(io).wait().unwrap_err();
        let read = |offset, bytes| Io::Read { offset, buffer: IoBuffer::zeroed(bytes) };
        let handle = PlacementHandle::new(1);
        for io in [
            read(MIB as u64, BLOCK),
            read(256, BLOCK),
            read(0, 100),
            Io::write(0, IoBuffer::zeroed(BLOCK), handle),
            Io::Deallocate { offset: 4096, bytes: MIB as u64 },
        ] {
            let buffer = io.extent().2;
            let carries = !matches!(io, Io::Deallocate { .. });
            let failure = refusal(io);
            assert_eq!(failure.error.kind(), ErrorKind::InvalidRequest);
            assert_eq!(failure.buffer.len() as u64, if carries { buffer } else { 0 });
        }
        assert_eq!(device.stats(), file(&options(MIB as u64, engine)).0.stats());
    }
}

/// Either the kernel takes the flag, or a flush follows. With both the bytes go to the right place.
#[test]
fn what_must_survive_a_loss_of_power_is_written_and_counted() {
    for engine in engines() {
        for direct in [DirectIo::Auto, DirectIo::Off] {
            let (device, _directory) = file(&FileOptions { direct, ..options(4 << 20, engine) });
            let blocks = 300; // two pieces
            let (buffer, handle) = (pattern(5, blocks), PlacementHandle::DEFAULT);
            let durability = Durability::Power;
            let write = Io::Write { offset: BLOCK as u64, buffer, handle, durability };
            device.submit(write).wait().unwrap();
            self::write(&device, 0, pattern(6, 1)).unwrap();
            assert!(read(&device, 1, blocks).unwrap().as_slice() == pattern(5, blocks).as_slice());
            let stats = device.stats();
            assert_eq!(stats.durable_written_bytes, (blocks * BLOCK) as u64);
            assert!([0, 2].contains(&stats.durable_flushes), "{}", stats.durable_flushes);
            assert_eq!(stats.page_cache_written_bytes, 0);
            // The filesystem has metadata to write, whatever its device does.
            assert_ne!(device.info().volatile_cache, VolatileCache::No);
        }
    }
}

fn start_process_write(device: &dyn Device, block: u64, buffer: IoBuffer) -> IoFuture {
    let (offset, handle) = (block * BLOCK as u64, PlacementHandle::DEFAULT);
    device.submit(Io::Write { offset, buffer, handle, durability: Durability::Process })
}

/// The kernel may hold the file's lock for as long as the drive takes. A thread with other requests to serve must not
/// wait for it.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_that_hosts_a_ring_sends_what_need_only_outlive_the_process() {
    let (device, directory) = file(&options(MIB as u64, IoEngine::IoUring));
    let Ok(ring) = larder_device::ring::host() else { return };
    let mut future = start_process_write(&device, 4, pattern(2, 2));
    let at_once = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(at_once.is_pending(), "the ring has it, and no thread has waited");
    assert_eq!(ring.block_on(future).unwrap().len(), 2 * BLOCK);
    let stats = device.stats();
    assert_eq!(stats.page_cache_written_bytes, 2 * BLOCK as u64);
    assert_eq!(stats.host_written_bytes, 2 * BLOCK as u64);
    assert!(read(&device, 4, 2).unwrap().as_slice() == pattern(2, 2).as_slice());
    drop(ring);
    drop(device);
    let bytes = std::fs::read(directory.path().join("cache")).unwrap();
    assert!(bytes[4 * BLOCK..6 * BLOCK] == *pattern(2, 2).as_slice());
}

/// With and without `O_DIRECT`, between other writes of the same blocks, on both engines.
#[test]
fn what_need_only_outlive_the_process_is_done_at_once_and_seen_by_all() {
    for engine in engines() {
        for direct in [DirectIo::Auto, DirectIo::Off] {
            let options = FileOptions { direct, ..options(MIB as u64, engine) };
            let (device, directory) = file(&options);
            write(&device, 3, pattern(1, 4)).unwrap();
            let mut future = start_process_write(&device, 4, pattern(2, 2));
            let waker = Waker::noop();
            let at_once = Pin::new(&mut future).poll(&mut Context::from_waker(waker));
            assert!(matches!(at_once, Poll::Ready(Ok(_))), "{engine}, {direct:?}");
            let expected = [&pattern(1, 4).as_slice()[..BLOCK], pattern(2, 2).as_slice()].concat();
            assert!(read(&device, 3, 3).unwrap().as_slice() == expected);
            write(&device, 5, pattern(3, 1)).unwrap();
            start_process_write(&device, 6, pattern(4, 1)).wait().unwrap();
            flush(&device).unwrap();
            let stats = device.stats();
            assert_eq!(stats.page_cache_written_bytes, 3 * BLOCK as u64);
            assert_eq!(stats.host_written_bytes, 8 * BLOCK as u64);
            drop(device);
            let bytes = std::fs::read(directory.path().join("cache")).unwrap();
            assert!(bytes[5 * BLOCK..6 * BLOCK] == *pattern(3, 1).as_slice());
            assert!(bytes[6 * BLOCK..7 * BLOCK] == *pattern(4, 1).as_slice());
        }
    }
}

#[test]
fn a_file_serves_one_cache_at_a_time() {
    let (device, directory) = file(&options(MIB as u64, IoEngine::Auto));
    let path = directory.path().join("cache");
    let lock_wait = Duration::from_millis(100);
    let impatient = FileOptions { lock_wait, ..FileOptions::default() };
    let begin = Instant::now();
    let again = FileDevice::open(&path, &impatient).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InUse);
    let said = "in use: another cache has it, still after 0.1 s (lock_wait)";
    assert!(again.to_string().contains(said), "{again}");
    assert!(begin.elapsed() >= lock_wait);
    drop(device);
    FileDevice::open(&path, &impatient).unwrap();
}

/// As after a crash: the kernel releases the lock of a dead process only when its requests have ended.
#[test]
fn a_file_that_is_let_go_of_late_is_waited_for() {
    let (device, directory) = file(&options(MIB as u64, IoEngine::Auto));
    let (sender, opening) = mpsc::channel();
    let releaser = std::thread::spawn(move || {
        opening.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drop(device);
    });
    sender.send(()).unwrap();
    FileDevice::open(directory.path().join("cache"), &FileOptions::default()).unwrap();
    releaser.join().unwrap();
}

const VICTIM_FILE: &str = "LARDER_DEVICE_VICTIM_FILE";

/// Not a test by itself: the process that the next test kills.
#[test]
#[ignore = "what another test kills; started by it"]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM_FILE) else { return };
    let device = FileDevice::open(path, &options(64 << 20, IoEngine::Auto)).unwrap();
    println!("\nopen");
    let mut futures = std::collections::VecDeque::new();
    for round in 0.. {
        futures.push_back(start_write(&device, round % 60 * 256, pattern(round, 256)));
        if futures.len() > 64 {
            futures.pop_front().unwrap().wait().unwrap();
        }
    }
}

/// The kernel completes the requests of a killed process before it releases the process's lock.
#[test]
fn the_file_of_a_process_that_was_killed_under_load_opens_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let mut late = 0;
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "file::victim", "--nocapture"])
            .env(VICTIM_FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == "open"));
        std::thread::sleep(Duration::from_millis(30));
        child.kill().unwrap();
        child.wait().unwrap();
        let impatient = FileOptions { lock_wait: Duration::ZERO, ..FileOptions::default() };
        late += u32::from(FileDevice::open(&path, &impatient).is_err());
        FileDevice::open(&path, &FileOptions::default()).unwrap();
    }
    println!("{late} of 5 openings would have been refused without waiting");
}

/// An open partition locks its disk, and an open disk locks its partitions.
#[test]
fn a_partition_and_its_disk_do_not_both_open() {
    let Some(disk) = LoopDisk::attach(32 << 20) else { return };
    let open = |path: &Path| {
        FileDevice::open(path, &FileOptions { lock_wait: Duration::ZERO, ..FileOptions::default() })
    };
    for (first, second) in [(disk.path(), disk.partition()), (disk.partition(), disk.path())] {
        let device = open(first).unwrap();
        let refused = open(second).unwrap_err().to_string();
        assert!(refused.contains("another cache has it or its disk"), "{refused}");
        drop(device);
        open(second).unwrap();
    }
}

#[test]
fn another_programs_file_keeps_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letter");
    let text = b"Dear Sir or Madam, ".repeat(40_000);
    for length in [5, 4096, text.len()] {
        std::fs::write(&path, &text[..length]).unwrap();
        let refused = FileDevice::create(&path, MIB as u64).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Setup);
        let said = format!("holds {length} bytes of another program and would have to grow");
        assert!(refused.to_string().contains(&said), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), &text[..length]);
    }
    // A file that is long enough is accepted. Only growing would change a file that is refused afterwards, and a file
    // of Larder may grow.
    FileDevice::create(&path, 4096).unwrap();
    std::fs::write(&path, b"LARDERSB and so on").unwrap();
    FileDevice::create(&path, MIB as u64).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"LARDERSB and so on"));
}

#[test]
fn files_must_be_there_and_large_enough() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let open = |bytes| {
        let capacity_bytes = Some(bytes);
        FileDevice::open(&path, &FileOptions { capacity_bytes, ..FileOptions::default() })
    };
    assert_eq!(open(4096).unwrap_err().kind(), ErrorKind::Setup);
    std::fs::write(&path, [0; 100]).unwrap();
    let none = FileDevice::open(&path, &FileOptions::default()).unwrap_err();
    assert!(none.to_string().contains("100 bytes, not even one block"), "{none}");
    std::fs::write(&path, vec![0; 3 * BLOCK + 100]).unwrap();
    let error = open(MIB as u64).unwrap_err().to_string();
    assert!(error.contains("has 12388 bytes but 1048576 were asked for"), "{error}");
    assert_eq!(open(8192).unwrap().info().capacity_bytes, 8192);
    let all = FileDevice::open(&path, &FileOptions::default()).unwrap();
    assert_eq!(all.info().capacity_bytes, 12288);
    drop(all);
    let grown = FileDevice::create(&path, MIB as u64).unwrap();
    assert_eq!(grown.info().capacity_bytes, MIB as u64);
    let folder = FileDevice::create(directory.path(), MIB as u64).unwrap_err();
    assert_eq!(folder.kind(), ErrorKind::Setup);
}

#[test]
fn a_disk_that_cannot_hold_the_file_is_found_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let error = FileDevice::create(&path, 1 << 60).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn a_disk_that_fills_up_fails_the_write_and_returns_the_buffer() {
    let Some(tiny) = TinyFilesystem::mount("size=1m") else { return };
    let error = FileDevice::create(tiny.file(), 2 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    for engine in engines() {
        let options = FileOptions { preallocate: false, ..options(4 << 20, engine) };
        let path = tiny.path().join(engine.to_string());
        let device = FileDevice::open(&path, &options).unwrap();
        let failure = write(&device, 0, pattern(1, 512)).unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::NoSpace, "{failure}");
        assert_eq!(failure.buffer.as_slice(), pattern(1, 512).as_slice());
        assert_eq!(device.stats().failed_requests, 1);
        drop(device);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_file_cut_short_fails_reads_but_nothing_else() {
    for engine in engines() {
        let (device, directory) = file(&options(MIB as u64, engine));
        let cut = std::fs::OpenOptions::new().write(true).open(directory.path().join("cache"));
        cut.unwrap().set_len(8192).unwrap();
        let failure = read(&device, 1, 4).unwrap_err();
        assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Io, 4 * BLOCK));
        read(&device, 1, 1).unwrap();
    }
}

#[test]
fn deallocated_space_is_given_back() {
    for engine in engines() {
        let (device, _directory) = file(&options(4 << 20, engine));
        write(&device, 0, pattern(1, 1024)).unwrap();
        device.submit(Io::Deallocate { offset: 0, bytes: 2 << 20 }).wait().unwrap();
        assert_eq!(device.stats().deallocated_bytes, 2 << 20);
        let back = read(&device, 0, 1024).unwrap();
        assert_eq!(&back.as_slice()[2 * MIB..], &pattern(1, 1024).as_slice()[2 * MIB..]);
        if device.ignored_deallocations() == 0 {
            assert!(back.as_slice()[..2 * MIB].iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn dropped_futures_neither_stop_nor_harm_their_requests() {
    for engine in engines() {
        let (device, _directory) = file(&options(16 << 20, engine));
        for round in 0..64 {
            drop(start_write(&device, round * 64, pattern(round, 64)));
            drop(start_read(&device, round * 64, 64));
            // Polled once, then dropped: waking the waker of a dropped future is harmless.
            let mut polled = start_read(&device, 0, 1);
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut polled).poll(&mut context);
        }
        drop(device);
    }
}

#[test]
fn dropping_the_device_waits_for_what_is_under_way() {
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let device = FileDevice::open(&path, &options(16 << 20, engine)).unwrap();
        let blocks = 64;
        let futures: Vec<_> =
            (0..64).map(|i| start_write(&device, i * 64, pattern(i, blocks))).collect();
        drop(device);
        let device = FileDevice::open(&path, &options(16 << 20, engine)).unwrap();
        for (i, future) in (0..).zip(futures) {
            future.wait().unwrap();
            let back = read(&device, i * 64, blocks).unwrap();
            assert!(back.as_slice() == pattern(i, blocks).as_slice());
        }
    }
}

/// The device is dropped on the thread that completes the request: the engine must not wait for itself.
#[test]
fn a_waker_may_drop_the_device() {
    struct DropsDevice(Mutex<Option<FileDevice>>, mpsc::Sender<()>);
    impl Wake for DropsDevice {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            self.1.send(()).unwrap();
        }
    }
    for engine in engines() {
        let (device, _directory) = file(&options(16 << 20, engine));
        let mut future = start_write(&device, 0, pattern(1, 4096));
        let (sender, woken) = mpsc::channel();
        let waker = Arc::new(DropsDevice(Mutex::new(Some(device)), sender));
        let ready = Pin::new(&mut future)
            .poll(&mut Context::from_waker(&Waker::from(Arc::clone(&waker))))
            .is_ready();
        if !ready {
            woken.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
            future.wait().unwrap();
        }
    }
}

/// A panic in a waker does not harm the device.
#[test]
fn a_waker_may_panic() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this panic is part of a test");
        }
    }
    for engine in engines() {
        let (device, _directory) = file(&options(16 << 20, engine));
        for _ in 0..20 {
            let mut future = start_write(&device, 0, pattern(1, 512));
            let waker = Waker::from(Arc::new(Panics));
            if Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending() {
                future.wait().unwrap();
            }
        }
        read(&device, 0, 1).unwrap();
    }
}
