//! The values of options.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use gush_text::{seconds, size_bytes};
use ipnet::IpNet;
#[cfg(feature = "tls")]
use rustls::pki_types::DnsName;

use super::scan::quoted;
use super::terminal::Setting;

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Takes {
    /// No value, or a yes or no.
    Flag,
    /// A number from 1.
    Count,
    /// A number from the one to the other, also in hexadecimal or octal.
    Number(u32, u32),
    /// A number, or `forever`.
    Retries,
    /// Bytes, such as `64K`.
    Size,
    /// Bytes, after a minus sign those before a place.
    Offset,
    /// One byte by its number, such as `29` or `0x1d`.
    Byte,
    /// A length of time, such as `2`, `0.5` or `200ms`.
    Seconds,
    /// Permission bits in octal.
    Mode,
    /// Networks, joined by `+`.
    Ranges,
    /// A path.
    Path,
    /// A name or number of the network.
    Text,
    /// A user's name or number.
    User,
    /// A group's name or number.
    Group,
    /// A name of a host.
    Name,
    /// A name of a host that a server may have in SNI.
    #[cfg(feature = "tls")]
    ServerName,
    /// Names of protocols, joined by `+`.
    Protocols,
    /// A version of TLS.
    TlsVersion,
    /// An option of a socket, by its numbers.
    SocketOption,
    /// A version of IP.
    IpVersion,
    /// A version of HTTP.
    HttpVersion,
    /// A kind of lock.
    Lock,
}

impl Takes {
    /// The name of the value in help texts; empty for a flag.
    #[must_use]
    pub fn metavariable(self) -> &'static str {
        match self {
            Self::Flag => "",
            Self::Count | Self::Number(..) => "N",
            Self::Retries => "N|forever",
            Self::Size | Self::Offset => "BYTES",
            Self::Byte => "BYTE",
            Self::Seconds => "SECONDS",
            Self::Mode => "OCTAL",
            Self::Ranges => "CIDR+CIDR...",
            Self::Path => "PATH",
            Self::Text => "HOST",
            Self::User => "USER",
            Self::Group => "GROUP",
            Self::Name => "NAME",
            #[cfg(feature = "tls")]
            Self::ServerName => "NAME",
            Self::Protocols => "NAME+NAME...",
            Self::TlsVersion => "1.2|1.3",
            Self::SocketOption => "LEVEL:NAME:VALUE",
            Self::IpVersion => "4|6",
            Self::HttpVersion => "1.0|1.1",
            Self::Lock => "KIND",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Flag(bool),
    Count(u32),
    Retries(u32),
    Size(u64),
    Offset(i64),
    Byte(u8),
    Seconds(Duration),
    Mode(u32),
    Ranges(Vec<IpNet>),
    Path(OsString),
    Text(String),
    Settings(Vec<Setting>),
    SocketOptions(Vec<SocketOption>),
}

/// An option of a socket by its numbers (setsockopt(2)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketOption {
    pub level: i32,
    pub name: i32,
    pub value: Vec<u8>,
}

/// A lock of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lock {
    /// By flock(2), which does not see the locks of fcntl(2).
    pub is_flock: bool,
    /// May others have such a lock as well?
    pub is_shared: bool,
    /// Until no other process has one?
    pub waits: bool,
}

impl Lock {
    pub fn named(name: &str) -> Option<Self> {
        let kind = name.strip_prefix("wait-");
        let (is_flock, is_shared) = match kind.unwrap_or(name) {
            "write" => (false, false),
            "read" => (false, true),
            "flock" => (true, false),
            "flock-shared" => (true, true),
            _ => return None,
        };
        Some(Self { is_flock, is_shared, waits: kind.is_some() })
    }
}

impl SocketOption {
    /// `LEVEL:NAME:NUMBER` or `LEVEL:NAME:xBYTES`.
    fn read(text: &str) -> Option<Self> {
        let small = |text: &str| i32::try_from(strtoul(text)?).ok();
        let (level, rest) = text.split_once(':')?;
        let (name, value) = rest.split_once(':')?;
        let value = match value.strip_prefix('x') {
            Some(digits) => hex(digits)?,
            None => strtoul(value)?.to_ne_bytes().to_vec(),
        };
        Some(Self { level: small(level)?, name: small(name)?, value })
    }
}

