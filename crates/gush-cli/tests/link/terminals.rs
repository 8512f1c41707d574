//! Pseudo-terminals and serial lines as ends of `gush link`. A serial line is a pseudo-terminal
//! here.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::link::{Killed, Running, echo, eventually, server};
use crate::common::{gush, nobody, skipped};
use crate::socat::programs;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios,
    tcgetattr, tcsetattr,
};
use tempfile::TempDir;

/// A line: our side, and the name of the other.
pub fn line() -> (OwnedFd, PathBuf) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    (ours, name)
}

/// Opens a terminal without making this the controlling terminal.
pub fn opened(path: &Path) -> File {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
    File::options().read(true).write(true).custom_flags(flags).open(path).unwrap()
}

/// Says `words`, and hears the same again.
fn talk(terminal: &mut File, words: &[u8]) {
    terminal.write_all(words).unwrap();
    let mut heard = vec![0; words.len()];
    terminal.read_exact(&mut heard).unwrap();
    assert_eq!(heard, words);
}

/// Everything of the settings that can be compared.
fn settings(terminal: &OwnedFd) -> String {
    let all = tcgetattr(terminal).unwrap();
    let Termios { input_modes, output_modes, local_modes, .. } = &all;
    // Without the speed of the input (CIBAUD), where 0 is that of the output.
    let control_modes = all.control_modes - ControlModes::from_bits_retain(0x100f_0000);
    let codes = [SpecialCodeIndex::VMIN, SpecialCodeIndex::VTIME, SpecialCodeIndex::VINTR]
        .map(|index| all.special_codes[index]);
    let numbers = (all.output_speed(), all.input_speed(), codes);
    format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?} {numbers:?}")
}

#[test]
fn a_pty_has_a_link_as_long_as_it_lives_and_ends_with_the_program_it_waited_for() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("tty");
    let address = format!("pty,raw,mode=640,wait-slave,link={}", name.display());
    let link = Running::start(&[&address, &format!("tcp:{}", echo())]);
    link.says("PTY is /dev/pts/");
    eventually("the link is there", || name.exists());
    let target = fs::read_link(&name).unwrap();
    assert!(target.starts_with("/dev/pts"), "{target:?}");
    assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o640);
    let mut terminal = opened(&name);
    talk(&mut terminal, b"as it is\r\n\x03\x04\x7f");
    drop(terminal);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(name.symlink_metadata().is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_link_of_a_pty_may_have_the_longest_name() {
    let dir = TempDir::new().unwrap();
    let names = ["n".repeat(255), "ö".repeat(127)];
    for name in names.map(|name| dir.path().join(name)) {
        let address = format!("pty,raw,wait-slave,link={}", name.display());
        let link = Running::start(&[&address, &format!("tcp:{}", echo())]);
        link.says("PTY is /dev/pts/");
        eventually("the link is there", || name.exists());
        talk(&mut opened(&name), b"x");
        assert_eq!(link.finish().0.code(), Some(0));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// As with socat: programs open a serial line and close it again, and a virtual one is there all
/// the time.
#[test]
fn a_pty_serves_one_program_after_the_other() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let [one, other] =
        ["one", "other"].map(|name| format!("pty,raw,link={}", path(name).display()));
    let mut link = Running::start(&[&one, &other]);
    eventually("both links are there", || path("one").exists() && path("other").exists());
    for _ in 0..3 {
        let [mut one, mut other] = ["one", "other"].map(|name| opened(&path(name)));
        let mut heard = [0; 4];
        one.write_all(b"ask?").unwrap();
        other.read_exact(&mut heard).unwrap();
        other.write_all(&heard).unwrap();
        one.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ask?");
    }
    assert!(link.is_running());
    link.signal(Signal::TERM);
    link.finish();
    assert!(path("one").symlink_metadata().is_err());
}

/// As with socat: the program that opens the link meets the client who came last, though others
/// have not been read.
#[test]
fn of_clients_with_a_pty_each_the_newest_has_the_link() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("line");
    let link = Running::start(&[
        "tcp-listen:127.0.0.1:0,fork",
        &format!("pty,raw,link={}", name.display()),
    ]);
    let mut clients = Vec::new();
    for (at, word) in ["one", "two"].into_iter().enumerate() {
        let mut client = link.client();
        client.write_all(word.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let reported = link.says_times("PTY is ", at + 1);
        let terminal = reported.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(fs::read_link(&name).unwrap(), Path::new(&terminal), "{}", link.said());
        clients.push(client);
    }
    let mut read = [0; 3];
    opened(&name).read_exact(&mut read).unwrap();
    assert_eq!(&read, b"two");
    link.says_times("ended id=2", 1);
    assert!(fs::symlink_metadata(&name).is_err(), "the link goes with its terminal");
}

#[test]
fn a_pty_that_has_not_ended_does_not_outlive_the_other_end() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("tty");
    let place = server(|mut stream| stream.write_all(b"all there is").unwrap());
    let link = Running::start(&[
        &format!("pty,raw,link={}", name.display()),
        &format!("tcp:{place},retry=99"),
    ]);
    eventually("the link is there", || name.exists());
    let mut heard = [0; 12];
    opened(&name).read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"all there is");
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

/// To close a master throws away what nobody has read.
#[test]
fn what_was_sent_to_a_pty_is_read_before_the_link_ends() {
    let dir = TempDir::new().unwrap();
    let (name, data) = (dir.path().join("tty"), dir.path().join("data"));
    // More than the terminal's own queue of 4 KiB.
    fs::write(&data, vec![7; 9000]).unwrap();
    for waits in ["", ",wait-slave"] {
        let address = format!("pty,raw,link={}{waits}", name.display());
        let link = Running::start(&["-u", data.to_str().unwrap(), &address]);
        eventually("the link is there", || name.exists());
        let mut terminal = opened(&name);
        std::thread::sleep(Duration::from_millis(300));
        let mut heard = vec![0; 9000];
        terminal.read_exact(&mut heard).unwrap();
        assert!(heard == [7; 9000]);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{said}");
    }

    fs::write(&data, "nobody reads it").unwrap();
    let address = format!("pty,raw,link={}", name.display());
    let link = Running::start(&["-u", "-t", "100ms", data.to_str().unwrap(), &address]);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("pty: 15 bytes or more were not read there in time"), "{said}");

    // And their sender learns of it.
    let link = Running::start(&["-t", "100ms", "tcp-listen:127.0.0.1:0", "pty,raw"]);
    let mut client = link.client();
    client.write_all(b"nobody reads it").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let seen = client.read(&mut [0; 8]).map_err(|error| error.kind());
    assert_eq!(seen, Err(std::io::ErrorKind::ConnectionReset));
    assert_eq!(link.finish().0.code(), Some(1));
}

