//! The metrics over HTTP, on a separate listener.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gush::Errno;
use gush_net::within;
use gush_text::{Doing, os_text};
use rustix::net::SocketType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::ledger::Ledger;
use crate::open::{Throttle, holder};
use crate::record::Failure;

/// The longest request. A scraper's has a few hundred bytes.
const REQUEST_BYTES: usize = 8 << 10;
/// The time limit of a request and its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most connections at once. A further one ends the oldest that has its answer, or else the
/// oldest: a scraper sends its request at once and has its answer by then.
const SCRAPES: usize = 16;
/// The pause after a failed accept, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// The media type of Prometheus text (prometheus.io/docs/instrumenting/exposition_formats).
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Listens at `place`, `HOST:PORT`, unless another process does so already, by the socket `taken`.
pub(crate) async fn listen(
    place: &str,
    taken: Option<std::net::TcpListener>,
) -> Result<TcpListener, Failure> {
    let failed = |error: io::Error| {
        let port = place.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let hint = match (error.kind(), port) {
            (io::ErrorKind::AddrInUse, Some(port)) => {
                format!(" ({})", holder::of_port(port, SocketType::STREAM))
            }
            _ => Errno::from_io_error(&error)
                .and_then(|errno| gush_text::remedy(Doing::Listening, errno))
                .map(|remedy| format!(" ({remedy})"))
                .unwrap_or_default(),
        };
        let what = format!("metrics at {place}: listen: {}{hint}", os_text(&error));
        Failure::new(what, error.raw_os_error())
    };
    let listener = match taken {
        Some(taken) => TcpListener::from_std(taken),
        None => TcpListener::bind(place).await,
    };
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    info!("metrics at http://{address}/metrics");
    Ok(listener)
}

/// A connection to the metrics.
struct Scrape {
    task: JoinHandle<()>,
    /// The answer is sent; the client has only to close.
    is_answered: Arc<AtomicBool>,
}

/// Answers scrapes until the future is dropped.
pub(crate) async fn answer(listener: TcpListener, ledger: Arc<Ledger>) {
    let mut scrapes: VecDeque<Scrape> = VecDeque::with_capacity(SCRAPES);
    let mut warnings = Throttle::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Finished ones first, so that a live one is aborted only where all are.
                scrapes.retain(|scrape| !scrape.task.is_finished());
                if scrapes.len() == SCRAPES {
                    let is_answered = |scrape: &Scrape| scrape.is_answered.load(Ordering::Relaxed);
                    // Idle connections must not keep Prometheus out.
                    let one = scrapes.iter().position(is_answered).unwrap_or(0);
                    if let Some(scrape) = scrapes.remove(one) {
                        scrape.task.abort();
                    }
                }
                let ledger = Arc::clone(&ledger);
                let is_answered = Arc::new(AtomicBool::new(false));
                let answered = Arc::clone(&is_answered);
                let task = tokio::spawn(async move {
                    let exchange = exchange(stream, &ledger, &answered);
                    if let Ok(Err(error)) = within(TIMEOUT, exchange).await {
                        debug!(%error, "a scrape of the metrics failed");
                    }
                });
                scrapes.push_back(Scrape { task, is_answered });
                // A request that has already arrived is answered before the next connection may end
                // this one.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                if let Some(suppressed) = warnings.passes(Instant::now()) {
                    warn!("the metrics' listener cannot accept: {error}{suppressed}");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

async fn exchange(
    mut stream: TcpStream,
    ledger: &Ledger,
    is_answered: &AtomicBool,
) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    let answer = loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        if let Some(answer) = respond(&request, ledger) {
            break answer;
        }
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    is_answered.store(true, Ordering::Relaxed);
    // A close with unread bytes is a reset, which could lose the answer (RFC 9112, 9.6).
    request.clear();
    while stream.read_buf(&mut request).await? > 0 {
        request.clear();
    }
    Ok(())
}

