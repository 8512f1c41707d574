//! `gush cp -r --delete`: files that the source lacks are removed from the target, and no others.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::cp::{fails, names, stderr, stdout, succeeds, tree, with_mounts};
use crate::common::{copied_gush, nobody, skipped, strace};
use rustix::fs::{CWD, FileType};

#[test]
fn what_the_source_lacks_goes() {
    let dir = tree(&["a/f", "a/b/g", "d/a/old", "d/a/b/old", "d/a/gone/deep/er/f", "d/next"]);
    symlink("nowhere", dir.path().join("d/a/link")).unwrap();
    symlink("nowhere", dir.path().join("a/dangling")).unwrap();
    symlink("nowhere", dir.path().join("d/a/dangling")).unwrap();
    let output = succeeds(dir.path(), &["-av", "--delete", "a", "d"]);
    let removed: Vec<_> = stdout(&output)
        .lines()
        .filter_map(|line| Some(line.strip_prefix("removed '")?.trim_end_matches('\'').to_owned()))
        .collect();
    for name in ["d/a/old", "d/a/b/old", "d/a/gone", "d/a/link"] {
        assert!(removed.contains(&name.to_owned()), "{name}: {removed:?}");
    }
    assert_eq!(names(&dir.path().join("d")), ["a", "next"]);
    assert_eq!(names(&dir.path().join("d/a")), ["b", "dangling", "f"]);
    assert_eq!(names(&dir.path().join("d/a/b")), ["g"]);
    assert_eq!(names(&dir.path().join("a")), ["b", "dangling", "f"]);
}

#[test]
fn a_directory_in_the_place_of_a_file_gives_way_and_the_other_way_round() {
    let dir = tree(&["a/x/f", "a/y", "d/x", "d/y/deep/f"]);
    let said = fails(dir.path(), &["-rT", "a", "d"]);
    assert_eq!(said.matches("cannot overwrite").count(), 2, "{said}");
    succeeds(dir.path(), &["-rT", "--delete", "a", "d"]);
    assert_eq!(fs::read_to_string(dir.path().join("d/x/f")).unwrap(), "a/x/f");
    assert_eq!(fs::read_to_string(dir.path().join("d/y")).unwrap(), "a/y");
}

/// Written through, a link in the place of a file leads to another file of the mirror, which would
/// get two contents.
#[test]
fn what_is_no_file_in_the_place_of_a_file_gives_way() {
    let files = ["a/b", "a/dangling", "a/file", "a/link", "a/out", "a/pipe"];
    let dir = tree(&[&files[..], &["d/file", "outside"]].concat());
    let at = |name: &str| dir.path().join(name);
    for (name, end) in [("link", "file"), ("b", "file"), ("dangling", "no"), ("out", "../outside")]
    {
        symlink(end, at("d").join(name)).unwrap();
    }
    // Nobody reads here: a copy into the FIFO would wait for ever.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, at("d/pipe"), FileType::Fifo, mode, 0).unwrap();
    let options = ["-rT", "--delete", "a", "d"];
    let reported = stdout(&succeeds(dir.path(), &[&options[..], &["--dry-run"]].concat()));
    for name in ["b", "dangling", "link", "out", "pipe"] {
        assert!(reported.contains(&format!("would remove 'd/{name}'\n")), "{name}: {reported}");
        assert!(
            reported.contains(&format!("would copy 'a/{name}' -> 'd/{name}'\n")),
            "{name}: {reported}"
        );
    }
    assert!(at("d/out").is_symlink() && at("d/pipe").exists());
    succeeds(dir.path(), &options);
    for file in files {
        let copy = Path::new("d").join(file.strip_prefix("a/").unwrap());
        assert!(!dir.path().join(&copy).is_symlink(), "{file}");
        assert_eq!(fs::read_to_string(dir.path().join(&copy)).unwrap(), file);
    }
    assert_eq!(fs::read_to_string(at("outside")).unwrap(), "outside");
}

#[test]
fn a_link_is_written_through_by_a_mirror_where_the_user_wants_it() {
    let dir = tree(&["a/f", "d/gone", "outside"]);
    symlink("../outside", dir.path().join("d/f")).unwrap();
    succeeds(dir.path(), &["-rT", "--delete", "--no-confine", "a", "d"]);
    assert_eq!(fs::read_to_string(dir.path().join("outside")).unwrap(), "a/f");
    assert_eq!(names(&dir.path().join("d")), ["f"]);
    assert!(dir.path().join("d/f").is_symlink(), "the link itself was replaced");
}

