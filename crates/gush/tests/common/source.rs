//! The ends that bytes come from.

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use rustix::fs::{CWD, FileType, MemfdFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::OptionalActions;

use super::drain::is_readable;
use super::{Feed, LoopDevice, feed};

/// The kinds of source that give content back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    File,
    Tmpfs,
    Memfd,
    Append,
    Direct,
    Block,
    Pipe,
    Fifo,
    UnixStream,
    Tcp,
    Seqpacket,
    UnixDatagram,
    Udp,
    Terminal,
}

impl SourceKind {
    pub const ALL: &[SourceKind] = &[
        SourceKind::File,
        SourceKind::Tmpfs,
        SourceKind::Memfd,
        SourceKind::Append,
        SourceKind::Direct,
        SourceKind::Block,
        SourceKind::Pipe,
        SourceKind::Fifo,
        SourceKind::UnixStream,
        SourceKind::Tcp,
        SourceKind::Seqpacket,
        SourceKind::UnixDatagram,
        SourceKind::Udp,
        SourceKind::Terminal,
    ];

    /// One of each that can have nothing to read for a while.
    pub const CAN_IDLE: [SourceKind; 7] = [
        SourceKind::Pipe,
        SourceKind::Fifo,
        SourceKind::UnixStream,
        SourceKind::Tcp,
        SourceKind::Seqpacket,
        SourceKind::Udp,
        SourceKind::Terminal,
    ];

    pub fn has_offsets(self) -> bool {
        use SourceKind::{Append, Block, Direct, File, Memfd, Tmpfs};
        matches!(self, File | Tmpfs | Memfd | Append | Direct | Block)
    }

    /// Does a read of 0 ever come?
    pub fn ends(self) -> bool {
        !matches!(self, SourceKind::UnixDatagram | SourceKind::Udp | SourceKind::Terminal)
    }

    pub fn is_datagram(self) -> bool {
        matches!(self, SourceKind::Seqpacket | SourceKind::UnixDatagram | SourceKind::Udp)
    }

    /// The most that a test should send through this kind.
    pub fn most_bytes(self) -> usize {
        match self {
            SourceKind::Udp => 60_000,
            SourceKind::Terminal => 50_000,
            _ if self.is_datagram() => 200_000,
            _ => usize::MAX,
        }
    }
}

/// A source, with content inside or on the way.
#[derive(Debug)]
pub struct Source {
    pub fd: OwnedFd,
    pub kind: SourceKind,
    feeder: Option<JoinHandle<Option<OwnedFd>>>,
    far: Option<OwnedFd>,
    _device: Option<LoopDevice>,
}

impl Source {
    /// Makes one; a stream is fed by a thread. The error says why there is none here.
    pub fn new(kind: SourceKind, content: &[u8], seed: u64, dawdle: bool) -> Result<Self, String> {
        let mut device = None;
        let (fd, far) = match kind {
            SourceKind::Block => {
                let made = LoopDevice::new(content.len().next_multiple_of(512) as u64)?;
                let fd = made.open();
                device = Some(made);
                (fd, None)
            }
            kind => open_source(kind)?,
        };
        let Some(far) = far else {
            File::from(fd.try_clone().expect("dup")).write_all(content).expect("content");
            rustix::fs::seek(&fd, SeekFrom::Start(0)).expect("rewind");
            let fd = if kind == SourceKind::Direct { with_direct(&fd)? } else { fd };
            return Ok(Self { fd, kind, feeder: None, far: None, _device: device });
        };
        // What fits one frame of Ethernet, as most datagrams do.
        let most_bytes = if kind.is_datagram() { 1400 } else { usize::MAX };
        // A terminal that loses its master hangs up, and forgets what it held.
        let how = Feed { seed, most_bytes, keep: !kind.ends(), dawdle };
        let feeder = feed(far, content.to_vec(), how);
        Ok(Self { fd, kind, feeder: Some(feeder), far: None, _device: None })
    }

    /// Waits until everything is inside, which must fit.
    pub fn filled(mut self) -> Self {
        if let Some(feeder) = self.feeder.take() {
            self.far = feeder.join().expect("the feeder");
        }
        self
    }

    pub fn position(&self) -> u64 {
        rustix::fs::seek(&self.fd, SeekFrom::Current(0)).expect("a position")
    }

