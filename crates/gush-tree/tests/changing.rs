//! Trees copied while another process changes entries: all that stays is copied, whatever fails is
//! reported by its path, and a copy that was verified is still equal at the end.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use gush_test as _;
use gush_tree::{Copier, CopyOptions, Dereference, Done, Error, Events, Place, Specials};

const STAYING: usize = 100;
const CHANGING: usize = 50;

/// The sources of the entries that failed.
#[derive(Default)]
struct Failed(Vec<PathBuf>);

impl Events for Failed {
    fn entry_ended(&mut self, source: &Path, _target: &Path, result: &Result<Done, Error>) {
        if result.is_err() {
            self.0.push(source.to_path_buf());
        }
    }
}

fn staying(root: &Path, number: usize) -> PathBuf {
    root.join(format!("d{}/stays{number}", number % 5))
}

fn changing(root: &Path, number: usize) -> PathBuf {
    root.join(format!("d{}/comes{number}", number % 5))
}

/// Makes one entry another: a file, a longer one, an empty one, a link, a directory, nothing.
fn change(path: &Path, turn: u64) -> std::io::Result<()> {
    match turn % 6 {
        0 => fs::write(path, "a file"),
        1 => OpenOptions::new().write(true).open(path)?.set_len(100_000),
        2 => OpenOptions::new().write(true).open(path)?.set_len(0),
        3 => fs::remove_file(path).and_then(|()| symlink("stays", path)),
        4 => fs::remove_file(path).and_then(|()| fs::create_dir(path)),
        _ => fs::remove_dir(path),
    }
}

/// Tells the other thread on the way out.
struct EndsIt<'a>(&'a AtomicBool);

impl Drop for EndsIt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn entries_that_change_keep_no_other_from_being_copied() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    (0..5).for_each(|number| fs::create_dir_all(source.join(format!("d{number}"))).unwrap());
    for number in 0..STAYING {
        fs::write(staying(&source, number), number.to_string()).unwrap();
    }
    let (is_over, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        // Also where an assertion fails: the scope waits for the thread.
        let _ends = EndsIt(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let turn = turns.fetch_add(1, Ordering::Relaxed);
                for number in 0..CHANGING {
                    // Each entry is another thing by now.
                    change(&changing(&source, number), turn + number as u64).ok();
                }
            }
        });
        let mut copies = 0;
        // All kinds of change have been made some times.
        while copies < 20 || turns.load(Ordering::Relaxed) < 100 {
            copies += 1;
            let target = dir.path().join(format!("target{copies}"));
            let mut options = CopyOptions::default();
            options.recursive = true;
            options.dereference = Dereference::Never;
            options.specials = Specials::Recreate;
            options.moving.threads = 1 + copies % 3;
            let mut failed = Failed::default();
            let places = (Place::here(&source), Place::here(&target));
            let done = Copier::new(&options).copy(places.0, places.1, &mut failed).unwrap();
            assert!(done.complete || !failed.0.is_empty());
            for path in &failed.0 {
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(name.starts_with("comes"), "{}", path.display());
            }
            for number in 0..STAYING {
                let copy = fs::read_to_string(staying(&target, number)).unwrap();
                assert_eq!(copy, number.to_string());
            }
            fs::remove_dir_all(&target).unwrap();
        }
    });
}

/// Does something to the target once, when the first file has ended.
struct Interferes<F: FnMut(&Path) + Send> {
    act: Option<F>,
    changed: Option<PathBuf>,
    failed: Vec<(PathBuf, String)>,
}

impl<F: FnMut(&Path) + Send> Events for Interferes<F> {
    fn entry_ended(&mut self, _source: &Path, target: &Path, result: &Result<Done, Error>) {
        match result {
            Ok(done) if done.verified => {
                if let Some(mut act) = self.act.take() {
                    act(target);
                    self.changed = Some(target.to_path_buf());
                }
            }
            Ok(_) => {}
            Err(error) => self.failed.push((target.to_path_buf(), error.to_string())),
        }
    }
}

/// Copies two directories of three files each; `act` gets the first target. Returns whether all was
/// copied, that target, and what failed.
fn copied_with_interference(
    dir: &Path,
    change: impl Fn(&mut CopyOptions),
    act: impl FnMut(&Path) + Send,
) -> (bool, PathBuf, Vec<(PathBuf, String)>) {
    let source = dir.join("source");
    for name in ["a", "b"] {
        fs::create_dir_all(source.join(name)).unwrap();
        for number in 1..4 {
            fs::write(source.join(name).join(number.to_string()), format!("{name} {number}"))
                .unwrap();
        }
    }
    fs::write(source.join("manifest"), "all of it").unwrap();
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.verify = true;
    change(&mut options);
    let mut events = Interferes { act: Some(act), changed: None, failed: Vec::new() };
    let target = dir.join("target");
    let done = Copier::new(&options)
        .copy(Place::here(&source), Place::here(&target), &mut events)
        .unwrap();
    (done.complete, events.changed.expect("a file was verified"), events.failed)
}

/// The ways in which a tree's files get their names.
fn ways() -> [fn(&mut CopyOptions); 4] {
    [
        |options| options.moving.threads = 1,
        |options| options.moving.threads = 4,
        |options| options.atomic = true,
        |options| options.resume = true,
    ]
}

