//! A source that changes during the copy: the bytes that were there are copied, and the user is
//! reported.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::common::cp::{cp, names, shares_blocks, stderr, with_files};
use crate::common::{gush, noise, not_applicable, skipped, strace};

const LEN: usize = 4 << 20;
const LEFT: u64 = 1_000_003;

/// Runs `command`, which copies `source`, and makes the change while parts of the copy are missing:
/// the copier is stopped, looked at, and let go on after the change. A copier that was done before
/// the look is of no use: `prepare` makes the files of another attempt.
fn changed_meanwhile(
    source: &Path,
    prepare: impl Fn(),
    command: impl Fn() -> Command,
    change: impl Fn(),
) -> Output {
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        prepare();
        let all = fs::read(source).unwrap();
        let child = command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_bytes(&child);
        stop(&child);
        // Reserved space, and a size given ahead, show nothing: the bytes do.
        let arrived = written(&child).and_then(|file| fs::read(file).ok());
        let is_under_way = arrived.is_some_and(|arrived| arrived != all);
        if is_under_way {
            change();
        }
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        if is_under_way {
            return output;
        }
    }
    panic!("in {ATTEMPTS} attempts no copy was still under way");
}

/// The process and its children.
fn with_children(child: &Child) -> Vec<String> {
    let pid = child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let all = format!("{pid} {}", children.unwrap_or_default());
    all.split_whitespace().map(str::to_owned).collect()
}

/// The file that the process, or a child of it, reads and writes, once the file has space on disk:
/// a way to it by the process's descriptor.
fn written(child: &Child) -> Option<PathBuf> {
    with_children(child).iter().find_map(|pid| {
        let dir = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        dir.flatten().find_map(|entry| {
            let file = fs::metadata(entry.path()).ok()?;
            let open = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
            let flags = fs::read_to_string(open).ok()?;
            let octal = flags.lines().find_map(|line| line.strip_prefix("flags:"))?;
            let flags = u32::from_str_radix(octal.trim(), 8).ok()?;
            let is_written = file.is_file() && file.blocks() > 0 && flags & 3 == 2;
            is_written.then(|| entry.path())
        })
    })
}

/// Until the process, or a child of it, has written to disk or allocated space. One that has ended
/// is not waited for: its number would be another's, and a signal could not be sent.
fn wait_for_bytes(child: &Child) {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let has_ended = || waitid(WaitId::Pid(Pid::from_child(child)), ended).unwrap().is_some();
    while !has_ended() && written(child).is_none() {
        std::thread::yield_now();
    }
}

/// Stops the process, and waits until it and its children stand still. Those of a stopped strace
/// wait in a call, or for strace after their last one.
fn stop(child: &Child) {
    kill_process(Pid::from_child(child), Signal::STOP).unwrap();
    let stands_still = |pid: &String| {
        let still = if *pid == child.id().to_string() { "TZX" } else { "tTZXS" };
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        // The state follows the name in parentheses (proc_pid_stat(5)).
        let mut states = stats.filter_map(|stat| stat.rsplit(") ").next()?.chars().next());
        states.all(|state| still.contains(state))
    };
    while !with_children(child).iter().all(stands_still) {
        std::thread::yield_now();
    }
}

fn shrink(path: &Path) {
    fs::File::options().write(true).open(path).unwrap().set_len(LEFT).unwrap();
}

/// A copy slow enough for somebody to change the source meanwhile.
fn slow(dir: &Path, options: &[&str]) -> Command {
    let mut command = gush();
    command.current_dir(dir).args(["cp", "--limit=8M", "--buffer-size=64K"]).args(options);
    command.args(["a", "b"]);
    command
}

/// The methods by which a copy takes so long that the source can change meanwhile.
fn that_take_time<'m>(methods: &[&'m str]) -> Vec<&'m str> {
    let clones = shares_blocks();
    if clones {
        not_applicable("auto, copy-file-range: a clone is made at once");
    }
    let takes_time = |method: &&str| !(clones && ["auto", "copy-file-range"].contains(method));
    methods.iter().copied().filter(takes_time).collect()
}

