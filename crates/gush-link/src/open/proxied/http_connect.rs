//! HTTP CONNECT: RFC 9110, 9.3.6.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gush_net::Conduit;
use tokio::io::AsyncWriteExt;

use super::{Credentials, broken, receive, refused};
use crate::address::Through;
use crate::open::OpenError;

/// The head of an answer to CONNECT is short: a peer that sends more is no proxy.
const HEAD_BYTES: usize = 16 << 10;

/// Requests a connection to the destination, and reads the whole answer.
pub(super) async fn request(
    proxy: &mut Conduit,
    through: &Through,
    credentials: Option<&Credentials>,
    version: &str,
) -> Result<(), OpenError> {
    let destination = through.destination();
    // HTTP/1.1 requires Host even though the request line names the destination (RFC 9112, 3.2).
    let mut request = format!("CONNECT {destination} HTTP/{version}\r\n");
    if version != "1.0" {
        request += &format!("Host: {destination}\r\n");
    }
    if let Some(Credentials { name, password }) = credentials {
        let code = BASE64_STANDARD.encode(format!("{name}:{password}"));
        request += &format!("Proxy-Authorization: Basic {code}\r\n");
    }
    proxy.write_all((request + "\r\n").as_bytes()).await.map_err(broken)?;
    // 1xx answers precede the final one (RFC 9110, 15.2), except for 101, which switches protocols.
    loop {
        let (code, reason) = answer(&head(proxy).await?)?;
        let refusal = || refused(format!("the proxy answers {code} {reason}"));
        return match code {
            100 | 102..200 => continue,
            200..300 => Ok(()),
            407 if credentials.is_none() => {
                Err(refusal().hinted("credentials=FILE names a file with NAME:PASSWORD"))
            }
            // A gateway may reach the destination later; other refusals are final.
            502..=504 => Err(refusal().passing(true)),
            _ => Err(refusal()),
        };
    }
}

/// Reads the head of an answer, up to an empty line; byte by byte, because the destination's data
/// follows.
async fn head(proxy: &mut Conduit) -> Result<Vec<u8>, OpenError> {
    let mut head = Vec::new();
    // A recipient may accept a bare LF as the end of a line (RFC 9112, 2.2).
    while !head.ends_with(b"\n\r\n") && !head.ends_with(b"\n\n") {
        // Bounded, because anything may listen at the proxy's port.
        if head.len() == HEAD_BYTES {
            return Err(refused("its answer does not end"));
        }
        head.extend(receive::<1>(proxy).await?);
    }
    Ok(head)
}

/// The status code and the reason phrase, separated by any whitespace (RFC 9112, 4). Headers are
/// ignored: none of an answer to CONNECT describes the bytes that follow (RFC 9110, 9.3.6).
fn answer(head: &[u8]) -> Result<(u16, String), OpenError> {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let (version, rest) = line.trim().split_once([' ', '\t']).unwrap_or_default();
    let rest = rest.trim_start();
    let (code, reason) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    let is_status = matches!(version, "HTTP/1.0" | "HTTP/1.1")
        && code.len() == 3
        && code.bytes().all(|byte| byte.is_ascii_digit());
    match code.parse() {
        // Escaped: the text may reach a terminal.
        Ok(code) if is_status => Ok((code, reason.trim().escape_debug().to_string())),
        _ => Err(refused("the proxy does not answer as an HTTP proxy does")),
    }
}
