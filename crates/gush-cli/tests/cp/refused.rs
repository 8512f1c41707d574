//! A refused copy changes nothing; an accepted copy replaces everything.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::cp::{cp, fails, names, script, stderr, succeeds, with_files, with_mounts};
use crate::common::{copied_gush, nobody, noise, skipped, strace};

/// The properties of a file that a user can see.
#[derive(Debug, PartialEq)]
struct Look {
    content: Vec<u8>,
    mode: u32,
    inode: u64,
    links: u64,
    modified: (i64, i64),
}

fn look(path: &Path) -> Look {
    let stat = fs::metadata(path).unwrap();
    Look {
        content: fs::read(path).unwrap(),
        mode: stat.mode(),
        inode: stat.ino(),
        links: stat.nlink(),
        // To the nanosecond, which a write would change and a refusal must not.
        modified: (stat.mtime(), stat.mtime_nsec()),
    }
}

fn methods() -> impl Iterator<Item = String> {
    gush::MethodName::ALL.iter().map(|name| format!("--method={name}"))
}

/// A file that is old, so that a new time would show.
fn make_old(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    let year_2001 = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    file.set_modified(year_2001).unwrap();
}

#[test]
fn a_method_that_is_refused_leaves_an_existing_target_as_it_was_and_no_new_one() {
    let dir = with_files(&[("plain", &noise(200_000, 1)), ("empty", b"")]);
    let here = |name: &str| dir.path().join(name);
    let more = [
        &[][..],
        &["-f"],
        &["-p"],
        &["--remove-destination"],
        &["--preserve=links"],
        &["-b"],
        &["--preallocate"],
        &["--atomic"],
    ];
    let mut refused = 0;
    for source in ["plain", "empty", "/proc/version"] {
        let expected = fs::read(here(source)).unwrap();
        for how in methods().chain(["--reflink=always".to_owned()]) {
            for options in more {
                let said = format!("{how} {options:?} {source}");
                // Shorter and longer than the source: one would leave a tail, and the other a short
                // file.
                for old in [&b"old"[..], &noise(300_000, 2)] {
                    for name in ["new", "target", "other", "target~"] {
                        let _ = fs::remove_file(here(name));
                    }
                    make_old(&here("target"), old);
                    if options == ["--preserve=links"] {
                        fs::hard_link(here("target"), here("other")).unwrap();
                    }
                    let before = look(&here("target"));
                    let arguments = [options, &[&how, source, "target"]].concat();
                    let output = cp(dir.path(), &arguments);
                    if output.status.success() {
                        assert!(fs::read(here("target")).unwrap() == expected, "{said}");
                        continue;
                    }
                    refused += 1;
                    assert!(look(&here("target")) == before, "{said}: {}", stderr(&output));
                    assert!(!here("target~").exists(), "{said}: the backup is left");
                    fails(dir.path(), &[&how, source, "new"]);
                    assert!(!here("new").exists(), "{said}: an empty file is left");
                }
            }
        }
    }
    assert!(refused > 100, "{refused} refusals: nothing was tested");
}

#[test]
fn a_method_that_is_refused_with_force_leaves_an_unwritable_target_as_it_was() {
    let user = match rustix::process::geteuid().is_root().then(nobody).transpose() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let programs = tempfile::tempdir().unwrap();
    let gush = copied_gush(programs.path());
    let dir = with_files(&[("plain", &noise(200_000, 1)), ("empty", b"")]);
    let target = dir.path().join("b");
    chown(dir.path(), user, user).unwrap();
    let mut refused = 0;
    for source in ["plain", "empty", "/proc/version"] {
        let expected = fs::read(dir.path().join(source)).unwrap();
        for how in methods().chain(["--reflink=always".to_owned()]) {
            let _ = fs::remove_file(&target);
            make_old(&target, b"OLD");
            fs::set_permissions(&target, fs::Permissions::from_mode(0o400)).unwrap();
            chown(&target, user, user).unwrap();
            let before = look(&target);
            let mut command = Command::new(&gush);
            command.args(["cp", "-f", &how, source, "b"]).current_dir(dir.path());
            command.stdin(Stdio::null());
            if let Some(user) = user {
                command.uid(user).gid(user);
            }
            let output = command.output().unwrap();
            let said = format!("{how} {source}: {}", stderr(&output));
            if output.status.success() {
                assert!(fs::read(&target).unwrap() == expected, "{said}");
            } else {
                refused += 1;
                assert!(target.exists(), "{said}: the old file is gone");
                assert!(look(&target) == before, "{said}: the old file is another");
                assert_eq!(names(dir.path()), ["b", "empty", "plain"], "{said}");
            }
        }
    }
    assert!(refused > 5, "{refused} refusals: nothing was tested");
}