#[test]
fn a_manifest_in_the_place_of_a_link_appears_whole() {
    let dir = tree(&["a/f", "a/manifest", "d/old"]);
    symlink("old", dir.path().join("d/manifest")).unwrap();
    let options = ["-rT", "--delete", "--commit-last=manifest", "--exclude=old", "a", "d"];
    succeeds(dir.path(), &options);
    assert!(!dir.path().join("d/manifest").is_symlink());
    assert_eq!(fs::read_to_string(dir.path().join("d/manifest")).unwrap(), "a/manifest");
    assert_eq!(fs::read_to_string(dir.path().join("d/old")).unwrap(), "d/old");
}

#[test]
fn links_are_removed_and_never_followed() {
    let dir = tree(&["a/f", "outside/guarded/f", "d/gone/x"]);
    symlink("../outside", dir.path().join("d/link")).unwrap();
    symlink("../../outside", dir.path().join("d/gone/link")).unwrap();
    succeeds(dir.path(), &["-rT", "--delete", "a", "d"]);
    assert_eq!(names(&dir.path().join("d")), ["f"]);
    assert_eq!(
        fs::read_to_string(dir.path().join("outside/guarded/f")).unwrap(),
        "outside/guarded/f"
    );
}

#[test]
fn what_the_filters_leave_out_stays() {
    let dir =
        tree(&["a/f", "a/.gitignore", "d/cache/x", "d/gone/y.keep", "d/gone/z", "d/b/z", "d/log"]);
    fs::write(dir.path().join("a/.gitignore"), "log\n").unwrap();
    let options =
        ["-rT", "--delete", "--gitignore", "--exclude=cache/", "--exclude=*.keep", "a", "d"];
    let dry = [&options[..], &["--dry-run"]].concat();
    let reported = stdout(&succeeds(dir.path(), &dry));
    let removed = |text: &str| -> Vec<String> {
        let mut lines: Vec<_> =
            text.lines().filter(|line| line.contains("remove")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(removed(&reported), ["would remove 'd/b'", "would remove 'd/gone/z'"]);
    assert_eq!(names(&dir.path().join("d")), ["b", "cache", "gone", "log"]);
    let reported = stdout(&succeeds(dir.path(), &[&options[..], &["-v"]].concat()));
    assert_eq!(removed(&reported), ["removed 'd/b'", "removed 'd/gone/z'"]);
    assert_eq!(names(&dir.path().join("d")), [".gitignore", "cache", "f", "gone", "log"]);
    assert_eq!(names(&dir.path().join("d/gone")), ["y.keep"]);
}

#[test]
fn a_target_in_the_source_gets_all_but_itself() {
    let dir = tree(&["r/f", "r/b/g", "r/a/old"]);
    for _ in 0..2 {
        let said = fails(dir.path(), &["-rT", "--delete", "r", "r/a"]);
        assert!(said.contains("cannot copy a directory, 'r', into itself, 'r/a'"), "{said}");
        assert_eq!(names(&dir.path().join("r")), ["a", "b", "f"]);
        assert_eq!(names(&dir.path().join("r/a")), ["b", "f"]);
        assert_eq!(names(&dir.path().join("r/a/b")), ["g"]);
    }
}

#[test]
fn a_mirror_that_would_destroy_is_refused() {
    let dir = tree(&["a/b/f", "a/kept", "c/f"]);
    let all = || (names(&dir.path().join("a")), names(&dir.path().join("a/b")));
    let before = all();
    let said = fails(dir.path(), &["-rT", "--delete", "a/b", "a"]);
    assert!(said.contains("cannot mirror 'a/b' to 'a', which it is in"), "{said}");
    let said = fails(&dir.path().join("a/b"), &["-rT", "--delete", ".", ".."]);
    assert!(said.contains("cannot mirror"), "{said}");
    for (options, why) in [
        (&["-r", "--delete", "a/b", "c", "a"][..], "takes one SOURCE"),
        (&["-r", "--delete", "-t", "a", "a/b", "c"], "takes one SOURCE"),
        (&["--delete", "a/kept", "a/b"], "--delete requires -r"),
        (
            &["-rL", "--delete", "c", "a"],
            "cannot be used with -L, because a link may lead into the target",
        ),
        (&["-rb", "--delete", "c", "a"], "cannot be used with --backup"),
        (&["-rl", "--delete", "c", "a"], "cannot be used with -l"),
        (&["-ri", "--delete", "c", "a"], "cannot be used with -i"),
        (&["-rn", "--delete", "c", "a"], "cannot be used with -n"),
        (&["-r", "--update=none-fail", "--delete", "c", "a"], "cannot be used with -n"),
        (
            &["-r", "--keep-directory-symlink", "--delete", "c", "a"],
            "cannot be used with --keep-directory",
        ),
        (&["-r", "--parents", "--delete", "c", "a"], "cannot be used with --parents"),
    ] {
        let said = fails(dir.path(), options);
        assert!(said.contains(why), "{options:?}: {said}");
    }
    assert_eq!(all(), before);
}

#[test]
fn a_source_that_cannot_be_listed_removes_nothing() {
    let dir = tree(&["d/a/f"]);
    let said = fails(dir.path(), &["-r", "--delete", "a", "d"]);
    assert!(said.contains("cannot stat"), "{said}");
    assert_eq!(names(&dir.path().join("d/a")), ["f"]);
}

#[test]
fn nothing_mounted_below_the_target_is_touched() {
    let dir = tree(&["a/f", "d/gone/m/x"]);
    let script = "mount -t tmpfs none d/gone/m && echo kept >d/gone/m/kept && touch d/gone/z &&
        $G cp -rT --delete a d; echo $?; cat d/gone/m/kept";
    let Some(output) = with_mounts(dir.path(), script) else { return };
    assert_eq!(stdout(&output), "1\nkept\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot remove 'd/gone/m': "), "{}", stderr(&output));
}

/// The output and the errors of a script that mounts; `None` where that is not allowed.
fn mounted(files: &[&str], script: &str) -> Option<(String, String)> {
    let dir = tree(files);
    let output = with_mounts(dir.path(), script)?;
    Some((stdout(&output), stderr(&output)))
}

/// A subvolume has the mount of the directory above, and a device number of its own.
#[test]
fn a_subvolume_of_btrfs_in_the_target_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let text = "truncate -s 120M image && mkfs.btrfs -q image >&2 && mount -o loop image m &&
        btrfs -q subvolume create m/v >&2 && echo kept >m/v/f && mkdir a || exit 99
        $G cp -aT --delete a m; echo $?; cat m/v/f; umount m";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    if output.status.code() == Some(99) {
        return skipped(&format!("mkfs.btrfs: {}", stderr(&output)));
    }
    assert_eq!(stdout(&output), "1\nkept\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("in another mount or volume"), "{}", stderr(&output));
}

