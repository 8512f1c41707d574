//! The answers of the receiver, read by a thread of their own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use gush_text::without_controls;
use gush_tree::remote::Failure;

use super::queue::{self, Job};
use super::{Session, State};
use crate::error::Error;
use crate::frame::Input;
use crate::record::ToSender;
use crate::remote::{at_host, said_at};

impl Session<'_> {
    /// Reads the answers until all entries have theirs.
    pub(super) fn read_answers(&self, input: &mut Input) -> Result<(), Error> {
        loop {
            let mut answer: ToSender = input.record()?;
            let state = &mut *self.lock();
            // As many as have come, at once.
            let has_ended = loop {
                if self.take_answer(state, answer)? {
                    break true;
                }
                if !input.has_record() {
                    break false;
                }
                answer = input.record()?;
            };
            if !state.wants_room || !state.is_nearly_full() {
                state.wants_room = false;
                self.changed.notify_all();
            }
            if has_ended {
                return Ok(());
            }
        }
    }

    /// Takes an answer. `true` after the last one.
    fn take_answer(&self, state: &mut State<'_>, answer: ToSender) -> Result<bool, Error> {
        let shown = |below: &Path, is_exact| self.shown(below, is_exact);
        match answer {
            ToSender::Begun { is_exact } if state.is_exact.is_none() && !self.is_served => {
                state.is_exact = Some(is_exact);
                self.changed.notify_all();
            }
            ToSender::Begun { .. } => return Err(Error::Protocol("it has begun twice".into())),
            // Refusals and warnings may be about the beginning.
            ToSender::Done { .. } | ToSender::Failed { .. } | ToSender::Finished
                if state.is_exact.is_none() && !self.is_served =>
            {
                return Err(Error::Protocol("it answers before it has begun".into()));
            }
            ToSender::Done { id, outcome } => {
                let entry = state.take(id, shown)?;
                self.forget(state, id);
                state.is_whole &= outcome.is_complete();
                entry.ends(outcome, self.options.verify, state.events);
            }
            ToSender::Wanted { id } => {
                let found = state.asked.remove(&id).ok_or_else(|| unasked(id))?;
                if let Some(entry) = state.awaited.get_mut(&id) {
                    // Another name of a file of which the receiver has none.
                    (entry.action, entry.bytes) = queue::copied(&found.stat);
                }
                self.queue.answer(Some(Job::Wanted(Box::new(found))));
            }
            ToSender::Compare { id, digest } => {
                let found = state.asked.remove(&id).ok_or_else(|| unasked(id))?;
                self.queue.answer(Some(Job::Compare(Box::new(found), digest)));
            }
            ToSender::Lacking { id, ranges } => {
                let file = state.resuming.remove(&id).ok_or_else(|| unasked(id))?;
                file.limit_to(&ranges);
                self.queue.resume(file);
            }
            ToSender::Removed { path, why } => {
                let shown = at_host(self.host, OsString::from_vec(path).as_ref());
                let result = match why {
                    None => Ok(()),
                    Some(why) => Err(gush_tree::Error::reported(&shown, self.says(why))),
                };
                state.is_whole &= result.is_ok();
                state.events.mirrored(&shown, &result);
            }
            ToSender::Failed { id, why } => {
                let entry = state.take(id, shown)?;
                self.forget(state, id);
                state.is_whole = false;
                if !why.text.is_empty() {
                    entry.fails(self.says(why), state.events);
                }
            }
            ToSender::Warning(text) => {
                state.events.warns(&gush_tree::Error::reported(self.target, self.said(&text)));
            }
            ToSender::Invitation(invitation) => state.invitation = Some(invitation),
            ToSender::Refused(why) => return Err(Error::Refused(without_controls(&why))),
            ToSender::Finished if state.is_finishing && state.awaited.is_empty() => {
                state.is_ended = true;
                state.host = None;
                self.transport.release();
                return Ok(true);
            }
            ToSender::Finished => {
                return Err(Error::Protocol("it has finished without all answers".into()));
            }
            ToSender::Joined { .. } => {
                return Err(Error::Protocol("the first stream cannot join".into()));
            }
        }
        Ok(false)
    }

    /// A failure on the other machine.
    fn says(&self, why: Failure) -> Failure {
        said_at(self.host, why)
    }

    /// A question whose answer ends the entry.
    fn forget(&self, state: &mut State<'_>, id: u64) {
        if state.asked.remove(&id).is_some() {
            self.queue.answer(None);
        }
    }
}

fn unasked(id: u64) -> Error {
    Error::Protocol(format!("it answers a question about entry {id}, which was not asked"))
}
