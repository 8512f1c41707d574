//! The promises of `gush cp` beyond GNU cp: --atomic, --verify, --fsync.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use crate::common::cp::{cp, fails, names, script, stderr, succeeds, with_files, with_mounts};
use crate::common::{copied_gush, gush, nobody, noise, skipped, strace, words_of};
use rustix::io::Errno;

/// Only to end a test that hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

#[test]
fn atomic_makes_a_new_file_as_plain_cp_does() {
    let dir = with_files(&[("a", b"new")]);
    fs::set_permissions(dir.path().join("a"), PermissionsExt::from_mode(0o640)).unwrap();
    succeeds(dir.path(), &["--atomic", "a", "b"]);
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
    assert_eq!(fs::metadata(dir.path().join("b")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(names(dir.path()), ["a", "b"]);
}

#[test]
fn atomic_replaces_by_a_new_file_that_keeps_the_old_ones_mode() {
    let dir = with_files(&[("a", b"new"), ("b", b"old and longer")]);
    let target = dir.path().join("b");
    fs::set_permissions(&target, PermissionsExt::from_mode(0o604)).unwrap();
    let before = fs::metadata(&target).unwrap();
    // Whoever has the old file open keeps reading the old bytes.
    let reader = fs::File::open(&target).unwrap();
    succeeds(dir.path(), &["--atomic", "a", "b"]);
    let after = fs::metadata(&target).unwrap();
    // Another inode: the name went to a new file, and the old one was not written into.
    assert_ne!(before.ino(), after.ino());
    assert_eq!(before.mode(), after.mode());
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old and longer");
    assert_eq!(names(dir.path()), ["a", "b"]);
}

/// As a write does (`file_remove_privs` of fs/inode.c): users who run the file trust the old
/// content.
#[test]
fn atomic_takes_from_new_content_what_a_write_takes() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = with_files(&[("a", b"new")]);
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let gush = copied_gush(dir.path());
    for (bits, kept) in [(0o4755, 0o755), (0o2775, 0o775), (0o2745, 0o2745), (0o6711, 0o711)] {
        let target = dir.path().join(format!("{bits:o}"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::chown(&target, Some(user), Some(user)).unwrap();
        fs::set_permissions(&target, PermissionsExt::from_mode(bits)).unwrap();
        let mut command = Command::new(&gush);
        command.args(["cp", "--atomic", "a"]).arg(&target).current_dir(dir.path());
        let output = command.uid(user).gid(user).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, kept, "{bits:o}");
    }
}

#[test]
fn atomic_gives_new_content_no_capabilities_of_the_old() {
    let dir = with_files(&[("a", b"new"), ("b", b"old"), ("c", b"old")]);
    // `struct vfs_cap_data` of include/uapi/linux/capability.h, version 2: the capability to bind
    // low ports.
    let name = "security.capability";
    let value = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let set = |file: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(file, name, value, rustix::fs::XattrFlags::empty())
    };
    let [b, c] = ["b", "c"].map(|name| dir.path().join(name));
    if let Err(errno) = set(&b, name, &value).and_then(|()| set(&c, name, &value)) {
        return skipped(&format!("capabilities of files: {errno}"));
    }
    set(&b, "user.x", b"kept").unwrap();
    succeeds(dir.path(), &["a", "c"]);
    succeeds(dir.path(), &["--atomic", "a", "b"]);
    for file in [&c, &b] {
        let found = rustix::fs::getxattr(file, name, &mut [0; 64][..]);
        assert_eq!(found, Err(rustix::io::Errno::NODATA), "{}", file.display());
    }
    assert_eq!(rustix::fs::getxattr(&b, "user.x", &mut [0; 64][..]), Ok(4));
}

#[test]
fn atomic_replaces_no_data_by_nothing() {
    let dir = with_files(&[("a", b"new"), ("b", b"old")]);
    let said = fails(dir.path(), &["--atomic", "--attributes-only", "a", "b"]);
    assert!(said.contains("cannot be used with --attributes-only"), "{said}");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"old");
}

#[test]
fn atomic_keeps_metadata_that_is_asked_for() {
    let dir = with_files(&[("a", b"new"), ("b", b"old")]);
    let source = dir.path().join("a");
    fs::set_permissions(&source, PermissionsExt::from_mode(0o751)).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&source).unwrap().set_modified(long_ago).unwrap();
    succeeds(dir.path(), &["--atomic", "-p", "a", "b"]);
    let target = fs::metadata(dir.path().join("b")).unwrap();
    assert_eq!((target.mode() & 0o7777, target.mtime()), (0o751, 1_000_000_000));
}

