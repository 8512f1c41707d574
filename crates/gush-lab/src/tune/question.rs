//! The questions: how to move so many bytes from one kind of end to another.

use std::fmt;
use std::time::Duration;

use gush::{Kernel, MethodName};

use super::setting::Setting;
use super::trial_dir::TrialDir;
use crate::sizes;

/// One end of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    File(TrialDir),
    Pipe,
    /// TCP over the loopback.
    Socket,
}

impl EndKind {
    /// The name in profiles.
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

/// Circumstances beside the ends and the size. A profile has no condition for them, so that a rule must do no harm in any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Circumstance {
    /// The source is in the page cache, the target a new file; a stream is fed as fast as the reader empties the stream.
    Usual,
    /// Nothing of the source is in the page cache.
    ColdSource,
    /// The target has content, which is written over.
    ExistingTarget,
    /// The stream comes in small pieces with pauses, so that only processor time differs.
    Trickle,
}

/// How to move `bytes` from `source` to `target`? The answer holds for a class of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) source: EndKind,
    pub(super) target: EndKind,
    /// The size measured.
    pub(super) bytes: u64,
    /// The class of sizes that the answer is for.
    pub(super) at_least_bytes: u64,
    pub(super) below_bytes: Option<u64>,
    pub(super) circumstance: Circumstance,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Where a move begins to take long, and very long.
const FEW: u64 = 32 * MIB;
const MANY: u64 = 128 * MIB;

/// The smallest size that is measured.
const LEAST: u64 = 4 * KIB;
/// The bytes of a trickle.
const TRICKLE: u64 = 128 * KIB;

/// Size measured, and the class of sizes around that.
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

