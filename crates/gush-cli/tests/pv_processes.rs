//! `gush pv` and other processes: their files (-d), and another `gush pv` (-R, -Q).

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use common::link::eventually;
use common::shell::said;
use common::{copied_gush, gush, nobody, noise, skipped};
use tempfile::TempDir;

/// A number that no process has: above the largest pid_max.
const NOBODY: &str = "2147483646";

fn pv(args: &[&str]) -> Command {
    let mut command = gush();
    command.arg("pv").args(args);
    command
}

/// A running `gush pv`, and the lines of its output.
struct Running {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { child, said }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Reads lines until one is this one.
    fn says(&mut self, wanted: &str) {
        let mut all = String::new();
        loop {
            let before = all.len();
            let read = self.said.read_line(&mut all).unwrap();
            assert!(read > 0, "no line {wanted:?} in {all:?}");
            if all[before..].trim_end() == wanted {
                return;
            }
        }
    }

    /// Reads until all of these have been drawn.
    fn draws(&mut self, wanted: &[&str]) {
        let (mut all, mut piece) = (String::new(), [0; 4096]);
        while !wanted.iter().all(|word| all.contains(word)) {
            let bytes = self.said.read(&mut piece).unwrap();
            assert!(bytes > 0, "not all of {wanted:?} in {all:?}");
            all.push_str(&String::from_utf8_lossy(&piece[..bytes]));
        }
    }

    /// Waits for the end; returns the status and the written bytes.
    fn ends(mut self) -> (Option<i32>, Vec<u8>) {
        let mut written = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut written).unwrap();
        let mut rest = Vec::new();
        self.said.read_to_end(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), written)
    }
}

#[test]
fn a_descriptor_is_watched_until_it_is_closed() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 1000]).unwrap();
    let target = format!("{}:{}", std::process::id(), file.as_raw_fd());
    let mut watching = Running::start(pv(&["-d", &target, "-n", "-b", "-i", "0.1"]));
    watching.says("1000");
    file.seek(SeekFrom::Start(70)).unwrap();
    watching.says("70");
    drop(file);
    assert_eq!(watching.ends(), (Some(0), Vec::new()));
}

#[test]
fn what_is_read_has_a_size_and_what_is_written_gets_one_by_an_option() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [1; 400]).unwrap();
    let mut read = File::open(&path).unwrap();
    read.read_exact(&mut [0; 100]).unwrap();
    let mut written = File::options().append(true).open(&path).unwrap();
    written.write_all(b"x").unwrap();
    // The position of a file that is appended to is after its last byte.
    for (file, words, percent) in [(&read, &[][..], "25"), (&written, &["-s", "802"], "50")] {
        let target = format!("{}:{}", std::process::id(), file.as_raw_fd());
        let args = [&["-d", &target, "-n", "-i", "0.1"], words].concat();
        let mut watching = Running::start(pv(&args));
        watching.says(percent);
        watching.child.kill().unwrap();
        watching.ends();
    }
}

#[test]
fn all_files_of_a_process_are_watched_until_it_ends() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), noise(3000, 1)).unwrap();
    let mut shell = Command::new("bash")
        .args(["-c", "exec 7<source 8>target; head -c 1000 <&7 >/dev/null; read line"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = shell.id().to_string();
    let mut watching =
        Running::start(pv(&["-d", &pid, "-f", "-p", "-b", "-i", "0.1", "-w", "900"]));
    let path = |name: &str| dir.path().canonicalize().unwrap().join(name).display().to_string();
    let (source, target) =
        (format!("   7:{}:", path("source")), format!("   8:{}:", path("target")));
    watching.draws(&[&source, &target]);
    // The shell may start to read before or after the first look.
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert_eq!(watching.ends(), (Some(0), Vec::new()));
}

#[test]
fn several_descriptors_of_several_processes_are_watched() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 1500]).unwrap();
    let own = format!("{}:{}", std::process::id(), file.as_raw_fd());
    let mut other =
        Command::new("sleep").arg("600").stdin(file.try_clone().unwrap()).spawn().unwrap();
    let second = format!("{}:0", other.id());
    let named = |pid: u32, fd: i32| format!("\"name\":\"{pid:>8}:{fd:>4}:");
    let both = [named(std::process::id(), file.as_raw_fd()), named(other.id(), 0)];
    let start = |words: &[&str]| {
        let mut watching = Running::start(pv(&[words, &["--json", "-i", "0.1"]].concat()));
        watching.draws(&[&both[0], &both[1]]);
        watching
    };
    let again = start(&["-d", &own, "-d", &second]);
    let with_nobody = start(&["-d", NOBODY, "-d", &own, "-d", &second]);
    let watching = start(&["-d", &own, &second]);
    drop(file);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(watching.ends().0, Some(0));
    assert_eq!(again.ends().0, Some(0));
    assert_eq!(with_nobody.ends().0, Some(2), "one of the processes was never there");
}

