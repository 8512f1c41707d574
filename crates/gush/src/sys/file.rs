//! Calls on files: cloning, copying inside the kernel, size, space, advice, position.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    self, Advice, AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat, StatxFlags,
};
use rustix::io::{self, Errno};
use rustix::termios::OutputModes;

use super::Call;
use super::data::before_last_offset;
use super::seam::{plain, sized};

/// `ioctl_ficlone(2)`: the whole of `source` becomes the content of `target`.
pub(crate) fn ficlone(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    plain(Call::Ficlone, || fs::ioctl_ficlone(target, source))
}

/// `struct file_clone_range` of `include/uapi/linux/fs.h`.
#[repr(C)]
struct FileCloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

/// `_IOW(0x94, 13, struct file_clone_range)`; the C library defines the number by the
/// architecture's rules.
const FICLONERANGE: libc::Ioctl = libc::FICLONERANGE;

/// `ioctl_ficlonerange(2)`: shares `len` bytes; 0 means to the end of the source.
pub(crate) fn ficlone_range(
    source: BorrowedFd<'_>,
    source_at: u64,
    len: u64,
    target: BorrowedFd<'_>,
    target_at: u64,
) -> io::Result<()> {
    // Made by hand: rustix has FICLONE only.
    plain(Call::FicloneRange, || {
        let range = FileCloneRange {
            src_fd: i64::from(source.as_raw_fd()),
            src_offset: source_at,
            src_length: len,
            dest_offset: target_at,
        };
        // SAFETY: both descriptors are borrowed for the call, and the kernel only reads `range`.
        let answer = unsafe { libc::ioctl(target.as_raw_fd(), FICLONERANGE, &raw const range) };
        if answer == 0 { Ok(()) } else { Err(last_errno()) }
    })
}

pub(crate) fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// `copy_file_range(2)` by the raw system call: the wrapper of glibc 2.41 and 2.42 cut the result
/// short.
pub(crate) fn copy_file_range(
    source: BorrowedFd<'_>,
    source_at: Option<&mut u64>,
    target: BorrowedFd<'_>,
    target_at: Option<&mut u64>,
    len: usize,
) -> io::Result<usize> {
    let len = before_last_offset(source_at.as_deref().copied(), len);
    let len = before_last_offset(target_at.as_deref().copied(), len);
    sized(Call::CopyFileRange, len, |len| {
        fs::copy_file_range(source, source_at, target, target_at, len)
    })
}

/// `sendfile(2)`: the target is written at the descriptor's position.
pub(crate) fn sendfile(
    source: BorrowedFd<'_>,
    source_at: Option<&mut u64>,
    target: BorrowedFd<'_>,
    len: usize,
) -> io::Result<usize> {
    let len = before_last_offset(source_at.as_deref().copied(), len);
    sized(Call::Sendfile, len, |len| fs::sendfile(target, source, source_at, len))
}

