//! One technique a file, all behind one trait.
//!
//! A [`Method`] tells whether the technique serves a pair of endpoints, and starts either a
//! [`Flow`](crate::flow::Flow) of one way, with pipe and buffer, or a [`Range`]. A range copies between named
//! offsets of two files and has nothing in flight between two steps: bytes taken and not delivered are
//! still in the source. No method can be plugged in from outside: the invariants of a move rest on the
//! methods here.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;

use crate::endpoint::Endpoint;
use crate::fault::Fault;
use crate::kernel::{Kernel, is_refusal};
use crate::port::Side;
use crate::sys::Call;

#[cfg(any(test, not(feature = "uring")))]
mod absent;
mod copy_file_range;
mod direct;
mod mapped;
mod mmap_copy;
mod mmap_write;
mod read_mmap;
mod read_write;
mod reflink;
mod sendfile;
mod setup;
mod splice;
mod streamed;
#[cfg(feature = "uring")]
mod uring;
mod vmsplice;

pub(crate) use setup::Setup;
pub(crate) use streamed::Streamed;

#[cfg(feature = "uring")]
const URING: uring::Uring = uring::Uring;
#[cfg(not(feature = "uring"))]
const URING: absent::Absent = absent::Absent {
    name: MethodName::Uring,
    why: "this program was built without io_uring (the feature uring of the library gush)",
};

macro_rules! methods {
    ($($variant:ident $name:literal $method:path, $what:literal;)+) => {
        /// The techniques, by the names that `--method` takes.
        ///
        /// ```
        /// use gush::MethodName;
        /// let name: MethodName = "copy-file-range".parse()?;
        /// assert_eq!(name, MethodName::CopyFileRange);
        /// assert!("rsync".parse::<MethodName>().is_err());
        /// # Ok::<(), gush::UnknownMethod>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum MethodName {
            $(#[doc = $what] $variant,)+
        }

        impl MethodName {
            /// Every technique.
            pub const ALL: &'static [MethodName] = &[$(MethodName::$variant),+];

            /// The name, as in `--method`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(MethodName::$variant => $name,)+ }
            }

            /// The technique, in a line.
            ///
            /// ```
            /// for name in gush::MethodName::ALL {
            ///     println!("{name:16} {}", name.summary());
            /// }
            /// assert_eq!(gush::MethodName::Splice.as_str(), "splice");
            /// ```
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(MethodName::$variant => $what,)+ }
            }

            /// The technique itself.
            pub(crate) fn method(self) -> &'static dyn Method {
                match self { $(MethodName::$variant => &$method,)+ }
            }
        }
    };
}

methods! {
    Reflink "reflink" reflink::Reflink,
        "Shares the blocks: FICLONE, or FICLONERANGE for a part; no data is written";
    CopyFileRange "copy-file-range" copy_file_range::CopyFileRange,
        "Copies inside the kernel, or inside the server: copy_file_range";
    Sendfile "sendfile" sendfile::Sendfile,
        "Copies inside the kernel, from what can be paged to anything: sendfile";
    Splice "splice" splice::Splice,
        "Moves page references through a pipe: splice";
    Vmsplice "vmsplice" vmsplice::Vmsplice,
        "Reads into page-aligned memory, lends its pages to a pipe, splices on";
    MmapWrite "mmap-write" mmap_write::MmapWrite,
        "Maps the source and writes from the mapping";
    MmapCopy "mmap-copy" mmap_copy::MmapCopy,
        "Maps both files and copies memory";
    ReadMmap "read-mmap" read_mmap::ReadMmap,
        "Reads into the mapped target, in several threads if that helps";
    ReadWrite "read-write" read_write::ReadWrite,
        "Reads into a buffer and writes from it: works everywhere";
    Direct "direct" direct::Direct,
        "Reads and writes past the page cache: O_DIRECT";
    Uring "uring" URING,
        "Keeps several reads and writes under way: io_uring";
}

impl MethodName {
    /// Do the bytes pass through this process, so that they can be hashed on the way?
    ///
    /// ```
    /// use gush::MethodName;
    /// assert!(MethodName::ReadWrite.sees_bytes());
    /// assert!(!MethodName::Splice.sees_bytes());
    /// ```
    #[must_use]
    pub fn sees_bytes(self) -> bool {
        self.method().traits().sees_bytes
    }

