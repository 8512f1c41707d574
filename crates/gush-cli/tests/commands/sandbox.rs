//! gush goes round a system call that a seccomp filter denies, or reports the denial: containers
//! deny calls with EPERM, ENOSYS, EACCES.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::common::{noise, skipped};
use tempfile::TempDir;

/// A call, the number where this test knows it, and a method that cannot do without the call.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(&str, u32, Option<&str>)] = &[
    ("ioctl", 16, Some("reflink")),
    ("sendfile", 40, Some("sendfile")),
    ("fstatfs", 138, None),
    ("fadvise64", 221, None),
    ("splice", 275, Some("splice")),
    ("vmsplice", 278, Some("vmsplice")),
    ("fallocate", 285, Some("read-mmap")),
    ("pipe2", 293, Some("splice")),
    ("copy_file_range", 326, Some("copy-file-range")),
    ("statx", 332, None),
    ("io_uring_setup", 425, Some("uring")),
    ("io_uring_enter", 426, Some("uring")),
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: &[(&str, u32, Option<&str>)] = &[];

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// The launcher, or none, which is reported.
fn launcher(dir: &Path) -> Option<PathBuf> {
    crate::common::denier(dir).map_err(|why| skipped(&why)).ok()
}

fn denied(launcher: &Path, errno: i32, number: u32, words: &[&Path]) -> Output {
    Command::new(launcher)
        .args([errno.to_string(), number.to_string()])
        .arg(env!("CARGO_BIN_EXE_gush"))
        .args(words)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap()
}

/// The trials of `auto`: the words, and the kinds of standard input and standard output.
#[derive(Clone, Copy, Debug)]
enum Trial {
    CopySmall,
    CopyLarge,
    /// Read back past the page cache.
    CopyVerified,
    CatFile,
    /// From a pipe into a pipe.
    CatPipe,
    /// From a socket into a socket.
    CatSocket,
}

const TRIALS: [Trial; 6] = [
    Trial::CopySmall,
    Trial::CopyLarge,
    Trial::CopyVerified,
    Trial::CatFile,
    Trial::CatPipe,
    Trial::CatSocket,
];

const SMALL_BYTES: usize = 70_000;

/// A directory with two sources and all bytes of the larger.
fn sources() -> (TempDir, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let bytes = noise(17 << 20, 1);
    fs::write(dir.path().join("small"), &bytes[..SMALL_BYTES]).unwrap();
    fs::write(dir.path().join("large"), &bytes).unwrap();
    (dir, bytes)
}

/// Runs `gush` under `wrapper` as the trial says; returns the exit status, and the bytes that
/// arrived.
fn tried(trial: Trial, dir: &Path, mut wrapper: Command) -> (Output, Vec<u8>) {
    let target = dir.join("target");
    let _ = fs::remove_file(&target);
    wrapper.arg(env!("CARGO_BIN_EXE_gush")).current_dir(dir).env("LC_ALL", "C.UTF-8");
    wrapper.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let small = fs::read(dir.join("small")).unwrap();
    let output = match trial {
        Trial::CopySmall => wrapper.args(["cp", "small", "target"]).output().unwrap(),
        Trial::CopyLarge => wrapper.args(["cp", "large", "target"]).output().unwrap(),
        Trial::CopyVerified => {
            wrapper.args(["cp", "--verify", "small", "target"]).output().unwrap()
        }
        Trial::CatFile => {
            return arrived_on_stdout(wrapper.args(["cat", "small"]).output().unwrap());
        }
        Trial::CatPipe => {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let feeder = thread::spawn(move || writer.write_all(&small));
            let output = wrapper.arg("cat").stdin(reader).output().unwrap();
            drop(wrapper);
            let _ = feeder.join().unwrap();
            return arrived_on_stdout(output);
        }
        Trial::CatSocket => {
            let (near, mut far) = UnixStream::pair().unwrap();
            let (target, mut arrivals) = UnixStream::pair().unwrap();
            let feeder = thread::spawn(move || far.write_all(&small));
            let drain = thread::spawn(move || {
                let mut all = Vec::new();
                arrivals.read_to_end(&mut all).map(|_| all)
            });
            wrapper.arg("cat").stdin(OwnedFd::from(near)).stdout(OwnedFd::from(target));
            let output = wrapper.output().unwrap();
            drop(wrapper);
            let _ = feeder.join().unwrap();
            return (output, drain.join().unwrap().unwrap());
        }
    };
    (output, fs::read(&target).unwrap_or_default())
}

