//! What is asked: how to move so many bytes from one kind of end to another.

use std::fmt;
use std::time::Duration;

use gush::{Kernel, MethodName};

use super::place::Place;
use super::setting::Setting;

/// One end of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    File(Place),
    Pipe,
    /// TCP over the loopback.
    Socket,
}

impl End {
    /// As profiles name it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            End::File(_) => "file",
            End::Pipe => "pipe",
            End::Socket => "socket",
        }
    }

    pub(super) fn place(&self) -> Option<&Place> {
        match self {
            End::File(place) => Some(place),
            End::Pipe | End::Socket => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::File(place) => write!(f, "file on {}", place.file_system),
            end => f.write_str(end.name()),
        }
    }
}

/// How to move `bytes` from `source` to `target`? The answer holds for a class of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) source: End,
    pub(super) target: End,
    /// What is measured.
    pub(super) bytes: u64,
    /// What the answer is for.
    pub(super) at_least_bytes: u64,
    pub(super) below_bytes: Option<u64>,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Where a move begins to take long, and very long.
const FEW: u64 = 32 * MIB;
const MANY: u64 = 128 * MIB;

/// The smallest size that is measured, and what parts two that differ.
const LEAST: u64 = 4 * KIB;

/// Size measured, and the class that it stands for.
type Class = (u64, u64, Option<u64>);

/// Above 16 MiB the engine may use several threads.
const FILE_TO_FILE: &[Class] = &[
    (16 * KIB, 0, Some(64 * KIB)),
    (256 * KIB, 64 * KIB, Some(MIB)),
    (4 * MIB, MIB, Some(16 * MIB)),
    (48 * MIB, 16 * MIB, Some(128 * MIB)),
    (256 * MIB, 128 * MIB, None),
];
const ACROSS: &[Class] = &[
    (16 * KIB, 0, Some(64 * KIB)),
    (4 * MIB, 64 * KIB, Some(16 * MIB)),
    (64 * MIB, 16 * MIB, None),
];
const FILE_TO_STREAM: &[Class] = &[(64 * KIB, 0, Some(MIB)), (32 * MIB, MIB, None)];
/// Of a stream nobody knows how much is coming.
const STREAM: &[Class] = &[(48 * MIB, 0, None)];

/// Everything that is asked here; what is short first, so that running out of time costs least.
pub(super) fn all(places: &[Place]) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |source: &End, target: &End, classes: &[Class]| {
        for &(bytes, at_least_bytes, below_bytes) in classes {
            let room = |end: &End| end.place().map_or(u64::MAX, |place| place.room_bytes);
            if bytes <= room(source).min(room(target)) {
                let (source, target) = (source.clone(), target.clone());
                questions.push(Question { source, target, bytes, at_least_bytes, below_bytes });
            }
        }
    };
    let files: Vec<End> = places.iter().cloned().map(End::File).collect();
    for file in &files {
        ask(file, file, FILE_TO_FILE);
    }
    if let [first, second, ..] = &files[..] {
        ask(first, second, ACROSS);
        ask(second, first, ACROSS);
    }
    for stream in [End::Pipe, End::Socket] {
        if let Some(file) = files.first() {
            ask(file, &stream, FILE_TO_STREAM);
            ask(&stream, file, STREAM);
        }
        ask(&stream, &End::Pipe, STREAM);
        ask(&stream, &End::Socket, STREAM);
    }
    questions.sort_by_key(|question| question.bytes);
    questions
}

impl Question {
    /// Less would not do for a few moves of each of a dozen ways, at a good speed.
    pub(super) fn least_time(&self) -> Duration {
        const GOOD_BYTES_PER_S: f64 = 4e9;
        Duration::from_secs_f64(self.bytes as f64 / GOOD_BYTES_PER_S * 30.0)
    }

    /// How much time it needs in comparison with others.
    pub(super) fn weight(&self) -> u32 {
        match self.bytes {
            0..MIB => 1,
            MIB..FEW => 2,
            FEW..MANY => 5,
            MANY.. => 12,
        }
    }

    /// The same at the ends of its class: what holds for the size measured need not hold there. The upper
    /// end is left out where it would take long.
    pub(super) fn ends(&self) -> Vec<Self> {
        const MOST: u64 = 16 * MIB;
        if self.source.place().is_none() {
            return Vec::new();
        }
        let lower = Some(self.at_least_bytes.max(LEAST));
        // One piece less than what the next class begins with.
        let upper = self.below_bytes.filter(|below| *below <= MOST).map(|below| below - LEAST);
        let at = |bytes: u64| Self { bytes, ..self.clone() };
        let ends = [lower, upper].into_iter().flatten();
        ends.filter(|bytes| *bytes != self.bytes).map(at).collect()
    }

    /// The class from the size measured on, away from an end where its answer might do harm.
    pub(super) fn without(&self, end: &Self) -> Self {
        let mut narrower = self.clone();
        if end.bytes < self.bytes {
            narrower.at_least_bytes = self.bytes;
        } else {
            narrower.below_bytes = Some(self.bytes + LEAST);
        }
        narrower
    }

    /// Was it kept away from both ends?
    pub(super) fn is_one_size(&self) -> bool {
        self.at_least_bytes == self.bytes && self.below_bytes == Some(self.bytes + LEAST)
    }

    /// Is it one file system on both sides?
    fn same_device(&self) -> Option<bool> {
        Some(self.source.place()?.device == self.target.place()?.device)
    }

