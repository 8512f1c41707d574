//! The steps of a peer, and the signs that it saw meanwhile. The same scripts are played by threads
//! of the test, and by programs that the tested link starts.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::PATIENCE;
use crate::port::{Heard, Port};

/// No flood is longer: the other side reads nothing, and no buffer on the way holds as much.
const FLOOD_BYTES: usize = 256 << 20;

/// A slow reader pauses after each such piece.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends so many bytes.
    Send(usize),
    /// Sends until refused.
    Flood,
    /// Ends the peer's own data, and can still read.
    End,
    /// Reads until so many bytes have come.
    Hear(usize),
    /// Reads to the end.
    Rest,
    /// Waits until so many bytes have come, and reads none of them.
    Pending(usize),
    /// Pauses between reads from now on.
    Slow,
    /// Lets everybody know.
    Mark(String),
    Await(String),
    /// Ends the peer's own data without a word of TLS.
    Cut,
    /// Sends a record that is none of TLS.
    Garble,
    /// Closes both directions, with the word of TLS.
    Close,
    /// Closes both directions; a program exits with 0.
    Leave,
    /// Closes without an end: lingering for no time (socket(7)).
    Reset,
    /// A program exits with this status.
    Exit(u8),
    /// A program kills itself by SIGKILL.
    Kill,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send(bytes) => write!(f, "send {bytes}"),
            Step::Flood => f.write_str("flood"),
            Step::End => f.write_str("end"),
            Step::Hear(bytes) => write!(f, "hear {bytes}"),
            Step::Rest => f.write_str("rest"),
            Step::Pending(bytes) => write!(f, "pending {bytes}"),
            Step::Slow => f.write_str("slow"),
            Step::Mark(name) => write!(f, "mark {name}"),
            Step::Await(name) => write!(f, "await {name}"),
            Step::Cut => f.write_str("cut"),
            Step::Garble => f.write_str("garble"),
            Step::Close => f.write_str("close"),
            Step::Leave => f.write_str("leave"),
            Step::Reset => f.write_str("reset"),
            Step::Exit(status) => write!(f, "exit {status}"),
            Step::Kill => f.write_str("kill"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = || rest.parse::<usize>().map_err(|error| format!("{line}: {error}"));
        Ok(match word {
            "send" => Step::Send(number()?),
            "flood" => Step::Flood,
            "end" => Step::End,
            "hear" => Step::Hear(number()?),
            "rest" => Step::Rest,
            "pending" => Step::Pending(number()?),
            "slow" => Step::Slow,
            "mark" => Step::Mark(rest.to_owned()),
            "await" => Step::Await(rest.to_owned()),
            "cut" => Step::Cut,
            "garble" => Step::Garble,
            "close" => Step::Close,
            "leave" => Step::Leave,
            "reset" => Step::Reset,
            "exit" => Step::Exit(u8::try_from(number()?).map_err(|error| error.to_string())?),
            "kill" => Step::Kill,
            _ => return Err(format!("no step: {line}")),
        })
    }
}

/// The sign that a peer saw after the last byte received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saw {
    /// The peer did not look, or the kind of end shows nothing.
    Nothing,
    End,
    /// The connection's end without the close_notify of TLS, or an alert in its place.
    Cut,
    Reset,
    /// SIGTERM ended the program.
    Terminated,
    /// Something else ended the program before the script did.
    Death,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub sent_bytes: usize,
    pub heard_bytes: usize,
    /// Were those the bytes that the other side sends, in order?
    pub sound: bool,
    pub saw: Saw,
    /// Did a send fail because nobody takes bytes any more?
    pub refused: bool,
}

impl Report {
    pub const NONE: Self =
        Self { sent_bytes: 0, heard_bytes: 0, sound: true, saw: Saw::Nothing, refused: false };
}

/// Marks that everybody sees: files of one directory.
#[derive(Clone, Debug)]
pub struct Marks(pub PathBuf);

impl Marks {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("mark.{name}"))
    }

    pub fn set(&self, name: &str) {
        File::create(self.path(name)).unwrap();
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Waits for a mark; that the link is over serves for each.
    pub fn wait(&self, name: &str) {
        let start = Instant::now();
        while !self.is_set(name) && !self.is_set("over") {
            assert!(start.elapsed() < PATIENCE, "nobody has set the mark '{name}'");
            sleep(Duration::from_millis(2));
        }
    }
}

/// The byte at an offset of all streams: lines of lower-case letters, which pass through terminals
/// unchanged. Lines differ, so that no piece is another's.
fn byte_at(offset: usize) -> u8 {
    let (line, column) = (offset / 64, offset % 64);
    if column == 63 { b'\n' } else { b'a' + ((column + line * 7 + (line / 26) * 3) % 26) as u8 }
}

