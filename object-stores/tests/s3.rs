//! In front of a server that speaks S3: [moto](https://docs.getmoto.org), which keeps all in memory.
//!
//! ```text
//! python3 -m venv /tmp/moto && /tmp/moto/bin/pip install 'moto[server]'
//! LARDER_MOTO=/tmp/moto/bin/moto_server cargo test -- --ignored s3
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use larder_object_store::v0_13::CachedStore;
use larder_object_store::{Options, PathRule};
use object_store_0_13::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store_0_13::path::Path;
use object_store_0_13::{Error, ObjectStoreExt, RetryConfig, integration};

use crate::rig::{self, PART};

const BUCKET: &str = "lake";
const SIZE: u64 = 3 * PART + 500;

/// A server, until it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let program = std::env::var("LARDER_MOTO").unwrap_or_else(|_| "moto_server".to_owned());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto_server starts: LARDER_MOTO names it");
        let server = Self { child, port };
        for _ in 0..600 {
            if server.put("").is_some() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("moto_server does not answer");
    }

    /// Makes the bucket, or changes it.
    fn put(&self, body: &str) -> Option<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let query = if body.is_empty() { "" } else { "?versioning" };
        let head =
            format!("PUT /{BUCKET}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        assert!(answer.contains(" 200 "), "{answer}");
        Some(())
    }

    fn client(&self) -> AmazonS3 {
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_bucket_name(BUCKET)
            .with_region("us-east-1")
            .with_access_key_id("any")
            .with_secret_access_key("any")
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(retry)
            .build()
            .unwrap()
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn cached(server: &Server, options: Options) -> CachedStore<AmazonS3> {
    CachedStore::with_options(server.client(), rig::cache(), BUCKET, options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs moto_server: see the page of this file"]
async fn s3_through_the_cache_is_s3() {
    for (is_versioned, trust) in [(false, 0), (false, 3600), (true, 0), (true, 3600)] {
        let server = Server::start();
        if is_versioned {
            let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
            server.put(on).unwrap();
        }
        let store = cached(&server, rig::trusting(trust));
        // First: moto (5.2) may lose the metadata of an object while it answers another request, as those of fetches
        // that go on behind their readers.
        integration::put_get_attributes(&store).await;
        integration::put_get_delete_list(&store).await;
        integration::get_opts(&store).await;
        integration::list_uses_directories_correctly(&store).await;
        integration::list_with_delimiter(&store).await;
        integration::rename_and_copy(&store).await;
        integration::stream_get(&store).await;
        integration::put_opts(&store, true).await;
        assert_eq!(store.metrics().cache_errors, 0);
        assert!(store.metrics().part_hits > 0, "{:?}", store.metrics());
    }
}

/// Reads paths while others write them, through the cache or past it. What comes back is at least as new as the last
/// write that had ended, unless heads are trusted, and always of one version.
async fn race(options: Options, is_elsewhere: bool) -> CachedStore<AmazonS3> {
    const WRITES: u32 = 15;
    let server = Server::start();
    let (store, other) = (cached(&server, options), Arc::new(server.client()));
    let written: Arc<[AtomicU32; 3]> = Arc::new([(); 3].map(|()| AtomicU32::new(0)));
    let ended = Arc::new(AtomicBool::new(false));
    let path = |at: usize| Path::from(format!("o{at}"));
    for at in 0..3 {
        other.put(&path(at), rig::bytes_of(0, SIZE).into()).await.unwrap();
    }
    let writers = (0..3).map(|at| {
        let (store, other, written) = (store.clone(), Arc::clone(&other), Arc::clone(&written));
        tokio::spawn(async move {
            for version in 1..=WRITES {
                let bytes = rig::bytes_of(version, SIZE).into();
                match is_elsewhere {
                    true => other.put(&path(at), bytes).await.unwrap(),
                    false => store.put(&path(at), bytes).await.unwrap(),
                };
                written[at].store(version, SeqCst);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let readers = (0..4).map(|seed| {
        let (store, written, ended) = (store.clone(), Arc::clone(&written), Arc::clone(&ended));
        tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut reads = 0_u32;
            while !ended.load(SeqCst) {
                tokio::task::yield_now().await;
                let at = random.usize(..3);
                let least = written[at].load(SeqCst);
                let start = random.u64(..SIZE - 1);
                let end = random.u64(start + 1..=SIZE);
                match store.get_range(&path(at), start..end).await {
                    Ok(bytes) => {
                        let mut versions = least..=WRITES;
                        let is_known = versions.any(|it| rig::is_of(&bytes, start, it));
                        assert!(is_known, "no bytes of one version that is at least {least}");
                        reads += 1;
                    }
                    Err(Error::Precondition { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            reads
        })
    });
    let readers: Vec<_> = readers.collect();
    for writer in writers {
        writer.await.unwrap();
    }
    ended.store(true, SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs moto_server: see the page of this file"]
async fn s3_with_writers_through_the_cache() {
    let store = race(rig::trusting(3600), false).await;
    assert!(store.metrics().part_hits > 0, "{:?}", store.metrics());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs moto_server: see the page of this file"]
async fn s3_with_writers_elsewhere() {
    race(rig::options(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs moto_server: see the page of this file"]
async fn s3_that_is_gone_is_an_error_where_it_is_needed_and_only_there() {
    let mut server = Server::start();
    let options = Options { immutable: vec![PathRule::prefix("f")], ..rig::options() };
    let store = cached(&server, options);
    for path in ["f/cached", "f/other", "asked"] {
        store.put(&Path::from(path), rig::bytes_of(1, SIZE).into()).await.unwrap();
    }
    for path in ["f/cached", "asked"] {
        store.get(&Path::from(path)).await.unwrap().bytes().await.unwrap();
    }
    while store.metrics().stored_parts < 8 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop();
    let bytes = store.get(&Path::from("f/cached")).await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes, rig::bytes_of(1, SIZE));
    for path in ["f/other", "asked"] {
        let error = store.get(&Path::from(path)).await.unwrap_err();
        assert!(matches!(error, Error::Generic { .. }), "{error}");
    }
}
