//! Names and counts of system calls, and the gate that each of them passes.
//!
//! A call that moves bytes returns EINTR to its caller, as a step of 0 bytes; so do `poll`, whose
//! caller has a deadline, and `io_uring_enter`. Every other call is repeated.

use std::cell::Cell;
use std::fmt;

use rustix::io::{self, retry_on_intr};

macro_rules! calls {
    ($($variant:ident => $name:literal),+ $(,)?) => {
        /// A system call of the engine, by the name that `strace` shows.
        ///
        /// ```
        /// assert_eq!(gush::Call::CopyFileRange.to_string(), "copy_file_range");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl Call {
            /// Every call that the engine can make.
            pub const ALL: &'static [Call] = &[$(Call::$variant),+];

            /// The name of the system call.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Call::$variant => $name,)+ }
            }
        }
    };
}

calls! {
    Read => "read",
    Pread => "pread64",
    Preadv2 => "preadv2",
    Readv => "readv",
    Recv => "recvfrom",
    Write => "write",
    Pwrite => "pwrite64",
    Pwritev2 => "pwritev2",
    Writev => "writev",
    Send => "sendto",
    Splice => "splice",
    Vmsplice => "vmsplice",
    Tee => "tee",
    Sendfile => "sendfile",
    CopyFileRange => "copy_file_range",
    Ficlone => "ioctl(FICLONE)",
    FicloneRange => "ioctl(FICLONERANGE)",
    UringRead => "io_uring(READ)",
    UringWrite => "io_uring(WRITE)",
    IoUringSetup => "io_uring_setup",
    IoUringEnter => "io_uring_enter",
    Fiemap => "ioctl(FS_IOC_FIEMAP)",
    Mmap => "mmap",
    Munmap => "munmap",
    Mlock => "mlock",
    Memcpy => "memcpy",
    Madvise => "madvise",
    Ftruncate => "ftruncate",
    Fallocate => "fallocate",
    Fadvise => "fadvise64",
    Lseek => "lseek",
    Fstat => "fstat",
    Fstatfs => "fstatfs",
    Statx => "statx",
    GetFlags => "fcntl(F_GETFL)",
    WindowSize => "ioctl(TIOCGWINSZ)",
    TerminalModes => "ioctl(TCGETS2)",
    TerminalNumber => "ioctl(TIOCGPTN)",
    GetLimit => "prlimit64",
    GetUsage => "getrusage",
    BlockSize => "ioctl(BLKGETSIZE64)",
    GetUuid => "ioctl(FS_IOC_GETFSUUID)",
    Unread => "ioctl(FIONREAD)",
    Unacknowledged => "ioctl(SIOCOUTQ)",
    GetSocketOption => "getsockopt",
    SetSocketOption => "setsockopt",
    Shutdown => "shutdown",
    Socketpair => "socketpair",
    Open => "openat",
    MemfdCreate => "memfd_create",
    Pipe => "pipe2",
    GetPipeSize => "fcntl(F_GETPIPE_SZ)",
    SetPipeSize => "fcntl(F_SETPIPE_SZ)",
    Poll => "ppoll",
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const SLOTS: usize = Call::ALL.len();

thread_local! {
    // Per thread: a shared atomic counter would bounce between processors at every call.
    static MADE: [Cell<u64>; SLOTS] = const { [const { Cell::new(0) }; SLOTS] };
}

/// How many calls of each name a thread has made; the difference of two is the calls between.
///
/// ```
/// let counts = gush::CallCounts::default();
/// assert_eq!(counts.iter().count(), 0);
/// ```
#[derive(Clone, Default)]
pub struct CallCounts {
    /// Calls made once, a bit each: enough for most files of a tree, where an array would cost as
    /// much as a system call.
    once: u64,
    more: Option<Box<[u64; SLOTS]>>,
}

const _: () = assert!(SLOTS <= u64::BITS as usize, "a bit for each call");

impl CallCounts {
    /// The calls of the calling thread so far.
    pub(crate) fn of_this_thread() -> Self {
        // A copy, so that a later difference is not disturbed by calls that go on.
        Self::each(MADE.with(|made| std::array::from_fn(|slot| made[slot].get())))
    }

    fn each(counts: [u64; SLOTS]) -> Self {
        Self { once: 0, more: Some(Box::new(counts)) }
    }

    /// The calls made since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        // Wrapping: a count that is off shall not end a move by a panic.
        Self::each(std::array::from_fn(|slot| self.at(slot).wrapping_sub(earlier.at(slot))))
    }

    /// These calls, one of each.
    pub(crate) fn once(calls: &[Call]) -> Self {
        Self { once: calls.iter().fold(0, |bits, &call| bits | 1 << call as usize), more: None }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        *self = Self::each(std::array::from_fn(|slot| self.at(slot) + more.at(slot)));
    }

    fn at(&self, slot: usize) -> u64 {
        (self.once >> slot & 1) + self.more.as_ref().map_or(0, |more| more[slot])
    }

    /// The calls made at least once, with their number.
    pub fn iter(&self) -> impl Iterator<Item = (Call, u64)> + '_ {
        Call::ALL.iter().map(|&call| (call, self.get(call))).filter(|&(_, count)| count > 0)
    }

    /// The number of calls of one name.
    #[must_use]
    pub fn get(&self, call: Call) -> u64 {
        self.at(call as usize)
    }
}

impl PartialEq for CallCounts {
    fn eq(&self, other: &Self) -> bool {
        (0..SLOTS).all(|slot| self.at(slot) == other.at(slot))
    }
}

impl Eq for CallCounts {}

impl fmt::Debug for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(call, count)| (call.name(), count))).finish()
    }
}

fn count(call: Call) {
    MADE.with(|made| {
        let cell = &made[call as usize];
        cell.set(cell.get() + 1);
    });
}

/// Makes one call of at most `len` bytes: counted, and answered by the test's plan if there is one.
///
/// EINTR is answered to the caller, for whom that is a step of 0 bytes.
#[inline]
pub(crate) fn sized(
    call: Call,
    len: usize,
    body: impl FnOnce(usize) -> io::Result<usize>,
) -> io::Result<usize> {
    count(call);
    #[cfg(feature = "faults")]
    match super::faults::ask(call) {
        super::faults::Injection::None | super::faults::Injection::Copy => {}
        // At least one byte: a short call of 0 would be an end, which is another injection.
        super::faults::Injection::Short(most) => return body(len.min(most.max(1))),
        super::faults::Injection::Zero => return Ok(0),
        super::faults::Injection::Fail(errno) => return Err(errno),
    }
    body(len)
}

/// Makes one call that moves no bytes itself, again for as long as a signal interrupts the call.
///
/// File systems answer EINTR to more calls than their manual pages list: tmpfs to fallocate
/// (`shmem_fallocate` of mm/shmem.c) after Ctrl-Z and `fg`, FUSE and NFS to any.
#[inline]
pub(crate) fn plain<T>(call: Call, mut body: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    // Each attempt is counted, as strace shows each of them.
    retry_on_intr(|| waiting(call, &mut body))
}

/// As [`plain`], for a call whose caller decides about an interruption, because the call waits for
/// something, or up to some time.
#[inline]
pub(crate) fn waiting<T>(call: Call, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    count(call);
    #[cfg(feature = "faults")]
    if let super::faults::Injection::Fail(errno) = super::faults::ask(call) {
        return Err(errno);
    }
    body()
}
