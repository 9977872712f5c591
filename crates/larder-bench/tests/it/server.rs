//! A server with `get` and `set` of the text protocol and the binary one; one thread for each connection.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use larder_bench::Target;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::binary;

#[derive(Default)]
pub(crate) struct Behaviour {
    pub(crate) values: HashMap<String, Vec<u8>>,
    /// From this time on, one request takes this long.
    stall: Option<(Instant, Duration)>,
    takes: Duration,
    rude: bool,
}

pub(crate) struct Server {
    address: SocketAddr,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// A server with TLS.
    pub(crate) fn start_tls(config: ServerConfig) -> Self {
        Self::start_with(Some(Arc::new(config)))
    }

    fn start_with(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let behaviour = Arc::new(Mutex::new(Behaviour::default()));
        let shared = Arc::clone(&behaviour);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (behaviour, tls) = (Arc::clone(&shared), tls.clone());
                std::thread::spawn(move || {
                    stream.set_nodelay(true).ok()?;
                    match tls {
                        None => serve(stream, &behaviour),
                        Some(config) => {
                            let tls = ServerConnection::new(config).unwrap();
                            serve(StreamOwned::new(tls, stream), &behaviour)
                        }
                    }
                });
            }
        });
        Self { address, behaviour }
    }

    pub(crate) fn target(&self) -> Target {
        self.target_by("memcached")
    }

    /// A target with this host's name and the server's port.
    pub(crate) fn target_by(&self, scheme: &str) -> Target {
        format!("{scheme}://localhost:{}", self.address.port()).parse().unwrap()
    }

    pub(crate) fn stored(&self) -> usize {
        self.behaviour.lock().unwrap().values.len()
    }

    /// Changes the last byte of each stored value.
    pub(crate) fn corrupt(&self) {
        for value in self.behaviour.lock().unwrap().values.values_mut() {
            *value.last_mut().unwrap() ^= 1;
        }
    }

    pub(crate) fn stall_once_after(&self, after: Duration, duration: Duration) {
        self.behaviour.lock().unwrap().stall = Some((Instant::now() + after, duration));
    }

    /// Makes each request take this long.
    pub(crate) fn take(&self, duration: Duration) {
        self.behaviour.lock().unwrap().takes = duration;
    }

    pub(crate) fn be_rude(&self) {
        self.behaviour.lock().unwrap().rude = true;
    }
}

/// Serves until the client disconnects.
fn serve(stream: impl Read + Write, behaviour: &Mutex<Behaviour>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        if reader.fill_buf().ok()?.first() == Some(&binary::REQUEST) {
            let answer = binary::answer(&mut reader, behaviour)?;
            reader.get_mut().write_all(&answer).ok()?;
            continue;
        }
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let sleep = {
            let mut behaviour = behaviour.lock().unwrap();
            match behaviour.stall {
                Some((at, duration)) if Instant::now() >= at => {
                    behaviour.stall = None;
                    duration
                }
                _ => behaviour.takes,
            }
        };
        std::thread::sleep(sleep);
        let mut answer = Vec::new();
        match *words.first()? {
            _ if behaviour.lock().unwrap().rude => {
                answer.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
            "set" => {
                let mut value = vec![0; words.get(4)?.parse::<usize>().ok()? + 2];
                reader.read_exact(&mut value).ok()?;
                value.truncate(value.len() - 2);
                behaviour.lock().unwrap().values.insert((*words.get(1)?).to_owned(), value);
                answer.extend_from_slice(b"STORED\r\n");
            }
            _ => {
                let behaviour = behaviour.lock().unwrap();
                for key in words.get(1..)? {
                    if let Some(value) = behaviour.values.get(*key) {
                        write!(answer, "VALUE {key} 0 {}\r\n", value.len()).ok()?;
                        answer.extend_from_slice(value);
                        answer.extend_from_slice(b"\r\n");
                    }
                }
                answer.extend_from_slice(b"END\r\n");
            }
        }
        reader.get_mut().write_all(&answer).ok()?;
    }
}
