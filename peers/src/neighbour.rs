//! A neighbour who streams through memory: what it leaves of caches and of the way to memory.

use std::hint::black_box;
use std::process::{Child, Command, Stdio};

/// Far more than any cache of a processor.
const BYTES: usize = 256 << 20;

/// Ends when this is dropped.
struct Neighbour(Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It has no state: there is nothing to lose, and nothing to do if it has gone already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Does it, beside a neighbour if there shall be one.
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

/// Copies one half of the memory to the other, for ever.
pub(crate) fn stream() -> Result<(), String> {
    let mut memory = vec![1_u8; BYTES];
    loop {
        let (from, to) = memory.split_at_mut(BYTES / 2);
        to.copy_from_slice(from);
        black_box(&mut memory);
    }
}
