//! The same server in tasks of tokio, on one thread, and how to host a ring in it.
//!
//! The runtime calls back before it sleeps and after it wakes. Before it sleeps, new reads are submitted; after it
//! wakes, the completions are fetched. A task that waits for the ring's descriptor makes sure that a completion ends
//! the sleep.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use larder_device::{BufferPool, Device, FileDevice, Io, ring};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use crate::measure::{ANSWER, BLOCK, Failure, QUESTION};

pub(crate) fn serve(
    listener: TcpListener,
    device: Arc<FileDevice>,
    hosted: bool,
) -> Result<(), Failure> {
    let ring = if hosted { Some(ring::host()?) } else { None };
    let mut builder = Builder::new_current_thread();
    if hosted {
        builder.on_thread_park(ring::submit).on_thread_unpark(|| {
            ring::reap();
        });
    }
    let runtime = builder.enable_io().build()?;
    listener.set_nonblocking(true)?;
    let served = LocalSet::new().block_on(&runtime, async {
        if let Some(ring) = &ring {
            let fd = ring.as_fd().try_clone_to_owned()?;
            // Deprecated because a wrapped type may close its descriptor too early; an owned descriptor does not.
            #[allow(deprecated)]
            let readable = AsyncFd::with_interest(fd, Interest::READABLE)?;
            tokio::task::spawn_local(async move {
                while let Ok(mut guard) = readable.readable().await {
                    guard.clear_ready();
                    ring::reap();
                }
            });
        }
        accept(tokio::net::TcpListener::from_std(listener)?, device).await
    });
    drop(runtime);
    served
}

async fn accept(listener: tokio::net::TcpListener, device: Arc<FileDevice>) -> Result<(), Failure> {
    let (mut connections, pool) = (JoinSet::new(), Rc::new(BufferPool::new()));
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                connections.spawn_local(answer(stream, Arc::clone(&device), Rc::clone(&pool)));
            }
            Some(ended) = connections.join_next() => {
                ended??;
                if connections.is_empty() {
                    return Ok(());
                }
            }
        }
    }
}

/// Serves one connection until its client disconnects.
async fn answer(
    mut stream: TcpStream,
    device: Arc<FileDevice>,
    pool: Rc<BufferPool>,
) -> Result<(), Failure> {
    loop {
        let mut questions = [0; QUESTION * 64];
        let read = match stream.read(&mut questions).await {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            read => read?,
        };
        let (questions, rest) = questions[..read].as_chunks::<QUESTION>();
        assert!(rest.is_empty(), "half a question");
        let begin = |question: &[u8; QUESTION]| {
            let offset = u64::from_le_bytes(*question) * BLOCK as u64;
            device.submit(Io::Read { offset, buffer: pool.take(BLOCK) })
        };
        let reads: Vec<_> = questions.iter().map(begin).collect();
        for read in reads {
            let block = read.await?;
            match stream.write_all(&block.as_slice()[..ANSWER]).await {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
    }
}
