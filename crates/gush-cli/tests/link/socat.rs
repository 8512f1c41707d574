//! `gush socat`, and gush by the name `socat`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::link::{Killed, Running, eventually};
use crate::common::{bounded, file_of, gush, gush_as, skipped};
use gush_test::{Port, not_applicable};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_line_of_socat_runs_by_its_name_and_as_a_command() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    command.arg("socat");
    for (number, mut command) in [command, gush_as("socat", dir.path())].into_iter().enumerate() {
        let file = format!("made{number}");
        command.args(["-u", "-", &format!("CREATE:{file},mode=600")]).current_dir(dir.path());
        let output = command.stdin(file_of(b"bytes")).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(fs::read_to_string(dir.path().join(&file)).unwrap(), "bytes");
    }
}

#[test]
fn a_limit_of_no_bytes_is_none() {
    for option in ["readbytes=0", "bytes=0x0"] {
        let mut command = gush();
        let words = ["socat", "-u", &format!("-,{option}"), "-"];
        let output = command.args(words).stdin(file_of(b"bytes")).output().unwrap();
        assert_eq!(output.stdout, b"bytes", "{output:?}");
    }
}

/// The pipe by which the standard library learns that a program does not start has one of them.
#[test]
fn a_missing_program_is_reported_whatever_the_number_of_its_input() {
    for number in 3..24 {
        let mut command = gush();
        let program = format!("EXEC:/nonexistent,fdin={number}");
        let output = command.args(["socat", "-u", "/dev/null", &program]).output().unwrap();
        let why = said(&output);
        assert!(why.contains("No such file") && !why.contains("fatal"), "{number}: {why}");
    }
}

/// As socat does, where `gush link` waits for the other side.
#[test]
fn it_ends_soon_after_one_side_has_ended() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    // The program, which goes on, ends with the test.
    let _held = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gush"));
    let program = "SYSTEM:cat; exec cat <fifo >/dev/null 2>&1";
    command.args(["socat", "-", program]).current_dir(dir.path());
    let output = bounded(60, &command).stdin(file_of(b"asked")).output().unwrap();
    assert_eq!(output.stdout, b"asked", "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_has_no_equivalent_is_reported_and_nothing_is_run() {
    let dir = TempDir::new().unwrap();
    let output =
        gush().args(["socat", "-u", "TUN", "CREATE:made"]).current_dir(dir.path()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = "TUN: network interfaces are left to socat";
    assert_eq!(said(&output), format!("gush: socat: no equivalent: {why}\n"));
    assert!(!dir.path().join("made").exists());
    let output = gush().arg("socat").output().unwrap();
    assert!(said(&output).contains("two addresses"), "{output:?}");
}

#[test]
fn messages_go_to_the_file_and_differences_are_reported_on_request() {
    let dir = TempDir::new().unwrap();
    let run =
        |words: &[&str]| gush().arg("socat").args(words).current_dir(dir.path()).output().unwrap();
    let output = run(&["-lf", "log", "-u", "OPEN:missing", "-"]);
    assert!(!output.status.success() && output.stderr.is_empty(), "{output:?}");
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains(" E ") && log.contains("missing"), "{log}");
    let output = run(&["-u", "-D", "/dev/null", "-"]);
    assert_eq!(said(&output), "");
    let output = run(&["-d", "-d", "-u", "-D", "/dev/null", "-"]);
    assert!(said(&output).contains("note: -D: "), "{output:?}");
}

/// The first words of the line in `text` that holds `part`, with 0 for each number.
fn start_of(text: &str, part: &str) -> String {
    let line = text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<_> = line.split(' ').take(4).collect();
    let mut start = String::new();
    for letter in words.join(" ").chars() {
        match letter.is_ascii_digit() {
            true if start.ends_with('0') => {}
            true => start.push('0'),
            false => start.push(letter),
        }
    }
    start
}

