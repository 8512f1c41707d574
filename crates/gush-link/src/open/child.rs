//! Programs as ends: started with a socket, pipes or a terminal, and ended with the link.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use gush_net::Conduit;
use gush_text::Doing;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::termios::{Winsize, tcgetwinsize};
use tokio::io::Interest;

use super::error::{OpenError, Step};
use super::passed::Passed;
use super::reaper::{self, Reach};
use super::{End, Given, OpenOptions, Peer, environment, identity, pty};
use crate::address::{Opt, OptionSet};
use crate::watch::watch;

pub(crate) fn exec(
    words: &[String],
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    let Some((name, arguments)) = words.split_first() else {
        return Err(OpenError::said("start", "a command is missing"));
    };
    let mut command = Command::new(name);
    command.args(arguments);
    start(command, name, options, how, Reach::Asked)
}

pub(crate) fn shell(line: &str, options: &OptionSet, how: &OpenOptions) -> Result<End, OpenError> {
    let mut command = Command::new("/bin/sh");
    // The name that system(3) gives it, which begins the messages of the shell.
    command.arg0("sh").arg("-c").arg(line);
    start(command, "/bin/sh", options, how, Reach::Left)
}

/// Starts a program, whose reach is `spared` if `how` leaves programs.
fn start(
    mut command: Command,
    name: &str,
    options: &OptionSet,
    how: &OpenOptions,
    spared: fn(Pid) -> Reach,
) -> Result<End, OpenError> {
    const STEP: &str = "make a connection to the program";
    let pty = options.is_on(Opt::Pty);
    let replaces = options.is_on(Opt::NoFork);
    let ends = match pty {
        _ if replaces => streams(how),
        true => terminal(options, how),
        // One way needs one pipe, whose end the program sees; a socket's would need shutdown(2).
        false if options.is_on(Opt::Pipes) || how.is_one_way() => pipes(how),
        false => socket(),
    };
    let ChildEnds { ours, input, output, error } = ends.step(STEP)?;
    // A program without a terminal writes its errors where this process does.
    let joins_errors = options.flag(Opt::Stderr).unwrap_or(pty);
    let error = if joins_errors { error } else { Stdio::inherit() };
    command.stderr(error);
    let numbers = numbers(options, how)?;
    match (input, numbers[0].unwrap_or(0)) {
        (Some(input), 0) => drop(command.stdin(input)),
        (Some(input), number) => given(&mut command, &input, number)?,
        (None, _) => {}
    }
    match (output, numbers[1].unwrap_or(1)) {
        (Some(output), 1) => drop(command.stdout(output)),
        (Some(output), number) => given(&mut command, &output, number)?,
        (None, _) => {}
    }
    environment::set(&mut command, how.client.as_ref(), how.is_once());
    identity::set(&mut command, options)?;
    if let Some(directory) = options.path(Opt::Directory) {
        // First, because the error of spawn(3) does not say which of the two is missing.
        std::fs::metadata(directory)
            .step(format!("change directory to {}", directory.display()))?;
        command.current_dir(directory);
    }
    if let Some(umask) = options.mode(Opt::Umask) {
        gush_process::with_umask(&mut command, umask);
    }
    // The link blocks signals for its own thread, and a mask is inherited over execve(2).
    gush_process::unblocked(&mut command);
    // A raised limit hurts programs that close every possible descriptor, or use select(2).
    gush_process::with_given_descriptor_limit(&mut command);
    let in_new_session = pty || options.is_on(Opt::Setsid);
    // ssh asks for a password at the terminal, which a background group may not read
    // (credentials(7)).
    let shares_terminal = !in_new_session && how.is_once() && has_terminal();
    if in_new_session {
        let terminal = match how.writes() {
            true => rustix::stdio::stdin(),
            false => rustix::stdio::stdout(),
        };
        gush_process::in_new_session(&mut command, pty.then_some(terminal));
    } else if !shares_terminal && !replaces {
        // A separate group, so that a signal also reaches the programs that it starts.
        command.process_group(0);
    }
    let failed = |error: io::Error| {
        let hint = match Errno::from_io_error(&error) {
            Some(Errno::PERM) if identity::is_changed(options) => {
                Some("another user or root directory takes root".into())
            }
            Some(Errno::NOENT) if options.has(Opt::Chroot) => {
                Some("the program, and what it needs, must be there under chroot=".into())
            }
            errno => errno.and_then(|errno| remedy(name, errno)),
        };
        let error = OpenError::new(format!("start {name}"), error).passing(false);
        error.hinted_by(hint.as_deref())
    };
    if replaces {
        return Err(failed(command.exec()));
    }
    let child = command.spawn().map_err(failed)?;
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| OpenError::said("start", "its process has no number"))?;
    let reach = match shares_terminal {
        _ if how.is_graceful() => spared(number),
        true => Reach::One(number),
        false => Reach::Group(number),
    };
    let program = Program { reach, status: None, passed: Some(Passed::to(number, options)) };
    // Closes the child's ends, without which its end of data would not arrive.
    drop(command);
    let conduit = how.narrowed(ours.step(STEP)?)?;
    let mut end = End::new(conduit, Peer::Other(format!("{name} (process {})", program.id())));
    end.keeper.program = Some(program);
    if pty && options.is_on(Opt::ShutNone) {
        let master = end.conduit.write_fd().or_else(|| end.conduit.read_fd());
        // The relay closes the master at the end of data, which would hang the program up.
        let copy = master.map(|master| master.try_clone_to_owned()).transpose();
        end.keeper.without_eof = copy.step(STEP)?;
    }
    Ok(end)
}

