//! Files, devices and FIFOs.

use std::borrow::Cow;
use std::fs::FileType;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use gush_net::Conduit;
use gush_text::Doing;
use rustix::fs::{CWD, Mode, OFlags, SeekFrom, mknodat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with};
use tokio::io::Interest;

use super::error::{OpenError, Step};
use super::keeper::Made;
use super::permissions::{Permissions, file_mode};
use super::publish::has_last_part;
use super::{End, OpenOptions, Peer, connect, inherit};
use crate::address::{Opt, OptionSet, UnixName};
use crate::watch::watch;

const NO_BYTES: &str = "a directory has no bytes to move: name a file in it";

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Opens any kind of file: connects to a socket, appends to a file, creates a missing one.
pub(crate) async fn path(
    path: &Path,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    let kind = kind(path)?;
    refuse_own_socket(path, kind)?;
    if kind.is_some_and(|kind| kind.is_socket()) {
        return connect::unix_client(&UnixName::Path(path.to_owned()), options).await;
    }
    let mut flags = OFlags::empty();
    if how.writes() && !options.is_on(Opt::ReadOnly) {
        // In both directions, a mistyped name would become an empty file.
        if kind.is_none() && how.is_one_way() && options.flag(Opt::Create) != Some(false) {
            flags |= OFlags::CREATE;
        }
        if kind.is_none_or(|kind| kind.is_file())
            && !options.is_on(Opt::Truncate)
            && !options.has(Opt::Seek)
            && !options.has(Opt::SeekEnd)
        {
            flags |= OFlags::APPEND;
        }
    }
    open(path, kind, flags, options, how).await
}

pub(crate) async fn file(
    path: &Path,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    open(path, kind(path)?, OFlags::empty(), options, how).await
}

pub(crate) fn device(path: &str, how: &OpenOptions) -> Result<End, OpenError> {
    let flags = access(&OptionSet::default(), how) | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).step("open")?;
    end(fd, path, &OptionSet::default(), how)
}

pub(crate) async fn pipe(
    path: Option<&Path>,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    let Some(path) = path else {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).step("make a pipe")?;
        let conduit = Conduit::of_two(read, write).step("make a pipe")?;
        return Ok(End::new(how.narrowed(conduit)?, Peer::Other("pipe".into())));
    };
    let made = match kind(path)? {
        Some(kind) if kind.is_fifo() => None,
        Some(_) => {
            return Err(OpenError::said("open", "this is no FIFO")
                .hinted("for a file or device, say file:PATH"));
        }
        None => make_fifo(path, options)?,
    };
    let mut end = fifo(path, options, how).await?;
    end.keeper.made.extend(made);
    Ok(end)
}

pub(crate) fn socket_pair(how: &OpenOptions) -> Result<End, OpenError> {
    // Unlike SOCK_DGRAM, its data has an end.
    let (read, write) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .step("make a pair of sockets")?;
    let conduit = Conduit::of_two(read, write).step("make a pair of sockets")?;
    Ok(End::new(how.narrowed(conduit)?, Peer::Other("socketpair".into())))
}

fn make_fifo(path: &Path, options: &OptionSet) -> Result<Option<Made>, OpenError> {
    const STEP: &str = "make the FIFO";
    has_last_part(STEP, path)?;
    let permissions = Permissions::of_file(options)?;
    let wanted = Mode::from_raw_mode(file_mode(options));
    mknodat(CWD, path, rustix::fs::FileType::Fifo, wanted, 0).map_err(|errno| {
        let error = OpenError::new(STEP, errno);
        match errno {
            Errno::NOENT => error.hinted_by(gush_text::missing_directory(path).as_deref()),
            _ => error.hinted_by(gush_text::remedy_at(CWD, path, Doing::Making, errno)),
        }
    })?;
    let made = Made::if_removed(path, path, options).step(STEP)?;
    permissions.give(path, rustix::fs::FileType::Fifo)?;
    Ok(made)
}