#[test]
fn processes_are_watched_by_their_name_and_by_a_list() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), noise(3000, 1)).unwrap();
    // A shell under another name, which stops itself.
    let stopped = |name: &str| {
        let program = dir.path().join(name);
        if !program.exists() {
            std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        }
        let input = File::open(dir.path().join("source")).unwrap();
        Command::new(program).args(["-c", "kill -STOP $$"]).stdin(input).spawn().unwrap()
    };
    // Names of this test's own: nobody else's processes have them.
    let short = format!("st{}", std::process::id());
    let long = format!("stopped-for-a-long-time-{}", std::process::id());
    let mut children = [stopped(&short), stopped(&short), stopped(&long)];
    let pids = children.each_ref().map(|child| child.id().to_string());
    let list = dir.path().join("list");
    let nobody = format!("nobody{}", std::process::id());
    fs::write(&list, format!("# pids\n{}:0\n\n={nobody}\n={short}\n", pids[2])).unwrap();
    let list = format!("@{}", list.display());
    for (args, watched) in [
        (vec![format!("={short}")], &pids[..2]),
        (vec![format!("={long}")], &pids[2..]),
        (vec![format!("={short}"), format!("={long}")], &pids[..]),
        (vec![list], &pids[..]),
    ] {
        let words = ["--json", "-i", "0.1", "-d"];
        let args: Vec<&str> = words.into_iter().chain(args.iter().map(String::as_str)).collect();
        let mut watching = Running::start(pv(&args));
        let several = watched.len() > 1;
        let name = |pid: &String| match several {
            true => format!("\"name\":\"{pid:>8}:   0:"),
            false => "\"name\":\"   0:".to_owned(),
        };
        let names: Vec<String> = watched.iter().map(name).collect();
        watching.draws(&names.iter().map(String::as_str).collect::<Vec<_>>());
        watching.child.kill().unwrap();
        watching.ends();
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn what_cannot_be_watched_is_reported() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let own = std::process::id();
    let pipe = format!("{own}:{}", reader.as_raw_fd());
    let closed = format!("{own}:1000000");
    for (args, status, words) in [
        (&["-d", NOBODY][..], 2, "pid 2147483646: No such process\n"),
        (
            &["-d", NOBODY, "-d", "2147483645"],
            2,
            "pid 2147483646: No such process\ngush: pv: pid 2147483645: No such process\n",
        ),
        (&["-d", "2147483646:1"], 2, "pid 2147483646: No such process\n"),
        (&["-d", &closed], 2, ": fd 1000000: No such file or directory\n"),
        (&["-d", &pipe], 2, "]: not a regular file or block device\n"),
        (&["-d", "x"], 64, "invalid --watchfd 'x': expected PID"),
        (&["-d", &closed, "file"], 64, "gush: pv: file: expected PID"),
        (&["-d", &closed, "-R", "1"], 64, "--watchfd"),
        (&["-d", "=there is no such name"], 0, "=there is no such name: no process with this name"),
        (&["-d", "@nolist"], 64, "@nolist: No such file or directory"),
        (&["-d", "="], 64, "missing name after ="),
    ] {
        let output = pv(args).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{args:?}: {}", said(&output));
    }
}

#[test]
fn another_users_process_may_not_be_seen() {
    let uid = match nobody() {
        Ok(uid) => uid,
        Err(why) => return skipped(&why),
    };
    let dir = TempDir::new().unwrap();
    let program = copied_gush(dir.path());
    for target in [std::process::id().to_string(), format!("{}:0", std::process::id())] {
        let mut command = Command::new(&program);
        command.args(["pv", "-d", &target]).uid(uid).gid(uid).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let words = "Permission denied (watching requires permission to trace the process: the same user or CAP_SYS_PTRACE)\n";
        assert!(said(&output).ends_with(words), "{}", said(&output));
    }
}

/// Asks the running one until the answer comes: the socket exists soon after the start.
fn answers(args: &[&str]) {
    let mut last = String::new();
    eventually("an answer", || {
        let output = pv(args).output().unwrap();
        last = said(&output);
        assert!(output.status.success() || last.contains("no gush pv"), "{last}");
        output.status.success()
    });
}