#[test]
fn atomic_replaces_what_a_link_leads_to() {
    let dir = with_files(&[("a", b"new"), ("b", b"old")]);
    fs::create_dir(dir.path().join("d")).unwrap();
    symlink("../b", dir.path().join("d/link")).unwrap();
    succeeds(dir.path(), &["--atomic", "a", "d/link"]);
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
    assert!(dir.path().join("d/link").is_symlink());
    symlink("nowhere", dir.path().join("c")).unwrap();
    let said = fails(dir.path(), &["--atomic", "a", "c"]);
    assert!(said.contains("not writing through dangling symlink 'c'"), "{said}");
}

#[test]
fn atomic_backs_up_without_a_moment_without_the_file() {
    let dir = with_files(&[("a", b"new"), ("b", b"old"), ("b~", b"older")]);
    let output = succeeds(dir.path(), &["--atomic", "-b", "-v", "a", "b"]);
    assert_eq!(output.stdout, b"'a' -> 'b' (backup: 'b~')\n");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
    assert_eq!(fs::read(dir.path().join("b~")).unwrap(), b"old");
    succeeds(dir.path(), &["--atomic", "--backup=numbered", "a", "b"]);
    assert_eq!(names(dir.path()), ["a", "b", "b.~1~", "b~"]);
    // The old file has the backup's name already, and rename(2) between two names of one file does
    // nothing.
    fs::remove_file(dir.path().join("b~")).unwrap();
    fs::remove_file(dir.path().join("b.~1~")).unwrap();
    fs::hard_link(dir.path().join("b"), dir.path().join("b~")).unwrap();
    succeeds(dir.path(), &["--atomic", "-b", "a", "b"]);
    assert_eq!(names(dir.path()), ["a", "b", "b~"]);
}

#[test]
fn atomic_backs_up_before_links_and_special_files_too() {
    let dir = with_files(&[("b", b"old"), ("d", b"old")]);
    symlink("nowhere", dir.path().join("a")).unwrap();
    succeeds(dir.path(), &["--atomic", "--fsync", "-b", "-P", "a", "b"]);
    assert!(dir.path().join("b").is_symlink());
    assert_eq!(fs::read(dir.path().join("b~")).unwrap(), b"old");
    succeeds(dir.path(), &["--atomic", "-P", "a", "d"]);
    assert!(dir.path().join("d").is_symlink());
    assert_eq!(names(dir.path()), ["a", "b", "b~", "d"]);
}

#[test]
fn a_signal_ends_a_plain_copy_as_it_ends_any_program() {
    let dir = with_files(&[("a", &noise(8 << 20, 8))]);
    let mut child =
        gush().args(["cp", "--limit=64K", "a", "b"]).current_dir(dir.path()).spawn().unwrap();
    wait_until(&mut child, || dir.path().join("b").exists());
    kill("INT", &child);
    assert_eq!(wait(&mut child).signal(), Some(2));
}

#[test]
fn reflink_always_shares_every_block_where_the_file_system_can() {
    let dir = with_files(&[("a", &noise(1 << 20, 9))]);
    for (mkfs, size) in [("mkfs.btrfs -q", "120M"), ("mkfs.xfs -q", "320M")] {
        let text = format!(
            "truncate -s {size} image && {mkfs} image >&2 && mkdir -p m && mount -o loop image m || exit 99; \
             cp a m/a && sync && \"$G\" cp --reflink=always --json m/a m/b && cmp m/a m/b && \
             \"$G\" cp --json m/a m/c; s=$?; umount m; rm image; exit $s"
        );
        let output = Command::new("unshare")
            .args(["-m", "bash", "-c", &text])
            .env("G", env!("CARGO_BIN_EXE_gush"))
            .current_dir(dir.path())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(why) => return skipped(&format!("unshare: {why}")),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(99) || said.starts_with("unshare:") {
            skipped(&format!("{mkfs}: {}", said.trim()));
            continue;
        }
        assert!(output.status.success(), "{mkfs}: {output:?}");
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(record["method"], "reflink", "{mkfs}: {line}");
        }
    }
}

