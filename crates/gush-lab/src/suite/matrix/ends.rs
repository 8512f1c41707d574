//! Both ends of the kinds that have two: pipes, sockets, terminals.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::OptionalActions;

use super::Kind;
use super::source::Workshop;

/// The end that bytes come out of, and the end that they are put into.
type Ends = (OwnedFd, OwnedFd);

/// Opens both ends of a pipe, FIFO, socket or terminal: the one that is a source or a target, and
/// the far one. `None` for kinds with one end only.
pub(super) fn open(kind: Kind, workshop: &Workshop, is_source: bool) -> io::Result<Option<Ends>> {
    let (out, into) = match kind {
        Kind::Pipe => rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?,
        Kind::Fifo => fifo(workshop.dir(kind)?)?,
        Kind::Tcp => tcp()?,
        Kind::UnixStream => unix(SocketType::STREAM)?,
        Kind::UnixDatagram => unix(SocketType::DGRAM)?,
        Kind::Udp => udp()?,
        Kind::Pty => return terminal().map(Some),
        _ => return Ok(None),
    };
    Ok(Some(if is_source { (out, into) } else { (into, out) }))
}

/// The FIFO's name is removed as soon as both ends are open.
pub(super) fn fifo(dir: &Path) -> io::Result<Ends> {
    let made = tempfile::Builder::new().prefix(".gush-lab-").tempdir_in(dir);
    // tempfile's message has the name, and every cell would have its own reason.
    let dir = made.map_err(|error| io::Error::other(gush_text::os_text(&error)))?;
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
    // Without O_NONBLOCK the open would wait for the writer below (fifo(7)).
    let out = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let into = open(OFlags::WRONLY)?;
    // Blocking again, as a program finds the end that it was given.
    rustix::fs::fcntl_setfl(&out, OFlags::empty())?;
    Ok((out, into))
}

fn tcp() -> io::Result<Ends> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let out = TcpStream::connect(listener.local_addr()?)?;
    let (into, _) = listener.accept()?;
    Ok((out.into(), into.into()))
}

fn unix(kind: SocketType) -> io::Result<Ends> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

fn udp() -> io::Result<Ends> {
    let out = UdpSocket::bind("127.0.0.1:0")?;
    let into = UdpSocket::bind("127.0.0.1:0")?;
    out.connect(into.local_addr()?)?;
    into.connect(out.local_addr()?)?;
    // Nothing holds a sender back but room.
    rustix::net::sockopt::set_socket_recv_buffer_size(&out, 4 << 20)?;
    Ok((out.into(), into.into()))
}

/// A pseudo-terminal's slave and master, raw: no byte has a meaning (cfmakeraw(3)).
fn terminal() -> io::Result<Ends> {
    let master =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    // Without O_NOCTTY the slave could become this process's terminal, and Ctrl-C go there.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, Mode::empty())?;
    let mut attributes = rustix::termios::tcgetattr(&slave)?;
    // Cooked it would change line ends and take ^D for an end: other bytes would arrive.
    attributes.make_raw();
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &attributes)?;
    Ok((slave, master))
}
