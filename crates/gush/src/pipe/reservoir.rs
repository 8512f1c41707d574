//! A reservoir: constant data in a private pipe, teed into the output again and again.
//!
//! tee(2) copies slots, not bytes, and slots filled through a socket hold 32 KiB each. Where
//! sockets are denied, plain writes fill a page a slot. The pages are never written again, so a
//! reader that holds them sees the poured bytes for ever (invariant 4).
//!
//! All slots refer to the same few pages: a pour then counts their references up in one cache line,
//! and the reader down, where pages of their own would each cross over from the reader's processor.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{self, Errno};
use rustix::pipe::SpliceFlags;

use super::Pipe;
use super::socket::{FAT_SLOT_BYTES, Fattener};
use crate::endpoint::{Endpoint, Kind};
use crate::port::{Port, Side};
use crate::sys::{self, Call};
use crate::wait::{Wait, Waiter};

/// A pattern, repeated as often as a pipe has room.
///
/// ```
/// use std::io::Read;
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut reservoir = gush::pipe::Reservoir::of(b"y\n", 65536)?;
/// let poured = reservoir.pour(&writer, 6)?;
/// assert_eq!(poured, 6);
/// let mut text = [0; 6];
/// reader.read_exact(&mut text)?;
/// assert_eq!(&text, b"y\ny\ny\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reservoir {
    pipe: Pipe,
    pattern: Vec<u8>,
    /// How far into the pattern the bytes poured so far end.
    phase: usize,
}

/// A call that failed, and how.
type Denied = (Call, Errno);

impl Reservoir {
    /// Fills a private pipe of `pipe_bytes`, or as much as permitted, with whole repetitions of
    /// `pattern`.
    ///
    /// `pipe_bytes` counts a page a slot, as F_SETPIPE_SZ does; no pipe is smaller than a new one
    /// (16 slots). Where a slot holds 32 KiB the reservoir holds eight times as many bytes
    /// ([`Reservoir::held_bytes`]), in shared pages: the memory does not grow.
    ///
    /// # Errors
    /// `EINVAL` for a pattern that is empty or too long for the pipe; the errors of pipe2(2),
    /// tee(2).
    ///
    /// ```
    /// use gush::pipe::Reservoir;
    /// let reservoir = Reservoir::of(b"y\n", 65536)?;
    /// println!("{} bytes a pour", reservoir.held_bytes());
    /// assert_eq!(Reservoir::of(b"", 65536).err(), Some(gush::Errno::INVAL));
    /// # Ok::<(), gush::Errno>(())
    /// ```
    pub fn of(pattern: &[u8], pipe_bytes: usize) -> io::Result<Self> {
        Self::filled(pattern, pipe_bytes)
            .map(|(reservoir, _)| reservoir)
            .map_err(|(_, errno)| errno)
    }

    /// As [`Reservoir::of`]; also returns the denied call where slots hold a page each, and names
    /// the failed call.
    pub(crate) fn filled(
        pattern: &[u8],
        pipe_bytes: usize,
    ) -> Result<(Self, Option<Denied>), Denied> {
        if pattern.is_empty() {
            // An empty pattern would fill no slot, and a pour would answer 0 for ever.
            return Err((Call::Tee, Errno::INVAL));
        }
        let mut pipe = Pipe::new(pipe_bytes).map_err(|errno| (Call::Pipe, errno))?;
        // Whole patterns a slot where they fit, so that most pours end between two of them.
        let unit = pattern.repeat((FAT_SLOT_BYTES / pattern.len()).max(1));
        let (seed, denied) = match seed_through_socket(&unit, pipe_bytes) {
            Ok(seed) => (seed, None),
            Err(denied) => {
                let seed = seed_by_writing(&unit, pipe_bytes);
                (seed.map_err(|errno| (Call::Write, errno))?, Some(denied))
            }
        };
        loop {
            let wanted = unit.len();
            match sys::pipe::tee(seed.read_end(), pipe.write_end(), wanted, SpliceFlags::NONBLOCK) {
                Ok(put) => pipe.put(put),
                Err(Errno::INTR) => continue,
                // The pipe is full, which is the goal.
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err((Call::Tee, errno)),
            }
            // A part of the seed was teed: another tee would break the pattern.
            if !pipe.held_bytes().is_multiple_of(wanted as u64) {
                break;
            }
        }
        // Less than one pattern fits: pours would never come to a place where they can begin again.
        let whole = pipe.held_bytes() - pipe.held_bytes() % pattern.len() as u64;
        if whole == 0 {
            return Err((Call::Tee, Errno::INVAL));
        }
        Ok((Self { pipe, pattern: pattern.to_vec(), phase: 0 }, denied))
    }