fn kind(path: &Path) -> Result<Option<FileType>, OpenError> {
    if let Some(number) = gush_process::closed_at(path) {
        return Err(inherit::is_closed(number));
    }
    match path.metadata() {
        Ok(found) => Ok(Some(found.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::new("open", error)),
    }
}

/// Refuses /dev/stdin and the like where the descriptor is a socket, which open(2) cannot open
/// (ENXIO).
fn refuse_own_socket(path: &Path, kind: Option<FileType>) -> Result<(), OpenError> {
    if !kind.is_some_and(|kind| kind.is_socket()) {
        return Ok(());
    }
    let Ok(found) = path.metadata() else { return Ok(()) };
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let is_found = |fd: &BorrowedFd<'_>| {
        rustix::fs::fstat(fd)
            .is_ok_and(|own| (own.st_dev, own.st_ino) == (found.dev(), found.ino()))
    };
    match standard.iter().position(is_found) {
        Some(number) => {
            Err(OpenError::said("open", "this standard stream is a socket, which cannot be opened")
                .hinted(if number == 2 {
                    "say fd:2"
                } else {
                    "say `-`, which takes the descriptor itself"
                }))
        }
        None => Ok(()),
    }
}

fn access(options: &OptionSet, how: &OpenOptions) -> OFlags {
    if options.is_on(Opt::ReadWrite) {
        OFlags::RDWR
    } else if options.is_on(Opt::ReadOnly) {
        OFlags::RDONLY
    } else if options.is_on(Opt::WriteOnly) {
        OFlags::WRONLY
    } else if !how.writes() {
        OFlags::RDONLY
    } else if !how.reads() {
        OFlags::WRONLY
    } else {
        OFlags::RDWR
    }
}

const NO_PLACES: &str = "its bytes have no offsets: leave seek and seek-end out";

async fn open(
    path: &Path,
    kind: Option<FileType>,
    flags: OFlags,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    if kind.is_some_and(|kind| kind.is_fifo()) {
        if options.size_bytes(Opt::Seek).is_some() || options.offset_bytes(Opt::SeekEnd).is_some() {
            return Err(OpenError::new("seek", Errno::SPIPE).hinted(NO_PLACES));
        }
        return fifo(path, options, how).await;
    }
    refuse_own_socket(path, kind)?;
    if kind.is_some_and(|kind| kind.is_socket()) {
        return Err(
            OpenError::said("open", "this is a Unix socket").hinted("connect to it with unix:PATH")
        );
    }
    let permissions = Permissions::of_file(options)?;
    let mut flags = flags | self::flags(options, how)?;
    if kind.is_some() && is_read_only(flags) && !flags.contains(OFlags::EXCL) {
        // The kernel refuses it for another user's file in /tmp (proc_sys_fs(5),
        // protected_regular).
        flags -= OFlags::CREATE;
    }
    let call = OpenCall { path, flags, mode: Mode::from_raw_mode(file_mode(options)), permissions };
    let fd = match call.once_free(kind.is_some_and(|kind| kind.is_file())).await? {
        Ok(fd) => fd,
        Err(errno) => {
            return Err(
                OpenError::new("open", errno).hinted_by(call.remedy(options, errno).as_deref())
            );
        }
    };
    // It opens for reading, and only a read would fail.
    if kind.is_some_and(|kind| kind.is_dir()) {
        return Err(OpenError::new("open", Errno::ISDIR).hinted(NO_BYTES));
    }
    let start = options.size_bytes(Opt::Seek).map(SeekFrom::Start);
    if let Some(start) = start.or(options.offset_bytes(Opt::SeekEnd).map(SeekFrom::End)) {
        rustix::fs::seek(&fd, start).map_err(|errno| {
            let remedy = match (errno, start) {
                (Errno::INVAL, SeekFrom::End(..0)) => Some("that is before its start"),
                (Errno::SPIPE, _) => Some(NO_PLACES),
                _ => None,
            };
            OpenError::new("seek", errno).hinted_by(remedy)
        })?;
    }
    end(fd, &path.to_string_lossy(), options, how)
}

