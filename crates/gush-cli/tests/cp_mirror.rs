//! `gush cp -r --delete`: what the source lacks goes from the target, and nothing else.

mod common;

use std::fs;
use std::os::unix::fs::symlink;

use common::cp::{fails, names, stderr, stdout, succeeds, with_mounts};

fn tree(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    dir
}

#[test]
fn what_the_source_lacks_goes() {
    let dir = tree(&["a/f", "a/b/g", "d/a/old", "d/a/b/old", "d/a/gone/deep/er/f", "d/beside"]);
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
    assert_eq!(names(&dir.path().join("d")), ["a", "beside"]);
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
    let told = stdout(&succeeds(dir.path(), &dry));
    let removed = |text: &str| {
        let mut names: Vec<_> =
            text.lines().filter(|line| line.starts_with("removed")).map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(removed(&told), ["removed 'd/b'"]);
    assert_eq!(names(&dir.path().join("d")), ["b", "cache", "gone", "log"]);
    let told = stdout(&succeeds(dir.path(), &[&options[..], &["-v"]].concat()));
    assert_eq!(removed(&told), ["removed 'd/b'"]);
    assert_eq!(names(&dir.path().join("d")), [".gitignore", "cache", "f", "gone", "log"]);
    assert_eq!(names(&dir.path().join("d/gone")), ["y.keep"]);
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
        (&["--delete", "a/kept", "a/b"], "concern trees"),
        (&["-rb", "--delete", "c", "a"], "excludes --backup"),
        (&["-rl", "--delete", "c", "a"], "excludes -l"),
        (&["-ri", "--delete", "c", "a"], "excludes -i"),
        (&["-rn", "--delete", "c", "a"], "excludes -n"),
        (&["-r", "--update=none-fail", "--delete", "c", "a"], "excludes -n"),
        (&["-r", "--keep-directory-symlink", "--delete", "c", "a"], "excludes --keep-directory"),
        (&["-r", "--parents", "--delete", "c", "a"], "excludes --parents"),
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
    assert!(stderr(&output).contains("d/gone: cannot remove: "), "{}", stderr(&output));
}

#[test]
fn a_tree_deeper_than_any_path_is_removed() {
    let dir = tree(&["a/f", "d/f"]);
    let script = "deep=$(printf 'deep/%.0s' {1..500}); cd d
        for part in 1 2; do mkdir -p $deep && cd -P $deep || exit 1; done; touch f";
    let output = common::cp::script(dir.path(), script);
    assert!(output.status.success(), "{}", stderr(&output));
    succeeds(dir.path(), &["-rT", "--delete", "a", "d"]);
    assert_eq!(names(&dir.path().join("d")), ["f"]);
}
