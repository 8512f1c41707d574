//! Forwards a TCP port: `forward LISTEN CONNECT [METHOD]`, say `forward 127.0.0.1:8080 10.0.0.2:80`.
//!
//! One thread with one runtime serves every client, which for relays is faster than tasks that wander
//! between threads.

use std::error::Error;

use gush_net::{Options, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, connect, method @ ..] = &arguments[..] else {
        return Err("usage: forward LISTEN CONNECT [METHOD]".into());
    };
    let choice: gush::Choice =
        method.first().map_or(Ok(gush::Choice::Auto), |name| name.parse())?;
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, peer) = listener.accept().await?;
        let connect = connect.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(client, &connect, choice).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

async fn serve(
    mut client: TcpStream,
    connect: &str,
    choice: gush::Choice,
) -> Result<(), Box<dyn Error>> {
    let mut server = TcpStream::connect(connect).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server, &Options::new().method(choice)).await?;
    Ok(())
}
