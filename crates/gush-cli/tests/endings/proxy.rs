//! The proxy's side of a connection by SOCKS5 (RFC 1928) or HTTP's CONNECT (RFC 9110, 9.3.6).

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The answers of a proxy, in the order of the requests.
pub struct Proxy {
    /// Takes a request to the byte.
    pub hears: fn(&mut TcpStream) -> io::Result<()>,
    pub grants: &'static [u8],
    pub refuses: &'static [u8],
}

/// The target is a name, which only the proxy need know.
pub const TARGET: &str = "example.org:80";

pub const SOCKS: Proxy = Proxy {
    hears: |client| {
        let mut greeting = [0; 3];
        client.read_exact(&mut greeting)?;
        assert_eq!(greeting, [5, 1, 0], "one way to log in: none");
        client.write_all(&[5, 0])?;
        let mut request = vec![0; 5 + 11 + 2];
        client.read_exact(&mut request)?;
        assert_eq!(request, b"\x05\x01\x00\x03\x0bexample.org\x00\x50");
        Ok(())
    },
    grants: &[5, 0, 0, 1, 192, 0, 2, 1, 0, 80],
    // The connection was refused.
    refuses: &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0],
};

pub const CONNECT: Proxy = Proxy {
    hears: |client| {
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            request.extend(byte);
        }
        assert!(request.starts_with(b"CONNECT example.org:80 HTTP/1.1\r\n"), "{request:?}");
        Ok(())
    },
    grants: b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n",
    refuses: b"HTTP/1.1 502 Bad gateway\r\nContent-Length: 0\r\n\r\n",
};
