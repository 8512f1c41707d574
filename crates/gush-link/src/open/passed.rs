//! Signals that programs get in the place of this process (`sigint` and the like).

use std::sync::Mutex;

use gush::Unpoisoned;
use gush_process::Termination;
use rustix::process::{Pid, Signal, kill_process};

use crate::address::{Opt, OptionSet};

static PROGRAMS: Mutex<Vec<(Pid, Signal)>> = Mutex::new(Vec::new());

/// A program that gets signals for as long as this is there.
pub(super) struct Passed(Pid);

impl Passed {
    pub fn to(program: Pid, options: &OptionSet) -> Self {
        let signals =
            [(Opt::SigHup, Signal::HUP), (Opt::SigInt, Signal::INT), (Opt::SigQuit, Signal::QUIT)];
        let wanted = signals.into_iter().filter(|&(option, _)| options.is_on(option));
        PROGRAMS.lock().unpoisoned().extend(wanted.map(|(_, signal)| (program, signal)));
        Self(program)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        PROGRAMS.lock().unpoisoned().retain(|(program, _)| *program != self.0);
    }
}

/// Passes `signal` on to the programs that are to get it. Is there any?
pub fn pass_on(signal: Termination) -> bool {
    let signal = match signal {
        Termination::HangUp => Signal::HUP,
        Termination::Interrupt => Signal::INT,
        Termination::Quit => Signal::QUIT,
        Termination::Terminate => return false,
    };
    let programs = PROGRAMS.lock().unpoisoned();
    let mut is_any = false;
    for (program, _) in programs.iter().filter(|(_, taken)| *taken == signal) {
        is_any = true;
        // An error means that the program is gone.
        let _ = kill_process(*program, signal);
    }
    is_any
}
