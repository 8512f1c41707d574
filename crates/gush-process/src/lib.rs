//! What a program needs besides the engine: signals, SIGPIPE, closed or inherited descriptors,
//! sessions, users, pipes to other programs. For programs, not for libraries: each function changes
//! or takes something of the whole process.
//!
//! With the feature `start` a function runs before main and notes the inherited descriptors and the
//! disposition of SIGPIPE. Without the feature no descriptor counts as inherited or closed, and
//! SIGPIPE counts as not ignored.
#![allow(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("gush-process runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clock;
mod closed;
mod identity;
mod inherit;
mod interrupt;
mod limits;
mod name;
mod ordinary;
pub mod others;
mod signal;
mod start;
mod stop;
mod title;
mod unread;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

pub use identity::Identity;
pub use name::start_of_name;
use rustix::io;
pub use rustix::io::Errno;

/// Takes the calling thread's real-time priority away (`SCHED_OTHER`, sched(7)): for work that has
/// time, in a program that may have been started with such a priority. A thread without one stays
/// as it is.
///
/// # Errors
/// That of sched_setscheduler(2), which a seccomp filter may deny.
///
/// ```
/// std::thread::spawn(gush_process::leave_real_time).join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn leave_real_time() -> io::Result<()> {
    ordinary::leave_real_time()
}

/// Opens another reading end of the pipe that `writing_end` writes, for [`unread_bytes`]: to be
/// called when all is written, and before the writing end is closed.
///
/// # Errors
/// That of open(2), such as ENOENT without a mounted /proc, and ENXIO for a socket.
///
/// ```
/// use std::io::{Read, Write};
///
/// let (mut reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"three more")?;
/// let kept = gush_process::reading_end(&writer)?;
/// drop(writer);
/// reader.read_exact(&mut [0; 6])?;
/// drop(reader);
/// assert_eq!(gush_process::unread_bytes(kept), Some(4));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn reading_end(writing_end: impl AsFd) -> io::Result<OwnedFd> {
    unread::reading_end(writing_end)
}

/// How many bytes are in the pipe that `reading_end` is the last reader of; nothing where another
/// reader may still take them. There is an example at [`reading_end`].
pub fn unread_bytes(reading_end: OwnedFd) -> Option<u64> {
    unread::unread_bytes(reading_end)
}

/// Lets SIGPIPE end the process silently, as filters such as `cat` are expected to.
///
/// Rust's start-up code ignores SIGPIPE, so that writes fail with `EPIPE`. If the parent ignored
/// SIGPIPE already, this function changes nothing.
///
/// ```
/// gush_process::restore_sigpipe();
/// ```
pub fn restore_sigpipe() {
    signal::restore_sigpipe();
}

/// Gives SIGCHLD its default action, for this process and the programs that it starts. If the
/// parent ignored the signal, the kernel would keep no exit status: wait(2) of a child fails with
/// `ECHILD`.
///
/// ```
/// gush_process::restore_sigchld();
/// assert!(std::process::Command::new("true").status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn restore_sigchld() {
    signal::restore_sigchld();
}

/// Gives SIGINT and SIGQUIT their default actions, also where a shell without job control has
/// started this program in the background, and so has it ignore them.
///
/// ```
/// gush_process::restore_interrupts();
/// ```
pub fn restore_interrupts() {
    signal::restore_interrupts();
}

/// Was standard input (0), output (1) or error (2) closed when the process started?
///
/// Rust's start-up code opens /dev/null in place of a closed descriptor, and bytes written there
/// are lost.
///
/// # Panics
/// When `standard` is more than 2.
///
/// ```
/// assert!(!gush_process::was_closed(1));
/// ```
#[must_use]
pub fn was_closed(standard: usize) -> bool {
    start::was_closed(standard)
}

/// The standard descriptor (0 to 2) to which `path` leads, if the descriptor [was
/// closed](was_closed) when the process started: opening the path would give /dev/null.
///
/// Such paths are /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N, and links to
/// them. Nothing is opened.
///
/// ```
/// assert_eq!(gush_process::closed_at("/dev/stdout"), None);
/// ```
#[must_use]
pub fn closed_at(path: impl AsRef<Path>) -> Option<usize> {
    closed::standard_of(path.as_ref())
}