#[test]
fn atomic_breaks_no_rule_about_same_files_and_read_only_ones() {
    let dir = with_files(&[("a", b"new")]);
    fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
    let said = fails(dir.path(), &["--atomic", "a", "b"]);
    assert_eq!(said, "gush: cp: 'a' and 'b' are the same file\n");
    let _null = gush_test::device("null", dir.path());
    let said = fails(dir.path(), &["--atomic", "a", "null"]);
    assert!(said.contains("cannot replace 'null': not a regular file"), "{said}");
    // Standard output is a pipe here.
    for flags in [&["--atomic"][..], &["--atomic", "--dry-run"]] {
        let said = fails(dir.path(), &[flags, &["a", "/dev/stdout"]].concat());
        assert!(said.contains("cannot replace '/dev/stdout': not a regular file"), "{said}");
    }
    assert_eq!(names(dir.path()), ["a", "b", "null"]);
}

#[test]
fn atomic_works_where_files_cannot_be_nameless() {
    let dir = with_files(&[("a", b"new")]);
    fs::create_dir(dir.path().join("d")).unwrap();
    let real = dir.path().canonicalize().unwrap();
    let Some(mut traced) = without_nameless_files(&real.join("d")) else { return };
    let output = traced.args(["cp", "--atomic"]).args([real.join("a"), real.join("d/b")]).output();
    assert!(output.unwrap().status.success());
    assert_eq!(names(&real.join("d")), ["b"]);
    assert_eq!(fs::read(real.join("d/b")).unwrap(), b"new");
}

/// gush under strace, on a directory whose file system knows no O_TMPFILE.
fn without_nameless_files(dir: &Path) -> Option<Command> {
    let path = dir.to_str().unwrap();
    let options = ["-D", "-P", path, "-e", "inject=openat:error=EOPNOTSUPP"];
    strace(&options).map_err(|why| skipped(&why)).ok()
}

/// `command` with at most so many KiB in a file, and SIGXFSZ as ever.
fn limited(command: &Command, kib: u32) -> std::process::Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("ulimit -c 0; ulimit -f {kib}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args()).output().unwrap()
}

#[test]
fn the_limit_on_file_sizes_leaves_no_temporary() {
    let dir = with_files(&[("a", &noise(8 << 10, 1))]);
    fs::create_dir(dir.path().join("d")).unwrap();
    let real = dir.path().canonicalize().unwrap();
    fs::write(real.join("d/b"), "old").unwrap();
    let Some(mut traced) = without_nameless_files(&real.join("d")) else { return };
    traced.args(["cp", "--atomic"]).args([real.join("a"), real.join("d/b")]);
    let output = limited(&traced, 1);
    assert_eq!(names(&real.join("d")), ["b"]);
    assert_eq!(fs::read(real.join("d/b")).unwrap(), b"old");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("(ulimit -f)"), "{said}");
}

#[test]
fn files_below_the_limit_on_file_sizes_are_copied_when_others_are_above() {
    let dir = with_files(&[("a", &noise(8 << 10, 1)), ("b", b"small")]);
    fs::create_dir(dir.path().join("d")).unwrap();
    let mut command = gush();
    command.arg("cp").args(["a", "b", "d"].map(|name| dir.path().join(name)));
    let output = limited(&command, 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("(ulimit -f)"), "{said}");
    assert_eq!(fs::read(dir.path().join("d/b")).unwrap(), b"small");
}

/// In a directory with the attribute `a` names are made, and none is removed or replaced
/// (chattr(1)).
#[test]
fn a_directory_that_keeps_its_names_is_left_without_a_temporary() {
    let dir = with_files(&[("a", b"new")]);
    let kept = dir.path().join("d");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("old"), "old").unwrap();
    let chattr = |how: &str| Command::new("chattr").arg(how).arg(&kept).output();
    if !chattr("+a").is_ok_and(|output| output.status.success()) {
        return skipped("no chattr, no root, or no such attribute here");
    }
    let (new, old) = (kept.join("new"), kept.join("old"));
    let made = cp(dir.path(), &["--atomic", "a", "d/new"]);
    let replaced = cp(dir.path(), &["--atomic", "a", "d/old"]);
    let source = dir.path().join("a");
    let linked = cp(dir.path(), &["--atomic", "-s", "-f", source.to_str().unwrap(), "d/old"]);
    let traced = without_nameless_files(&kept.canonicalize().unwrap());
    let named = traced.map(|mut traced| {
        traced.args(["cp", "--atomic"]).args([dir.path().join("a"), kept.join("other")]).output()
    });
    let left = names(&kept);
    chattr("-a").unwrap();
    assert_eq!(left, ["new", "old"]);
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!((fs::read(new).unwrap(), fs::read(old).unwrap()), (b"new".into(), b"old".into()));
    for refused in [Some(Ok(replaced)), Some(Ok(linked)), named].into_iter().flatten() {
        let refused = refused.unwrap();
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("Operation not permitted"), "{said}");
    }
}

