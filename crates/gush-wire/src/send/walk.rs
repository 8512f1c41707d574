//! The walk through the sources. Directories, links and special files are sent on the first stream
//! as they are found; regular files go to the queue.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gush_text::quote;
use gush_tree::remote::{Visitor, lineage, mounted_below, open_found, shares_identities, walk};
use gush_tree::{Action, Dereference, Naming, Place};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};

use super::Session;
use super::queue::{self, Found};
use super::worker::TOO_MANY_ATTRIBUTES;
use crate::error::Error;
use crate::record::{BASE, ToReceiver};
use crate::remote::at_host;

/// How many files are queued at once: a wake-up for each would cost more than the file.
const MOST_BATCHED: usize = 16;

pub(super) struct Walk<'s, 'e> {
    session: &'s Session<'e>,
    /// The numbers of files with several names, by device and inode.
    known: HashMap<(u64, u64), u64>,
    /// The names that operands have got.
    names: HashSet<OsString>,
    /// The operand, and the name of its copy.
    source: PathBuf,
    name: OsString,
    /// The directories entered and not left, from the base on.
    open: Vec<OpenFolder>,
    /// Files for the queue, which takes many at once.
    batch: Vec<Found>,
    /// The root of the tree that is walked, and its path.
    tree: Option<(Arc<OwnedFd>, PathBuf)>,
    /// The real path of an operand that is no tree.
    operand: Option<PathBuf>,
    /// The root directory of this process.
    slash: Option<Arc<OwnedFd>>,
}

struct OpenFolder {
    id: u64,
    entries: u64,
    path: PathBuf,
    is_listed: bool,
}

impl OpenFolder {
    fn new(id: u64, path: &Path) -> Self {
        Self { id, entries: 0, path: path.to_path_buf(), is_listed: true }
    }
}

/// With so many identities of up to 10 bytes, a directory without attributes fits into a record.
const MOST_SPARED: usize = 100_000;

/// The walk can only end in an error of trees: that of the stream is kept aside.
struct Walking<'w, 's, 'e> {
    walk: &'w mut Walk<'s, 'e>,
    ended: Option<Error>,
    /// The name of the root's copy, `.` where the directory above becomes the copy.
    root_name: &'w OsStr,
    is_root: bool,
}

impl<'s, 'e> Walk<'s, 'e> {
    pub fn new(session: &'s Session<'e>) -> Self {
        Self {
            session,
            known: HashMap::new(),
            names: HashSet::new(),
            source: PathBuf::new(),
            name: OsString::new(),
            open: vec![OpenFolder::new(BASE, Path::new(""))],
            batch: Vec::with_capacity(MOST_BATCHED),
            tree: None,
            operand: None,
            slash: None,
        }
    }

    pub fn send_all(mut self, sources: &[&Path]) -> Result<(), Error> {
        for (number, source) in (0..).zip(sources) {
            self.send_operand(number, source, sources.len() > 1)?;
        }
        let session = self.session;
        self.put_batch();
        session.first.flush()?;
        session.queue.drain();
        session.lock().is_finishing = true;
        session.changed.notify_all();
        if session.lock().is_ended {
            return Err(Error::Ended);
        }
        session.first.record(&ToReceiver::Finish { entries: self.open[0].entries })?;
        session.queue.close();
        session.first.flush()
    }

