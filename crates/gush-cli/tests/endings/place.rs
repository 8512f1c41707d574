//! The place of a peer of each kind at an end of a link: the address for the link, and the peer's
//! descriptors.

use std::fs::File;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::PATIENCE;
use crate::common::tls::{Pki, Session};
use crate::kinds::Kind;
use crate::port::Port;
use crate::proxy::{CONNECT, Proxy, SOCKS, TARGET};
use crate::puppet;
use crate::script::{Step, bytes, write_script};

/// Where the descriptors of a peer come from once the link has been started.
pub enum Place {
    /// By connecting to where the link listens.
    ConnectsTcp,
    ConnectsUnix(PathBuf),
    SendsUdp,
    /// The same, by TLS.
    ConnectsTls(Box<Pki>, Seat),
    AcceptsTcp(TcpListener),
    AcceptsTls(TcpListener, Box<Pki>),
    /// As a proxy that connects the link to itself.
    Grants(TcpListener, &'static Proxy),
    Refuses(TcpListener, &'static Proxy),
    AcceptsUnix(UnixListener),
    HearsUdp(UdpSocket),
    /// Standard input and output of the link.
    Standard,
    OpensToWrite(PathBuf),
    OpensToRead(PathBuf),
    /// A file that grows.
    Watches(PathBuf),
    /// The link starts the peer, or finds a complete file.
    Elsewhere,
}

/// For connections over TCP: the kernel keeps no megabytes (tcp(7)), so that a flood that nobody
/// reads is stuck soon.
const SMALL: &str = ",sndbuf=32k";

/// The place of a peer in a link.
#[derive(Clone, Copy)]
pub struct Seat {
    pub is_first: bool,
    pub is_source: bool,
    pub is_two_way: bool,
}

/// Prepares a peer's place: the address for the link, and the place.
pub fn prepare(kind: Kind, seat: Seat, dir: &Path, name: &str, steps: &[Step]) -> (String, Place) {
    let Seat { is_first, is_source, .. } = seat;
    let path = dir.join(name);
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let proxied = |name: &str, proxy: &'static Proxy| {
        let listener = listener();
        let address = format!("{name}:{}:{TARGET}{SMALL}", listener.local_addr().unwrap());
        (address, Place::Grants(listener, proxy))
    };
    let program = |options: &str| {
        write_script(&dir.join(format!("{name}.script")), steps);
        (puppet::address(dir, name) + options, Place::Elsewhere)
    };
    match kind {
        Kind::Tcp if is_first => (format!("tcp-listen:127.0.0.1:0{SMALL}"), Place::ConnectsTcp),
        Kind::Tcp => {
            let listener = listener();
            (format!("tcp:{}{SMALL}", listener.local_addr().unwrap()), Place::AcceptsTcp(listener))
        }
        Kind::Tls if is_first => {
            let pki = Box::new(Pki::new());
            (pki.listen("server", SMALL), Place::ConnectsTls(pki, seat))
        }
        Kind::Tls => {
            let (listener, pki) = (listener(), Box::new(Pki::new()));
            let address = pki.connect(&listener.local_addr().unwrap().to_string(), SMALL);
            (address, Place::AcceptsTls(listener, pki))
        }
        Kind::Socks => proxied("socks5", &SOCKS),
        Kind::Connect => proxied("http-connect", &CONNECT),
        Kind::Unix if is_first => {
            (format!("unix-listen:{}", path.display()), Place::ConnectsUnix(path))
        }
        Kind::Unix => {
            let listener = UnixListener::bind(&path).unwrap();
            (format!("unix:{}", path.display()), Place::AcceptsUnix(listener))
        }
        Kind::Program => program(""),
        Kind::Pipes => program(",pipes"),
        Kind::Terminal => program(",pty,echo=0"),
        Kind::Standard => ("-".into(), Place::Standard),
        Kind::Fifo => {
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            let address = format!("pipe:{}", path.display());
            match is_source {
                true => (address, Place::OpensToWrite(path)),
                false => (address, Place::OpensToRead(path)),
            }
        }
        Kind::File if is_source => {
            let sent =
                steps.iter().map(|step| if let Step::Send(count) = step { *count } else { 0 });
            std::fs::write(&path, bytes(0, sent.sum())).unwrap();
            (format!("file:{}", path.display()), Place::Elsewhere)
        }
        Kind::File => (format!("file:{},create", path.display()), Place::Watches(path)),
        Kind::Udp if is_first => ("udp-listen:127.0.0.1:0".into(), Place::SendsUdp),
        Kind::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            (format!("udp:{}", socket.local_addr().unwrap()), Place::HearsUdp(socket))
        }
    }
}

