//! The runs of the file, in memory: read once, and continued from where the reading ended.

use std::collections::HashMap;

use super::StoreError;
use super::line::{Line, Read};
use super::log::Log;
use crate::model::Run;

#[derive(Debug, Default)]
pub(super) struct Runs {
    by_id: HashMap<String, Run>,
    /// The end of the last whole line that was read.
    pub read_bytes: u64,
    lines: u64,
}

impl Runs {
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

    pub fn sorted(&self) -> Vec<&Run> {
        let mut all: Vec<&Run> = self.by_id.values().collect();
        all.sort_unstable_by_key(|run| (run.started, &run.id));
        all
    }

    pub fn get(&self, id: &str) -> Option<&Run> {
        self.by_id.get(id)
    }

    /// Reads the lines that came since the last call, and only whole ones. The beginning of a line
    /// is read again together with the rest, because a writer may cut that beginning off meanwhile.
    pub fn read(&mut self, log: &Log) -> Result<(), StoreError> {
        let text = log.read_from(self.read_bytes)?;
        let mut rest = &text[..];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.take(log, &rest[..end])?;
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// Takes in the next line; a line that cannot be understood changes nothing.
    fn take(&mut self, log: &Log, text: &[u8]) -> Result<(), StoreError> {
        let line = self.lines + 1;
        let damaged = |why| StoreError::Damaged { path: log.path.clone(), line, why };
        // The header was looked at when the file was opened.
        if self.lines > 0 {
            let read = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
            self.learn(read).map_err(damaged)?;
        }
        self.read_bytes += text.len() as u64 + 1;
        self.lines += 1;
        Ok(())
    }

    fn learn(&mut self, line: Read) -> Result<(), String> {
        let unknown = |id: &str| format!("no run '{}' had begun", id.escape_debug());
        match line {
            Line::Begun(run) => drop(self.by_id.insert(run.id.clone(), *run)),
            Line::Taken { run, sample } => {
                self.by_id.get_mut(&run).ok_or_else(|| unknown(&run))?.samples.push(sample);
            }
            Line::Ended(run) => {
                let known = self.by_id.get_mut(&run.id).ok_or_else(|| unknown(&run.id))?;
                let samples = std::mem::take(&mut known.samples);
                *known = Run { samples, ..*run };
            }
            Line::Whole { run, samples } => {
                self.by_id.insert(run.id.clone(), Run { samples, ..*run });
            }
            Line::Forgotten(id) => drop(self.by_id.remove(&id)),
        }
        Ok(())
    }
}
