//! Signals: the end of a transfer in order, and a stop from the terminal that nobody's clock counts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use gush::Errno;
use gush_process::{Signals, Stop, Then as Fate};
use gush_text::errno_text;

use super::account::{Account, Early};
use super::direct;
use super::screen::Screen;
use super::status::Status;
use super::steward::{LATE, Late};
use crate::talk::Talker;

/// How often, and how far apart, an ending process looks whether the file of `-P` is made by now, and the screen is free.
const LOOKS: u32 = 20;
const SCREEN_LOOKS: u32 = 15;
/// A read that was about to wait when the signal came waits by then.
const HASTENED_LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(5);

/// The objects that signals concern: accounts of transfers, the terminal, the file of `-P`.
#[derive(Debug)]
pub struct Ending {
    accounts: Mutex<Vec<Arc<Account>>>,
    screen: Arc<Mutex<Screen>>,
    pid_file: Mutex<PidFile>,
}

impl Ending {
    /// Waits for signals from now on, and lets the display `late` start its thread when that is due. No other thread may run
    /// yet.
    ///
    /// # Errors
    /// `EAGAIN` where no thread can be started.
    pub fn begin(
        screen: &Arc<Mutex<Screen>>,
        late: Option<&Arc<Late>>,
    ) -> Result<Arc<Self>, Errno> {
        let ending = Arc::new(Self {
            accounts: Mutex::default(),
            screen: Arc::clone(screen),
            pid_file: Mutex::default(),
        });
        let (asked, ended) = (Arc::clone(&ending), Arc::clone(&ending));
        let (mut looks, mut held_looks) = (0, 0);
        let signals = Signals::new(move |_| asked.end());
        let mut signals = signals.while_ending(LOOK, move || {
            // Later there is nothing left to interrupt but the waiting for a command.
            if looks < HASTENED_LOOKS {
                looks += 1;
                ended.hasten(&mut held_looks);
            }
        });
        // Without a display nobody has to know of a stop.
        if lock(screen).is_used() {
            let told = Arc::clone(&ending);
            signals = signals.stops(move |stop| told.stop(stop));
        }
        // The thread that waits for signals has nothing to do meanwhile: it saves a thread for the clock.
        if let Some(late) = late {
            let late = Arc::clone(late);
            signals = signals.after(LATE, move || late.begin());
        }
        // Before any other thread: each inherits the mask of blocked signals from its maker.
        signals.watch()?;
        Ok(ending)
    }

    /// Signals concern this transfer, too.
    pub fn concerns(&self, account: &Arc<Account>) {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(account));
    }

    /// Keeps the number of this process in the file `name` until [`Self::tidy`].
    ///
    /// # Errors
    /// That of writing the file.
    pub fn keep_pid_in(&self, name: &OsStr) -> io::Result<()> {
        // Held while the file is made: a signal that comes now removes the file, or there is none.
        let mut file = self.pid_file.lock().unwrap_or_else(PoisonError::into_inner);
        if !file.is_over {
            std::fs::write(name, format!("{}\n", std::process::id()))?;
            file.name = Some(name.to_owned());
        }
        Ok(())
    }

    /// Removes the file of [`Self::keep_pid_in`], and takes the flags of `-K` back.
    pub fn tidy(&self) {
        direct::restore_all();
        // Looked at, not waited for: the file may be a FIFO, whose writer waits as long as nobody reads.
        for _ in 0..LOOKS {
            let Ok(mut file) = self.pid_file.try_lock() else {
                std::thread::sleep(LOOK);
                continue;
            };
            file.is_over = true;
            if let Some(name) = file.name.take() {
                // Who has removed the file already has done the work.
                let _ = std::fs::remove_file(name);
            }
            return;
        }
    }

    /// The first ending signal ends transfers in order, unless a call holds one; the second ends the process.
    fn end(&self) -> Fate {
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_second = accounts.iter().any(|account| account.ended_early() == Some(Early::Signal));
        accounts.iter().for_each(|account| account.end_early(Early::Signal));
        // A call that is held does not look at the account before it returns, perhaps never.
        let dies = is_second || accounts.is_empty() || accounts.iter().any(|one| one.is_held());
        drop(accounts);
        if !dies {
            return Fate::GoOn;
        }
        self.leave_line();
        self.tidy();
        Fate::Die
    }

    /// Interrupts reads that wait, and ends the process where the terminal holds a writer: a stopped terminal does, and one behind
    /// a line that is down. So many looks one after the other have found the screen held.
    fn hasten(&self, held_looks: &mut u32) {
        // A read of a file that has nothing yet is in no poll(2), and would not see the end.
        gush_process::interrupt_others();
        let is_held = matches!(self.screen.try_lock(), Err(TryLockError::WouldBlock));
        *held_looks = if is_held { *held_looks + 1 } else { 0 };
        // Most transfers end meanwhile, and the process with them.
        if *held_looks == SCREEN_LOOKS {
            self.tidy();
            std::process::exit(Status::SIGNAL.into());
        }
    }

    fn stop(&self, stop: Stop) {
        let begins = stop == Stop::Begins;
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.iter().for_each(|account| account.stop_clock(begins));
        // Writing to the terminal may take long, and the transfer must not wait for it.
        drop(accounts);
        if begins {
            self.leave_line();
        }
    }

    /// Ends the line of progress, unless somebody is about to write there: a terminal may hold a writer for ever.
    fn leave_line(&self) {
        match self.screen.try_lock() {
            Ok(mut screen) => screen.close(),
            Err(TryLockError::Poisoned(screen)) => screen.into_inner().close(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Tells why signals cannot be watched.
pub fn untold(errno: Errno, talker: &Talker) -> Status {
    talker.say(format_args!("cannot watch for signals: {}", errno_text(errno)));
    Status::MISUSE
}

/// The screen, whoever has panicked while holding the lock.
pub fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of `-P`, as long as the process runs.
#[derive(Debug, Default)]
struct PidFile {
    name: Option<OsString>,
    /// Is the process about to end? Then no file is made any more.
    is_over: bool,
}