/// The descriptors of the program, where they are not the usual ones.
pub(super) fn numbers(
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<[Option<u32>; 2], OpenError> {
    let numbers = [options.count(Opt::InputNumber), options.count(Opt::OutputNumber)];
    if numbers[0].is_some() && !how.writes() || numbers[1].is_some() && !how.reads() {
        let why = "fdin or fdout names a descriptor for bytes that go the other way";
        return Err(OpenError::said("start", why));
    }
    Ok(numbers)
}

fn given(command: &mut Command, fd: &OwnedFd, number: u32) -> Result<(), OpenError> {
    gush_process::with_descriptor(command, fd, number)
        .map_err(|error| OpenError::new(format!("give the program descriptor {number}"), error))
}

/// The remedy for a program that does not start.
fn remedy(name: &str, errno: Errno) -> Option<Cow<'static, str>> {
    let remedy = gush_text::remedy_at(CWD, name, Doing::Starting, errno)?;
    // An existing file lacks its interpreter.
    let is_there = name.contains('/') && Path::new(name).exists();
    Some(match errno {
        Errno::NOENT if !is_there => {
            format!("{remedy}; pipes and other shell words need shell:").into()
        }
        _ => remedy.into(),
    })
}

struct ChildEnds {
    ours: io::Result<Conduit>,
    /// Inherited if there is none.
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    error: Stdio,
}

fn socket() -> io::Result<ChildEnds> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok(ChildEnds {
        ours: Conduit::new(ours),
        input: Some(theirs.try_clone()?),
        output: Some(theirs.try_clone()?),
        error: theirs.into(),
    })
}

/// With one direction only, the program inherits our standard input or output for the other.
fn pipes(how: &OpenOptions) -> io::Result<ChildEnds> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let to = how.writes().then(pipe).transpose()?;
    let from = how.reads().then(pipe).transpose()?;
    let (input, write) = match to {
        Some((read, write)) => (Some(read), Some(write)),
        None => (None, None),
    };
    let (output, error, read) = match from {
        Some((read, write)) => (Some(write.try_clone()?), Stdio::from(write), Some(read)),
        None => (None, Stdio::inherit(), None),
    };
    let ours = match (read, write) {
        (Some(read), Some(write)) => Conduit::of_two(read, write),
        (Some(fd), None) | (None, Some(fd)) => Conduit::new(fd),
        (None, None) => Err(io::ErrorKind::InvalidInput.into()),
    };
    Ok(ChildEnds { ours, input, output, error })
}

/// The descriptors of the other address, which nothing relays.
fn streams(how: &OpenOptions) -> io::Result<ChildEnds> {
    let copy = |at: usize, is_used| {
        how.streams[at].as_ref().filter(|_| is_used).map(Given::copy).transpose()
    };
    let (input, output) = (copy(0, how.writes())?, copy(1, how.reads())?);
    let error = output.as_ref().map(OwnedFd::try_clone).transpose()?;
    Ok(ChildEnds {
        ours: Err(io::ErrorKind::Unsupported.into()),
        input,
        output,
        error: error.map_or_else(Stdio::inherit, Stdio::from),
    })
}

/// As by [`pipes`], a direction that is not used is inherited.
fn terminal(options: &OptionSet, how: &OpenOptions) -> io::Result<ChildEnds> {
    let ours = pty::master(options, window())?;
    let theirs = pty::slave(&ours)?;
    let used = |is_used: bool| is_used.then(|| theirs.try_clone()).transpose();
    let (input, output) = (used(how.writes())?, used(how.reads())?);
    let error = used(how.reads())?.map_or_else(Stdio::inherit, Stdio::from);
    Ok(ChildEnds { ours: Conduit::new(ours), input, output, error })
}

/// A program, which is asked to end when this is dropped, unless it is left.
pub(super) struct Program {
    reach: Reach,
    status: Option<ExitStatus>,
    passed: Option<Passed>,
}

impl Program {
    pub fn id(&self) -> u32 {
        self.reach.pid().as_raw_pid().unsigned_abs()
    }

    /// Does the program go on when this is dropped?
    pub fn is_left(&self) -> bool {
        matches!(self.reach, Reach::Left(_))
    }

    /// Waits for the program's exit, and leaves the zombie, which keeps the group's number taken.
    pub async fn finished(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let pid = self.reach.pid();
        if let Ok(fd) = pidfd_open(pid, PidfdFlags::NONBLOCK) {
            watch(fd, Interest::READABLE)?.readable().await?.retain_ready();
        }
        loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            if let Some(ended) = waitid(WaitId::Pid(pid), options)? {
                // As by waitpid(2).
                let code = ended.exit_status().map_or(0, |code| (code & 0xff) << 8);
                let status = ExitStatus::from_raw(code | ended.terminating_signal().unwrap_or(0));
                self.status = Some(status);
                self.passed = None;
                return Ok(status);
            }
            // Only if no descriptor was left for a pidfd.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Before another process may have its number.
        self.passed = None;
        reaper::end(self.reach);
    }
}

/// Has this process a controlling terminal (tty(4))?
fn has_terminal() -> bool {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).is_ok()
}

/// The size of this process's terminal, or 24 by 80.
fn window() -> Winsize {
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let ours = [output.as_fd(), input.as_fd(), error.as_fd()].map(tcgetwinsize);
    let seen = ours.into_iter().flatten().find(|size| size.ws_row > 0 && size.ws_col > 0);
    seen.unwrap_or(Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
}
