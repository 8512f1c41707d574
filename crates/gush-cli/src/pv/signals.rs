//! Signals: ending a transfer in order, and stops from the terminal, during which the clock pauses.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use gush::Unpoisoned;
use gush_process::{Signals, Stop, Termination, Then as Fate};

use super::args::PvArgs;
use super::direct;
use super::display::{DELAY, DelayedStart};
use super::screen::Screen;
use super::state::{StopReason, TransferState};
use super::status::Status;
use super::transfer::unopened;
use crate::console::Console;
use gush_text::errno_text;

/// How often to try the locks of the `-P` file and of the screen while the process ends.
const PID_FILE_TRIES: u32 = 20;
const SCREEN_TRIES: u32 = 15;
/// How often to interrupt reads: one that was about to block at the signal blocks by then.
const INTERRUPT_TRIES: u32 = 200;
const TRY_EVERY: Duration = Duration::from_millis(5);

/// What signals act on: transfers, the terminal, the file of `-P`.
#[derive(Debug)]
pub struct SignalHandler {
    transfers: Mutex<Vec<Arc<TransferState>>>,
    screen: Arc<Mutex<Screen>>,
    pid_file: Mutex<PidFile>,
}

impl SignalHandler {
    /// Starts handling signals, and starts the thread of the display `delayed` when that is due. No
    /// other thread may run yet.
    ///
    /// # Errors
    /// The status where no thread can be started; the error has been reported.
    pub fn begin(
        screen: &Arc<Mutex<Screen>>,
        delayed: Option<&Arc<DelayedStart>>,
        console: &Console,
    ) -> Result<Arc<Self>, Status> {
        let handler = Arc::new(Self {
            transfers: Mutex::default(),
            screen: Arc::clone(screen),
            pid_file: Mutex::default(),
        });
        let (first, later) = (Arc::clone(&handler), Arc::clone(&handler));
        let (mut tries, mut locked_tries) = (0, 0);
        let signals = Signals::new(move |signal| first.end(signal));
        let mut signals = signals.while_ending(TRY_EVERY, move || {
            // Later only the wait for a command is left.
            if tries < INTERRUPT_TRIES {
                tries += 1;
                later.interrupt(&mut locked_tries);
            }
        });
        // Without a display stops do not matter.
        if lock(screen).is_used() {
            let stopped = Arc::clone(&handler);
            signals = signals.stops(move |stop| stopped.stop(stop));
        }
        // The signal thread is idle, and saves a thread for the timer.
        if let Some(delayed) = delayed {
            let delayed = Arc::clone(delayed);
            signals = signals.after(DELAY, move || delayed.begin());
        }
        // Before any other thread, since threads inherit the mask of blocked signals.
        signals.watch().map_err(|errno| {
            let why = errno_text(errno);
            Status::MISUSE.report(console, format_args!("cannot watch for signals: {why}"))
        })?;
        Ok(handler)
    }

    /// Makes signals act on this transfer, too.
    pub fn add(&self, state: &Arc<TransferState>) {
        self.transfers.lock().unpoisoned().push(Arc::clone(state));
    }

    /// Writes the PID of this process to the file of `-P`, which [`Self::clean_up`] removes.
    ///
    /// # Errors
    /// The status; the error has been reported.
    pub fn write_pid(&self, options: &PvArgs, console: &Console) -> Result<(), Status> {
        let Some(name) = &options.pidfile else { return Ok(()) };
        // Locked while the file is created, so that a signal handler removes it or finds none.
        let mut file = self.pid_file.lock().unpoisoned();
        if !file.is_over {
            std::fs::write(name, format!("{}\n", std::process::id()))
                .map_err(|error| Status::OTHER.report(console, unopened(console, name, &error)))?;
            file.name = Some(name.clone());
        }
        Ok(())
    }

    /// Removes the file of [`Self::write_pid`], and clears the flags of `-K`.
    pub fn clean_up(&self) {
        direct::restore_all();
        // Not a blocking lock: the file may be a FIFO, whose writer blocks until it has a reader.
        for _ in 0..PID_FILE_TRIES {
            let Ok(mut file) = self.pid_file.try_lock() else {
                std::thread::sleep(TRY_EVERY);
                continue;
            };
            file.is_over = true;
            if let Some(name) = file.name.take() {
                // The file may have been removed already.
                let _ = std::fs::remove_file(name);
            }
            return;
        }
    }

    /// The first signal ends transfers in order, unless one is in a blocking call; the second, or
    /// SIGQUIT, ends the process.
    fn end(&self, signal: Termination) -> Fate {
        let transfers = self.transfers.lock().unpoisoned();
        // A transfer that stops in order would end the process with another status first.
        if signal != Termination::Quit {
            let is_second =
                transfers.iter().any(|state| state.stop_reason() == Some(StopReason::Signal));
            transfers.iter().for_each(|state| state.stop(StopReason::Signal));
            // A blocking call may never return to see the stop.
            let dies =
                is_second || transfers.is_empty() || transfers.iter().any(|one| one.is_blocking());
            if !dies {
                return Fate::GoOn;
            }
        }
        drop(transfers);
        self.close_line();
        self.clean_up();
        Fate::Die
    }

    /// Interrupts blocked reads, and ends the process if a write to the terminal has kept the
    /// screen locked for [`SCREEN_TRIES`] tries, as a stopped terminal does.
    fn interrupt(&self, locked_tries: &mut u32) {
        // A blocking read is in no poll(2), and would not see the end.
        gush_process::interrupt_others();
        let is_blocking = matches!(self.screen.try_lock(), Err(TryLockError::WouldBlock));
        *locked_tries = if is_blocking { *locked_tries + 1 } else { 0 };
        // Most processes have ended by now.
        if *locked_tries == SCREEN_TRIES {
            self.clean_up();
            std::process::exit(Status::SIGNAL.into());
        }
    }

    fn stop(&self, stop: Stop) {
        let begins = stop == Stop::Begins;
        let transfers = self.transfers.lock().unpoisoned();
        transfers.iter().for_each(|state| state.pause_clock(begins));
        // Writing to the terminal may block, and the transfer must not wait for it.
        drop(transfers);
        if begins {
            self.close_line();
        }
    }

    /// Ends the line of progress, unless the screen is locked: a terminal can block a writer for
    /// ever.
    fn close_line(&self) {
        match self.screen.try_lock() {
            Ok(mut screen) => screen.close(),
            Err(TryLockError::Poisoned(screen)) => screen.into_inner().close(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Locks the screen, even if a thread panicked while it held the lock.
pub fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unpoisoned()
}

/// The file of `-P`.
#[derive(Debug, Default)]
struct PidFile {
    name: Option<OsString>,
    /// The process is about to end: no file is created any more.
    is_over: bool,
}
