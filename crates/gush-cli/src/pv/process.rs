//! The open files of another process, from /proc (proc_pid_fdinfo(5)).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gush_process::others;
use gush_text::os_text;
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

use super::inputs;

/// The value of `--watchfd`, or a further operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    One(WatchTarget),
    /// `=NAME`: all processes of that name.
    Named(String),
    /// `@FILE`: each line of the file is one of the above.
    Listed(PathBuf),
}

impl FromStr for Watched {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text.strip_prefix('='), text.strip_prefix('@')) {
            (Some(""), _) => Err("missing name after ="),
            (_, Some("")) => Err("missing file after @"),
            (Some(name), _) => Ok(Self::Named(name.to_owned())),
            (_, Some(path)) => Ok(Self::Listed(path.into())),
            (None, None) => text.parse().map(Self::One),
        }
    }
}

impl Watched {
    ///
    /// # Errors
    /// A message if no process has the name, or the file cannot be read or has an invalid line. A
    /// list may be empty.
    pub fn targets(&self) -> Result<Vec<WatchTarget>, String> {
        match self {
            Self::One(target) => Ok(vec![*target]),
            Self::Named(name) => named(name).map_err(|why| format!("={name}: {why}")),
            Self::Listed(path) => listed(path).map_err(|why| format!("@{}: {why}", path.display())),
        }
    }
}

fn listed(path: &Path) -> Result<Vec<WatchTarget>, String> {
    let text = fs::read_to_string(path).map_err(|error| os_text(&error))?;
    let mut targets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let more = match line.parse() {
            // Lists could name each other in a loop.
            Ok(Watched::Listed(_)) => Err("lists cannot be nested".to_owned()),
            // As in pv, it is no failure that a program is not running.
            Ok(named @ Watched::Named(_)) => Ok(named.targets().unwrap_or_default()),
            Ok(watched) => watched.targets(),
            Err(why) => Err(why.to_owned()),
        };
        targets.extend(more.map_err(|why| format!("line {number}: {why}"))?);
    }
    Ok(targets)
}

/// The other processes with this name, in order of PID.
fn named(name: &str) -> Result<Vec<WatchTarget>, String> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut pids = others::pids().map_err(|error| os_text(&error))?;
    pids.retain(|pid| *pid != own && is_called(*pid, name));
    match pids.is_empty() {
        true => Err("no process with this name".to_owned()),
        false => Ok(pids.into_iter().map(|pid| WatchTarget { pid, fd: None }).collect()),
    }
}

/// Whether process `pid` has this name.
fn is_called(pid: i32, name: &str) -> bool {
    const KEPT_BYTES: usize = 15;
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    // The kernel keeps 15 bytes of a name (proc_pid_comm(5)); a longer one is in the command line.
    if name.len() <= KEPT_BYTES {
        return read("comm").strip_suffix(b"\n") == Some(name.as_bytes());
    }
    let words = read("cmdline");
    let program = words.split(|byte| *byte == 0).next().unwrap_or_default();
    program.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes())
}

/// A process, or a descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchTarget {
    pub pid: i32,
    /// All descriptors if none.
    pub fd: Option<i32>,
}

impl FromStr for WatchTarget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected PID, PID:FD, =NAME or @LIST";
        let (pid, fd) = match text.split_once(':') {
            Some((pid, fd)) => (pid, Some(fd.parse().ok().filter(|fd| *fd >= 0).ok_or(FORM)?)),
            None => (text, None),
        };
        let pid = pid.parse().ok().filter(|pid| *pid > 0).ok_or(FORM)?;
        Ok(Self { pid, fd })
    }
}

/// A process, which is not confused with a later one of the same PID.
#[derive(Debug)]
pub struct Process {
    pub pid: i32,
    /// Readable once the process has ended (pidfd_open(2)); none where the kernel refuses.
    handle: Option<OwnedFd>,
}

impl Process {
    /// # Errors
    /// `ESRCH` if there is no such process.
    pub fn find(pid: i32) -> io::Result<Self> {
        let number = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
        // A pidfd, since the PID can be reused.
        let handle = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(error @ rustix::io::Errno::SRCH) => return Err(error.into()),
            Err(_) => None,
        };
        match is_there(pid) {
            true => Ok(Self { pid, handle }),
            false => Err(rustix::io::Errno::SRCH.into()),
        }
    }

    /// Also true for a zombie.
    pub fn has_ended(&self) -> bool {
        match &self.handle {
            Some(handle) => gush::poll_now(handle, PollFlags::IN).is_ok_and(|now| !now.is_empty()),
            None => !is_there(self.pid),
        }
    }
}

