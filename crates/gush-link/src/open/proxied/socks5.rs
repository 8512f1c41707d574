//! SOCKS5: RFC 1928, passwords by RFC 1929.

use std::net::IpAddr;

use gush_net::Conduit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Credentials, broken, receive, refused};
use crate::address::Through;
use crate::open::OpenError;

// Numbers of RFC 1928, section 3.
const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_OF_THESE: u8 = 0xff;

/// Requests a connection to the destination, and reads the whole answer.
pub(super) async fn request(
    proxy: &mut Conduit,
    through: &Through,
    credentials: Option<&Credentials>,
) -> Result<(), OpenError> {
    let methods: &[u8] = match credentials {
        // Both are offered: the proxy may not require a password.
        Some(_) => &[VERSION, 2, NO_PASSWORD, PASSWORD],
        None => &[VERSION, 1, NO_PASSWORD],
    };
    proxy.write_all(methods).await.map_err(broken)?;
    // Up to here socat asks whether it is a proxy.
    let [version, method] = receive(proxy).await.map_err(OpenError::unanswered)?;
    if version != VERSION {
        return Err(refused("the proxy does not answer as a SOCKS5 proxy does").unanswered());
    }
    match (method, credentials) {
        (NO_PASSWORD, _) => {}
        (PASSWORD, Some(credentials)) => log_in(proxy, credentials).await?,
        (NONE_OF_THESE | PASSWORD, None) => {
            return Err(OpenError::said("", "the proxy requires a name and a password")
                .hinted("credentials=FILE names a file with NAME:PASSWORD"));
        }
        _ => {
            return Err(OpenError::said("", "the proxy requires an unknown authentication method"));
        }
    }
    proxy.write_all(&connect(through)?).await.map_err(broken)?;
    // A proxy that refuses may send no more than that.
    let [version, reply] = receive(proxy).await?;
    if version != VERSION {
        return Err(refused("the proxy does not answer as a SOCKS5 proxy does"));
    }
    if reply != 0 {
        return Err(refusal(reply));
    }
    let [_, kind] = receive(proxy).await?;
    // The address and port that the proxy connected from.
    let rest_bytes = 2 + match kind {
        1 => 4,
        4 => 16,
        // A name, with its length before it.
        3 => usize::from(receive::<1>(proxy).await?[0]),
        _ => {
            return Err(refused("the proxy answers with an address of an unknown kind"));
        }
    };
    // To the last byte: the destination's data follows.
    proxy.read_exact(&mut vec![0; rest_bytes]).await.map_err(broken)?;
    Ok(())
}

async fn log_in(proxy: &mut Conduit, credentials: &Credentials) -> Result<(), OpenError> {
    // The version of this exchange (RFC 1929), not that of SOCKS.
    let mut message = vec![1];
    for field in [&credentials.name, &credentials.password] {
        message.extend(u8::try_from(field.len()));
        message.extend(field.as_bytes());
    }
    proxy.write_all(&message).await.map_err(broken)?;
    match receive(proxy).await? {
        [_, 0] => Ok(()),
        [_, _] => Err(refused("the proxy refuses the name or the password")),
    }
}

/// The request to connect to an address or a name.
fn connect(through: &Through) -> Result<Vec<u8>, OpenError> {
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
        // The proxy resolves names.
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

/// Why a request failed (RFC 1928, 6), and whether a retry may succeed.
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
    refused(why).passing(passes)
}