    /// How many bytes one pour can give at most.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.pipe.held_bytes()
    }

    /// Pours at most `most` bytes into the pipe `into`, without waiting; the pattern continues.
    ///
    /// After `EAGAIN` wait until the pipe is writable, or call [`Reservoir::pour_blocking`].
    ///
    /// # Errors
    /// `EAGAIN` when the pipe is full; `EPIPE` when the pipe has no reader; `EINVAL` when `into` is
    /// no pipe.
    ///
    /// ```
    /// use std::io::Read;
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let mut reservoir = gush::pipe::Reservoir::of(b"yes\n", 65536)?;
    /// assert_eq!(reservoir.pour(&writer, 6)?, 6);
    /// assert_eq!(reservoir.pour(&writer, 2)?, 2);
    /// let mut seen = [0; 8];
    /// reader.read_exact(&mut seen)?;
    /// assert_eq!(&seen, b"yes\nyes\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pour(&mut self, into: &impl AsFd, most: usize) -> io::Result<usize> {
        self.pour_into(into.as_fd(), most)
    }

    /// As [`Reservoir::pour`], but waits for room; answers 0 only where `most` is 0.
    ///
    /// # Errors
    /// As [`Reservoir::pour`], but never `EAGAIN`.
    ///
    /// ```
    /// use std::io::Read;
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let mut reservoir = gush::pipe::Reservoir::of(b"y\n", 65536)?;
    /// std::thread::scope(|scope| -> std::io::Result<()> {
    ///     let mut left = 10 << 20;
    ///     scope.spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    ///     while left > 0 {
    ///         left -= reservoir.pour_blocking(&writer, left)?;
    ///     }
    ///     drop(writer);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pour_blocking(&mut self, into: &impl AsFd, most: usize) -> io::Result<usize> {
        loop {
            match self.pour_into(into.as_fd(), most) {
                Err(Errno::AGAIN) => {
                    // A new waiter each time: `Block` learns nothing from a wait.
                    Waiter::new(Wait::Block).for_side(into.as_fd(), Side::Target, None)?;
                }
                Err(Errno::INTR) => {}
                poured => return poured,
            }
        }
    }

    /// The call of the next pour, or of a failed one: tee(2) at the start of the pattern, else
    /// write.
    #[must_use]
    pub fn next_call(&self) -> Call {
        if self.phase == 0 { Call::Tee } else { Call::Write }
    }

    fn pour_into(&mut self, into: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        // tee(2) begins at the head of the pipe, and so at the start of the pattern.
        let poured = if self.phase == 0 {
            sys::pipe::tee(self.pipe.read_end(), into, most, SpliceFlags::NONBLOCK)?
        } else {
            let into = Endpoint::of_borrowed(into)?;
            // tee(2) refuses what is no pipe; nor may the rest of a pattern be written there.
            if into.kind() != Kind::Pipe {
                return Err(Errno::INVAL);
            }
            let rest = &self.pattern[self.phase..];
            // The rest of a pattern is copied: slots cannot be taken from the middle.
            Port::new(&into, None).write(&rest[..rest.len().min(most)])?
        };
        self.phase = (self.phase + poured) % self.pattern.len();
        Ok(poured)
    }
}