/// A journal and a state of ranks are removed after the copy, which such a directory does not
/// allow.
#[test]
fn a_directory_that_keeps_its_names_is_left_without_a_journal_and_a_state() {
    let dir = with_files(&[]);
    let kept = dir.path().join("d");
    fs::create_dir(&kept).unwrap();
    fs::create_dir(dir.path().join("t")).unwrap();
    fs::write(dir.path().join("t/a"), "a").unwrap();
    let chattr = |how: &str| Command::new("chattr").arg(how).arg(&kept).output();
    if !chattr("+a").is_ok_and(|output| output.status.success()) {
        return skipped("no chattr, no root, or no such attribute here");
    }
    let journal = cp(dir.path(), &["-a", "--resume", "t", "d/t"]);
    let state = cp(dir.path(), &["-a", "--shard=1/2", "t", "d/t"]);
    let left = names(&kept);
    chattr("-a").unwrap();
    assert_eq!(left, [""; 0]);
    for (output, name) in [(journal, ".t.gush-journal"), (state, ".t.gush-shards")] {
        let said = format!(
            "gush: cp: cannot remove 'd/{name}' after the copy: Operation not permitted \
             (its directory is append-only: chattr -a removes this attribute)\n"
        );
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), said));
    }
}

#[test]
fn a_journal_and_a_state_that_cannot_be_made_have_a_remedy() {
    let dir = with_files(&[]);
    fs::create_dir(dir.path().join("t")).unwrap();
    for (option, what) in [
        ("--resume", "cannot open 'no/.t.gush-journal'"),
        ("--shard=1/2", "cannot create directory 'no/.t.gush-shards'"),
    ] {
        let said = fails(dir.path(), &["-a", option, "t", "no/t"]);
        let remedy = "(mkdir -p 'no' makes the directory)";
        assert!(said.contains(&format!("{what}: No such file or directory {remedy}")), "{said}");
    }
}

#[test]
fn a_signal_in_the_middle_of_an_atomic_copy_removes_the_temporary_and_ends_it() {
    for signal in ["INT", "TERM", "HUP"] {
        let dir = with_files(&[("a", &noise(8 << 20, 1))]);
        fs::create_dir(dir.path().join("d")).unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::write(real.join("d/b"), "old").unwrap();
        let Some(mut traced) = without_nameless_files(&real.join("d")) else { return };
        traced.args(["cp", "--atomic", "--limit=64K"]).args([real.join("a"), real.join("d/b")]);
        let mut child = traced.spawn().unwrap();
        wait_until(&mut child, || names(&real.join("d")).len() == 2);
        assert!(names(&real.join("d"))[0].starts_with(".b.gush-"));
        kill(signal, &child);
        let status = wait(&mut child);
        let number = match signal {
            "INT" => 2,
            "TERM" => 15,
            _ => 1,
        };
        assert_eq!(status.signal(), Some(number), "SIG{signal}");
        assert_eq!(names(&real.join("d")), ["b"], "SIG{signal}");
        assert_eq!(fs::read(real.join("d/b")).unwrap(), b"old");
    }
}