/// Scripts search them for ` E `, or for the name of a pseudo-terminal.
#[test]
fn messages_have_the_form_of_socats() {
    let missing = ["-u", "OPEN:missing", "-"];
    let from_gush =
        |words: &[&str]| said(&gush().arg("socat").args(words).args(missing).output().unwrap());
    for (switches, form) in
        [(&[][..], "0/0/0 0:0:0 socat[0] E"), (&["-lu"], "0/0/0 0:0:0.0 socat[0] E")]
    {
        assert_eq!(start_of(&from_gush(switches), "missing"), form);
        match Command::new("socat").args(switches).args(missing).output() {
            Ok(output) => assert_eq!(start_of(&said(&output), "missing"), form),
            Err(_) => skipped("no socat to compare with"),
        }
    }
    let mut command = gush();
    command.args(["socat", "-d", "-d", "PTY", "PIPE"]);
    let link = Running::of(command);
    let said = link.says("PTY is /dev/pts/");
    assert_eq!(start_of(&said, "PTY is"), "0/0/0 0:0:0 socat[0] N");
}

/// With `fork` socat has a process for each client, whose number is SOCAT_PID.
#[test]
fn a_script_that_a_line_runs_gets_the_variables_of_socat() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("script"), "echo $SOCAT_VERSION ${SOCAT_PID-none} $SOCAT_PPID\n")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gush"));
    command.args(["socat", "-u", "EXEC:sh script", "-"]).current_dir(dir.path());
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let number = child.id();
    let output = child.wait_with_output().unwrap();
    let expected = format!("1.8.0.3 {number} {number}\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);

    let mut command = gush();
    command.args(["socat", "-d", "-d", "-t", "9", "UNIX-LISTEN:s,fork", "EXEC:sh script"]);
    command.env("SOCAT_PID", "another").current_dir(dir.path());
    let link = Running::of(command);
    link.says("listening on");
    let mut client = UnixStream::connect(dir.path().join("s")).unwrap();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert!(heard.starts_with("1.8.0.3 none "), "{heard}");
}

#[test]
fn a_command_of_shell_is_one_for_the_shell_of_the_user() {
    let dir = TempDir::new().unwrap();
    let shell = dir.path().join("shell");
    // Not by this process, of whose forks one may have the file open for writing.
    let script = r#"printf '#!/bin/sh\necho mine\nexec /bin/sh "$@"\n' >shell; chmod +x shell"#;
    let made = Command::new("sh").args(["-c", script]).current_dir(dir.path()).status().unwrap();
    assert!(made.success());
    for (option, heard) in [("", "mine\na\n"), (",shell=/bin/sh", "a\n")] {
        let mut command = gush();
        command.args(["socat", "-u", &format!("SHELL:echo a; exit 0{option}"), "-"]);
        let output = command.env("SHELL", &shell).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), heard, "{output:?}");
    }
}

/// Its writers come and go.
#[test]
fn a_fifo_that_is_open_for_both_has_no_end() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    for kind in ["OPEN", "GOPEN", "PIPE"] {
        let mut command = gush();
        let address = format!("{kind}:{},rdwr", fifo.display());
        let mut link = Running::of({
            command.args(["socat", "-u", &address, "-"]);
            command
        });
        let mut heard = link.stdout();
        for line in ["one\n", "two\n"] {
            fs::File::options()
                .write(true)
                .open(&fifo)
                .unwrap()
                .write_all(line.as_bytes())
                .unwrap();
            let mut got = [0; 4];
            heard.read_exact(&mut got).unwrap();
            assert_eq!(got, line.as_bytes(), "{kind}");
        }
        assert!(link.is_running(), "{kind}: {}", link.said());
    }
}

/// A shell without job control has its background ignore SIGINT, and nohup(1) SIGHUP; socat does
/// not.
#[test]
fn a_signal_ends_it_also_where_it_was_ignored_at_the_start() {
    let line = "trap '' INT QUIT HUP TERM; \
                exec \"$GUSH\" socat -d -d TCP-LISTEN:0,bind=127.0.0.1 PIPE";
    for (signal, code) in
        [(Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131), (Signal::TERM, 143)]
    {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("GUSH", env!("CARGO_BIN_EXE_gush"));
        let link = Running::of(command);
        link.says("listening on");
        link.signal(signal);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(code), "{said}");
    }
}

#[test]
fn a_program_gets_a_signal_in_the_place_of_the_link() {
    let script = "trap 'echo INT' INT; trap 'echo HUP' HUP; trap 'echo QUIT; exit' QUIT; \
                  echo ready; while :; do sleep 0.02; done";
    for program in programs() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("script"), script).unwrap();
        let mut command = Command::new(program[0]);
        let address = "EXEC:sh script,sighup,sigint,sigquit";
        command.args(&program[1..]).args(["-u", address, "-"]).current_dir(dir.path());
        let mut link = Running::of(command);
        let mut lines = BufReader::new(link.stdout()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        for (signal, name) in [(Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::QUIT, "QUIT")] {
            link.signal(signal);
            assert_eq!(lines.next().as_deref(), Some(name), "{program:?}");
        }
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{program:?} {said}");
    }
}

