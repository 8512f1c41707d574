//! Forwards a TCP port: `forward LISTEN CONNECT`, say `forward 127.0.0.1:8080 10.0.0.2:80`. A proxy
//! that calls `tokio::io::copy_bidirectional` becomes this one by another `use`.
//!
//! One thread with one runtime serves every client, which for relays is faster than tasks that
//! wander between threads.

use std::error::Error;
use std::io;

use gush_net::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, connect] = &arguments[..] else {
        return Err("usage: forward LISTEN CONNECT".into());
    };
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, peer) = listener.accept().await?;
        let connect = connect.clone();
        tokio::spawn(async move {
            match serve(client, &connect).await {
                Ok((there, back)) => println!("{peer}: {there} bytes there, {back} bytes back"),
                Err(error) => eprintln!("{peer}: {error}"),
            }
        });
    }
}

async fn serve(mut client: TcpStream, connect: &str) -> io::Result<(u64, u64)> {
    let mut server = TcpStream::connect(connect).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await
}