fn check(output: &Output, dir: &Path, title: &str) {
    let said = stderr(output);
    assert!(output.status.success(), "{title}: {said}");
    let warning = format!("warning: 'a' changed while it was being copied: {LEN} bytes became");
    assert!(said.contains(&warning), "{title}: {said}");
    let arrived = fs::read(dir.join("b")).unwrap();
    let all = noise(LEN, 5);
    assert!(arrived.len() as u64 >= LEFT && arrived.len() < LEN, "{title}: {}", arrived.len());
    assert!(arrived[..] == all[..arrived.len()], "{title}: bytes that never were");
}

#[test]
fn a_source_that_shrinks_is_copied_as_far_as_it_was_there_and_reported() {
    let dir = with_files(&[]);
    let methods = ["auto", "read-write", "mmap-write", "mmap-copy", "read-mmap", "sendfile"];
    let others = ["copy-file-range", "vmsplice", "direct", "uring"];
    for method in that_take_time(&[&methods[..], &others].concat()) {
        for more in [&[][..], &["--atomic"], &["--verify"]] {
            for old in [None, Some(noise(LEN * 2, 9))] {
                let source = dir.path().join("a");
                let prepare = || {
                    let _ = fs::remove_file(dir.path().join("b"));
                    if let Some(old) = &old {
                        fs::write(dir.path().join("b"), old).unwrap();
                    }
                    fs::write(&source, noise(LEN, 5)).unwrap();
                };
                let how = format!("--method={method}");
                let command = || slow(dir.path(), &[more, &[&how]].concat());
                let output = changed_meanwhile(&source, prepare, command, || shrink(&source));
                let title = format!("{method} {more:?}");
                // Only a hash that was made in passing is of what was copied.
                if more == ["--verify"] && output.status.code() == Some(1) {
                    let said = stderr(&output);
                    assert!(said.contains("the source changed meanwhile"), "{title}: {said}");
                    continue;
                }
                check(&output, dir.path(), &title);
                assert_eq!(names(dir.path()), ["a", "b"], "{title}");
            }
        }
    }
}

#[test]
fn a_source_that_shrinks_under_several_threads_is_copied_as_far_as_it_was_there() {
    let dir = with_files(&[]);
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("b"));
    let methods = ["auto", "read-write", "read-mmap", "mmap-write", "copy-file-range"];
    for method in that_take_time(&methods) {
        let prepare = || {
            fs::write(&source, noise(32 << 20, 5)).unwrap();
            let _ = fs::remove_file(&target);
        };
        let slowly = "inject=pread64,pwrite64,copy_file_range:delay_exit=10000";
        if let Err(why) = strace(&["-e", slowly]) {
            return skipped(&why);
        }
        let command = || {
            let mut traced = strace(&["-e", slowly]).unwrap();
            traced.args(["cp", "--threads=3", "--method", method]).args([&source, &target]);
            traced
        };
        let output = changed_meanwhile(&source, prepare, command, || shrink(&source));
        let said = stderr(&output);
        assert!(output.status.success() && said.contains("changed while"), "{method}: {said}");
        let arrived = fs::read(&target).unwrap();
        let all = noise(32 << 20, 5);
        assert!(arrived.len() as u64 >= LEFT && arrived.len() < all.len(), "{method}");
        // A read that a truncation overtakes may see the zeros after the new end.
        let wrong =
            |(at, (got, was)): (usize, (&u8, &u8))| got != was && !(*got == 0 && at as u64 >= LEFT);
        let wrong = arrived.iter().zip(&all).enumerate().position(wrong);
        assert_eq!(wrong, None, "{method}: bytes that never were in {}", arrived.len());
    }
}

