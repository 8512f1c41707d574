//! `gush cp` in bad weather: full and read-only file systems, calls that fail or are interrupted,
//! sources that change, files of every kind.

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::cp::cp;
use common::{noise, skipped, strace};

const GUSH: &str = env!("CARGO_BIN_EXE_gush");

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a script; `$G` is the program.
fn script(dir: &Path, text: &str) -> Output {
    Command::new("bash")
        .args(["-c", text])
        .env("G", GUSH)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a script that may mount things nobody else sees; `None` where that is not allowed.
fn with_mounts(dir: &Path, text: &str) -> Option<Output> {
    let probe = script(dir, "mkdir -p m && unshare -m mount -t tmpfs none m");
    if !probe.status.success() {
        skipped(&format!("no private mounts: {}", stderr(&probe).trim()));
        return None;
    }
    Some(
        Command::new("unshare")
            .args(["-m", "bash", "-c", text])
            .env("G", GUSH)
            .env("LC_ALL", "C.UTF-8")
            .current_dir(dir)
            .stdin(Stdio::null())
            .output()
            .unwrap(),
    )
}

#[test]
fn a_full_file_system_says_how_far_it_got() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(3 << 20, 1)).unwrap();
    for method in ["auto", "read-write", "sendfile", "splice"] {
        let text = format!(
            "mount -t tmpfs -o size=1m none m && \"$G\" cp --method={method} a m/b; echo $?; ls m"
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        assert_eq!(stdout(&output), "1\nb\n", "{method}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.starts_with("gush: cp: m/b: "), "{method}: {said}");
        assert!(
            said.contains(" after ") && said.contains(" bytes: No space left on device"),
            "{said}"
        );
    }
}

#[test]
fn a_full_file_system_keeps_the_old_file_with_atomic() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(3 << 20, 1)).unwrap();
    let text = "mount -t tmpfs -o size=1m none m && echo old >m/b && \
                \"$G\" cp --atomic a m/b; echo $?; ls -A m; cat m/b; \"$G\" cp --atomic a m/c; ls -A m";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    assert_eq!(stdout(&output), "1\nb\nold\nb\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
}

#[test]
fn preallocation_fails_before_the_first_byte() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(3 << 20, 1)).unwrap();
    let text = "mount -t tmpfs -o size=1m none m && \"$G\" cp --json --preallocate a m/b";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["error"]["errno"], 28);
    assert_eq!(record["error"]["delivered_bytes"], 0);
}

#[test]
fn a_read_only_file_system_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    let text = "mount -t tmpfs none m && echo old >m/b && mount -o remount,ro m && \
                for o in --verbose --atomic -f --remove-destination -b; do \
                \"$G\" cp $o a m/b >/dev/null; echo $?; \"$G\" cp a m/c; echo $?; done; cat m/b; ls -A m";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    assert_eq!(stdout(&output), "1\n1\n".repeat(5) + "old\nb\n", "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 10, "{said}");
    for line in said.lines() {
        let named = line.starts_with("gush: cp: m/b: ") || line.starts_with("gush: cp: m/c: ");
        assert!(named && line.contains(": Read-only file system"), "{line}");
    }
}

#[test]
fn what_a_user_may_not_read_or_write_is_told() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "cp \"$G\" gush; chmod 755 . gush; mkdir -m 777 d; echo secret >a; chmod 600 a; \
                echo old >b; chmod 644 b; echo new >d/n; chmod 644 d/n; mkdir -m 755 e; cd d; \
                as='setpriv --reuid 65534 --regid 65534 --clear-groups'; \
                $as ../gush cp ../a x; $as ../gush cp n ../b; $as ../gush cp --atomic n ../b; \
                $as ../gush cp n ../e/x; cat ../b; $as cp n own; chmod 444 own; echo changed >n; \
                $as ../gush cp -f n own; cat own";
    let output = script(dir.path(), text);
    let said = stderr(&output);
    if said.contains("setpriv") {
        return skipped(said.trim());
    }
    assert_eq!(stdout(&output), "old\nchanged\n", "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "gush: cp: ../a: cannot open for reading: Permission denied",
            "gush: cp: ../b: cannot open for writing: Permission denied (-f replaces it)",
            "gush: cp: ../b: cannot open for writing: Permission denied (-f replaces it)",
            "gush: cp: ../e/x: cannot create: Permission denied",
        ]
    );
}

