//! The two ends of a connection: opened, accepted, named.

use std::fmt::Display;
use std::io;
use std::os::fd::BorrowedFd;

use gush_net::{Direction, Error};
use gush_text::os_text;
use rustix::fs::{Dev, FileType};
use tracing::info;

use crate::address::Address;
use crate::open::{self, End, Listener, OpenError, OpenOptions, Opened, Origin};
use crate::record::Failure;
use crate::session::Name;

/// The number of /dev/null, 1:3 (null(4)).
const NULL_DEVICE: Dev = 0x103;

/// Opens an address that does not listen.
pub(crate) async fn open_one(address: &Address, how: &OpenOptions) -> Result<End, Failure> {
    match open::open(address, how).await {
        Ok(Opened::One(end)) => Ok(end),
        Ok(Opened::Listener(_)) => Err(Failure::new(format!("{address}: it listens"), None)),
        Err(error) => Err(open_failure(&error)),
    }
}

/// Opens an address, and does the end's handshake.
pub(crate) async fn open_ready(address: &Address, how: &OpenOptions) -> Result<End, Failure> {
    let end = open_one(address, how).await?;
    // Most have none, and it is large.
    if !end.wants_handshake() {
        return Ok(end);
    }
    end.handshake().await.map_err(|error| open_failure(&error.at(address.locator())))
}

/// Binds an address that listens.
pub(crate) async fn listen(address: &Address, how: &OpenOptions) -> Result<Listener, Failure> {
    match open::open(address, how).await {
        Ok(Opened::Listener(listener)) => {
            match listener.local() {
                Ok(local) => info!("listening on {local} for {address}"),
                Err(_) if address.kind().listens() => info!("listening on {address}"),
                Err(_) => {}
            }
            Ok(listener)
        }
        Ok(Opened::One(_)) => Err(Failure::new(format!("{address}: it does not listen"), None)),
        Err(error) => Err(open_failure(&error)),
    }
}

/// The first client of an address that listens for one.
pub(crate) async fn open_for_one(address: &Address, how: &OpenOptions) -> Result<End, Failure> {
    let mut listener = listen(address, how).await?;
    accept_only(&mut listener).await
}

/// The only client, whose end has the listener's lock file.
pub(crate) async fn accept_only(listener: &mut Listener) -> Result<End, Failure> {
    let mut end = accept(listener).await?;
    listener.give_lock_file(&mut end);
    Ok(end)
}

/// The next client.
pub(crate) async fn accept(listener: &mut Listener) -> Result<End, Failure> {
    listener.accept().await.map_err(|error| open_failure(&error))
}

pub(crate) fn give_up_standard(end: &End, address: &Address) -> Result<(), Failure> {
    let given_up = open::give_up_standard(end.origin);
    given_up.map_err(|error| open_failure(&error.at(address.locator())))
}

/// The name of an end in records and messages.
pub(crate) fn name(end: &End, address: &Address) -> Name {
    match end.chosen() {
        Some(chosen) => Name::Text(chosen.as_str().into()),
        None if address.kind().listens() => Name::Peer(end.peer.clone()),
        None => Name::Text(address.locator().to_string().into()),
    }
}

/// The failure of an end that could not be opened, with the remedy.
pub(crate) fn open_failure(error: &OpenError) -> Failure {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let errno = error.io_error().and_then(io::Error::raw_os_error);
    Failure { is_refusal: error.is_refusal(), ..Failure::new(format!("{error}{hint}"), errno) }
}

/// The failure of a relay between the ends `a` and `b`, as one sentence with the remedy `hint`.
pub(crate) fn relay_failure(
    error: &Error,
    a: &impl Display,
    b: &impl Display,
    hint: Option<&str>,
    one_way: bool,
) -> Failure {
    let mut message = match error.end() {
        Some(gush_net::End::A) => format!("{a}: "),
        Some(gush_net::End::B) => format!("{b}: "),
        None => String::new(),
    };
    match (error.call(), error.io_error()) {
        (Some(call), Some(io)) => {
            let (forward, back) = (error.passed(Direction::Forward), error.passed(Direction::Back));
            message += &format!("{call}: {} after {} bytes", os_text(io), forward.bytes);
            if !one_way {
                message += &format!(" forward and {} back", back.bytes);
            }
            let lost = forward.in_flight_bytes + back.in_flight_bytes;
            if lost > 0 {
                message += &format!("; {lost} more were read but not delivered");
            }
        }
        _ => message += &Failure::of(error).message,
    }
    if let Some(hint) = hint {
        message += &format!(" ({hint})");
    }
    let (errno, kind) = match error.io_error() {
        Some(io) => (io.raw_os_error(), Some(io.kind())),
        None => (None, None),
    };
    // Only a stream of TLS reports such an end, and without an errno.
    let is_unclosed = errno.is_none() && kind == Some(io::ErrorKind::UnexpectedEof);
    Failure { is_unclosed, ..Failure::new(message, errno) }
}

/// Would bytes written to `target` be read again from `source`?
pub(crate) fn is_same_file(source: Option<BorrowedFd<'_>>, target: Option<BorrowedFd<'_>>) -> bool {
    let file = |fd: Option<BorrowedFd<'_>>| {
        let found = rustix::fs::fstat(fd?).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode).is_file();
        is_file.then_some((found.st_dev, found.st_ino))
    };
    file(source).is_some_and(|source| file(target) == Some(source))
}

/// Would each of two readers get only a part of the bytes? Of a device that is no terminal each
/// reader gets all.
pub(crate) fn is_same_source(a: Option<BorrowedFd<'_>>, b: Option<BorrowedFd<'_>>) -> bool {
    let source = |fd: Option<BorrowedFd<'_>>| {
        let fd = fd?;
        let found = rustix::fs::fstat(fd).ok()?;
        let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
        let is_shared = !is_device || rustix::termios::isatty(fd);
        // The masters of all pseudo-terminals have one inode (ptmx_open of drivers/tty/pty.c).
        let slave = rustix::pty::ptsname(fd, Vec::new()).ok();
        is_shared.then_some((found.st_dev, found.st_ino, slave))
    };
    source(a).is_some_and(|a| source(b) == Some(a))
}

/// Is the end a terminal that was opened by its name, such as a serial line, or a new one that
/// programs may open repeatedly? No end of data passes there in either direction. A user's own
/// terminal ends by a key, and that of a program by the program that leaves it.
pub(crate) fn is_terminal_device(end: &End) -> bool {
    end.origin.is_line && end.conduit.reads() || end.keeper.holds_a_line()
}

/// Is the end a file without bytes ahead, or the null device? Its end of data means nothing then.
pub(crate) fn is_empty(end: &End) -> bool {
    let Some(fd) = end.conduit.read_fd() else { return false };
    let Ok(found) = rustix::fs::fstat(fd) else { return false };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice => found.st_rdev == NULL_DEVICE,
        FileType::RegularFile => {
            let size_bytes = u64::try_from(found.st_size).unwrap_or(0);
            rustix::fs::tell(fd).is_ok_and(|position_bytes| position_bytes >= size_bytes)
        }
        _ => false,
    }
}

/// Is `error` the EPIPE of standard output?
pub(crate) fn is_reader_gone(error: &Error, end: Origin) -> bool {
    end.is_output && error.io_error().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}