#[test]
fn a_bind_mount_of_the_same_file_system_keeps_what_is_in_it() {
    let files = ["a/f", "d/gone/m/x", "o/kept", "o/b/kept"];
    let script =
        "mount --bind o d/gone/m && $G cp -rT --delete a d; echo $?; cd o; find . -type f | sort";
    let Some((out, err)) = mounted(&files, script) else { return };
    assert_eq!(out, "1\n./b/kept\n./kept\n", "{err}");
    assert!(err.contains("cannot remove 'd/gone/m': 'd/gone/m' is in another mount"), "{err}");
}

#[test]
fn a_mount_that_the_source_has_a_name_for_is_copied_into_and_keeps_the_rest() {
    let files = ["a/m/f", "a/m/b/f", "a/m/g/x", "d/m/x", "o/kept", "o/b/kept", "o/g"];
    let script =
        "mount --bind o d/m && $G cp -rT --delete a d; echo $?; cd o; find . -type f | sort";
    let Some((out, err)) = mounted(&files, script) else { return };
    assert_eq!(out, "1\n./b/f\n./b/kept\n./f\n./g\n./kept\n", "{err}");
    assert!(err.contains("cannot remove 'd/m/kept': 'd/m' is in another mount"), "{err}");
    assert!(err.contains("cannot remove 'd/m/g': 'd/m' is in another mount"), "{err}");
}

#[test]
fn a_source_that_is_a_bind_mount_of_a_part_of_the_target_stays() {
    for (bind, source) in [("d/sub", "a"), ("d/sub", "a/deep"), ("d/up/sub", "a")] {
        let files = ["a/none", "d/sub/deep/f", "d/sub/f", "d/up/sub/f", "d/up/sub/deep/f"];
        let script = format!(
            "mount --bind {bind} a && $G cp -a --delete -T {source} d; echo $?; umount a
            find {bind} -type f | sort"
        );
        let Some((out, err)) = mounted(&files, &script) else { return };
        assert_eq!(out, format!("1\n{bind}/deep/f\n{bind}/f\n"), "{bind} {source}: {err}");
        assert!(err.contains("is the source or holds the source"), "{bind} {source}: {err}");
    }
}

