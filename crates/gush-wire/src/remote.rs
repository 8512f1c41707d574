//! The other machine: its address, and the command that runs gush there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;

/// `HOST:PATH`, as scp(1) and rsync(1) write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What the remote shell connects to, perhaps with a user.
    pub host: OsString,
    /// The path there; empty is the directory where the command starts.
    pub path: PathBuf,
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
        is_host.then(|| Self {
            host: OsStr::from_bytes(&host).to_owned(),
            path: Path::new(OsStr::from_bytes(path)).to_path_buf(),
        })
    }
}

/// How long a command has to end after a failure.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The command that connects the two sides, while it runs.
#[derive(Debug)]
pub struct Remote {
    child: Mutex<Child>,
    command: String,
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
        let [program, arguments @ ..] = shell else {
            return Err(Error::Refused("--rsh names no command".into()));
        };
        // ssh would take it for an option, which can run any command.
        if address.host.as_bytes().starts_with(b"-") {
            return Err(Error::Refused("the name of a host cannot start with '-'".into()));
        }
        let started = Command::new(program)
            .args(arguments)
            .arg(&address.host)
            .arg(gush)
            .arg("serve-tree")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child =
            started.map_err(|error| Error::Start { command: program.clone(), error })?;
        let (from, to) = (child.stdout.take(), child.stdin.take());
        let (from, to) = from.zip(to).expect("both are pipes");
        let streams = (File::from(OwnedFd::from(from)), File::from(OwnedFd::from(to)));
        Ok((Self { child: Mutex::new(child), command: program.clone() }, streams))
    }

    /// Ends the command after a failure: it may go on without reading, or wait for input. It has a
    /// second to end by itself.
    pub fn end(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        while begun.elapsed() < LAST_WORDS {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        // It can have ended meanwhile.
        let _ = child.kill();
    }

    /// Waits for the command.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn wait(self) -> Result<(String, ExitStatus), Error> {
        let mut child = self.child.into_inner().unwrap_or_else(PoisonError::into_inner);
        let status = child
            .wait()
            .map_err(|error| Error::Io { doing: "waiting for the remote shell", error })?;
        Ok((self.command, status))
    }
}
