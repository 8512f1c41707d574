//! The ends that bytes go to.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::SeekFrom;
use rustix::net::SocketType;
use rustix::pipe::PipeFlags;

use super::source::{append_file, fifo, memfd, pair, tcp, terminal, udp, with_direct};
use super::{Drainer, Ending, LoopDevice};

/// The kinds of target whose content can be had back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetKind {
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
    Null,
}

impl TargetKind {
    pub const ALL: &[TargetKind] = &[
        TargetKind::File,
        TargetKind::Tmpfs,
        TargetKind::Memfd,
        TargetKind::Append,
        TargetKind::Direct,
        TargetKind::Block,
        TargetKind::Pipe,
        TargetKind::Fifo,
        TargetKind::UnixStream,
        TargetKind::Tcp,
        TargetKind::Seqpacket,
        TargetKind::UnixDatagram,
        TargetKind::Udp,
        TargetKind::Terminal,
        TargetKind::Null,
    ];

    pub fn has_offsets(self) -> bool {
        use TargetKind::{Append, Block, Direct, File, Memfd, Tmpfs};
        matches!(self, File | Tmpfs | Memfd | Append | Direct | Block)
    }

    pub fn takes_offsets(self) -> bool {
        self.has_offsets() && self != TargetKind::Append
    }

    pub fn is_datagram(self) -> bool {
        matches!(self, TargetKind::Seqpacket | TargetKind::UnixDatagram | TargetKind::Udp)
    }

    /// The sign by which the far end knows that all has arrived.
    fn ending(self) -> Ending {
        match self {
            // Its line discipline works in a thread of the kernel's.
            TargetKind::Terminal => Ending::Idle(25),
            TargetKind::UnixDatagram | TargetKind::Udp => Ending::Idle(3),
            _ => Ending::Closed,
        }
    }

    /// The most that a test should send into this kind.
    pub fn most_bytes(self) -> usize {
        match self {
            TargetKind::Udp => 60_000,
            TargetKind::Terminal => 50_000,
            _ if self.is_datagram() => 200_000,
            _ => usize::MAX,
        }
    }
}

/// A target, with somebody who reads the arriving bytes of a stream.
#[derive(Debug)]
pub struct Target {
    pub fd: OwnedFd,
    pub kind: TargetKind,
    drainer: Option<Drainer>,
    _device: Option<LoopDevice>,
}

impl Target {
    /// Makes a target, with `before` inside where the kind keeps bytes, at position 0.
    pub fn new(kind: TargetKind, before: &[u8], seed: u64, dawdle: bool) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut device = None;
        let (fd, far): (OwnedFd, Option<OwnedFd>) = match kind {
            TargetKind::File | TargetKind::Direct => {
                (tempfile::tempfile().map_err(failed)?.into(), None)
            }
            TargetKind::Tmpfs => (tempfile::tempfile_in("/dev/shm").map_err(failed)?.into(), None),
            TargetKind::Memfd => (memfd(), None),
            TargetKind::Append => (append_file(), None),
            TargetKind::Block => {
                let made = LoopDevice::new(1 << 20)?;
                let fd = made.open();
                device = Some(made);
                (fd, None)
            }
            TargetKind::Null => {
                (File::options().write(true).open("/dev/null").map_err(failed)?.into(), None)
            }
            kind => {
                let (near, far) = open_target(kind)?;
                (near, Some(far))
            }
        };
        if kind.has_offsets() && !before.is_empty() {
            File::from(fd.try_clone().expect("dup")).write_all(before).expect("content");
            rustix::fs::seek(&fd, SeekFrom::Start(0)).expect("rewind");
        }
        let fd = if kind == TargetKind::Direct { with_direct(&fd)? } else { fd };
        let drainer =
            far.map(|far| Drainer::start(far, kind.ending(), kind.is_datagram(), seed, dawdle));
        Ok(Self { fd, kind, drainer, _device: device })
    }

    pub fn position(&self) -> u64 {
        rustix::fs::seek(&self.fd, SeekFrom::Current(0)).expect("a position")
    }

    /// All bytes inside a file, or all bytes that came out of a stream.
    pub fn content(self) -> Vec<u8> {
        if let Some(drainer) = self.drainer {
            drop(self.fd);
            return drainer.finish();
        }
        if self.kind == TargetKind::Null {
            return Vec::new();
        }
        read_all(&self.fd)
    }
}

/// A file's whole content, for every position and all flags.
pub fn read_all(fd: &OwnedFd) -> Vec<u8> {
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
    std::fs::read(path).expect("what is in the target")
}

/// An end for writing into a stream, and the stream's far end.
pub fn open_target(kind: TargetKind) -> Result<(OwnedFd, OwnedFd), String> {
    Ok(match kind {
        TargetKind::Pipe => {
            let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("pipe");
            (write_end, read_end)
        }
        TargetKind::Fifo => {
            let (read_end, write_end) = fifo();
            (write_end, read_end)
        }
        TargetKind::Tcp => tcp(),
        TargetKind::Udp => udp(),
        TargetKind::UnixStream => pair(SocketType::STREAM),
        TargetKind::Seqpacket => pair(SocketType::SEQPACKET),
        TargetKind::UnixDatagram => pair(SocketType::DGRAM),
        TargetKind::Terminal => {
            let (master, slave) = terminal()?;
            (slave, master)
        }
        _ => unreachable!("not a stream"),
    })
}