/// As by Ctrl-C. Of gush a signal to the listener alone is the same: it has one process.
#[test]
fn a_signal_to_the_group_reaches_the_program_of_each_client_and_ends_the_listener() {
    let script = "trap 'echo INT' INT; echo ready; until [ -e done ]; do sleep 0.02; done";
    for program in programs() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("s");
        fs::write(dir.path().join("script"), script).unwrap();
        let mut command = Command::new(program[0]);
        // In a session of its own, the program gets what is passed on alone.
        let address = "EXEC:sh script,setsid,sigint";
        command.args(&program[1..]).args(["UNIX-LISTEN:s,fork", address]).current_dir(dir.path());
        let mut link = Group(command.process_group(0).spawn().unwrap());
        let mut clients = [(); 2].map(|()| {
            let mut client = None;
            eventually("it listens", || {
                client = UnixStream::connect(&path).ok();
                client.is_some()
            });
            BufReader::new(client.unwrap()).lines().map(Result::unwrap)
        });
        for lines in &mut clients {
            assert_eq!(lines.next().as_deref(), Some("ready"), "{program:?}");
        }
        rustix::process::kill_process_group(Pid::from_child(&link.0), Signal::INT).unwrap();
        for lines in &mut clients {
            assert_eq!(lines.next().as_deref(), Some("INT"), "{program:?}");
        }
        eventually("nobody listens", || UnixStream::connect(&path).is_err());
        fs::write(dir.path().join("done"), "").unwrap();
        for lines in &mut clients {
            assert_eq!(lines.next(), None, "{program:?}");
        }
        assert_eq!(link.0.wait().unwrap().code(), Some(130), "{program:?}");
    }
}

/// SIGTERM drains; a client that does not end is cut.
#[test]
fn a_drain_that_is_cut_has_the_status_of_its_signal() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    let arguments = ["link", "--graceful", "--drain", "0.2", "unix-listen:s,fork", "exec:cat"];
    command.args(arguments).current_dir(dir.path());
    let link = Running::of(command);
    eventually("it listens", || dir.path().join("s").exists());
    let mut client = UnixStream::connect(dir.path().join("s")).unwrap();
    client.write_all(b"?").unwrap();
    client.read_exact(&mut [0]).unwrap();
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(143), "{said}");
}

#[test]
fn it_exits_with_the_status_of_a_death_by_the_signal() {
    let dir = TempDir::new().unwrap();
    for (signal, code) in
        [(Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131), (Signal::TERM, 143)]
    {
        let mut command = gush();
        command.args(["socat", "-d", "-d", "UNIX-LISTEN:s", "PIPE"]).current_dir(dir.path());
        let link = Running::of(command);
        link.says("listening on");
        link.signal(signal);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(!dir.path().join("s").exists(), "{said}");
    }
}

/// Scripts cut the port out of it.
#[test]
fn a_listener_is_reported_in_the_words_of_socat() {
    for (listener, start) in [
        ("TCP-LISTEN:0,bind=127.0.0.1", " N listening on AF=2 127.0.0.1:"),
        ("UDP-LISTEN:0,bind=127.0.0.1", " N listening on UDP AF=2 127.0.0.1:"),
        (
            "TCP6-LISTEN:0,bind=[::1]",
            " N listening on AF=10 [0000:0000:0000:0000:0000:0000:0000:0001]:",
        ),
    ] {
        let mut command = gush();
        command.args(["socat", "-d", "-d", listener, "PIPE"]);
        let link = Running::of(command);
        let said = link.says("listening on");
        let line = said.lines().find(|line| line.contains("listening on")).unwrap();
        let (_, port) = line.split_once(start).unwrap_or_else(|| panic!("{line}"));
        assert!(port.trim_end().parse::<u16>().is_ok_and(|port| port > 0), "{line}");
    }
}

