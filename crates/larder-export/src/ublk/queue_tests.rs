//! Tests queues with a driver that does as it is told, including what it must not do.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use larder_device::{
    Completer, Durability, Error, ErrorKind, IoBuffer, IoFailure, IoFuture, MemoryDevice,
};

use super::driver::{Driver, Event};
use super::queue::Queue;
use super::request::Limits;
use super::wire::IoDescriptor;
use crate::volume::{BlockSizes, DeviceVolume, Volume, VolumeInfo};

const SIZE: usize = 1 << 20;
const DEPTH: u16 = 4;
const FUA: u32 = 1 << 13;

/// The driver's side: requests with their bytes, and their results.
#[derive(Default)]
struct FakeDriver {
    events: VecDeque<Event>,
    requests: HashMap<u16, (IoDescriptor, Vec<u8>)>,
    fetched: Vec<u16>,
    answers: Vec<(u16, i32)>,
    /// The data that reads were given.
    given: Mutex<HashMap<u16, Vec<u8>>>,
    fails_to_copy: bool,
}

impl FakeDriver {
    fn ask(&mut self, tag: u16, what: u32, sectors: Range<u64>, bytes: &[u8]) {
        let length = u32::try_from(sectors.end - sectors.start).unwrap();
        let descriptor =
            IoDescriptor { what, sectors: length, first_sector: sectors.start, addr: 0 };
        self.requests.insert(tag, (descriptor, bytes.to_vec()));
        self.events.push_back(Event { tag, result: 0 });
    }

    fn says(&mut self, tag: u16, result: i32) {
        self.events.push_back(Event { tag, result });
    }

    fn answers(&mut self) -> Vec<(u16, i32)> {
        std::mem::take(&mut self.answers)
    }
}

impl Driver for FakeDriver {
    fn fetch(&mut self, tag: u16) -> io::Result<()> {
        self.fetched.push(tag);
        Ok(())
    }

    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.answers.push((tag, result));
        Ok(())
    }

    fn descriptor(&self, tag: u16) -> IoDescriptor {
        self.requests[&tag].0
    }

    fn copy_in(&self, tag: u16, buffer: &mut IoBuffer) -> io::Result<()> {
        if self.fails_to_copy {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        buffer.copy_in(0, &self.requests[&tag].1);
        Ok(())
    }

    fn copy_out(&self, tag: u16, buffer: &IoBuffer) -> io::Result<()> {
        if self.fails_to_copy {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = vec![0; buffer.len()];
        buffer.copy_out(0, &mut bytes);
        self.given.lock().unwrap().insert(tag, bytes);
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Event>> {
        Ok(self.events.pop_front())
    }

    fn enter(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// A volume that ends requests when told to, and records them.
struct SlowVolume {
    info: VolumeInfo,
    asked: Mutex<Vec<(String, Completer)>>,
}

impl SlowVolume {
    fn new() -> Arc<Self> {
        let blocks = BlockSizes { min: 1, preferred: 4096, max: 32 << 20 };
        let info =
            VolumeInfo { size_bytes: SIZE as u64, blocks, contexts: Vec::new(), caches: false };
        Arc::new(Self { info, asked: Mutex::default() })
    }

    fn note(&self, what: String) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        self.asked.lock().unwrap().push((what, completer));
        future
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(what, _)| what.clone()).collect()
    }

    fn end(&self, nth: usize, result: larder_device::IoResult) {
        self.asked.lock().unwrap().remove(nth).1.complete(result);
    }
}

impl Volume for SlowVolume {
    fn info(&self) -> &VolumeInfo {
        &self.info
    }

    fn read(&self, offset: u64, buffer: IoBuffer) -> IoFuture {
        self.note(format!("read {offset}+{}", buffer.len()))
    }

    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture {
        self.note(format!("write {offset}+{} {durability:?}", buffer.len()))
    }

    fn flush(&self) -> IoFuture {
        self.note("flush".to_owned())
    }

    fn trim(&self, range: Range<u64>, durability: Durability) -> IoFuture {
        self.note(format!("trim {range:?} {durability:?}"))
    }

    fn write_zeroes(&self, range: Range<u64>, keeps: bool, durability: Durability) -> IoFuture {
        self.note(format!("zeroes {range:?} {keeps} {durability:?}"))
    }
}

fn limits() -> Limits {
    Limits {
        size_bytes: SIZE as u64,
        block_bytes: 1,
        io_bytes_max: 512 << 10,
        range_bytes_max: 128 << 20,
        is_read_only: false,
    }
}

fn begun(volume: Arc<dyn Volume>) -> (Queue, FakeDriver) {
    let mut driver = FakeDriver::default();
    let queue = Queue::begin(volume, limits(), DEPTH, &mut driver).unwrap();
    (queue, driver)
}

fn turn(queue: &mut Queue, driver: &mut FakeDriver) -> io::Result<()> {
    queue.turn(driver, &mut Context::from_waker(Waker::noop()))
}

fn over_memory() -> (Queue, FakeDriver) {
    let device = MemoryDevice::holding(vec![7; SIZE]);
    begun(Arc::new(DeviceVolume::new(Arc::new(device))))
}

#[test]
fn what_is_written_is_read() {
    let (mut queue, mut driver) = over_memory();
    assert_eq!(driver.fetched, [0, 1, 2, 3]);
    let bytes: Vec<u8> = (0..1536_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    driver.ask(2, 1 | FUA, 5..8, &bytes);
    turn(&mut queue, &mut driver).unwrap();
    driver.ask(2, 0, 4..9, &[]);
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.answers(), [(2, 1536), (2, 2560)]);
    let given = driver.given.lock().unwrap().remove(&2).unwrap();
    assert_eq!(given, [&[7; 512], &*bytes, &[7; 512]].concat());
    driver.ask(0, 5, 5..6, &[]);
    driver.ask(1, 2, 0..0, &[]);
    driver.ask(3, 3, 0..8, &[]);
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.answers(), [(0, 0), (1, 0), (3, 0)]);
    driver.ask(0, 0, 5..6, &[]);
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.given.lock().unwrap()[&0], [0; 512]);
}

