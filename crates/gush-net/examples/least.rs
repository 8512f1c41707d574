//! The least relay on tokio: `least LISTEN CONNECT`, two ports of 127.0.0.1. A floor for `gush
//! link` in `bench/relay.toml`.
//!
//! Two threads serve, each with a runtime of its own, as in `gush link`. A direction reads into 4
//! KiB on its stack and writes, and an end is passed on by shutdown(2). Failures end their
//! connection in silence; there are no limits, no accounts, no splices and no signals.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;

/// The number of clients of a thread.
type Load = Arc<AtomicUsize>;

fn main() -> Result<(), Box<dyn Error>> {
    let ports: Vec<u16> =
        std::env::args().skip(1).map(|port| port.parse()).collect::<Result<_, _>>()?;
    let &[listen, connect] = ports.as_slice() else {
        return Err("usage: least LISTEN CONNECT".into());
    };
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (here, there) = (Load::default(), Load::default());
    let (clients, mut coming) = unbounded_channel();
    let other = runtime()?;
    std::thread::spawn(move || {
        other.block_on(async {
            while let Some((client, load)) = coming.recv().await {
                tokio::spawn(serve(client, at(connect), load));
            }
        });
    });
    runtime()?.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(at(listen))?;
        // Accepted by the standard library: a stream of tokio would belong to this thread's
        // runtime. The newer `register` is unsafe; a listener answers one and the same descriptor
        // always.
        #[allow(deprecated)]
        let listener = AsyncFd::new(socket.listen(4096)?.into_std()?)?;
        loop {
            let mut ready = listener.readable().await?;
            let Ok(accepted) = ready.try_io(|listener| listener.get_ref().accept()) else {
                continue;
            };
            let (client, _) = accepted?;
            let load = if here.load(Ordering::Relaxed) <= there.load(Ordering::Relaxed) {
                &here
            } else {
                &there
            };
            load.fetch_add(1, Ordering::Relaxed);
            match Arc::ptr_eq(load, &here) {
                true => drop(tokio::spawn(serve(client, at(connect), Arc::clone(load)))),
                false => clients.send((client, Arc::clone(load)))?,
            }
        }
    })
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(client: std::net::TcpStream, to: SocketAddr, load: Load) {
    let _ = relayed(client, to).await;
    load.fetch_sub(1, Ordering::Relaxed);
}

async fn relayed(client: std::net::TcpStream, to: SocketAddr) -> std::io::Result<()> {
    client.set_nonblocking(true)?;
    let mut client = TcpStream::from_std(client)?;
    client.set_nodelay(true)?;
    let mut server = TcpStream::connect(to).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(passed(from_client, to_server), passed(from_server, to_client))?;
    Ok(())
}

/// Passes bytes on up to the end, and the end.
async fn passed(
    mut source: impl AsyncRead + Unpin,
    mut target: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match source.read(&mut buffer).await? {
            0 => return target.shutdown().await,
            got => target.write_all(&buffer[..got]).await?,
        }
    }
}
