//! `SOCKET-CONNECT:2:6:x0050c0000201` and the like: sockets by the numbers of C, as the kinds of
//! addresses that these mean.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::options::SocatOptions;

const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;

/// Is this the name of a kind with numbers?
pub fn is_numbered(word: &str) -> bool {
    word.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("socket-"))
}

/// The kind with a name and its argument, in socat's words. Also translates `bind` and `range`.
pub fn named(
    word: &str,
    argument: &str,
    options: &mut SocatOptions,
) -> Result<(String, String), &'static str> {
    const OTHERS: &str = "of sockets by numbers gush link has those of TCP, UDP, UDP-Lite and Unix";
    const MALFORMED: &str = "socat takes DOMAIN:PROTOCOL:ADDRESS, or DOMAIN:TYPE:PROTOCOL:ADDRESS";
    let role = word[7..].to_ascii_lowercase();
    let is_typed = !matches!(role.as_str(), "connect" | "listen");
    let numbers = if is_typed { 3 } else { 2 };
    let pieces: Vec<_> = argument.splitn(numbers + 1, ':').collect();
    let [numbers @ .., address] = pieces.as_slice() else { return Err(MALFORMED) };
    let numbers: Option<Vec<u16>> = numbers.iter().map(|text| text.parse().ok()).collect();
    let packets = options.has("seqpacket").then(|| "5".to_owned());
    let kind = options.take("socktype so-type type").or(packets);
    let (domain, kind, protocol) = match numbers.as_deref() {
        Some(&[domain, kind, protocol]) if is_typed => (domain, kind, protocol),
        Some(&[domain, protocol]) if !is_typed => {
            (domain, kind.map_or(Some(1), |kind| kind.parse().ok()).ok_or(OTHERS)?, protocol)
        }
        _ => return Err(MALFORMED),
    };
    let family = match (domain, kind, protocol) {
        (INET, 1, 0 | 6) => "tcp4",
        (INET6, 1, 0 | 6) => "tcp6",
        (INET, 2, 0 | 17) => "udp4",
        (INET6, 2, 0 | 17) => "udp6",
        (INET, 2, 136) => "udplite4",
        (INET6, 2, 136) => "udplite6",
        (UNIX, 2, 0 | 1) if role == "datagram" => {
            return Err("unix-sendto: of gush link reads the answers of its receiver alone");
        }
        (UNIX, 1 | 2 | 5, 0 | 1) => "unix",
        _ => return Err(OTHERS),
    };
    if domain == UNIX && kind == 5 {
        options.push("seqpacket");
    }
    let place = |text: &str| place(domain, &bytes(text)?);
    options.change("bind", |text| place(&text).unwrap_or(text));
    if domain == INET {
        options.change("range", |range| network(&range).unwrap_or(range));
    }
    let address = place(address).ok_or(MALFORMED)?;
    Ok((format!("{family}-{role}"), address))
}

/// The socket address of `bytes`, which begin after its domain.
fn place(domain: u16, bytes: &[u8]) -> Option<String> {
    let port = u16::from_be_bytes(*bytes.first_chunk()?);
    match domain {
        INET => {
            let ip: [u8; 4] = *bytes.get(2..)?.first_chunk()?;
            Some(SocketAddr::from((Ipv4Addr::from(ip), port)).to_string())
        }
        INET6 => {
            let ip: [u8; 16] = *bytes.get(6..)?.first_chunk()?;
            Some(SocketAddr::from((Ipv6Addr::from(ip), port)).to_string())
        }
        _ => {
            let name = bytes.split(|&byte| byte == 0).next()?;
            let name = str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
            Some(name.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,"))
        }
    }
}

/// `x0000x7f000000:x0000xff000000` as `127.0.0.0:255.0.0.0`.
fn network(range: &str) -> Option<String> {
    let (network, mask) = range.split_once(':')?;
    let ip = |text| Some(Ipv4Addr::from(*bytes(text)?.get(2..)?.first_chunk::<4>()?));
    Some(format!("{}:{}", ip(network)?, ip(mask)?))
}

/// The bytes of socat's form of data: `x` before hexadecimal digits, quotes around text.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(kind) = rest.chars().next() {
        rest = &rest[kind.len_utf8()..];
        match kind {
            ' ' => {}
            'x' => {
                let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
                let (digits, after) = rest.split_at(length);
                let pairs = (0..length).step_by(2).map(|at| digits.get(at..at + 2));
                for pair in pairs {
                    bytes.push(u8::from_str_radix(pair?, 16).ok()?);
                }
                rest = after;
            }
            '"' | '\'' => {
                let (quoted, after) = rest.split_once(kind)?;
                bytes.extend(quoted.replace("\\0", "\0").bytes());
                rest = after;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_the_kind_of_address() {
        for (word, argument, options, means) in [
            (
                "SOCKET-CONNECT",
                "2:6:x0050c0000201",
                &["bind=x0051x00000000"][..],
                "tcp4-connect:192.0.2.1:80,bind=0.0.0.0:81",
            ),
            (
                "socket-listen",
                "10:6:x0050x00000000x00000000000000000000000000000001",
                &[],
                "tcp6-listen:[::1]:80",
            ),
            ("SOCKET-SENDTO", "2:2:17:x0035x7f000001", &[], "udp4-sendto:127.0.0.1:53"),
            (
                "SOCKET-RECV",
                "2:2:136:x0035x00000000",
                &["range=x0000x7f000000:x0000xff000000"],
                "udplite4-recv:0.0.0.0:53,range=127.0.0.0/8",
            ),
            ("SOCKET-CONNECT", r#"1:0:"/run/s\0""#, &["type=5"], "unix-connect:/run/s,seqpacket"),
        ] {
            let mut read = SocatOptions::read(options);
            let (kind, argument) = named(word, argument, &mut read).expect(means);
            assert_eq!(format!("{kind}:{argument}{read}"), means);
        }
        for argument in ["2:3:1:x00", "2:2", "2:2:17:", "x:2:17:x0035x7f000001", "2:2:17:x003"] {
            assert!(named("SOCKET-SENDTO", argument, &mut SocatOptions::read(&[])).is_err());
        }
    }
}
