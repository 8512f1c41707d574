//! What a descriptor is: its kind, file system, size, position and flags.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, OFlags, SeekFrom, Stat};
use rustix::io::{self, Errno};
use rustix::net::SocketType;
use rustix::net::sockopt;

use crate::sys::{self, Call};

/// The kinds that the plan tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file whose size and offsets mean something.
    File,
    /// A regular file that the kernel makes up while it is read (procfs, sysfs): its size lies.
    Pseudo,
    /// A pipe or FIFO.
    Pipe,
    /// A stream socket: TCP or unix.
    Stream,
    /// A datagram or seqpacket socket: boundaries count.
    Datagram,
    /// A terminal.
    Terminal,
    /// Another character device, such as `/dev/zero`.
    Character,
    /// A block device.
    Block,
    /// A directory: no bytes to move.
    Directory,
    /// Anything else (eventfd, epoll, …).
    Other,
}

impl Kind {
    /// Can it be idle, so that one must poll before splicing from it (invariant 5)?
    #[must_use]
    pub fn can_idle(self) -> bool {
        !matches!(self, Kind::File | Kind::Pseudo | Kind::Block | Kind::Directory)
    }
}

/// One side of a move, as fstat(2), fcntl(2), lseek(2) and getsockopt(2) describe it.
///
/// ```
/// let file = tempfile::tempfile()?;
/// let endpoint = gush::Endpoint::of(&file)?;
/// assert_eq!(endpoint.kind(), gush::Kind::File);
/// assert_eq!(endpoint.position(), Some(0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'fd> {
    fd: BorrowedFd<'fd>,
    kind: Kind,
    flags: OFlags,
    position: Option<u64>,
    size_bytes: u64,
    allocated_bytes: u64,
    block_bytes: u64,
    device: u64,
    inode: u64,
}

impl<'fd> Endpoint<'fd> {
    /// Looks at a descriptor.
    ///
    /// # Errors
    /// `EBADF`, or `EIO` from a file system that cannot answer.
    pub fn of(fd: &'fd impl AsFd) -> io::Result<Self> {
        Self::of_borrowed(fd.as_fd())
    }

    pub(crate) fn of_borrowed(fd: BorrowedFd<'fd>) -> io::Result<Self> {
        Self::look(fd).map_err(|(_, errno)| errno)
    }

    /// As [`Endpoint::of`]; the error names the call that failed.
    pub(crate) fn look(fd: BorrowedFd<'fd>) -> Result<Self, (Call, Errno)> {
        let by = |call| move |errno| (call, errno);
        let stat = sys::file::fstat(fd).map_err(by(Call::Fstat))?;
        let flags = rustix::fs::fcntl_getfl(fd).map_err(by(Call::GetFlags))?;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        let position = match file_type {
            FileType::RegularFile | FileType::BlockDevice => {
                own_position(fd).map_err(by(Call::Lseek))?
            }
            _ => None,
        };
        let kind = kind_of(fd, file_type, &stat, position);
        let size_bytes = match kind {
            Kind::Block => block_device_bytes(fd, position).map_err(by(Call::Lseek))?,
            _ => u64::try_from(stat.st_size).unwrap_or(0),
        };
        Ok(Self {
            fd,
            kind,
            flags,
            position,
            size_bytes,
            allocated_bytes: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            block_bytes: u64::try_from(stat.st_blksize).unwrap_or(4096).max(1),
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The file position in bytes, where there is one.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    /// The size in bytes when it was looked at; 0 for streams, a lie for [`Kind::Pseudo`].
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// `st_blksize`: the file system's preferred unit in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The number of the file system's device (`st_dev`).
    #[must_use]
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Was it opened with `O_APPEND`? Then every write goes to the end, and splice refuses it.
    #[must_use]
    pub fn is_append(&self) -> bool {
        self.flags.contains(OFlags::APPEND)
    }

    /// Was it opened for writing only?
    pub(crate) fn is_write_only(&self) -> bool {
        self.flags & OFlags::RWMODE == OFlags::WRONLY
    }

    /// Was it opened with `O_NONBLOCK`?
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.flags.contains(OFlags::NONBLOCK)
    }

    /// Was it opened with `O_DIRECT`, so that addresses, offsets and lengths must be aligned?
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.kind == Kind::File && self.flags.contains(OFlags::DIRECT)
    }

    /// Does it have offsets that may be named (a real file or block device)?
    #[must_use]
    pub fn has_offsets(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Block) && self.position.is_some()
    }

    /// Can bytes be written at a named offset? `O_APPEND` ignores offsets (pwrite(2), "BUGS").
    #[must_use]
    pub fn takes_offsets(&self) -> bool {
        self.has_offsets() && !self.is_append()
    }

