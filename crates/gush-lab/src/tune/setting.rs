//! The settings of a rule: one answer to the question how to move.

use std::fmt::{self, Write as _};

use gush::{MethodName, Profile};

use super::question::Question;
use crate::Error;
use crate::sizes;

/// A method with sizes; absent values are left to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The method that comes first.
    pub method: MethodName,
    /// Bytes of the buffer.
    pub buffer_bytes: Option<usize>,
    /// Bytes of the pipes on the way.
    pub pipe_bytes: Option<usize>,
    /// Threads for one file.
    pub threads: Option<usize>,
    /// Microseconds of spinning before sleeping.
    pub spin_us: Option<u64>,
}

impl Setting {
    pub(super) const fn of(method: MethodName) -> Self {
        Self { method, buffer_bytes: None, pipe_bytes: None, threads: None, spin_us: None }
    }

    pub(super) const fn buffer(self, bytes: usize) -> Self {
        Self { buffer_bytes: Some(bytes), ..self }
    }

    pub(super) const fn pipe(self, bytes: usize) -> Self {
        Self { pipe_bytes: Some(bytes), ..self }
    }

    pub(super) const fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    pub(super) const fn spin(self, spin_us: u64) -> Self {
        Self { spin_us: Some(spin_us), ..self }
    }

    /// The lines of a rule for this setting.
    pub(super) fn lines(&self) -> String {
        let mut lines = format!("methods = [{:?}]\n", self.method.as_str());
        let sizes = [
            ("buffer_bytes", self.buffer_bytes.map(|bytes| bytes as u64)),
            ("pipe_bytes", self.pipe_bytes.map(|bytes| bytes as u64)),
            ("threads", self.threads.map(|threads| threads as u64)),
            ("spin_us", self.spin_us),
        ];
        for (name, value) in sizes.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
        {
            // Writing into a `String` cannot fail, here and below.
            let _ = writeln!(lines, "{name} = {value}");
        }
        lines
    }

    /// A profile of this one rule, so that the measured move is the move under a profile.
    ///
    /// # Errors
    /// A sentence, if the engine refuses the text written here.
    pub(super) fn alone(&self, question: &Question) -> Result<Profile, Error> {
        let text = super::text::of_rules(&(question.lines() + &self.lines()));
        read(&text)
    }
}

/// Reads a profile of our own; the engine must have no complaint about that profile.
pub(super) fn read(text: &str) -> Result<Profile, Error> {
    let profile: Profile = text.parse().map_err(|error| Error::refused(format!("{error}")))?;
    match profile.notes() {
        [] => Ok(profile),
        notes => Err(Error::refused(notes.join("; "))),
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.method.to_string();
        let size = |what: &str, bytes: Option<usize>| {
            bytes.map_or(String::new(), |bytes| format!(" {what} {}", sizes::exact(bytes as u64)))
        };
        text += &size("buffer", self.buffer_bytes);
        text += &size("pipe", self.pipe_bytes);
        if let Some(threads) = self.threads {
            let _ = write!(text, " threads {threads}");
        }
        if let Some(spin_us) = self.spin_us {
            let _ = write!(text, " spin {spin_us} us");
        }
        f.pad(&text)
    }
}
