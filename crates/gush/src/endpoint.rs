//! The look at a descriptor: kind, file system, size, position and flags.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, OFlags, SeekFrom, Stat};
use rustix::io::{self, Errno};
use rustix::net::SocketType;

use crate::access;
use crate::fault::Fault;
use crate::file_system::FileSystem;
use crate::kernel::is_refusal;
use crate::pages::HUGE_PAGE_BYTES;
use crate::port::{PortState, Side};
use crate::sys::{self, Call};

/// The kinds of descriptor in the plan.
///
/// ```
/// let (reader, _writer) = std::io::pipe()?;
/// assert_eq!(gush::Endpoint::of(&reader)?.kind(), gush::Kind::Pipe);
/// let made_up = std::fs::File::open("/proc/version")?;
/// assert_eq!(gush::Endpoint::of(&made_up)?.kind(), gush::Kind::Pseudo);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file whose size and offsets mean something.
    File,
    /// A regular file made up by the kernel while being read (procfs, sysfs): the size lies.
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
    /// Can the source be idle, so that a splice needs a poll before (invariant 5)?
    ///
    /// ```
    /// assert!(gush::Kind::Terminal.can_idle());
    /// assert!(!gush::Kind::File.can_idle());
    /// ```
    #[must_use]
    pub fn can_idle(self) -> bool {
        !matches!(self, Kind::File | Kind::Pseudo | Kind::Block | Kind::Directory)
    }

    /// Has the descriptor send(2) and recv(2), with flags of their own?
    pub(crate) fn is_socket(self) -> bool {
        matches!(self, Kind::Stream | Kind::Datagram)
    }
}

/// One side of a move, as fstat(2), fcntl(2), lseek(2) and getsockopt(2) describe the descriptor.
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
    state: PortState,
    position: Option<u64>,
    size_bytes: u64,
    allocated_bytes: u64,
    block_bytes: u64,
    device: u64,
    inode: u64,
    /// The device of a device node (`st_rdev`).
    block_device: u64,
}

impl<'fd> Endpoint<'fd> {
    /// Looks at a descriptor.
    ///
    /// # Errors
    /// `EBADF`, or `EIO` from a broken file system.
    pub fn of(fd: &'fd impl AsFd) -> io::Result<Self> {
        Self::of_borrowed(fd.as_fd())
    }

