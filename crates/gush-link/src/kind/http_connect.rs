//! `http-connect:PROXY:PORT:HOST:PORT`: a TCP connection that an HTTP proxy makes (CONNECT: RFC 9110, 9.3.6).

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, RETRIED, TCP};
use crate::address::{Opt, Options, Through};
use crate::open::proxied::{self, Credentials, Language, Talk, broken};
use crate::open::{How, OpenError, Opened};

/// The head of an answer to CONNECT is short; who sends more is no proxy.
const HEAD_BYTES: usize = 16 << 10;

pub(crate) struct HttpConnect;

impl Entry for HttpConnect {
    type Argument = Through;

    const ROW: Row = Row {
        name: "http-connect",
        grammar: "http-connect:PROXY:PORT:HOST:PORT",
        help: "connects by an HTTP proxy (CONNECT), which looks the host up",
        keywords: &[("http-connect", Form::Plain)],
        options: &[&[Opt::Bind, Opt::ConnectTimeout, Opt::Credentials], RETRIED, TCP, BUFFERS],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Through, Fault> {
        argument.through()
    }

    fn show(argument: &Through, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http-connect{argument}")
    }

    async fn open(argument: &Through, options: &Options, _: &How) -> Result<Opened, OpenError> {
        proxied::open::<Self>(argument, options).await.map(Opened::One)
    }
}

impl Language for HttpConnect {
    async fn ask(
        talk: &Talk<'_>,
        through: &Through,
        credentials: Option<&Credentials>,
    ) -> Result<(), OpenError> {
        let target = through.target();
        // HTTP/1.1 wants a Host, also where the request names the target already (RFC 9112, 3.2).
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(Credentials { name, password }) = credentials {
            let code = BASE64_STANDARD.encode(format!("{name}:{password}"));
            request += &format!("Proxy-Authorization: Basic {code}\r\n");
        }
        talk.say((request + "\r\n").as_bytes()).await.map_err(broken)?;
        // Answers of 1xx come before the final one (RFC 9110, 15.2), except for 101: HTTP ends there, with a protocol that
        // nobody asked for.
        loop {
            let (code, reason) = answer(&head(talk).await?)?;
            let refused = || OpenError::said("", format!("the proxy answers {code} {reason}"));
            return match code {
                100 | 102..200 => continue,
                200..300 => Ok(()),
                407 if credentials.is_none() => {
                    Err(refused().hinted("credentials=FILE names a file with NAME:PASSWORD"))
                }
                // A gateway that does not reach the target now may reach it later; other refusals stay.
                502..=504 => Err(refused().passing(true)),
                _ => Err(refused()),
            };
        }
    }
}

/// Takes the head of an answer, up to an empty line, whose end may be LF alone (RFC 9112, 2.2). The bytes behind are the
/// target's, and so the head is taken byte by byte.
async fn head(talk: &Talk<'_>) -> Result<Vec<u8>, OpenError> {
    let mut head = Vec::new();
    // Some servers end lines by LF alone, and a recipient may take that (RFC 9112, 2.2).
    while !head.ends_with(b"\n\r\n") && !head.ends_with(b"\n\n") {
        // A stranger at the proxy's port must not fill our memory.
        if head.len() == HEAD_BYTES {
            return Err(OpenError::said("", "its answer does not end"));
        }
        // Byte by byte, since behind the head the target's data begins.
        head.extend(talk.hear::<1>().await.map_err(broken)?);
    }
    Ok(head)
}

/// The status code of an answer, and the reason in words; any blanks may stand between (RFC 9112,
/// 4). No header of an answer to CONNECT says anything about the bytes behind (RFC 9110, 9.3.6), so
/// that a header may be wrong.
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
        // A stranger's text must not steer the terminal that shows it.
        Ok(code) if is_status => Ok((code, reason.trim().escape_debug().to_string())),
        _ => Err(OpenError::said("", "the proxy does not answer as an HTTP proxy does")),
    }
}