#[test]
fn an_owner_that_cannot_be_kept_takes_the_set_id_bits_along() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "cp \"$G\" gush; chmod 755 . gush; mkdir -m 777 d; echo x >a; chmod 6755 a; \
                as='setpriv --reuid 65534 --regid 65534 --clear-groups'; \
                for o in '' --atomic; do $as ./gush cp -p $o a d/b || exit 9; stat -c '%a %u' d/b; \
                rm d/b; done; $as ./gush cp -p --preserve=xattr a d/b; stat -c '%a %u' d/b";
    let output = script(dir.path(), text);
    if stderr(&output).contains("setpriv") {
        return skipped(stderr(&output).trim());
    }
    assert_eq!(stdout(&output), "755 65534\n".repeat(3), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn attributes_that_the_target_refuses_fail_only_when_required() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    // A ramfs has no extended attributes at all.
    let text = "setfattr -n user.x -v y a && setfacl -m u:12:r a && mount -t ramfs none m || exit 99; \
                for o in -a --preserve=all --preserve=xattr -p; do \
                \"$G\" cp $o a m/b 2>m/said; echo \"$o $? $(wc -l <m/said)\"; rm m/b; done";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    if output.status.code() == Some(99) {
        return skipped(&format!("no attributes here: {}", stderr(&output).trim()));
    }
    let theirs = text.replace("\"$G\" cp", "cp");
    let expected = with_mounts(dir.path(), &theirs).unwrap();
    assert_eq!(stdout(&output), stdout(&expected), "{}", stderr(&output));
}

#[test]
fn interrupted_calls_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("d/b"));
    fs::create_dir(real.join("d")).unwrap();
    fs::write(&source, noise(10_000, 2)).unwrap();
    let calls = [
        "openat",
        "ftruncate",
        "fchmod",
        "fchown",
        "utimensat",
        "fremovexattr",
        "fgetxattr",
        "flistxattr",
        "fsync",
        "linkat",
        "renameat",
        "renameat2",
        "unlinkat",
        "faccessat2",
        "close",
        "copy_file_range",
        "ioctl",
        "pread64",
    ];
    for (title, options) in [
        ("new", &["-a", "--fsync"][..]),
        ("over", &["-p"]),
        ("atomic", &["-a", "--atomic", "--fsync", "-b"]),
        ("removing", &["--remove-destination"]),
        ("linking", &["-lf"]),
    ] {
        for call in calls {
            for time in ["1", "2"] {
                let _ = fs::remove_file(&target);
                if title != "new" {
                    fs::write(&target, "old").unwrap();
                }
                let inject = format!("inject={call}:error=EINTR:when={time}");
                let paths: Vec<_> = [&source, &target, &real.join("d")]
                    .into_iter()
                    .flat_map(|path| ["-P".to_owned(), path.to_str().unwrap().to_owned()])
                    .collect();
                let mut all: Vec<&str> = paths.iter().map(String::as_str).collect();
                all.extend(["-o", "/dev/null", "-e", &inject]);
                let mut traced = match strace(&all) {
                    Ok(traced) => traced,
                    Err(why) => return skipped(&why),
                };
                let output =
                    traced.arg("cp").args(options).args([&source, &target]).output().unwrap();
                assert!(output.status.success(), "{title}, {call}: {}", stderr(&output));
                let equal = fs::read(&target).unwrap() == noise(10_000, 2);
                assert!(equal, "{title}, {call}");
            }
        }
    }
}

#[test]
fn each_call_that_fails_is_told_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("b"));
    fs::write(&source, noise(10_000, 3)).unwrap();
    for (options, path, inject, message) in [
        (&["-v"][..], &target, "close:error=EIO:when=1", "cannot close: Input/output error"),
        (&["-p"], &target, "utimensat:error=EIO", "cannot preserve times: Input/output error"),
        (&["-p"], &target, "fchmod:error=EIO", "cannot preserve permissions: Input/output error"),
        (&["--fsync"], &target, "fsync:error=EIO", "cannot sync: Input/output error"),
        (&["--method=read-write"], &source, "read,pread64:error=EIO", "Input/output error"),
        (&["-v"], &source, "fstat,newfstatat:error=EIO:when=1", "cannot stat: Input/output error"),
        (&["-v"], &source, "openat:error=EMFILE", "cannot open for reading: Too many open files"),
    ] {
        let _ = fs::remove_file(&target);
        let inject = format!("inject={inject}");
        let traced = ["-o", "/dev/null", "-P", path.to_str().unwrap(), "-e", &inject];
        let mut traced = match strace(&traced) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let output = traced.arg("cp").args(options).args([&source, &target]).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{inject}: {said}");
        let start = format!("gush: cp: {}: ", path.display());
        assert!(said.starts_with(&start) && said.contains(message), "{inject}: {said}");
    }
}

#[test]
fn a_denied_call_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 4);
    fs::write(dir.path().join("a"), &content).unwrap();
    let all = "copy_file_range,ioctl,splice,sendfile,fallocate,fadvise64,fstatfs";
    for error in ["EPERM", "ENOSYS", "EACCES"] {
        let inject = format!("inject={all}:error={error}");
        let mut traced = match strace(&["-o", "/dev/null", "-e", &inject]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let output = traced.args(["cp", "-a", "a", "b"]).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{error}: {}", stderr(&output));
        assert!(fs::read(dir.path().join("b")).unwrap() == content, "{error}");
        fs::remove_file(dir.path().join("b")).unwrap();
    }
}

