//! A proxy for HTTP CONNECT on hyper: `connect LISTEN`, say `connect 127.0.0.1:3128`, then
//! `curl --proxy http://127.0.0.1:3128 https://example.org`.

mod tunnel;

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen] = &arguments[..] else { return Err("usage: connect LISTEN".into()) };
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, peer) = listener.accept().await?;
        tokio::spawn(async move {
            let report = move |outcome: tunnel::Outcome| match outcome {
                Ok(totals) => println!("{peer}: {totals:?}"),
                Err(error) => eprintln!("{peer}: {error}"),
            };
            if let Err(error) = tunnel::serve(client, report).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
