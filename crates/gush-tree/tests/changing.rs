//! Trees copied while somebody makes, removes, grows, cuts and replaces entries of the source: all that stays is copied, and whatever fails
//! is reported by its path.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

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
