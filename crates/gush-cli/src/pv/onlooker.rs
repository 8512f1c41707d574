//! What `-d`, `-Q`, `--pipeline` and `--here` have in common: this process moves nothing, and shows
//! others until those end or a signal comes.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::screen::Screen;
use super::signals::{SignalHandler, lock};
use super::state::TransferState;
use super::status::Status;
use crate::console::Console;

/// How often to look, as in pv.
pub const SLICE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Onlooker {
    pub screen: Arc<Mutex<Screen>>,
    pub signals: Arc<SignalHandler>,
    /// The clock of the display, and the end by a signal.
    state: Arc<TransferState>,
}

impl Onlooker {
    /// # Errors
    /// The status if signals cannot be handled; the error has been reported.
    pub fn begin(screen: Screen, console: &Console) -> Result<Self, Status> {
        let screen = Arc::new(Mutex::new(screen));
        let state = Arc::new(TransferState::idle());
        let signals = SignalHandler::begin(&screen, None, console)?;
        signals.add(&state);
        Ok(Self { screen, signals, state })
    }

    /// The time since the start, without that in which the process was stopped.
    pub fn elapsed(&self) -> Duration {
        self.state.elapsed()
    }

    /// Calls `look` every [`SLICE`] until that returns false or a signal comes; once in an
    /// interval it is to show what it sees.
    pub fn follow(&self, interval: Duration, mut look: impl FnMut(bool) -> bool) {
        let mut due = interval;
        while self.state.stop_reason().is_none() {
            let now = self.elapsed();
            let is_due = now >= due;
            if is_due {
                due = (due + interval).max(now);
            }
            if !look(is_due) {
                break;
            }
            thread::sleep(SLICE.min(due.saturating_sub(self.elapsed())));
        }
    }

    /// Ends the display.
    pub fn end(self) -> Status {
        lock(&self.screen).leave();
        self.signals.clean_up();
        self.state.stop_reason().map_or(Status::default(), |_| Status::SIGNAL)
    }
}
