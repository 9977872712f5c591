//! A thread that sleeps over sockets, and watches its ring, wakes for each completion.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_net::sockets::SocketRing;

use super::host;
use super::member::Member;
use super::pipe;
use super::wire::FileWire;
use crate::file_options::FileOptions;

/// Completions come while the thread works, and while it sleeps, and each must end a sleep. On Linux 6.18.15 with one
/// processor this fails within some rounds if a single multishot request is to report all of them.
#[test]
fn whatever_a_hosted_ring_completes_ends_the_sleep() {
    let Ok(sockets) = SocketRing::new() else {
        return println!("skipped: the kernel refuses io_uring");
    };
    let Ok(drives) = host() else { return };
    sockets.watch(drives.as_fd()).unwrap();
    let (file, mut writer) = pipe::pipe();
    let member = Member::new(Arc::new(FileWire::default()), &file, &FileOptions::default());
    let (ask, asked) = std::sync::mpsc::channel::<u32>();
    let other = std::thread::spawn(move || {
        for spins in asked {
            (0..spins).for_each(|_| std::hint::spin_loop());
            writer.write_all(&[7; pipe::BLOCK]).unwrap();
        }
    });
    for round in 0..5000_u32 {
        let (read, pieces) = pipe::request(pipe::read_of(1));
        ask.send(round * 7919 % 3000).unwrap();
        assert!(member.submit(pieces).is_ok());
        drives.submit();
        let begun = Instant::now();
        while drives.reap() == 0 {
            sockets.turn(Some(Duration::from_secs(20))).unwrap();
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "round {round}: the read's end was not reported"
            );
        }
        assert!(read.wait().is_ok());
    }
    drop(ask);
    other.join().unwrap();
}