    /// The bytes that a plain reader still gets.
    pub fn rest(self) -> Vec<u8> {
        if self.kind.has_offsets() {
            let from = usize::try_from(self.position()).expect("a position");
            let content = super::target::read_all(&self.fd);
            return content.get(from..).unwrap_or_default().to_vec();
        }
        let mut rest = Vec::new();
        let mut buf = vec![0; 65_536];
        let (mut was_fed, mut ended) = (false, false);
        loop {
            if !self.kind.ends() {
                // A terminal passes bytes on by a work queue, later than a socket does.
                let patience = if self.kind == SourceKind::Terminal { 25 } else { 3 };
                if !is_readable(&self.fd, patience) {
                    if was_fed {
                        return rest;
                    }
                    was_fed = self.feeder.as_ref().is_none_or(JoinHandle::is_finished);
                    continue;
                }
            }
            match rustix::io::read(&self.fd, &mut buf) {
                // A SOCK_SEQPACKET socket can say so with its last record still to come, once.
                Ok(0) if ended || self.kind != SourceKind::Seqpacket => return rest,
                Ok(0) => ended = true,
                Ok(len) => rest.extend_from_slice(&buf[..len]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => panic!("reading what is left of {:?}: {errno}", self.kind),
            }
        }
    }
}

/// An empty end for reading, and the far end to feed where there is one.
pub fn open_source(kind: SourceKind) -> Result<(OwnedFd, Option<OwnedFd>), String> {
    let failed = |error: std::io::Error| error.to_string();
    Ok(match kind {
        SourceKind::File | SourceKind::Direct => {
            (tempfile::tempfile().map_err(failed)?.into(), None)
        }
        SourceKind::Tmpfs => (tempfile::tempfile_in("/dev/shm").map_err(failed)?.into(), None),
        SourceKind::Memfd => (memfd(), None),
        SourceKind::Append => (append_file(), None),
        SourceKind::Block => unreachable!("made by its device"),
        SourceKind::Pipe => {
            let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("pipe");
            (read_end, Some(write_end))
        }
        SourceKind::Fifo => {
            let (read_end, write_end) = fifo();
            (read_end, Some(write_end))
        }
        SourceKind::Tcp => {
            let (near, far) = tcp();
            (near, Some(far))
        }
        SourceKind::Udp => {
            let (near, far) = udp();
            (near, Some(far))
        }
        SourceKind::UnixStream => sockets(SocketType::STREAM),
        SourceKind::Seqpacket => sockets(SocketType::SEQPACKET),
        SourceKind::UnixDatagram => sockets(SocketType::DGRAM),
        SourceKind::Terminal => {
            let (master, slave) = terminal()?;
            (slave, Some(master))
        }
    })
}

fn sockets(kind: SocketType) -> (OwnedFd, Option<OwnedFd>) {
    let (near, far) = pair(kind);
    (near, Some(far))
}

pub fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let (near, far) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .expect("socketpair");
    if kind == SocketType::DGRAM {
        // A message counts by the memory that the kernel allots, and past a quarter of the buffer
        // poll(2) waits for the reader (`unix_writable` of net/unix/af_unix.c): with pages of 64
        // KiB one of 40,000 bytes would be past that.
        for end in [&near, &far] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, 212_992).expect("a buffer");
        }
    }
    (near, far)
}

pub fn memfd() -> OwnedFd {
    rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd")
}

pub fn append_file() -> OwnedFd {
    let fd: OwnedFd = tempfile::tempfile().expect("file").into();
    rustix::fs::fcntl_setfl(&fd, OFlags::APPEND).expect("O_APPEND");
    fd
}

/// The same file once more, past the page cache.
pub fn with_direct(fd: &OwnedFd) -> Result<OwnedFd, String> {
    let position = rustix::fs::seek(fd, SeekFrom::Current(0)).expect("position");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let direct = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| format!("no O_DIRECT on the temporary directory: {errno}"))?;
    rustix::fs::seek(&direct, SeekFrom::Start(position)).expect("seek");
    Ok(direct)
}

/// Both ends of a FIFO whose name is gone already.
pub fn fifo() -> (OwnedFd, OwnedFd) {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("fifo");
    let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
    // Without O_NONBLOCK the open would wait for a writer (fifo(7)).
    let read_end = open(OFlags::RDONLY | OFlags::NONBLOCK).expect("reader");
    let write_end = open(OFlags::WRONLY).expect("writer");
    rustix::fs::fcntl_setfl(&read_end, OFlags::empty()).expect("blocking again");
    (read_end, write_end)
}

pub fn tcp() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let near = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    (near.into(), far.into())
}

pub fn udp() -> (OwnedFd, OwnedFd) {
    let near = UdpSocket::bind("127.0.0.1:0").expect("socket");
    let far = UdpSocket::bind("127.0.0.1:0").expect("socket");
    near.connect(far.local_addr().expect("address")).expect("connect");
    far.connect(near.local_addr().expect("address")).expect("connect");
    for socket in [&near, &far] {
        // Datagrams that find no room are dropped without a word.
        rustix::net::sockopt::set_socket_recv_buffer_size(socket, 1 << 20).expect("room");
    }
    (near.into(), far.into())
}

/// A pseudo-terminal's master and slave, raw: no byte has a meaning.
pub fn terminal() -> Result<(OwnedFd, OwnedFd), String> {
    let failed = |errno: Errno| format!("no pseudo-terminal: {errno}");
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).map_err(failed)?;
    rustix::pty::grantpt(&master).map_err(failed)?;
    rustix::pty::unlockpt(&master).map_err(failed)?;
    let name = rustix::pty::ptsname(&master, Vec::new()).map_err(failed)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, Mode::empty()).map_err(failed)?;
    let mut attributes = rustix::termios::tcgetattr(&slave).map_err(failed)?;
    attributes.make_raw();
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &attributes).map_err(failed)?;
    Ok((master, slave))
}