#[test]
fn a_unix_listener_and_clients_are_reported_in_the_words_of_socat() {
    let dir = TempDir::new().unwrap();
    let run = |listener: &str| {
        let mut command = gush();
        command.args(["socat", "-d", "-d", listener, "PIPE"]).current_dir(dir.path());
        Running::of(command)
    };
    let own = gush_test::own_dir().display().to_string();
    run(&format!("ABSTRACT-LISTEN:{own}.reported"))
        .says(&format!(r#" N listening on AF=1 "\0{own}.reported""#));
    run("UNIX-RECVFROM:r").says(" N receiving on AF=1 \"r\"");
    run("UDP-RECVFROM:0,bind=127.0.0.1").says(" N receiving on AF=2 127.0.0.1:");
    let link = run("UNIX-LISTEN:s");
    link.says(" N listening on AF=1 \"s\"");
    let _client = UnixStream::connect(dir.path().join("s")).unwrap();
    link.says(" N accepting connection from AF=1 \"<anon>\"");
    let link = run("TCP-LISTEN:0,bind=127.0.0.1");
    let said = link.says("listening on AF=2 ");
    let place = said.split("AF=2 ").nth(1).unwrap().trim_end().to_owned();
    let client = std::net::TcpStream::connect(&place).unwrap();
    let client = client.local_addr().unwrap();
    link.says(&format!(" N accepting connection from AF=2 {client} "));
    for (listener, words) in
        [("UDP-LISTEN", "accepting UDP connection"), ("UDP-RECVFROM", "receiving packet")]
    {
        let link = run(&format!("{listener}:0,bind=127.0.0.1"));
        let said = link.says(" AF=2 ");
        let place = said.split("AF=2 ").nth(1).unwrap().trim_end().to_owned();
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"?", &place).unwrap();
        link.says(&format!(" N {words} from AF=2 {} ", client.local_addr().unwrap()));
    }
}

/// A process group, killed when the test is over.
struct Group(std::process::Child);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// gush by the name of socat, and socat itself where it is installed.
pub fn programs() -> Vec<Vec<&'static str>> {
    programs_as("")
}

/// As [`programs`], for what socat does since `version`.
fn programs_as(version: &str) -> Vec<Vec<&'static str>> {
    let mut programs = vec![vec![env!("CARGO_BIN_EXE_gush"), "socat"]];
    match Command::new("socat").arg("-V").output() {
        Ok(said)
            if String::from_utf8_lossy(&said.stdout)
                .contains(&format!("socat version {version}")) =>
        {
            programs.push(vec!["socat"]);
        }
        Ok(_) => not_applicable(&format!("the socat to compare with is not of {version}")),
        Err(_) => skipped("no socat to compare with"),
    }
    programs
}

/// Of one peer's datagrams an empty one is the end; those of any sender it is nothing.
#[test]
fn an_empty_datagram_is_what_it_is_to_socat() {
    let programs = programs();
    for (address, ends) in [
        ("UDP-LISTEN:PORT,bind=127.0.0.1", Ends::Link),
        ("UDP-LISTEN:PORT,bind=127.0.0.1,fork", Ends::Client),
        ("UDP-RECV:PORT,bind=127.0.0.1,null-eof", Ends::Link),
        ("UDP-RECV:PORT,bind=127.0.0.1", Ends::Nothing),
        ("UDP-RECVFROM:PORT,bind=127.0.0.1,fork", Ends::Nothing),
    ] {
        for program in &programs {
            let dir = TempDir::new().unwrap();
            let reserved = Port::reserve();
            let mut command = Command::new(program[0]);
            let address = address.replace("PORT", &reserved.number().to_string());
            let append = "SYSTEM:cat >>got; echo end >>got";
            command.args(&program[1..]).args(["-u", &address, append]);
            // With the processes that socat has for its clients.
            let mut running =
                Group(command.current_dir(dir.path()).process_group(0).spawn().unwrap());
            let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            client.connect(("127.0.0.1", reserved.number())).unwrap();
            let got = || fs::read_to_string(dir.path().join("got")).unwrap_or_default();
            eventually("it is read", || {
                let _ = client.send(b"one");
                std::thread::sleep(std::time::Duration::from_millis(20));
                got().starts_with("one")
            });
            client.send(b"").unwrap();
            match ends {
                Ends::Link => {
                    eventually("it ends", || running.0.try_wait().unwrap().is_some());
                    let status = running.0.wait().unwrap();
                    assert_eq!(status.code(), Some(0), "{program:?} {address}");
                    continue;
                }
                Ends::Client => eventually("its client has ended", || got().contains("end")),
                Ends::Nothing => {}
            }
            eventually("it is read on", || {
                let _ = client.send(b"two");
                std::thread::sleep(std::time::Duration::from_millis(20));
                got().contains("two")
            });
            // With UDP-RECVFROM each datagram is a client's only one.
            if address.starts_with("UDP-RECV:") {
                assert!(!got().contains("end"), "{program:?} {address}: {}", got());
            }
            assert!(running.0.try_wait().unwrap().is_none(), "{program:?} {address}");
        }
    }
}