/// The answer to `request`, once `request` is complete or known to be invalid.
fn respond(request: &[u8], ledger: &Ledger) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    match head.parse(request) {
        Ok(status) if status.is_partial() && request.len() < REQUEST_BYTES => return None,
        Ok(status) if status.is_complete() => {}
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Some(response("431 Request Header Fields Too Large", PLAIN_TEXT, "", true));
        }
        Err(_) => return Some(response("400 Bad Request", PLAIN_TEXT, "no HTTP request\n", true)),
    }
    let with_body = match head.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => {
            let what = "only GET and HEAD are answered here\n";
            return Some(response("405 Method Not Allowed", PLAIN_TEXT, what, true));
        }
    };
    Some(match path_of(head.path.unwrap_or_default()) {
        "/metrics" => match ledger.prometheus() {
            Ok(text) => response("200 OK", PROMETHEUS_TEXT, &text, with_body),
            Err(error) => {
                let what = format!("{error}\n");
                response("500 Internal Server Error", PLAIN_TEXT, &what, with_body)
            }
        },
        "/" => response("200 OK", PLAIN_TEXT, "gush link: see /metrics\n", with_body),
        _ => response("404 Not Found", PLAIN_TEXT, "only /metrics is here\n", with_body),
    })
}

/// The path of a request's target, which may also name the server (RFC 9112, 3.2.2).
fn path_of(target: &str) -> &str {
    let target = target.split('?').next().unwrap_or_default();
    match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    }
}

fn response(status: &str, media_type: &str, body: &str, with_body: bool) -> String {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{allow}\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(request: &str) -> Option<String> {
        respond(request.as_bytes(), &Ledger::new().expect("metrics agree"))
    }

    #[tokio::test]
    async fn clients_that_have_their_answer_make_room_before_one_that_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let ledger = Arc::new(Ledger::new().expect("metrics agree"));
        let answering = tokio::spawn(answer(listener, ledger));
        let connect = || async { TcpStream::connect(address).await.expect("a connection") };
        let mut slow = connect().await;
        slow.write_all(b"GET / HTTP/1.1\r\n").await.expect("half a request");
        // The answered ones are kept open.
        let mut answered = Vec::new();
        for number in 0..2 * SCRAPES {
            let mut client = connect().await;
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("a request");
            let mut text = String::new();
            client.read_to_string(&mut text).await.expect("an answer");
            assert!(text.starts_with("HTTP/1.1 200 "), "{number}: {text}");
            answered.push(client);
        }
        slow.write_all(b"\r\n").await.expect("the rest");
        let mut text = String::new();
        slow.read_to_string(&mut text).await.expect("an answer, though late");
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        answering.abort();
    }

    #[test]
    fn an_unfinished_request_is_waited_for_and_an_endless_one_refused() {
        assert_eq!(answer_to("GET /metrics HT"), None);
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(REQUEST_BYTES));
        assert!(answer_to(&endless).is_some_and(|answer| answer.starts_with("HTTP/1.1 431 ")));
    }

    #[test]
    fn each_request_gets_its_status() {
        let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        let cases = [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200"),
            ("HEAD / HTTP/1.1\r\n\r\n", "200"),
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\x16\x03\x01 hello\r\n\r\n", "400"),
            // As through a proxy (RFC 9112, 3.2.2).
            ("GET http://x:1/metrics HTTP/1.1\r\n\r\n", "200"),
            ("GET HTTP://x?a HTTP/1.1\r\n\r\n", "200"),
            ("GET http:/x/metrics HTTP/1.1\r\n\r\n", "404"),
            (&many_headers, "431"),
        ];
        for (request, status) in cases {
            let answer = answer_to(request).unwrap_or_default();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
    }

    #[test]
    fn a_head_request_gets_the_length_and_no_body() {
        let answer = answer_to("HEAD / HTTP/1.1\r\n\r\n").unwrap_or_default();
        assert!(
            answer.contains("Content-Length: 24\r\n") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
    }
}
