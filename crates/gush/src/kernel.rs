//! The abilities of this kernel and this process: asked once, when first needed, and remembered.
//!
//! Versions explain, they do not decide (invariant 9): a container's filter, a sandbox kernel or a
//! future change answers the probe, not the version in `uname`.

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::pages::Pages;
use crate::sys;

/// How vmsplice(2) behaves here.
///
/// ```
/// use gush::{Kernel, Vmsplice};
/// match Kernel::get().vmsplice() {
///     Vmsplice::ZeroCopy => println!("pages are handed over"),
///     Vmsplice::Copies => println!("safe, but without the gain"),
///     Vmsplice::Absent(errno) => println!("not here: {errno}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vmsplice {
    /// Pages are handed over: a later store would show through the pipe.
    ZeroCopy,
    /// The kernel copies: safe, but without the gain.
    Copies,
    /// Denied or missing, with the answer given.
    Absent(Errno),
}

/// How splice(2) and sendfile(2) take the bytes of a file.
///
/// ```
/// use gush::{FileSplice, Kernel};
/// match Kernel::get().file_splice() {
///     FileSplice::Shares => println!("a later write to the file can show in bytes already sent"),
///     FileSplice::Copies => println!("bytes already sent stay as they were"),
///     FileSplice::Absent(errno) => println!("files are read: {errno}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSplice {
    /// By reference to the file's pages (`filemap_splice_read` of `mm/filemap.c`).
    Shares,
    /// By a copy (`copy_splice_read` of `fs/splice.c`).
    Copies,
    /// Denied or missing, with the answer given.
    Absent(Errno),
}

/// The facts, each probed when first asked for.
///
/// ```
/// let kernel = gush::Kernel::get();
/// assert!(kernel.pipe_max_bytes() >= 4096);
/// println!("vmsplice: {:?}", kernel.vmsplice());
/// ```
#[derive(Debug)]
pub struct Kernel {
    vmsplice: OnceLock<Vmsplice>,
    vmsplice_into_fifo: OnceLock<Vmsplice>,
    file_splice: OnceLock<FileSplice>,
    advice_drops_pages: OnceLock<bool>,
    sendfile_ends_at_full_pipe: OnceLock<bool>,
    pipe_max_bytes: OnceLock<usize>,
    pipe_user_bytes: OnceLock<Option<usize>>,
    exceeds_pipe_limits: OnceLock<bool>,
    processors: OnceLock<usize>,
}

static KERNEL: Kernel = Kernel {
    vmsplice: OnceLock::new(),
    vmsplice_into_fifo: OnceLock::new(),
    file_splice: OnceLock::new(),
    advice_drops_pages: OnceLock::new(),
    sendfile_ends_at_full_pipe: OnceLock::new(),
    pipe_max_bytes: OnceLock::new(),
    pipe_user_bytes: OnceLock::new(),
    exceeds_pipe_limits: OnceLock::new(),
    processors: OnceLock::new(),
};

