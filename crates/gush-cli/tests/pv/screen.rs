//! The drawings of `gush pv` on a terminal, and the cases without any.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::common::gush;
use crate::common::link::eventually;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, Winsize, tcflow, tcsetwinsize};
use tempfile::TempDir;

/// A terminal with so many columns, and everything that is drawn there.
struct Terminal {
    side: OwnedFd,
    drawn: JoinHandle<Vec<u8>>,
    master: File,
}

impl Terminal {
    fn new(columns: u16) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = name.to_str().unwrap().to_owned();
        let side = File::options().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&side, size).unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let drawn = std::thread::spawn(move || {
            let (mut all, mut piece) = (Vec::new(), [0; 4096]);
            // The master answers EIO once nobody has the other side open.
            while let Ok(bytes @ 1..) = reader.read(&mut piece) {
                all.extend_from_slice(&piece[..bytes]);
            }
            all
        });
        Self { side: side.into(), drawn, master }
    }

    fn resize(&self, columns: u16) {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).unwrap();
    }

    fn pv(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = gush();
        // Several `pv -c` share a file there: the user's own must not be met.
        command.arg("pv").args(args).current_dir(dir).env("XDG_RUNTIME_DIR", dir);
        command.stdout(Stdio::null()).stderr(self.side.try_clone().unwrap());
        command
    }

    /// All that was drawn, once every program has gone.
    fn drawn(self) -> String {
        // Or the reading thread would never see the last program go.
        drop((self.side, self.master));
        String::from_utf8(self.drawn.join().unwrap()).unwrap()
    }
}

fn feed(child: &mut Child, bytes: &[u8]) {
    child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// The screen after these bytes: the rows without blanks at their ends.
fn screen(drawn: &str) -> Vec<String> {
    let mut rows = vec![Vec::<char>::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = drawn;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => {
                let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                let number = rest[1..end].parse::<usize>();
                match (&rest[end..=end], number) {
                    ("A", Ok(number)) => row -= number,
                    ("B", Ok(number)) => row += number,
                    ("K", _) => rows[row].truncate(column),
                    other => panic!("{other:?} in {drawn:?}"),
                }
                rest = &rest[end + 1..];
            }
            _ => {
                let least = rows[row].len().max(column + 1);
                rows[row].resize(least, ' ');
                rows[row][column] = letter;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn the_last_line_fills_the_terminal_and_stays() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), [7; 2048]).unwrap();
    let terminal = Terminal::new(60);
    assert!(terminal.pv(dir.path(), &["-pb", "-i", "600", "file"]).status().unwrap().success());
    let bar = "=".repeat(44);
    assert_eq!(terminal.drawn(), format!("2.00KiB [{bar}>] 100%\r\r\n"));
}

#[test]
fn a_line_follows_the_width_of_the_terminal() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(50);
    let mut child =
        terminal.pv(dir.path(), &["-p", "-i", "600"]).stdin(Stdio::piped()).spawn().unwrap();
    feed(&mut child, b"some bytes");
    // Between the first line and the last: the width is asked for at each line.
    terminal.resize(30);
    end(child);
    let drawn = terminal.drawn();
    assert_eq!(drawn.trim_end().chars().count(), 30, "{drawn:?}");
}

#[test]
fn several_pv_have_a_line_each() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(40);
    let lines = || {
        let text = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path()).unwrap();
        let file = std::fs::read_dir(dir.path()).unwrap().flatten().next();
        file.map(|entry| text(entry).lines().count())
    };
    let mut children = Vec::new();
    for name in ["one", "two", "three"] {
        let args = ["-c", "-N", name, "-b", "-i", "0.1"];
        let child = terminal.pv(dir.path(), &args).stdin(Stdio::piped()).spawn().unwrap();
        children.push(child);
        // Lines are given in the order in which they are asked for.
        eventually("its line", || lines() == Some(children.len()));
    }
    for (child, bytes) in children.iter_mut().zip([1024, 2048, 4096]) {
        feed(child, &vec![0; bytes]);
    }
    // They end in another order than they began.
    children.rotate_left(2);
    children.into_iter().for_each(end);
    assert_eq!(lines(), None, "the last one removes the file");
    let drawn = terminal.drawn();
    let rows = screen(&drawn);
    assert_eq!(
        rows,
        ["      one: 1.00KiB", "      two: 2.00KiB", "    three: 4.00KiB", ""],
        "{drawn:?}"
    );
}