/// Runs `tidy` when SIGINT, SIGQUIT, SIGTERM or SIGHUP comes, then lets the process die of it.
///
/// Call this function before starting other threads: the signals are blocked in the calling
/// thread and in threads started later. `tidy` runs at once in a separate thread, even while
/// another thread is inside a long system call. Signals ignored at the time of the call (nohup)
/// stay ignored.
///
/// # Errors
/// `EAGAIN` when no thread could be started.
///
/// ```
/// gush_process::on_termination(|| eprintln!("removing what is half done"))?;
/// # Ok::<(), gush_process::Errno>(())
/// ```
pub fn on_termination(tidy: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut tidy = Some(tidy);
    on_each_termination(move |_| {
        if let Some(tidy) = tidy.take() {
            tidy();
        }
        Then::Die
    })
}

/// The ending signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
    /// SIGQUIT: somebody pressed Ctrl-\\.
    Quit,
    /// SIGTERM: somebody, or the system, asks the program to end.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

/// The fate of the process after an ending signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The process goes on and waits for the next signal.
    GoOn,
    /// The process dies of the signal.
    Die,
}

/// As [`on_termination`], but `respond` may let the process go on: a server first lets its clients
/// finish.
///
/// # Errors
/// `EAGAIN` when no thread could be started.
///
/// ```
/// use gush_process::{Termination, Then, on_each_termination};
/// on_each_termination(|signal| match signal {
///     Termination::Terminate => Then::GoOn,
///     Termination::Interrupt | Termination::Quit | Termination::HangUp => Then::Die,
/// })?;
/// # Ok::<(), gush_process::Errno>(())
/// ```
pub fn on_each_termination(
    respond: impl FnMut(Termination) -> Then + Send + 'static,
) -> io::Result<()> {
    Signals::new(respond).watch()
}

/// Shows `text` in the place of the command line, as ps(1) shows that; cut to the length of the
/// command line.
///
/// ```
/// gush_process::set_title("half done");
/// assert!(std::fs::read_to_string("/proc/self/cmdline")?.starts_with("half done"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_title(text: &str) {
    title::set(text);
}

/// The two moments of a stop from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGTSTP came: the process stops as soon as this returns.
    Begins,
    /// The process goes on. Other threads may have gone on before this call.
    Ended,
}

/// As [`on_each_termination`], with more for the same thread to do.
///
/// ```
/// use std::time::Duration;
/// use gush_process::{Signals, Stop, Then};
/// Signals::new(|_| Then::Die)
///     .stops(|stop| match stop {
///         Stop::Begins => eprintln!("leaving the terminal to others"),
///         Stop::Ended => eprintln!("back again"),
///     })
///     .after(Duration::from_millis(50), || eprintln!("this program takes longer than most"))
///     .watch()?;
/// # Ok::<(), gush_process::Errno>(())
/// ```
pub struct Signals(signal::Duties);

impl Signals {
    /// Calls `respond` with each ending signal.
    pub fn new(respond: impl FnMut(Termination) -> Then + Send + 'static) -> Self {
        let respond = Box::new(respond);
        Self(signal::Duties { respond, on_stop: None, report: None, late: None, ending: None })
    }

    /// Calls `on_stop` before SIGTSTP (Ctrl-Z) stops the process, and when the process goes on, but
    /// not for SIGSTOP, which no program can catch. From then on the process may also write to its
    /// terminal from the background, where SIGTTOU would stop it.
    #[must_use]
    pub fn stops(mut self, on_stop: impl FnMut(Stop) + Send + 'static) -> Self {
        self.0.on_stop = Some(Box::new(on_stop));
        self
    }

    /// Calls `report` at each SIGUSR1, which would end the process.
    #[must_use]
    pub fn reports(mut self, report: impl FnMut() + Send + 'static) -> Self {
        self.0.report = Some(Box::new(report));
        self
    }

    /// Calls `call` once, `delay` after [`Self::watch`], unless the process has ended by then: no
    /// signal is answered meanwhile. A short program is spared the threads that `call` starts.
    #[must_use]
    pub fn after(mut self, delay: Duration, call: impl FnOnce() + Send + 'static) -> Self {
        self.0.late = Some((delay, Box::new(call)));
        self
    }

