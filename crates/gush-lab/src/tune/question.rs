//! The questions: how to move so many bytes from one kind of end to another.

use std::fmt;
use std::time::Duration;

use gush::{Kernel, MethodName};

use super::setting::Setting;
use super::trial_dir::TrialDir;

/// One end of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    File(TrialDir),
    Pipe,
    /// TCP over the loopback.
    Socket,
}

impl EndKind {
    pub(super) fn name(&self) -> &'static str {
        match self {
            EndKind::File(_) => "file",
            EndKind::Pipe => "pipe",
            EndKind::Socket => "socket",
        }
    }

    pub(super) fn trial_dir(&self) -> Option<&TrialDir> {
        match self {
            EndKind::File(dir) => Some(dir),
            EndKind::Pipe | EndKind::Socket => None,
        }
    }
}

impl fmt::Display for EndKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndKind::File(dir) => write!(f, "file on {}", dir.file_system),
            end => f.write_str(end.name()),
        }
    }
}

/// How to move `bytes` from `source`, in the page cache, to `target`, a new file?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) source: EndKind,
    pub(super) target: EndKind,
    pub(super) bytes: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Where a move begins to take long, and very long.
const FEW: u64 = 32 * MIB;
const MANY: u64 = 128 * MIB;

/// Above 16 MiB the engine may use several threads.
const FILE_TO_FILE: &[u64] = &[16 * KIB, 256 * KIB, 4 * MIB, 48 * MIB, 256 * MIB];
const ACROSS: &[u64] = &[16 * KIB, 4 * MIB, 64 * MIB];
const FILE_TO_STREAM: &[u64] = &[64 * KIB, 32 * MIB];
const STREAM: &[u64] = &[48 * MIB];

/// All questions for these places; short questions first, so that running out of time costs least.
pub(super) fn all(dirs: &[TrialDir]) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |source: &EndKind, target: &EndKind, sizes: &[u64]| {
        let room = |end: &EndKind| end.trial_dir().map_or(u64::MAX, |dir| dir.room_bytes);
        let most = room(source).min(room(target));
        questions.extend(sizes.iter().filter(|bytes| **bytes <= most).map(|&bytes| Question {
            source: source.clone(),
            target: target.clone(),
            bytes,
        }));
    };
    let files: Vec<EndKind> = dirs.iter().cloned().map(EndKind::File).collect();
    for file in &files {
        ask(file, file, FILE_TO_FILE);
    }
    if let [first, second, ..] = &files[..] {
        ask(first, second, ACROSS);
        ask(second, first, ACROSS);
    }
    for stream in [EndKind::Pipe, EndKind::Socket] {
        if let Some(file) = files.first() {
            ask(file, &stream, FILE_TO_STREAM);
            ask(&stream, file, STREAM);
        }
        ask(&stream, &EndKind::Pipe, STREAM);
        ask(&stream, &EndKind::Socket, STREAM);
    }
    // Small ones first: where the time runs out, the long questions are missing.
    questions.sort_by_key(|question| question.bytes);
    questions
}

impl Question {
    /// Less would not do for a few moves of each of a dozen ways, at a good speed.
    pub(super) fn least_time(&self) -> Duration {
        const GOOD_BYTES_PER_S: f64 = 4e9;
        Duration::from_secs_f64(self.bytes as f64 / GOOD_BYTES_PER_S * 30.0)
    }

    /// The share of time in comparison with other questions.
    pub(super) fn weight(&self) -> u32 {
        match self.bytes {
            0..MIB => 1,
            MIB..FEW => 2,
            FEW..MANY => 5,
            MANY.. => 12,
        }
    }

    /// Are both sides on the same file system?
    fn same_device(&self) -> Option<bool> {
        Some(self.source.trial_dir()?.device == self.target.trial_dir()?.device)
    }

    /// The answers to try, apart from the plan's.
    pub(super) fn settings(&self) -> Vec<Setting> {
        use MethodName::{CopyFileRange, MmapWrite, ReadWrite, Sendfile, Splice, Vmsplice};
        const BUFFERS: [usize; 4] = [64 << 10, 128 << 10, 512 << 10, 1 << 20];
        const PIPES: [usize; 2] = [64 << 10, 256 << 10];
        let read_write = Setting::of(ReadWrite);
        // A buffer larger than the file is the same as one of its size.
        let fits = |buffer: &usize| (*buffer as u64) < self.bytes * 2;
        let buffers: Vec<_> = BUFFERS.into_iter().filter(fits).collect();
        let mut settings = vec![read_write];
        settings.extend(buffers.iter().map(|&bytes| read_write.buffer(bytes)));
        match (&self.source, &self.target) {
            (EndKind::File(_), EndKind::File(_)) => {
                settings.extend([Sendfile, Splice, MmapWrite].map(Setting::of));
                if self.same_device() == Some(true) {
                    settings.push(Setting::of(CopyFileRange));
                }
                if self.bytes >= 16 * MIB {
                    let one = read_write.threads(1);
                    settings.extend([one, one.buffer(1 << 20)]);
                    settings
                        .push(Setting::of(MmapWrite).threads(Kernel::get().processors().min(4)));
                    if Kernel::get().processors() > 2 {
                        settings.push(read_write.threads(2));
                    }
                }
            }
            (EndKind::File(_), target) => {
                settings.extend([Sendfile, Splice, MmapWrite].map(Setting::of));
                settings.extend(PIPES.map(|bytes| Setting::of(Splice).pipe(bytes)));
                if *target == EndKind::Pipe {
                    settings.push(Setting::of(Vmsplice));
                }
            }
            _ => {
                settings.push(Setting::of(Splice));
                settings.extend(PIPES.map(|bytes| Setting::of(Splice).pipe(bytes)));
            }
        }
        settings
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = gush_text::exact_bytes(self.bytes);
        f.pad(&format!("{} to {}, {size}", self.source, self.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_room_is_asked_less() {
        let on = |dir: &str, file_system: &str, device| TrialDir {
            dir: dir.into(),
            file_system: file_system.into(),
            device,
            room_bytes: u64::MAX,
        };
        let dirs = vec![on("/a", "ext4", 1), on("/b", "tmpfs", 2)];
        let mut cramped = dirs.clone();
        cramped[0].room_bytes = MIB;
        assert!(all(&cramped).len() < all(&dirs).len());
        let on_first = |question: &Question| question.source.trial_dir() == Some(&cramped[0]);
        assert!(all(&cramped).iter().filter(|q| on_first(q)).all(|q| q.bytes <= MIB));
    }
}
