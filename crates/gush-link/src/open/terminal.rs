//! The settings of a terminal or serial line, restored at the end.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::error::OpenError;
use crate::address::{Opt, OptionSet};

/// Restores the settings of a terminal when dropped.
#[derive(Debug)]
pub(super) struct PutBack {
    terminal: OwnedFd,
    before: Termios,
}

impl Drop for PutBack {
    fn drop(&mut self) {
        // The line may have been unplugged.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Sets `terminal` as the options say; `None` if there are none.
pub(super) fn set(terminal: &impl AsFd, options: &OptionSet) -> Result<Option<PutBack>, OpenError> {
    if !options.has(Opt::Terminal) {
        return Ok(None);
    }
    let fail = |errno: Errno| {
        let error = OpenError::new("set the terminal", errno);
        match errno {
            Errno::NOTTY => error.hinted("this is not a terminal: leave its settings out"),
            Errno::INVAL => error.hinted("the line has no such speed or mode"),
            _ => error,
        }
    };
    let before = tcgetattr(terminal).map_err(fail)?;
    let terminal = rustix::io::fcntl_dupfd_cloexec(terminal, 3).map_err(fail)?;
    let mut wanted = before.clone();
    change(&mut wanted, options).map_err(fail)?;
    tcsetattr(&terminal, OptionalActions::Now, &wanted).map_err(fail)?;
    Ok(Some(PutBack { terminal, before }))
}

/// Changes `settings` as the options say.
///
/// # Errors
/// `EINVAL` for a speed that no line has.
pub(super) fn change(settings: &mut Termios, options: &OptionSet) -> Result<(), Errno> {
    options.settings().iter().try_for_each(|setting| setting.change(settings))
}