    /// Is it on a file system whose copies pass through this machine's page cache?
    pub(crate) fn is_local(&self) -> bool {
        self.local_file_system().is_some_and(|name| name != "overlay")
    }

    /// The name of its file system, where that is one whose copies this machine makes itself: the names
    /// that a [`crate::Profile`] knows.
    ///
    /// ```
    /// let dev = std::fs::File::open("/proc/version")?;
    /// assert_eq!(gush::Endpoint::of(&dev)?.local_file_system(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn local_file_system(&self) -> Option<&'static str> {
        let magic = self.file_system()?;
        LOCAL.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
    }

    /// All names that [`Endpoint::local_file_system`] can answer.
    pub(crate) fn local_file_systems() -> impl Iterator<Item = &'static str> {
        LOCAL.iter().map(|(_, name)| *name)
    }

    /// What its blocks say about holes: fewer of them than the size needs make it worth asking.
    ///
    /// Two kinds of file are not believed when SEEK_HOLE speaks: those on FUSE (a virtiofs called a
    /// full file one hole), and those without any block (inline data, network file systems), unless
    /// a second witness agrees: FIEMAP, which knows of no extent either, or tmpfs, whose blocks are
    /// the very pages that a read would find.
    pub(crate) fn holes(&self) -> HoleReport {
        if self.kind != Kind::File || self.allocated_bytes >= self.size_bytes {
            return HoleReport::None;
        }
        let believed = match self.file_system() {
            Some(FUSE_MAGIC) => false,
            Some(TMPFS_MAGIC) => true,
            _ => self.allocated_bytes > 0 || sys::file::extent_count(self.fd) == Ok(0),
        };
        if believed { HoleReport::Believed } else { HoleReport::Suspect }
    }

    /// The magic number of its file system (statfs(2)).
    fn file_system(&self) -> Option<u64> {
        rustix::fs::fstatfs(self.fd).ok().map(|fs| fs.f_type as u64 & 0xffff_ffff)
    }

    /// Is it the same file as the other (device and inode)?
    #[must_use]
    pub fn is_same_file(&self, other: &Endpoint<'_>) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// How far a file's report of its holes can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoleReport {
    /// It has none.
    None,
    /// SEEK_DATA and SEEK_HOLE tell.
    Believed,
    /// Only the bytes tell.
    Suspect,
}

/// Magic numbers of `include/uapi/linux/magic.h`.
const FUSE_MAGIC: u64 = 0x6573_5546;
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// ext2 and ext3 have ext4's. What an overlay stands on may be a server's.
const LOCAL: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x8584_58f6, "ramfs"),
    (TMPFS_MAGIC, "tmpfs"),
    (0x794c_7630, "overlay"),
];

fn own_position(fd: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    match sys::file::seek(fd, SeekFrom::Current(0)) {
        Ok(position) => Ok(Some(position)),
        Err(Errno::SPIPE | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn kind_of(fd: BorrowedFd<'_>, file_type: FileType, stat: &Stat, position: Option<u64>) -> Kind {
    match file_type {
        FileType::RegularFile if position.is_none() || is_pseudo(fd, stat) => Kind::Pseudo,
        FileType::RegularFile => Kind::File,
        FileType::Fifo => Kind::Pipe,
        FileType::BlockDevice => Kind::Block,
        FileType::Directory => Kind::Directory,
        FileType::CharacterDevice if rustix::termios::isatty(fd) => Kind::Terminal,
        FileType::CharacterDevice => Kind::Character,
        FileType::Socket => match sockopt::socket_type(fd) {
            Ok(SocketType::STREAM) => Kind::Stream,
            _ => Kind::Datagram,
        },
        _ => Kind::Other,
    }
}

/// The kernel's made-up files: no blocks, and a size of 0 (procfs) or of one page (sysfs).
fn is_pseudo(fd: BorrowedFd<'_>, stat: &Stat) -> bool {
    /// procfs, sysfs, debugfs, tracefs, securityfs, cgroup, cgroup2, configfs, bpf
    /// (`include/uapi/linux/magic.h`).
    const MADE_UP: [u64; 9] = [
        0x9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x0027_e0eb,
        0x6367_7270,
        0x6265_6570,
        0xcafe_4a11,
    ];
    stat.st_blocks == 0
        && (0..=65536).contains(&stat.st_size)
        && rustix::fs::fstatfs(fd)
            .is_ok_and(|fs| MADE_UP.contains(&(fs.f_type as u64 & 0xffff_ffff)))
}

/// fstat says 0 for a block device; its end says the size.
fn block_device_bytes(fd: BorrowedFd<'_>, position: Option<u64>) -> io::Result<u64> {
    let Some(position) = position else { return Ok(0) };
    let end = sys::file::seek(fd, SeekFrom::End(0))?;
    sys::file::seek(fd, SeekFrom::Start(position))?;
    Ok(end)
}
