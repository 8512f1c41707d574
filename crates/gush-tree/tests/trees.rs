//! Copies of trees by the library: what arrives, and what is reported.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use gush_test as _;
use gush_tree::{
    Action, Census, Copier, CopyOptions, Dereference, Done, Error, Events, Filter, ModeRule, Place,
    Specials, TreeCounts, Update,
};

fn recursive() -> CopyOptions {
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.dereference = Dereference::Never;
    options.specials = Specials::Recreate;
    options
}

fn archive(threads: usize) -> CopyOptions {
    let mut options = recursive();
    options.moving.threads = threads;
    options.preserve.mode = ModeRule::Keep;
    options.preserve.owner = true;
    options.preserve.times = true;
    options.preserve.links = true;
    options
}

/// Everything that was reported.
#[derive(Default)]
struct Recorded {
    ended: Vec<(PathBuf, Result<Action, String>)>,
    warnings: Vec<String>,
}

impl Events for Recorded {
    fn entry_ended(&mut self, source: &Path, _target: &Path, result: &Result<Done, Error>) {
        let result = result.as_ref().map(|done| done.action).map_err(ToString::to_string);
        self.ended.push((source.to_path_buf(), result));
    }

    fn warns(&mut self, warning: &Error) {
        self.warnings.push(warning.to_string());
    }
}

fn copy(options: &CopyOptions, source: &Path, target: &Path) -> (Result<Done, Error>, Recorded) {
    let mut reported = Recorded::default();
    let result = Copier::new(options).copy(Place::here(source), Place::here(target), &mut reported);
    (result, reported)
}

fn entries(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_path_buf());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_directory_is_refused_unless_directories_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (result, _) = copy(&CopyOptions::default(), dir.path(), &dir.path().join("copy"));
    assert!(result.unwrap_err().to_string().contains("-r not specified; omitting directory '"));
}

#[test]
fn without_data_an_atomic_copy_leaves_the_targets_data() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    std::fs::write(&source, "new").unwrap();
    std::fs::write(&target, "old").unwrap();
    let mut options = CopyOptions::default();
    (options.atomic, options.data) = (true, false);
    copy(&options, &source, &target).0.unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"old");
}

#[test]
fn each_entry_is_reported_once_and_the_root_is_the_result() {
    for threads in [1, 4] {
        let dir = tempfile::tempdir().unwrap();
        let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
        fs::create_dir_all(source.join("x/y")).unwrap();
        fs::write(source.join("f"), "f").unwrap();
        fs::write(source.join("x/g"), "g").unwrap();
        symlink("nowhere", source.join("x/y/l")).unwrap();
        let (result, mut reported) = copy(&archive(threads), &source, &target);
        let done = result.unwrap();
        assert!(done.complete);
        assert_eq!(done.action, Action::Directory);
        // Several threads end their files in any order.
        reported.ended.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            ("f", Action::Copied),
            ("x", Action::Directory),
            ("x/g", Action::Copied),
            ("x/y", Action::Directory),
            ("x/y/l", Action::SymbolicLinked),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(name, action)| (source.join(name), Ok(action))).collect();
        assert_eq!(reported.ended, expected);
        assert!(reported.warnings.is_empty(), "{:?}", reported.warnings);
        assert_eq!(entries(&source), entries(&target));
    }
}

#[test]
fn an_entry_that_fails_is_reported_and_the_others_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    for name in ["ok", "taken", "z"] {
        fs::create_dir_all(source.join(name)).unwrap();
        fs::write(source.join(name).join("f"), name).unwrap();
    }
    fs::create_dir(&target).unwrap();
    fs::write(target.join("taken"), "a file").unwrap();
    let (result, reported) = copy(&archive(2), &source, &target);
    assert!(!result.unwrap().complete);
    let failed: Vec<_> = reported.ended.iter().filter(|(_, result)| result.is_err()).collect();
    let (from, to) = (source.join("taken"), target.join("taken"));
    let text = format!(
        "cannot overwrite non-directory '{}' with directory '{}'",
        to.display(),
        from.display()
    );
    assert_eq!(failed, [&(from, Err(text))]);
    assert_eq!(fs::read_to_string(target.join("ok/f")).unwrap(), "ok");
    assert_eq!(fs::read_to_string(target.join("z/f")).unwrap(), "z");
    assert_eq!(fs::read_to_string(to).unwrap(), "a file");
}