#[test]
fn a_pv_that_was_killed_has_no_line_any_more() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(40);
    let lines = || {
        let file = std::fs::read_dir(dir.path()).unwrap().flatten().next();
        file.map(|entry| std::fs::read_to_string(entry.path()).unwrap())
    };
    let mut command = terminal.pv(dir.path(), &["-c", "-b", "-i", "0.1"]);
    let mut start = || {
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let own = child.id().to_string();
        let has_own = |text: String| text.lines().last() == Some(&own);
        eventually("its line", || lines().is_some_and(has_own));
        child
    };
    let mut killed = start();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let next = start();
    assert_eq!(lines(), Some(format!("{}\n", next.id())));
    end(next);
    assert_eq!(lines(), None);
}

#[test]
fn a_query_gives_its_line_back() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(40);
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let asked = terminal.pv(dir.path(), &["-q"]).stdin(Stdio::piped()).spawn().unwrap();
    let pid = asked.id().to_string();
    let mut change = terminal.pv(dir.path(), &["-R", &pid]);
    change.stderr(Stdio::null());
    eventually("an answer", || change.status().unwrap().success());
    let mut query = terminal.pv(dir.path(), &["-Q", &pid, "-c"]).spawn().unwrap();
    eventually("its line", || files() == 1);
    end(asked);
    assert!(query.wait().unwrap().success());
    assert_eq!(files(), 0);
}

#[test]
fn a_pid_file_that_cannot_be_written_leaves_no_line_either() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(40);
    let pid = std::process::id().to_string();
    for what in [&["/etc/passwd"][..], &["--pipeline", &pid]] {
        let arguments = [&["-c", "-P", "/nonexistent/pid"][..], what].concat();
        let mut command = terminal.pv(dir.path(), &arguments);
        assert!(!command.stdout(Stdio::null()).status().unwrap().success(), "{arguments:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

#[test]
fn pv_that_come_and_go_together_leave_nothing() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(40);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let ended = terminal.pv(dir.path(), &["-c", "-b", "/dev/null"]).status();
                    assert!(ended.unwrap().success());
                }
            });
        }
    });
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // Each has drawn in a line of its own, below the others.
    assert_eq!(screen(&terminal.drawn()).iter().filter(|row| row.contains("0.00  B")).count(), 100);
}

#[test]
fn a_message_has_a_line_of_its_own() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), "bytes").unwrap();
    let terminal = Terminal::new(80);
    let mut child = terminal
        .pv(dir.path(), &["-b", "-i", "0.1", "-", "nofile"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    feed(&mut child, b"bytes");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let rows = screen(&terminal.drawn());
    let message = "gush: pv: nofile: open failed: No such file or directory";
    assert!(rows.iter().any(|row| row == message), "{rows:?}");
    assert_eq!(rows.iter().rev().nth(1).map(String::as_str), Some("5.00  B"), "{rows:?}");
}

#[test]
fn a_signal_leaves_the_cursor_on_a_new_line() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(80);
    let mut child = terminal
        .pv(dir.path(), &["-b", "-i", "0.1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    feed(&mut child, b"bytes");
    // Waiting for a child closes the input that it has; here only the signal is to end the
    // transfer.
    let input = child.stdin.take();
    let mut arrived = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut arrived).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(32));
    drop(input);
    let drawn = terminal.drawn();
    // Nothing was shown yet, or a whole line.
    assert!(drawn.is_empty() || drawn.ends_with("\r\r\n"), "{drawn:?}");
}

