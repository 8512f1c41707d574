//! The names of error numbers.

use rustix::io::Errno;

/// The name of an errno in the manual pages.
#[must_use]
pub fn errno_name(errno: Errno) -> String {
    const NAMES: &[(Errno, &str)] = &[
        (Errno::INVAL, "EINVAL"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::XDEV, "EXDEV"),
        (Errno::PERM, "EPERM"),
        (Errno::ACCESS, "EACCES"),
        (Errno::NOTTY, "ENOTTY"),
        (Errno::TXTBSY, "ETXTBSY"),
        (Errno::NODEV, "ENODEV"),
        (Errno::SPIPE, "ESPIPE"),
        (Errno::OVERFLOW, "EOVERFLOW"),
        (Errno::BADF, "EBADF"),
        (Errno::NOMEM, "ENOMEM"),
        (Errno::MFILE, "EMFILE"),
        (Errno::NFILE, "ENFILE"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::DQUOT, "EDQUOT"),
        (Errno::IO, "EIO"),
        (Errno::PIPE, "EPIPE"),
        (Errno::CONNRESET, "ECONNRESET"),
        (Errno::FAULT, "EFAULT"),
        (Errno::FBIG, "EFBIG"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::ROFS, "EROFS"),
        (Errno::BUSY, "EBUSY"),
        (Errno::INTR, "EINTR"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::NOENT, "ENOENT"),
        (Errno::EXIST, "EEXIST"),
        (Errno::NOTCONN, "ENOTCONN"),
        (Errno::MSGSIZE, "EMSGSIZE"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::CONNABORTED, "ECONNABORTED"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
        (Errno::NETUNREACH, "ENETUNREACH"),
        (Errno::NETDOWN, "ENETDOWN"),
        (Errno::DESTADDRREQ, "EDESTADDRREQ"),
        (Errno::NOBUFS, "ENOBUFS"),
        (Errno::STALE, "ESTALE"),
        (Errno::NXIO, "ENXIO"),
        (Errno::DEADLK, "EDEADLK"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG"),
        (Errno::LOOP, "ELOOP"),
        (Errno::NOEXEC, "ENOEXEC"),
        (Errno::ADDRINUSE, "EADDRINUSE"),
        (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (Errno::TOOBIG, "E2BIG"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == errno)
        .map_or_else(|| format!("errno {}", errno.raw_os_error()), |(_, name)| (*name).to_owned())
}
