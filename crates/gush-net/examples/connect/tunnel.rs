//! From a CONNECT request to a relay.
//!
//! hyper reads ahead: bytes that a client sends right after its request lie in hyper's buffer when
//! the connection becomes a tunnel. These bytes are delivered first. Then a TCP connection is
//! relayed inside the kernel, and any other, such as one of TLS, through memory.

use std::convert::Infallible;
use std::error::Error;

use gush_net::{Relay, RelayOptions, Totals};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The end of a tunnel.
pub type Outcome = Result<Totals, Box<dyn Error + Send + Sync>>;

/// Serves one client, and reports the end of the tunnel, if the client asked for a tunnel.
pub async fn serve<C>(
    client: C,
    report: impl Fn(Outcome) + Clone + Send + 'static,
) -> Result<(), hyper::Error>
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| answer(request, report.clone()));
    http1::Builder::new().serve_connection(TokioIo::new(client), service).with_upgrades().await
}

/// Connects to the host that the request names, and relays once the client has the answer.
async fn answer(
    request: Request<Incoming>,
    report: impl FnOnce(Outcome) + Send + 'static,
) -> Result<Response<String>, Infallible> {
    if request.method() != Method::CONNECT {
        return Ok(refusal(StatusCode::METHOD_NOT_ALLOWED, "only CONNECT is served here\n"));
    }
    let Some(authority) = request.uri().authority().cloned() else {
        return Ok(refusal(StatusCode::BAD_REQUEST, "CONNECT names HOST:PORT\n"));
    };
    match TcpStream::connect(authority.as_str()).await {
        Ok(mut server) => {
            tokio::spawn(async move {
                let ended = match hyper::upgrade::on(request).await {
                    Ok(client) => tunnel(client, &mut server).await,
                    Err(error) => Err(error.into()),
                };
                report(ended);
            });
            Ok(Response::new(String::new()))
        }
        Err(error) => Ok(refusal(StatusCode::BAD_GATEWAY, &format!("{authority}: {error}\n"))),
    }
}

fn refusal(status: StatusCode, why: &str) -> Response<String> {
    let mut response = Response::new(why.to_owned());
    *response.status_mut() = status;
    response
}

/// Relays between a connection that hyper has handed over and a server.
async fn tunnel(client: Upgraded, server: &mut TcpStream) -> Outcome {
    let options = RelayOptions::new();
    match client.downcast::<TokioIo<TcpStream>>() {
        Ok(parts) => {
            server.write_all(&parts.read_buf).await?;
            let mut totals = Relay::new(&options).run(&mut parts.io.into_inner(), server).await?;
            totals.forward.bytes += parts.read_buf.len() as u64;
            Ok(totals)
        }
        // What hyper has read ahead comes first by itself.
        Err(client) => Ok(Relay::new(&options).run(&mut TokioIo::new(client), server).await?),
    }
}