/// The flags of open(2) that the options of the address set.
pub(super) fn flags(options: &OptionSet, how: &OpenOptions) -> Result<OFlags, OpenError> {
    let access = access(options, how);
    how.fits(access != OFlags::WRONLY, access != OFlags::RDONLY)?;
    let mut flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    for (option, flag) in [
        (Opt::Append, OFlags::APPEND),
        (Opt::Create, OFlags::CREATE),
        (Opt::Truncate, OFlags::TRUNC),
        (Opt::Exclusive, OFlags::EXCL),
        (Opt::NoAtime, OFlags::NOATIME),
        (Opt::NoFollow, OFlags::NOFOLLOW),
        (Opt::Sync, OFlags::SYNC),
        (Opt::DataSync, OFlags::DSYNC),
    ] {
        // O_SYNC contains O_DSYNC.
        flags.set(flag, flags.contains(flag) || options.is_on(option));
    }
    if !is_read_only(flags) {
        return Ok(flags);
    }
    if flags.contains(OFlags::TRUNC) {
        let error = OpenError::said("open", "trunc would empty a file that is only read");
        return Err(error.hinted("say trunc at the address that is written"));
    }
    Ok(flags)
}

fn is_read_only(flags: OFlags) -> bool {
    flags & OFlags::RWMODE == OFlags::RDONLY
}

/// A call of open(2), and the permissions of a file that it creates.
struct OpenCall<'a> {
    path: &'a Path,
    flags: OFlags,
    mode: Mode,
    permissions: Permissions,
}

impl OpenCall<'_> {
    /// Is the file created with O_EXCL, so that only its creator sets the permissions?
    fn gives_permissions(&self) -> bool {
        self.permissions.are_named() && self.flags.contains(OFlags::CREATE)
    }

    /// Opens the file, once no other process has a lease on it.
    async fn once_free(&self, is_regular: bool) -> Result<Result<OwnedFd, Errno>, OpenError> {
        let mut pause = Duration::from_millis(1);
        loop {
            match self.make()? {
                // The holder has to release it (fcntl(2), F_SETLEASE). Without O_NONBLOCK, open(2)
                // would block all connections until then.
                Err(Errno::AGAIN) if is_regular => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                opened => return Ok(opened),
            }
        }
    }

    fn make(&self) -> Result<Result<OwnedFd, Errno>, OpenError> {
        let open = |flags| rustix::fs::open(self.path, flags, self.mode);
        let opened = match self.gives_permissions() {
            false => open(self.flags),
            true => match open(self.flags | OFlags::EXCL) {
                Ok(fd) => return self.permissions.give_new(&fd).map(|()| Ok(fd)),
                // O_EXCL does not follow links (open(2)); through a dangling one, O_CREAT would
                // create a file with this process's owner.
                Err(Errno::EXIST) if !self.flags.contains(OFlags::EXCL) => {
                    open(self.flags - OFlags::CREATE)
                }
                refused => refused,
            },
        };
        if let Ok(there) = &opened {
            self.permissions.give_away(there)?;
        }
        Ok(opened)
    }

    fn remedy(&self, options: &OptionSet, errno: Errno) -> Option<Cow<'static, str>> {
        let Self { path, flags, .. } = self;
        let makes = flags.contains(OFlags::CREATE);
        let remedy = match errno {
            Errno::NOENT => return Some(self.remedy_if_missing(options)),
            Errno::ISDIR => Some(NO_BYTES),
            Errno::EXIST => Some("the file exists; drop excl or choose another name"),
            Errno::ACCESS | Errno::ROFS if flags.contains(OFlags::RDWR) => Some(
                "it is opened for reading and writing; for one direction say rdonly, wronly, or `gush link -u`",
            ),
            _ if makes && !path.exists() => gush_text::remedy_at(CWD, path, Doing::Making, errno),
            _ => gush_text::remedy_at(CWD, path, Doing::Opening, errno),
        };
        remedy.map(Cow::Borrowed)
    }

    fn remedy_if_missing(&self, options: &OptionSet) -> Cow<'static, str> {
        let Self { path, flags, .. } = self;
        let makes = flags.contains(OFlags::CREATE);
        let remedy = if is_read_only(*flags) {
            "it is read, so it must be there; retry=N waits for it"
        } else if self.gives_permissions() && path.is_symlink() {
            "the link leads to a missing file, and only a file made here gets an owner: name that file"
        } else if names_terminal(path, options) {
            "no such device: is it connected? retry=N waits for it"
        } else if let Some(first) = gush_text::missing_directory(path) {
            return match makes {
                true => first.into(),
                false => format!("{first}; then add create").into(),
            };
        } else if makes {
            "no file can be made there"
        } else {
            "the option create makes a missing file, where it is written"
        };
        remedy.into()
    }
}

