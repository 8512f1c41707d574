//! The sender: a walk through the source to records and data, while answers are read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use gush_text::{quote, without_controls};
use gush_tree::remote::{Portrait, Visitor, open_found, walk};
use gush_tree::{Action, CopyOptions, Dereference, Done, Events, Place, Preserve, TreeCounts};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use crate::error::Error;
use crate::frame::{COPIED_BYTES, Input, MOST_DATA_BYTES, Output};
use crate::receive::meet;
use crate::record::{Hello, ToReceiver, ToSender, WINDOW};
use crate::remote::Address;

/// What is sent, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Files and directories.
    pub sources: &'a [&'a Path],
    /// The path on the other machine.
    pub target: &'a Path,
    /// The target as messages show it.
    pub shown: &'a Path,
    /// The target is the copy itself, even where it is a directory.
    pub is_exact: bool,
    /// The target is a directory, and an error otherwise.
    pub is_directory: bool,
}

/// Sends the sources. Returns whether all of them arrived; what did not is reported to `events`.
/// `abandon` is called after a failure on either stream: it has to end the other one, in which a
/// call may wait.
///
/// # Errors
/// When the session ends before all is answered.
pub fn send(
    request: &Request<'_>,
    options: &CopyOptions,
    (input, output): (File, File),
    events: &mut dyn Events,
    abandon: &(dyn Fn() + Sync),
) -> Result<bool, Error> {
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    // A file cannot be made under a name with a slash at its end.
    let names_directory = request.target.as_os_str().as_bytes().ends_with(b"/")
        && !request.is_exact
        && request.sources.first().is_some_and(|source| !source.is_dir());
    // Before the answer: the other side need not wait for a second round trip.
    let greeted = output.record(&Hello::OURS).and_then(|_| {
        output.record(&ToReceiver::Begin {
            target: request.target.as_os_str().as_bytes().to_vec(),
            is_exact: request.is_exact,
            is_directory: request.is_directory || request.sources.len() > 1 || names_directory,
            preserve: options.preserve,
        })?;
        output.flush()
    });
    // What the other side has to say explains a failure to write.
    meet(&mut input)?;
    greeted?;
    let shared = Shared {
        state: Mutex::new(State {
            events,
            awaited: BTreeMap::new(),
            is_whole: true,
            is_finishing: false,
            has_ended: false,
        }),
        changed: Condvar::new(),
        target: request.shown,
        host: Address::of(request.shown.as_os_str())
            .map_or_else(String::new, |address| format!("{}: ", address.host.display())),
        verifies: options.verify,
    };
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let ended = shared.read(&mut input);
            if ended.is_err() {
                abandon();
            }
            ended
        });
        let mut sender = Sender {
            output,
            options,
            shared: &shared,
            next_id: 0,
            known: HashMap::new(),
            names: HashSet::new(),
            root: PathBuf::new(),
            depth: 0,
        };
        let sent = sender.send_all(request.sources);
        // Closed, so that the other side ends, and with it the answers.
        drop(sender);
        if sent.is_err() {
            // It may have closed one stream alone.
            abandon();
        }
        let read = reader.join().expect("the reader does not panic");
        match (sent, read) {
            (_, Err(error @ (Error::Refused(_) | Error::Protocol(_)))) => Err(error),
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
            (Ok(()), Ok(())) => Ok(()),
        }
    })?;
    Ok(shared.lock().is_whole)
}

const TOO_MANY_ATTRIBUTES: &str = "has more attributes than fit into a message of 1 MiB";

/// What both threads use.
struct Shared<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
    target: &'a Path,
    /// What messages of the other machine begin with.
    host: String,
    verifies: bool,
}

struct State<'a> {
    events: &'a mut dyn Events,
    /// The entries sent and not answered.
    awaited: BTreeMap<u64, Awaited>,
    is_whole: bool,
    /// All is sent.
    is_finishing: bool,
    has_ended: bool,
}

/// An entry without an answer.
struct Awaited {
    source: PathBuf,
    target: PathBuf,
    action: Action,
    bytes: Option<u64>,
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message of the other machine, which may say anything but is not to steer this terminal.
    fn told(&self, text: &str) -> String {
        format!("{}{}", self.host, without_controls(text))
    }

    fn read(&self, input: &mut Input) -> Result<(), Error> {
        let ended = self.read_all(input);
        self.lock().has_ended = true;
        self.changed.notify_all();
        ended
    }