#[test]
fn a_verified_copy_that_is_written_to_later_is_a_failure() {
    for change in ways() {
        let dir = tempfile::tempdir().unwrap();
        let overwrite = |target: &Path| {
            // Kernels before 6.13 count change times in ticks of up to 10 ms.
            thread::sleep(Duration::from_millis(20));
            // As long as before, and with the times that it had.
            let times = fs::metadata(target).unwrap();
            fs::write(target, "x y").unwrap();
            let file = fs::File::options().write(true).open(target).unwrap();
            file.set_modified(times.modified().unwrap()).unwrap();
        };
        let (complete, changed, failed) = copied_with_interference(dir.path(), change, overwrite);
        assert!(!complete);
        let [(path, message)] = &failed[..] else { panic!("{failed:?}") };
        assert_eq!(path, &changed);
        assert!(message.contains("differs from the source at byte 0 now"), "{message}");
    }
}

/// A further name changes the change time, as `-a` itself does for a source with several names.
fn add_a_name(target: &Path) {
    // Kernels before 6.13 count change times in ticks of up to 10 ms.
    thread::sleep(Duration::from_millis(20));
    fs::hard_link(target, target.with_extension("again")).unwrap();
}

#[test]
fn a_verified_copy_that_only_got_a_further_name_is_not_compared_with_a_newer_source() {
    for change in ways() {
        let dir = tempfile::tempdir().unwrap();
        let act = |target: &Path| {
            let below = target.strip_prefix(dir.path().join("target")).unwrap();
            fs::write(dir.path().join("source").join(below), "newer").unwrap();
            add_a_name(target);
        };
        let (complete, _, failed) = copied_with_interference(dir.path(), change, act);
        assert!(complete, "{failed:?}");
    }
}

#[test]
fn a_verified_copy_with_a_further_name_that_was_shortened_is_a_failure() {
    for change in ways() {
        let dir = tempfile::tempdir().unwrap();
        let shorten = |target: &Path| {
            let modified = fs::metadata(target).unwrap().modified().unwrap();
            let file = fs::File::options().write(true).open(target).unwrap();
            file.set_len(1).unwrap();
            file.set_modified(modified).unwrap();
            add_a_name(target);
        };
        let (complete, changed, failed) = copied_with_interference(dir.path(), change, shorten);
        assert!(!complete);
        let [(path, message)] = &failed[..] else { panic!("{failed:?}") };
        assert_eq!(path, &changed);
        assert!(message.contains("differs from the source at byte 1 now"), "{message}");
    }
}

#[test]
fn a_verified_copy_that_is_gone_at_the_end_is_a_failure() {
    for change in ways() {
        let dir = tempfile::tempdir().unwrap();
        let remove = |target: &Path| fs::remove_file(target).unwrap();
        let (complete, changed, failed) = copied_with_interference(dir.path(), change, remove);
        assert!(!complete);
        let [(path, message)] = &failed[..] else { panic!("{failed:?}") };
        assert_eq!(path, &changed);
        assert!(message.contains("No such file"), "{message}");
    }
}

#[test]
fn a_verified_copy_that_was_replaced_by_an_equal_file_is_none() {
    for change in ways() {
        let dir = tempfile::tempdir().unwrap();
        let replace = |target: &Path| {
            let text = fs::read(target).unwrap();
            fs::remove_file(target).unwrap();
            fs::write(target, text).unwrap();
        };
        let (complete, _, failed) = copied_with_interference(dir.path(), change, replace);
        assert!(complete, "{failed:?}");
        assert!(failed.is_empty(), "{failed:?}");
    }
}

#[test]
fn no_last_file_vouches_for_a_verified_copy_that_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let last = gush_tree::Filter::new(&[(false, "manifest")]).unwrap();
    let with_last = |options: &mut CopyOptions| options.last = Some(last.clone());
    let overwrite = |target: &Path| fs::write(target, "another").unwrap();
    let (complete, changed, failed) = copied_with_interference(dir.path(), with_last, overwrite);
    assert!(!complete);
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(failed[0].0, changed);
    assert!(failed[1].1.contains("it is committed last, and other entries failed"), "{failed:?}");
    assert!(!dir.path().join("target/manifest").exists());
}

#[test]
fn a_cancelled_copy_is_not_compared_again() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = gush::Cancel::new();
    let cancellable = |options: &mut CopyOptions| options.moving.cancel = Some(cancel.clone());
    let overwrite_and_cancel = |target: &Path| {
        fs::write(target, "another").unwrap();
        cancel.cancel();
    };
    let (complete, changed, failed) =
        copied_with_interference(dir.path(), cancellable, overwrite_and_cancel);
    assert!(!complete);
    assert!(failed.iter().all(|(path, _)| path != &changed), "{failed:?}");
}

#[test]
fn a_mirror_removes_nothing_after_a_verified_copy_that_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("target")).unwrap();
    fs::write(dir.path().join("target/older"), "older").unwrap();
    let none = gush_tree::Filter::new(&[(false, "none")]).unwrap();
    let mirror = |options: &mut CopyOptions| {
        options.mirror = true;
        options.last = Some(none.clone());
    };
    let overwrite = |target: &Path| fs::write(target, "another").unwrap();
    let (complete, _, failed) = copied_with_interference(dir.path(), mirror, overwrite);
    assert!(!complete);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(dir.path().join("target/older").exists());
}