    /// The lines of a rule that say what it is for.
    pub(super) fn lines(&self) -> String {
        let mut lines = format!(
            "[[rule]]\nsource = {:?}\ntarget = {:?}\n",
            self.source.name(),
            self.target.name()
        );
        // Only between files does the file system matter so much that it must be named.
        if let (Some(source), Some(target)) = (self.source.place(), self.target.place()) {
            lines += &format!(
                "source_file_system = {:?}\ntarget_file_system = {:?}\n",
                source.file_system, target.file_system
            );
        }
        if let Some(same) = self.same_device() {
            lines += &format!("same_device = {same}\n");
        }
        if self.at_least_bytes > 0 {
            lines += &format!("at_least_bytes = {}\n", self.at_least_bytes);
        }
        if let Some(below_bytes) = self.below_bytes {
            lines += &format!("below_bytes = {below_bytes}\n");
        }
        lines
    }

    /// The answers that are tried beside the table's own.
    pub(super) fn settings(&self) -> Vec<Setting> {
        use MethodName::{CopyFileRange, MmapWrite, ReadWrite, Sendfile, Splice, Vmsplice};
        const BUFFERS: [usize; 4] = [64 << 10, 128 << 10, 512 << 10, 1 << 20];
        const PIPES: [usize; 2] = [64 << 10, 256 << 10];
        const SPINS_US: [u64; 2] = [20, 50];
        let read_write = Setting::of(ReadWrite);
        let fits = |buffer: &usize| (*buffer as u64) < self.bytes * 2;
        let buffers: Vec<_> = BUFFERS.into_iter().filter(fits).collect();
        let mut settings = vec![read_write];
        settings.extend(buffers.iter().map(|&bytes| read_write.buffer(bytes)));
        match (&self.source, &self.target) {
            (End::File(_), End::File(_)) => {
                settings.extend([Sendfile, Splice, MmapWrite].map(Setting::of));
                if self.same_device() == Some(true) {
                    settings.push(Setting::of(CopyFileRange));
                }
                if self.at_least_bytes >= 16 << 20 {
                    let one = read_write.threads(1);
                    settings.extend([one, one.buffer(1 << 20)]);
                    settings
                        .push(Setting::of(MmapWrite).threads(Kernel::get().processors().min(4)));
                    if Kernel::get().processors() > 2 {
                        settings.push(read_write.threads(2));
                    }
                }
            }
            (End::File(_), target) => {
                settings.extend([Sendfile, Splice, MmapWrite].map(Setting::of));
                settings.extend(PIPES.map(|bytes| Setting::of(Splice).pipe(bytes)));
                if *target == End::Pipe {
                    settings.push(Setting::of(Vmsplice));
                }
            }
            _ => {
                settings.push(Setting::of(Splice));
                settings.extend(PIPES.map(|bytes| Setting::of(Splice).pipe(bytes)));
                settings.extend(SPINS_US.map(|spin_us| Setting::of(Splice).spin(spin_us)));
                settings.push(read_write.spin(SPINS_US[0]));
            }
        }
        settings
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} to {}, {}", self.source, self.target, super::size(self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::setting;

    fn places() -> Vec<Place> {
        let place = |dir: &str, file_system, device| Place {
            dir: dir.into(),
            file_system,
            device,
            room_bytes: u64::MAX,
        };
        vec![place("/a", "ext4", 1), place("/b", "tmpfs", 2)]
    }

    #[test]
    fn the_engine_takes_every_rule_that_can_be_written() {
        for question in all(&places()) {
            for setting in question.settings() {
                let text = crate::tune::text::of_rules(&(question.lines() + &setting.lines()));
                assert!(setting::read(&text).is_ok(), "{question}, {setting}:\n{text}");
            }
        }
    }

    #[test]
    fn a_class_can_be_kept_away_from_either_end() {
        let classes = all(&places());
        let one = |question: &&Question| {
            question.at_least_bytes == MIB
                && question.source.place().is_some()
                && question.below_bytes.is_some()
        };
        let question = classes.iter().find(one).expect("such a class");
        let [lower, upper] = &question.ends()[..] else { panic!("{question}: two ends") };
        assert_eq!((lower.bytes, upper.bytes), (MIB, 16 * MIB - 4 * KIB));
        let (above, below) = (question.without(lower), question.without(upper));
        assert_eq!((above.at_least_bytes, above.below_bytes), (4 * MIB, Some(16 * MIB)));
        assert_eq!((below.at_least_bytes, below.below_bytes), (MIB, Some(4 * MIB + 4 * KIB)));
        let nothing = question.without(lower).without(upper);
        assert!(nothing.is_one_size() && !above.is_one_size() && !below.is_one_size());
        assert!(
            (nothing.at_least_bytes..nothing.below_bytes.unwrap_or(0)).contains(&question.bytes)
        );
        let stream = classes.iter().find(|question| question.source == End::Pipe);
        assert!(stream.expect("a stream").ends().is_empty(), "nobody knows how much is coming");
    }

    #[test]
    fn classes_of_sizes_cover_everything_once() {
        for classes in [FILE_TO_FILE, ACROSS, FILE_TO_STREAM, STREAM] {
            let mut at_least = Some(0);
            for (bytes, from, below) in classes {
                assert_eq!(at_least, Some(*from));
                assert!(bytes >= from && below.is_none_or(|below| *bytes < below));
                at_least = *below;
            }
            assert_eq!(at_least, None);
        }
    }

    #[test]
    fn a_place_without_room_is_asked_less() {
        let mut cramped = places();
        cramped[0].room_bytes = 1 << 20;
        assert!(all(&cramped).len() < all(&places()).len());
        let on_first = |question: &Question| question.source.place() == Some(&cramped[0]);
        assert!(all(&cramped).iter().filter(|q| on_first(q)).all(|q| q.bytes <= 1 << 20));
    }
}