#[test]
fn a_call_that_is_refused_leaves_an_existing_target_as_it_was() {
    let dir = with_files(&[("a", &noise(200_000, 1))]);
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("b"));
    for (how, call) in [
        ("--method=mmap-copy", "fallocate:error=EOPNOTSUPP"),
        ("--method=read-mmap", "fallocate:error=EOPNOTSUPP"),
        ("--method=read-mmap", "fallocate:error=ENOSPC"),
        ("--method=mmap-copy", "mmap:error=ENODEV"),
        ("--method=splice", "splice:error=EPERM"),
        ("--method=sendfile", "sendfile:error=ENOSYS"),
        ("--method=vmsplice", "vmsplice:error=EPERM"),
        ("--method=copy-file-range", "copy_file_range:error=EXDEV"),
        ("--method=uring", "io_uring_setup:error=EPERM"),
        ("--preallocate", "fallocate:error=ENOSPC"),
        ("--preallocate", "fallocate:error=EFBIG"),
        ("--reflink=always", "ioctl:error=EPERM"),
    ] {
        make_old(&target, &noise(300_000, 2));
        let before = look(&target);
        let paths = [&source, &target].map(|path| path.to_str().unwrap());
        let inject = format!("inject={call}");
        // Only calls about these two files: the loader makes such calls for its own.
        let options = ["-P", paths[1], "-P", paths[0], "-e", &inject];
        // No path belongs to the calls that set something up.
        let options = match call.starts_with("io_uring") || call.starts_with("vmsplice") {
            true => &options[4..],
            false => &options[..],
        };
        let mut traced = match strace(options) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let output = traced.args(["cp", how]).args([&source, &target]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{how} {call}: {}", stderr(&output));
        assert!(look(&target) == before, "{how} {call}: {}", stderr(&output));
    }
}

#[test]
fn space_that_cannot_be_reserved_leaves_an_existing_target_as_it_was_and_no_new_one() {
    let dir = with_files(&[("a", &noise(3 << 20, 1))]);
    let text = r#"
        mount -t tmpfs -o size=2m none m && head -c 300000 /dev/zero > m/b && touch -d 2001-01-01 m/b
        before=$(md5sum m/b; stat -c '%s %Y %a %i' m/b)
        for how in --preallocate --method=mmap-copy --method=read-mmap; do
            for name in b new; do
                "$G" cp $how a m/$name && echo "$how $name: no failure"
            done
            [ "$before" = "$(md5sum m/b; stat -c '%s %Y %a %i' m/b)" ] || echo "$how: changed"
            [ -e m/new ] && echo "$how: a new file is left"
        done
        df --output=used m | tail -n 1
    "#;
    let Some(output) = with_mounts(dir.path(), text) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let used: u64 = said.trim().parse().unwrap_or_else(|_| panic!("{said}{}", stderr(&output)));
    assert!(used < 400, "{used} KiB used of the 300 that the old file needs");
}