/// Does sendfile(2) into a pipe end where the pipe is full? Since Linux 5.12 it does, as a splice
/// into that pipe; before, it held the caller until all bytes were accepted, and refused a socket
/// as source (`do_sendfile` of fs/read_write.c). So a socket is asked about.
///
/// The question is no part of a move, so that no plan of faults sees these calls.
pub(crate) fn sendfile_ends_at_full_pipe() -> io::Result<bool> {
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let (near, far) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        flags,
        None,
    )?;
    let (_reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    io::write(&far, b"x")?;
    match fs::sendfile(&writer, &near, None, 1) {
        Ok(sent) => Ok(sent == 1),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The major and minor number of the device of a special file.
pub(crate) fn device_numbers(stat: &Stat) -> (u32, u32) {
    (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
}

pub(crate) fn fstat(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    plain(Call::Fstat, || fs::fstat(fd))
}

/// Is this a regular file? `false` also if unknown.
pub(crate) fn is_regular(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// The magic number of a file system (statfs(2)), without the sign of some architectures.
pub(crate) fn file_system(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // f_type is signed and of another width elsewhere; magic numbers have 32 bits.
    plain(Call::Fstatfs, || fs::fstatfs(fd)).map(|fs| fs.f_type as u64 & 0xffff_ffff)
}

/// The id of a file system (statfs(2)); 0 where there is none.
pub(crate) fn file_system_fsid(fd: BorrowedFd<'_>) -> io::Result<u64> {
    plain(Call::Fstatfs, || fs::fstatvfs(fd)).map(|fs| fs.f_fsid)
}

/// `STATX_DIOALIGN`: how offsets and memory must be aligned for O_DIRECT; the kernel leaves the
/// field out before Linux 6.1, and for files without O_DIRECT (statx(2)).
pub(crate) fn direct_alignment(fd: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let asked = StatxFlags::DIOALIGN;
    let statx = plain(Call::Statx, || fs::statx(fd, "", AtFlags::EMPTY_PATH, asked))?;
    // A kernel that does not know the field leaves it 0, which would read as "aligned anyhow".
    let answered = StatxFlags::from_bits_retain(statx.stx_mask).contains(asked);
    // One number for both: buffers and offsets are then aligned alike.
    Ok(answered.then(|| u64::from(statx.stx_dio_offset_align.max(statx.stx_dio_mem_align))))
}

/// `F_GETFL` (fcntl(2)).
pub(crate) fn flags(fd: BorrowedFd<'_>) -> io::Result<OFlags> {
    plain(Call::GetFlags, || fs::fcntl_getfl(fd))
}

/// Only a terminal has a window size (`TIOCGWINSZ`, ioctl_tty(2)), which is how rustix's `isatty`
/// asks.
pub(crate) fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    plain(Call::WindowSize, || rustix::termios::tcgetwinsize(fd)).is_ok()
}

/// The size of a file; one that is unknown is an error, and never 0.
pub(crate) fn size_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    u64::try_from(fstat(fd)?.st_size).map_err(|_| Errno::OVERFLOW)
}

/// The size of a block device (`BLKGETSIZE64` of `include/uapi/linux/fs.h`).
pub(crate) fn block_device_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // `_IOR(0x12, 114, size_t)`, although the kernel stores a u64 (`blkdev_common_ioctl` of
    // block/ioctl.c).
    const BLKGETSIZE64: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<usize>(0x12, 114);
    plain(Call::BlockSize, || {
        // SAFETY: the request stores one u64, in the getter's own.
        let request = unsafe { rustix::ioctl::Getter::<BLKGETSIZE64, u64>::new() };
        // SAFETY: above; nothing else of the caller's memory is touched.
        unsafe { rustix::ioctl::ioctl(fd, request) }
    })
}

/// The UUID of the file system of an open file (`FS_IOC_GETFSUUID`, Linux 6.9); zeros follow a
/// shorter one.
pub(crate) fn file_system_uuid(fd: BorrowedFd<'_>) -> io::Result<[u8; 16]> {
    /// `struct fsuuid2` of `include/uapi/linux/fs.h`: the length, and the UUID.
    const FS_IOC_GETFSUUID: rustix::ioctl::Opcode =
        rustix::ioctl::opcode::read::<[u8; 17]>(0x15, 0);
    plain(Call::GetUuid, || {
        // SAFETY: the request stores 17 bytes, in the getter's own.
        let request = unsafe { rustix::ioctl::Getter::<FS_IOC_GETFSUUID, [u8; 17]>::new() };
        // SAFETY: above; nothing else of the caller's memory is touched.
        let [_, uuid @ ..] = unsafe { rustix::ioctl::ioctl(fd, request) }?;
        Ok(uuid)
    })
}

/// The changes that a terminal makes to written bytes (`c_oflag`, termios(3)).
pub(crate) fn output_modes(fd: BorrowedFd<'_>) -> io::Result<OutputModes> {
    plain(Call::TerminalModes, || rustix::termios::tcgetattr(fd)).map(|modes| modes.output_modes)
}

/// Only the master of a pseudo-terminal has the number of the slave (`TIOCGPTN`, ioctl_tty(2)).
pub(crate) fn is_terminal_master(fd: BorrowedFd<'_>) -> bool {
    plain(Call::TerminalNumber, || rustix::pty::ptsname(fd, Vec::new())).is_ok()
}

/// How many descriptors this process may have (`RLIMIT_NOFILE`, getrlimit(2)); `None` without a
/// limit.
pub(crate) fn descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    plain(Call::GetLimit, || Ok(getrlimit(Resource::Nofile).current)).ok().flatten()
}

pub(crate) fn seek(fd: BorrowedFd<'_>, to: SeekFrom) -> io::Result<u64> {
    plain(Call::Lseek, || fs::seek(fd, to))
}

