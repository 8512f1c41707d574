//! The other machine: its address, and the command that runs gush there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use gush_text::without_controls;
use gush_tree::remote::Failure;
use rustix::pipe::fcntl_setpipe_size;

use crate::error::Error;
use crate::send::Transport;

/// `HOST:PATH`, as scp(1) and rsync(1) write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What the remote shell connects to, perhaps with a user.
    pub host: OsString,
    /// The path there; empty is the directory where the command starts.
    pub path: PathBuf,
    /// What is before the path.
    pub prefix: OsString,
}

impl Address {
    /// Reads an operand. `None` is a local path: one without a colon before its first slash.
    ///
    /// ```
    /// use std::path::Path;
    /// use gush_wire::Address;
    ///
    /// let address = Address::of("ada@host:a/b:c".as_ref()).unwrap();
    /// assert_eq!((address.host, address.path.as_path()), ("ada@host".into(), Path::new("a/b:c")));
    /// let address = Address::of("[fe80::1]:/x".as_ref()).unwrap();
    /// assert_eq!(address.host, "fe80::1");
    /// let address = Address::of("ada@[fe80::1]:/x".as_ref()).unwrap();
    /// assert_eq!((address.host, address.path.as_path()), ("ada@fe80::1".into(), Path::new("/x")));
    /// assert_eq!(Address::of("./a:b".as_ref()), None);
    /// assert_eq!(Address::of(":b".as_ref()), None);
    /// ```
    #[must_use]
    pub fn of(operand: &OsStr) -> Option<Self> {
        let bytes = operand.as_bytes();
        // A user may come before the bracket.
        let bracket = bytes.iter().position(|byte| b":/[".contains(byte))?;
        let is_in_brackets = bytes[bracket] == b'[' && (bracket == 0 || bytes[bracket - 1] == b'@');
        let (host, path) = match is_in_brackets {
            true => {
                let (user, rest) = (&bytes[..bracket], &bytes[bracket + 1..]);
                let end = rest.windows(2).position(|two| two == b"]:")?;
                ([user, &rest[..end]].concat(), &rest[end + 2..])
            }
            false => {
                let colon = bytes.iter().position(|byte| *byte == b':')?;
                (bytes[..colon].to_vec(), &bytes[colon + 1..])
            }
        };
        let is_host = !host.is_empty() && !host.contains(&b'/');
        let prefix = OsStr::from_bytes(&bytes[..bytes.len() - path.len()]).to_owned();
        is_host.then(|| Self {
            prefix,
            host: OsStr::from_bytes(&host).to_owned(),
            path: Path::new(OsStr::from_bytes(path)).to_path_buf(),
        })
    }
}

/// A path of the other machine as messages show it: after what names the host.
pub(crate) fn at_host(host: &OsStr, path: &Path) -> PathBuf {
    let mut shown = host.to_owned();
    shown.push(path);
    PathBuf::from(shown)
}

/// A failure on the other machine, without control characters for this terminal.
pub(crate) fn said_at(host: &OsStr, why: Failure) -> Failure {
    let text = format!("{} {}", host.display(), without_controls(&why.text));
    let what = without_controls(&why.what);
    Failure { text, what, hint: why.hint.as_deref().map(without_controls), ..why }
}

/// The largest pipe that an unprivileged user may have (pipe(7)).
const PIPE_BYTES: usize = 1 << 20;

/// How long a command has to end after a failure.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The commands that connect the two sides, one for each pair of streams, while they run.
#[derive(Debug)]
pub struct Remote {
    command: Vec<OsString>,
    /// It is a remote shell, which may ask for a password.
    is_shell: bool,
    first: Mutex<Child>,
    /// This side has ended it.
    is_killed: AtomicBool,
    /// `None` once they are of no use.
    further: Mutex<Option<Vec<Child>>>,
}

