//! Trees copied while somebody swaps their directories and files for symbolic links to a guarded place, and back:
//! nothing leads there, on either side.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use gush_test as _;
use gush_tree::{Copier, Dereference, ModeRule, Options, Place, Specials};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2, renameat, symlinkat, unlinkat,
};

const SECRET: &str = "guarded";

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
            fs::write(source.join(dir).join("f"), "open").unwrap();
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

    /// All that can be told about the guarded place.
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

/// Swaps, for a moment, one thing for a link. Whoever copies may have made something with that name meanwhile.
///
/// By descriptors, without following links: a link in place of a directory, which a copy has taken over, would lead this
/// into the guarded place.
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

fn options(turn: u64) -> Options {
    let mut options = Options::default();
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

fn holds_secret(root: &Path) -> Option<PathBuf> {
    let mut waiting = vec![root.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if about.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        } else if about.is_file() && fs::read(&path).is_ok_and(|text| text == SECRET.as_bytes()) {
            return Some(path);
        }
    }
    None
}

/// Copies again and again while names are swapped so many times.
fn campaign(swaps: u64) {
    let dir = tempfile::tempdir().unwrap();
    let field = Field::new(dir.path());
    let before = field.state();
    let done = AtomicU64::new(0);
    // Held during a swap, and by whoever looks by paths, which would be led astray themselves.
    let swapping = Mutex::new(());
    let copies = thread::scope(|scope| {
        scope.spawn(|| {
            let things = field.swaps();
            let mut state = 0x9E37_79B9_7F4A_7C15_u64;
            // An attempt counts only if there was something to swap.
            while done.load(Ordering::Relaxed) < swaps {
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
        let mut turn = 0;
        while done.load(Ordering::Relaxed) < swaps {
            // What was swapped cannot be copied, which is told, and is no matter here.
            let _ = Copier::new(&options(turn)).copy(
                Place::here(&field.source),
                Place::here(&field.target),
                &mut (),
            );
            let held = swapping.lock().unwrap();
            let found = holds_secret(&field.target);
            drop(held);
            assert_eq!(found, None, "after {turn} copies");
            turn += 1;
        }
        turn
    });
    assert!(copies > 0);
    assert_eq!(field.state(), before, "after {copies} copies");
    println!("{copies} copies during {} swaps", done.into_inner());
}

#[test]
fn no_swap_of_a_name_for_a_link_leads_out_of_the_trees() {
    campaign(2_000);
}

/// Takes minutes: `cargo test -p gush-tree --test races -- --ignored --nocapture`.
#[test]
#[ignore = "a million swaps take minutes"]
fn no_swap_of_a_million_leads_out_of_the_trees() {
    campaign(1_000_000);
}
