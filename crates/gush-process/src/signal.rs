//! Signals that concern a program which moves bytes: the ending signals and SIGPIPE.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fmt, mem, panic, ptr, thread};

use rustix::io::{self, Errno};

use crate::stop::{self, Stop};
use crate::{interrupt, start};

/// Lets SIGPIPE end the process silently, as filters such as `cat` are expected to.
///
/// Rust's start-up code ignores SIGPIPE, so that writes fail with `EPIPE`. If the parent ignored
/// SIGPIPE already, this function changes nothing.
pub fn restore_sigpipe() {
    if start::sigpipe_was_ignored() {
        return;
    }
    // SAFETY: SIG_DFL is a valid disposition and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Gives SIGCHLD its default action, for this process and the programs that it starts. If the
/// parent ignored the signal, the kernel would keep no exit status: wait(2) of a child fails with
/// `ECHILD`.
pub fn restore_sigchld() {
    // SAFETY: SIG_DFL is a valid disposition and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Gives SIGINT, SIGQUIT, SIGHUP and SIGTERM their default actions, also where this program was
/// started with them ignored, as by a shell without job control in the background, or by nohup(1).
pub fn restore_terminations() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
        // SAFETY: SIG_DFL is a valid disposition and no handler of ours is replaced.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Makes a write to a pipe or socket without a reader fail with `EPIPE` instead of ending the
/// process, for a program with more than one reader.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN is a valid disposition and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Makes a write beyond the limit on file sizes (RLIMIT_FSIZE) fail with `EFBIG` instead of ending
/// the process by SIGXFSZ, in this thread and in those that it starts: for a program that serves
/// more than the one who wrote too much, or has something to tidy up. [`unblocked`] gives the
/// signal back to a child program.
///
/// # Errors
/// The error of pthread_sigmask(3).
pub fn fail_beyond_file_size_limit() -> io::Result<()> {
    let mut set = empty_set();
    // SAFETY: `set` was initialised by sigemptyset.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGXFSZ) };
    change_mask(libc::SIG_BLOCK, &set).map(drop)
}

/// Ignores SIGINT from here on, as `tee -i` and nohup(1) do for other signals.
pub fn ignore_interrupts() {
    // SAFETY: SIG_IGN is a valid disposition and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Ends the process silently, of SIGPIPE, as under [`restore_sigpipe`].
///
/// Returns if SIGPIPE was ignored when the process started.
pub fn die_of_sigpipe() {
    if !start::sigpipe_was_ignored() {
        die_of(libc::SIGPIPE);
    }
}

/// The signals to ask a program to end.
const ENDING: [(libc::c_int, Termination); 4] = [
    (libc::SIGINT, Termination::Interrupt),
    (libc::SIGQUIT, Termination::Quit),
    (libc::SIGTERM, Termination::Terminate),
    (libc::SIGHUP, Termination::HangUp),
];

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
    let respond = move |_| {
        if let Some(tidy) = tidy.take() {
            tidy();
        }
        Then::Die
    };
    Signals::new(respond).watch()
}

/// What to do at signals, in a thread of its own.
///
/// A thread instead of a handler: a handler runs only when the interrupted call returns, and a
/// signal with a handler does not interrupt a long `copy_file_range`. The thread re-raises the
/// signal with its default action, which is fatal and does interrupt. A signal ignored at the time
/// of the call (nohup) stays ignored.
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
pub struct Signals {
    respond: Box<dyn FnMut(Termination) -> Then + Send>,
    on_stop: Option<stop::OnStop>,
    report: Option<Box<dyn FnMut() + Send>>,
    late: Option<(Duration, Box<dyn FnOnce() + Send>)>,
    ending: Option<(Duration, Box<dyn FnMut() + Send>)>,
}

impl Signals {
    /// Calls `respond` with each ending signal. It may let the process go on: a server first lets
    /// its clients finish.
    pub fn new(respond: impl FnMut(Termination) -> Then + Send + 'static) -> Self {
        let respond = Box::new(respond);
        Self { respond, on_stop: None, report: None, late: None, ending: None }
    }

    /// Calls `on_stop` before SIGTSTP (Ctrl-Z) stops the process, and when the process goes on, but
    /// not for SIGSTOP, which no program can catch. From then on the process may also write to its
    /// terminal from the background, where SIGTTOU would stop it.
    #[must_use]
    pub fn stops(self, on_stop: impl FnMut(Stop) + Send + 'static) -> Self {
        Self { on_stop: Some(Box::new(on_stop)), ..self }
    }

    /// Calls `report` at each SIGUSR1, which would end the process.
    #[must_use]
    pub fn reports(self, report: impl FnMut() + Send + 'static) -> Self {
        Self { report: Some(Box::new(report)), ..self }
    }

    /// Calls `call` once, `delay` after [`Self::watch`], unless the process has ended by then: no
    /// signal is answered meanwhile. A short program is spared the threads that `call` starts.
    #[must_use]
    pub fn after(self, delay: Duration, call: impl FnOnce() + Send + 'static) -> Self {
        Self { late: Some((delay, Box::new(call))), ..self }
    }

    /// Calls `call` again and again, `pause` apart, once an ending signal lets the process go on,
    /// until the process ends: for ends that do not come by themselves.
    #[must_use]
    pub fn while_ending(self, pause: Duration, call: impl FnMut() + Send + 'static) -> Self {
        Self { ending: Some((pause, Box::new(call))), ..self }
    }

    /// Starts the thread that waits for signals.
    ///
    /// # Errors
    /// `EAGAIN` when no thread could be started.
    pub fn watch(self) -> io::Result<()> {
        let mut set = empty_set();
        let stopping = if self.on_stop.is_some() { &stop::SIGNALS[..] } else { &[] };
        let reporting = self.report.is_some().then_some(libc::SIGUSR1);
        let ending = ENDING.map(|(signal, _)| signal).into_iter();
        for signal in ending.chain(stopping.iter().copied()).chain(reporting) {
            // A parent such as nohup(1) ignores on purpose, and a signal that is waited for would
            // come all the same.
            if !is_ignored(signal) {
                // SAFETY: `set` was initialised by sigemptyset.
                unsafe { libc::sigaddset(&raw mut set, signal) };
            }
        }
        if self.ending.is_some() {
            // A caller that goes on after a signal may have to interrupt other threads, when no
            // descriptor is left.
            interrupt::keep_room();
        }
        // Before any thread is started: each inherits this mask, and only one thread waits.
        let before = change_mask(libc::SIG_BLOCK, &set)?;
        start_thread(set, self).or_else(|errno| {
            // No thread waits for the signals, so they must end the process as usual.
            change_mask(libc::SIG_SETMASK, &before)?;
            Err(errno)
        })
    }

    /// Answers signals; `answered` is the ending signal that is being answered.
    fn run(self, set: &libc::sigset_t, answered: &mut Option<libc::c_int>) {
        let Self { mut respond, mut on_stop, mut report, mut late, mut ending } = self;
        let (began, mut is_ending) = (Instant::now(), false);
        loop {
            let due = late.as_ref().map(|(delay, _)| delay.saturating_sub(began.elapsed()));
            let pause = ending.as_ref().filter(|_| is_ending).map(|(pause, _)| *pause);
            let at_most = due.into_iter().chain(pause).min();
            let Some(signal) = wait_for(set, at_most) else {
                // Without an end of the time, only a kernel that refuses the call ends a wait.
                if at_most.is_none() {
                    return;
                }
                if let Some((_, call)) = late.take_if(|(delay, _)| *delay <= began.elapsed()) {
                    call();
                }
                if let Some((_, call)) = ending.as_mut().filter(|_| is_ending) {
                    call();
                }
                continue;
            };
            if stop::takes(signal, &mut on_stop) {
                continue;
            }
            if let (libc::SIGUSR1, Some(report)) = (signal, &mut report) {
                report();
                continue;
            }
            let came = ENDING.iter().find(|(number, _)| *number == signal);
            let Some(&(_, came)) = came else { continue };
            *answered = Some(signal);
            let then = respond(came);
            *answered = None;
            if then == Then::Die {
                // Of the signal itself, so that a shell sees a death by a signal and stops its
                // loop.
                return die_of(signal);
            }
            is_ending = true;
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
        form.debug_struct("Signals").finish_non_exhaustive()
    }
}

/// Bytes of the thread's stack.
const STACK_BYTES: usize = 64 * 1024;

/// Starts the thread that answers signals.
fn start_thread(set: libc::sigset_t, signals: Signals) -> io::Result<()> {
    let thread = thread::Builder::new().name("gush-signals".to_owned()).stack_size(STACK_BYTES);
    let started = thread.spawn(move || run_thread(set, signals));
    started.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

fn run_thread(set: libc::sigset_t, signals: Signals) {
    let mut answered = None;
    let ran = panic::catch_unwind(panic::AssertUnwindSafe(|| signals.run(&set, &mut answered)));
    // The panic hook reports a panic of a callback. The signals stay blocked in all threads: the
    // one that was being answered ends the process, or the next one.
    if ran.is_err()
        && let Some(signal) = answered.or_else(|| next_ending(&set))
    {
        die_of(signal);
    }
}

/// The next ending signal of the blocked ones.
fn next_ending(set: &libc::sigset_t) -> Option<libc::c_int> {
    loop {
        let signal = wait_for(set, None)?;
        if ENDING.iter().any(|(number, _)| *number == signal) {
            return Some(signal);
        }
    }
}

/// The next of the blocked signals `set`; none where `at_most` is over first.
fn wait_for(set: &libc::sigset_t, at_most: Option<Duration>) -> Option<libc::c_int> {
    // A time that no clock reaches is no end.
    let until = at_most.and_then(|at_most| Instant::now().checked_add(at_most));
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| libc::timespec {
            tv_sec: left.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(left.subsec_nanos()),
        });
        let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `set` is initialised, `left` is null or a live local, and nobody asks for the
        // details of the signal.
        match unsafe { libc::sigtimedwait(set, ptr::null_mut(), left) } {
            signal @ 1.. => return Some(signal),
            _ => {
                let error = std::io::Error::last_os_error();
                // The handler of another signal ends no wait.
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return None;
                }
            }
        }
    }
}

/// Changes this thread's signal mask and returns the previous mask.
pub(crate) fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = empty_set();
    // SAFETY: both sets are initialised. The error is the answer itself: errno stays as it was.
    match unsafe { libc::pthread_sigmask(how, set, &raw mut before) } {
        0 => Ok(before),
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

/// Lets SIGINT, SIGQUIT, SIGTERM and SIGHUP end a program started after [`Signals::watch`],
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
    let unblock = || {
        let mut set = empty_set();
        let ending = ENDING.map(|(signal, _)| signal);
        let others = [libc::SIGTSTP, libc::SIGTTOU, libc::SIGUSR1, libc::SIGXFSZ];
        for signal in ending.into_iter().chain(others) {
            // SAFETY: `set` was initialised by sigemptyset.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        change_mask(libc::SIG_UNBLOCK, &set)?;
        Ok(())
    };
    // SAFETY: between fork and exec the child calls sigemptyset, sigaddset and pthread_sigmask
    // alone. They are async-signal-safe (signal-safety(7)), and nothing is allocated.
    unsafe { command.pre_exec(unblock) };
}

pub(crate) fn empty_set() -> libc::sigset_t {
    let mut set = mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    let mut old = mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; the kernel fills `old`, whose zeroed state is valid too.
    let old = unsafe {
        libc::sigaction(signal, ptr::null(), old.as_mut_ptr());
        old.assume_init()
    };
    old.sa_sigaction == libc::SIG_IGN
}

fn die_of(signal: libc::c_int) {
    let mut set = empty_set();
    // SAFETY: the default action of an ending signal is valid, `set` is initialised, and the
    // signal is sent to this very process, which it ends.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        // The first process of a container is not ended by signals without a handler
        // (pid_namespaces(7)), or it is, where another thread blocks the signal (`sig_ignored` of
        // kernel/signal.c). Exit with a shell's status for a death of this signal.
        if libc::getpid() == 1 {
            libc::_exit(128 + signal);
        }
        libc::kill(libc::getpid(), signal);
    }
}