impl Remote {
    /// Starts `shell HOST gush serve-tree`. Returns the streams from and to the other side.
    ///
    /// # Errors
    /// When the host could be taken for an option, or the program cannot be started.
    pub fn start(
        shell: &[String],
        address: &Address,
        gush: &OsStr,
    ) -> Result<(Self, (File, File)), Error> {
        if shell.is_empty() {
            return Err(Error::Local("--rsh names no command".into()));
        }
        // ssh would take it for an option, which can run any command.
        if address.host.as_bytes().starts_with(b"-") {
            return Err(Error::Local("the name of a host cannot start with '-'".into()));
        }
        let mut command: Vec<OsString> = shell.iter().map(OsString::from).collect();
        command.extend([address.host.clone(), gush.to_owned(), "serve-tree".into()]);
        let (remote, streams) = Self::connect(command)?;
        Ok((Self { is_shell: true, ..remote }, streams))
    }

    /// Starts a command whose standard input and output lead to `gush serve-tree`. Returns the
    /// streams from and to the other side.
    ///
    /// # Errors
    /// When the program cannot be started.
    ///
    /// # Panics
    /// If the command is empty.
    pub fn connect(command: Vec<OsString>) -> Result<(Self, (File, File)), Error> {
        let (first, streams) = run(&command, &[], Stdio::inherit())?;
        let (first, further) = (Mutex::new(first), Mutex::new(Some(Vec::new())));
        let is_killed = AtomicBool::new(false);
        Ok((Self { command, is_shell: false, first, is_killed, further }, streams))
    }

    fn is_ssh(&self) -> bool {
        Path::new(&self.command[0]).file_name() == Some("ssh".as_ref())
    }

    /// Waits for the first command. Returns its name and status; no status if this side has killed
    /// it.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn wait(self) -> Result<(String, Option<ExitStatus>), Error> {
        self.release();
        let mut child = self.first.into_inner().unpoisoned();
        let status = child
            .wait()
            .map_err(|error| Error::Io { doing: "waiting for the remote shell", error })?;
        let status = (!self.is_killed.into_inner()).then_some(status);
        Ok((self.command[0].to_string_lossy().into_owned(), status))
    }
}

/// Starts a command with these further arguments after its name.
fn run(
    command: &[OsString],
    options: &[&str],
    messages: Stdio,
) -> Result<(Child, (File, File)), Error> {
    let mut child = Command::new(&command[0])
        .args(options)
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(messages)
        .spawn()
        .map_err(|error| {
            let command = command[0].to_string_lossy().into_owned();
            Error::Start { command, error }
        })?;
    let (from, to) = (child.stdout.take(), child.stdin.take());
    let (from, to) = from.zip(to).expect("both are pipes");
    let streams = (File::from(OwnedFd::from(from)), File::from(OwnedFd::from(to)));
    for pipe in [&streams.0, &streams.1] {
        // Else each write of a buffer waits several times. A user's share of pages may be used up.
        let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
    }
    Ok((child, streams))
}

impl Transport for Remote {
    fn may_ask(&self) -> bool {
        self.is_shell && !self.is_ssh()
    }

    fn open(&self, shows_errors: bool) -> Result<(File, File), Error> {
        // Nobody is asked for a password again: the copy then goes on without.
        let options: &[&str] = if self.is_ssh() { &["-oBatchMode=yes"] } else { &[] };
        let mut further = self.further.lock().unpoisoned();
        let Some(further) = &mut *further else { return Err(Error::Ended) };
        // The messages of others would stand next to a question of the first one.
        let messages = if shows_errors { Stdio::inherit() } else { Stdio::null() };
        let (child, streams) = run(&self.command, options, messages)?;
        further.push(child);
        Ok(streams)
    }

    fn release(&self) {
        let further = self.further.lock().unpoisoned().take();
        for mut child in further.into_iter().flatten() {
            // It can have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The commands may go on without reading, or wait for input. The first one has a second to end
    /// by itself.
    fn end(&self) {
        self.release();
        let mut child = self.first.lock().unpoisoned();
        let begun = Instant::now();
        while begun.elapsed() < LAST_WORDS {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.is_killed.store(child.kill().is_ok(), Ordering::Relaxed);
    }
}