#[test]
fn a_stopped_terminal_keeps_no_transfer_from_its_end_by_a_signal() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(80);
    tcflow(&terminal.side, Action::OOff).unwrap();
    let mut child = terminal
        .pv(dir.path(), &["-i", "0.1", "-P", "pid", "/dev/zero"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // Several lines are due meanwhile: the first one waits for the terminal.
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    eventually("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(32));
    assert!(!dir.path().join("pid").exists());
    tcflow(&terminal.side, Action::OOn).unwrap();
    drop(terminal.drawn());
}

/// The state of a process: one letter of proc_pid_stat(5).
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}

#[test]
fn no_clock_runs_while_the_terminal_has_stopped_the_transfer() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(80);
    let began = Instant::now();
    let mut command = terminal.pv(dir.path(), &["-n", "-t", "-i", "600", "--stall-timeout", "50"]);
    // Nobody could make a process go on whose group has no parent outside.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    feed(&mut child, b"bytes");
    let mut arrived = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut arrived).unwrap();
    kill_process(Pid::from_child(&child), Signal::TSTP).unwrap();
    eventually("a stop", || state(child.id()) == 'T');
    let stopped = Instant::now();
    // Longer than the test takes otherwise, so that a clock that runs on is seen.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let stopped = stopped.elapsed();
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    feed(&mut child, b"more");
    let output = child.wait_with_output().unwrap();
    let most = began.elapsed() - stopped;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"more");
    let said = String::from_utf8(output.stderr).unwrap();
    let shown: f64 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(shown <= most.as_secs_f64(), "{shown} of {most:?}");
    drop(terminal.drawn());
}

#[test]
fn a_transfer_in_the_background_leaves_the_terminal_alone_and_is_not_stopped() {
    let dir = TempDir::new().unwrap();
    let terminal = Terminal::new(80);
    let side = || terminal.side.try_clone().unwrap();
    let mut command = Command::new("bash");
    // Writing from the background stops a program on this terminal, unless the program sees to
    // that.
    let line =
        "stty tostop; echo shell; \"$G\" pv -b -i 0.1 nofile pipe >got & wait $!; echo status $?";
    command.args(["-m", "-c", line]).current_dir(dir.path());
    command.env("G", env!("CARGO_BIN_EXE_gush")).env("XDG_RUNTIME_DIR", dir.path());
    command.stdin(side()).stdout(side()).stderr(side());
    gush_process::in_new_session(&mut command, Some(rustix::stdio::stdin()));
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut writer = File::options().write(true).open(&pipe).unwrap();
    writer.write_all(b"bytes").unwrap();
    let got = dir.path().join("got");
    eventually("the bytes", || std::fs::read(&got).is_ok_and(|got| got == b"bytes"));
    // Several readings are due meanwhile, and none is seen.
    std::thread::sleep(std::time::Duration::from_millis(400));
    drop(writer);
    assert!(child.wait().unwrap().success());
    let drawn = terminal.drawn();
    // The shell itself says that its job has ended.
    let drawn: String = drawn.split_inclusive('\n').filter(|line| !line.starts_with('[')).collect();
    let message = "gush: pv: nofile: open failed: No such file or directory\r\n";
    assert_eq!(drawn, format!("shell\r\n{message}status 2\r\n"));
}

#[test]
fn nothing_is_drawn_where_no_terminal_is() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), "bytes").unwrap();
    let run = |args: &[&str]| {
        let output = gush().arg("pv").args(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.stdout, b"bytes");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&["file"]), "");
    assert_eq!(run(&["-c", "file"]), "");
    assert_eq!(run(&["-f", "-q", "file"]), "");
    assert_eq!(run(&["-f", "-b", "-i", "600", "file"]), "5.00  B\r\n");
    assert_eq!(run(&["-n", "-i", "600", "file"]), "100\n");
}

#[test]
fn a_name_of_a_file_that_is_no_text_is_shown_as_far_as_it_is() {
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.bin");
    let mut command = gush();
    command.args(["pv", "-f", "-b", "-i", "600", "-N"]).arg(name);
    let output = command.arg("/dev/null").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("caf\u{fffd}.bin: 0.00  B"), "{said}");
}

#[test]
fn what_passed_last_is_shown() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), "one\ntwo\nthree").unwrap();
    let run = |format: &str| {
        let args = ["pv", "-f", "-i", "600", "-w", "30", "-F", format, "file"];
        let output = gush().args(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.stdout, b"one\ntwo\nthree");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run("<%7A>"), "<o.three>\r\n");
    assert_eq!(run("<%5L>"), "<two  >\r\n");
    assert_eq!(run("%b:%L"), format!("13.0  B:two{}\r\n", " ".repeat(19)));
    assert_eq!(run("%{sgr:green}%b%{sgr:reset}"), "\x1b[32m13.0  B\x1b[0m\r\n");
}

