//! A way as a case: measured in a process of its own, counted once, verified once.

use std::cell::{Cell, OnceCell};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use gush::{Advice, Space};

use super::files::{self, Files, SourceFile};
use super::once::{ADVICE, SPACE, name_of};
use super::ways::{Buffer, By, Way};
use super::{SUITE, cold, printed, published};
use crate::case::Case;
use crate::count::{self, Calls, Count};
use crate::model::{Described, Measured};
use crate::probe::Probe;
use crate::{Error, once};

/// A copy to be measured: everything but the place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct What {
    pub way: &'static Way,
    /// The file's size in bytes.
    pub size_bytes: u64,
    /// Read-ahead advice for the source.
    pub advice: Advice,
    /// The target's space.
    pub space: Space,
    /// The source is out of the page cache.
    pub cold: bool,
}

impl What {
    pub fn plain(way: &'static Way, size_bytes: u64) -> Self {
        let (advice, space) = (Advice::default(), Space::default());
        Self { way, size_bytes, advice, space, cold: false }
    }

    /// The case's name: the way, the advice or space, the size.
    pub fn name(&self) -> String {
        let mut name = self.way.name.to_owned();
        if self.advice != Advice::None {
            name = name + "+" + name_of(ADVICE, &self.advice);
        }
        if self.space != Space::AsWritten {
            name = name + "+" + name_of(SPACE, &self.space);
        }
        if self.cold {
            name += "+cold";
        }
        name + "@" + &gush_text::typed_bytes(self.size_bytes)
    }

    /// Whether `asked` names this case: by name, by way, or by method.
    pub fn is_called(&self, asked: &str) -> bool {
        [self.way.name, self.way.method].contains(&asked)
            || self.name() == asked
            || self.name().rsplit_once('@').is_some_and(|(name, _)| name == asked)
    }

    /// The textbook's loop over 128 KiB is the baseline, with the source in the same cache state.
    fn described(self, files: &Files) -> Described {
        let Self { way, size_bytes, advice, space, cold } = self;
        let plain = What { cold, ..What::plain(&BASELINE, size_bytes) };
        let does = match way.buffer_bytes() {
            Some(bytes) => format!("{}, {}", way.method, gush_text::typed_bytes(bytes as u64)),
            None => way.method.to_owned(),
        };
        let [file_system, device] = files.scratch.file_system();
        Described::new(SUITE.name, &self.name())
            .does(does)
            .group(if cold { "The source out of the cache" } else { "The source in the cache" })
            .against(plain.name())
            .with("way", way.name)
            .with("size_bytes", size_bytes)
            .with("advice", name_of(ADVICE, &advice))
            .with("space", name_of(SPACE, &space))
            .with("cold", cold)
            .with("file_system", file_system)
            .with("device", device)
    }

    /// The arguments after `gush lab once`.
    pub(super) fn words(self, source: &Path, target: &Path) -> Vec<OsString> {
        let Self { way, advice, space, cold, .. } = self;
        let mut words: Vec<OsString> = vec![SUITE.name.into(), "--way".into(), way.name.into()];
        if advice != Advice::None {
            words.extend(["--advice".into(), name_of(ADVICE, &advice).into()]);
        }
        if space != Space::AsWritten {
            words.extend(["--space".into(), name_of(SPACE, &space).into()]);
        }
        if cold {
            words.push("--cold".into());
        }
        words.extend([source.into(), target.into()]);
        words
    }
}

/// The way that the others are measured against.
pub(super) const BASELINE: Way = Way {
    name: "read-write-128K",
    method: "read-write",
    by: By::Engine(gush::MethodName::ReadWrite),
    buffer: Buffer::Bytes(128 << 10),
};

pub(super) struct Copying {
    what: What,
    described: Described,
    program: PathBuf,
    files: Rc<Files>,
    counts: bool,
    counted: OnceCell<Count>,
    verified: Cell<bool>,
}

impl Copying {
    pub(super) fn new(what: What, program: PathBuf, files: Rc<Files>, counts: bool) -> Self {
        let (counted, verified) = (OnceCell::new(), Cell::new(false));
        let described = what.described(&files);
        Self { what, described, program, files, counts, counted, verified }
    }

    /// Once a case, every byte of the copy is compared.
    fn verify(&self, source: &SourceFile) -> Result<(), Error> {
        // Once a case: reading the copy would warm caches before every measurement.
        if self.verified.get() {
            return Ok(());
        }
        let copy = File::open(self.files.target())
            .map_err(|error| Error::failed("cannot open the copy to verify it", error))?;
        if files::digest(&copy)? != source.digest {
            return Err(Error::refused("the copy differs from its source"));
        }
        self.verified.set(true);
        Ok(())
    }
}

impl Case for Copying {
    fn described(&self) -> &Described {
        &self.described
    }

    /// Makes the source, and counts the calls: a traced copy is not measured.
    fn prepare(&self, probe: &Probe) -> Result<(), Error> {
        let source = self.files.source(self.what.size_bytes)?;
        if !self.counts {
            return Ok(());
        }
        // The cache changes no call.
        let what = What { cold: false, ..self.what };
        let counted = self.files.counted(&what.name(), || {
            let target = self.files.target();
            let words = what.words(&source.path, &target);
            let processor = probe.processors.map(|[first, _]| first);
            count::of(&self.program, &words, &source.path, &target, processor)
        });
        // A target that is there would be replaced, which is another measurement.
        self.files.remove_target();
        // Set once: a case is prepared once.
        let _ = self.counted.set(counted?);
        Ok(())
    }

    fn measure(&self, probe: &Probe) -> Result<Measured, Error> {
        let source = self.files.source(self.what.size_bytes)?;
        if !self.what.cold {
            let file = File::open(&source.path)
                .map_err(|error| Error::failed("cannot open the source", error))?;
            // Before each copy: the one before, or somebody else, may have pushed pages out.
            cold::bring_into_cache(&file, self.what.size_bytes)?;
        }
        // The engine's own choice may be to use several processors.
        let pinned = self.what.way.by != By::Auto;
        let processor = probe.processors.map(|[first, _]| first).filter(|_| pinned);
        let words = self.what.words(&source.path, &self.files.target());
        let measured = once::run(&self.program, &words, processor)?;
        self.verify(&source)?;
        let published = published(self.what.way.name, self.what.size_bytes);
        Ok(match self.counted.get() {
            Some(count) => measured
                .with("syscalls", numbers(&count.as_c_program))
                .with("syscalls_published", published.as_ref().map(numbers))
                .with("syscalls_printed", printed(self.what.way.name, self.what.size_bytes))
                .with("syscalls_in_all", numbers(&count.in_all)),
            None => measured,
        })
    }

    /// The next copy begins without a target, as every other does.
    fn tidy(&self) {
        self.files.remove_target();
    }
}

fn numbers(calls: &Calls) -> serde_json::Value {
    calls
        .iter()
        .map(|(name, &count)| (name.clone(), count.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_with_other_bytes_is_out_and_the_next_begins_without_a_target() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Rc::new(Files::new(dir.path()).expect("files"));
        let what = What::plain(&BASELINE, 4096);
        let case = Copying::new(what, "gush".into(), Rc::clone(&files), false);
        let source = files.source(4096).expect("a source");
        std::fs::write(files.target(), [7; 4096]).expect("written");
        let refusal = case.verify(&source).expect_err("other bytes").to_string();
        assert_eq!(refusal, "the copy differs from its source");
        std::fs::copy(&source.path, files.target()).expect("copied");
        case.verify(&source).expect("the same bytes");
        case.tidy();
        assert!(!files.target().exists());
    }
}
