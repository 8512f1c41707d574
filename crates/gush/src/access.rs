//! May a descriptor be read, as a source, or written, as a target?
//!
//! Checked before a move begins: a wait in poll(2) for such a descriptor would never end.
//!
//! | descriptor | asked by | refused with |
//! |---|---|---|
//! | the wrong end of a pipe, a file opened for the other direction, `O_PATH` | the flags of open(2) | `EBADF` |
//! | a device, or anything without a name (epoll, pidfd) | readv(2) or writev(2) of nothing | the kernel's `EINVAL` |
//! | a listening socket | `SO_ACCEPTCONN`, then recv(2) or send(2) | the kernel's answer, such as `ENOTCONN` |

use rustix::io::{self, Errno};

use crate::endpoint::{Endpoint, Kind};
use crate::fault::Fault;
use crate::port::Side;
use crate::sys::{Call, data, socket};

/// Checks that the source can be read, or the target written. Moves nothing and never waits.
pub(crate) fn check(endpoint: &Endpoint<'_>, side: Side) -> Result<(), Fault> {
    let refused = |call, errno| Err(Fault { call, side, errno });
    let is_open = match side {
        Side::Source => endpoint.is_open_for_reading(),
        Side::Target => endpoint.is_open_for_writing(),
    };
    if !is_open {
        return match side {
            Side::Source => refused(Call::Read, Errno::BADF),
            Side::Target => refused(Call::Write, Errno::BADF),
        };
    }
    let (call, answer) = match endpoint.kind() {
        Kind::Stream | Kind::Datagram => ask_listener(endpoint, side),
        // Only a polled descriptor can wait for ever; files and pipes were judged by their flags.
        Kind::Character | Kind::Other if endpoint.can_idle() => ask_for_nothing(endpoint, side),
        _ => return Ok(()),
    };
    match answer {
        // Any other answer, such as a seccomp filter's EPERM, says nothing about the move's calls.
        Err(errno @ (Errno::BADF | Errno::INVAL | Errno::NOTCONN | Errno::PIPE)) => {
            refused(call, errno)
        }
        _ => Ok(()),
    }
}

/// An empty vector is answered after the check that the driver has this direction, and before the
/// driver is called (`FMODE_CAN_READ`, `FMODE_CAN_WRITE`; `vfs_readv` of `fs/read_write.c`).
fn ask_for_nothing(endpoint: &Endpoint<'_>, side: Side) -> (Call, io::Result<usize>) {
    match side {
        Side::Source => (Call::Readv, data::read_nothing(endpoint.fd())),
        Side::Target => (Call::Writev, data::write_nothing(endpoint.fd())),
    }
}

/// A listening socket carries no bytes: the socket takes and gives none, and answers with an error.
fn ask_listener(endpoint: &Endpoint<'_>, side: Side) -> (Call, io::Result<usize>) {
    let fd = endpoint.fd();
    match (socket::is_listening(fd), side) {
        // The call of the move itself, so that the error is the one that the move would have met.
        (Ok(true), Side::Source) => (Call::Recv, data::recv_nowait(fd, &mut [0])),
        (Ok(true), Side::Target) => (Call::Send, data::send_nowait(fd, &[0])),
        _ => (Call::GetSocketOption, Ok(0)),
    }
}