#[test]
fn a_terminal_is_an_input_and_an_output() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), "one\ntwo\n").unwrap();
    let ways = ["-q", "-q -l", "-q -C", "-n -i 600", "-q -O", "-q -l -S -s 9", "-q -X"];
    for words in ways {
        let args: Vec<&str> = words.split(' ').collect();
        let terminal = Terminal::new(80);
        let side = || Stdio::from(terminal.side.try_clone().unwrap());
        // A line, and the end of the input, which is the end of one reader's input only.
        for _ in 0..2 {
            (&terminal.master).write_all(b"one\ntwo\n\x04").unwrap();
            let mut command = terminal.pv(dir.path(), &args);
            let output =
                command.stdin(side()).stdout(Stdio::piped()).stderr(Stdio::null()).output();
            let output = output.unwrap();
            let wanted = if words.contains("-X") { "" } else { "one\ntwo\n" };
            assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{words}");
            assert!(output.status.success(), "{words}");
        }
        drop(terminal.drawn());
        let terminal = Terminal::new(80);
        let side = || Stdio::from(terminal.side.try_clone().unwrap());
        let mut command = terminal.pv(dir.path(), &[&args[..], &["file"]].concat());
        assert!(command.stdout(side()).stderr(Stdio::null()).status().unwrap().success());
        drop(command);
        let wanted = if words.contains("-X") { "" } else { "one\r\ntwo\r\n" };
        assert_eq!(terminal.drawn(), wanted, "{words}");
    }
}

#[test]
fn the_window_has_a_title_as_long_as_the_transfer() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), [7; 2048]).unwrap();
    for (args, drawn) in [
        (&["-q", "-x", "windowtitle:%b"][..], "\x1b[22;2t\x1b]2;2.00KiB\x1b\\\x1b[23;2t"),
        (&["-b", "-x", "window"], "2.00KiB\r\x1b[22;2t\x1b]2;2.00KiB\x1b\\\x1b[23;2t\r\n"),
        (&["-b", "-x", "process"], "2.00KiB\r\r\n"),
    ] {
        let terminal = Terminal::new(60);
        let args = [args, &["-i", "600", "file"]].concat();
        assert!(terminal.pv(dir.path(), &args).status().unwrap().success());
        assert_eq!(terminal.drawn(), drawn, "{args:?}");
    }
    let output = gush().args(["pv", "-x", "window", "/dev/null"]).output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "no window");
}

#[test]
fn the_process_has_a_title() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    command
        .args(["pv", "-q", "-i", "0.1", "-x", "processtitle:%b, last %3A"])
        .current_dir(dir.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    feed(&mut child, b"bytes");
    let title = || std::fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
    eventually("the title", || title().trim_end_matches('\0') == "pv: 5.00  B, last tes");
    end(child);
}

#[test]
fn wide_characters_take_their_columns() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), [7; 2048]).unwrap();
    for (name, shown) in [
        ("休日の写真", "休日の写真: 2.00KiB [=========>] 100%"),
        ("e\u{301}", "        e\u{301}: 2.00KiB [==========>] 100%"),
        ("写真", "     写真: 2.00KiB [==========>] 100%"),
    ] {
        let args = ["pv", "-f", "-pb", "-i", "600", "-w", "37", "-N", name, "file"];
        let output = gush().args(args).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, format!("{shown}\r\n"), "{name}");
    }
}

#[test]
fn statistics_come_last() {
    let dir = TempDir::new().unwrap();
    for (args, shown) in [(&["-f", "-b"][..], "0.00  B\r\n"), (&["-q"], ""), (&[], "")] {
        let mut command = gush();
        command.args(["pv", "-v", "-i", "600"]).args(args).current_dir(dir.path());
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let statistics = said.strip_prefix(shown).unwrap_or_else(|| panic!("{args:?}: {said}"));
        // A transfer of more than 10 ms, on a busy machine, has a rate.
        let rates = "rate min/avg/max/mdev = 0.000/0.000/0.000/0.000 B/s\n";
        assert!(["rate not measured\n", rates].contains(&statistics), "{args:?}: {said}");
    }
}
