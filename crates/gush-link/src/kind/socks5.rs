//! `socks5:PROXY:PORT:HOST:PORT`: a TCP connection that a SOCKS5 proxy makes (RFC 1928, passwords by RFC 1929).

use std::fmt;
use std::net::IpAddr;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, RETRIED, TCP};
use crate::address::{Opt, Options, Through};
use crate::open::proxied::{self, Credentials, Language, Talk, broken};
use crate::open::{How, OpenError, Opened};

// Numbers of RFC 1928, section 3.
const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_OF_THESE: u8 = 0xff;

pub(crate) struct Socks5;

impl Entry for Socks5 {
    type Argument = Through;

    const ROW: Row = Row {
        name: "socks5",
        grammar: "socks5:PROXY:PORT:HOST:PORT",
        help: "connects by a SOCKS5 proxy, which looks the host up",
        keywords: &[("socks5", Form::Plain), ("socks5-connect", Form::Plain)],
        options: &[&[Opt::Bind, Opt::ConnectTimeout, Opt::Credentials], RETRIED, TCP, BUFFERS],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Through, Fault> {
        argument.through()
    }

    fn show(argument: &Through, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socks5{argument}")
    }

    async fn open(argument: &Through, options: &Options, _: &How) -> Result<Opened, OpenError> {
        proxied::open::<Self>(argument, options).await.map(Opened::One)
    }
}

impl Language for Socks5 {
    async fn ask(
        talk: &Talk<'_>,
        through: &Through,
        credentials: Option<&Credentials>,
    ) -> Result<(), OpenError> {
        let ways: &[u8] = match credentials {
            // Both are offered: the proxy chooses, and may not need a password.
            Some(_) => &[VERSION, 2, NO_PASSWORD, PASSWORD],
            None => &[VERSION, 1, NO_PASSWORD],
        };
        talk.say(ways).await.map_err(broken)?;
        let [version, way] = talk.hear().await.map_err(broken)?;
        if version != VERSION {
            return Err(OpenError::said("", "the proxy does not answer as a SOCKS5 proxy does"));
        }
        match (way, credentials) {
            (NO_PASSWORD, _) => {}
            (PASSWORD, Some(credentials)) => log_in(talk, credentials).await?,
            (NONE_OF_THESE | PASSWORD, None) => {
                return Err(OpenError::said("", "the proxy wants a name and a password")
                    .hinted("credentials=FILE names a file with NAME:PASSWORD"));
            }
            _ => {
                return Err(OpenError::said(
                    "",
                    "the proxy wants a way to log in that is not understood",
                ));
            }
        }
        talk.say(&request(through)?).await.map_err(broken)?;
        // A proxy that refuses may say no more than that.
        let [version, reply] = talk.hear().await.map_err(broken)?;
        if version != VERSION {
            return Err(OpenError::said("", "the proxy does not answer as a SOCKS5 proxy does"));
        }
        if reply != 0 {
            return Err(refusal(reply));
        }
        let [_, kind] = talk.hear().await.map_err(broken)?;
        // Where it connected from, which nobody asks for, and a port.
        let rest_bytes = 2 + match kind {
            1 => 4,
            4 => 16,
            // A name, with its length before it.
            3 => usize::from(talk.hear::<1>().await.map_err(broken)?[0]),
            _ => {
                return Err(OpenError::said(
                    "",
                    "the proxy answers with an address of an unknown kind",
                ));
            }
        };
        // Read to its last byte: what comes behind the answer is the target's data.
        talk.fill(&mut vec![0; rest_bytes]).await.map_err(broken)
    }
}

async fn log_in(talk: &Talk<'_>, credentials: &Credentials) -> Result<(), OpenError> {
    // The version of the login alone, 1 (RFC 1929), and not that of SOCKS.
    let mut message = vec![1];
    for field in [&credentials.name, &credentials.password] {
        message.extend(u8::try_from(field.len()));
        message.extend(field.as_bytes());
    }
    talk.say(&message).await.map_err(broken)?;
    match talk.hear().await.map_err(broken)? {
        [_, 0] => Ok(()),
        [_, _] => Err(OpenError::said("", "the proxy refuses the name or the password")),
    }
}

/// CONNECT to an address or, for a name, to the name.
fn request(through: &Through) -> Result<Vec<u8>, OpenError> {
    let mut request = vec![VERSION, 1, 0];
    match through.host.parse() {
        Ok(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend(ip.octets());
        }
        Ok(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend(ip.octets());
        }
        // The name goes to the proxy, which may know hosts that this machine does not.
        Err(_) => {
            let Ok(length) = u8::try_from(through.host.len()) else {
                return Err(OpenError::said("", "a name has at most 255 bytes"));
            };
            request.extend([3, length]);
            request.extend(through.host.as_bytes());
        }
    }
    request.extend(through.port.to_be_bytes());
    Ok(request)
}

/// The proxy's words for a failed request (RFC 1928, 6), and whether that may pass by itself.
fn refusal(reply: u8) -> OpenError {
    let (why, passes) = match reply {
        1 => ("the proxy failed", true),
        2 => ("the proxy's rules do not allow it", false),
        3 => ("the proxy cannot reach the network", true),
        4 => ("the proxy cannot reach the host", true),
        5 => ("the proxy's connection was refused", true),
        6 => ("the proxy gave up", true),
        7 => ("the proxy does not connect for others", false),
        8 => ("the proxy does not know addresses of this kind", false),
        _ => ("the proxy refuses without a known reason", false),
    };
    OpenError::said("", why).passing(passes)
}
