//! One tenant's clients do not disturb others: small values in DRAM are answered quickly all the time.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use larder_device::{Fault, FaultPlan, FaultRule};
use larder_server::{Server, ServerConfig};

use crate::drive::{Drive, Ends, drive, fill, impatient, serve_on};
use crate::serving::{Client, config};
use crate::users::user;

const MIB: usize = 1 << 20;
/// No answer may take longer, however busy the machine is.
const BOUND: Duration = Duration::from_secs(3);

/// One worker for both tenants.
fn serve(drive: &Drive) -> Server {
    let users = vec![user("loud", "rye", "loud"), user("quiet", "oat", "quiet")];
    let config = ServerConfig { users, workers: 1, value_bytes_max: 16 * MIB, ..config() };
    serve_on(drive, &[("loud", impatient()), ("quiet", impatient())], config)
}

fn client(server: &Server, login: &str) -> Client {
    let mut client = Client::memcached(server);
    client.asks(format!("set auth 0 0 {}\r\n{login}\r\n", login.len()), "STORED\r\n");
    client
}

/// The longest answer for a small value in DRAM, of many in two seconds, while `loud` runs. `loud` has to return when
/// the flag is set.
fn longest_answer_during(server: &Server, loud: impl FnOnce(&AtomicBool) + Send) -> Duration {
    let mut quiet = client(server, "quiet oat");
    quiet.asks("set bread 0 0 3\r\nrye\r\n", "STORED\r\n");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| loud(&is_over));
        let _ends = Ends(&is_over);
        let (begun, mut longest, mut answered) = (Instant::now(), Duration::ZERO, 0);
        while begun.elapsed() < Duration::from_secs(2) {
            let asked = Instant::now();
            quiet.asks("get bread\r\n", "VALUE bread 0 3\r\nrye\r\nEND\r\n");
            longest = longest.max(asked.elapsed());
            answered += 1;
        }
        assert!(answered > 20, "{answered}");
        longest
    })
}

#[test]
fn one_that_never_reads() {
    let drive = drive();
    let server = serve(&drive);
    let mut loud = client(&server, "loud rye");
    let value = vec![b'x'; 500_000];
    loud.asks([b"set long 0 0 500000\r\n", &value[..], b"\r\n"].concat(), "STORED\r\n");
    let longest = longest_answer_during(&server, |is_over| {
        let mut clients: Vec<Client> = (0..20).map(|_| client(&server, "loud rye")).collect();
        clients.iter_mut().for_each(|loud| loud.send("get long\r\n".repeat(200)));
        while !is_over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(longest < BOUND, "{longest:?}");
}

#[test]
fn one_that_streams_long_values() {
    let drive = drive();
    let server = serve(&drive);
    let longest = longest_answer_during(&server, |is_over| {
        let mut loud = client(&server, "loud rye");
        let mut set = format!("set long 0 0 {}\r\n", 10 * MIB).into_bytes();
        set.resize(set.len() + 10 * MIB, b'x');
        set.extend_from_slice(b"\r\nget long\r\n");
        while !is_over.load(Ordering::SeqCst) {
            loud.0.write_all(&set).unwrap();
            assert!(["STORED\r\n", "SERVER_ERROR"].iter().any(|it| loud.line().starts_with(it)));
            if loud.line() != "END\r\n" {
                let mut value = vec![0; 10 * MIB + 7];
                loud.0.read_exact(&mut value).unwrap();
            }
        }
    });
    assert!(longest < BOUND, "{longest:?}");
}

#[test]
fn one_that_sets_at_full_speed_on_a_drive_that_answers_nothing() {
    let drive = drive();
    let server = serve(&drive);
    fill(&mut client(&server, "loud rye"), 0..3000);
    drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall)));
    let longest = longest_answer_during(&server, |is_over| {
        std::thread::scope(|scope| {
            for number in 1..=8 {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || {
                    let mut loud = client(server, "loud rye");
                    for step in 0.. {
                        let first = number * 1_000_000 + step * 100;
                        fill(&mut loud, first..first + 100);
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                });
            }
        });
    });
    assert!(longest < BOUND, "{longest:?}");
    drive.set_plan(&FaultPlan::new(1));
    drive.release_delayed();
}

/// The bytes of an incomplete value count for its tenant, and cannot take the room of another tenant's values.
#[test]
fn one_that_sends_half_of_many_values() {
    let drive = drive();
    let users = vec![user("loud", "rye", "loud"), user("quiet", "oat", "quiet")];
    let (value_bytes_max, client_bytes_max) = (2 * MIB, 16 * MIB);
    let config = ServerConfig { users, value_bytes_max, client_bytes_max, workers: 2, ..config() };
    let server = serve_on(&drive, &[("loud", impatient()), ("quiet", impatient())], config);
    let half = [&b"set long 0 0 1000000\r\n"[..], &vec![b'x'; 500_000]].concat();
    let mut loud: Vec<Client> = (0..60).map(|_| client(&server, "loud rye")).collect();
    for one in &mut loud {
        // The server refuses the rest of an evicted value.
        one.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = one.0.write_all(&half);
    }
    let mut quiet = client(&server, "quiet oat");
    let set = [&b"set bread 0 0 1000000\r\n"[..], &vec![b'y'; 1_000_000], b"\r\n"].concat();
    for _ in 0..20 {
        quiet.asks(&set, "STORED\r\n");
    }
}