    fn send_operand(&mut self, number: u32, source: &Path, has_others: bool) -> Result<(), Error> {
        let options = self.session.options;
        let follow = options.dereference != Dereference::Never;
        let name = Naming::default().name_below(source).as_os_str();
        (self.source, self.name) = (source.to_path_buf(), name.to_owned());
        (self.tree, self.operand) = (None, None);
        let target = self.target(source);
        let refuses = |why| {
            self.session.refuses(source, &target, why);
            Ok(())
        };
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = match fs::statat(fs::CWD, source, flags) {
            Ok(stat) => stat,
            Err(errno) => {
                self.session.fails_text(source, &target, "cannot stat", errno);
                return Ok(());
            }
        };
        let canonical = source.canonicalize().ok();
        let announces = || match self.session.is_served {
            true => {
                let name = name.as_bytes().to_vec();
                self.session.first.record(&ToReceiver::Operand { number, name }).map(drop)
            }
            false => Ok(()),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::Directory {
            let is_content = !matches!(kind, FileType::RegularFile | FileType::Symlink);
            if is_content && !options.recursive {
                return refuses(
                    "is a special file, whose content is not served in a copy to another machine \
                     (-R recreates the file)",
                );
            }
            if !self.names.insert(name.to_owned()) {
                return refuses("is not copied: an operand before it has the same name");
            }
            // The parent of a link that is followed is another directory.
            let real = if follow { canonical.as_deref().unwrap_or(source) } else { source };
            let above = match real.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            // It need not be readable.
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = match fs::open(above, flags, Mode::empty()) {
                Ok(dir) => Arc::new(dir),
                Err(errno) => {
                    self.session.fails_text(above, &target, "cannot open directory", errno);
                    return Ok(());
                }
            };
            let found = real.file_name().unwrap_or(name);
            announces()?;
            self.operand.clone_from(&canonical);
            return self.entry(&dir, found, name, &stat, source);
        }
        if !options.recursive {
            return refuses("is a directory, and -r is not given");
        }
        // Its entries may replace those of an operand before: neither these nor what comes next may
        // be under way meanwhile. Those of `.` are next to other operands.
        let is_alone = !self.names.insert(name.to_owned()) || (name == "." && has_others);
        if is_alone {
            self.put_batch();
            self.session.wait_for_answers()?;
        }
        announces()?;
        let place = Place::here(source);
        let within = at_host(self.session.host, self.session.target);
        self.session.lock().events.enters_tree(source, &within);
        let mut walking = Walking { walk: self, ended: None, root_name: name, is_root: true };
        let walked = walk(options, place, &mut walking);
        match (walking.ended, walked) {
            (Some(ended), _) => Err(ended),
            (None, Err(error)) if walking.is_root => {
                self.session.fails(&target, error);
                Ok(())
            }
            (None, Err(error)) => {
                // A directory left half-way cannot be completed: the session ends.
                let why = error.to_string();
                self.session.fails(&target, error);
                self.session.first.flush()?;
                Err(Error::Local(format!("the walk ended: {why}")))
            }
            (None, Ok(())) if is_alone => {
                self.put_batch();
                self.session.wait_for_answers()
            }
            (None, Ok(())) => Ok(()),
        }
    }

    /// The path of an entry's copy, from the name of the operand on.
    fn target(&self, source: &Path) -> PathBuf {
        let name = Path::new(&self.name);
        match source.strip_prefix(&self.source) {
            Ok(below) if !below.as_os_str().is_empty() => name.join(below),
            _ => name.to_path_buf(),
        }
    }

    /// The directory that entries are in.
    fn folder(&mut self) -> &mut OpenFolder {
        self.open.last_mut().expect("the base is never left")
    }

    /// Sends an entry that is no directory, found as one name and sent as another.
    fn entry(
        &mut self,
        dir: &Arc<OwnedFd>,
        found_as: &OsStr,
        sent_as: &OsStr,
        stat: &Stat,
        path: &Path,
    ) -> Result<(), Error> {
        let session = self.session;
        let target = self.target(path);
        let folder = self.folder().id;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let has_names = session.options.preserve.links && stat.st_nlink > 1;
        let key = (stat.st_dev, stat.st_ino);
        let first = self.known.get(&key).copied().filter(|_| has_names);
        let (action, bytes) = match first {
            Some(_) => (Action::HardLinked, None),
            None => queue::copied(stat),
        };
        if !session.has_number() {
            self.put_batch();
        }
        let id = session.number(&session.first, path, target.clone(), action, bytes)?;
        self.folder().entries += 1;
        let name = sent_as.as_bytes().to_vec();
        let below = self.found_again(found_as, path);
        let found = || Found {
            id,
            place: queue::Place { dir: Arc::clone(dir), name: PathBuf::from(found_as) },
            sent_as: sent_as.to_owned(),
            stat: *stat,
            path: path.to_path_buf(),
            target: target.clone(),
            folder,
            has_names: has_names && first.is_none(),
            below,
        };
        if let Some(first) = first {
            // The receiver may have no copy under the first name.
            let mut found = found();
            found.let_go();
            let metadata = match is_file {
                true => session.plain_metadata(dir, stat, path),
                false => open_found(dir.as_fd(), found_as, stat, path, true)
                    .map(|fd| session.plain_metadata(&fd, stat, path))
                    .unwrap_or_default(),
            };
            session.queue.ask();
            session.lock().asked.insert(id, found);
            let record = ToReceiver::Link { id, folder, name, metadata, first };
            return session.first.record(&record).map(drop);
        }
        if has_names {
            self.known.insert(key, id);
        }
        if is_file {
            self.wait_for_room()?;
            match (has_names, session.asks) {
                // Its other names are on the first stream.
                (true, true) => session.ask(&session.first, found())?,
                (true, false) => session.send_file(&session.first, found())?,
                (false, _) => {
                    let found = found();
                    self.batch.push(found);
                    if self.batch.len() == MOST_BATCHED {
                        self.put_batch();
                    }
                }
            }
            return Ok(());
        }
        session.send_other(&found())
    }

    /// A directory, and the path below it by which an entry is found again. No component of it is a
    /// link.
    fn found_again(&mut self, found_as: &OsStr, path: &Path) -> Option<(Arc<OwnedFd>, PathBuf)> {
        if let Some((root, at)) = &self.tree {
            return Some((Arc::clone(root), path.strip_prefix(at).ok()?.to_path_buf()));
        }
        let (at, below) = match &self.operand {
            Some(real) => (self.slash.clone(), real.strip_prefix("/").ok()?.to_path_buf()),
            None => return None,
        };
        let at = match at {
            Some(at) => at,
            None => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let slash = Arc::new(fs::open("/", flags, Mode::empty()).ok()?);
                self.slash = Some(Arc::clone(&slash));
                slash
            }
        };
        (below.file_name() == Some(found_as)).then_some((at, below))
    }