#[test]
fn a_flat_directory_is_shared_by_threads_and_nothing_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    fs::create_dir(&source).unwrap();
    // Several listings long, so that threads share one directory.
    for number in 0..5_000 {
        fs::write(source.join(format!("file-{number}")), number.to_string()).unwrap();
    }
    let (result, reported) = copy(&archive(4), &source, &target);
    assert!(result.unwrap().complete);
    assert_eq!(reported.ended.len(), 5_000);
    for number in 0..5_000 {
        let text = fs::read_to_string(target.join(format!("file-{number}"))).unwrap();
        assert_eq!(text, number.to_string());
    }
    assert_eq!(entries(&target).len(), 5_000);
}

#[test]
fn names_of_one_file_stay_names_of_one_file_on_any_number_of_threads() {
    for threads in [1, 2, 8] {
        let dir = tempfile::tempdir().unwrap();
        let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
        for part in 0..10 {
            fs::create_dir_all(source.join(part.to_string())).unwrap();
        }
        for file in 0..50 {
            let first = source.join(format!("0/{file}"));
            fs::write(&first, file.to_string()).unwrap();
            for part in 1..10 {
                fs::hard_link(&first, source.join(format!("{part}/{file}"))).unwrap();
            }
        }
        let (result, reported) = copy(&archive(threads), &source, &target);
        assert!(result.unwrap().complete);
        let made = |action| reported.ended.iter().filter(|(_, done)| *done == Ok(action)).count();
        assert_eq!((made(Action::Copied), made(Action::HardLinked)), (50, 450));
        for file in 0..50 {
            let about = |part: i32| fs::metadata(target.join(format!("{part}/{file}"))).unwrap();
            assert!((0..10).all(|part| about(part).ino() == about(0).ino()));
            assert_eq!(about(0).nlink(), 10);
            assert_eq!(
                fs::read_to_string(target.join(format!("9/{file}"))).unwrap(),
                file.to_string()
            );
        }
    }
}

#[test]
fn no_later_source_is_written_through_a_link_that_an_earlier_one_made() {
    // The first source, the second, and the name at which they meet.
    let cases = [("a/l", "b", "l"), ("a", "b/l", "l"), ("a", "b", "l"), ("a", "b", "d/l")];
    for (first, second, name) in cases {
        let dir = tempfile::tempdir().unwrap();
        let root = |name: &str| dir.path().join(name);
        for made in ["a/d", "b/d", "target"] {
            fs::create_dir_all(root(made)).unwrap();
        }
        fs::write(root("target/kept"), "kept").unwrap();
        symlink(root("target/kept"), root("a").join(name)).unwrap();
        fs::write(root("b").join(name), "new").unwrap();
        let mut options = recursive();
        options.confine = false;
        let mut copier = Copier::for_several(&options);
        let mut reported = Recorded::default();
        let mut said = Vec::new();
        for source in [first, second] {
            let source = root(source);
            let target = match source.is_dir() && !source.is_symlink() {
                true => root("target"),
                false => root("target").join(source.file_name().unwrap()),
            };
            match copier.copy(Place::here(&source), Place::here(&target), &mut reported) {
                Ok(done) => assert!(done.complete || !reported.ended.is_empty()),
                Err(error) => said.push(error.to_string()),
            }
        }
        said.extend(reported.ended.into_iter().filter_map(|(_, result)| result.err()));
        let [from, to] = [root("b").join(name), root("target").join(name)];
        let text = format!(
            "will not copy '{}' through just-created symlink '{}'",
            from.display(),
            to.display()
        );
        assert_eq!(said, [text], "{first} {second}");
        assert_eq!(fs::read_to_string(root("target/kept")).unwrap(), "kept");
    }
}

#[test]
fn a_newer_target_counts_as_a_copy_of_its_source() {
    // Which name of the target is newer, and so left as it is.
    for newer in ["f", "g", "h"] {
        for threads in [1, 4] {
            let dir = tempfile::tempdir().unwrap();
            let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
            fs::create_dir(&source).unwrap();
            fs::write(source.join("f"), "old").unwrap();
            fs::hard_link(source.join("f"), source.join("g")).unwrap();
            fs::hard_link(source.join("f"), source.join("h")).unwrap();
            let long_ago = std::time::SystemTime::UNIX_EPOCH;
            fs::File::open(source.join("f")).unwrap().set_modified(long_ago).unwrap();
            fs::create_dir(&target).unwrap();
            fs::write(target.join(newer), "newer").unwrap();
            let mut options = archive(threads);
            options.update = Update::Older;
            // Twice: a copy of what is there already must change nothing.
            for _ in 0..2 {
                assert!(copy(&options, &source, &target).0.unwrap().complete);
                assert_eq!(entries(&target).len(), 3);
                let about = |name| fs::metadata(target.join(name)).unwrap();
                for name in ["f", "g", "h"] {
                    assert_eq!((about(name).ino(), about(name).nlink()), (about("f").ino(), 3));
                }
            }
        }
    }
}

