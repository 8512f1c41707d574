//! New pseudo-terminals (pty(7)), for programs of the link and as separate ends.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use gush::Unpoisoned;
use gush_net::Conduit;
use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::{Errno, ioctl_fionread};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};
use tokio::time::Instant;

use super::error::{OpenError, Step};
use super::keeper::Made;
use super::permissions::Permissions;
use super::publish::{Hidden, has_last_part};
use super::{End, Peer, terminal};
use crate::address::{Opt, OptionSet};

const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);

/// The pause between checks for which there is no event.
const LOOK: Duration = Duration::from_millis(20);

/// A new pseudo-terminal's master, with the settings that the options say and a window of `size`.
pub(super) fn master(options: &OptionSet, size: Winsize) -> io::Result<OwnedFd> {
    let master = openpt(FLAGS)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    // Those of the slave: pty_common_install in drivers/tty/pty.c links the two.
    let mut settings = tcgetattr(&master)?;
    terminal::change(&mut settings, options)?;
    tcsetattr(&master, OptionalActions::Now, &settings)?;
    // Full-screen programs do not work with 0 columns and rows.
    tcsetwinsize(&master, size)?;
    Ok(master)
}

/// The other side of a master.
pub(super) fn slave(master: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(ioctl_tiocgptpeer(master, FLAGS)?)
}

/// A new pseudo-terminal, for the program that opens the slave.
pub(crate) async fn open(options: &OptionSet) -> Result<End, OpenError> {
    const STEP: &str = "make a pseudo-terminal";
    let permissions = Permissions::of(options, 0o620)?;
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let master = master(options, size).step(STEP)?;
    let name = ptsname(&master, Vec::new()).step(STEP)?;
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    permissions.give(&name, FileType::CharacterDevice)?;
    let ours = Ours::new(&name);
    let made = match options.path(Opt::Link) {
        Some(link) => link_to(&name, Path::new(link), options)?,
        None => None,
    };
    tracing::info!("PTY is {}", name.display());
    if options.is_on(Opt::WaitSlave) {
        until_opened(&master).await.step("wait for its slave")?;
    }
    let line = match options.is_on(Opt::WaitSlave) {
        true => Line::Watched(master.try_clone().step(STEP)?),
        false => Line::Held(slave(&master).step(STEP)?),
    };
    let conduit = Conduit::new(master).step(STEP)?;
    let mut end = End::new(conduit, Peer::Other(name.display().to_string()));
    end.keeper.made.extend(made);
    end.keeper.lines.push(line);
    end.keeper.ours.push(ours);
    Ok(end)
}

static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Registers the name of a pseudo-terminal of this process, which is closed later: another process
/// may get the name of a closed one.
#[derive(Debug)]
pub(super) struct Ours(PathBuf);

impl Ours {
    fn new(name: &Path) -> Self {
        OURS.lock().unpoisoned().insert(name.to_owned());
        Self(name.to_owned())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        OURS.lock().unpoisoned().remove(&self.0);
    }
}

/// A pseudo-terminal for programs that this process did not start.
#[derive(Debug)]
pub(super) enum Line {
    /// The slave: while it is open, programs may open and close the terminal repeatedly.
    Held(OwnedFd),
    /// A copy of the master, which the program that closes the slave hangs up.
    Watched(OwnedFd),
}

impl Line {
    /// Does it go on when a program has closed the slave?
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// How many bytes wait to be read at the slave, at least; 0 if it was closed.
    fn unread_bytes(&self) -> u64 {
        match self {
            Self::Held(slave) => unread_bytes(slave),
            Self::Watched(master) => {
                let now = gush::poll_now(master, PollFlags::empty()).unwrap_or(PollFlags::HUP);
                let slave = if now.contains(PollFlags::HUP) { None } else { slave(master).ok() };
                slave.map_or(0, |slave| unread_bytes(&slave))
            }
        }
    }
}

/// How many bytes can be read from a slave, at least: its queue of 4 KiB may be followed by more.
fn unread_bytes(slave: &OwnedFd) -> u64 {
    // This call moves what was written to the master to the queue (n_tty_poll of
    // drivers/tty/n_tty.c).
    let _ = gush::poll_now(slave, PollFlags::IN);
    ioctl_fionread(slave).unwrap_or(0)
}