#[test]
fn a_datagram_longer_than_the_size_is_cut() {
    let programs = programs();
    let udp = "SYSTEM:while ! test -s got; do printf 0123456789; sleep 0.05; done";
    for (address, peer) in [
        ("UDP-RECV:PORT,bind=127.0.0.1", "UDP-SENDTO:127.0.0.1:PORT"),
        ("UDP-RECVFROM:PORT,bind=127.0.0.1", "UDP-SENDTO:127.0.0.1:PORT"),
        ("UDP-LISTEN:PORT,bind=127.0.0.1", "UDP-SENDTO:127.0.0.1:PORT"),
        ("UNIX-RECV:s", "UNIX-SENDTO:s"),
        ("UNIX-LISTEN:s,type=5", "UNIX-CONNECT:s,type=5"),
    ] {
        for program in &programs {
            let dir = TempDir::new().unwrap();
            let reserved = Port::reserve();
            let named = |text: &str| text.replace("PORT", &reserved.number().to_string());
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-u", "-b", "4", &named(address), "CREATE:got"]);
            let running = Group(command.current_dir(dir.path()).process_group(0).spawn().unwrap());
            if address.starts_with("UNIX") {
                eventually("it is there", || dir.path().join("s").exists());
            }
            let mut sender = gush();
            sender.args(["socat", "-u", udp, &named(peer)]).current_dir(dir.path());
            bounded(60, &sender).output().unwrap();
            let got = fs::read_to_string(dir.path().join("got")).unwrap();
            assert!(got.starts_with("0123"), "{program:?} {address}: {got}");
            assert!(got.replace("0123", "").is_empty(), "{program:?} {address}: {got}");
            drop(running);
        }
    }
}

#[test]
fn a_cut_datagram_ends_no_data_and_an_empty_one_neither() {
    for (options, got) in [
        (&["-b", "4", "UNIX-RECV:s"][..], "abcdxyvwxy"),
        (&["UNIX-RECV:s,readbytes=9"], "abcdefghx"),
        (&["-b", "4", "UNIX-RECV:s,readbytes=5"], "abcdx"),
    ] {
        let dir = TempDir::new().unwrap();
        let mut command = gush();
        command.args(["socat", "-u"]).args(options).arg("CREATE:got").current_dir(dir.path());
        let _running = Group(command.process_group(0).spawn().unwrap());
        eventually("it is there", || dir.path().join("s").exists());
        let sender = UnixDatagram::unbound().unwrap();
        for datagram in ["abcdefgh", "", "xy", "vwxyz"] {
            // A link that has its bytes ends.
            let _ = sender.send_to(datagram.as_bytes(), dir.path().join("s"));
        }
        eventually(got, || fs::read_to_string(dir.path().join("got")).is_ok_and(|all| all == got));
    }
}

#[test]
fn statistics_are_no_errors_and_name_each_direction_as_socat_does() {
    for (switches, ways) in [
        (&[][..], &["left to right: 5", "right to left: 5"][..]),
        (&["-u"], &["left to right: 5"]),
        (&["-U"], &["right to left: 5"]),
    ] {
        let mut command = gush();
        command.args(["socat", "--statistics", "-t", "9"]).args(switches);
        command.args(match switches {
            ["-U"] => ["SYSTEM:cat >/dev/null", "-"],
            ["-u"] => ["-", "SYSTEM:cat >/dev/null"],
            _ => ["-", "SYSTEM:cat"],
        });
        let output = command.stdin(file_of(b"bytes")).output().unwrap();
        let text = said(&output);
        let lines: Vec<_> =
            text.lines().filter_map(|line| line.split_once("] ")).map(|(_, line)| line).collect();
        let expected: Vec<_> =
            ways.iter().map(|way| format!("I STATISTICS: {way} byte(s)")).collect();
        assert_eq!(lines, expected, "{switches:?}: {text}");
    }
}