/// Whether there is a process with this PID; 0 is none.
pub fn is_there(pid: i32) -> bool {
    // EPERM is a process, too, of another user.
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Why a descriptor cannot be watched.
#[derive(Debug)]
pub enum Unwatched {
    Unseen(io::Error),
    /// Neither a regular file nor a block device, so without a position.
    NoFile(PathBuf),
}

/// A descriptor of another process.
#[derive(Clone, Debug)]
pub struct Descriptor {
    link: PathBuf,
    info: PathBuf,
    /// The file that the descriptor refers to.
    pub path: PathBuf,
    /// Device, inode, and the mode that the descriptor was opened with.
    identity: (u64, u64, u32),
    /// The size of a file that is read; a file being written has no final size yet.
    pub size_bytes: Option<u64>,
}

impl Descriptor {
    /// # Errors
    /// Why the descriptor cannot be watched.
    pub fn of(pid: i32, fd: i32) -> Result<Self, Unwatched> {
        let link = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        let path = fs::read_link(&link).map_err(Unwatched::Unseen)?;
        let identity = identity(&link).map_err(Unwatched::Unseen)?;
        let file = fs::metadata(&link).map_err(Unwatched::Unseen)?;
        let is_read_only = identity.2 & 0o200 == 0;
        let size_bytes = match inputs::bytes_of(&link, &file) {
            Ok(Some(bytes)) if is_read_only || !file.is_file() => Some(bytes),
            Ok(Some(_)) => None,
            Ok(None) => return Err(Unwatched::NoFile(path)),
            // A device without permission to open it still has a position.
            Err(_) => None,
        };
        let info = format!("/proc/{pid}/fdinfo/{fd}").into();
        let size_bytes = size_bytes.filter(|&bytes| bytes > 0);
        Ok(Self { link, info, path, identity, size_bytes })
    }

    /// The descriptor's offset in the file; none once it was closed or refers to another file.
    pub fn position(&self) -> Option<u64> {
        // The number may have been reused for another file.
        if identity(&self.link).ok()? != self.identity {
            return None;
        }
        let text = fs::read_to_string(&self.info).ok()?;
        text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
    }
}

/// The identity of an open file; differs for the same file opened with another mode.
fn identity(link: &Path) -> io::Result<(u64, u64, u32)> {
    let file = fs::metadata(link)?;
    // The mode of the link is that of the open file.
    let opened = fs::symlink_metadata(link)?.mode();
    Ok((file.dev(), file.ino(), opened))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_target_is_a_process_or_one_of_its_descriptors() {
        assert_eq!("12".parse(), Ok(WatchTarget { pid: 12, fd: None }));
        assert_eq!("12:0".parse(), Ok(WatchTarget { pid: 12, fd: Some(0) }));
        for odd in ["", "x", "0", "-1", "1:", "1:-1", "1:x", ":1", "1:2:3"] {
            assert!(odd.parse::<WatchTarget>().is_err(), "{odd}");
        }
    }

    #[test]
    fn a_name_or_a_list_stands_for_processes() {
        assert_eq!("=cat".parse(), Ok(Watched::Named("cat".into())));
        assert_eq!("@list".parse(), Ok(Watched::Listed("list".into())));
        assert_eq!("7:1".parse(), Ok(Watched::One(WatchTarget { pid: 7, fd: Some(1) })));
        for odd in ["=", "@", "cat"] {
            assert!(odd.parse::<Watched>().is_err(), "{odd}");
        }
        let list = tempfile::NamedTempFile::new().unwrap();
        let targets = |text: &str| {
            fs::write(list.path(), text).unwrap();
            Watched::Listed(list.path().to_owned()).targets()
        };
        let expected = [WatchTarget { pid: 3, fd: None }, WatchTarget { pid: 4, fd: Some(5) }];
        assert_eq!(targets("3\n\n# both\n=there is no such name\n 4:5 \n"), Ok(expected.to_vec()));
        for nobody in ["", "=there is no such name"] {
            assert_eq!(targets(nobody), Ok(Vec::new()), "{nobody}");
        }
        for (text, words) in
            [("3\nx\n", "line 2: expected PID"), ("@other", "line 1: lists cannot be nested")]
        {
            let why = targets(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_descriptor_has_a_position_until_it_is_closed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut written = File::create(&path).unwrap();
        written.write_all(b"some bytes").unwrap();
        let watched = Descriptor::of(own, written.as_raw_fd()).unwrap();
        assert_eq!((watched.size_bytes, watched.position()), (None, Some(10)));
        let mut read = File::open(&path).unwrap();
        let number = read.as_raw_fd();
        let watched = Descriptor::of(own, number).unwrap();
        assert_eq!((watched.size_bytes, watched.position()), (Some(10), Some(0)));
        read.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(watched.position(), Some(4));
        let mut replaced = OwnedFd::from(read);
        rustix::io::dup3(&written, &mut replaced, rustix::io::DupFlags::CLOEXEC).unwrap();
        assert_eq!(watched.position(), None);
        assert_eq!(watched.path, path.canonicalize().unwrap());
    }

    #[test]
    fn a_pipe_has_no_position() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let refused = Descriptor::of(own, reader.as_raw_fd());
        assert!(matches!(refused, Err(Unwatched::NoFile(_))), "{refused:?}");
        assert!(matches!(Descriptor::of(own, 1_000_000), Err(Unwatched::Unseen(_))));
    }

    #[test]
    fn a_process_that_nobody_waits_for_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::find(i32::try_from(child.id()).unwrap()).unwrap();
        while !process.has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.has_ended());
    }
}
