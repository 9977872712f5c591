//! Kills a process while it works on zones, and checks what is there afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use larder::block_on;
use larder_blocks::{BlockId, BlockStore, Stream, ZonedBlocks};
use larder_device::IoBuffer;

use super::{Failure, open};

const PAGE: usize = 4096;
/// Blocks that the process keeps.
const KEPT: usize = 6;

/// The content of a page of a block.
fn content(tag: u64, page: u64) -> impl Iterator<Item = u8> {
    (tag ^ page << 40).to_le_bytes().into_iter().cycle().take(PAGE)
}

fn pages(tag: u64, first: u64, count: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(count * PAGE);
    for (page, bytes) in (first..).zip(buffer.as_mut_slice().chunks_mut(PAGE)) {
        content(tag, page).zip(bytes).for_each(|(from, to)| *to = from);
    }
    buffer
}

fn pages_between(from: u64, to: u64) -> usize {
    usize::try_from((to - from) / PAGE as u64).expect("a block is addressed")
}

/// Works on the zones, and prints a line for each step that begins or has ended: `alloc BLOCK TAG`, `append BLOCK END`,
/// `freeing BLOCK`, `freed BLOCK`.
pub(super) fn work(path: &Path, seed: u64) -> Result<(), Failure> {
    let store = open(path, false)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut told = std::io::stdout().lock();
    loop {
        let blocks = store.list();
        if blocks.len() < KEPT {
            let tag = rng.u64(1..1 << 40);
            let block = block_on(store.alloc(Stream::DEFAULT, tag))?;
            writeln!(told, "alloc {block} {tag}")?;
            continue;
        }
        let state = blocks[rng.usize(..blocks.len())];
        let room = pages_between(state.written_bytes, store.info().block_bytes);
        if room == 0 || state.closed || rng.u32(..40) == 0 {
            writeln!(told, "freeing {}", state.block)?;
            block_on(store.free(state.block)).map_err(|failure| failure.error)?;
            writeln!(told, "freed {}", state.block)?;
            continue;
        }
        // Several appends are in flight together.
        let mut appends = Vec::new();
        let mut end = state.written_bytes;
        for _ in 0..rng.usize(1..4) {
            let room = pages_between(end, store.info().block_bytes);
            let count = rng.usize(1..40).min(room);
            if count == 0 {
                break;
            }
            let buffer = pages(state.tag, end / PAGE as u64, count);
            appends.push((end + buffer.len() as u64, store.append(state.block, end, buffer)));
            end += (count * PAGE) as u64;
        }
        for (end, append) in appends {
            block_on(append).map_err(|failure| failure.error)?;
            writeln!(told, "append {} {end}", state.block)?;
        }
        told.flush()?;
    }
}

/// What the process has printed about a block.
#[derive(Debug, Default, Clone, Copy)]
struct PrintedBlock {
    tag: u64,
    bytes: u64,
    freeing: bool,
    freed: bool,
}

pub(super) fn kills(path: &Path, times: u32, seed: u64) -> Result<(), Failure> {
    drop(open(path, true)?);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut known: BTreeMap<BlockId, PrintedBlock> = BTreeMap::new();
    let (mut acknowledged, mut compared) = (0, 0);
    for _ in 0..times {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["work".as_ref(), path.as_os_str()])
            .arg(rng.u64(..).to_string())
            .stdout(Stdio::piped())
            .spawn()?;
        let told = BufReader::new(child.stdout.take().ok_or("no output")?);
        let after = Duration::from_millis(rng.u64(50..2000));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            child.kill().and_then(|()| child.wait())
        });
        for line in told.lines() {
            acknowledged += u64::from(note(&mut known, &line?));
        }
        let ended = killer.join().map_err(|_| "the killer failed")??;
        if ended.code().is_some() {
            return Err(format!("the process ended by itself: {ended}").into());
        }
        compared += judge(&*open(path, false)?, &mut known)?;
    }
    println!("killed {times}\nacknowledged {acknowledged}\ncompared_pages {compared}\nwrong 0");
    Ok(())
}

/// Takes in a line of the process, complete or not. Returns whether it is an acknowledgement.
fn note(known: &mut BTreeMap<BlockId, PrintedBlock>, line: &str) -> bool {
    let mut words = line.split(' ');
    let what = words.next().unwrap_or_default();
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    match (what, &numbers[..]) {
        ("alloc", &[block, tag]) => {
            known.insert(BlockId::new(block), PrintedBlock { tag, ..PrintedBlock::default() });
        }
        ("append", &[block, end]) => {
            known.entry(BlockId::new(block)).or_default().bytes = end;
        }
        ("freeing", &[block]) => known.entry(BlockId::new(block)).or_default().freeing = true,
        ("freed", &[block]) => known.entry(BlockId::new(block)).or_default().freed = true,
        _ => return false,
    }
    true
}

/// Compares the store with what was printed. From then on the actual state is the expected one.
fn judge(store: &ZonedBlocks, known: &mut BTreeMap<BlockId, PrintedBlock>) -> Result<u64, Failure> {
    let listed = store.list();
    for (block, it) in &*known {
        let state = listed.iter().find(|state| state.block == *block);
        match state {
            None if it.freeing => {}
            None => return Err(format!("block {block} is gone: {it:?}").into()),
            Some(state) if it.freed => return Err(format!("{state:?} was freed").into()),
            Some(state) if state.tag != it.tag || state.written_bytes < it.bytes => {
                return Err(format!("{state:?} is not {it:?}").into());
            }
            Some(_) => {}
        }
    }
    known.clear();
    let mut compared = 0;
    for state in listed {
        let bytes = state.written_bytes;
        known
            .insert(state.block, PrintedBlock { tag: state.tag, bytes, ..PrintedBlock::default() });
        for page in 0..bytes / PAGE as u64 {
            let read = store.read(state.block, page * PAGE as u64, IoBuffer::zeroed(PAGE));
            let read = block_on(read).map_err(|failure| failure.error)?;
            if !content(state.tag, page).eq(read.as_slice().iter().copied()) {
                return Err(format!("page {page} of {state:?} has other bytes").into());
            }
            compared += 1;
        }
    }
    Ok(compared)
}