    fn read_all(&self, input: &mut Input) -> Result<(), Error> {
        loop {
            let reply: ToSender = input.record()?;
            let state = &mut *self.lock();
            match reply {
                ToSender::Done { id, is_complete } => {
                    let entry = state.take(id)?;
                    state.is_whole &= is_complete;
                    let mut done = Done::sent(entry.action, entry.bytes);
                    done.complete = is_complete;
                    done.verified = self.verifies && entry.action == Action::Copied;
                    if state.events.wants_entries() {
                        state.events.starts(&entry.source, &entry.target, None);
                    }
                    state.events.entry_ended(&entry.source, &entry.target, &Ok(done));
                    if state.events.wants_counts() {
                        let mut counts = TreeCounts::default();
                        counts.files = u64::from(entry.bytes.is_some());
                        counts.bytes = entry.bytes.unwrap_or(0);
                        state.events.counted(&counts, &entry.source);
                    }
                }
                ToSender::Failed { id, why } => {
                    let entry = state.take(id)?;
                    state.is_whole = false;
                    if !why.is_empty() {
                        let error = gush_tree::Error::reported(&entry.target, self.told(&why));
                        state.events.entry_ended(&entry.source, &entry.target, &Err(error));
                    }
                }
                ToSender::Warning(text) => {
                    state.events.warns(&gush_tree::Error::reported(self.target, self.told(&text)));
                }
                ToSender::Refused(why) => return Err(Error::Refused(without_controls(&why))),
                ToSender::Finished if state.is_finishing && state.awaited.is_empty() => {
                    return Ok(());
                }
                ToSender::Finished => {
                    return Err(Error::Protocol("it has finished without all answers".into()));
                }
            }
            self.changed.notify_all();
        }
    }
}

impl State<'_> {
    fn take(&mut self, id: u64) -> Result<Awaited, Error> {
        let entry = self.awaited.remove(&id);
        entry.ok_or_else(|| Error::Protocol(format!("it answers entry {id}, which was not sent")))
    }
}

struct Sender<'a, 'e> {
    output: Output,
    options: &'a CopyOptions,
    shared: &'a Shared<'e>,
    next_id: u64,
    /// The numbers of files with several names, by device and inode.
    known: HashMap<(u64, u64), u64>,
    /// The names that operands which are no directories have got.
    names: HashSet<OsString>,
    /// The directory that the operand is in, to show paths at the target.
    root: PathBuf,
    /// The directories entered and not left, which have no answer yet.
    depth: usize,
}

/// The walk can only end in an error of trees: that of the stream is kept aside.
struct Walking<'s, 'a, 'e> {
    sender: &'s mut Sender<'a, 'e>,
    ended: Option<Error>,
    /// The name of the root, which a path such as `.` does not have.
    root_name: &'s OsStr,
    is_root: bool,
}

impl Sender<'_, '_> {
    fn send_all(&mut self, sources: &[&Path]) -> Result<(), Error> {
        for source in sources {
            self.send_operand(source)?;
        }
        self.shared.lock().is_finishing = true;
        self.output.record(&ToReceiver::Finish)?;
        self.output.flush()
    }

    fn send_operand(&mut self, source: &Path) -> Result<(), Error> {
        let follow = self.options.dereference != Dereference::Never;
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = match fs::statat(fs::CWD, source, flags) {
            Ok(stat) => stat,
            Err(errno) => return self.fails_text(source, "cannot stat", errno),
        };
        let canonical = source.canonicalize().ok();
        let name = source.file_name().or_else(|| canonical.as_deref()?.file_name());
        let Some(name) = name else {
            return self.refuses(source, "has no name to be copied under; name the target with -T");
        };
        self.root = source.parent().unwrap_or(Path::new("")).to_path_buf();
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::Directory {
            let is_content = !matches!(kind, FileType::RegularFile | FileType::Symlink);
            if is_content && !self.options.recursive {
                let why = "is a special file, whose content is not served in a copy to another \
                           machine (-R recreates the file)";
                return self.refuses(source, why);
            }
            if !self.names.insert(name.to_owned()) {
                let why = "is not copied: an operand before it has the same name";
                return self.refuses(source, why);
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
                Err(errno) => return self.fails_text(above, "cannot open directory", errno),
            };
            let found = real.file_name().unwrap_or(name);
            return self.entry(&dir, found, name, &stat, source);
        }
        if !self.options.recursive {
            return self.refuses(source, "is a directory, and -r is not given");
        }
        let place = Place::here(source);
        self.shared.lock().events.enters_tree(source, &self.target(source));
        let mut walking = Walking { sender: self, ended: None, root_name: name, is_root: true };
        let walked = walk(walking.sender.options, place, &mut walking);
        match (walking.ended, walked) {
            (Some(ended), _) => Err(ended),
            (None, Err(error)) => {
                // A directory left half-way cannot be completed: the session ends.
                let why = error.to_string();
                self.fails(error);
                Err(Error::Refused(format!("the walk ended: {why}")))
            }
            (None, Ok(())) => Ok(()),
        }
    }