    /// Can a later write to a source file show in bytes "already sent" to a pipe or socket?
    ///
    /// ```
    /// use gush::MethodName;
    /// assert!(MethodName::Sendfile.shares_source());
    /// assert!(!MethodName::ReadWrite.shares_source());
    /// ```
    #[must_use]
    pub fn shares_source(self) -> bool {
        self.method().traits().shares_source
    }

    /// May ranges of one file be moved on several threads at once?
    ///
    /// ```
    /// use gush::MethodName;
    /// assert!(MethodName::ReadWrite.is_parallel());
    /// assert!(!MethodName::Reflink.is_parallel());
    /// ```
    #[must_use]
    pub fn is_parallel(self) -> bool {
        self.method().traits().parallel
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name without a technique.
///
/// ```
/// let unknown = "rsync".parse::<gush::MethodName>().unwrap_err();
/// assert!(unknown.to_string().starts_with("no method is called 'rsync'; there are auto, reflink,"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMethod(String);

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no method is called '{}'; there are auto, {}", self.0, all_names())
    }
}

impl std::error::Error for UnknownMethod {}

fn all_names() -> String {
    let names: Vec<_> = MethodName::ALL.iter().map(|name| name.as_str()).collect();
    names.join(", ")
}

impl FromStr for MethodName {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .iter()
            .copied()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownMethod(text.to_owned()))
    }
}

/// Two endpoints, and the part of the source to be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'fd> {
    /// Where the bytes come from.
    pub(crate) source: Endpoint<'fd>,
    /// Where they go.
    pub(crate) target: Endpoint<'fd>,
    /// The source offset in bytes, or `None` for the descriptor's own position.
    pub(crate) source_at: Option<u64>,
    /// The target offset in bytes, or `None` for the descriptor's own position.
    pub(crate) target_at: Option<u64>,
    /// How many bytes are to move, or `None` for all up to the end.
    pub(crate) length_bytes: Option<u64>,
    /// How many of them the source holds, as far as the source says.
    pub(crate) expected_bytes: Option<u64>,
}

/// The consequences of a technique for the user, and the demands on the mover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// A later write to the source file can show in bytes "already sent".
    pub(crate) shares_source: bool,
    /// Holes of the source stay holes by themselves.
    pub(crate) keeps_holes: bool,
    /// The bytes pass through this process, so they can be hashed on the way.
    pub(crate) sees_bytes: bool,
    /// Ranges of one file may be moved on several threads at once.
    pub(crate) parallel: bool,
    /// Several threads are faster than one.
    pub(crate) gains_from_threads: bool,
    /// The calls are reads, which see the end themselves.
    pub(crate) proves_end: bool,
    /// The source offset must be named: the descriptor's own position will not do.
    pub(crate) needs_source_offset: bool,
    /// The target offset must be named.
    pub(crate) needs_target_offset: bool,
    /// The target's own position must be used.
    pub(crate) needs_own_target_position: bool,
    /// The target file must have the full size before the first byte moves.
    pub(crate) needs_target_size: bool,
    /// Bytes can reach the target behind missing ones.
    pub(crate) writes_ahead: bool,
    /// Everything moves in one step, of any budget.
    pub(crate) whole: bool,
}

/// Why a technique cannot move this, here; nothing was touched (invariant 3).
///
/// ```
/// use gush::{Call, Choice, Errno, MethodName, Mover};
/// let (source, target) = (std::fs::File::open("/dev/zero")?, tempfile::tempfile()?);
/// std::io::Write::write_all(&mut (&target), b"x")?;
/// let by_name = Choice::Only(MethodName::CopyFileRange);
/// let error = Mover::new(&source, &target).method(by_name).run().unwrap_err();
/// let refusal = error.refusal().unwrap();
/// assert_eq!((refusal.call, refusal.errno), (Some(Call::CopyFileRange), Some(Errno::INVAL)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The technique.
    pub method: MethodName,
    /// The refused call, where the kernel is the reason.
    pub call: Option<Call>,
    /// The kernel's answer to the call.
    pub errno: Option<Errno>,
    /// The reason, or the refused call.
    pub why: Cow<'static, str>,
}

impl Refusal {
    /// The reason where the user ruled the method out.
    pub(crate) const EXCLUDED: &str = "excluded by an option";

    /// The reason where each write of the target goes to its end.
    const APPENDS: &str = "the target was opened with O_APPEND";

    pub(crate) fn because(method: MethodName, why: &'static str) -> Self {
        Self { method, call: None, errno: None, why: Cow::Borrowed(why) }
    }