/// All questions for these places; short questions first, so that running out of time costs least.
pub(super) fn all(dirs: &[TrialDir]) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |source: &EndKind, target: &EndKind, classes: &[Class]| {
        for &(bytes, at_least_bytes, below_bytes) in classes {
            let room = |end: &EndKind| end.trial_dir().map_or(u64::MAX, |dir| dir.room_bytes);
            if bytes <= room(source).min(room(target)) {
                let (source, target) = (source.clone(), target.clone());
                let circumstance = Circumstance::Usual;
                questions.push(Question {
                    source,
                    target,
                    bytes,
                    at_least_bytes,
                    below_bytes,
                    circumstance,
                });
            }
        }
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

    /// The same question at the ends of the class, and in other circumstances: the answer for the size measured need not hold there.
    /// The upper end is left out where the move would take long.
    pub(super) fn ends(&self) -> Vec<Self> {
        const MOST: u64 = 16 * MIB;
        let Some(source) = self.source.trial_dir() else {
            return vec![Self {
                bytes: TRICKLE,
                circumstance: Circumstance::Trickle,
                ..self.clone()
            }];
        };
        let lower = Some(self.at_least_bytes.max(LEAST));
        let upper = self.below_bytes.filter(|below| *below <= MOST).map(|below| below - 1);
        let sizes = [lower, upper].into_iter().flatten().filter(|bytes| *bytes != self.bytes);
        let at = |bytes: u64| Self { bytes, ..self.clone() };
        // What is on a tmpfs is in memory always.
        let cold = (source.file_system != "tmpfs").then_some(Circumstance::ColdSource);
        let existing = self.target.trial_dir().map(|_| Circumstance::ExistingTarget);
        let circumstances = [cold, existing].into_iter().flatten();
        let under = |circumstance| Self { circumstance, ..self.clone() };
        sizes.map(at).chain(circumstances.map(under)).collect()
    }

    /// The class that was measured: from the lower end to the upper one, or to the size measured where the upper end was left
    /// out. About streams nobody knows a size.
    pub(super) fn measured(&self) -> Self {
        if self.source.trial_dir().is_none() {
            return self.clone();
        }
        let sizes = || self.ends().into_iter().chain([self.clone()]).map(|end| end.bytes);
        let (least, most) = (sizes().min(), sizes().max());
        Self {
            at_least_bytes: least.unwrap_or(self.bytes),
            // Nothing is claimed beyond the sizes that were measured.
            below_bytes: Some(most.unwrap_or(self.bytes) + 1),
            ..self.clone()
        }
    }

    /// The class from the size measured on, away from an end where the answer might do harm; none if the harm is done in other
    /// circumstances, which no rule can ask about.
    pub(super) fn without(&self, end: &Self) -> Option<Self> {
        let mut narrower = self.clone();
        match end.bytes {
            _ if end.circumstance != Circumstance::Usual => return None,
            bytes if bytes < self.bytes => narrower.at_least_bytes = self.bytes,
            _ => narrower.below_bytes = Some(self.bytes + 1),
        }
        Some(narrower)
    }

    /// Was the class cut at both ends?
    pub(super) fn is_one_size(&self) -> bool {
        self.at_least_bytes == self.bytes && self.below_bytes == Some(self.bytes + 1)
    }

    /// Are both sides on the same file system?
    fn same_device(&self) -> Option<bool> {
        Some(self.source.trial_dir()?.device == self.target.trial_dir()?.device)
    }

    /// The lines of a rule that name the question's conditions.
    pub(super) fn lines(&self) -> String {
        let mut lines = format!(
            "[[rule]]\nsource = {:?}\ntarget = {:?}\n",
            self.source.name(),
            self.target.name()
        );
        // Only between files does the file system matter so much that it must be named.
        if let (Some(source), Some(target)) = (self.source.trial_dir(), self.target.trial_dir()) {
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

    /// The answers tried beside the table's own.
    pub(super) fn settings(&self) -> Vec<Setting> {
        use MethodName::{CopyFileRange, MmapWrite, ReadWrite, Sendfile, Splice, Vmsplice};
        const BUFFERS: [usize; 4] = [64 << 10, 128 << 10, 512 << 10, 1 << 20];
        const PIPES: [usize; 2] = [64 << 10, 256 << 10];
        const SPINS_US: [u64; 2] = [20, 50];
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
                settings.extend(SPINS_US.map(|spin_us| Setting::of(Splice).spin(spin_us)));
                settings.push(read_write.spin(SPINS_US[0]));
            }
        }
        settings
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let circumstance = match self.circumstance {
            Circumstance::Usual => "",
            Circumstance::ColdSource => ", from a cold source",
            Circumstance::ExistingTarget => ", over content",
            Circumstance::Trickle => ", a trickle",
        };
        let size = sizes::exact(self.bytes);
        f.pad(&format!("{} to {}, {size}{circumstance}", self.source, self.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::setting;

    fn dirs() -> Vec<TrialDir> {
        let on = |dir: &str, file_system, device| TrialDir {
            dir: dir.into(),
            file_system,
            device,
            room_bytes: u64::MAX,
        };
        vec![on("/a", "ext4", 1), on("/b", "tmpfs", 2)]
    }

    #[test]
    fn the_engine_takes_every_rule_that_can_be_written() {
        for question in all(&dirs()) {
            for setting in question.settings() {
                let text = crate::tune::text::of_rules(&(question.lines() + &setting.lines()));
                if let Err(why) = setting::read(&text) {
                    panic!("{question}, {setting}: {why}\n{text}");
                }
            }
        }
    }

    #[test]
    fn a_class_can_be_kept_away_from_either_end() {
        let classes = all(&dirs());
        let one = |question: &&Question| {
            question.at_least_bytes == MIB
                && question.source.trial_dir().is_some()
                && question.below_bytes.is_some()
        };
        let question = classes.iter().find(one).expect("such a class");
        let [lower, upper, cold, existing] = &question.ends()[..] else {
            panic!("{question}: ends")
        };
        assert_eq!((lower.bytes, upper.bytes), (MIB, 16 * MIB - 1));
        let narrowed = |end| question.measured().without(end).expect("a narrower class");
        let (above, below) = (narrowed(lower), narrowed(upper));
        assert_eq!((above.at_least_bytes, above.below_bytes), (4 * MIB, Some(16 * MIB)));
        assert_eq!((below.at_least_bytes, below.below_bytes), (MIB, Some(4 * MIB + 1)));
        let nothing = above.without(upper).expect("one size");
        assert!(nothing.is_one_size() && !above.is_one_size() && !below.is_one_size());
        assert!(
            (nothing.at_least_bytes..nothing.below_bytes.unwrap_or(0)).contains(&question.bytes)
        );
        assert_eq!([cold, existing].map(|end| question.without(end)), [None, None]);
    }

    #[test]
    fn no_rule_is_for_a_size_beyond_those_measured() {
        for question in all(&dirs()).iter().filter(|question| question.source.trial_dir().is_some())
        {
            let sizes =
                || question.ends().into_iter().chain([question.clone()]).map(|end| end.bytes);
            let rule = question.measured();
            assert_eq!(Some(rule.at_least_bytes), sizes().min(), "{question}");
            assert_eq!(rule.below_bytes, sizes().max().map(|most| most + 1), "{question}");
            assert!(rule.lines().contains("below_bytes = "), "{}", rule.lines());
        }
    }

    #[test]
    fn cold_sources_content_and_trickles_are_tried_too() {
        let circumstances = |wanted: fn(&Question) -> bool| -> Vec<Circumstance> {
            let all = all(&dirs());
            let question = all.iter().find(|question| wanted(question)).expect("such a question");
            let ends = question.ends().into_iter().map(|end| end.circumstance);
            ends.filter(|circumstance| *circumstance != Circumstance::Usual).collect()
        };
        use Circumstance::{ColdSource, ExistingTarget, Trickle};
        let to_pipe = |q: &Question| q.source.trial_dir().is_some() && q.target == EndKind::Pipe;
        assert_eq!(circumstances(to_pipe), [ColdSource]);
        assert_eq!(circumstances(|q| q.source == EndKind::Pipe), [Trickle]);
        let kept = |q: &Question| {
            [&q.source, &q.target]
                .iter()
                .all(|end| end.trial_dir().is_some_and(|at| at.file_system == "ext4"))
        };
        assert_eq!(circumstances(kept), [ColdSource, ExistingTarget]);
        let in_memory = |q: &Question| {
            [&q.source, &q.target]
                .iter()
                .all(|end| end.trial_dir().is_some_and(|at| at.file_system == "tmpfs"))
        };
        assert_eq!(circumstances(in_memory), [ExistingTarget]);
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
        let mut cramped = dirs();
        cramped[0].room_bytes = 1 << 20;
        assert!(all(&cramped).len() < all(&dirs()).len());
        let on_first = |question: &Question| question.source.trial_dir() == Some(&cramped[0]);
        assert!(all(&cramped).iter().filter(|q| on_first(q)).all(|q| q.bytes <= 1 << 20));
    }
}