#[test]
fn a_growing_and_a_shrinking_source_end_well() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(4 << 20, 5)).unwrap();
    let growing = "(for i in $(seq 50); do echo more >>a; sleep 0.01; done) & \
                   \"$G\" cp --limit=16M a b && wait && cmp -n $(stat -c %s b) a b && \
                   test $(stat -c %s b) -ge 4194304";
    let output = script(dir.path(), growing);
    assert!(output.status.success(), "{output:?}");
    for method in ["auto", "read-write", "mmap-write", "mmap-copy", "read-mmap"] {
        fs::write(dir.path().join("a"), noise(4 << 20, 5)).unwrap();
        let shrinking = format!(
            "rm -f b; (sleep 0.05; truncate -s 100000 a) & \
             \"$G\" cp --limit=16M --method={method} a b; s=$?; wait; echo $s"
        );
        let output = script(dir.path(), &shrinking);
        let said = stderr(&output);
        // The end may simply come sooner; what may not come is a signal.
        match stdout(&output).as_str() {
            "0\n" => assert_eq!(said, "", "{method}"),
            "1\n" => assert!(said.starts_with("gush: cp: "), "{method}: {said}"),
            other => panic!("{method}: {other:?} {said}"),
        }
    }
}

#[test]
fn fifos_are_read_and_written_like_files() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(dir.path(), "mkfifo p; echo through >p & \"$G\" cp p b && cat b");
    assert_eq!(stdout(&output), "through\n", "{output:?}");
    let output = script(dir.path(), "echo into >a; cat p & \"$G\" cp a p && wait && test -p p");
    assert_eq!(stdout(&output), "into\n", "{output:?}");
    assert!(output.status.success());
}

#[test]
fn sockets_are_refused_as_sources_and_recreated_by_recursive() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let output = cp(dir.path(), &["s", "b"]);
    assert_eq!(
        stderr(&output),
        "gush: cp: s: cannot open for reading: No such device or address\n"
    );
    assert!(cp(dir.path(), &["-R", "s", "b"]).status.success());
    assert!(fs::metadata(dir.path().join("b")).unwrap().file_type().is_socket());
}

#[test]
fn devices_as_targets_stay_devices() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(10_000, 6)).unwrap();
    for options in [&["-p"][..], &["-v"], &["--sparse=always"]] {
        let before = fs::metadata("/dev/null").unwrap();
        // Keeping the mode would change the real /dev/null: use one of our own where that is asked.
        let target = if options == ["-p"] { "null" } else { "/dev/null" };
        if target == "null" && !script(dir.path(), "mknod null c 1 3 2>&1").status.success() {
            skipped("no permission to make a device");
            continue;
        }
        let arguments: Vec<_> = options.iter().copied().chain(["a", target]).collect();
        let output = cp(dir.path(), &arguments);
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let after = fs::metadata("/dev/null").unwrap();
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
        assert!(after.file_type().is_char_device());
    }
    let output = cp(dir.path(), &["a", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
}

#[test]
fn made_up_files_are_copied_whole() {
    let dir = tempfile::tempdir().unwrap();
    for source in ["/proc/cpuinfo", "/proc/self/maps", "/proc/filesystems"] {
        // They may be read-only, and so is the copy.
        let _ = fs::remove_file(dir.path().join("b"));
        let output = cp(dir.path(), &[source, "b"]);
        assert!(output.status.success(), "{source}: {}", stderr(&output));
        assert!(fs::metadata(dir.path().join("b")).unwrap().len() > 0, "{source}");
    }
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), fs::read("/proc/filesystems").unwrap());
}

#[test]
fn the_same_file_through_proc_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "content").unwrap();
    for command in ["\"$G\" cp a /proc/self/fd/7 7>>a", "\"$G\" cp /proc/self/fd/7 a 7<a"] {
        let output = script(dir.path(), command);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(stderr(&output).contains("are the same file"), "{}", stderr(&output));
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"content");
    }
}

#[test]
fn a_new_file_is_private_until_its_owner_is_right() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can give files away");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    fs::set_permissions(dir.path().join("a"), PermissionsExt::from_mode(0o644)).unwrap();
    let log = dir.path().join("log");
    let options = [
        "-o",
        log.to_str().unwrap(),
        "-e",
        "trace=openat,utimensat,fchown,flistxattr,fchmod,close",
    ];
    let mut traced = match strace(&options) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    script(dir.path(), "chown 12:34 a");
    let output = traced.args(["cp", "-a", "a", "b"]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let log = fs::read_to_string(log).unwrap();
    let created = log.lines().position(|line| line.contains("\"b\"") && line.contains("O_EXCL"));
    let after: Vec<_> = log.lines().skip(created.unwrap()).collect();
    assert!(after[0].contains("0600"), "{}", after[0]);
    let order: Vec<_> = after
        .iter()
        .filter_map(|line| {
            ["utimensat", "fchown", "flistxattr", "fchmod"].into_iter().find(|c| line.contains(c))
        })
        .collect();
    assert_eq!(order, ["utimensat", "fchown", "flistxattr", "fchmod"], "{log}");
}