#[test]
fn a_running_transfer_gets_another_rate() {
    let bytes = noise(3_000_000, 5);
    let mut command = pv(&["-q", "-L", "1"]);
    command.stdin(Stdio::piped());
    let mut slow = Running::start(command);
    let mut input = slow.child.stdin.take().unwrap();
    let fed = bytes.clone();
    let feeder = std::thread::spawn(move || input.write_all(&fed).unwrap());
    answers(&["-R", &slow.pid(), "-L", "1G"]);
    let (status, written) = slow.ends();
    feeder.join().unwrap();
    assert_eq!(status, Some(0));
    assert!(written == bytes, "{} bytes", written.len());
}

/// By bytes, the transfer would take hours.
#[test]
fn a_rate_given_while_lines_are_counted_is_one_of_lines() {
    let line = [&[b'x'; 49_999][..], b"\n"].concat();
    for (lines, from_file) in [(60, false), (60, true), (400, true)] {
        let bytes = line.repeat(lines);
        let mut file = tempfile::tempfile().unwrap();
        let mut command = pv(&["-q", "-l"]);
        let (input, feeder) = match from_file {
            true => {
                file.write_all(&bytes).unwrap();
                file.rewind().unwrap();
                (Stdio::from(file), None)
            }
            false => {
                let (reader, mut writer) = std::io::pipe().unwrap();
                let bytes = bytes.clone();
                let feed = move || writer.write_all(&bytes).unwrap();
                (reader.into(), Some(std::thread::spawn(feed)))
            }
        };
        command.stdin(input);
        // Nobody reads before the rate is there, and a pipe holds no more than 1 MiB.
        let running = Running::start(command);
        answers(&["-R", &running.pid(), "-L", "200"]);
        let (status, written) = running.ends();
        assert_eq!(status, Some(0));
        assert!(written == bytes, "{lines} {from_file}: {} bytes", written.len());
        feeder.into_iter().for_each(|feeder| feeder.join().unwrap());
    }
}

#[test]
fn a_running_transfer_is_shown_in_another_form() {
    let mut command = pv(&["-f", "-F", "before", "-i", "600"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    answers(&["-R", &running.pid(), "-F", "%N%b of 10", "-N", "name", "-i", "0.1", "-s", "10"]);
    running.draws(&["     name:0.00  B of 10"]);
    running.child.stdin.as_mut().unwrap().write_all(b"bytes").unwrap();
    running.draws(&["     name:5.00  B of 10"]);
    answers(&["-R", &running.pid(), "-e", "-x", "proc:%b"]);
    running.draws(&["ETA "]);
    let title = format!("/proc/{}/cmdline", running.pid());
    eventually("the title", || fs::read_to_string(&title).unwrap().contains("pv: 5.00  B"));
    drop(running.child.stdin.take());
    assert_eq!(running.ends(), (Some(0), b"bytes".to_vec()));
}

#[test]
fn a_running_transfer_is_shown_elsewhere() {
    let mut command = pv(&["-q", "-s", "20"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    answers(&["-R", &running.pid()]);
    let mut bytes = Running::start(pv(&["-Q", &running.pid(), "-n", "-b", "-i", "0.1"]));
    bytes.says("0");
    running.child.stdin.as_mut().unwrap().write_all(b"bytes").unwrap();
    bytes.says("5");
    let mut percent = Running::start(pv(&["-Q", &running.pid(), "-n", "-i", "0.1"]));
    percent.says("25");
    drop(running.child.stdin.take());
    assert_eq!(running.ends(), (Some(0), b"bytes".to_vec()));
    assert_eq!(bytes.ends().0, Some(0));
    assert_eq!(percent.ends().0, Some(0));
}

#[test]
fn a_process_that_cannot_be_asked_is_reported() {
    let own = std::process::id().to_string();
    for option in ["-R", "-Q"] {
        for (pid, words) in [
            (NOBODY, "pv: 2147483646: No such process\n"),
            (&own, ": no gush pv with this PID (-R and -Q work only with gush pv)\n"),
        ] {
            let output = pv(&[option, pid]).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{option} {pid}: {}", said(&output));
            assert!(said(&output).ends_with(words), "{option} {pid}: {}", said(&output));
        }
    }
}

#[test]
fn nobody_else_may_ask() {
    let uid = match nobody() {
        Ok(uid) => uid,
        Err(why) => return skipped(&why),
    };
    let dir = TempDir::new().unwrap();
    let program = copied_gush(dir.path());
    let mut command = pv(&["-q"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    answers(&["-R", &running.pid()]);
    for option in ["-R", "-Q"] {
        let mut command = Command::new(&program);
        command.args(["pv", option, &running.pid()]).uid(uid).gid(uid).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let words = ": the process ended or belongs to another user\n";
        assert!(said(&output).ends_with(words), "{}", said(&output));
    }
    drop(running.child.stdin.take());
    assert_eq!(running.ends().0, Some(0));
}
