//! Helpers that the tests of the commands share.
#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

pub mod as_gnu;
pub mod cp;
pub mod link;
#[macro_use]
#[path = "../../../gush/tests/common/refused.rs"]
pub mod refused;
pub mod shell;
pub mod tls;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

pub use gush_test::{not_applicable, skipped};

/// A temporary file with this content, at position 0.
pub fn file_of(content: &[u8]) -> std::os::fd::OwnedFd {
    let file = tempfile::tempfile().expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, content, 0).expect("its content");
    file.into()
}

/// The built program, without the caller's terminal and locale.
pub fn gush() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gush"));
    command.env_remove("COLUMNS").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    // Figures of the user's are left as they are.
    command.env("XDG_DATA_HOME", gush_test::own_dir());
    command
}

/// A copy of the built program in `dir`, which every user may enter then, for users who may not
/// enter the build directory.
///
/// Another process writes the copy: a test in another thread that forks while this thread has the
/// copy open for writing would inherit the open file, and then nobody can start the copy (ETXTBSY).
pub fn copied_gush(dir: &Path) -> PathBuf {
    let program = dir.join("gush");
    let copied =
        Command::new("cp").args([env!("CARGO_BIN_EXE_gush").as_ref(), program.as_path()]).status();
    assert!(copied.unwrap().success());
    let mut mode = std::fs::metadata(dir).unwrap().permissions();
    mode.set_mode(mode.mode() | 0o055);
    std::fs::set_permissions(dir, mode).unwrap();
    program
}

/// The built program under another name, as a link in `dir`.
pub fn gush_as(name: &str, dir: &Path) -> Command {
    let link = dir.join(name);
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gush"), &link).unwrap();
    }
    let mut command = Command::new(link);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

/// The path of GNU's `tool` of version 9 or later, or the reason why there is none to compare with.
pub fn gnu(tool: &str) -> Result<PathBuf, String> {
    let found =
        ["/bin", "/usr/bin"].iter().map(|dir| Path::new(dir).join(tool)).find(|path| path.exists());
    let path = found.ok_or(format!("no {tool} on this machine"))?;
    let version =
        Command::new(&path).arg("--version").output().map_err(|error| error.to_string())?.stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    let first = version.lines().next().unwrap_or_default();
    let major =
        first.rsplit(' ').next().and_then(|number| number.split('.').next()?.parse::<u32>().ok());
    match major {
        // Older versions word messages otherwise, and BusyBox has options of its own.
        Some(9..) if first.contains("GNU coreutils") => Ok(path),
        _ => Err(format!("{tool} is no GNU coreutils 9: '{first}'")),
    }
}

/// Whether this process may become somebody without privileges, or the reason why not: the root of
/// a container may lack the capabilities to do so.
pub fn nobody() -> Result<u32, String> {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return Err("becoming another user needs root".to_owned());
    }
    // Tried by doing it: root of a container may lack CAP_SETUID.
    match Command::new("true").uid(NOBODY).gid(NOBODY).status() {
        Ok(_) => Ok(NOBODY),
        Err(error) => {
            Err(format!("becoming another user needs root and its capabilities: {error}"))
        }
    }
}

/// The same command, killed with all processes that it has started after so many seconds, which
/// `timeout` says on standard error: a guard against hanging. The standard input is empty.
pub fn bounded(seconds: u32, command: &Command) -> Command {
    // An emulated processor is many times slower: `kernels/init` says how many.
    let slowness = std::env::var("GUSH_TEST_SLOWNESS").ok().and_then(|times| times.parse().ok());
    let seconds = (seconds * slowness.unwrap_or(1)).to_string();
    within(&["timeout", "--verbose", "--signal=KILL", &seconds], command)
}

/// The same command after the words of another; the standard input is empty.
pub fn within(words: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(words[0]);
    outer.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        outer.current_dir(dir);
    }
    outer.stdin(Stdio::null());
    outer
}

/// `strace` with `options` before the program and all that it starts, or the reason why tracing is
/// impossible here. The trace is thrown away, unless an option `-o` names a file.
///
/// # Panics
/// With an option that follows children: given twice, `-f` makes a file of its own for each, next
/// to `/dev/null`, too.
pub fn strace(options: &[&str]) -> Result<Command, String> {
    let follows = |option: &&str| option.starts_with("-f") || option.starts_with("--follow");
    assert!(!options.iter().any(follows), "children are followed without {options:?}");
    static PROBED: LazyLock<Result<(), String>> = LazyLock::new(|| {
        let mut probe = Command::new("strace");
        probe
            .args(["-f", "-o", "/dev/null", "-e", "inject=getpid:error=EINTR", "true"])
            .stdin(Stdio::null());
        let said = match probe.output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => output.stderr,
            Err(error) => return Err(format!("strace: {error}")),
        };
        Err(format!("strace cannot trace: {}", String::from_utf8_lossy(&said).trim()))
    });
    PROBED.clone()?;
    let mut command = Command::new("strace");
    command.arg("-f");
    if !options.contains(&"-o") {
        command.args(["-o", "/dev/null"]);
    }
    command.args(options).arg(env!("CARGO_BIN_EXE_gush"));
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    Ok(command)
}

/// The words for an error by the C library that this program and gush are linked with: glibc's and
/// musl's differ.
pub fn words_of(errno: rustix::io::Errno) -> String {
    let said = std::io::Error::from(errno).to_string();
    said.split(" (os error").next().unwrap_or_default().to_owned()
}

/// `deny ERRNO NUMBER,… COMMAND…`, which runs a command under a seccomp filter (system calls have
/// the numbers of x86-64), built in `dir` by the C compiler that building Rust needs anyway; or the
/// reason why there is none.
pub fn denier(dir: &Path) -> Result<PathBuf, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the numbers of system calls are those of x86-64".into());
    }
    let program = dir.join("deny");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/deny.c");
    let built = Command::new("cc").args([Path::new("-o"), &program, &source]).output();
    if !built.as_ref().is_ok_and(|output| output.status.success()) {
        return Err(format!("no C compiler, or no kernel headers: {built:?}"));
    }
    let probe = Command::new(&program).args(["1", "0", "true"]).output();
    match probe.map(|output| output.status.code()) {
        Ok(Some(125)) => Err("seccomp filters are not allowed here".into()),
        Ok(_) => Ok(program),
        Err(error) => Err(format!("the filter's program does not start: {error}")),
    }
}

/// The largest prime below 1 MiB: no two places that are blocks or buffers apart show the same
/// bytes. Longer noise is copied from its first period, since a debug build makes 200 MB a second.
const NOISE_PERIOD: usize = 1_048_573;

/// Bytes that never repeat in step with any buffer size, and hold every byte value.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + NOISE_PERIOD);
    while bytes.len() < len.min(NOISE_PERIOD) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(NOISE_PERIOD);
    while bytes.len() < len {
        bytes.extend_from_within(..NOISE_PERIOD);
    }
    bytes.truncate(len);
    bytes
}