#[test]
fn the_source_stays_though_it_has_a_directory_of_its_own_name() {
    let files = ["a/none", "d/sub/f", "d/sub/sub/deep/g"];
    let script = "mount --bind d/sub a && $G cp -a --delete -T a d; echo $?; umount a
        find d/sub -type f | sort";
    let Some((out, err)) = mounted(&files, script) else { return };
    assert!(out.starts_with("1\n"), "{out}{err}");
    assert!(out.contains("d/sub/f\n") && out.contains("d/sub/sub/deep/g\n"), "{out}{err}");
}

/// What covers it may have a symbolic link in its place.
#[test]
fn a_mount_of_the_source_that_a_link_covers_holds_up_no_mirror() {
    let files = ["a/p/m/q/none", "d/x/f", "d/gone"];
    let script = "mount --bind d/x a/p/m/q && mount -t tmpfs none a/p && ln -s m a/p/m &&
        $G cp -aT --delete a d; echo $?; find d | sort";
    let Some((out, err)) = mounted(&files, script) else { return };
    assert_eq!(out, "0\nd\nd/p\nd/p/m\n", "{err}");
}

/// By its own name within itself, a directory below the source is that of the target, and lacks
/// what the source has there.
#[test]
fn what_is_below_the_source_stays_where_the_target_reaches_it_by_another_name() {
    let files = ["a/none", "d/sub/f", "d/sub/deep/kept", "d/sub/sub/deep/other"];
    let script = "mount --bind d/sub a && $G cp -a --delete -T a d; echo $?; umount a
        find d/sub/deep -type f | sort";
    let Some((out, err)) = mounted(&files, script) else { return };
    assert_eq!(out, "1\nd/sub/deep/kept\nd/sub/deep/other\n", "{err}");
    assert!(err.contains("cannot remove 'd/sub/deep/kept': 'd/sub/deep' is the source"), "{err}");
}