    pub(crate) fn by_kernel(method: MethodName, call: Call, errno: Errno) -> Self {
        let why = Cow::Borrowed(call.name());
        Self { method, call: Some(call), errno: Some(errno), why }
    }

    /// The method said "nothing more" where a `read` finds bytes.
    pub(crate) fn false_end(method: MethodName) -> Self {
        Self::because(method, "the source has bytes behind the end that the method reports")
    }

    /// Did the user rule the method out?
    pub(crate) fn is_of_user(&self) -> bool {
        self.why == Self::EXCLUDED
    }

    /// Does the method not serve a target with `O_APPEND`?
    ///
    /// ```
    /// let from = tempfile::tempfile()?;
    /// let to = tempfile::NamedTempFile::new()?;
    /// let to = std::fs::File::options().append(true).open(to.path())?;
    /// let splice = gush::Choice::Only(gush::MethodName::Splice);
    /// let error = gush::Mover::new(&from, &to).method(splice).run().unwrap_err();
    /// assert!(error.refusal().unwrap().is_of_append());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_of_append(&self) -> bool {
        self.why == Self::APPENDS
    }

    /// Is the target full, or at the size limit? Then another method finds no more room.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self.errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
    }

    /// The line of `--explain`.
    pub(crate) fn line(&self) -> impl fmt::Display + '_ {
        struct Line<'a>(&'a Refusal);
        impl fmt::Display for Line<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "refused {}: {}", self.0.method, self.0.why)?;
                self.0.errno.map_or(Ok(()), |errno| write!(f, ": {}", errno_name(errno)))
            }
        }
        Line(self)
    }

    /// The symbolic name of the errno, such as `EXDEV`, where the kernel answered one.
    #[must_use]
    pub fn errno_name(&self) -> Option<String> {
        self.errno.map(errno_name)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            // Only a mapped target makes a method give up this way.
            Some(Errno::FAULT) => write!(
                f,
                "{} cannot go on: {}: EFAULT: the target was truncated, or its file system is full",
                self.method, self.why
            ),
            Some(errno) if self.lacks_room() => {
                let name = errno_name(errno);
                write!(f, "{} finds no room for the target: {}: {name}", self.method, self.why)
            }
            Some(errno) => {
                write!(f, "{} is refused here: {}: {}", self.method, self.why, errno_name(errno))
            }
            None => write!(f, "{} cannot serve this: {}", self.method, self.why),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.errno.as_ref().map(|errno| errno as _)
    }
}

/// The name of an errno in the manual pages.
///
/// ```
/// assert_eq!(gush::errno_name(gush::Errno::XDEV), "EXDEV");
/// assert_eq!(gush::errno_name(gush::Errno::from_raw_os_error(4000)), "errno 4000");
/// ```
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
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == errno)
        .map_or_else(|| format!("errno {}", errno.raw_os_error()), |(_, name)| (*name).to_owned())
}

/// The outcome of one step of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes reached the target; 0 when a signal interrupted the step.
    Moved(u64),
    /// A call other than `read` answered 0: perhaps the end; only a `read` can prove it (invariant 2).
    Dry,
    /// A `read` (or `recv`) answered 0: the end.
    End,
    /// The named side cannot go on now.
    WouldBlock(Side),
    /// Not this way: nothing was touched by the refused call; ask the next method.
    Refused(Fault),
    /// The data cannot move.
    Failed(Fault),
}

impl Step {
    /// The step for an error of a call that touched nothing.
    pub(crate) fn from_errno(call: Call, side: Side, errno: Errno) -> Self {
        match errno {
            Errno::INTR => Step::Moved(0),
            Errno::AGAIN => Step::WouldBlock(side),
            errno if is_refusal(errno) => Step::Refused(Fault { call, side, errno }),
            errno => Step::Failed(Fault { call, side, errno }),
        }
    }
}

/// A technique.
pub(crate) trait Method: fmt::Debug + Sync {
    /// The technique's name.
    fn name(&self) -> MethodName;

    /// The technique's consequences for the user.
    fn traits(&self) -> Traits;