#[test]
fn with_stable_a_source_that_changes_is_a_failure_that_publishes_nothing() {
    let grows = |path: &Path| {
        use std::io::Write;
        fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
    };
    fn is_written(path: &Path) {
        use std::os::unix::fs::FileExt;
        fs::File::options().write(true).open(path).unwrap().write_all_at(b"else", 0).unwrap();
    }
    let is_written_with_its_time_put_back = |path: &Path| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        is_written(path);
        fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    };
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("shrinks", shrink),
        ("grows", grows),
        ("is written to", is_written),
        ("is written to, and its time put back", is_written_with_its_time_put_back),
    ];
    for (title, change) in changes {
        let dir = with_files(&[]);
        let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
        let changed = |options: &[&str], old: Option<&str>| {
            let prepare = || {
                fs::write(&source, noise(LEN, 5)).unwrap();
                let _ = fs::remove_file(&target);
                if let Some(old) = old {
                    fs::write(&target, old).unwrap();
                }
            };
            // A clone would be made at once.
            let command =
                || slow(dir.path(), &[&["--stable", "--reflink=never"], options].concat());
            let output = changed_meanwhile(&source, prepare, command, || change(&source));
            assert_eq!(output.status.code(), Some(1), "{title}: {output:?}");
            stderr(&output)
        };
        let said = changed(&["--json"], None);
        assert!(said.contains("; the new file was removed"), "{title}: {said}");
        assert_eq!(names(dir.path()), ["a"], "{title}");

        let said = changed(&["--atomic"], Some("old"));
        assert!(said.contains("; no copy was made"), "{title}: {said}");
        assert_eq!(fs::read(&target).unwrap(), b"old", "{title}");
        assert_eq!(names(dir.path()), ["a", "b"], "{title}");

        let said = changed(&[], Some("old"));
        assert!(said.contains("; the target holds the bytes read so far"), "{title}: {said}");
    }
}

#[test]
fn with_stable_a_new_file_that_cannot_be_removed_is_not_said_to_be() {
    let dir = with_files(&[]);
    let here = |name: &str| dir.path().canonicalize().unwrap().join(name);
    let prepare = || {
        fs::write(here("a"), noise(LEN, 5)).unwrap();
        let _ = fs::remove_file(here("b"));
    };
    // A clone would be made at once.
    let command = || slow(dir.path(), &["--stable", "--reflink=never"]);
    let output = changed_meanwhile(&here("a"), prepare, command, || {
        fs::write(here("other"), "another file").unwrap();
        fs::rename(here("other"), here("b")).unwrap();
        shrink(&here("a"));
    });
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("; the new file was not removed: its name is now another file's"),
        "{said}"
    );
    assert_eq!(fs::read(here("b")).unwrap(), b"another file");

    let inject = "inject=unlinkat,unlink:error=EACCES";
    if let Err(why) = strace(&["-e", inject]) {
        return skipped(&why);
    }
    let command = || {
        let mut traced = strace(&["-e", inject]).unwrap();
        traced.args(["cp", "--limit=8M", "--buffer-size=64K", "--stable", "--reflink=never"]);
        traced.args(["a", "b"]);
        traced.current_dir(dir.path());
        traced
    };
    let output = changed_meanwhile(&here("a"), prepare, command, || {
        fs::File::options().write(true).open(here("a")).unwrap().set_len(3).unwrap();
    });
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("; the new file was not removed: Permission denied"), "{said}");
    assert!(here("b").exists());
}

#[test]
fn with_stable_a_source_that_is_being_written_to_is_never_copied_torn() {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    const RUNS: usize = 16;
    let dir = with_files(&[("a", &vec![0; LEN])]);
    let source = fs::File::options().write(true).open(dir.path().join("a")).unwrap();
    let is_over = AtomicBool::new(false);
    let torn = std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in (0..=u8::MAX).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                source.write_all_at(&vec![byte; LEN], 0).unwrap();
            }
        });
        let is_torn = |_: &usize| {
            let output = cp(dir.path(), &["--stable", "--atomic", "a", "b"]);
            output.status.success() && {
                let copy = fs::read(dir.path().join("b")).unwrap();
                copy.len() != LEN || copy.iter().any(|byte| *byte != copy[0])
            }
        };
        let torn = (0..RUNS).filter(is_torn).count();
        is_over.store(true, Ordering::Relaxed);
        torn
    });
    assert_eq!(torn, 0, "of {RUNS} copies");
}