    /// Calls `call` again and again, `pause` apart, once an ending signal lets the process go on,
    /// until the process ends: for ends that do not come by themselves.
    #[must_use]
    pub fn while_ending(mut self, pause: Duration, call: impl FnMut() + Send + 'static) -> Self {
        self.0.ending = Some((pause, Box::new(call)));
        self
    }

    /// Starts the thread that waits for signals.
    ///
    /// # Errors
    /// `EAGAIN` when no thread could be started.
    pub fn watch(self) -> io::Result<()> {
        signal::watch(self.0)
    }
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, form: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        form.debug_struct("Signals").finish_non_exhaustive()
    }
}

/// Makes the calls fail with `EINTR` in which other threads of this process wait now, where a
/// signal can interrupt them (signal(7)): a read(2) of a file such as tracefs' `trace_pipe`, of
/// which poll(2) says nothing.
///
/// The signal is SIGURG, which is ignored by default, and which gets a handler here that does
/// nothing. A thread that was about to wait is not interrupted: call this again and again.
///
/// ```
/// let reading = std::thread::spawn(|| "and waiting for long");
/// gush_process::interrupt_others();
/// # reading.join().unwrap();
/// ```
pub fn interrupt_others() {
    interrupt::others();
}

/// Lets SIGINT, SIGQUIT, SIGTERM and SIGHUP end a program started after [`on_each_termination`],
/// SIGUSR1 one started after [`Signals::reports`], SIGXFSZ one started after
/// [`fail_beyond_file_size_limit`], and SIGTSTP and SIGTTOU stop one started after
/// [`Signals::stops`].
///
/// ```
/// let mut command = std::process::Command::new("true");
/// gush_process::unblocked(&mut command);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn unblocked(command: &mut Command) {
    signal::unblocked(command);
}

/// Makes a write to a pipe or socket without a reader fail with `EPIPE` instead of ending the
/// process, for a program with more than one reader.
///
/// ```
/// gush_process::ignore_sigpipe();
/// ```
pub fn ignore_sigpipe() {
    signal::ignore_sigpipe();
}

/// Makes a write beyond the limit on file sizes (RLIMIT_FSIZE) fail with `EFBIG` instead of ending
/// the process by SIGXFSZ, in this thread and in those that it starts: for a program that serves
/// more than the one who wrote too much, or has something to tidy up. [`unblocked`] gives the
/// signal back to a child program.
///
/// # Errors
/// The error of pthread_sigmask(3).
///
/// ```
/// gush_process::fail_beyond_file_size_limit()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn fail_beyond_file_size_limit() -> io::Result<()> {
    signal::block_file_size_signal()
}

/// Was SIGPIPE ignored when the process started? Then a reader that leaves ends no program of the
/// pipeline.
///
/// ```
/// assert!(!gush_process::sigpipe_was_ignored(), "without the feature `start` nobody has looked");
/// ```
#[must_use]
pub fn sigpipe_was_ignored() -> bool {
    start::sigpipe_was_ignored()
}

/// Ignores SIGINT from here on, as `tee -i` and nohup(1) do for other signals.
///
/// ```
/// gush_process::ignore_interrupts();
/// ```
pub fn ignore_interrupts() {
    signal::ignore_interrupts();
}

/// Ends the process silently, of SIGPIPE, as under [`restore_sigpipe`].
///
/// Returns if SIGPIPE was ignored when the process started.
///
/// ```no_run
/// gush_process::die_of_sigpipe();
/// ```
pub fn die_of_sigpipe() {
    signal::die_of_sigpipe();
}

/// Takes over an inherited descriptor by number.
///
/// Inherited descriptors are those from 3 to 1023 which were open before main and are not
/// close-on-exec now. (0 to 2 stay with the standard library's streams.) A descriptor is given
/// once, and becomes close-on-exec, so that child programs do not get a copy.
///
/// # Errors
/// `EBADF` when the number is not open, not inherited, or already taken.
///
/// ```
/// assert_eq!(gush_process::take_inherited(999_999).unwrap_err(), gush_process::Errno::BADF);
/// ```
pub fn take_inherited(number: i32) -> io::Result<OwnedFd> {
    inherit::take(number)
}