#[test]
fn what_was_sent_to_a_pty_is_waited_for_after_the_answers_too() {
    let dir = TempDir::new().unwrap();
    let (name, data) = (dir.path().join("tty"), dir.path().join("data"));
    fs::write(&data, "read at last").unwrap();
    let mut command = gush();
    command.args(["link", "--log", "debug", "--json", data.to_str().unwrap()]);
    command.arg(format!("pty,raw,link={}", name.display()));
    let link = Running::of(command);
    // The time for answers is over, and the terminal is not read yet.
    link.says("Linger");
    // A limit that is far too short is over by then.
    std::thread::sleep(Duration::from_secs(1));
    let mut heard = [0; 12];
    opened(&name).read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"read at last");
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("\"ended\":\"lingered\""), "{said}");
}

#[test]
fn a_link_from_a_file_to_a_line_ends_once_no_answer_comes() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "question").unwrap();
    let (ours, name) = line();
    let mut ours = File::from(ours);
    // Without any opener a pseudo-terminal's master has an error instead of silence.
    let _kept = opened(&name);
    let line = format!("{},raw", name.display());
    let link = Running::start(&["--json", file.to_str().unwrap(), &line]);
    let mut heard = [0; 8];
    ours.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"question");
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("\"ended\":\"lingered\""), "{said}");
}

/// Such a reader loses the processor within its read(2), between the bytes it has taken and those
/// that follow.
#[test]
#[ignore = "a campaign: cargo test -p gush-cli --test link reader_of_a_pty -- --ignored"]
fn a_reader_of_a_pty_that_loses_the_processor_gets_all() {
    let dir = TempDir::new().unwrap();
    let (name, data) = (dir.path().join("tty"), dir.path().join("data"));
    fs::write(&data, vec![7; 60_000]).unwrap();
    let _busy = [(); 3].map(|()| {
        let mut command = Command::new("taskset");
        Killed(command.args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().unwrap())
    });
    for round in 0..40 {
        let address = format!("pty,raw,link={}", name.display());
        let link = Running::start(&["-u", &format!("file:{}", data.display()), &address]);
        eventually("the link is there", || name.exists());
        let mut reader = Command::new("taskset");
        reader.args(["-c", "0", "nice", "-n", "10", "dd", "bs=4095", "status=none"]);
        let heard = reader.arg(format!("if={}", name.display())).output().unwrap().stdout;
        let (status, _, said) = link.finish();
        assert_eq!((status.code(), heard.len()), (Some(0), 60_000), "round {round}: {said}");
    }
}