#[test]
fn after_a_signal_a_copy_can_go_on_and_its_file_system_be_unmounted_at_once() {
    let dir = with_files(&[]);
    // So much that the kernel needs some time to free the pages of a file without a name.
    let text = r#"
        mkdir a && truncate -s 256M a/f || exit
        for options in -r "-r --atomic" "-r --resume" "-r --resume --atomic" "-r --resume --shard=0/1"
        do
            mount -t tmpfs none m || exit
            $G cp $options --sparse=never --limit=256M -T a m/d &
            until (( $(stat -f -c "(%b - %f) * %S >> 20" m) > 200 )); do sleep 0.01; done
            kill -TERM $!
            wait $!
            status=$?
            [ $status = 143 ] || { echo "$options: $status" >&2; exit 1; }
            case $options in *--resume*) $G cp $options -T a m/d && cmp a/f m/d/f || exit;; esac
            umount m || { echo "$options" >&2; exit 1; }
        done"#;
    let Some(output) = with_mounts(dir.path(), text) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn sharing_blocks_leaves_the_access_time_of_the_source() {
    for (mkfs, size) in [("mkfs.btrfs -q", "120M"), ("mkfs.xfs -q", "320M")] {
        let dir = with_files(&[]);
        let text = format!(
            "truncate -s {size} image && {mkfs} image >&2 && mount -o loop,strictatime image m || exit 99
            mkdir m/a && echo data >m/a/full && touch m/a/empty m/old && echo old >m/old
            for words in '-pT empty new' '-pT full filled' '-pT empty ../old' '-aT . ../b'; do
                touch -a -d 2001-01-01 m/a/*
                (cd m/a && $G cp $words) || status=1
                stat -c \"$words: %n %x\" m/a/full m/a/empty
            done
            umount m
            exit ${{status-0}}"
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        if output.status.code() == Some(99) {
            skipped(&format!("{mkfs}: {}", stderr(&output)));
            continue;
        }
        assert!(output.status.success(), "{mkfs}: {output:?}");
        let times = String::from_utf8(output.stdout).unwrap();
        assert!(times.lines().all(|line| line.contains(" 2001-01-01 ")), "{mkfs}: {times}");
        assert_eq!(times.lines().count(), 8, "{mkfs}: {times}");
    }
}

#[test]
fn sigkill_in_the_middle_of_an_atomic_copy_leaves_the_old_content() {
    let dir = with_files(&[("a", &noise(8 << 20, 2)), ("b", b"old")]);
    if !Path::new("/proc/self/io").exists() {
        return skipped("this kernel counts no task's bytes (CONFIG_TASK_IO_ACCOUNTING)");
    }
    let mut child = gush()
        .args(["cp", "--atomic", "--limit=64K", "--method=read-write", "a", "b"])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    let written = PathBuf::from(format!("/proc/{}/io", child.id()));
    wait_until(&mut child, || {
        let io = fs::read_to_string(&written).unwrap_or_default();
        let count = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok());
        count.unwrap_or(0) > 0
    });
    kill("KILL", &child);
    assert_eq!(wait(&mut child).signal(), Some(9));
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["a", "b"]);
}

fn wait_until(child: &mut Child, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        assert!(start.elapsed() < HANGS_AFTER, "nothing happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(signal: &str, child: &Child) {
    let status = Command::new("bash")
        .args(["-c", &format!("kill -{signal} {}", child.id())])
        .status()
        .unwrap();
    assert!(status.success());
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < HANGS_AFTER, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nohup_stays_nohup() {
    let dir = with_files(&[("a", b"new")]);
    let script = "trap '' HUP; \"$0\" cp --atomic --limit=1 a b & kill -HUP $!; wait $!";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_gush")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
}

#[test]
fn verify_compares_what_storage_holds() {
    let content = noise(3 << 20, 3);
    let dir = with_files(&[("a", &content)]);
    let hash = blake3::hash(&content).to_hex().to_string();
    for method in ["auto", "copy-file-range", "read-write", "mmap-copy"] {
        let method = format!("--method={method}");
        let output = succeeds(dir.path(), &["--verify", "--json", &method, "a", "b"]);
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["blake3"], hash.as_str(), "{method}");
    }
    succeeds(dir.path(), &["--verify", "--atomic", "--fsync", "-p", "a", "c"]);
    assert!(fs::read(dir.path().join("c")).unwrap() == content);
    let _null = gush_test::device("null", dir.path());
    let said = fails(dir.path(), &["--verify", "a", "null"]);
    assert!(said.contains("cannot verify 'null': not a regular file"), "{said}");
    // Opening the FIFO would wait for its reader.
    for (promise, why) in [
        ("--verify", "cannot verify 'p': not a regular file"),
        ("--fsync", "cannot sync 'p': neither a file nor a block device"),
    ] {
        let text = format!("rm -f p; mkfifo p; timeout 60 \"$G\" cp {promise} a p");
        let output = script(dir.path(), &text);
        assert_eq!(stderr(&output), format!("gush: cp: {why}\n"));
    }
}

#[test]
fn verify_notices_a_target_that_lost_bytes() {
    // One file, a new tree, and a tree that is there already.
    for (options, source, target, file) in
        [("-T", "tree/b", "b", "b"), ("-rT", "tree", "new", "new/b"), ("-rT", "tree", "d", "d/b")]
    {
        let dir = with_files(&[]);
        let real = dir.path().canonicalize().unwrap();
        for (name, len) in [("tree", 50_000), ("d", 10)] {
            fs::create_dir(real.join(name)).unwrap();
            fs::write(real.join(name).join("b"), noise(len, 4)).unwrap();
        }
        // The call says it has written everything and has written nothing.
        let inject = "inject=write,pwrite64:retval=50000";
        let mut traced = match strace(&["-P", real.join(file).to_str().unwrap(), "-e", inject]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["cp", "--verify", "--method=read-write", options, source, target]);
        let output = traced.current_dir(&real).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{file}: {said}");
        assert!(said.contains(&format!("verification of '{file}' failed: blake3")), "{said}");
    }
}

#[test]
fn verify_reads_a_pipe_once() {
    let dir = with_files(&[]);
    let script = "mkfifo p; echo through a pipe >p & \"$0\" cp --verify p b && cat b";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_gush")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"through a pipe\n", "{output:?}");
}

#[test]
fn fsync_syncs_the_file_before_its_name_and_then_the_directory() {
    let dir = with_files(&[("a", b"new"), ("b", b"old")]);
    let log = dir.path().join("log");
    let mut traced = match strace(&[
        "-o",
        log.to_str().unwrap(),
        "-e",
        "trace=fsync,fdatasync,rename,renameat,renameat2",
    ]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let output =
        traced.args(["cp", "--fsync", "--atomic", "a", "b"]).current_dir(dir.path()).output();
    assert!(output.unwrap().status.success());
    let log = fs::read_to_string(log).unwrap();
    let calls: Vec<_> = log
        .lines()
        .filter_map(|line| ["fsync(", "rename"].into_iter().find(|call| line.contains(call)))
        .collect();
    assert_eq!(calls, ["fsync(", "rename", "fsync("], "{log}");
}

#[test]
fn fsync_of_a_tree_syncs_each_file_and_each_directory() {
    let dir = with_files(&[]);
    // A file in a directory syncs the directory, too: the others are synced when they are complete.
    fs::create_dir_all(dir.path().join("a/with-directories/empty")).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    for name in ["a/new", "a/old", "d/old"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    for target in ["d", "e"] {
        let mut traced = match strace(&["-y", "-o", "calls", "-e", "trace=fsync"]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["cp", "--fsync", "-rT", "a", target]).current_dir(dir.path());
        let output = traced.output().unwrap();
        assert!(output.status.success(), "{target}: {}", stderr(&output));
        let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
        for name in ["", "/new", "/old", "/with-directories", "/with-directories/empty"] {
            assert!(calls.contains(&format!("/{target}{name}>")), "{target}{name}: {calls}");
        }
    }
}

#[test]
fn a_close_that_fails_leaves_the_old_file_with_atomic() {
    let dir = with_files(&[("a", b"new"), ("b", b"old")]);
    let run = |options: &[&str]| -> Result<Output, String> {
        let mut traced = strace(options)?;
        Ok(traced.args(["cp", "--atomic", "a", "b"]).current_dir(dir.path()).output().unwrap())
    };
    // The close that counts is the one of the duplicate made for it.
    let log = dir.path().join("log");
    if let Err(why) = run(&["-o", log.to_str().unwrap(), "-e", "trace=fcntl,close"]) {
        return skipped(&why);
    }
    let log = fs::read_to_string(log).unwrap();
    let (before, _) = log.split_once("F_DUPFD_CLOEXEC").unwrap();
    let number = before.matches("close(").count() + 1;
    fs::write(dir.path().join("b"), "old").unwrap();
    let inject = format!("inject=close:error=EDQUOT:when={number}");
    let output = run(&["-e", &inject]).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("gush: cp: failed to close 'b': {}\n", words_of(Errno::DQUOT)));
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["a", "b", "log"]);
}

#[test]
fn an_atomic_copy_needs_no_descriptor_beyond_its_two_files() {
    let content = noise(300_000, 1);
    let dir = with_files(&[("a", &content)]);
    for (options, old) in [("", false), ("-p", false), ("-p", true), ("--fsync", true)] {
        let target = dir.path().join("b");
        let _ = fs::remove_file(&target);
        if old {
            fs::write(&target, "old").unwrap();
        }
        // Whoever runs the tests may have left descriptors open, as flock(1) does with its lock.
        let text = format!("exec 3<&- 4<&-; ulimit -n 5; \"$G\" cp --atomic {options} a b");
        let output = script(dir.path(), &text);
        assert!(output.status.success(), "{options}: {}", stderr(&output));
        assert!(fs::read(&target).unwrap() == content, "{options}");
    }
}