/// The kernel sets a file's times when a write begins. A write that then gets no processor looks
/// like no write.
#[test]
fn with_stable_a_write_that_began_long_ago_is_waited_for() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const LEN: usize = 32 << 20;
    let dir = with_files(&[("0", &vec![0; LEN]), ("1", &vec![1; LEN]), ("a", &vec![0; LEN])]);
    let changed = || {
        let source = fs::metadata(dir.path().join("a")).unwrap();
        (source.ctime(), source.ctime_nsec())
    };
    let write = |from: &str| {
        let mut dd = Command::new("chrt");
        dd.args(["--idle", "0", "dd", &format!("if={from}"), "of=a", "bs=32M", "count=1"]);
        dd.args(["iflag=fullblock", "conv=notrunc,nocreat", "status=none"]);
        dd.current_dir(dir.path()).stdin(Stdio::null()).spawn()
    };
    let is_over = AtomicBool::new(false);
    let torn = std::thread::scope(|scope| {
        // Nothing is left for who is idle.
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let is_torn = |from: &str| -> Result<bool, String> {
            let before = changed();
            let mut dd = write(from).map_err(|error| format!("chrt: {error}"))?;
            while changed() == before {
                if let Some(status) = dd.try_wait().unwrap() {
                    return Err(format!("chrt cannot make a write idle: {status}"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(150));
            let output = cp(dir.path(), &["--stable", "--atomic", "a", "b"]);
            assert!(dd.wait().unwrap().success());
            let copy = fs::read(dir.path().join("b")).unwrap_or_default();
            Ok(output.status.success() && copy.iter().any(|byte| *byte != copy[0]))
        };
        let torn: Result<Vec<bool>, String> = ["1", "0"].into_iter().map(is_torn).collect();
        is_over.store(true, Ordering::Relaxed);
        torn
    });
    match torn {
        Ok(torn) => assert_eq!(torn, [false; 2]),
        Err(why) => skipped(&why),
    }
}

#[test]
fn a_source_that_stays_is_copied_with_stable_and_without_a_word() {
    let dir = with_files(&[("a", &noise(10_000, 1))]);
    for more in [&["--stable"][..], &["--stable", "--atomic"], &[]] {
        let output = cp(dir.path(), &[more, &["a", "b"]].concat());
        assert!(output.status.success(), "{more:?}: {output:?}");
        assert_eq!(stderr(&output), "", "{more:?}");
    }
    let said = stderr(&cp(dir.path(), &["--stable", "-l", "a", "c"]));
    assert!(said.contains("--stable cannot be used with"), "{said}");
}

#[test]
fn with_stable_a_source_whose_times_do_not_show_changes_is_refused_before_it_is_opened() {
    let dir = with_files(&[]);
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for source in ["fifo", "/proc/uptime", "/dev/null"] {
        for more in [&["--stable"][..], &["--stable", "--atomic"]] {
            let output = cp(dir.path(), &[more, &[source, "b"]].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{source} {more:?}: {said}");
            let text = format!("cannot detect changes of '{source}', as --stable requires");
            assert!(said.contains(&text), "{more:?}: {said}");
        }
    }
    for (source, target) in [("/proc/version", "b"), ("/dev/null", "c")] {
        assert!(cp(dir.path(), &[source, target]).status.success(), "without --stable: {source}");
    }
    assert!(cp(dir.path(), &["--stable", "-R", "fifo", "anew"]).status.success(), "made anew");
    assert_eq!(crate::common::cp::names(dir.path()), ["anew", "b", "c", "fifo"]);
}
