//! The program that the tested link starts: this test program under another argument. The program
//! plays a script at its standard input and output, and writes a report into a file. The name of
//! the signal that ends the program goes into another.

use std::fs::{self, File};
use std::path::Path;
use std::process::exit;
use std::thread;

use nix::sys::signal::SigSet;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::tcsetattr;
use rustix::termios::{InputModes, OptionalActions, OutputModes, isatty, tcgetattr};

use crate::port::Port;
use crate::script::{Last, Marks, Player, Report, Saw, Step, read_script};

pub const WORD: &str = "--puppet";

/// The address by which a link starts the program, without options.
pub fn address(dir: &Path, name: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!("exec:'{} {WORD} {} {name}'", program.display(), dir.display())
}

/// Watches for SIGTERM, alone or ahead of a hang-up: leaves the signal's name in a file, and ends
/// the process.
///
/// The signals stay pending, so that a process that has seen an end of data can ask which of the
/// two came first.
fn watch_for_signals(dir: &Path, name: &str) {
    let file = dir.join(format!("{name}.signal"));
    let mut ending = SigSet::empty();
    ending.add(nix::sys::signal::SIGTERM);
    ending.add(nix::sys::signal::SIGHUP);
    ending.thread_block().unwrap();
    let signals = SignalFd::new(&ending).unwrap();
    let watch = move || {
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        retry_on_intr(|| poll(&mut fds, None)).unwrap();
        if is_pending(Signal::TERM) {
            fs::write(&file, "SIGTERM").unwrap();
        }
        kill_process(getpid(), Signal::KILL).unwrap();
    };
    thread::spawn(watch);
}

/// As in proc_pid_status(5): one bit for each signal that waits for the whole process.
fn is_pending(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    let pending = u64::from_str_radix(line.trim(), 16).unwrap();
    pending & (1 << (signal.as_raw() - 1)) != 0
}

/// Plays the script `name` of `dir`, and ends the process.
pub fn run(dir: &Path, name: &str) -> ! {
    watch_for_signals(dir, name);
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    // One way is on the terminal only.
    for terminal in [input, output].into_iter().filter(|side| isatty(side)) {
        let mut settings = tcgetattr(terminal).unwrap();
        settings.input_modes.remove(InputModes::ICRNL);
        settings.output_modes.remove(OutputModes::OPOST);
        tcsetattr(terminal, OptionalActions::Now, &settings).unwrap();
    }
    let read = input.try_clone_to_owned().unwrap();
    let write = output.try_clone_to_owned().unwrap();
    // Nothing of it stays open but these two.
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    rustix::stdio::dup2_stdin(&null).unwrap();
    rustix::stdio::dup2_stdout(&null).unwrap();
    rustix::stdio::dup2_stderr(&null).unwrap();
    let marks = Marks(dir.to_owned());
    let port = Port::new(Some(read), Some(write));
    let mut player = Player { port, marks: &marks, report: Report::NONE, is_slow: false };
    let mut last = Last::Left;
    let steps = read_script(&dir.join(format!("{name}.script"))).unwrap();
    keep(dir, name, player.report, false);
    for (at, step) in steps.iter().enumerate() {
        last = player.play(std::slice::from_ref(step));
        while is_pending(Signal::TERM) || is_pending(Signal::HUP) {
            thread::park();
        }
        let is_over = at + 1 == steps.len() || matches!(step, Step::Leave | Step::Exit(_));
        keep(dir, name, player.report, is_over && *step != Step::Kill);
    }
    match last {
        Last::KillsItself => {
            kill_process(getpid(), Signal::KILL).unwrap();
            unreachable!("SIGKILL cannot be ignored")
        }
        Last::Exits(status) => exit(status.into()),
        Last::Left => exit(0),
    }
}

/// At every moment the file is a whole report.
fn keep(dir: &Path, name: &str, report: Report, is_over: bool) {
    let Report { sent_bytes, heard_bytes, sound, saw, refused } = report;
    let (end, reset) = (saw == Saw::End, saw == Saw::Reset);
    let id = getpid().as_raw_nonzero();
    let line = format!("{id} {sent_bytes} {heard_bytes} {sound} {end} {reset} {refused} {is_over}");
    let new = dir.join(format!("{name}.new"));
    fs::write(&new, line).unwrap();
    fs::rename(new, dir.join(format!("{name}.report"))).unwrap();
}

/// The last report of a program, and the process number.
pub fn report(dir: &Path, name: &str) -> Option<(Report, u32)> {
    let line = fs::read_to_string(dir.join(format!("{name}.report"))).ok()?;
    let words: Vec<&str> = line.split(' ').collect();
    let is = |at: usize| words[at] == "true";
    let saw = if !is(7) && !is(4) {
        ended_by(dir, name)
    } else if is(5) {
        Saw::Reset
    } else if is(4) {
        Saw::End
    } else {
        Saw::Nothing
    };
    let report = Report {
        sent_bytes: words[1].parse().unwrap(),
        heard_bytes: words[2].parse().unwrap(),
        sound: is(3),
        saw,
        refused: is(6),
    };
    Some((report, words[0].parse().unwrap()))
}

/// The sign that ended a program before the end of its script.
pub fn ended_by(dir: &Path, name: &str) -> Saw {
    match fs::read_to_string(dir.join(format!("{name}.signal"))).as_deref() {
        Ok("SIGTERM") => Saw::Terminated,
        _ => Saw::Death,
    }
}
