//! The answers of the receiver, read by a thread of their own.

use gush_text::without_controls;
use gush_tree::{Action, Done, TreeCounts};

use super::Session;
use crate::error::Error;
use crate::frame::Input;
use crate::record::ToSender;

impl Session<'_> {
    /// Reads the answers until all entries have theirs.
    pub(super) fn read_answers(&self, input: &mut Input) -> Result<(), Error> {
        loop {
            let answer: ToSender = input.record()?;
            let state = &mut *self.lock();
            match answer {
                ToSender::Done { id, is_complete } => {
                    let entry = state.take(id)?;
                    state.is_whole &= is_complete;
                    let mut done = Done::sent(entry.action, entry.bytes);
                    done.complete = is_complete;
                    done.verified = self.options.verify && entry.action == Action::Copied;
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
                        let error = gush_tree::Error::reported(&entry.target, self.said(&why));
                        state.events.entry_ended(&entry.source, &entry.target, &Err(error));
                    }
                }
                ToSender::Warning(text) => {
                    state.events.warns(&gush_tree::Error::reported(self.target, self.said(&text)));
                }
                ToSender::Invitation(token) => state.invitation = Some(token),
                ToSender::Refused(why) => return Err(Error::Refused(without_controls(&why))),
                ToSender::Finished if state.is_finishing && state.awaited.is_empty() => {
                    state.is_ended = true;
                    self.changed.notify_all();
                    self.transport.release();
                    return Ok(());
                }
                ToSender::Finished => {
                    return Err(Error::Protocol("it has finished without all answers".into()));
                }
                ToSender::Joined => {
                    return Err(Error::Protocol("the first stream cannot join".into()));
                }
            }
            self.changed.notify_all();
        }
    }
}