/// A pipe that holds `unit` and nothing else, in slots of a page.
fn seed_by_writing(unit: &[u8], pipe_bytes: usize) -> io::Result<Pipe> {
    // A separate pipe: it holds the seed once, and is closed after the tee.
    let mut pipe = Pipe::new(pipe_bytes)?;
    let mut rest = unit;
    while !rest.is_empty() {
        match super::write_now(pipe.write_end(), rest) {
            Ok(put) => {
                pipe.put(put);
                rest = &rest[put..];
            }
            // The pattern is larger than the pipe, which nobody reads: waiting would never end.
            Err(Errno::AGAIN) => return Err(Errno::INVAL),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(pipe)
}

/// The same, in fat slots.
fn seed_through_socket(unit: &[u8], pipe_bytes: usize) -> Result<Pipe, (Call, Errno)> {
    let mut pipe = Pipe::new(pipe_bytes).map_err(|errno| (Call::Pipe, errno))?;
    let mut socket = Fattener::new()?;
    let mut taken = 0;
    while taken < unit.len() || socket.held_bytes() > 0 {
        taken += socket.take(&unit[taken..]).map_err(|errno| (Call::Send, errno))?;
        match socket.pass_on(pipe.write_end()) {
            Ok(passed) => pipe.put(passed),
            Err(Errno::AGAIN) => return Err((Call::Splice, Errno::INVAL)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err((Call::Splice, errno)),
        }
    }
    Ok(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// None, with a message, where the kernel or a filter refuses tee(2).
    fn reservoir(pattern: &[u8], bytes: usize) -> Option<Reservoir> {
        match Reservoir::of(pattern, bytes) {
            Err(Errno::NOSYS | Errno::PERM) => {
                gush_test::not_applicable("tee(2) is refused: there are no reservoirs");
                None
            }
            answer => Some(answer.expect("a reservoir")),
        }
    }

    #[test]
    fn the_pattern_goes_on_where_the_last_pour_ended() {
        for pattern in [&b"x"[..], b"abc", &[7; 5000], &[b'0'; 40_000]] {
            let mut numbered = pattern.to_vec();
            numbered.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= (at % 251) as u8);
            let (mut reader, writer) = std::io::pipe().expect("pipe");
            let Some(mut reservoir) = reservoir(&numbered, 1 << 20) else { return };
            let mut seen = Vec::new();
            for most in [1, 4096, 70_001, 3, 32_768, 65_536, 12_345] {
                let poured = reservoir.pour(&writer, most).expect("pour");
                let mut got = vec![0; poured];
                reader.read_exact(&mut got).expect("read");
                seen.extend(got);
            }
            let expected: Vec<u8> = numbered.iter().copied().cycle().take(seen.len()).collect();
            assert!(seen == expected, "a pattern of {} bytes", numbered.len());
        }
    }

    #[test]
    fn only_a_pipe_is_poured_into_in_the_middle_of_the_pattern_too() {
        let (_reader, writer) = std::io::pipe().expect("pipe");
        let file = tempfile::tempfile().expect("file");
        let Some(mut reservoir) = reservoir(b"yes\n", 65536) else { return };
        for poured in [4, 5] {
            assert_eq!(reservoir.pour(&writer, poured), Ok(poured));
            assert_eq!(reservoir.pour(&file, 10), Err(Errno::INVAL), "after {poured} bytes");
            assert_eq!(
                reservoir.pour_blocking(&file, 10),
                Err(Errno::INVAL),
                "after {poured} bytes"
            );
        }
        assert_eq!(file.metadata().expect("metadata").len(), 0);
    }

    #[test]
    fn slots_filled_through_a_socket_are_fat() {
        if let Err((call, errno)) = Fattener::new() {
            gush_test::not_applicable(&format!("a socket that is spliced on: {call}: {errno}"));
            return;
        }
        let Some(reservoir) = reservoir(b"x", 65536) else { return };
        // 32 KiB a slot where memory is not fragmented; a write would have put 4 KiB in each.
        assert!(reservoir.held_bytes() >= 2 * 65536, "{} bytes", reservoir.held_bytes());
    }
}