/// There is nothing that could end there: the line is what the link is about.
#[test]
fn a_line_goes_on_next_to_a_file_or_device_that_has_nothing_to_say() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("log");
    fs::write(&file, "").unwrap();
    let (ours, name) = line();
    let mut ours = File::from(ours);
    let line = format!("{},raw", name.display());
    let log = file.display().to_string();
    let mut links = [
        Running::start(&[&line, &log]),
        Running::start(&["pty", "null:"]),
        Running::start(&["/dev/null", "pty"]),
    ];
    std::thread::sleep(Duration::from_millis(800));
    ours.write_all(b"late").unwrap();
    eventually("the file has it", || fs::read(&file).unwrap() == b"late");
    assert!(links.iter_mut().all(Running::is_running));
}

#[test]
fn the_link_of_a_pty_goes_over_nothing_of_others() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("file"), "mine").unwrap();
    symlink("/etc/passwd", path("to-file")).unwrap();
    symlink("/dev/pts/999", path("left")).unwrap();
    for (name, options, why) in [
        ("file", "", "a file that is not a link"),
        ("file", ",unlink", "a file that is not a link"),
        ("to-file", ",unlink", "a link to something else"),
        ("left", "", "remove it, or say unlink"),
        ("no/such", "", "mkdir -p"),
    ] {
        let address = format!("pty,link={}{options}", path(name).display());
        let said = gush().args(["link", &address, "null:"]).output().unwrap();
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(1), "{address}: {text}");
        assert!(text.contains(why), "{address}: {text}");
    }
    assert_eq!(fs::read(path("file")).unwrap(), b"mine");
    assert_eq!(fs::read_link(path("to-file")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);

    let address = format!("pty,raw,wait-slave,link={},unlink", path("left").display());
    let link = Running::start(&[&address, &format!("tcp:{}", echo())]);
    link.says("PTY is");
    eventually("the link is new", || {
        fs::read_link(path("left")).is_ok_and(|target| target != Path::new("/dev/pts/999"))
    });
    talk(&mut opened(&path("left")), b"x");
    assert_eq!(link.finish().0.code(), Some(0));
}

#[test]
fn a_link_that_somebody_replaced_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("tty");
    let address = format!("pty,raw,wait-slave,link={}", name.display());
    let link = Running::start(&[&address, &format!("tcp:{}", echo())]);
    eventually("the link is there", || name.exists());
    let mut terminal = opened(&name);
    talk(&mut terminal, b"x");
    fs::remove_file(&name).unwrap();
    fs::write(&name, "mine").unwrap();
    drop(terminal);
    assert_eq!(link.finish().0.code(), Some(0));
    assert_eq!(fs::read(&name).unwrap(), b"mine");
}

/// A serial line never ends, and so a client that has gone would keep its connection for ever, and
/// take the answers to the next one.
#[test]
fn clients_that_have_gone_do_not_keep_a_serial_line() {
    let (ours, name) = line();
    let mut ours = File::from(ours);
    // Without any opener a pseudo-terminal's master has an error instead of silence.
    let _kept = opened(&name);
    let link = Running::start(&["tcp-listen:127.0.0.1:0,fork", &format!("{},raw", name.display())]);
    let mut heard = [0; 5];
    let mut gone = link.client();
    gone.write_all(b"first").unwrap();
    ours.read_exact(&mut heard).unwrap();
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(gone.read(&mut heard).unwrap(), 0, "ended, though the line goes on");
    let mut client = link.client();
    client.write_all(b"next?").unwrap();
    ours.read_exact(&mut heard).unwrap();
    ours.write_all(b"next!").unwrap();
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"next!");
}

