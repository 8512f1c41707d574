//! Trees copied while somebody swaps their directories and files for symbolic links to a guarded
//! place, and back: nothing leads there, on either side.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use gush_test as _;
use gush_tree::{Copier, CopyOptions, Dereference, Events, ModeRule, Place, Specials};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2, renameat, symlinkat, unlinkat,
};

/// Makes the target after the look at it has found none.
struct Rival(&'static str);

impl Events for Rival {
    fn starts(&mut self, _: &Path, target: &Path, _: Option<&Path>) {
        fs::write(target, self.0).unwrap();
    }
}

#[test]
fn a_file_that_another_program_makes_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::write(&source, "ours").unwrap();
    for atomic in [false, true] {
        let mut options = CopyOptions::default();
        options.atomic = atomic;
        let mut copier = Copier::new(&options);
        let copied = copier.copy(Place::here(&source), Place::here(&target), &mut Rival("theirs"));
        let error = copied.unwrap_err();
        let hint = Some("another program has made it meanwhile; nothing was changed");
        assert_eq!(error.hint(), hint, "{atomic}: {error}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "{atomic}");
        fs::remove_file(&target).unwrap();
    }
}

const SECRET: &str = "guarded";
const OPEN: &str = "open";

struct Field {
    source: PathBuf,
    target: PathBuf,
    guarded: PathBuf,
}

impl Field {
    fn new(root: &Path) -> Self {
        let [source, target, guarded] = ["source", "target", "guarded"].map(|name| root.join(name));
        for dir in ["d", "e/d"] {
            fs::create_dir_all(source.join(dir)).unwrap();
            fs::write(source.join(dir).join("f"), OPEN).unwrap();
            symlink("f", source.join(dir).join("l")).unwrap();
        }
        fs::create_dir_all(guarded.join("d")).unwrap();
        fs::create_dir_all(&target).unwrap();
        for name in ["f", "d/f"] {
            fs::write(guarded.join(name), SECRET).unwrap();
        }
        Self { source, target, guarded }
    }

    /// What can be swapped below which root, and the guarded thing that the link leads to.
    fn swaps(&self) -> Vec<(&Path, &'static Path, PathBuf)> {
        let roots = [self.source.as_path(), &self.target];
        let things = [("d", ""), ("e", ""), ("e/d", "d"), ("d/f", "f"), ("e/d/f", "d/f")];
        let swap = |root, (thing, guarded)| (root, Path::new(thing), self.guarded.join(guarded));
        roots.into_iter().flat_map(|root| things.map(|thing| swap(root, thing))).collect()
    }

    /// All that is known of the guarded place.
    fn state(&self) -> Vec<(PathBuf, u32, i64, i64, u64, Vec<u8>)> {
        let mut state = Vec::new();
        let mut waiting = vec![self.guarded.clone()];
        while let Some(path) = waiting.pop() {
            let about = fs::symlink_metadata(&path).unwrap();
            let content = match about.is_dir() {
                true => {
                    waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                    Vec::new()
                }
                false => fs::read(&path).unwrap(),
            };
            // The time of the last change shows every touch, also one that put everything back.
            let (changed, nanoseconds) = (about.ctime(), about.ctime_nsec());
            state.push((path, about.mode(), changed, nanoseconds, about.nlink(), content));
        }
        state.sort();
        state
    }
}

/// Swaps, for a moment, one thing for a link. Whoever copies may have made something with that name
/// meanwhile.
///
/// By descriptors, without following links: a link in place of a directory, which a copy has taken
/// over, would lead this into the guarded place.
fn swap(root: &Path, thing: &Path, guarded: &Path) -> io::Result<()> {
    let (name, above) = (thing.file_name().unwrap(), thing.parent().unwrap());
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat2(CWD, root, flags, Mode::empty(), ResolveFlags::empty())?;
    let here = match above.as_os_str().is_empty() {
        true => root,
        false => {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            openat2(root, above, flags, Mode::empty(), resolve)?
        }
    };
    let aside = Path::new(name).with_extension("aside");
    renameat(&here, name, &here, &aside)?;
    let linked = symlinkat(guarded, &here, name);
    // Something may stand where the link was: then the link took its place, or was never made.
    if linked.is_ok() {
        let _ = unlinkat(&here, name, AtFlags::empty());
    }
    if renameat(&here, &aside, &here, name).is_err() {
        // A link that was copied gives way. A directory stays, and this one goes.
        let _ = unlinkat(&here, name, AtFlags::empty());
        if renameat(&here, &aside, &here, name).is_err() {
            let aside = PathBuf::from(format!("/proc/self/fd/{}", here.as_raw_fd())).join(&aside);
            let _ = fs::remove_dir_all(&aside).or_else(|_| fs::remove_file(&aside));
        }
    }
    Ok(())
}

fn options(turn: u64) -> CopyOptions {
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.dereference = Dereference::Never;
    options.specials = Specials::Recreate;
    // Each turn has other options, so that all ways of replacing meet the swaps.
    options.moving.threads = 1 + (turn % 3) as usize;
    options.remove_first = turn % 4 == 1;
    options.force = turn % 4 == 2;
    options.atomic = turn % 8 == 3;
    options.mirror = turn % 5 == 4;
    if turn.is_multiple_of(2) {
        options.preserve.mode = ModeRule::Keep;
        options.preserve.owner = true;
        options.preserve.times = true;
        options.preserve.links = true;
    }
    options
}

/// All regular files below `root`; no link is followed.
fn files(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut waiting) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(path) = waiting.pop() {
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if about.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        } else if about.is_file() {
            files.push(path);
        }
    }
    files
}