impl Kernel {
    /// The running kernel, as seen by this process.
    #[must_use]
    pub fn get() -> &'static Self {
        &KERNEL
    }

    /// Does vmsplice(2) work, and does a later store show through the pipe?
    ///
    /// ```
    /// use gush::{Kernel, Vmsplice};
    /// match Kernel::get().vmsplice() {
    ///     Vmsplice::ZeroCopy => println!("pages are lent"),
    ///     Vmsplice::Copies => println!("no gain over write"),
    ///     Vmsplice::Absent(errno) => println!("denied: {errno}"),
    ///     _ => {}
    /// }
    /// ```
    pub fn vmsplice(&self) -> Vmsplice {
        kept(&self.vmsplice, probe_vmsplice, Vmsplice::Absent)
    }

    /// As [`Kernel::vmsplice`], into a FIFO, which the kernel may refuse where it takes a pipe of
    /// pipe2(2). Without /proc the answer is that of [`Kernel::vmsplice`].
    ///
    /// ```
    /// use gush::{Kernel, Vmsplice};
    /// if let Vmsplice::Absent(errno) = Kernel::get().vmsplice_into_fifo() {
    ///     println!("FIFOs are written: {errno}");
    /// }
    /// ```
    pub fn vmsplice_into_fifo(&self) -> Vmsplice {
        kept(&self.vmsplice_into_fifo, || self.probe_vmsplice_into_fifo(), Vmsplice::Absent)
    }

    /// Does a later write to a file show in bytes spliced from it before? Probed with a file in
    /// memory, opened for writing and read-only: [`FileSplice::Copies`] only if neither shows the
    /// write. `gush doctor PATH` probes a file system.
    ///
    /// The plan is the same where the kernel copies: into pipes and local sockets such a splice
    /// still took 0.7 times the time of read and write (bench/RESULTS.md).
    ///
    /// ```
    /// use gush::{FileSplice, Kernel};
    /// if Kernel::get().file_splice() == FileSplice::Copies {
    ///     println!("a file in a pipe stays as it was");
    /// }
    /// ```
    pub fn file_splice(&self) -> FileSplice {
        kept(&self.file_splice, probe_file_splice, FileSplice::Absent)
    }

    /// Does sendfile(2) into a pipe end where the pipe is full? `false` also if unknown.
    pub(crate) fn sendfile_ends_at_full_pipe(&self) -> bool {
        let probe = sys::file::sendfile_ends_at_full_pipe;
        kept(&self.sendfile_ends_at_full_pipe, probe, |_| false)
    }

    /// Does MADV_DONTNEED drop the pages? Older versions of qemu-user answer 0 and do nothing;
    /// jemalloc makes the same probe (`pages_boot` of src/pages.c).
    pub(crate) fn advice_drops_pages(&self) -> bool {
        kept(&self.advice_drops_pages, Pages::are_dropped_by_advice, |_| false)
    }

    /// The largest pipe in bytes that a process without privilege may ask for
    /// (`/proc/sys/fs/pipe-max-size`; 1 MiB where the file cannot be read).
    pub fn pipe_max_bytes(&self) -> usize {
        *self.pipe_max_bytes.get_or_init(|| {
            std::fs::read_to_string("/proc/sys/fs/pipe-max-size")
                .ok()
                .and_then(|text| text.trim().parse().ok())
                // The kernel's own default (pipe(7)), for processes without /proc.
                .unwrap_or(1 << 20)
        })
    }

    /// How many bytes an unprivileged user may have in pipes before new ones get two slots and none
    /// may grow (`/proc/sys/fs/pipe-user-pages-soft`, pipe(7)); `None` without a limit.
    pub(crate) fn pipe_user_bytes(&self) -> Option<usize> {
        *self.pipe_user_bytes.get_or_init(|| {
            let text = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").ok()?;
            let pages: usize = text.trim().parse().ok()?;
            // 0 means "no limit" (pipe(7)), not "no pages".
            Some(pages.saturating_mul(page_bytes())).filter(|&bytes| bytes > 0)
        })
    }

    /// May this process exceed the limits on a user's pipes (`pipe_is_unprivileged_user` of
    /// fs/pipe.c)? `false` if unknown.
    pub(crate) fn exceeds_pipe_limits(&self) -> bool {
        /// `PROC_USER_INIT_INO` of include/linux/proc_ns.h: other user namespaces exceed nothing.
        const INITIAL_NAMESPACE: &str = "user:[4026531837]";
        /// CAP_SYS_ADMIN and CAP_SYS_RESOURCE, by their numbers in capabilities(7)'s header.
        const EXCEEDING: u64 = 1 << 21 | 1 << 24;
        *self.exceeds_pipe_limits.get_or_init(|| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
            effective.is_some_and(|hex| {
                u64::from_str_radix(hex, 16).is_ok_and(|sets| sets & EXCEEDING != 0)
            }) && std::fs::read_link("/proc/self/ns/user")
                .is_ok_and(|name| name.as_os_str() == INITIAL_NAMESPACE)
        })
    }

    /// An end opened by its path in /proc is a FIFO (`fifo_open` of `fs/pipe.c`).
    fn probe_vmsplice_into_fifo(&self) -> Result<Vmsplice, Errno> {
        let (read_end, write_end) = sys::pipe::pipe()?;
        match sys::file::reopen(write_end.as_fd(), OFlags::WRONLY) {
            Ok(opened) => ask_vmsplice(opened.as_fd(), read_end.as_fd()),
            // A shortage says nothing about FIFOs, so the question stays open.
            Err(errno) if is_passing(errno) => Err(errno),
            Err(_) => match self.vmsplice() {
                Vmsplice::Absent(errno) => Err(errno),
                answer => Ok(answer),
            },
        }
    }

    /// How many processors this process may use (affinity and cgroup quota included).
    pub fn processors(&self) -> usize {
        *self
            .processors
            .get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }
}