/// Runs `gush cp` with a system call on the file `at` that fails; `None` without strace.
fn with_failure(dir: &Path, at: &str, inject: &str, arguments: &[&str]) -> Option<String> {
    let source = dir.join(at);
    let inject = format!("inject={inject}");
    let mut command = match strace(&["-P", source.to_str().unwrap(), "-e", &inject]) {
        Ok(command) => command,
        Err(why) => {
            skipped(&why);
            return None;
        }
    };
    let output = command.arg("cp").args(arguments).current_dir(dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    Some(stderr(&output))
}

#[test]
fn a_listing_that_fails_anywhere_removes_nothing() {
    let name = |number| format!("a/{number:0200}");
    let many: Vec<_> = (0..2000).map(name).collect();
    let mut files: Vec<_> = many.iter().map(String::as_str).collect();
    files.extend(["d/old/f", "d/older"]);
    for call in [1, 2, 5] {
        let dir = tree(&files);
        let inject = format!("getdents64:error=EIO:when={call}");
        let options = ["-rT", "--delete", "--threads=1", "a", "d"];
        let Some(said) = with_failure(dir.path(), "a", &inject, &options) else { return };
        assert!(said.contains("cannot access 'a': "), "{call}: {said}");
        assert!(dir.path().join("d/old/f").exists(), "{call}: {said}");
        assert!(dir.path().join("d/older").exists(), "{call}: {said}");
    }
}

#[test]
fn a_kernel_that_reports_no_mounts_removes_nothing() {
    let dir = tree(&["a/f", "a/x", "d/old/f", "d/older", "d/x/f"]);
    let options = ["-rT", "--delete", "a", "d"];
    let mut command = match strace(&["-e", "inject=statx:error=ENOSYS"]) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    let output = command.arg("cp").args(options).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for name in ["old", "older", "x"] {
        let reported = format!("cannot remove 'd/{name}': 'd' may be a mount");
        assert!(stderr(&output).contains(&reported), "{name}: {}", stderr(&output));
    }
    assert_eq!(names(&dir.path().join("d")), ["f", "old", "older", "x"]);
    assert_eq!(names(&dir.path().join("d/x")), ["f"]);
}

#[test]
fn what_keeps_a_directory_from_being_removed_is_named() {
    let dir = tree(&["a/f", "d/gone/b/c/f", "d/gone/b/x"]);
    let options = ["-rT", "--delete", "a", "d"];
    // The order of a directory is the file system's.
    for (when, names) in [
        (1, ["d/gone/b/c/f", "d/gone/b/x"]),
        (3, ["d/gone/b/c", "d/gone/b/x"]),
        (4, ["d/gone/b"; 2]),
        (5, ["d/gone"; 2]),
    ] {
        let inject = format!("inject=unlinkat:error=EBUSY:when={when}");
        let mut command = match strace(&["-e", &inject]) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        let output = command.arg("cp").args(options).current_dir(dir.path()).output().unwrap();
        let said = stderr(&output);
        let reported = |name: &&str| said.contains(&format!("gush: cp: cannot remove '{name}': "));
        assert!(names.iter().any(reported), "{when}: {said}");
        fs::create_dir_all(dir.path().join("d/gone/b/c")).unwrap();
        fs::write(dir.path().join("d/gone/b/c/f"), "").unwrap();
        fs::write(dir.path().join("d/gone/b/x"), "").unwrap();
    }
    succeeds(dir.path(), &options);
    assert_eq!(names(&dir.path().join("d")), ["f"]);
}

#[test]
fn the_first_failure_ends_the_removal() {
    let dir = tree(&["a/f", "d/1/m", "d/2/m", "d/3/m"]);
    let script = "for n in 1 2 3; do mount -t tmpfs none d/$n && echo k >d/$n/k; done
        $G cp -rT --delete --on-error=stop a d 2>&1 | grep -o \"cannot remove 'd/[123]'\" | sort -u | wc -l; ls d";
    let Some(output) = with_mounts(dir.path(), script) else { return };
    assert_eq!(stdout(&output), "1\n1\n2\n3\n", "{}", stderr(&output));
}

#[test]
fn a_file_that_cannot_be_read_replaces_no_directory() {
    let dir = tree(&["a/x", "d/x/f"]);
    // Without rights in the namespace of the files, root is refused as everybody is.
    let probe = crate::common::cp::script(
        dir.path(),
        "chmod 0 a/x && unshare -U true && ! unshare -U cat a/x",
    );
    if !probe.status.success() {
        return skipped(&format!("no user namespaces: {}", stderr(&probe).trim()));
    }
    let output = crate::common::cp::script(dir.path(), "unshare -U $G cp -rT --delete a d");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot open 'a/x' for reading"), "{}", stderr(&output));
    assert!(dir.path().join("d/x/f").exists(), "{}", stderr(&output));
}

#[test]
fn a_directory_that_cannot_be_listed_replaces_no_file() {
    let dir = tree(&["a/x/f", "d/x"]);
    let Some(said) =
        with_failure(dir.path(), "a/x", "getdents64:error=EIO", &["-rT", "--delete", "a", "d"])
    else {
        return;
    };
    assert_eq!(fs::read_to_string(dir.path().join("d/x")).unwrap(), "d/x", "{said}");
}

#[test]
fn a_name_whose_replacement_is_left_out_stays() {
    let dir = tree(&["a/cache/f", "a/log", "a/f", "d/cache", "d/log/f"]);
    let options = ["-rT", "--delete", "--exclude=cache/", "--exclude=log", "a", "d"];
    succeeds(dir.path(), &options);
    assert_eq!(fs::read_to_string(dir.path().join("d/cache")).unwrap(), "d/cache");
    assert!(dir.path().join("d/log/f").exists());
    let dir = tree(&["a/x", "d/x/f.keep", "d/x/g"]);
    let said = fails(dir.path(), &["-rT", "--delete", "--exclude=*.keep", "a", "d"]);
    assert!(said.contains("not replacing 'd/x': "), "{said}");
    assert!(dir.path().join("d/x/f.keep").exists());
}

#[test]
fn a_dry_run_reports_what_gives_way_and_leaves_it() {
    let dir = tree(&["a/x/f", "a/y", "d/x", "d/y/deep/f"]);
    let reported = stdout(&succeeds(dir.path(), &["-rT", "--delete", "--dry-run", "a", "d"]));
    for name in ["d/x", "d/y"] {
        assert!(reported.contains(&format!("would remove '{name}'\n")), "{name}: {reported}");
    }
    assert!(dir.path().join("d/y/deep/f").exists() && dir.path().join("d/x").is_file());
}

#[test]
fn an_empty_directory_goes_without_a_right_to_it() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let programs = tempfile::tempdir().unwrap();
    let mode = |path: &Path, bits| fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
    let gush = copied_gush(programs.path());
    // Without the right to list, and without the right to search.
    for bits in [0, 0o400, 0o500] {
        for (filled, deep) in [(false, ""), (false, "deep/er/"), (true, ""), (true, "deep/")] {
            let dir = tree(&["a/f", "d/f"]);
            let closed = dir.path().join("d").join(deep).join("closed");
            fs::create_dir_all(&closed).unwrap();
            if filled {
                fs::write(closed.join("f"), "").unwrap();
            }
            let owner = user.to_string();
            let owned = Command::new("chown").args(["-R", &owner]).arg(dir.path()).status();
            assert!(owned.unwrap().success());
            mode(&closed, bits);
            let copy = |options: &[&str]| {
                let mut command = Command::new(&gush);
                command.args(["cp", "-rT", "--delete"]).args(options).args(["a", "d"]);
                command.uid(user).gid(user).stdin(Stdio::null());
                let output = command.current_dir(dir.path()).output().unwrap();
                let said = format!("{bits:o} {deep}{filled}: {}", stderr(&output));
                (output, said)
            };
            let (output, said) = copy(&["--dry-run"]);
            assert!(closed.exists(), "a dry run removes: {said}");
            // Without both rights a dry run cannot know that the directory is empty.
            let is_doubtful = bits != 0o500;
            assert_eq!(output.status.success(), is_doubtful || !filled, "{said}");
            let doubts = said.contains("closed', which would be removed only if");
            assert_eq!(doubts, is_doubtful, "{said}");
            let (output, said) = copy(&[]);
            assert_eq!(output.status.success(), !filled, "{said}");
            assert_eq!(closed.exists(), filled, "{said}");
            assert_eq!(said.contains("closed"), filled, "{said}");
            assert_eq!(said.contains("Permission denied"), filled, "{said}");
        }
    }
}