fn file_holding(root: &Path, content: &str) -> Option<PathBuf> {
    files(root).into_iter().find(|file| fs::read(file).is_ok_and(|text| text == content.as_bytes()))
}

/// Takes all of an old copy away, or gives its files old content.
fn prepare(target: &Path, begins_empty: bool) {
    for file in files(target) {
        fs::write(file, "old").unwrap();
    }
    for entry in fs::read_dir(target).unwrap().filter(|_| begins_empty) {
        let path = entry.unwrap().path();
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }
}

/// Copies at least so often, while names are swapped at least so many times.
fn campaign(least_copies: u64, least_swaps: u64) {
    let dir = tempfile::tempdir().unwrap();
    let field = Field::new(dir.path());
    let before = field.state();
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    // Held during a swap, and by a check by path, which would be led astray itself.
    let swapping = Mutex::new(());
    let (copies, made) = thread::scope(|scope| {
        // Ends the swapping also where a check fails.
        let _over = StoreOnDrop(&is_over);
        scope.spawn(|| {
            let things = field.swaps();
            let mut state = 0x9E37_79B9_7F4A_7C15_u64;
            // An attempt counts only if there was something to swap.
            while !is_over.load(Ordering::Relaxed) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let (root, thing, guarded) = &things[(state % things.len() as u64) as usize];
                let _held = swapping.lock().unwrap();
                if swap(root, thing, guarded).is_ok() {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // The copies that begin with an old target or with none, and how many of them made or
        // replaced a file.
        let (mut turn, mut made) = (0, [(0, 0); 2]);
        while turn < least_copies || done.load(Ordering::Relaxed) < least_swaps {
            // Eight turns have all options but the mirror. Every other eight find an old target.
            let begins_empty = turn / 8 % 2 == 0;
            let held = swapping.lock().unwrap();
            prepare(&field.target, begins_empty);
            drop(held);
            // What was swapped cannot be copied, which is reported, and is no matter here.
            let _ = Copier::new(&options(turn)).copy(
                Place::here(&field.source),
                Place::here(&field.target),
                &mut (),
            );
            let held = swapping.lock().unwrap();
            let found = file_holding(&field.target, SECRET);
            let has_made = file_holding(&field.target, OPEN).is_some();
            drop(held);
            assert_eq!(found, None, "after {turn} copies");
            let (all, with_file) = &mut made[usize::from(begins_empty)];
            (*all, *with_file) = (*all + 1, *with_file + u32::from(has_made));
            turn += 1;
        }
        (turn, made)
    });
    assert_eq!(field.state(), before, "after {copies} copies");
    // A copier that refuses everything leads nowhere, either.
    for (all, with_file) in made {
        assert!(with_file * 2 > all, "{with_file} of {all} copies made or replaced a file");
    }
    println!(
        "{copies} copies during {} swaps, by old target and none: {made:?}",
        done.into_inner()
    );
}

struct StoreOnDrop<'a>(&'a AtomicBool);

impl Drop for StoreOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_swap_of_a_name_for_a_link_leads_out_of_the_trees() {
    campaign(480, 2_000);
}

/// Takes minutes: `cargo test -p gush-tree --test races -- --ignored --nocapture`.
#[test]
#[ignore = "a million swaps take minutes"]
fn no_swap_of_a_million_leads_out_of_the_trees() {
    campaign(480, 1_000_000);
}
