//! The questions: how to move so many bytes from one kind of end to another.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use gush::{Kernel, MethodName, Tuning};

use super::super::matrix::{Kind, Workshop, kind_in};
use super::Setting;
use crate::Error;
use crate::probe::available_memory_bytes;
use crate::scratch::cannot_make;

/// Shared memory is a tmpfs on every distribution (shm_overview(7)).
const SHARED_MEMORY: &str = "/dev/shm";

/// A directory for files.
#[derive(Clone, Debug)]
pub(super) struct Place {
    kind: Kind,
    dir: PathBuf,
    /// The largest file to be made there, in bytes: a part of the free room.
    room_bytes: u64,
}

impl Place {
    /// Looks at a directory by making a nameless file in it.
    fn look(dir: &Path) -> Result<Self, Error> {
        let file = tempfile::tempfile_in(dir).map_err(|error| cannot_make(dir, &error))?;
        let space = rustix::fs::fstatvfs(&file)
            .map_err(|errno| Error::failed(format!("cannot measure '{}'", dir.display()), errno))?;
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        let room_bytes = (free_bytes / 4).min(available_memory_bytes() / 8);
        Ok(Self { kind: kind_in(dir), dir: dir.to_owned(), room_bytes })
    }

    /// Looks at `dirs` and at shared memory.
    pub(super) fn all(dirs: &[PathBuf]) -> Result<Vec<Self>, Error> {
        let mut all: Vec<Self> = Vec::new();
        for dir in dirs {
            let place = Self::look(dir)?;
            if let Some(other) = all.iter().find(|other| other.kind == place.kind) {
                return Err(Error::refused(format!(
                    "{} and {} are on file systems of one kind ({}): measure one at a time",
                    other.dir.display(),
                    dir.display(),
                    place.kind
                )));
            }
            all.push(place);
        }
        // Nobody asked for it: where it is missing, its questions are.
        let shared = Self::look(Path::new(SHARED_MEMORY)).ok();
        all.extend(shared.filter(|shared| all.iter().all(|other| other.kind != shared.kind)));
        Ok(all)
    }
}

/// How to move `bytes` from `source`, in the page cache, to `target`, a new file?
#[derive(Debug)]
pub(super) struct Question {
    pub(super) source: Kind,
    pub(super) target: Kind,
    pub(super) bytes: u64,
    /// The question's own, as a workshop keeps one source of each kind.
    pub(super) workshop: RefCell<Workshop>,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Above 16 MiB the engine may use several threads.
const FILE_TO_FILE: &[u64] = &[16 * KIB, 256 * KIB, 4 * MIB, 48 * MIB];
const ACROSS: &[u64] = &[16 * KIB, 4 * MIB, 48 * MIB];
const FILE_TO_STREAM: &[u64] = &[MIB, 32 * MIB];
const STREAM: &[u64] = &[48 * MIB];

/// All questions for these places.
pub(super) fn all(places: &[Place]) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |source: Kind, target: Kind, sizes: &[u64]| {
        let is_end = |place: &&Place| [source, target].contains(&place.kind);
        let most = places.iter().filter(is_end).map(|place| place.room_bytes).min();
        let dirs = || places.iter().map(|place| (place.kind, place.dir.clone())).collect();
        let fits = |bytes: &&u64| most.is_none_or(|most| **bytes <= most);
        questions.extend(sizes.iter().filter(fits).map(|&bytes| {
            let workshop = RefCell::new(Workshop::new(dirs()));
            Question { source, target, bytes, workshop }
        }));
    };
    for place in places {
        ask(place.kind, place.kind, FILE_TO_FILE);
    }
    if let [first, second, ..] = places {
        ask(first.kind, second.kind, ACROSS);
        ask(second.kind, first.kind, ACROSS);
    }
    for stream in [Kind::Pipe, Kind::Tcp] {
        if let Some(file) = places.first() {
            ask(file.kind, stream, FILE_TO_STREAM);
            ask(stream, file.kind, STREAM);
        }
        ask(stream, Kind::Pipe, STREAM);
        ask(stream, Kind::Tcp, STREAM);
    }
    questions
}

impl Question {
    /// The name of the move: `ext4:pipe@32M`.
    pub(super) fn name(&self) -> String {
        format!("{}:{}@{}", self.source, self.target, gush_text::typed_bytes(self.bytes))
    }

    pub(super) fn is_between_files(&self) -> bool {
        [self.source, self.target].iter().all(|end| end.is_in(Kind::FILES))
    }

    /// The answers to try, apart from the plan's.
    pub(super) fn settings(&self) -> Vec<Setting> {
        use MethodName::{CopyFileRange, MmapWrite, ReadWrite, Sendfile, Splice, Vmsplice};
        const BUFFERS: [usize; 4] = [64 << 10, 128 << 10, 512 << 10, 1 << 20];
        const PIPES: [usize; 2] = [64 << 10, 256 << 10];
        let read_write = || Setting::of(ReadWrite);
        let buffered = |buffer| move |tuning: Tuning| tuning.buffer_bytes(buffer);
        // A buffer larger than the file is the same as one of its size.
        let fits = |buffer: &usize| (*buffer as u64) < self.bytes * 2;
        let buffers = BUFFERS.into_iter().filter(fits);
        let mut settings = vec![read_write()];
        settings.extend(buffers.map(|bytes| read_write().tuned(buffered(bytes))));
        settings.push(Setting::of(Splice));
        if self.source.is_in(Kind::FILES) {
            settings.extend([Sendfile, MmapWrite].map(Setting::of));
        }
        if !self.is_between_files() {
            let piped = |bytes| Setting::of(Splice).tuned(|tuning| tuning.pipe_bytes(bytes));
            settings.extend(PIPES.map(piped));
            if self.source.is_in(Kind::FILES) && self.target == Kind::Pipe {
                settings.push(Setting::of(Vmsplice));
            }
            return settings;
        }
        if self.source == self.target {
            settings.push(Setting::of(CopyFileRange));
        }
        if self.bytes >= 16 * MIB {
            let one = || read_write().threads(1);
            settings.extend([one(), one().tuned(buffered(1 << 20))]);
            let processors = Kernel::get().processors();
            settings.push(Setting::of(MmapWrite).threads(processors.min(4)));
            if processors > 2 {
                settings.push(read_write().threads(2));
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_room_is_asked_less() {
        let on = |kind, room_bytes| Place { kind, dir: "/nowhere".into(), room_bytes };
        let names = |ext4_bytes| -> Vec<String> {
            let places = [on(Kind::Ext4, ext4_bytes), on(Kind::Tmpfs, u64::MAX)];
            all(&places).iter().map(Question::name).collect()
        };
        let (whole, cramped) = (names(u64::MAX), names(MIB));
        assert!(whole.contains(&"ext4:tmpfs@48M".to_owned()));
        let missing: Vec<_> = whole.iter().filter(|name| !cramped.contains(name)).collect();
        assert!(missing.len() > 4 && missing.iter().all(|name| name.contains("ext4")));
        assert!(cramped.contains(&"ext4:ext4@256K".to_owned()));
    }
}