/// The answer of `probe`, remembered unless it was a shortage that may pass.
fn kept<A: Copy>(
    known: &OnceLock<A>,
    probe: impl FnOnce() -> Result<A, Errno>,
    absent: fn(Errno) -> A,
) -> A {
    if let Some(&answer) = known.get() {
        return answer;
    }
    match probe() {
        // Not remembered: the next question may find a descriptor or memory.
        Err(errno) if is_passing(errno) => absent(errno),
        // Another thread may have asked too: the first answer stays, so that all see the same.
        answer => *known.get_or_init(|| answer.unwrap_or_else(absent)),
    }
}

/// Does the error say that something ran out, and nothing of the call in question?
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN)
}

fn probe_vmsplice() -> Result<Vmsplice, Errno> {
    let (read_end, write_end) = sys::pipe::pipe()?;
    ask_vmsplice(write_end.as_fd(), read_end.as_fd())
}

fn probe_file_splice() -> Result<FileSplice, Errno> {
    let own = sys::file::in_memory()?;
    if shows_later_write(own.as_fd(), own.as_fd())? {
        return Ok(FileSplice::Shares);
    }
    // A kernel may share the pages of files that a process may only read, and copy others.
    let shares = match sys::file::reopen(own.as_fd(), OFlags::RDONLY) {
        Ok(read_only) => shows_later_write(own.as_fd(), read_only.as_fd())?,
        Err(errno) if is_passing(errno) => return Err(errno),
        // Without /proc it is unknown, and sharing must be assumed.
        Err(_) => true,
    };
    Ok(if shares { FileSplice::Shares } else { FileSplice::Copies })
}

/// Splices the first byte of `source` into a pipe, changes it through `file`, and returns whether
/// the pipe shows the change.
fn shows_later_write(file: BorrowedFd<'_>, source: BorrowedFd<'_>) -> Result<bool, Errno> {
    let (pipe_end, pipe) = sys::pipe::pipe()?;
    again_on_intr(|| sys::data::pwrite(file, b"a", 0))?;
    let (flags, into) = (SpliceFlags::NONBLOCK, pipe.as_fd());
    let spliced = again_on_intr(|| sys::pipe::splice(source, Some(&mut 0), into, None, 1, flags));
    let (moved, reader) = match spliced {
        Ok(moved) => (moved, pipe_end),
        // A filter may deny splice(2) and allow sendfile(2). Asked with a socket: before Linux 5.12
        // sendfile(2) copies into a pipe (`pipefifo_fops`), and shares with sockets all the same.
        Err(errno) => {
            let (near, far) = sys::socket::pair().map_err(|_| errno)?;
            let sent = again_on_intr(|| sys::file::sendfile(source, Some(&mut 0), far.as_fd(), 1));
            (sent.map_err(|_| errno)?, near)
        }
    };
    if moved == 0 {
        // A splice that takes nothing of a file with a byte serves for nothing.
        return Err(Errno::INVAL);
    }
    again_on_intr(|| sys::data::pwrite(file, b"b", 0))?;
    let mut byte = [0];
    again_on_intr(|| sys::data::read(reader.as_fd(), &mut byte))?;
    Ok(byte == *b"b")
}