/// Scripts test it: socat's own word for a connection that a proxy or a TLS server refuses.
#[test]
fn a_refusal_of_a_server_that_is_there_has_the_exit_status_of_socat() {
    for program in programs_as("1.8") {
        for (address, answer, code) in [
            ("SOCKS4:127.0.0.1:10.0.0.1:1,socksport=PORT", &b"\0\x5b\0\0\0\0\0\0"[..], 255),
            ("SOCKS4A:127.0.0.1:h:1,socksport=PORT", b"", 255),
            ("PROXY:127.0.0.1:h:1,proxyport=PORT", b"HTTP/1.0 403 No\r\n\r\n", 255),
            ("PROXY:127.0.0.1:h:1,proxyport=PORT", b"SSH-2.0-OpenSSH_10\r\n", 255),
            ("PROXY:127.0.0.1:h:1,proxyport=PORT", b"HTTP/1.0 200 OK\r\nVia: ", 255),
            ("OPENSSL:127.0.0.1:PORT,verify=0", b"HTTP/1.0 400 Bad Request\r\n\r\n", 255),
            ("SOCKS5:127.0.0.1:PORT:h:1", b"\x05\xff", 1),
            ("SOCKS5:127.0.0.1:PORT:h:1", b"\x05\0\x05\0\0\x01", 255),
            ("SOCKS5:127.0.0.1:PORT:h:1", b"\x04\0", 1),
            ("SOCKS5:127.0.0.1:PORT:h:1", b"\x05", 1),
        ] {
            let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = server.local_addr().unwrap().port().to_string();
            let answers = std::thread::spawn(move || {
                let (mut client, _) = server.accept().unwrap();
                client.write_all(answer).unwrap();
                client.shutdown(std::net::Shutdown::Write).unwrap();
                let _ = client.read_to_end(&mut Vec::new());
            });
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-", &address.replace("PORT", &port)]);
            let output = bounded(60, &command).stdin(file_of(b"")).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{program:?} {address}: {output:?}");
            answers.join().unwrap();
        }
    }
}

#[test]
fn statistics_of_what_was_never_opened_are_not_zeros() {
    let mut command = gush();
    command.args(["socat", "--statistics", "-", "OPEN:/nonexistent"]).stdin(file_of(b""));
    let text = said(&command.output().unwrap());
    assert!(text.contains(NOT_STARTED) && !text.contains("left to right"), "{text}");
}

/// In socat 1.8.
const NOT_STARTED: &str = " W transfer engine not yet started, statistics not available\n";

#[test]
fn sigusr1_prints_the_statistics_of_socat() {
    let mut command = gush();
    command.args(["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1", "PIPE"]);
    let link = Running::of(command);
    let text = link.says("listening on AF=2 ");
    let place = text.split("AF=2 ").nth(1).unwrap().trim_end().to_owned();
    link.signal(Signal::USR1);
    link.says(NOT_STARTED.trim_end());
    let mut client = std::net::TcpStream::connect(&place).unwrap();
    client.write_all(b"bytes").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    // The answer is counted after it is sent.
    eventually("both are counted", || {
        link.signal(Signal::USR1);
        let ways = ["left to right", "right to left"];
        ways.iter().all(|way| link.said().contains(&format!(" I STATISTICS: {way}: 5 byte(s)\n")))
    });
}

#[test]
fn a_file_is_read_from_a_place_before_its_end() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("f");
    for program in programs() {
        fs::write(&path, "123\n456\n").unwrap();
        let read = |place: &str| {
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-u", &format!("FILE:f{place}"), "-"]);
            command.current_dir(dir.path());
            command
        };
        for (place, heard, code) in [
            (",seek-end=0", "", 0),
            (",seek-end=-3", "56\n", 0),
            (",lseek64-end=-0x8", "123\n456\n", 0),
            (",seek-end", "", 0),
            (",seek-end=-9", "", 1),
        ] {
            let output = bounded(60, &read(place)).output().unwrap();
            assert_eq!(output.stdout, heard.as_bytes(), "{program:?} {place}");
            assert_eq!(output.status.code(), Some(code), "{program:?} {output:?}");
        }
        // As `tail -f`.
        let mut link = Running::of(read(",seek-end=-4,ignoreeof"));
        let mut heard = link.stdout();
        for line in ["456\n", "789\n"] {
            let mut got = [0; 4];
            heard.read_exact(&mut got).unwrap();
            assert_eq!(got, line.as_bytes(), "{program:?}");
            fs::File::options().append(true).open(&path).unwrap().write_all(b"789\n").unwrap();
        }
    }
}

