//! Finds the process that serves an address, and reads the CPU time of its threads.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use larder_workload::machine;

use crate::target::Address;

/// A server process on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerProcess(u32);

impl ServerProcess {
    /// The process that listens at `address`. `None` if it runs on another machine, or may not be inspected.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        let inode = match address {
            Address::Tcp(at) => ["/proc/net/tcp", "/proc/net/tcp6"]
                .iter()
                .find_map(|table| inode_of_port(&fs::read_to_string(table).ok()?, at.port()))?,
            Address::Unix(path) => {
                inode_of_path(&fs::read_to_string("/proc/net/unix").ok()?, path.to_str()?)?
            }
        };
        let wanted = PathBuf::from(format!("socket:[{inode}]"));
        let numbers = fs::read_dir("/proc").ok()?.flatten();
        let mut processes =
            numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let has_it = |process: &u32| {
            let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
            open.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == wanted))
        };
        processes.find(has_it).map(Self)
    }

    /// The CPU time of its threads so far, without threads that have ended.
    pub(crate) fn cpu(self) -> Option<Duration> {
        machine::threads_cpu(format!("/proc/{}", self.0)).ok()
    }
}

/// Finds a listening port in a table of TCP sockets: address and port of both ends in hexadecimal, state, then six
/// fields to the inode.
fn inode_of_port(table: &str, port: u16) -> Option<u64> {
    const LISTENS: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTENS;
        is_it.then(|| fields.get(9)?.parse().ok())?
    })
}

fn inode_of_path(table: &str, path: &str) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (*fields.get(7)? == path).then(|| fields.get(6)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        assert_eq!(ServerProcess::of(&address), Some(ServerProcess(std::process::id())));
        // We do not check that it grows: threads of other tests end, and their time is gone with them.
        assert!(ServerProcess(std::process::id()).cpu().unwrap() > Duration::ZERO);
        drop(listener);
        assert_eq!(ServerProcess::of(&address), None);
    }
}
