//! The evidence for a writer's soundness: the hostile reader (`pipe/hold.rs`) keeps pieces by
//! reference, lets the writer continue, and then checks them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::climb::{connected, said};
use crate::Error;
use crate::probe::Probe;

/// Enough for several holds of all that a private pipe takes.
const BYTES: &str = "24M";
/// The beginning of the reader's message about a changed byte.
const CORRUPTED: &str = "corrupted: byte ";

/// The finding of the hostile reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Whether the written bytes arrive unchanged with any reader; none where neither was shown.
    pub(super) sound: Option<bool>,
    /// The observation.
    pub(super) finding: String,
}

/// The hostile reader, who looks at each writer once.
#[derive(Debug)]
pub(super) struct Hostile {
    program: PathBuf,
    known: RefCell<BTreeMap<Vec<&'static str>, Evidence>>,
}

impl Hostile {
    pub(super) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), known: RefCell::default() }
    }

    /// The evidence about a writer with these options, whose soundness is promised or denied.
    pub(super) fn evidence(
        &self,
        write: &'static [&'static str],
        promises: bool,
        probe: &Probe,
    ) -> Result<Evidence, Error> {
        // Memory that was never touched has nothing to be recognized by: the same buffers, touched.
        let write: Vec<&'static str> =
            write.iter().copied().filter(|word| *word != "--dont-touch-pages").collect();
        // Steps with the same writer share the finding.
        if let Some(known) = self.known.borrow().get(&write) {
            return Ok(known.clone());
        }
        let found = self.look(&write, promises, probe)?;
        self.known.borrow_mut().insert(write, found.clone());
        Ok(found)
    }

    fn look(
        &self,
        write: &[&'static str],
        promises: bool,
        probe: &Probe,
    ) -> Result<Evidence, Error> {
        // A reservoir has constant data only.
        let pattern = if write.contains(&"reservoir") { "constant" } else { "counter" };
        let mut writer = Command::new(&self.program);
        writer.args(["pipe", "write"]).args(write).args(["--quiet", "--pattern", pattern]);
        let mut reader = Command::new(&self.program);
        reader.args(["pipe", "read", "--hold", "--quiet", "--pattern", pattern, "--bytes", BYTES]);
        reader.stdout(Stdio::null());
        let (_, reading) = connected(writer, reader, probe)?;
        let finding = said(&reading);
        if reading.status.success() {
            let sound = promises.then_some(true);
            return Ok(Evidence {
                sound,
                finding: format!("{BYTES}B held by reference: unchanged"),
            });
        }
        // Any other failure says nothing about soundness.
        let sound = finding.contains(CORRUPTED).then_some(false);
        Ok(Evidence { sound, finding })
    }
}