/// Is it a device, by its settings or its directory?
fn names_terminal(path: &Path, options: &OptionSet) -> bool {
    let is_device = path.parent().is_some_and(|parent| parent == Path::new("/dev"));
    is_device || options.has(Opt::Terminal)
}

/// Waits for the other side without blocking other connections, as open(2) would (fifo(7)).
async fn fifo(path: &Path, options: &OptionSet, how: &OpenOptions) -> Result<End, OpenError> {
    let access = access(options, how);
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut pause = Duration::from_millis(1);
    let fd = loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => break fd,
            Err(Errno::NXIO) if options.is_on(Opt::NonBlock) => {
                return Err(OpenError::new("open", Errno::NXIO).hinted(
                    "no program reads the FIFO: without nonblock its reader is waited for",
                ));
            }
            // No reader yet, and no event for one: its open(2) waits for ours.
            Err(Errno::NXIO) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(errno) => return Err(OpenError::new("open", errno)),
        }
    };
    Permissions::of_file(options)?.give_away(&fd)?;
    if access == OFlags::RDONLY && !options.is_on(Opt::NonBlock) {
        writer(&fd).await.step("open")?;
    }
    end(fd, &path.to_string_lossy(), options, how)
}

/// Waits until a FIFO has, or had, a writer: before, a read returns 0, as at the end of data.
async fn writer(fifo: &OwnedFd) -> io::Result<()> {
    // A new reader sees no hang-up before there was a writer (pipe_poll in fs/pipe.c).
    let waiting = watch(fifo.as_fd(), Interest::READABLE)?;
    let (_reader, scratch) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut pause = Duration::from_millis(1);
    loop {
        // tee(2) consumes nothing, and fails with EAGAIN only if there is a writer (ipipe_prep in
        // fs/splice.c), which causes no event before it writes.
        match rustix::pipe::tee(fifo, &scratch, 1, SpliceFlags::NONBLOCK) {
            Ok(0) => {}
            Ok(_) | Err(Errno::AGAIN) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if let Ok(ready) = tokio::time::timeout(pause, waiting.readable()).await {
            ready?.retain_ready();
            return Ok(());
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn end(fd: OwnedFd, name: &str, options: &OptionSet, how: &OpenOptions) -> Result<End, OpenError> {
    let fails_late = how.is_graceful() && !how.is_one_way() && options.is_on(Opt::ReadOnly);
    let conduit = match fails_late {
        // The first byte for it is an EBADF: without one, the file is read in peace.
        true => fd.try_clone().and_then(|copy| Conduit::of_two(fd, copy)),
        false => Conduit::new(fd),
    };
    let conduit = conduit.step("open")?;
    let mut end = End::new(how.narrowed(conduit)?, Peer::Other(name.to_owned()));
    let fd = end.conduit.read_fd().or_else(|| end.conduit.write_fd());
    end.origin.is_line = fd.is_some_and(rustix::termios::isatty);
    end.set_as_terminal(options)
}