#[test]
fn the_answers_of_a_serial_line_are_waited_for_as_long_as_the_linger_limit_says() {
    let (ours, name) = line();
    let mut ours = File::from(ours);
    let mut link = gush();
    let line = format!("{},raw", name.display());
    link.args(["link", "-t", "60", "-"]).arg(&line);
    let mut link = link.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    link.stdin.take().unwrap().write_all(b"ask").unwrap();
    ours.read_exact(&mut [0; 3]).unwrap();
    std::thread::sleep(Duration::from_millis(800));
    ours.write_all(b"late").unwrap();
    let mut heard = [0; 4];
    link.stdout.take().unwrap().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"late");
    rustix::process::kill_process(rustix::process::Pid::from_child(&link), Signal::TERM).unwrap();
    link.wait().unwrap();
    // A short limit ends by itself, where no answer comes.
    let done = gush().args(["link", "-t", "0.1", "/dev/null", &line]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_pty_that_waits_opens_nothing_else_before_somebody_is_there() {
    let dir = TempDir::new().unwrap();
    let (name, begun) = (dir.path().join("tty"), dir.path().join("begun"));
    let address = format!("pty,raw,wait-slave,link={}", name.display());
    let program = format!("shell:'touch {}; cat'", begun.display());
    let mut link = Running::start(&[&address, &program]);
    eventually("the link is there", || name.exists());
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!begun.exists() && link.is_running());
    let mut terminal = opened(&name);
    talk(&mut terminal, b"hello");
    assert!(begun.exists());
    drop(terminal);
    assert_eq!(link.finish().0.code(), Some(0));
}

/// No event reports an opened slave, and a short visit may lie between two looks.
#[test]
fn a_pty_that_waits_hears_who_has_gone_already() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("tty");
    for _ in 0..3 {
        let link =
            Running::start(&["-u", &format!("pty,raw,wait-slave,link={}", name.display()), "-"]);
        eventually("the link is there", || name.exists());
        opened(&name).write_all(b"in passing").unwrap();
        let (status, output, said) = link.finish();
        assert_eq!((status.code(), &output[..]), (Some(0), &b"in passing"[..]), "{said}");
    }
}