#[test]
fn names_that_are_no_text_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    let odd = OsStr::from_bytes(b"\xff \n\x80");
    fs::create_dir_all(source.join(odd)).unwrap();
    fs::write(source.join(odd).join(odd), "odd").unwrap();
    assert!(copy(&archive(2), &source, &target).0.unwrap().complete);
    assert_eq!(fs::read_to_string(target.join(odd).join(odd)).unwrap(), "odd");
}

#[test]
fn a_link_out_of_the_target_is_written_through_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target, outside] = ["a", "b", "outside"].map(|name| dir.path().join(name));
    for root in [&source, &target] {
        fs::create_dir_all(root.join("d")).unwrap();
    }
    fs::write(source.join("d/f"), "new").unwrap();
    fs::write(&outside, "guarded").unwrap();
    for link in [Path::new("../../outside"), outside.as_path()] {
        symlink(link, target.join("d/f")).unwrap();
        let mut options = recursive();
        let (result, reported) = copy(&options, &source, &target);
        assert!(!result.unwrap().complete);
        let text = format!(
            "not writing through '{}', a symbolic link out of the target's tree \
             (--remove-destination replaces the link, --no-confine follows it)",
            target.join("d/f").display()
        );
        assert!(reported.ended.contains(&(source.join("d/f"), Err(text))), "{:?}", reported.ended);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "guarded");
        options.confine = false;
        assert!(copy(&options, &source, &target).0.unwrap().complete);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "new");
        fs::write(&outside, "guarded").unwrap();
        fs::remove_file(target.join("d/f")).unwrap();
    }
}

#[test]
fn a_link_within_the_target_is_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    for root in [&source, &target] {
        fs::create_dir_all(root.join("d")).unwrap();
    }
    fs::write(source.join("d/f"), "new").unwrap();
    fs::write(target.join("other"), "old").unwrap();
    symlink("../other", target.join("d/f")).unwrap();
    assert!(copy(&recursive(), &source, &target).0.unwrap().complete);
    assert_eq!(fs::read_to_string(target.join("other")).unwrap(), "new");
    assert!(fs::symlink_metadata(target.join("d/f")).unwrap().is_symlink());
}

#[test]
fn a_linked_directory_in_the_target_is_entered_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/f"), "new").unwrap();
    fs::create_dir_all(target.join("real")).unwrap();
    symlink("real", target.join("d")).unwrap();
    let mut options = recursive();
    assert!(!copy(&options, &source, &target).0.unwrap().complete);
    assert!(!target.join("real/f").exists());
    options.keep_directory_symlink = true;
    assert!(copy(&options, &source, &target).0.unwrap().complete);
    assert_eq!(fs::read_to_string(target.join("real/f")).unwrap(), "new");
}

#[test]
fn a_linked_directory_that_cannot_be_listed_is_written_into() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/f"), "new").unwrap();
    let real = target.join("real");
    fs::create_dir_all(&real).unwrap();
    symlink("real", target.join("d")).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o300)).unwrap();
    let mut options = recursive();
    options.keep_directory_symlink = true;
    let is_complete =
        gush_test::without_privilege(|| copy(&options, &source, &target).0.unwrap().complete);
    assert!(is_complete);
    assert_eq!(fs::read_to_string(real.join("f")).unwrap(), "new");
}

