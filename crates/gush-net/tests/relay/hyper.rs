//! The tunnel of the example `connect`: bytes that hyper has read ahead are delivered first, and a
//! TCP connection is relayed inside the kernel.

use crate::common::{numbered, run};
use gush::MethodName;
use gush_net::Totals;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// More than a short message.
const BYTES: usize = 400_000;
const EARLY: &[u8] = b"sent after the request, in one piece with it";

/// Reads a head of HTTP, byte by byte so that no byte after the head is taken.
async fn head(from: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await.expect("a whole head"));
    }
    String::from_utf8(head).expect("ASCII")
}

/// A client asks for a tunnel to a server, through the proxy at the other end of `proxy`, and both
/// talk.
async fn through<C, P>(mut client: C, proxy: P) -> Totals
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    P: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, mut ended) = mpsc::unbounded_channel();
    let report = move |ended| sender.send(ended).expect("somebody listens");
    tokio::spawn(crate::tunnel::serve(proxy, report));

    let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    request.extend_from_slice(EARLY);
    client.write_all(&request).await.expect("room");
    let (mut server, _) = listener.accept().await.expect("the proxy connects");
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));

    let client = async {
        client.write_all(numbered(0, BYTES)).await.expect("room");
        client.shutdown().await.expect("open");
        let mut reply = String::new();
        client.read_to_string(&mut reply).await.expect("no error");
        assert_eq!(reply, "the reply");
    };
    let server = async {
        let mut all = Vec::new();
        server.read_to_end(&mut all).await.expect("no error");
        let (early, rest) = all.split_at(EARLY.len());
        assert_eq!(early, EARLY);
        assert!(rest == numbered(0, BYTES), "{} bytes", rest.len());
        server.write_all(b"the reply").await.expect("open");
        drop(server);
    };
    tokio::join!(client, server);
    let totals = ended.recv().await.expect("a tunnel").expect("no failure");
    assert_eq!(totals.forward.bytes, (EARLY.len() + BYTES) as u64);
    assert_eq!(totals.back.bytes, 9);
    totals
}

#[test]
fn a_tunnel_of_tcp_goes_by_reference_after_what_hyper_had_read() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address"));
        let (client, accepted) = tokio::join!(client, listener.accept());
        let totals = through(client.expect("connected"), accepted.expect("accepted").0).await;
        assert_eq!(totals.forward.method, Some(MethodName::Splice));
    });
}

#[test]
fn a_tunnel_of_anything_else_goes_through_memory_after_what_hyper_had_read() {
    run(async {
        let (client, proxy) = tokio::io::duplex(16 << 10);
        let totals = through(client, proxy).await;
        assert_eq!(totals.forward.method, Some(MethodName::ReadWrite));
    });
}

#[test]
fn what_is_no_tunnel_and_what_leads_nowhere_is_refused() {
    run(async {
        // A port that was just given up.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let nobody = listener.local_addr().expect("an address");
        drop(listener);
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_owned(), "405"),
            (format!("CONNECT {nobody} HTTP/1.1\r\nHost: there\r\n\r\n"), "502"),
        ] {
            let (mut client, proxy) = tokio::io::duplex(1000);
            tokio::spawn(crate::tunnel::serve(proxy, |_| {}));
            client.write_all(request.as_bytes()).await.expect("room");
            let head = head(&mut client).await;
            assert!(head.contains(status), "{head}");
        }
    });
}