#[test]
fn a_program_that_closes_its_terminal_before_it_exits_is_not_hung_up() {
    let program = "exec:'sh -c \"exec <&- >&- 2>&-; sleep 0.3; exit 0\"',pty";
    for first in [&["-u", "/dev/null"][..], &["/dev/zero!!/dev/null"]] {
        let mut command = gush();
        command.arg("link").args(first).arg(program);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{first:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn a_line_is_set_while_it_is_an_end_and_put_back_afterwards() {
    let (ours, name) = line();
    let before = settings(&ours);
    let options = "raw,echo=0,b9600,cs7,parenb,parodd,cstopb,clocal,crtscts,ixon,min=3,echoe=0";
    for signal in [Signal::TERM, Signal::INT] {
        let address = format!("file:{},{options}", name.display());
        let link = Running::start(&[&address, &format!("tcp:{}", echo())]);
        eventually("the line is set", || settings(&ours) != before);
        let now = tcgetattr(&ours).unwrap();
        let control = ControlModes::PARODD
            | ControlModes::CSTOPB
            | ControlModes::CLOCAL
            | ControlModes::CRTSCTS;
        // A pseudo-terminal has 8 bits and no parity, whatever it is asked for (pty_set_termios in
        // drivers/tty/pty.c).
        assert!(now.control_modes.contains(control), "{:?}", now.control_modes);
        assert_eq!((now.output_speed(), now.input_speed()), (9600, 9600));
        assert!(now.input_modes.contains(InputModes::IXON));
        assert!(!now.local_modes.intersects(LocalModes::ECHO | LocalModes::ICANON));
        assert_eq!(now.special_codes[SpecialCodeIndex::VMIN], 3);
        let mut line = File::from(ours.try_clone().unwrap());
        talk(&mut line, b"through\r\n");
        link.signal(signal);
        link.finish();
        assert_eq!(settings(&ours), before);
    }
}

/// An existing line has settings of its own, which only some of socat's options change.
#[test]
fn a_line_is_set_as_socat_sets_it() {
    for options in [
        "raw",
        "raw,echo=0",
        "echo,raw",
        "rawer",
        "rawer,b9600",
        "b9600,rawer,echo",
        "cfmakeraw",
        "cfmakeraw,ixoff,raw",
        "sane",
        "ixon=0,sane",
        "raw,sane,echo=0",
        "sane,rawer,sane",
        "icanon,raw,icanon",
        "echo=0,min=7,cfmakeraw,vtime=3",
        "raw,parenb",
        "cs7,rawer",
    ] {
        let mut shown = Vec::new();
        for program in programs() {
            let (ours, name) = line();
            let line = opened(&name);
            let mut before = tcgetattr(&line).unwrap();
            before.input_modes ^= InputModes::from_bits_retain(0x7fff);
            before.output_modes ^= OutputModes::OLCUC | OutputModes::ONLRET | OutputModes::XTABS;
            before.control_modes ^= ControlModes::CLOCAL | ControlModes::CSTOPB;
            before.local_modes |= LocalModes::XCASE
                | LocalModes::NOFLSH
                | LocalModes::TOSTOP
                | LocalModes::ECHONL
                | LocalModes::ECHOPRT
                | LocalModes::FLUSHO;
            before.special_codes[SpecialCodeIndex::VTIME] = 5;
            before.special_codes[SpecialCodeIndex::VINTR] = b'x';
            before.set_speed(19_200).unwrap();
            tcsetattr(&line, OptionalActions::Now, &before).unwrap();
            let unset = settings(&ours);
            let address = format!("FILE:{},{options}", name.display());
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-u", &address, "-"]).stdout(Stdio::null());
            let _running = Killed(command.spawn().unwrap());
            eventually("the line is set", || settings(&ours) != unset);
            shown.push(settings(&ours));
        }
        assert!(shown.iter().all(|one| *one == shown[0]), "{options}: {shown:#?}");
    }
}

#[test]
fn settings_of_what_is_no_terminal_are_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for address in [&format!("file:{},raw", file.display()), "-,icanon=0"] {
        let said = gush().args(["link", "-u", address, "-"]).output().unwrap();
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(text.contains("set the terminal") && text.contains("not a terminal:"), "{text}");
    }
    let cases = [
        ("file:x,cs9", "unknown option 'cs9' of file; did you mean 'cs"),
        ("file:x,min=300", "min takes the number of a byte"),
        ("file:x,b9600=1", "takes no value"),
        ("exec:cat,b9600", "needs pty too"),
    ];
    for (address, why) in cases {
        let said = gush().args(["link", address, "-"]).output().unwrap();
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(text.contains(why), "{address}: {text}");
    }
}

#[test]
fn a_file_gets_its_owner_whether_it_is_made_or_there() {
    let number = match nobody() {
        Ok(number) => number,
        Err(why) => return skipped(&why),
    };
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let owner = |name: &str| {
        let found = path(name).symlink_metadata().unwrap();
        (found.uid(), found.gid(), found.mode() & 0o777)
    };
    let at = |keyword: &str, name: &str, options: &str| {
        format!("{keyword}:{}{options}", path(name).display())
    };

    fs::write(path("there"), "old").unwrap();
    symlink(path("there"), path("link")).unwrap();
    let mine = (rustix::process::geteuid().as_raw(), owner("there").1);
    for name in ["new", "there", "link"] {
        let address = at("file", name, &format!(",create,user={number},group={number}"));
        let done = gush().args(["link", "-u", "shell:echo x", &address]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let of = |name: &str| (owner(name).0, owner(name).1);
    assert_eq!([of("new"), of("there"), of("link")], [(number, number), (number, number), mine]);
    let address = at("file", "read", &format!(",user={number},mode=600"));
    fs::write(path("read"), "old").unwrap();
    let before = owner("read");
    let done = gush().args(["link", "-u", &address, "null:"]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(owner("read"), (number, before.1, before.2), "the mode is that of a new file alone");
    assert_eq!(fs::read(path("new")).unwrap(), b"x\n");

    symlink(path("missing"), path("dangling")).unwrap();
    let address = at("file", "dangling", &format!(",create,user={number}"));
    let said = gush().args(["link", "-u", "null:", &address]).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("the link leads to a missing file"), "{text}");
    assert!(!path("missing").exists(), "a file was made, and has another owner than was asked for");

    let socket = at("unix-listen", "socket", ",user=nobody,mode=660,fork");
    let pipe = at("pipe", "pipe", &format!(",group={number},mode=620"));
    let links = [Running::start(&[&socket, "null:"]), Running::start(&["-u", &pipe, "null:"])];
    eventually("both are made", || path("socket").exists() && path("pipe").exists());
    eventually("the FIFO has its group", || owner("pipe") == (mine.0, number, 0o600));
    let (user, group, mode) = owner("socket");
    assert_eq!((user, group, mode), (number, mine.1, 0o660));
    drop(links);

    let address = at("file", "other", ",create,user=nobody-of-this-name");
    let said = gush().args(["link", "-u", "null:", &address]).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("look up user=nobody-of-this-name: there is no user"), "{text}");
    assert!(!path("other").exists());
}
