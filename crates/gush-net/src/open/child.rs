//! Programs as ends: started with a socket, pipes or a terminal, and ended with the link.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::watch::watch;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tokio::io::Interest;

use super::error::OpenError;
use super::{End, How, Peer};
use crate::address::{Opt, Options};
use crate::conduit::Conduit;

/// How long a program may take to end when it is asked to, before it is made to.
const GRACE: Duration = Duration::from_secs(2);

/// Of the service manager's words to us; a program that is started is not meant (sd_listen_fds(3)).
const NOT_FOR_CHILDREN: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

pub(super) fn exec(words: &[String], options: &Options, how: &How) -> Result<End, OpenError> {
    let Some((name, arguments)) = words.split_first() else {
        return Err(OpenError::said("start", "a command is missing"));
    };
    let mut command = Command::new(name);
    command.args(arguments);
    start(command, name, options, how)
}

pub(super) fn shell(line: &str, options: &Options, how: &How) -> Result<End, OpenError> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    start(command, "/bin/sh", options, how)
}

fn start(mut command: Command, name: &str, options: &Options, how: &How) -> Result<End, OpenError> {
    let plumbing = |error: io::Error| OpenError::new("make a connection to the program", error);
    let pty = options.is_on(Opt::Pty);
    let ends = match pty {
        true => terminal(options),
        false if options.is_on(Opt::Pipes) || how.is_one_way() => pipes(how),
        false => socket(),
    };
    let Ends { ours, input, output, error } = ends.map_err(plumbing)?;
    command.stdin(input).stdout(output).stderr(if options.is_on(Opt::Stderr) || pty {
        error
    } else {
        Stdio::inherit()
    });
    for variable in NOT_FOR_CHILDREN {
        command.env_remove(variable);
    }
    if let Some(directory) = options.path(Opt::Directory) {
        if let Err(error) = std::fs::metadata(directory) {
            return Err(OpenError::new(format!("change to {}", directory.display()), error));
        }
        command.current_dir(directory);
    }
    gush_process::unblocked(&mut command);
    if pty || options.is_on(Opt::Setsid) {
        gush_process::in_new_session(&mut command, pty);
    } else {
        command.process_group(0);
    }
    let child = command.spawn().map_err(|error| {
        let kind = error.kind();
        let error = OpenError::new(format!("start {name}"), error).passing(false);
        match kind {
            io::ErrorKind::NotFound => {
                error.hinted("no such program is in PATH; pipes and other shell words need shell:")
            }
            io::ErrorKind::PermissionDenied => error.hinted("the file is not executable"),
            _ => error,
        }
    })?;
    let program = Program { child, status: None };
    // The child's ends are closed here: only so does its end of data arrive.
    drop(command);
    let conduit = how.narrowed(ours.map_err(plumbing)?)?;
    let mut end = End::new(conduit, Peer::Other(format!("{name} (process {})", program.id())));
    end.keeper.program = Some(program);
    Ok(end)
}

struct Ends {
    ours: io::Result<Conduit>,
    input: Stdio,
    output: Stdio,
    error: Stdio,
}

fn socket() -> io::Result<Ends> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok(Ends {
        ours: Conduit::new(ours),
        input: theirs.try_clone()?.into(),
        output: theirs.try_clone()?.into(),
        error: theirs.into(),
    })
}

/// In one direction, what the program does in the other is its own: it reads nothing, or writes where we do.
fn pipes(how: &How) -> io::Result<Ends> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let to = how.writes().then(pipe).transpose()?;
    let from = how.reads().then(pipe).transpose()?;
    let (input, write) = match to {
        Some((read, write)) => (Stdio::from(read), Some(write)),
        None => (Stdio::null(), None),
    };
    let (output, error, read) = match from {
        Some((read, write)) => (Stdio::from(write.try_clone()?), Stdio::from(write), Some(read)),
        None => (Stdio::inherit(), Stdio::inherit(), None),
    };
    let ours = match (read, write) {
        (Some(read), Some(write)) => Conduit::of_two(read, write),
        (Some(fd), None) | (None, Some(fd)) => Conduit::new(fd),
        (None, None) => Err(io::ErrorKind::InvalidInput.into()),
    };
    Ok(Ends { ours, input, output, error })
}

fn terminal(options: &Options) -> io::Result<Ends> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs: OwnedFd = ioctl_tiocgptpeer(&ours, flags)?;
    let mut settings = tcgetattr(&theirs)?;
    if options.is_on(Opt::Raw) {
        settings.make_raw();
    }
    if let Some(on) = options.flag(Opt::Echo) {
        settings.local_modes.set(LocalModes::ECHO, on);
    }
    tcsetattr(&theirs, OptionalActions::Now, &settings)?;
    Ok(Ends {
        ours: Conduit::new(ours),
        input: theirs.try_clone()?.into(),
        output: theirs.try_clone()?.into(),
        error: theirs.into(),
    })
}

/// A program with its process group, which ends when this is dropped.
pub(super) struct Program {
    child: Child,
    status: Option<ExitStatus>,
}

impl Program {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Waits for its end, and leaves it to be reaped: until then nobody else gets the group's number.
    pub async fn finished(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let pid = self.pid().ok_or(io::ErrorKind::NotFound)?;
        if let Ok(fd) = pidfd_open(pid, PidfdFlags::NONBLOCK) {
            watch(fd, Interest::READABLE)?.readable().await?.retain_ready();
        }
        loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            if let Some(ended) = waitid(WaitId::Pid(pid), options)? {
                // As waitpid(2) would say it.
                let code = ended.exit_status().map_or(0, |code| (code & 0xff) << 8);
                let status = ExitStatus::from_raw(code | ended.terminating_signal().unwrap_or(0));
                self.status = Some(status);
                return Ok(status);
            }
            // Only where there was no descriptor left to wait with.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // A program in a session of its own leads its group too. Gone is as good as ended.
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        // One that is stopped sees the signal only when it goes on.
        self.signal(Signal::CONT);
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let stubborn = Stubborn(self.child.id());
        let Some(pid) = self.pid() else { return };
        let reap = move || stubborn.reap(pid);
        if let Err(error) =
            std::thread::Builder::new().name("gush-reaper".into()).stack_size(64 << 10).spawn(reap)
        {
            tracing::warn!(
                "process {pid:?} is left to itself: {error}",
                pid = pid.as_raw_nonzero()
            );
        }
    }
}

/// A program that did not end at once.
struct Stubborn(u32);

impl Stubborn {
    fn reap(self, pid: Pid) {
        let give_up = std::time::Instant::now() + GRACE;
        let mut pause = Duration::from_millis(1);
        let ended = || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
        };
        while !ended() {
            if std::time::Instant::now() > give_up {
                tracing::warn!("process {} does not end when asked to; it is killed", self.0);
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}
