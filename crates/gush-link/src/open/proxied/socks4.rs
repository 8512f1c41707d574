//! SOCKS4, and SOCKS4a, in which the proxy resolves the name (socks4.protocol and socks4a.protocol
//! of NEC).

use std::net::{Ipv4Addr, SocketAddr};

use gush_net::Conduit;
use tokio::io::AsyncWriteExt;

use super::{broken, receive, refused};
use crate::address::{Family, Opt, OptionSet, Through};
use crate::open::OpenError;
use crate::open::resolve::{Lookup, resolve};

const VERSION: u8 = 4;
const CONNECT: u8 = 1;
const GRANTED: u8 = 90;

/// The user without a name, as socat sends it.
const NOBODY: &str = "anonymous";

/// No address, in the request of SOCKS4a: the name follows.
const BY_NAME: Ipv4Addr = Ipv4Addr::new(0, 0, 0, 1);

/// Requests a connection to the destination, and reads the whole answer.
pub(super) async fn request(
    proxy: &mut Conduit,
    through: &Through,
    by_name: bool,
    options: &OptionSet,
) -> Result<(), OpenError> {
    let ip = match by_name {
        true => BY_NAME,
        false => resolved(through).await?,
    };
    let mut request = vec![VERSION, CONNECT];
    request.extend(through.port.to_be_bytes());
    request.extend(ip.octets());
    let ours = ["LOGNAME", "USER"].iter().find_map(|name| std::env::var(name).ok());
    let user = options
        .text(Opt::SocksUser)
        .map(str::to_owned)
        .or(ours)
        .unwrap_or_else(|| NOBODY.to_owned());
    let name = if by_name { Some(through.host.as_str()) } else { None };
    for text in [Some(user.as_str()), name].into_iter().flatten() {
        if text.contains('\0') {
            return Err(OpenError::said("", "a name for SOCKS4 holds no zero byte"));
        }
        request.extend(text.as_bytes());
        request.push(0);
    }
    proxy.write_all(&request).await.map_err(broken)?;
    // The version of the answer, the answer, and a port and an address that mean nothing.
    let [version, answer, ..] = receive::<8>(proxy).await?;
    match (version, answer) {
        // The protocol says 0; socat takes others too.
        (0 | VERSION, GRANTED) => Ok(()),
        (0 | VERSION, 91) => {
            Err(refused("the proxy rejects the request, or it failed").passing(true))
        }
        (0 | VERSION, 92 | 93) => Err(refused("the proxy does not accept this user")
            .hinted("socksuser=NAME names another one")),
        _ => Err(refused("the proxy does not answer as a SOCKS4 proxy does")),
    }
}

async fn resolved(through: &Through) -> Result<Ipv4Addr, OpenError> {
    let name = Lookup {
        family: Some(Family::V4),
        host: Some(through.host.clone()),
        port: through.port.to_string(),
        datagrams: false,
        local: false,
    };
    let found = resolve(name).await?;
    let v4 = found.into_iter().find_map(|address| match address {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    });
    v4.ok_or_else(|| {
        OpenError::said("", "the destination has no IPv4 address")
            .hinted("by socks4a the proxy resolves its name; socks5 knows IPv6")
    })
}