/// Waits until all that was written to the masters of `lines` is read at their slaves.
///
/// # Errors
/// How many bytes were not, where for `limit` none was read.
pub(super) async fn are_read(lines: &[Line], limit: Duration) -> Result<(), u64> {
    // A read(2) empties the queue before it lets the kernel refill it (n_tty_check_unthrottle of
    // drivers/tty/n_tty.c), and may be preempted in between.
    const EMPTY_LOOKS: u32 = 3;
    let (mut before, mut progress, mut empty_looks) = (0, Instant::now(), 0);
    loop {
        let unread: u64 = lines.iter().map(Line::unread_bytes).sum();
        empty_looks = if unread == 0 { empty_looks + 1 } else { 0 };
        if lines.is_empty() || empty_looks == EMPTY_LOOKS {
            return Ok(());
        }
        if std::mem::replace(&mut before, unread) != unread {
            progress = Instant::now();
        }
        if unread > 0 && progress.elapsed() >= limit {
            return Err(unread);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Gives the slave a name that stays, as a symbolic link.
fn link_to(slave: &Path, link: &Path, options: &OptionSet) -> Result<Option<Made>, OpenError> {
    let unlink = options.is_on(Opt::Unlink);
    let check = |path: &Path| check(path, unlink);
    check(link)?;
    let hidden = Hidden::symlink(slave, link)?;
    let made = Made::if_removed(link, hidden.path(), options).step("make the link")?;
    hidden.publish(link, check)?;
    Ok(made)
}

/// Refuses a `path` that exists, unless it is a link to a pseudo-terminal that `unlink` permits to
/// replace, or one of an earlier client of this process.
fn check(path: &Path, unlink: bool) -> Result<(), OpenError> {
    let taken = |hint: &str| {
        let error = OpenError::new("make the link", Errno::EXIST);
        Err(error.hinted(hint.to_owned()))
    };
    has_last_part("make the link", path)?;
    match std::fs::read_link(path) {
        Ok(target) if !target.starts_with("/dev/pts") => {
            taken("it is a link to something else: choose another name")
        }
        Ok(_) if unlink => Ok(()),
        // As with socat, the newest client gets the name.
        Ok(target) if OURS.lock().unpoisoned().contains(&target) => Ok(()),
        Ok(_) => taken("it is a link to a pseudo-terminal: remove it, or say unlink"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            taken("a file that is not a link has this name: choose another")
        }
        Err(error) => Err(OpenError::new("make the link", error)),
    }
}

/// Waits until the slave is open. A master whose slave was opened and closed shows a hang-up until
/// the slave is opened again (tty_open and pty_close in drivers/tty).
async fn until_opened(master: &OwnedFd) -> io::Result<()> {
    // Before the first open it shows none.
    drop(slave(master)?);
    loop {
        let now = gush::poll_now(master, PollFlags::IN)?;
        // A program may have opened and closed it between two checks, and have left bytes.
        if now.contains(PollFlags::IN) || !now.contains(PollFlags::HUP) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Does a terminal pass bytes on as they are, so that none can stand for an end of data?
pub(super) fn is_raw(master: BorrowedFd<'_>) -> bool {
    tcgetattr(master).is_ok_and(|settings| {
        !settings.local_modes.contains(LocalModes::ICANON)
            && !settings.output_modes.contains(OutputModes::OPOST)
    })
}

/// Waits until there has been nothing to read at the slave for `long`. Output is dropped meanwhile.
pub(super) async fn has_read(master: &OwnedFd, long: Duration) {
    let (mut had_some, mut dropped) = (Instant::now(), [0; 4 << 10]);
    while had_some.elapsed() < long {
        tokio::time::sleep(LOOK).await;
        let flags = PollFlags::IN;
        let now = gush::poll_now(master, flags).unwrap_or(PollFlags::HUP);
        if now.contains(PollFlags::IN) {
            // With a full terminal the program would not get to read its input.
            let _ = rustix::io::read(master, &mut dropped);
        }
        // A closed slave may be opened again; only an open one shows what is to be read.
        let is_read = !now.contains(PollFlags::HUP)
            && slave(master).is_ok_and(|slave| ioctl_fionread(slave).is_ok_and(|left| left == 0));
        if !is_read {
            had_some = Instant::now();
        }
    }
}