    /// Can the technique move these bytes, as far as can be said without trying? By default: yes, if the offsets
    /// needed can be named.
    ///
    /// # Errors
    /// The refusal, with the reason; no call that changes anything was made.
    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        let traits = self.traits();
        if traits.needs_source_offset {
            source_offset(self.name(), pair)?;
        }
        if traits.needs_target_offset {
            target_offset(self.name(), pair)?;
        }
        Ok(())
    }

    /// Asks the kernel by a harmless call whether the technique serves; `false` where only a first step
    /// can tell.
    ///
    /// # Errors
    /// The refusal.
    fn is_served(&self, _pair: &Pair<'_>) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Makes ready to move.
    ///
    /// # Errors
    /// The refusal of a preparing call; source and target are untouched.
    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal>;
}

/// A technique made ready for one pair.
pub(crate) enum Start<'fd> {
    /// A stream of bytes, for which the driver waits.
    Flow(Box<Streamed<'fd>>),
    /// A part of a file.
    Range(Box<dyn Range + Send + 'fd>),
}

impl<'fd> Start<'fd> {
    fn range(range: impl Range + Send + 'fd) -> Self {
        Start::Range(Box::new(range))
    }
}

/// A technique between named offsets, whose failure loses nothing.
pub(crate) trait Range {
    /// Moves at most `budget_bytes`, without waiting for a target that can be idle. Bytes not
    /// counted as moved are still in the source.
    fn step(&mut self, budget_bytes: u64) -> Step;

    /// Goes on with another part of the same two files, keeping buffers; `false` if impossible.
    fn reposition(&mut self, _pair: &Pair<'_>) -> bool {
        false
    }
}

fn source_offset(method: MethodName, pair: &Pair<'_>) -> Result<u64, Refusal> {
    pair.source_at.ok_or_else(|| Refusal::because(method, "the source is no regular file"))
}

fn target_offset(method: MethodName, pair: &Pair<'_>) -> Result<u64, Refusal> {
    pair.target_at.ok_or_else(|| {
        Refusal::because(method, "the target is no regular file, or was opened for append")
    })
}

/// Refuses odd pieces into a file with O_DIRECT, for methods whose own calls would be refused half-way:
/// iomap checks the alignment of one extent after the other, and EINVAL can come after a part was
/// written.
fn is_aligned_for_direct(method: MethodName, pair: &Pair<'_>) -> Result<(), Refusal> {
    // Logical blocks of disks have 512 or 4096 bytes: a multiple of 4096 suits both.
    const ALIGNMENT: u64 = 4096;
    let from = pair.source_at.or(pair.source.position()).unwrap_or(0);
    let to = pair.target_at.or(pair.target.position()).unwrap_or(0);
    let in_file = pair.source.size_bytes().saturating_sub(from);
    let length = pair.length_bytes.map_or(in_file, |length| length.min(in_file));
    if pair.target.is_direct() && !(to | length).is_multiple_of(ALIGNMENT) {
        let why =
            "the target has O_DIRECT, and the piece is not aligned; the method direct serves it";
        return Err(Refusal::because(method, why));
    }
    Ok(())
}

/// Why the flags of a target rule out splices there, and the kernel's answer to one: with O_APPEND EINVAL
/// (`do_splice_from` of `fs/splice.c`), but only once the bytes are in a pipe; with O_DIRECT a piece must be aligned, and
/// those of a stream may be odd.
pub(crate) fn flags_against_splices(
    appends: bool,
    is_direct: bool,
    from_stream: bool,
) -> Option<(&'static str, Option<Errno>)> {
    const DIRECT: &str =
        "the target was opened with O_DIRECT, and a stream's pieces are not aligned";
    match (appends, is_direct && from_stream) {
        (true, _) => Some((Refusal::APPENDS, Some(Errno::INVAL))),
        (false, true) => Some((DIRECT, None)),
        (false, false) => None,
    }
}

/// Refuses a target whose flags, or whose piece, splice(2) would refuse half-way.
fn takes_splices(method: MethodName, pair: &Pair<'_>) -> Result<(), Refusal> {
    let from_stream = !pair.source.has_offsets();
    match flags_against_splices(pair.target.is_append(), pair.target.is_direct(), from_stream) {
        Some((why, errno)) => {
            let call = errno.map(|_| Call::Splice);
            Err(Refusal { method, call, errno, why: why.into() })
        }
        None => is_aligned_for_direct(method, pair),
    }
}

/// A budget as the length of one system call.
pub(crate) fn call_bytes(budget_bytes: u64, most: usize) -> usize {
    usize::try_from(budget_bytes).unwrap_or(usize::MAX).min(most)
}