    fn refuses(&self, source: &Path, why: &str) -> Result<(), Error> {
        let text = format!("{} {why}", quote::always(source));
        self.fails(gush_tree::Error::reported(source, text));
        Ok(())
    }

    fn fails_text(&self, source: &Path, what: &str, errno: Errno) -> Result<(), Error> {
        let text = format!("{what} {}: {}", quote::always(source), gush_text::errno_text(errno));
        self.fails(gush_tree::Error::reported(source, text));
        Ok(())
    }

    fn fails(&self, error: gush_tree::Error) {
        let state = &mut *self.shared.lock();
        state.is_whole = false;
        let source = error.path().to_path_buf();
        let target = self.target(&source);
        state.events.entry_ended(&source, &target, &Err(error));
    }

    fn target(&self, source: &Path) -> PathBuf {
        self.shared.target.join(source.strip_prefix(&self.root).unwrap_or(source))
    }

    /// A new number, for an entry that is sent next. Waits while too many are without an answer.
    fn number(&mut self, source: &Path, action: Action, bytes: Option<u64>) -> Result<u64, Error> {
        let mut state = self.shared.lock();
        if state.awaited.len() >= WINDOW + self.depth {
            drop(state);
            self.output.flush()?;
            state = self.shared.lock();
        }
        while state.awaited.len() >= WINDOW + self.depth && !state.has_ended {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_ended {
            return Err(Error::Ended);
        }
        let id = self.next_id;
        self.next_id += 1;
        let (source, target) = (source.to_path_buf(), self.target(source));
        state.awaited.insert(id, Awaited { source, target, action, bytes });
        Ok(id)
    }

    fn portrait(
        &self,
        fd: &impl AsFd,
        stat: &Stat,
        path: &Path,
    ) -> Result<Portrait, gush_tree::Error> {
        let mut warn = |error| self.shared.lock().events.warns(&error);
        Portrait::of(fd.as_fd(), stat, &self.options.preserve, path, &mut warn)
    }

    fn send_record(&mut self, path: &Path, id: u64, record: &ToReceiver) -> Result<bool, Error> {
        let is_sent = self.output.record(record)?;
        if !is_sent {
            self.shared.lock().awaited.remove(&id);
            self.refuses(path, TOO_MANY_ATTRIBUTES)?;
        }
        Ok(is_sent)
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
        let name = sent_as.as_bytes().to_vec();
        let key = (stat.st_dev, stat.st_ino);
        let has_names = self.options.preserve.links && stat.st_nlink > 1;
        if has_names && let Some(&first) = self.known.get(&key) {
            let id = self.number(path, Action::HardLinked, None)?;
            self.output.record(&ToReceiver::Link { id, name, first })?;
            return Ok(());
        }
        let opened = open_found(dir.as_fd(), found_as, stat, path)
            .and_then(|fd| Ok((self.portrait(&fd, stat, path)?, fd)));
        let (portrait, fd) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.fails(error);
                return Ok(());
            }
        };
        let is_file = portrait.kind() == FileType::RegularFile;
        let (action, bytes) = match portrait.kind() {
            FileType::RegularFile => (Action::Copied, Some(portrait.size_bytes)),
            FileType::Symlink => (Action::SymbolicLinked, None),
            _ => (Action::Recreated, None),
        };
        let size_bytes = portrait.size_bytes;
        let id = self.number(path, action, bytes)?;
        let record = match is_file {
            true => ToReceiver::File { id, name, portrait, has_names },
            false => ToReceiver::Other { id, name, portrait, has_names },
        };
        if !self.send_record(path, id, &record)? {
            return Ok(());
        }
        if has_names {
            self.known.insert(key, id);
        }
        if !is_file {
            return Ok(());
        }
        let file = File::from(fd);
        let record = match self.data(&file, stat, size_bytes)? {
            Ok(digest) => {
                let now = fs::fstat(&file);
                let times = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
                if now.is_ok_and(|now| times(&now) != times(stat)) {
                    let text = format!(
                        "warning: {} changed while it was being copied; the copy holds the bytes read",
                        quote::always(path)
                    );
                    let state = &mut *self.shared.lock();
                    state.events.warns(&gush_tree::Error::reported(path, text));
                }
                ToReceiver::End { digest }
            }
            Err(why) => {
                self.refuses(path, &format!("could not be read: {why}"))?;
                ToReceiver::Broken
            }
        };
        self.output.record(&record).map(drop)
    }

    /// Sends the data of a file. The inner error is the file's, and its text is for the user.
    fn data(
        &mut self,
        file: &File,
        stat: &Stat,
        size_bytes: u64,
    ) -> Result<Result<Option<String>, String>, Error> {
        const SHORTER: &str = "it became shorter while being copied; copy it again";
        let is_sparse = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512) < size_bytes;
        // A file system that reports no block at all may know no holes: zeros are looked for.
        let looks_for_zeros = stat.st_blocks == 0;
        let mut at = 0;
        let mut buffer = Vec::new();
        while at < size_bytes {
            let mut end = size_bytes;
            if is_sparse && !looks_for_zeros {
                match fs::seek(file, SeekFrom::Data(at)) {
                    Ok(data) => at = data.max(at),
                    // Only a hole is left.
                    Err(Errno::NXIO) => break,
                    Err(_) => {}
                }
                if let Ok(hole) = fs::seek(file, SeekFrom::Hole(at)) {
                    end = hole.min(size_bytes);
                }
            }
            while at < end {
                let left = usize::try_from(end - at).unwrap_or(usize::MAX);
                let is_copied = looks_for_zeros || left < COPIED_BYTES;
                let most = if is_copied { COPIED_BYTES } else { MOST_DATA_BYTES };
                let length = left.min(most);
                let announced =
                    ToReceiver::Data { offset: at, length: u32::try_from(length).unwrap_or(0) };
                if is_copied {
                    buffer.resize(length, 0);
                    match file.read_exact_at(&mut buffer, at) {
                        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                            return Ok(Err(SHORTER.into()));
                        }
                        Err(error) => return Ok(Err(gush_text::os_text(&error).to_string())),
                        Ok(()) => {}
                    }
                    if !looks_for_zeros || buffer.iter().any(|&byte| byte != 0) {
                        self.wait_for_allowance(length as u64);
                        self.output.record(&announced)?;
                        self.output.data(&buffer)?;
                    }
                } else {
                    self.output.record(&announced)?;
                    let limit = self.options.moving.limit.as_ref();
                    match self.output.data_from(file, at, length, limit)? {
                        Ok(bytes) if bytes == length as u64 => {}
                        Ok(_) => return Ok(Err(SHORTER.into())),
                        Err(error) => return Ok(Err(error.to_string())),
                    }
                }
                at += length as u64;
            }
        }
        // Files of /proc have content and no size.
        if size_bytes == 0 && matches!(file.read_at(&mut [0], 0), Ok(1)) {
            return Ok(Err("its size is 0, and it has content".into()));
        }
        if !self.options.verify {
            return Ok(Ok(None));
        }
        // The search for holes has moved the position that the hash starts from.
        if let Err(errno) = fs::seek(file, SeekFrom::Start(0)) {
            return Ok(Err(gush_text::errno_text(errno).to_string()));
        }
        Ok(gush::digest_of(file).map(|digest| Some(digest.to_string())).map_err(|e| e.to_string()))
    }

    fn wait_for_allowance(&self, bytes: u64) {
        let Some(limit) = &self.options.moving.limit else { return };
        while let Err(pause) = limit.allowance() {
            limit.begin_sleep();
            thread::sleep(pause);
        }
        limit.spend(bytes);
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
        let name = match std::mem::replace(&mut self.is_root, false) {
            true => self.root_name,
            false => path.file_name().unwrap_or(self.root_name),
        };
        let portrait = self.sender.portrait(dir, stat, path).unwrap_or_else(|error| {
            self.sender.fails(error);
            // Mode, owner and times are known; no attribute is read.
            let mut ignore = |_| {};
            Portrait::of(dir.as_fd(), stat, &Preserve::default(), path, &mut ignore)
                .unwrap_or_default()
        });
        let name = name.as_bytes().to_vec();
        let sent = self.sender.number(path, Action::Directory, None).and_then(|id| {
            let mut record = ToReceiver::Enter { id, name, portrait };
            if !self.sender.output.record(&record)? {
                self.sender.refuses(path, TOO_MANY_ATTRIBUTES)?;
                // Its entries are copied all the same.
                if let ToReceiver::Enter { portrait, .. } = &mut record {
                    portrait.attributes.clear();
                }
                self.sender.output.record(&record)?;
            }
            self.sender.depth += 1;
            Ok(())
        });
        self.goes_on(sent, path)
    }

    fn finds(
        &mut self,
        dir: &Arc<OwnedFd>,
        name: &OsStr,
        stat: &Stat,
        path: &Path,
    ) -> Result<(), gush_tree::Error> {
        let sent = self.sender.entry(dir, name, name, stat, path);
        self.goes_on(sent, path)
    }

    fn leaves(&mut self) -> Result<(), gush_tree::Error> {
        let sent = self.sender.output.record(&ToReceiver::Leave).map(drop);
        self.sender.depth -= 1;
        self.goes_on(sent, Path::new(""))
    }

    fn fails(&mut self, error: gush_tree::Error) -> Result<(), gush_tree::Error> {
        self.sender.fails(error);
        Ok(())
    }
}