impl Place {
    /// Does the peer connect to the link's listener?
    pub fn connects(&self) -> bool {
        matches!(
            self,
            Place::ConnectsTcp | Place::ConnectsTls(..) | Place::ConnectsUnix(_) | Place::SendsUdp
        )
    }

    /// The peer's descriptors; `listening` gives the link's address once the link listens, and
    /// `standard` are the link's.
    pub fn take(
        self,
        listening: impl FnOnce() -> String,
        standard: impl FnOnce() -> (Option<OwnedFd>, Option<OwnedFd>),
    ) -> io::Result<Option<Port>> {
        Ok(Some(match self {
            Place::ConnectsTcp => Port::of_two_way(TcpStream::connect(listening())?.into()),
            Place::ConnectsUnix(path) => {
                listening();
                Port::of_two_way(UnixStream::connect(path)?.into())
            }
            Place::ConnectsTls(pki, seat) => {
                let socket = TcpStream::connect(listening())?;
                // What it says last is on its way when it closes.
                socket.set_nodelay(true)?;
                let mut session = Session::client(&pki);
                session.shake(socket.as_fd())?;
                // A link that only reads sends nothing, not even these.
                if seat.is_two_way {
                    session.take_tickets(socket.as_fd())?;
                }
                Port::secured(socket.into(), session)
            }
            Place::AcceptsTls(listener, pki) => {
                let socket = listener.accept()?.0;
                socket.set_nodelay(true)?;
                let mut session = Session::server(&pki);
                session.shake(socket.as_fd())?;
                Port::secured(socket.into(), session)
            }
            Place::Grants(listener, proxy) => {
                let mut socket = listener.accept()?.0;
                (proxy.hears)(&mut socket)?;
                socket.write_all(proxy.grants)?;
                Port::of_two_way(socket.into())
            }
            Place::Refuses(listener, proxy) => {
                let mut socket = listener.accept()?.0;
                (proxy.hears)(&mut socket)?;
                socket.write_all(proxy.refuses)?;
                Port::of_two_way(socket.into())
            }
            Place::SendsUdp => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                socket.connect(listening())?;
                Port::of_two_way(socket.into()).endless()
            }
            Place::AcceptsTcp(listener) => Port::of_two_way(listener.accept()?.0.into()),
            Place::AcceptsUnix(listener) => Port::of_two_way(listener.accept()?.0.into()),
            Place::HearsUdp(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                let (_, from) = socket.peek_from(&mut [0])?;
                socket.connect(from)?;
                Port::of_two_way(socket.into()).endless()
            }
            Place::Standard => {
                let (input, output) = standard();
                Port::new(output, input)
            }
            Place::OpensToWrite(path) => {
                Port::new(None, Some(File::options().write(true).open(path)?.into()))
            }
            Place::OpensToRead(path) => Port::new(Some(File::open(path)?.into()), None),
            Place::Watches(path) => {
                let start = Instant::now();
                while !path.exists() {
                    assert!(start.elapsed() < PATIENCE, "no file is made");
                    sleep(Duration::from_millis(2));
                }
                Port::new(Some(File::open(path)?.into()), None).endless()
            }
            Place::Elsewhere => return Ok(None),
        }))
    }
}
