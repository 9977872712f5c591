//! A neighbour process that streams through memory, and so uses processor caches and memory bandwidth.

use std::hint::black_box;
use std::process::{Child, Command, Stdio};

/// Far larger than any processor cache.
const BYTES: usize = 256 << 20;

/// The process, killed on drop.
struct Neighbour(Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It has no state, so killing it loses nothing, and it does not matter if it has already ended.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Calls `run`, with a neighbour if `is_wanted`.
pub(crate) fn beside(
    is_wanted: bool,
    run: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    if !is_wanted {
        return run();
    }
    let program = std::env::current_exe().map_err(|e| format!("this program is gone: {e}"))?;
    let mut command = Command::new(program);
    let started = command.arg("neighbour").stdin(Stdio::null()).spawn();
    let _neighbour = Neighbour(started.map_err(|e| format!("the neighbour does not start: {e}"))?);
    println!("beside a neighbour that streams through {BYTES} bytes of memory on one core");
    run()
}

/// Copies one half of the memory to the other, forever.
pub(crate) fn stream() -> Result<(), String> {
    let mut memory = vec![1_u8; BYTES];
    loop {
        let (from, to) = memory.split_at_mut(BYTES / 2);
        to.copy_from_slice(from);
        black_box(&mut memory);
    }
}
