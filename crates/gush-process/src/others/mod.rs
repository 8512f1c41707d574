//! Other processes, from /proc (proc(5)): which there are, their open descriptors, and what their
//! threads do or wait for.
//!
//! What the kernel does not show is `None`: descriptors, counts and calls of another user's process
//! require CAP_SYS_PTRACE.

mod activity;
mod sockets;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::RawPid;

pub use activity::{Activity, activity};
pub use sockets::{Peer, peers};

/// All processes, in order of PID.
///
/// # Errors
/// Those of reading /proc.
pub fn pids() -> io::Result<Vec<RawPid>> {
    numbers("/proc")
}

/// The threads of a process; empty if it has ended.
#[must_use]
pub fn threads(pid: RawPid) -> Vec<RawPid> {
    numbers(&format!("/proc/{pid}/task")).unwrap_or_default()
}

/// The entries of a directory that are numbers.
fn numbers(dir: &str) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(dir)?;
    let mut numbers: Vec<i32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// An open descriptor of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFd {
    /// Its number.
    pub fd: i32,
    /// A path, or a name such as `pipe:[4711]`, which two descriptors of one pipe share.
    pub target: PathBuf,
    /// Whether it was opened for reading.
    pub reads: bool,
    /// Whether it was opened for writing.
    pub writes: bool,
}

/// The open descriptors of a process, in order.
///
/// # Errors
/// `EACCES` without permission to inspect the process.
pub fn descriptors(pid: RawPid) -> io::Result<Vec<OpenFd>> {
    let dir = PathBuf::from(format!("/proc/{pid}/fd"));
    let open = |fd: i32| {
        let link = dir.join(fd.to_string());
        // The mode of the link is that of the open file.
        let mode = link.symlink_metadata().ok()?.mode();
        let target = fs::read_link(link).ok()?;
        Some(OpenFd { fd, target, reads: mode & 0o400 != 0, writes: mode & 0o200 != 0 })
    };
    // A descriptor may be closed meanwhile.
    Ok(numbers(&dir.to_string_lossy())?.into_iter().filter_map(open).collect())
}

/// What /proc/PID/stat shows of a process, for all users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// At most 15 bytes (proc_pid_comm(5)).
    pub name: String,
    /// `R`, `S`, `D`, `T`, `Z`, ... (proc_pid_stat(5)).
    pub state: char,
    /// The parent.
    pub parent: RawPid,
    /// The process group.
    pub group: RawPid,
    /// The session.
    pub session: RawPid,
    /// The controlling terminal; 0 is none.
    pub terminal: i32,
    /// Processor time, in clock ticks.
    pub busy_ticks: u64,
    /// The number of threads.
    pub threads: u32,
    /// When it started, in clock ticks since boot: another process of the same PID has another.
    pub started_ticks: u64,
}

/// None once the process was reaped.
#[must_use]
pub fn stat(pid: RawPid) -> Option<Stat> {
    parsed(&small(&format!("/proc/{pid}/stat"))?)
}

fn parsed(text: &str) -> Option<Stat> {
    // A name may have blanks and brackets.
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    // The first of these is field 3 of proc_pid_stat(5).
    let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
    let count = |field: usize| u64::try_from(number(field)?).ok();
    let id = |field: usize| i32::try_from(number(field)?).ok();
    Some(Stat {
        name,
        state: fields.first()?.chars().next()?,
        parent: id(4)?,
        group: id(5)?,
        session: id(6)?,
        terminal: id(7)?,
        busy_ticks: count(14)? + count(15)?,
        threads: u32::try_from(count(20)?).ok()?,
        started_ticks: count(22)?,
    })
}

/// The command line, its arguments separated by blanks; the name in brackets without one.
#[must_use]
pub fn command(pid: RawPid) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    if !text.is_empty() {
        return text;
    }
    stat(pid).map_or_else(String::new, |stat| format!("[{}]", stat.name))
}

/// The bytes that the calls of a process have read and written (proc_pid_io(5)). The kernel does
/// not count what splice(2), tee(2) and vmsplice(2) move.
#[must_use]
pub fn moved_bytes(pid: RawPid) -> Option<(u64, u64)> {
    let text = small(&format!("/proc/{pid}/io"))?;
    Some((field(&text, "rchar")?, field(&text, "wchar")?))
}

/// The PID of a process in the innermost of its PID namespaces.
#[must_use]
pub fn inner_pid(pid: RawPid) -> Option<RawPid> {
    let text = small(&format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok();
    text.lines().find_map(value)
}

/// A file of at most 4 KiB, by one read(2).
fn small(path: &str) -> Option<String> {
    let mut text = [0; 4096];
    let bytes = File::open(path).ok()?.read(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text[..bytes]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_blanks_and_brackets() {
        let text = "7 (a) S (b) T 3 4 5 34816 -1 0 1 2 3 4 50 6 7 8 20 0 2 0 99 1000\n";
        let stat = parsed(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state), ("a) S (b", 'T'));
        assert_eq!((stat.parent, stat.group, stat.session, stat.terminal), (3, 4, 5, 34816));
        assert_eq!((stat.busy_ticks, stat.threads, stat.started_ticks), (56, 2, 99));
        assert_eq!(parsed("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_sees_itself() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(pids().unwrap().contains(&own));
        assert!(threads(own).contains(&own));
        assert!(!command(own).is_empty());
        assert!(inner_pid(own).is_some());
        let (reader, writer) = std::io::pipe().unwrap();
        let (before, _) = moved_bytes(own).unwrap();
        std::io::Write::write_all(&mut &writer, &[7; 5000]).unwrap();
        std::io::Read::read_exact(&mut &reader, &mut [0; 5000]).unwrap();
        assert!(moved_bytes(own).unwrap().0 >= before + 5000);
        let open = descriptors(own).unwrap();
        let end = |fd: &dyn std::os::fd::AsRawFd| {
            open.iter().find(|open| open.fd == fd.as_raw_fd()).unwrap().clone()
        };
        let (read, written) = (end(&reader), end(&writer));
        assert_eq!(read.target, written.target);
        assert_eq!(
            (read.reads, read.writes, written.reads, written.writes),
            (true, false, false, true)
        );
    }
}