pub(crate) fn ftruncate(fd: BorrowedFd<'_>, size_bytes: u64) -> io::Result<()> {
    plain(Call::Ftruncate, || fs::ftruncate(fd, size_bytes))
}

pub(crate) fn fallocate(
    fd: BorrowedFd<'_>,
    flags: FallocateFlags,
    at: u64,
    len: u64,
) -> io::Result<()> {
    plain(Call::Fallocate, || fs::fallocate(fd, flags, at, len))
}

pub(crate) fn fadvise(fd: BorrowedFd<'_>, at: u64, len: u64, advice: Advice) -> io::Result<()> {
    // A length of 0 means "to the end" (posix_fadvise(2)).
    plain(Call::Fadvise, || fs::fadvise(fd, at, std::num::NonZeroU64::new(len), advice))
}

/// `cachestat(2)` (Linux 6.5): how many pages of a range the page cache holds.
pub(crate) fn cachestat(fd: BorrowedFd<'_>, at: u64, len: u64) -> io::Result<u64> {
    /// The same on every architecture (`scripts/syscall.tbl`).
    const CACHESTAT: libc::c_long = 451;
    // `struct cachestat_range` and `struct cachestat` of `include/uapi/linux/mman.h`; a length of 0
    // means "to the end".
    let range = [at, len];
    let mut stat = [0_u64; 5];
    // SAFETY: the kernel reads two words of `range` and writes five of `stat`, which both live
    // longer than the call.
    let answer = unsafe {
        libc::syscall(CACHESTAT, fd.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0_u32)
    };
    if answer == 0 { Ok(stat[0]) } else { Err(last_errno()) }
}

/// `sync_file_range(2)`: begins to write the dirty pages of a range.
pub(crate) fn start_write_out(fd: BorrowedFd<'_>, at: u64, len: u64) -> io::Result<()> {
    sync_file_range(fd, at, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// `sync_file_range(2)`: writes the dirty pages of a range, and waits for them.
pub(crate) fn write_out(fd: BorrowedFd<'_>, at: u64, len: u64) -> io::Result<()> {
    const WHOLLY: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(fd, at, len, WHOLLY)
}

fn sync_file_range(fd: BorrowedFd<'_>, at: u64, len: u64, flags: libc::c_uint) -> io::Result<()> {
    let [at, len] = [at, len].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    // SAFETY: numbers alone; `fd` is borrowed for the call.
    let answer = unsafe { libc::sync_file_range(fd.as_raw_fd(), at, len, flags) };
    if answer == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Opens the file of `fd` once more, with a new file description (proc(5), `/proc/self/fd`).
pub(crate) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    plain(Call::Open, || {
        // O_NOCTTY: a terminal opened again must not become the controlling one of a session
        // leader.
        fs::openat(fs::CWD, &path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    })
}

/// A file in memory, without a name (memfd_create(2)).
pub(crate) fn in_memory() -> io::Result<OwnedFd> {
    plain(Call::MemfdCreate, || fs::memfd_create(c"gush", fs::MemfdFlags::CLOEXEC))
}

/// `struct fiemap` of `include/uapi/linux/fiemap.h`, without room for extents.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    fm_start: u64,
    fm_length: u64,
    fm_flags: u32,
    fm_mapped_extents: u32,
    fm_extent_count: u32,
    fm_reserved: u32,
}

/// `FIEMAP_FLAG_SYNC`: write back first, so that delayed allocation shows.
const FIEMAP_FLAG_SYNC: u32 = 1;

/// How many extents a file has, by a witness other than lseek: `FS_IOC_FIEMAP`.
///
/// EOPNOTSUPP where there is no such witness (tmpfs, FUSE, NFS).
pub(crate) fn extent_count(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // The count of extents alone is asked for, so no room for them is given (fm_extent_count 0).
    let mut map = Fiemap { fm_length: u64::MAX, fm_flags: FIEMAP_FLAG_SYNC, ..Fiemap::default() };
    let request = rustix::ioctl::opcode::read_write::<Fiemap>(b'f', 11);
    plain(Call::Fiemap, || {
        // SAFETY: the kernel reads and writes one `struct fiemap`, and no extents as the count is
        // 0.
        let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, &raw mut map) };
        if answer == 0 { Ok(map.fm_mapped_extents) } else { Err(last_errno()) }
    })
}
