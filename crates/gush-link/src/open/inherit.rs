//! Inherited descriptors: standard ones, numbered ones, listening sockets.

use std::os::fd::OwnedFd;

use gush_net::Conduit;

use super::error::{OpenError, Step};
use super::{End, OpenOptions, Origin, Peer};
use crate::address::{Inherited, OptionSet, Standard};

/// The first descriptor that a service manager hands over (sd_listen_fds(3)).
const FIRST: i32 = 3;

/// Is standard input read, and is standard output written?
pub(super) fn directions(which: Standard, how: &OpenOptions) -> Result<(bool, bool), OpenError> {
    let reads = how.reads() && which != Standard::Output;
    let writes = how.writes() && which != Standard::Input;
    if reads || writes {
        return Ok((reads, writes));
    }
    let why = match how.reads() {
        true => "standard output cannot be read",
        false => "standard input cannot be written",
    };
    Err(OpenError::said("open", why))
}

pub(crate) fn stdio(
    which: Standard,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    let (reads, writes) = directions(which, how)?;
    let conduit = match (reads, writes) {
        // O_NONBLOCK would be set for all processes that share the terminal.
        (true, true) => Conduit::inherited_two(standard(0)?, standard(1)?),
        (true, false) => Conduit::inherited(standard(0)?).map(Conduit::read_only),
        (false, _) => Conduit::inherited(standard(1)?).map(Conduit::write_only),
    };
    let conduit = conduit.step("open")?;
    let mut end = End::new(conduit, Peer::Other("-".into()));
    end.origin =
        Origin { is_input: reads, is_output: writes, is_inherited: true, ..Origin::default() };
    end.set_as_terminal(options)
}

/// A duplicate of standard input (0) or output (1).
fn standard(number: usize) -> Result<OwnedFd, OpenError> {
    let name = STANDARD[number];
    if gush_process::was_closed(number) {
        return Err(is_closed(number));
    }
    let copy = match number {
        0 => rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), FIRST),
        _ => rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), FIRST),
    };
    copy.map_err(|errno| OpenError::new(format!("take {name}"), errno))
}

/// The error of a standard descriptor (0 to 2) that was closed when the process started.
pub(crate) fn is_closed(number: usize) -> OpenError {
    OpenError::said("open", format!("{} is closed", STANDARD[number]))
        .hinted("`<&-` or `>&-` closes it in a shell")
}

const STANDARD: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Replaces each standard stream that an end has duplicated by /dev/null, once both ends are open.
/// Only then does its other process see our end of data, and no program started later can read the
/// stream.
pub(crate) fn give_up_standard(origin: Origin) -> Result<(), OpenError> {
    if !origin.is_input && !origin.is_output {
        return Ok(());
    }
    // Not closed, because the next opened file would get its number.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.step("open /dev/null")?;
    for (number, used) in [(0, origin.is_input), (1, origin.is_output)] {
        if used {
            let given_up = match number {
                0 => rustix::stdio::dup2_stdin(&null),
                _ => rustix::stdio::dup2_stdout(&null),
            };
            given_up
                .map_err(|errno| OpenError::new(format!("take {}", STANDARD[number]), errno))?;
        }
    }
    Ok(())
}

pub(crate) fn numbered(
    number: i32,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<End, OpenError> {
    let standard = match number {
        0 => Some(standard(0)),
        1 => Some(standard(1)),
        _ => None,
    };
    let fd = standard.unwrap_or_else(|| take(number, how.is_once()))?;
    let conduit = Conduit::inherited(fd).step("open")?;
    let mut end = End::new(how.narrowed(conduit)?, Peer::Other(format!("fd:{number}")));
    end.origin = Origin {
        is_input: number == 0,
        is_output: number == 1,
        is_inherited: true,
        ..Origin::default()
    };
    end.set_as_terminal(options)
}

fn take(number: i32, once: bool) -> Result<OwnedFd, OpenError> {
    // Standard error stays open for messages.
    let taken = match once && number > 2 {
        // Then it closes with its connection, and the other side sees the end.
        true => gush_process::take_inherited(number),
        false => gush_process::duplicate_inherited(number),
    };
    taken.map_err(|errno| {
        OpenError::new(format!("take descriptor {number}"), errno)
            .hinted(format!("a shell opens the descriptor, as in `gush link ... {number}<>file`"))
    })
}

/// A listening socket by number or name.
pub(crate) fn listening(which: &Inherited) -> Result<OwnedFd, OpenError> {
    let given = ListenFdNames::from_environment();
    let number = match which {
        Inherited::Number(number) => *number,
        Inherited::Name(name) => given.number(name)?,
    };
    take(number, true).map_err(|error| {
        error.instead_hinted(
            "a service manager passes listening sockets on: `systemd-socket-activate -l PORT gush link ...`",
        )
    })
}

/// The names of the sockets in LISTEN_FDNAMES, as many as LISTEN_FDS counts.
struct ListenFdNames {
    names: Vec<String>,
}

impl ListenFdNames {
    fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let number = |name| variable(name).and_then(|text| text.parse::<u32>().ok());
        // If LISTEN_PID is not our number, the variables are for another process
        // (sd_listen_fds(3)).
        let count = match number("LISTEN_PID") == Some(std::process::id()) {
            // Bounded, because the number comes from outside.
            true => number("LISTEN_FDS").unwrap_or(0).min(1024) as usize,
            false => 0,
        };
        let listed = variable("LISTEN_FDNAMES").unwrap_or_default();
        let listed: Vec<_> = listed.split(':').collect();
        let names = (0..count)
            .map(|at| listed.get(at).filter(|name| !name.is_empty()).unwrap_or(&"unknown"));
        Self { names: names.map(|name| (*name).to_owned()).collect() }
    }

    fn number(&self, wanted: &str) -> Result<i32, OpenError> {
        match (FIRST..).zip(&self.names).find(|(_, name)| *name == wanted) {
            Some((number, _)) => Ok(number),
            None if self.names.is_empty() => Err(OpenError::said("take over", "no listening sockets were passed on")
                .hinted("LISTEN_PID must be this process's number, as systemd sets it with LISTEN_FDS and LISTEN_FDNAMES")),
            None => Err(OpenError::said("take over", format!("no socket of this name was passed on; there are {}", self.names.join(", ")))),
        }
    }
}