#[test]
fn the_census_counts_what_a_copy_copies() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    for below in ["x/y", "x/cache", "z/deep/er"] {
        fs::create_dir_all(source.join(below)).unwrap();
        fs::write(source.join(below).join("f"), below).unwrap();
        fs::write(source.join(below).join("f.o"), "object").unwrap();
        fs::write(source.join(below).join("f.log"), "a log").unwrap();
    }
    fs::write(source.join("z/.gitignore"), "*.log\n").unwrap();
    fs::hard_link(source.join("x/y/f"), source.join("z/f")).unwrap();
    symlink("f", source.join("x/y/l")).unwrap();
    let mut options = archive(2);
    options.gitignore = true;
    let rules = [(false, "*.o".to_owned()), (false, "cache/".to_owned())];
    options.filter = Some(Filter::new(&rules).unwrap());
    let census = Census::default();
    census.count(&options, &[&source]);
    let (result, reported) = copy(&options, &source, &target);
    assert!(result.unwrap().complete);
    let copied = reported.ended.iter().filter(|(_, done)| *done == Ok(Action::Copied));
    let sizes = copied.map(|(path, _)| fs::metadata(path).unwrap().len()).collect::<Vec<_>>();
    assert_eq!(sizes.len(), 4, "{sizes:?}");
    assert_eq!(census.totals(), Some((4, sizes.iter().sum())));
    census.count(&options, &[&source.join("missing")]);
    assert_eq!(census.totals(), None);
}

#[test]
fn a_file_done_without_a_byte_moved_reports_its_size_once() {
    #[derive(Default)]
    struct Recorded(Vec<(String, Option<u64>)>);
    impl gush_tree::Events for Recorded {
        fn entry_ended(&mut self, source: &Path, _: &Path, result: &Result<Done, Error>) {
            let name = source.file_name().unwrap().to_str().unwrap().to_owned();
            self.0.push((name, result.as_ref().unwrap().unmoved_bytes));
        }
        fn wants_entries(&self) -> bool {
            true
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "d"].map(|name| dir.path().join(name));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "12345").unwrap();
    fs::hard_link(source.join("one"), source.join("two")).unwrap();
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.preserve.links = true;
    options.preserve.times = true;
    options.dereference = gush_tree::Dereference::Never;
    options.moving.threads = 1;
    let mut sizes = |update| {
        options.update = update;
        let mut reported = Recorded::default();
        let (from, to) = (Place::here(&source), Place::here(&target));
        Copier::new(&options).copy(from, to, &mut reported).unwrap();
        reported.0.retain(|(name, _)| name == "one" || name == "two");
        let mut sizes: Vec<_> = reported.0.into_iter().map(|(_, bytes)| bytes).collect();
        sizes.sort();
        sizes
    };
    assert_eq!(sizes(gush_tree::Update::All), [None, None]);
    assert_eq!(sizes(gush_tree::Update::Changed), [None, Some(5)]);
}

#[test]
fn what_the_threads_have_counted_is_all_that_was_copied() {
    #[derive(Default)]
    struct Recorded {
        counts: Vec<(TreeCounts, PathBuf)>,
        entries: usize,
    }
    impl Events for Recorded {
        fn wants_entries(&self) -> bool {
            false
        }
        fn entry_ended(&mut self, _: &Path, _: &Path, _: &Result<Done, Error>) {
            self.entries += 1;
        }
        fn wants_counts(&self) -> bool {
            true
        }
        fn counted(&mut self, counts: &TreeCounts, source: &Path) {
            self.counts.push((*counts, source.to_path_buf()));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "d"].map(|name| dir.path().join(name));
    for number in 0..40 {
        let below = source.join(format!("d{}", number % 4));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(number.to_string()), vec![1; number]).unwrap();
    }
    fs::write(source.join("large"), vec![1; 3 << 20]).unwrap();
    fs::write(source.join("taken"), "").unwrap();
    fs::create_dir_all(target.join("taken/in the way")).unwrap();
    for threads in [1, 4] {
        let mut reported = Recorded::default();
        let (from, to) = (Place::here(&source), Place::here(&target));
        let mut options = archive(threads);
        options.update = Update::Changed;
        let done = Copier::new(&options).copy(from, to, &mut reported).unwrap();
        assert!(!done.complete && reported.entries == 1, "{threads}");
        let sum =
            |of: fn(&TreeCounts) -> u64| reported.counts.iter().map(|(counts, _)| of(counts)).sum();
        let (files, bytes): (u64, u64) = (sum(|counts| counts.files), sum(|counts| counts.bytes));
        let unmoved: (u64, u64) =
            (sum(|counts| counts.unmoved_files), sum(|counts| counts.unmoved_bytes));
        let all = (41, 780 + (3 << 20));
        // The second copy finds all of them unchanged.
        let expected = if threads == 1 { (all, (0, 0)) } else { ((0, 0), all) };
        assert_eq!(((files, bytes), unmoved), expected);
        if threads == 1 {
            let large = source.join("large");
            let at_large = reported.counts.iter().filter(|(_, name)| *name == large).count();
            assert!(at_large >= 2, "{:?}", reported.counts);
        }
    }
}