pub fn bytes(from: usize, count: usize) -> Vec<u8> {
    // 26 times 26 lines later the stream begins anew: one of these periods is made, and copied ever
    // after.
    static PERIOD: LazyLock<Vec<u8>> = LazyLock::new(|| (0..26 * 26 * 64).map(byte_at).collect());
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let rest = &PERIOD[(from + all.len()) % PERIOD.len()..];
        all.extend_from_slice(&rest[..rest.len().min(count - all.len())]);
    }
    all
}

/// Plays one script at one port.
pub struct Player<'a> {
    pub port: Port,
    pub marks: &'a Marks,
    pub report: Report,
    pub is_slow: bool,
}

/// The last act of a program's player.
#[derive(Debug, PartialEq, Eq)]
pub enum Last {
    Left,
    Exits(u8),
    KillsItself,
}

impl Player<'_> {
    pub fn play(&mut self, steps: &[Step]) -> Last {
        for step in steps {
            match step {
                Step::Send(count) => self.send(*count),
                Step::Flood => self.send(FLOOD_BYTES),
                Step::End => self.port.end(),
                Step::Hear(count) => self.hear(*count),
                Step::Rest => self.hear(usize::MAX),
                Step::Pending(count) => self.pending(*count),
                Step::Slow => self.is_slow = true,
                Step::Mark(name) => self.marks.set(name),
                Step::Await(name) => self.marks.wait(name),
                Step::Cut => self.port.cut(),
                Step::Garble => self.port.garble(),
                Step::Close => self.port.close(),
                Step::Leave => {
                    self.port.say_end();
                    return Last::Left;
                }
                Step::Reset => {
                    self.port.reset();
                    return Last::Left;
                }
                Step::Exit(status) => return Last::Exits(*status),
                Step::Kill => return Last::KillsItself,
            }
        }
        Last::Left
    }

    fn send(&mut self, count: usize) {
        if !self.port.can_send() {
            return;
        }
        let upto = self.report.sent_bytes + count;
        let mut block = Vec::new();
        while self.report.sent_bytes < upto {
            if block.is_empty() {
                block = bytes(self.report.sent_bytes, (upto - self.report.sent_bytes).min(1 << 16));
            }
            let sent = self.port.send(&block);
            let Some(sent_bytes) = self.taken(sent) else { return };
            self.report.sent_bytes += sent_bytes;
            block.drain(..sent_bytes);
        }
        let flushed = self.port.flush();
        let _ = self.taken(flushed.map(|()| 0));
    }

    /// How many bytes a call took, unless nobody takes any more.
    fn taken(&mut self, answer: Result<usize, Errno>) -> Option<usize> {
        match answer {
            Ok(count) => Some(count),
            Err(Errno::INTR | Errno::AGAIN) => Some(0),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::IO) => {
                self.report.refused = true;
                None
            }
            Err(errno) => panic!("write: {errno}"),
        }
    }

    /// Reads until `upto` bytes have come in all, or to the end.
    fn hear(&mut self, upto: usize) {
        if !self.port.can_hear() {
            return;
        }
        let mut buffer = vec![0; 1 << 16];
        while self.report.heard_bytes < upto && self.report.saw == Saw::Nothing {
            let heard = match self.port.endless && !self.port.has_something() {
                true => Heard::Nothing,
                false => self.port.hear(&mut buffer),
            };
            match heard {
                Heard::Bytes(count) => {
                    let expected = bytes(self.report.heard_bytes, count);
                    self.report.sound &= buffer[..count] == expected[..];
                    let pauses = self.report.heard_bytes / PIECE_BYTES;
                    self.report.heard_bytes += count;
                    if self.is_slow && self.report.heard_bytes / PIECE_BYTES > pauses {
                        sleep(Duration::from_millis(1));
                    }
                }
                // The end of a file that may still grow.
                Heard::Last(Saw::End) | Heard::Nothing if self.port.endless => {
                    if self.marks.is_set("over") {
                        return;
                    }
                    sleep(Duration::from_millis(2));
                }
                Heard::Last(saw) => self.report.saw = saw,
                Heard::Nothing => {}
            }
        }
    }

    fn pending(&self, count: usize) {
        if !self.port.can_hear() {
            return;
        }
        let start = Instant::now();
        while self.port.unread_bytes() < count {
            assert!(start.elapsed() < PATIENCE, "{count} bytes never come");
            sleep(Duration::from_millis(2));
        }
    }
}

/// Writes a script for a program to `path`.
pub fn write_script(path: &Path, steps: &[Step]) {
    let lines: Vec<String> = steps.iter().map(Step::to_string).collect();
    fs::write(path, lines.join("\n")).unwrap();
}

pub fn read_script(path: &Path) -> io::Result<Vec<Step>> {
    let steps = fs::read_to_string(path)?;
    steps.lines().map(|line| line.parse().map_err(io::Error::other)).collect()
}