/// Duplicates an inherited descriptor, 0 to 2 included. The original stays open and unchanged.
///
/// The duplicate is close-on-exec and refers to the same open file.
///
/// # Errors
/// As [`take_inherited`], and `EMFILE` when the process may open no more descriptors.
///
/// ```
/// assert_eq!(gush_process::duplicate_inherited(999_999).unwrap_err(), gush_process::Errno::BADF);
/// ```
pub fn duplicate_inherited(number: i32) -> io::Result<OwnedFd> {
    inherit::duplicate(number)
}

/// Starts a program as somebody else.
///
/// ```
/// use gush_process::Identity;
/// let mut command = std::process::Command::new("true");
/// gush_process::with_identity(&mut command, Identity::default());
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_identity(command: &mut Command, identity: Identity) {
    identity::with(command, identity);
}

/// Makes this process, with all its threads, somebody else. What has been opened stays open.
///
/// # Errors
/// The error of the call that failed, `EPERM` for one that takes root; the calls before it have had
/// their effect.
///
/// ```
/// gush_process::assume(&gush_process::Identity::default())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn assume(identity: &Identity) -> io::Result<()> {
    identity::assume(identity)
}

/// Starts a program with another umask.
///
/// ```
/// let mut command = std::process::Command::new("/bin/sh");
/// gush_process::with_umask(command.args(["-c", "test $(umask) -eq 27"]), 0o027);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_umask(command: &mut Command, umask: u32) {
    inherit::with_umask(command, umask);
}

/// Makes a program start as the leader of a new session (setsid(2)). The descriptor `terminal`,
/// as the program has it, becomes the controlling terminal of the session.
///
/// ```
/// let mut command = std::process::Command::new("true");
/// gush_process::in_new_session(&mut command, None);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn in_new_session(command: &mut Command, terminal: Option<BorrowedFd<'static>>) {
    inherit::in_new_session(command, terminal);
}

/// Gives a program a copy of `fd` as its descriptor `number`, in the place of what it would have
/// there.
///
/// # Errors
/// The error of fcntl(2), `EMFILE` for instance.
///
/// ```
/// let mut command = std::process::Command::new("sh");
/// command.args(["-c", "cat <&4"]).stdout(std::process::Stdio::piped());
/// gush_process::with_descriptor(&mut command, std::fs::File::open("/dev/null")?, 4)?;
/// assert!(command.output()?.stdout.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_descriptor(command: &mut Command, fd: impl AsFd, number: u32) -> io::Result<()> {
    let number = i32::try_from(number).map_err(|_| io::Errno::INVAL)?;
    inherit::with_descriptor(command, fd, number)
}

/// Can this process open another descriptor? A program asks while it holds descriptors that it can
/// do without, which must not cost it its work.
///
/// ```
/// assert!(gush_process::has_room());
/// ```
#[must_use]
pub fn has_room() -> bool {
    limits::has_room()
}

/// Raises this process's limit on open descriptors (RLIMIT_NOFILE) to the hard limit. If the kernel
/// refuses, the limit stays. [`with_given_descriptor_limit`] keeps the raised limit from a child
/// program.
///
/// ```
/// gush_process::raise_descriptor_limit();
/// ```
pub fn raise_descriptor_limit() {
    limits::raise_descriptors();
}

/// Gives a child program the limit on open descriptors from before [`raise_descriptor_limit`]:
/// programs that use select(2) cannot handle descriptors above 1023.
///
/// ```
/// gush_process::raise_descriptor_limit();
/// let mut command = std::process::Command::new("true");
/// gush_process::with_given_descriptor_limit(&mut command);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_given_descriptor_limit(command: &mut Command) {
    limits::give_back_descriptors(command);
}

/// A time of the wall, as a calendar and a clock show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalTime {
    /// The year of the calendar, such as 2026.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60, since a leap second is the 60th.
    pub second: u8,
}

/// The time `at` in the time zone of the process (the variable `TZ`, or /etc/localtime), by
/// localtime_r(3).
///
/// None for a time whose year is out of range for the C library.
///
/// ```
/// use std::time::SystemTime;
///
/// let now = gush_process::local_time(SystemTime::now()).unwrap();
/// assert!(now.year >= 2026 && now.hour < 24);
/// ```
#[must_use]
pub fn local_time(at: SystemTime) -> Option<LocalTime> {
    clock::local(at)
}