impl fmt::Display for SocketOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.level, self.name)?;
        match <[u8; 4]>::try_from(self.value.as_slice()) {
            Ok(number) => write!(f, "{}", u32::from_ne_bytes(number)),
            Err(_) => {
                f.write_str("x")?;
                self.value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// Bytes written with two hexadecimal digits each.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let is_hex =
        digits.len().is_multiple_of(2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    is_hex.then(|| (0..digits.len()).step_by(2).map(byte).collect())?
}

impl Value {
    /// Reads the bytes after the `=`; `None` if the option has no `=`.
    pub(super) fn read(takes: Takes, given: Option<Vec<u8>>) -> Result<Self, Cow<'static, str>> {
        let Some(bytes) = given else {
            return match takes {
                Takes::Flag => Ok(Self::Flag(true)),
                _ => Err("needs a value".into()),
            };
        };
        if takes == Takes::Path {
            let usable = !bytes.is_empty() && !bytes.contains(&0);
            return if usable {
                Ok(Self::Path(OsString::from_vec(bytes)))
            } else {
                Err("takes a path".into())
            };
        }
        let text = str::from_utf8(&bytes).map_err(|_| "takes text")?;
        match takes {
            Takes::Number(least, most) => strtoul(text)
                .filter(|number| (least..=most).contains(number))
                .map(Self::Count)
                .ok_or_else(|| format!("takes a number from {least} to {most}, such as 16 or 0x10"))
                .map_err(Cow::Owned),
            _ => Self::read_text(takes, text).map_err(Cow::Borrowed),
        }
    }

    fn read_text(takes: Takes, text: &str) -> Result<Self, &'static str> {
        match takes {
            Takes::Flag => flag(text)
                .map(Self::Flag)
                .ok_or("is switched by 1, 0, yes, no, on, off, true or false"),
            Takes::Count => number(text)
                .filter(|&count| count > 0)
                .map(Self::Count)
                .ok_or("takes a number from 1 to 4294967295"),
            Takes::Retries => {
                retries(text).map(Self::Retries).ok_or("takes a number, or 'forever'")
            }
            Takes::Size => {
                offset_bytes(text).map(Self::Size).ok_or("takes bytes, such as 4096, 64K or 1.5M")
            }
            Takes::Offset => {
                signed_bytes(text).map(Self::Offset).ok_or("takes bytes, such as 0, 4096 or -64K")
            }
            Takes::Byte => strtoul(text)
                .and_then(|number| u8::try_from(number).ok())
                .map(Self::Byte)
                .ok_or("takes the number of a byte, such as 29 or 0x1d, up to 255"),
            Takes::Seconds => seconds(text)
                .map(Self::Seconds)
                .ok_or("takes a time, such as 2, 0.5, 200ms, 5m or 1h"),
            Takes::Mode => mode(text)
                .map(Self::Mode)
                .ok_or("takes permissions in octal, such as 660, up to 7777"),
            Takes::Ranges => ranges(text)
                .map(Self::Ranges)
                .ok_or("takes networks, such as 10.0.0.0/8, 127.0.0.1 or [::1]/128, joined by +"),
            Takes::Text | Takes::Name if text.is_empty() => Err("takes a host"),
            #[cfg(feature = "tls")]
            Takes::ServerName if DnsName::try_from_str(text).is_err() => {
                Err("takes a name of a host, which an address is not")
            }
            Takes::User | Takes::Group if text.is_empty() => Err("takes a name or a number"),
            Takes::Protocols if !text.split('+').all(|name| (1..=255).contains(&name.len())) => {
                Err("takes names of protocols, such as h2+http/1.1")
            }
            Takes::TlsVersion => tls_version(text)
                .map(|version| Self::Text(version.to_owned()))
                .ok_or("takes 1.2 or 1.3: no older version is safe"),
            Takes::HttpVersion if !matches!(text, "1.0" | "1.1") => Err("takes 1.0 or 1.1"),
            Takes::Lock if Lock::named(text).is_none() => {
                Err("takes write, read, flock or flock-shared, each also after wait-")
            }
            Takes::IpVersion if !matches!(text, "4" | "6") => Err("takes 4 or 6"),
            Takes::SocketOption => SocketOption::read(text)
                .map(|option| Self::SocketOptions(vec![option]))
                .ok_or("takes LEVEL:NAME:VALUE, such as 6:3:1 or 1:13:x0100000005000000"),
            Takes::Text
            | Takes::IpVersion
            | Takes::HttpVersion
            | Takes::Lock
            | Takes::User
            | Takes::Group
            | Takes::Name
            | Takes::Protocols
            | Takes::Number(..)
            | Takes::Path => Ok(Self::Text(text.to_owned())),
            #[cfg(feature = "tls")]
            Takes::ServerName => Ok(Self::Text(text.to_owned())),
        }
    }
}