    fn put_batch(&mut self) {
        self.session.queue.put(self.batch.drain(..));
    }

    fn wait_for_room(&mut self) -> Result<(), Error> {
        if self.session.queue.has_room() {
            return Ok(());
        }
        self.put_batch();
        self.session.first.flush()?;
        self.session.queue.wait_for_room();
        Ok(())
    }

    fn enter(
        &mut self,
        dir: &Arc<OwnedFd>,
        name: &OsStr,
        stat: &Stat,
        path: &Path,
        (within, mounted): (Vec<u64>, Option<Vec<u64>>),
    ) -> Result<(), Error> {
        let session = self.session;
        let target = self.target(path);
        let metadata = session.metadata(dir, stat, path).unwrap_or_else(|error| {
            session.fails(&target, error);
            // Mode, owner and times are known; no attribute is read.
            session.plain_metadata(dir, stat, path)
        });
        if !session.has_number() {
            self.put_batch();
        }
        let id = session.number(&session.first, path, target.clone(), Action::Directory, None)?;
        let (folder, name) = (self.folder().id, name.as_bytes().to_vec());
        let mut record = ToReceiver::Enter { id, folder, name, metadata, within, mounted };
        if !session.first.record(&record)? {
            session.refuses(path, &target, TOO_MANY_ATTRIBUTES);
            // Its entries are copied all the same.
            if let ToReceiver::Enter { metadata, .. } = &mut record {
                metadata.attributes.clear();
            }
            session.first.record(&record)?;
        }
        self.folder().entries += 1;
        self.open.push(OpenFolder::new(id, path));
        self.tree.get_or_insert_with(|| (Arc::clone(dir), path.to_path_buf()));
        session.lock().depth += 1;
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Error> {
        let OpenFolder { id, entries, is_listed, .. } =
            self.open.pop().expect("a directory is left that was entered");
        self.session.lock().depth -= 1;
        self.session.first.record(&ToReceiver::Leave { id, entries, is_listed }).map(drop)
    }
}

impl Walking<'_, '_, '_> {
    /// The walk ends where the session does.
    fn goes_on(&mut self, result: Result<(), Error>, path: &Path) -> Result<(), gush_tree::Error> {
        result.map_err(|error| {
            let ours = gush_tree::Error::reported(path, error.to_string());
            self.ended = Some(error);
            ours
        })
    }
}

