//! How much one write to a polled terminal without O_NONBLOCK may carry without waiting.
//!
//! A pseudo-terminal polls writable if one more buffer of at least 256 bytes may be allocated
//! (`tty_buffer_space_avail` of drivers/tty/tty_buffer.c). It can be the last one, and then the
//! line discipline has no room for a second call of the driver. With OPOST there is one call for
//! each run of unchanged bytes, and one for each replaced byte (`process_output_block` and
//! `do_output_char` of drivers/tty/n_tty.c): each is a separate write here.
//!
//! Another process may still stop or fill the terminal between poll and write: only O_NONBLOCK
//! helps.

use std::os::fd::BorrowedFd;

use rustix::termios::OutputModes;

use crate::sys::file;

/// The smallest buffer of a pseudo-terminal.
const BUFFER_BYTES: usize = 256;

/// The changes that a terminal makes to written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Every byte stays as it is.
    Raw,
    /// Line feeds, carriage returns and tabs may be replaced.
    Lines,
    /// Letters, too.
    Letters,
}

impl Output {
    /// Asked before each write: anybody who has the terminal may change the modes.
    ///
    /// Input written to the master is not output: the modes of a master are the slave's.
    pub(crate) fn of(fd: BorrowedFd<'_>, is_master: bool) -> Self {
        if is_master {
            return Self::Raw;
        }
        match file::output_modes(fd) {
            Ok(modes) if !modes.contains(OutputModes::OPOST) => Self::Raw,
            Ok(modes) if !modes.contains(OutputModes::OLCUC) => Self::Lines,
            // Nothing is known: a single byte is safe in every mode.
            _ => Self::Letters,
        }
    }

    /// How many bytes of any content make one call of the driver.
    pub(crate) fn any_bytes(self) -> usize {
        if self == Self::Raw { BUFFER_BYTES } else { 1 }
    }

    /// How many of the first bytes make one call of the driver.
    pub(crate) fn first_bytes(self, buf: &[u8]) -> usize {
        let most = &buf[..buf.len().min(BUFFER_BYTES)];
        let is_replaced = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\t');
        match self {
            Self::Raw => most.len(),
            Self::Lines => {
                // A replaced byte at the front goes alone, in its own call of the driver.
                most.iter().position(is_replaced).unwrap_or(most.len()).max(1).min(most.len())
            }
            // With OLCUC any letter may be replaced, so each byte is a call of the driver.
            Self::Letters => most.len().min(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn a_write_is_one_call_of_the_driver() {
        let long = [b'a'; 1000];
        let cases: [(Output, &[u8], usize); 9] = [
            (Output::Raw, b"a\nb", 3),
            (Output::Raw, &long, 256),
            (Output::Lines, b"ab\n", 2),
            (Output::Lines, b"\n\n", 1),
            (Output::Lines, b"\tab", 1),
            (Output::Lines, b"ab\rc", 2),
            (Output::Lines, &long, 256),
            (Output::Lines, b"", 0),
            (Output::Letters, b"ab", 1),
        ];
        for (output, bytes, expected) in cases {
            assert_eq!(output.first_bytes(bytes), expected, "{output:?} {bytes:?}");
        }
    }
}