impl Value {
    /// Appends `more` to a list; `false` if the value is no list.
    pub(super) fn append(&mut self, more: Self) -> bool {
        match (self, more) {
            (Self::Ranges(all), Self::Ranges(more)) => all.extend(more),
            (Self::Settings(all), Self::Settings(more)) => all.extend(more),
            (Self::SocketOptions(all), Self::SocketOptions(more)) => all.extend(more),
            _ => return false,
        }
        true
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(on) => write!(f, "{}", u8::from(*on)),
            Self::Count(count) => write!(f, "{count}"),
            Self::Retries(u32::MAX) => f.write_str("forever"),
            Self::Retries(retries) => write!(f, "{retries}"),
            Self::Size(bytes) => write!(f, "{bytes}"),
            Self::Offset(bytes) => write!(f, "{bytes}"),
            Self::Byte(byte) => write!(f, "{byte:#04x}"),
            Self::Seconds(duration) => match duration.subsec_nanos() {
                0 => write!(f, "{}", duration.as_secs()),
                ns => {
                    write!(f, "{}.{}", duration.as_secs(), format!("{ns:09}").trim_end_matches('0'))
                }
            },
            Self::Mode(mode) => write!(f, "{mode:o}"),
            Self::Ranges(ranges) => {
                let texts: Vec<_> = ranges.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("+"))
            }
            Self::Path(path) => f.write_str(&quoted(path.as_bytes())),
            Self::Text(text) => f.write_str(&quoted(text.as_bytes())),
            Self::SocketOptions(options) => options.iter().try_for_each(|option| option.fmt(f)),
            Self::Settings(settings) => {
                let texts: Vec<_> = settings.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "on" | "true" => Some(true),
        "0" | "no" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// Digits only: `parse` alone would take a plus sign.
pub(super) fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// As we write it, or as socat does.
fn tls_version(text: &str) -> Option<&'static str> {
    match text.to_ascii_uppercase().trim_start_matches("TLS").trim_start_matches('V') {
        "1.2" => Some("1.2"),
        "1.3" => Some("1.3"),
        _ => None,
    }
}

fn retries(text: &str) -> Option<u32> {
    match text.to_ascii_lowercase().as_str() {
        "forever" => Some(u32::MAX),
        digits => number(digits),
    }
}

/// In decimal, hexadecimal or octal, as strtoul(3) reads numbers in source code.
fn strtoul(text: &str) -> Option<u32> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(digits, base).ok())?
}

/// Larger numbers cannot be offsets of a file.
fn offset_bytes(text: &str) -> Option<u64> {
    size_bytes(text).ok().filter(|&bytes| i64::try_from(bytes).is_ok())
}

fn signed_bytes(text: &str) -> Option<i64> {
    let (is_before, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let bytes = i64::try_from(size_bytes(text).ok()?).ok()?;
    Some(if is_before { -bytes } else { bytes })
}

fn mode(text: &str) -> Option<u32> {
    let is_octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    is_octal.then(|| u32::from_str_radix(text, 8).ok())?.filter(|&mode| mode <= 0o7777)
}

/// Networks joined by `+`: `10.0.0.0/8`, `::1`, `[fe80::]/10` or `[fe80::/10]`.
pub(super) fn ranges(text: &str) -> Option<Vec<IpNet>> {
    text.split('+').map(network).collect()
}

fn network(text: &str) -> Option<IpNet> {
    let plain = match text.strip_prefix('[') {
        Some(rest) => rest.replacen(']', "", 1),
        None => text.to_owned(),
    };
    let net =
        plain.parse::<IpNet>().ok().or_else(|| plain.parse::<IpAddr>().map(IpNet::from).ok())?;
    Some(net.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_in_source_code() {
        let byte = |text: &str| match Value::read(Takes::Byte, Some(text.into())) {
            Ok(Value::Byte(byte)) => Some(byte),
            _ => None,
        };
        for text in ["29", "0x1d", "0X1D", "035"] {
            assert_eq!(byte(text), Some(0x1d), "{text}");
        }
        assert_eq!(["0", "255", "0x0"].map(byte), [Some(0), Some(255), Some(0)]);
        for text in ["", "256", "0x", "0x100", "08", "+1", "0x+1", "^]"] {
            assert_eq!(byte(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_beyond_its_range_is_refused_with_the_range() {
        let read = |text: &str| Value::read(Takes::Number(1, 255), Some(text.into()));
        for (text, number) in [("1", 1), ("255", 255), ("0xff", 255), ("010", 8)] {
            assert_eq!(read(text), Ok(Value::Count(number)), "{text}");
        }
        for text in ["", "0", "256", "0x100", "4294967297", "-1"] {
            let why = read(text).expect_err(text);
            assert!(why.starts_with("takes a number from 1 to 255"), "{text}: {why}");
        }
    }

    #[test]
    fn networks_may_stand_in_brackets_and_lose_their_host_bits() {
        let texts = ["10.1.2.3/8", "127.0.0.1", "[::1]", "[fe80::1]/10", "[fe80::1/10]"];
        let nets: Vec<_> = texts.iter().map(|text| network(text).unwrap().to_string()).collect();
        assert_eq!(nets, ["10.0.0.0/8", "127.0.0.1/32", "::1/128", "fe80::/10", "fe80::/10"]);
        assert_eq!(ranges("10.0.0.0/33"), None);
        assert_eq!(ranges("10.0.0.0/8+"), None);
    }
}
