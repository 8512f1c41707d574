//! The runs of the file: which there are, and the lines that have their parts. The index is in memory, built by
//! reading, and continued from where the reading ended.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::line::{Brief, Full, Head, Line};
use super::log::Log;
use super::{RunSummary, StoreError};
use crate::model::Run;

/// The bytes read at once, unless a line is longer.
const CHUNK_BYTES: usize = 1 << 20;
/// A longer line is none of ours: a whole run of an import is at most as long as the import.
const LONGEST_LINE_BYTES: usize = 1 << 30;

#[derive(Debug, Default)]
pub(super) struct Index {
    runs: HashMap<String, Known>,
    /// Up to where the file was read, and how many lines that was.
    read_bytes: u64,
    lines: u64,
}

#[derive(Debug)]
struct Known {
    started: Timestamp,
    /// The line with all but the samples, and of a whole run these, too.
    head: LineSpan,
    /// The lines with a sample.
    taken: Vec<LineSpan>,
    samples: u64,
    suites: BTreeSet<String>,
}

/// A line in the file.
#[derive(Clone, Copy, Debug)]
struct LineSpan {
    at: u64,
    bytes: usize,
    line: u64,
}

impl Known {
    fn new(started: Timestamp, head: LineSpan) -> Self {
        Self { started, head, taken: Vec::new(), samples: 0, suites: BTreeSet::new() }
    }

    fn count(&mut self, suite: &str) {
        self.samples += 1;
        if !self.suites.contains(suite) {
            self.suites.insert(suite.to_owned());
        }
    }
}

impl Index {
    /// Reads the lines that came since the last call. The caller holds no lock.
    pub fn catch_up(&mut self, log: &Log) -> Result<(), StoreError> {
        match self.read(log) {
            // A line that one writer gives up and another writes anew can be read half and half.
            Err(StoreError::Damaged { .. }) => {
                let _lock = log.lock_to_read()?;
                self.read(log)
            }
            other => other,
        }
    }

    /// The bytes of whole lines among those read so far.
    pub fn whole_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The runs without their samples, the oldest first.
    pub fn entries(&self, log: &Log) -> Result<Vec<RunSummary>, StoreError> {
        self.sorted()
            .into_iter()
            .map(|(_, Known { head, samples, suites, .. })| {
                let (Head::Begun(run) | Head::Ended(run) | Head::Whole { run, .. }) =
                    head.read(log)?
                else {
                    return Err(head.changed(log));
                };
                let suites = suites.iter().cloned().collect();
                Ok(RunSummary { run: *run, samples: *samples, suites })
            })
            .collect()
    }

    /// The ids of the runs, the oldest first.
    pub fn ids(&self) -> Vec<String> {
        self.sorted().into_iter().map(|(id, _)| id.clone()).collect()
    }

    pub fn has(&self, id: &str) -> bool {
        self.runs.contains_key(id)
    }

    /// The run with this id, with all samples.
    pub fn run(&self, log: &Log, id: &str) -> Result<Option<Run>, StoreError> {
        let Some(Known { head, taken, .. }) = self.runs.get(id) else { return Ok(None) };
        let (run, mut samples) = match head.read(log)? {
            Full::Begun(run) | Full::Ended(run) => (run, Vec::with_capacity(taken.len())),
            Full::Whole { run, samples } => (run, samples),
            Full::Taken { .. } | Full::Forgotten(_) => return Err(head.changed(log)),
        };
        for span in taken {
            let Full::Taken { sample, .. } = span.read(log)? else {
                return Err(span.changed(log));
            };
            samples.push(sample);
        }
        Ok(Some(Run { samples, ..*run }))
    }

    fn sorted(&self) -> Vec<(&String, &Known)> {
        let mut all: Vec<_> = self.runs.iter().collect();
        all.sort_unstable_by_key(|(id, known)| (known.started, *id));
        all
    }

    /// Reads the lines that came since the last call, and only whole ones. The beginning of a line is read again together with the rest, because a writer may cut that beginning off
    /// meanwhile.
    pub fn read(&mut self, log: &Log) -> Result<(), StoreError> {
        let new_bytes = log.size()?.saturating_sub(self.read_bytes);
        // One byte more shows whether the file has grown meanwhile.
        let mut chunk =
            vec![0; CHUNK_BYTES.min(usize::try_from(new_bytes).unwrap_or(CHUNK_BYTES) + 1)];
        loop {
            let have = log.read_at(&mut chunk, self.read_bytes)?;
            let mut rest = &chunk[..have];
            while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                self.take(log, &rest[..end])?;
                rest = &rest[end + 1..];
            }
            if have < chunk.len() {
                return Ok(());
            }
            if rest.len() == chunk.len() {
                if chunk.len() >= LONGEST_LINE_BYTES {
                    return Err(damaged(log, self.lines + 1, &"it is longer than 1 GiB"));
                }
                chunk.resize(chunk.len() * 2, 0);
            }
        }
    }

    /// Takes in the next line; a line that cannot be understood changes nothing.
    fn take(&mut self, log: &Log, text: &[u8]) -> Result<(), StoreError> {
        let span = LineSpan { at: self.read_bytes, bytes: text.len(), line: self.lines + 1 };
        // The header was looked at when the file was opened.
        if self.lines > 0 {
            let line = serde_json::from_slice(text);
            let line: Brief = line.map_err(|error| damaged(log, span.line, &error))?;
            self.learn(line, span).map_err(|why| damaged(log, span.line, &why))?;
        }
        self.read_bytes += text.len() as u64 + 1;
        self.lines += 1;
        Ok(())
    }

    fn learn(&mut self, line: Brief, span: LineSpan) -> Result<(), String> {
        let unknown = |id: &str| format!("no run '{}' had begun", id.escape_debug());
        match line {
            Line::Begun(run) => {
                self.runs.insert(run.id, Known::new(run.started, span));
            }
            Line::Taken { run, sample } => {
                let known = self.runs.get_mut(&run).ok_or_else(|| unknown(&run))?;
                known.count(&sample.suite);
                known.taken.push(span);
            }
            Line::Ended(run) => {
                let known = self.runs.get_mut(&run.id).ok_or_else(|| unknown(&run.id))?;
                known.head = span;
            }
            Line::Whole { run, samples } => {
                let mut known = Known::new(run.started, span);
                samples.iter().for_each(|sample| known.count(&sample.suite));
                self.runs.insert(run.id, known);
            }
            Line::Forgotten(id) => {
                self.runs.remove(&id);
            }
        }
        Ok(())
    }
}

impl LineSpan {
    fn read<T: DeserializeOwned>(self, log: &Log) -> Result<T, StoreError> {
        let mut text = vec![0; self.bytes];
        let have = log.read_at(&mut text, self.at)?;
        serde_json::from_slice(&text[..have]).map_err(|error| damaged(log, self.line, &error))
    }

    /// Whole lines never change, unless somebody edits the file.
    fn changed(self, log: &Log) -> StoreError {
        damaged(log, self.line, &"it was changed meanwhile")
    }
}

fn damaged(log: &Log, line: u64, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged { path: log.path().to_owned(), line, why: why.to_string() }
}