fn again_on_intr(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// The store after the lending happens in [`Pages::shows_later_store`], the one place that may.
fn ask_vmsplice(write_end: BorrowedFd<'_>, read_end: BorrowedFd<'_>) -> Result<Vmsplice, Errno> {
    let shows = Pages::shows_later_store(write_end, |byte| {
        again_on_intr(|| sys::data::read(read_end, std::slice::from_mut(byte))).map(drop)
    })?;
    Ok(if shows { Vmsplice::ZeroCopy } else { Vmsplice::Copies })
}

/// The size of a page in bytes.
pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Answers whether an error means "not this way, here" rather than "the data cannot move".
///
/// Each of these comes before anything was touched: an unknown or forbidden call (ENOSYS, EPERM,
/// EACCES, EOPNOTSUPP, ENOTTY, EXDEV, ETXTBSY, ENODEV), arguments that this pair does not take
/// (EINVAL, ESPIPE, EOVERFLOW), a flag that the target has (EBADF from copy_file_range with
/// O_APPEND), or no room for the means (ENOMEM, EMFILE, ENFILE, EAGAIN excluded: that one waits).
#[must_use]
pub fn is_refusal(errno: Errno) -> bool {
    const REFUSALS: [Errno; 15] = [
        Errno::INVAL,
        Errno::NOSYS,
        Errno::OPNOTSUPP,
        Errno::XDEV,
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOTTY,
        Errno::TXTBSY,
        Errno::NODEV,
        Errno::SPIPE,
        Errno::OVERFLOW,
        Errno::BADF,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
    ];
    REFUSALS.contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_kernels() {
        let limit = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").expect("a limit");
        assert_eq!(Kernel::get().pipe_max_bytes().to_string(), limit.trim());
        let counted = std::process::Command::new("nproc").env_clear().output().expect("nproc");
        let may_use: usize =
            String::from_utf8_lossy(&counted.stdout).trim().parse().expect("a number");
        // nproc(1) knows the affinity; a control group's quota may leave less.
        assert!((1..=may_use).contains(&Kernel::get().processors()));
    }

    /// The same question by the calls of the system alone, of a file on a disk or in /tmp.
    #[test]
    fn a_splice_from_a_file_does_as_the_kernel_was_found_to_do() {
        use std::io::{Read, Write};
        use std::os::unix::fs::FileExt;
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"before").expect("content");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let spliced =
            rustix::pipe::splice(&file, Some(&mut 0), &writer, None, 6, SpliceFlags::empty());
        let expected = match spliced {
            // The kernel may have sendfile(2) nevertheless.
            Err(errno) => return gush_test::not_applicable(&format!("splice(2): {errno}")),
            Ok(_) => {
                file.write_all_at(b"edited", 0).expect("other content");
                let mut seen = [0; 6];
                reader.read_exact(&mut seen).expect("the bytes");
                if &seen == b"edited" { FileSplice::Shares } else { FileSplice::Copies }
            }
        };
        assert_eq!(Kernel::get().file_splice(), expected);
    }

    #[test]
    fn sendfile_into_a_pipe_ends_where_the_kernel_was_found_to_end_it() {
        use std::os::fd::AsFd;
        if !Kernel::get().sendfile_ends_at_full_pipe() {
            return gush_test::not_applicable("sendfile(2) holds its caller at a full pipe here");
        }
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let room = sys::pipe::set_pipe_size(writer.as_fd(), page_bytes()).expect("a small pipe");
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4 * room as u64).expect("its size");
        // A kernel that holds its caller here would hold this test.
        let sent = sys::file::sendfile(file.as_fd(), Some(&mut 0), writer.as_fd(), 4 * room);
        assert_eq!(sent, Ok(room));
    }
}