impl Visitor for Walking<'_, '_, '_> {
    fn enters(
        &mut self,
        dir: &Arc<OwnedFd>,
        stat: &Stat,
        path: &Path,
    ) -> Result<(), gush_tree::Error> {
        let (mut name, mut spared) =
            (path.file_name().unwrap_or(self.root_name), Default::default());
        if self.is_root {
            name = self.root_name;
            if self.walk.session.options.mirror {
                let mounted = mounted_below(dir.as_fd()).filter(|_| shares_identities());
                spared = (lineage(dir.as_fd()), mounted);
            }
            if spared.0.len() + spared.1.as_ref().map_or(0, Vec::len) > MOST_SPARED {
                let text = format!(
                    "cannot mirror {}: more than {MOST_SPARED} directories are above it or mounted in it \
                     (mirror its parts one by one)",
                    quote::always(path)
                );
                return Err(gush_tree::Error::reported(path, text));
            }
            self.is_root = false;
        }
        let entered = self.walk.enter(dir, name, stat, path, spared);
        self.goes_on(entered, path)
    }

    fn skips(&mut self) -> Result<(), gush_tree::Error> {
        self.walk.folder().is_listed = false;
        Ok(())
    }

    fn ignores(&mut self, lines: &[u8]) -> Result<(), gush_tree::Error> {
        let session = self.walk.session;
        if !session.options.mirror {
            return Ok(());
        }
        let path = self.walk.folder().path.join(".gitignore");
        let sent = match session.first.record(&ToReceiver::Ignore { lines: lines.to_vec() }) {
            // Nothing may be removed by rules that the receiver does not know.
            Ok(false) => {
                let shown = quote::always(&path);
                Err(Error::Local(format!("{shown} is longer than 1 MiB")))
            }
            sent => sent.map(drop),
        };
        self.goes_on(sent, &path)
    }

    fn finds(
        &mut self,
        dir: &Arc<OwnedFd>,
        name: &OsStr,
        stat: &Stat,
        path: &Path,
    ) -> Result<(), gush_tree::Error> {
        let sent = self.walk.entry(dir, name, name, stat, path);
        self.goes_on(sent, path)
    }

    fn leaves(&mut self) -> Result<(), gush_tree::Error> {
        let left = self.walk.leave();
        self.goes_on(left, Path::new(""))
    }

    fn fails(&mut self, error: gush_tree::Error) -> Result<(), gush_tree::Error> {
        let path = error.path().to_path_buf();
        let target = self.walk.target(&path);
        self.walk.session.fails(&target, error);
        let folder = self.walk.folder();
        let (Some(name), true) = (path.file_name(), path.parent() == Some(&folder.path)) else {
            // It is the directory itself that cannot be listed.
            folder.is_listed = false;
            return Ok(());
        };
        // It is there, and a mirror does not remove it.
        folder.entries += 1;
        let (folder, name) = (folder.id, name.as_bytes().to_vec());
        let record = ToReceiver::Unreadable { id: 0, folder, name, has_names: false };
        let sent = self.walk.session.first.record(&record).map(drop);
        self.goes_on(sent, &path)
    }
}

#[cfg(test)]
mod tests {
    use gush_tree::remote::EntryMetadata;

    use super::*;
    use crate::frame::Output;

    #[test]
    fn the_most_identities_fit_into_a_record() {
        let fits = |count: usize| {
            let (within, mounted) = (vec![u64::MAX; count / 2], Some(vec![u64::MAX; count / 2]));
            let name = || "x".repeat(255);
            let metadata = EntryMetadata {
                mode: 0o040_755,
                user_name: name(),
                group_name: name(),
                ..EntryMetadata::default()
            };
            let (id, folder, name) = (u64::MAX, BASE, name().into());
            let record = ToReceiver::Enter { id, folder, name, metadata, within, mounted };
            Output::new(tempfile::tempfile().unwrap()).record(&record).unwrap()
        };
        assert!(fits(MOST_SPARED));
        assert!(!fits(MOST_SPARED + 5000));
    }
}