#[test]
fn a_target_that_existed_is_replaced_whole_by_every_method() {
    let sparse = |dir: &Path| {
        let file = fs::File::options().write(true).open(dir.join("sparse")).unwrap();
        file.set_len(5 << 20).unwrap();
    };
    let big = noise((17 << 20) + 13, 1);
    let dir = with_files(&[("plain", &noise(200_000, 1)), ("empty", b""), ("tiny", b"tiny")]);
    fs::write(dir.path().join("big"), &big).unwrap();
    fs::write(dir.path().join("sparse"), noise(100_000, 3)).unwrap();
    sparse(dir.path());
    let target = dir.path().join("target");
    for source in ["plain", "empty", "tiny", "big", "sparse"] {
        let expected = fs::read(dir.path().join(source)).unwrap();
        for old in [&b"old"[..], &noise(18 << 20, 2)] {
            for how in methods().chain(["--method=auto", "--preallocate"].map(str::to_owned)) {
                if how == "--method=reflink" {
                    continue;
                }
                let takes_threads = gush::MethodName::ALL
                    .iter()
                    .all(|name| name.is_parallel() || how != format!("--method={name}"));
                let threads = if takes_threads { "--threads=3" } else { "--threads=1" };
                for options in [&[threads][..], &["--verify", "--limit=1G"]] {
                    fs::write(&target, old).unwrap();
                    let inode = fs::metadata(&target).unwrap().ino();
                    succeeds(dir.path(), &[options, &[&how, source, "target"]].concat());
                    assert!(fs::read(&target).unwrap() == expected, "{how} {options:?} {source}");
                    assert_eq!(fs::metadata(&target).unwrap().ino(), inode, "{how}");
                }
            }
        }
    }
}