#[test]
fn a_mount_without_a_right_to_it_is_reported_as_a_mount() {
    let dir = tree(&["a/f", "d/m/f"]);
    let text = r#"
        chmod 755 . && cp "$G" gush && chown -R 65534 d
        setpriv --reuid 65534 --regid 65534 --clear-groups true || { echo no other user; exit; }
        mount -t tmpfs -o mode=0 none d/m
        setpriv --reuid 65534 --regid 65534 --clear-groups ./gush cp -rT --delete a d
        echo $?
    "#;
    let Some(output) = with_mounts(dir.path(), text) else { return };
    let said = stderr(&output);
    if stdout(&output) == "no other user\n" {
        return skipped(&said);
    }
    assert_eq!(stdout(&output), "1\n", "{said}");
    assert!(said.contains("'d/m' is in another mount"), "{said}");
}

#[test]
fn a_tree_deeper_than_any_path_is_removed() {
    let dir = tree(&["a/f", "d/f"]);
    let script = "deep=$(printf 'deep/%.0s' {1..500}); cd d
        for part in 1 2; do mkdir -p $deep && cd -P $deep || exit 1; done; touch f";
    let output = crate::common::cp::script(dir.path(), script);
    assert!(output.status.success(), "{}", stderr(&output));
    succeeds(dir.path(), &["-rT", "--delete", "a", "d"]);
    assert_eq!(names(&dir.path().join("d")), ["f"]);
}

#[test]
fn a_file_that_its_attribute_or_its_directory_keeps_has_a_remedy() {
    let dir = tree(&["a/f", "d/kept/old", "d/old"]);
    let path = dir.path();
    let chattr = |how: &str, name: &str| {
        let changed = Command::new("chattr").args([how, name]).current_dir(path).output();
        changed.is_ok_and(|output| output.status.success())
    };
    if !chattr("+a", "d/kept") || !chattr("+i", "d/old") {
        chattr("-a", "d/kept");
        return skipped("no chattr, no root, or no such attribute here");
    }
    let said = [&["--dry-run"][..], &[]]
        .map(|options| fails(path, &[&["-rT", "--delete", "a", "d"], options].concat()));
    for name in ["d/kept", "d/old"] {
        chattr("-ia", name);
    }
    for said in said {
        for (name, remedy) in [
            ("d/kept/old", "(its directory is append-only: chattr -a removes this attribute)"),
            ("d/old", "(the file is immutable: chattr -i removes this attribute)"),
        ] {
            let reported = format!("cannot remove '{name}': Operation not permitted {remedy}\n");
            assert!(said.contains(&reported), "{said}");
        }
    }
}