#[test]
fn requests_go_on_together_and_are_answered_as_they_end() {
    let volume = SlowVolume::new();
    let (mut queue, mut driver) = begun(volume.clone());
    driver.ask(0, 0, 0..8, &[]);
    driver.ask(1, 1 | FUA, 8..16, &[1; 4096]);
    driver.ask(2, 1, 16..17, &[1; 512]);
    driver.ask(3, 5 | FUA | 1 << 15, 0..8, &[]);
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(
        volume.asked(),
        [
            "read 0+4096",
            "write 4096+4096 Power",
            "write 8192+512 Device",
            "zeroes 0..4096 true Power"
        ]
    );
    assert_eq!(driver.answers(), [], "nothing has ended");
    volume.end(2, Ok(IoBuffer::empty()));
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.answers(), [(2, 512)]);
    volume.end(0, Ok(IoBuffer::zeroed(4096)));
    let full =
        IoFailure { error: Error::new(ErrorKind::NoSpace, "full"), buffer: IoBuffer::empty() };
    volume.end(0, Err(full));
    volume.end(0, Ok(IoBuffer::empty()));
    driver.ask(2, 3, 0..8, &[]);
    turn(&mut queue, &mut driver).unwrap();
    let mut answers = driver.answers();
    answers.sort_unstable();
    assert_eq!(answers, [(0, 4096), (1, -28), (3, 0)]);
    assert_eq!(volume.asked(), ["trim 0..4096 Device"]);
}

#[test]
fn hostile_requests_are_answered_and_never_reach_the_volume() {
    let volume = SlowVolume::new();
    let (mut queue, mut driver) = begun(volume.clone());
    let sectors = SIZE as u64 / 512;
    let hostile = [
        (0, sectors..sectors + 1, -5),
        (1, sectors - 1..sectors + 1, -5),
        (1, u64::MAX - 1..u64::MAX, -5),
        (1, 0..0, -22),
        (0, 0..1025, -22),
        (3, 0..1 << 31, -22),
        (4, 0..8, -95),
        (7, 0..8, -95),
        (255, 0..8, -95),
    ];
    for (what, range, answer) in hostile {
        driver.ask(1, what, range.clone(), &[1; 512]);
        turn(&mut queue, &mut driver).unwrap();
        assert_eq!(driver.answers(), [(1, answer)], "{what} {range:?}");
    }
    assert!(volume.asked().is_empty());
}

#[test]
fn bytes_that_cannot_be_copied_change_nothing() {
    let (mut queue, mut driver) = over_memory();
    driver.fails_to_copy = true;
    driver.ask(0, 1, 0..1, &[1; 512]);
    driver.ask(1, 0, 0..1, &[]);
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.answers(), [(0, -5), (1, -5)]);
    driver.fails_to_copy = false;
    driver.ask(0, 0, 0..1, &[]);
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.given.lock().unwrap()[&0], [7; 512]);
}

#[test]
fn a_driver_that_breaks_the_order_of_tags_ends_the_queue() {
    let refused = |ask: &dyn Fn(&mut FakeDriver)| {
        let (mut queue, mut driver) = begun(SlowVolume::new());
        ask(&mut driver);
        turn(&mut queue, &mut driver).unwrap_err().to_string()
    };
    let why = refused(&|driver| driver.ask(DEPTH, 0, 0..1, &[]));
    assert!(why.contains("tag 4: there are 4"), "{why}");
    let why = refused(&|driver| {
        driver.ask(1, 0, 0..1, &[]);
        driver.ask(1, 0, 0..1, &[]);
    });
    assert!(why.contains("gives tag 1, which it does not have"), "{why}");
    let why = refused(&|driver| {
        driver.says(1, -19);
        driver.ask(1, 0, 0..1, &[]);
    });
    assert!(why.contains("gives tag 1"), "{why}");
    let why = refused(&|driver| driver.says(0, -22));
    assert!(why.contains("refuses tag 0"), "{why}");
    let why = refused(&|driver| driver.says(0, i32::MIN));
    assert!(why.contains("refuses tag 0"), "{why}");
}

#[test]
fn a_queue_ends_when_all_tags_are_gone_and_what_was_begun_is_answered() {
    let volume = SlowVolume::new();
    let (mut queue, mut driver) = begun(volume.clone());
    driver.ask(3, 0, 0..1, &[]);
    (0..3).for_each(|tag| driver.says(tag, -19));
    turn(&mut queue, &mut driver).unwrap();
    assert!(!queue.has_ended(), "the volume has a request");
    volume.end(0, Ok(IoBuffer::zeroed(512)));
    turn(&mut queue, &mut driver).unwrap();
    assert_eq!(driver.answers(), [(3, 512)]);
    assert!(!queue.has_ended(), "its tag is the driver's again");
    driver.says(3, -19);
    turn(&mut queue, &mut driver).unwrap();
    assert!(queue.has_ended());
}