/// What an empty datagram ends.
enum Ends {
    Nothing,
    Client,
    Link,
}

#[test]
fn a_byte_for_a_file_that_is_only_read_is_a_failure() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("f"), "abc").unwrap();
    for program in programs() {
        for (input, file, code, heard) in [
            (&b""[..], "f", 0, Some("abc")),
            (b"bytes", "f", 1, None),
            (b"", "/dev/null", 0, Some("")),
            (b"bytes", "/dev/null", 1, None),
        ] {
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-", &format!("FILE:{file},rdonly")]);
            command.current_dir(dir.path());
            let output = bounded(60, &command).stdin(file_of(input)).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{program:?} {file} {output:?}");
            assert_eq!(said(&output).contains("Bad file descriptor"), code == 1, "{output:?}");
            if let Some(heard) = heard {
                assert_eq!(output.stdout, heard.as_bytes(), "{program:?} {file}");
            }
        }
    }
}

/// A probe of the second listener would be paired with the first client.
#[test]
fn a_second_listener_listens_once_a_client_is_at_the_first() {
    let dir = TempDir::new().unwrap();
    let blocked = dir.path().join("b");
    fs::write(&blocked, "").unwrap();
    let mut command = gush();
    command.args(["socat", "-d", "-d", "UNIX-LISTEN:a,fork", "UNIX-LISTEN:b"]);
    let link = Running::of({
        command.current_dir(dir.path());
        command
    });
    link.says("listening on");
    let client = || UnixStream::connect(dir.path().join("a")).unwrap();
    assert_eq!(client().read(&mut [0]).unwrap_or(0), 0, "{}", link.said());
    fs::remove_file(&blocked).unwrap();
    let mut client = client();
    link.says_times("listening on", 2);
    let mut other = UnixStream::connect(&blocked).unwrap();
    client.write_all(b"asked").unwrap();
    let mut heard = [0; 5];
    other.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"asked");
}

/// For a filter the death by SIGPIPE is usual; scripts from socat expect a status and a message.
#[test]
fn a_reader_of_standard_output_that_goes_away_is_an_error() {
    let mut commands = vec![gush()];
    commands[0].arg("socat");
    match Command::new("socat").arg("-V").output() {
        Ok(_) => commands.push(Command::new("socat")),
        Err(_) => skipped("no socat to compare with"),
    }
    for mut command in commands {
        command.args(["-u", "/dev/zero", "-"]).stdout(std::process::Stdio::piped());
        let mut child = Killed(command.stderr(std::process::Stdio::piped()).spawn().unwrap());
        drop(child.0.stdout.take());
        let mut said = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("Broken pipe"), "{said}");
        assert_eq!(child.0.wait().unwrap().code(), Some(1), "{said}");
    }
}

/// A reader that goes away, to which there is always more to write.
fn left_by_its_reader(program: &[&str], option: &str) -> Option<i32> {
    let dir = TempDir::new().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let mut command = Command::new(program[0]);
    let words = ["-u", "/dev/zero", &format!("UNIX-CONNECT:s{option}")];
    command.args(&program[1..]).args(words).current_dir(dir.path());
    let mut running = Killed(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    drop(listener.accept().unwrap());
    running.0.wait().unwrap().code()
}

#[test]
fn a_reader_that_goes_away_is_no_error_with_cool_write() {
    let gush_link = [env!("CARGO_BIN_EXE_gush"), "link"];
    let mut programs = vec![&gush_link[..]];
    let socat = ["socat"];
    match Command::new("socat").arg("-V").output() {
        Ok(_) => programs.push(&socat),
        Err(_) => skipped("no socat to compare with"),
    }
    for program in programs {
        assert_eq!(left_by_its_reader(program, ""), Some(1), "{program:?}");
        assert_eq!(left_by_its_reader(program, ",cool-write"), Some(0), "{program:?}");
    }
    // Without it the link dies of SIGPIPE, like any filter.
    for (address, code) in [("-,cool-write", Some(0)), ("-", None)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = gush().args(["link", "-u", "zero:", address]).stdout(writer).status().unwrap();
        assert_eq!(status.code(), code, "{address}");
    }
}