    /// A regular file that the caller has just opened and looked at, without another call.
    ///
    /// `stat` is the answer of fstat(2) for this descriptor, and `flags` are those of open(2); the
    /// position is still 0. `None` for any other file. Wrong arguments make a wrong copy.
    ///
    /// ```
    /// use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
    ///
    /// let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    /// let file = openat(CWD, "/proc/self/exe", flags, Mode::empty())?;
    /// let endpoint = gush::Endpoint::of_opened_file(&file, &fstat(&file)?, flags).unwrap();
    /// assert_eq!(endpoint.kind(), gush::Kind::File);
    /// assert_eq!(endpoint.size_bytes(), gush::Endpoint::of(&file)?.size_bytes());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn of_opened_file(fd: &'fd impl AsFd, stat: &Stat, flags: OFlags) -> Option<Self> {
        let fd = fd.as_fd();
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        // The kernel makes up no file that a user creates.
        let is_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
        let kind = match is_new || !is_pseudo(fd, stat) {
            true => Kind::File,
            false => Kind::Pseudo,
        };
        is_file.then(|| Self::new(fd, PortState::of_kind(kind, flags), stat, Some(0)))
    }

    /// A regular file just created with `O_CREAT | O_EXCL` and these flags; no call is made.
    ///
    /// `device` is `st_dev` of the directory. A wrong number costs calls, and no byte.
    ///
    /// ```
    /// use std::os::unix::fs::MetadataExt;
    /// use rustix::fs::{CWD, Mode, OFlags, openat};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    /// let file = openat(CWD, dir.path().join("new"), flags, Mode::RUSR)?;
    /// let device = std::fs::metadata(dir.path())?.dev();
    /// let endpoint = gush::Endpoint::of_new_file(&file, device, flags);
    /// assert_eq!(endpoint.device(), gush::Endpoint::of(&file)?.device());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn of_new_file(fd: &'fd impl AsFd, device: u64, flags: OFlags) -> Self {
        Self {
            fd: fd.as_fd(),
            state: PortState::of_kind(Kind::File, flags),
            position: Some(0),
            size_bytes: 0,
            allocated_bytes: 0,
            // A page, as long as nobody has asked.
            block_bytes: 4096,
            device,
            // No file has this number, and no source can be the file that was made after it.
            inode: 0,
            block_device: 0,
        }
    }

    fn new(fd: BorrowedFd<'fd>, state: PortState, stat: &Stat, position: Option<u64>) -> Self {
        Self {
            fd,
            state,
            position,
            // st_size is signed, and a negative size is none.
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            // st_blocks counts units of 512 bytes whatever the block size is (stat(3type)).
            allocated_bytes: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            block_bytes: u64::try_from(stat.st_blksize).unwrap_or(4096).max(1),
            device: stat.st_dev,
            inode: stat.st_ino,
            block_device: stat.st_rdev,
        }
    }

    pub(crate) fn of_borrowed(fd: BorrowedFd<'fd>) -> io::Result<Self> {
        Self::look(fd).map_err(|(_, errno)| errno)
    }

    /// As [`Endpoint::of`]; the error names the failed call.
    pub(crate) fn look(fd: BorrowedFd<'fd>) -> Result<Self, (Call, Errno)> {
        let by = |call| move |errno| (call, errno);
        let stat = sys::file::fstat(fd).map_err(by(Call::Fstat))?;
        let flags = sys::file::flags(fd).map_err(by(Call::GetFlags))?;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        let position = match file_type {
            // lseek(2) answers EBADF.
            _ if flags.contains(OFlags::PATH) => None,
            FileType::RegularFile | FileType::BlockDevice => {
                own_position(fd).map_err(by(Call::Lseek))?
            }
            _ => None,
        };
        let (kind, ends_at_zero) = kind_of(fd, file_type, &stat, position);
        let mut state = PortState::of_kind(kind, flags);
        state.can_idle &= !is_memory_device(file_type, &stat);
        state.is_master = kind == Kind::Terminal && sys::file::is_terminal_master(fd);
        state.ends_at_zero = ends_at_zero;
        let mut endpoint = Self::new(fd, state, &stat, position);
        if kind == Kind::Block {
            // fstat(2) answers 0 for a device: no progress could be shown and no range planned.
            endpoint.size_bytes = block_device_bytes(fd, position).map_err(by(Call::BlockSize))?;
        }
        Ok(endpoint)
    }

    /// As [`Endpoint::look`], and checks that the descriptor can be read, or written.
    pub(crate) fn look_as(fd: BorrowedFd<'fd>, side: Side) -> Result<Self, Fault> {
        let endpoint = Self::look(fd).map_err(|(call, errno)| Fault { call, side, errno })?;
        access::check(&endpoint, side).map(|()| endpoint)
    }

    /// Takes note of a file's present size.
    pub(crate) fn look_at_size(&mut self) -> io::Result<()> {
        if self.state.kind == Kind::File {
            self.size_bytes = sys::file::size_bytes(self.fd)?;
        }
        Ok(())
    }

    /// Looks at the size of a file again; answers whether the file is smaller now.
    pub(crate) fn has_shrunk(&mut self) -> io::Result<bool> {
        let size_bytes = sys::file::size_bytes(self.fd)?;
        // A made-up file may report another size each time, which means nothing.
        let has_shrunk = self.state.kind == Kind::File && size_bytes < self.size_bytes;
        if has_shrunk {
            self.size_bytes = size_bytes;
        }
        Ok(has_shrunk)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    /// What a port keeps of this look.
    pub(crate) fn state(&self) -> PortState {
        self.state
    }

    /// The kind of file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.state.kind
    }

    /// As [`Kind::can_idle`], except that `/dev/null`, `/dev/zero` and `/dev/full` are always
    /// ready.
    ///
    /// ```
    /// let null = std::fs::File::open("/dev/null")?;
    /// let endpoint = gush::Endpoint::of(&null)?;
    /// assert!(endpoint.kind().can_idle() && !endpoint.can_idle());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn can_idle(&self) -> bool {
        self.state.can_idle
    }

    /// The file position in bytes, where there is one.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    /// The size in bytes at the last look; 0 for streams, a lie for [`Kind::Pseudo`].
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

    /// Was the descriptor opened with `O_APPEND`? Every write goes to the end, and splice refuses.
    #[must_use]
    pub fn is_append(&self) -> bool {
        self.state.is_append()
    }

    /// Was the descriptor opened for writing only?
    pub(crate) fn is_write_only(&self) -> bool {
        self.is_open_for_writing() && !self.is_open_for_reading()
    }

    /// Is it open for reading? `O_PATH` and access mode 3 allow no reading.
    pub(crate) fn is_open_for_reading(&self) -> bool {
        self.is_open_for(OFlags::RDONLY)
    }

    /// May the descriptor be written, by the flags of open(2)?
    pub(crate) fn is_open_for_writing(&self) -> bool {
        self.is_open_for(OFlags::WRONLY)
    }

    fn is_open_for(&self, one_way: OFlags) -> bool {
        let flags = self.state.flags;
        let mode = flags & OFlags::RWMODE;
        (mode == one_way || mode == OFlags::RDWR) && !flags.contains(OFlags::PATH)
    }

    /// Does the descriptor have `O_NONBLOCK`?
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.state.is_nonblocking()
    }

    /// Does a splice into the descriptor, or out of it, wait although it was polled? So does one of
    /// a socket without O_NONBLOCK, if another process takes the room or the bytes in between.
    pub(crate) fn holds_splices(&self) -> bool {
        self.state.kind.is_socket() && !self.is_nonblocking()
    }

    /// The same without O_NONBLOCK: any process that shares the description may clear the flag.
    pub(crate) fn without_nonblock(mut self) -> Self {
        self.state.flags -= OFlags::NONBLOCK;
        self
    }

    /// Does the descriptor have `O_DIRECT`, so that addresses, offsets and lengths must be aligned?
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.state.is_direct()
    }

    /// May offsets be named (of a real file or block device)?
    #[must_use]
    pub fn has_offsets(&self) -> bool {
        // Without a position lseek(2) was refused, and pread(2) would be too.
        matches!(self.state.kind, Kind::File | Kind::Block) && self.position.is_some()
    }

    /// Can bytes be written at a named offset? `O_APPEND` ignores offsets (pwrite(2), "BUGS").
    ///
    /// ```
    /// let file = tempfile::NamedTempFile::new()?;
    /// let added_to = std::fs::File::options().append(true).open(file.path())?;
    /// let end = gush::Endpoint::of(&added_to)?;
    /// assert!(end.has_offsets() && end.is_append() && !end.takes_offsets());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn takes_offsets(&self) -> bool {
        self.has_offsets() && !self.is_append()
    }

    /// The report of holes: fewer blocks than the size needs make the question worth a call.
    ///
    /// A file without any block (inline data, network file systems) is believed to be one hole only
    /// if FIEMAP knows of no extent either, or on tmpfs, whose blocks are the pages of a read.
    pub(crate) fn holes(&self) -> HoleReport {
        // A compressed file has fewer blocks, too: SEEK_HOLE then finds no hole, for one call.
        if self.state.kind != Kind::File || self.allocated_bytes >= self.size_bytes {
            return HoleReport::None;
        }
        let believed = match self.file_system() {
            Some(FileSystem::TMPFS) => true,
            // Bytes are read where the report lies: a hole too many in the copy would be lost data.
            known if known.is_none_or(FileSystem::hides_data) => false,
            _ => self.allocated_bytes > 0 || sys::file::extent_count(self.fd) == Ok(0),
        };
        if believed { HoleReport::Believed } else { HoleReport::Suspect }
    }

    /// Was this pipe made by pipe2(2), and not opened by the path of a FIFO?
    pub(crate) fn is_nameless_pipe(&self) -> bool {
        // A FIFO has the number of its file system.
        self.state.kind == Kind::Pipe && self.file_system() == Some(FileSystem::PIPEFS)
    }

    /// The file system; each answer is a statfs(2).
    pub(crate) fn file_system(&self) -> Option<FileSystem> {
        FileSystem::of(self.fd)
    }

    /// Would bytes written here be read there? For one regular file, and one block device.
    pub(crate) fn is_same_content(&self, other: &Endpoint<'_>) -> bool {
        match (self.state.kind, other.state.kind) {
            (Kind::File, Kind::File) => self.is_same_file(other),
            (Kind::Block, Kind::Block) => self.block_device == other.block_device,
            _ => false,
        }
    }

    /// Are the two the same file (device and inode)?
    #[must_use]
    pub fn is_same_file(&self, other: &Endpoint<'_>) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// How far a file's report of holes can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoleReport {
    /// No holes.
    None,
    /// SEEK_DATA and SEEK_HOLE are believed.
    Believed,
    /// Only the bytes are believed.
    Suspect,
}

/// From here on SEEK_DATA is not believed: a page may end beyond the largest offset, and tmpfs
/// takes its data for a hole (`mapping_seek_hole_data` of mm/filemap.c rounds that end up, which
/// wraps around).
pub(crate) const UNSEEN_FROM: u64 = (1 << 63) - HUGE_PAGE_BYTES as u64;

fn own_position(fd: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    match sys::file::seek(fd, SeekFrom::Current(0)) {
        Ok(position) => Ok(Some(position)),
        // Some made-up files cannot seek, which is no failure of the move.
        Err(Errno::SPIPE | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The kind, and whether a read of 0 bytes is the end there.
fn kind_of(
    fd: BorrowedFd<'_>,
    file_type: FileType,
    stat: &Stat,
    position: Option<u64>,
) -> (Kind, bool) {
    let kind = match file_type {
        // Before the next arm: a size that lies would set the goal, and cut the copy there.
        FileType::RegularFile if position.is_none() || is_pseudo(fd, stat) => Kind::Pseudo,
        FileType::RegularFile => Kind::File,
        FileType::Fifo => Kind::Pipe,
        FileType::BlockDevice => Kind::Block,
        FileType::Directory => Kind::Directory,
        FileType::CharacterDevice if sys::file::is_terminal(fd) => Kind::Terminal,
        FileType::CharacterDevice => Kind::Character,
        FileType::Socket => match sys::socket::type_of(fd) {
            Ok(SocketType::STREAM) => Kind::Stream,
            Ok(socket_type) => return (Kind::Datagram, socket_type == SocketType::SEQPACKET),
            // A stream's end must not be taken for an empty datagram.
            Err(_) => Kind::Other,
        },
        _ => Kind::Other,
    };
    (kind, true)
}

/// `/dev/null`, `/dev/zero` and `/dev/full` have no poll method, and never wait
/// (`drivers/char/mem.c`; numbers of `Documentation/admin-guide/devices.txt`).
fn is_memory_device(file_type: FileType, stat: &Stat) -> bool {
    const MEMORY: u32 = 1;
    const NEVER_WAIT: [u32; 3] = [3, 5, 7];
    let (major, minor) = sys::file::device_numbers(stat);
    file_type == FileType::CharacterDevice && major == MEMORY && NEVER_WAIT.contains(&minor)
}

/// The kernel's made-up files: no blocks, and a size of 0 (procfs) or of one page (sysfs).
fn is_pseudo(fd: BorrowedFd<'_>, stat: &Stat) -> bool {
    stat.st_blocks == 0
        && (0..=65536).contains(&stat.st_size)
        && FileSystem::of(fd).is_some_and(FileSystem::is_made_up)
}

/// fstat answers 0 for a block device. Asked by ioctl(2): seeking to the end would move the
/// position of every process that shares the description.
fn block_device_bytes(fd: BorrowedFd<'_>, position: Option<u64>) -> io::Result<u64> {
    match sys::file::block_device_bytes(fd) {
        // A filter that denies ioctl(2) leaves the position of the end.
        Err(errno) if is_refusal(errno) => {}
        answer => return answer,
    }
    let Some(position) = position else { return Ok(0) };
    let end = sys::file::seek(fd, SeekFrom::End(0))?;
    // Put back at once.
    sys::file::seek(fd, SeekFrom::Start(position))?;
    Ok(end)
}