fn arrived_on_stdout(output: Output) -> (Output, Vec<u8>) {
    let arrived = output.stdout.clone();
    (output, arrived)
}

/// Which of the calls a trial makes when they are allowed (strace -c would leave out calls that it
/// has no time for, so strace's log is read).
fn calls_of(trial: Trial, dir: &Path) -> Result<HashSet<&'static str>, String> {
    crate::common::strace(&[])?;
    let log = dir.join("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(&log);
    let (output, _) = tried(trial, dir, strace);
    assert!(output.status.success(), "{trial:?} under strace: {output:?}");
    let log = fs::read_to_string(&log).unwrap();
    let made = |call: &str| log.lines().any(|line| line.contains(&format!(" {call}(")));
    Ok(CALLS.iter().map(|&(call, ..)| call).filter(|call| made(call)).collect())
}

#[test]
fn auto_goes_round_what_a_filter_denies() {
    let (dir, bytes) = sources();
    let Some(launcher) = launcher(dir.path()) else { return };
    let mut denied_somewhere = HashSet::new();
    for trial in TRIALS {
        let calls = match calls_of(trial, dir.path()) {
            Ok(calls) => calls,
            Err(why) => return skipped(&why),
        };
        let whole =
            if matches!(trial, Trial::CopyLarge) { &bytes[..] } else { &bytes[..SMALL_BYTES] };
        for &(call, number, _) in CALLS.iter().filter(|(call, ..)| calls.contains(call)) {
            denied_somewhere.insert(call);
            for errno in [EPERM, ENOSYS, EACCES] {
                let mut wrapper = Command::new(&launcher);
                wrapper.args([errno.to_string(), number.to_string()]);
                let (output, arrived) = tried(trial, dir.path(), wrapper);
                let name = format!("{trial:?}, {call} denied with {errno}");
                assert!(
                    output.status.success(),
                    "{name}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                assert!(arrived == whole, "{name}: {} bytes arrived", arrived.len());
            }
        }
    }
    // A call that nothing here makes would be denied in vain.
    let in_vain: Vec<_> = CALLS
        .iter()
        .filter(|(call, _, method)| method.is_none() && !denied_somewhere.contains(call))
        .collect();
    assert!(in_vain.is_empty(), "nothing calls {in_vain:?}");
}

/// Without splice a pipe is read and a FIFO written by calls that never wait; those are denied too.
#[test]
fn a_move_from_and_to_pipes_and_sockets_goes_round_a_denied_call_that_never_waits() {
    const SPLICE: u32 = 275;
    const NEVER_WAITING: &[(&str, u32, Trial)] = &[
        ("preadv2", 327, Trial::CatPipe),
        ("pwritev2", 328, Trial::CatPipe),
        ("recvfrom", 45, Trial::CatSocket),
        ("sendto", 44, Trial::CatSocket),
    ];
    let (dir, bytes) = sources();
    let Some(launcher) = launcher(dir.path()) else { return };
    let deny = |errno: i32, numbers: &[u32]| {
        let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
        let mut wrapper = Command::new(&launcher);
        wrapper.args([errno.to_string(), numbers.join(",")]);
        wrapper
    };
    if let Err(why) = crate::common::strace(&[]) {
        return skipped(&why);
    }
    for &(call, number, trial) in NEVER_WAITING {
        // First without the denial, to see that the call is made at all.
        let log = dir.path().join("log");
        let mut counted = deny(EPERM, &[SPLICE]);
        counted.args(["strace", "-f", "-o"]).arg(&log);
        let (output, _) = tried(trial, dir.path(), counted);
        assert!(output.status.success(), "{trial:?} without splice: {output:?}");
        let log = fs::read_to_string(&log).unwrap();
        let times = log.lines().filter(|line| line.contains(&format!(" {call}("))).count();
        assert!(times > 0, "{trial:?} does not call {call}:\n{log}");
        for errno in [EPERM, ENOSYS, EACCES, EOPNOTSUPP] {
            let (output, arrived) = tried(trial, dir.path(), deny(errno, &[SPLICE, number]));
            let name = format!("{trial:?}, {call} denied with {errno}");
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(arrived == bytes[..SMALL_BYTES], "{name}: {} bytes arrived", arrived.len());
        }
    }
}

#[test]
fn a_method_whose_call_is_denied_says_so_and_touches_nothing() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::write(&source, noise(70_000, 2)).unwrap();
    for &(call, number, method) in CALLS {
        let Some(method) = method else { continue };
        let _ = fs::remove_file(&target);
        let words = ["cp", "--method", method].map(Path::new);
        let words: Vec<_> = words.into_iter().chain([&*source, &*target]).collect();
        let output = denied(&launcher, EPERM, number, &words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{method} without {call}: {text}");
        assert!(text.contains("refused") && text.contains("EPERM"), "{method}: {text}");
        assert_eq!(fs::metadata(&target).map_or(0, |about| about.len()), 0, "{method}: {text}");
    }
}

#[test]
fn a_call_that_nothing_can_replace_is_named_when_it_is_denied() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::write(&source, noise(70_000, 3)).unwrap();
    let lseek = 8;
    let output = denied(&launcher, EPERM, lseek, &[Path::new("cp"), &source, &target]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let why = "Operation not permitted (lseek failed on the source after 0 bytes; an incomplete";
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_pipe_writer_without_vmsplice_says_so_or_goes_another_way() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    const VMSPLICE: &str = "278";
    for errno in [EPERM, ENOSYS, EOPNOTSUPP] {
        let text = |technique: &str| {
            let script = format!(
                "\"$0\" {errno} {VMSPLICE} \"$1\" pipe write {technique} --bytes 8M | \"$1\" pipe read --bytes 8M"
            );
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).arg(&launcher).arg(env!("CARGO_BIN_EXE_gush"));
            let output = shell.output().unwrap();
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        for technique in ["--vmsplice", "--technique fresh"] {
            let said = text(technique);
            assert!(said.contains("vmsplice") && said.contains("technique"), "{technique}: {said}");
        }
        for technique in ["--technique socket", "--technique write", "--technique reservoir"] {
            let said = text(technique);
            assert!(said.contains("(8MiB piped)"), "{technique}: {said}");
        }
    }
}

/// openat2(2) keeps a link in a target from leading out of the tree. Where it is missing or denied,
/// links are followed all the same, and none of them out.
#[test]
fn links_in_a_tree_lead_as_far_without_openat2() {
    const OPENAT2: u32 = 437;
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    let at = |name: &str| dir.path().join(name);
    let words =
        [PathBuf::from("cp"), "-r".into(), "--keep-directory-symlink".into(), at("s/."), at("t")];
    for errno in [EPERM, ENOSYS, EACCES] {
        let _ = ["s", "t", "guarded"].map(|name| fs::remove_dir_all(at(name)));
        for made in ["s/d", "s/e", "t/d", "t/real", "guarded"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        for (name, content) in [
            ("s/d/f", "new"),
            ("s/d/g", "new"),
            ("s/e/h", "new"),
            ("t/d/kept", "old"),
            ("guarded/g", "old"),
        ] {
            fs::write(at(name), content).unwrap();
        }
        std::os::unix::fs::symlink("kept", at("t/d/f")).unwrap();
        std::os::unix::fs::symlink("real", at("t/e")).unwrap();
        let output = denied(&launcher, errno, OPENAT2, &words.each_ref().map(|word| &**word));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && text.is_empty(), "{errno}: {text}");
        assert_eq!(fs::read_to_string(at("t/d/kept")).unwrap(), "new", "{errno}");
        assert_eq!(fs::read_to_string(at("t/real/h")).unwrap(), "new", "{errno}");

        let _ = fs::remove_file(at("t/d/g"));
        std::os::unix::fs::symlink("../../guarded/g", at("t/d/g")).unwrap();
        let output = denied(&launcher, errno, OPENAT2, &words.each_ref().map(|word| &**word));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errno}: {text}");
        assert!(text.contains("out of the target's tree"), "{errno}: {text}");
        assert_eq!(fs::read_to_string(at("guarded/g")).unwrap(), "old", "{errno}");
    }
}