/// Killed between two writes of one piece, the target would hold new bytes before old ones.
#[test]
fn a_method_that_serves_everything_cuts_the_old_content_before_its_first_byte() {
    let dir = with_files(&[("a", &noise(200_000, 1)), ("b", &noise(300_000, 2))]);
    let real = dir.path().canonicalize().unwrap();
    let target = real.join("b").into_os_string().into_string().unwrap();
    let mut traced = match strace(&["-o", "calls", "-e", "trace=write,ftruncate", "-P", &target]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let words = ["cp", "--method=read-write", "a", "b"];
    let output = traced.args(words).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let first = calls.lines().next().unwrap_or_default();
    assert!(first.contains("ftruncate(") && first.contains(", 0)"), "{calls}");
    let written: usize = calls
        .lines()
        .filter(|call| call.contains("write("))
        .filter_map(|call| call.rsplit("= ").next()?.trim().parse::<usize>().ok())
        .sum();
    assert_eq!(written, 200_000, "{calls}");
}

#[test]
fn a_stream_replaces_whole_what_was_there() {
    let dir = with_files(&[("a", &noise(200_000, 1))]);
    let target = dir.path().join("target");
    for how in ["--method=splice", "--method=read-write", "--method=vmsplice", "--method=auto"] {
        for old in [10, 100_000, 1_000_000] {
            fs::write(&target, noise(old, 2)).unwrap();
            let text = format!("cat a | \"$G\" cp {how} /dev/stdin target");
            let output = script(dir.path(), &text);
            assert!(output.status.success(), "{how}: {}", stderr(&output));
            assert!(fs::read(&target).unwrap() == noise(200_000, 1), "{how} over {old} bytes");
        }
    }
    make_old(&target, b"old");
    let before = look(&target);
    let text = "cat a | \"$G\" cp --method=read-mmap /dev/stdin target";
    assert_eq!(script(dir.path(), text).status.code(), Some(1));
    assert!(look(&target) == before, "a refused stream has changed its target");
}

#[test]
fn reflink_replaces_a_longer_file_where_blocks_can_be_shared() {
    let dir = with_files(&[("a", b"short"), ("b", &noise(100_000, 1))]);
    let text = r#"
        truncate -s 320M image && mkfs.xfs -q image && mount -o loop image m || { echo skip; exit; }
        cp a b m; head -c 3000000 /dev/urandom > m/old; cd m
        for source in a b; do
            cp old target; "$G" cp --reflink=always $source target || echo failed
            cmp $source target
            cp old target; "$G" cp --method=reflink $source target || echo failed
            cmp $source target
        done
    "#;
    let Some(output) = with_mounts(dir.path(), text) else { return };
    match String::from_utf8_lossy(&output.stdout).trim() {
        "" => {}
        "skip" => skipped(&format!("no xfs here: {}", stderr(&output))),
        said => panic!("{said} {}", stderr(&output)),
    }
    assert_eq!(names(dir.path()), ["a", "b", "image", "m"]);
}

/// With a limit on the size of files, only a clone's length decides: 18,000 KiB end within the
/// source.
#[test]
fn reflink_that_is_refused_for_its_length_leaves_an_existing_target_as_it_was() {
    let dir = with_files(&[]);
    let text = r#"
        truncate -s 320M image && mkfs.xfs -q image && mount -o loop image m || { echo skip; exit; }
        cd m; head -c 40000000 /dev/urandom > whole; head -c 40000123 /dev/urandom > odd
        echo oldoldold > short; head -c 50000000 /dev/urandom > long
        trap '' XFSZ; ulimit -S -f 18000
        for source in whole odd; do for old in short long; do for how in --reflink=always --method=reflink; do
            cp --reflink=always $old t 2> /dev/null || (ulimit -S -f unlimited; cp $old t)
            touch -d 2001-01-01 t; before=$(md5sum t; stat -c '%s %Y' t)
            "$G" cp $how $source t 2> said && echo "$how $source onto $old: no failure"
            [ "$before" = "$(md5sum t; stat -c '%s %Y' t)" ] || echo "$how $source onto $old: changed: $(cat said)"
        done; done; done
    "#;
    let Some(output) = with_mounts(dir.path(), text) else { return };
    match String::from_utf8_lossy(&output.stdout).trim() {
        "" => {}
        "skip" => skipped(&format!("no xfs here: {}", stderr(&output))),
        said => panic!("{said} {}", stderr(&output)),
    }
}

/// Space is reserved before the old content goes, and again after: a failure of the second is no
/// refusal.
#[test]
fn a_reservation_that_fails_after_the_old_content_went_is_reported_as_a_failure() {
    let dir = with_files(&[("a", &noise(200_000, 1))]);
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("b"));
    for how in ["--method=read-mmap", "--method=mmap-copy", "--preallocate"] {
        for errno in ["EIO", "ENOSPC"] {
            let mut gone = 0;
            for nth in 1..=4 {
                make_old(&target, &noise(300_000, 2));
                let before = look(&target);
                let inject = format!("inject=fallocate:error={errno}:when={nth}");
                let mut traced = match strace(&["-e", &inject]) {
                    Ok(traced) => traced,
                    Err(why) => return skipped(&why),
                };
                let output = traced.args(["cp", how]).args([&source, &target]).output().unwrap();
                let said = stderr(&output);
                let title = format!("{how} {errno} #{nth}: {said}");
                if output.status.success() {
                    continue;
                }
                let now = look(&target);
                if said.contains("the old content is gone") {
                    gone += 1;
                    assert!(said.contains("fallocate failed on the target"), "{title}");
                    assert!(!said.contains("refused"), "{title}");
                    assert!(now.content.is_empty(), "{title}");
                    assert!(now.modified != before.modified, "{title}: its old time again");
                } else {
                    assert!(now == before, "{title}: the target was touched");
                }
            }
            assert!(gone > 0, "{how} {errno}: nothing was tested");
        }
    }
}

/// Options that count the operands are read before anybody knows that there are any.
#[test]
fn a_missing_operand_is_reported_with_every_option_that_counts_them() {
    for words in
        [&["-r", "--delete"][..], &["-r", "--shard", "0/2"], &["-r", "--delete", "-t", "."]]
    {
        let dir = tempfile::TempDir::new().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_gush"))
            .arg("cp")
            .args(words)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(stderr(&output).contains("missing file operand"), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn no_backup_comes_after_the_largest_number() {
    let dir = tempfile::TempDir::new().unwrap();
    for name in ["new", "old", "old.~18446744073709551615~"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let mut command = crate::common::gush();
    let output = command.args(["cp", "--backup=numbered", "new", "old"]).current_dir(dir.path());
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(std::fs::read_to_string(dir.path().join("old")).unwrap(), "old");
}
