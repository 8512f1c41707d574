//! The messages of `gush link` about mistakes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::gush;
use crate::common::link::{Running, eventually};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, socket};
use rustix::process::Signal;
use tempfile::TempDir;

/// The message of `gush link` in `dir` before the exit with status 1.
fn refused(dir: &Path, args: &[&str]) -> String {
    let output = gush().arg("link").args(args).current_dir(dir).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(said.starts_with("gush: link: "), "{args:?}: {said}");
    said
}

#[test]
fn a_second_copy_is_refused_and_none_is_made() {
    let dir = TempDir::new().unwrap();
    for option in ["--tee", "--tee-back"] {
        let said = refused(dir.path(), &[option, "a", option, "b", "null:", "null:"]);
        assert!(said.contains(&format!("{option} is given twice")), "{said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_check_opens_nothing() {
    let dir = TempDir::new().unwrap();
    let check = |args: &[&str]| {
        gush().args(["link", "--check"]).args(args).current_dir(dir.path()).output().unwrap()
    };
    let serves = ["--tee", "copy", "--handover", "h", "unix-listen:s,fork", "file:f,create"];
    let checked = check(&["-u", "tcp:localhost:1", "pty,link=l"]);
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    let said = refused(dir.path(), &[&["--check"] as &[&str], &serves].concat());
    assert!(said.contains("the order of a copy (--tee)"), "{said}");
    let checked = check(&[&["-u"], &serves[..2], &serves[4..]].concat());
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    // Each client would need it: the start says so before the first one comes.
    for args in [&["--check"] as &[&str], &[]] {
        let serves = ["unix-listen:s,fork", "exec:true,run-as=no-such-user"];
        let said = refused(dir.path(), &[args, &serves].concat());
        assert!(said.contains("there is no user of this name"), "{said}");
    }
    let said = refused(dir.path(), &["--check", "-u", "file:f,wronly", "null:"]);
    assert!(said.contains("it can only be written, and the link reads from it"), "{said}");
}

#[test]
fn a_malformed_address_is_shown_with_the_piece_and_its_grammar() {
    let dir = TempDir::new().unwrap();
    assert_eq!(
        refused(dir.path(), &["tcp:localhost:70000", "-"]),
        "gush: link: ports end at 65535
  tcp:localhost:70000
                ^^^^^
  tcp:HOST:PORT connect; write an IPv6 address in brackets
  options: bind=HOST, bindtodevice=NAME, chroot=PATH, connect-timeout=SECONDS,
  cool-write, cr, crnl, escape=BYTE, fork, freebind, ignoreeof,
  interval=SECONDS, keepalive, keepcnt=N, keepidle=SECONDS, keepintvl=SECONDS,
  lockfile=PATH, lowport, max-children=N, mss=N, netns=NAME, nodelay,
  prefer=4|6, priority=N, rcvbuf=BYTES, readbytes=BYTES, retry=N|forever,
  reuseaddr, reuseport, run-as=USER, setgid=GROUP, setsockopt=LEVEL:NAME:VALUE,
  setuid=USER, shared, shut-none, sndbuf=BYTES, tos=N, transparent, ttl=N,
  user-timeout=SECONDS, waitlock=PATH
"
    );
    let said = refused(dir.path(), &["-", "localhost:80,crnl"]);
    let hint = "unknown kind of address 'localhost'; did you mean tcp:localhost:80, or the file ./localhost:80?\n";
    assert!(said.starts_with(&format!("gush: link: {hint}")), "{said}");
    assert_eq!(
        refused(dir.path(), &["-", "tpc:localhost:80"]),
        "gush: link: unknown kind of address 'tpc'; did you mean 'tcp'?
  tpc:localhost:80
  ^^^
  the kinds of addresses:
  - PATH file:PATH pipe:[PATH] socketpair pty fd:N exec:COMMAND shell:COMMAND
  tcp:HOST:PORT tcp-listen:[HOST:]PORT tls:HOST:PORT tls-listen:[HOST:]PORT
  unix:PATH unix-client:PATH unix-listen:PATH unix-sendto:PATH unix-recv:PATH
  unix-recvfrom:PATH udp:HOST:PORT udp-sendto:HOST:PORT udp-datagram:HOST:PORT
  udp-recv:[HOST:]PORT udp-listen:[HOST:]PORT udp-recvfrom:[HOST:]PORT
  vsock:CID:PORT vsock-listen:[CID:]PORT socks4:PROXY:PORT:HOST:PORT
  socks4a:PROXY:PORT:HOST:PORT socks5:PROXY:PORT:HOST:PORT
  http-connect:PROXY:PORT:HOST:PORT listen-fd:N|NAME ADDR!!ADDR ADDR|ADDR...
  zero: null:
"
    );
    for args in [["-,fork", "-"], ["null:", "-,fork"]] {
        let said = refused(dir.path(), &args);
        assert!(said.contains("\n  -,fork\n    ^^^^\n"), "as the user wrote it: {said}");
    }
    let letter = refused(dir.path(), &["a:b", "-"]);
    assert!(letter.contains("'a'; a file of this name is written ./a:b\n"), "{letter}");
    let empty = refused(dir.path(), &["", "-"]);
    assert!(empty.starts_with("gush: link: an address is missing here\n  the kinds of"), "{empty}");
    let open = refused(dir.path(), &["exec:'cat", "-"]);
    assert!(open.contains("never closed") && open.contains("  exec:COMMAND a program"), "{open}");
    assert!(refused(dir.path(), &["tcp:localhost:0", "-"]).contains("nothing can be reached"));
}

#[test]
fn a_keyword_alone_makes_no_file_of_its_name() {
    let dir = TempDir::new().unwrap();
    for word in ["raw", "openssl", "tcp", "exec", "unix-listen", "file", "STDERR"] {
        let said = refused(dir.path(), &["-u", "-", word]);
        assert!(said.contains(&format!("a file of this name is written ./{word}")), "{said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let made = gush().args(["link", "-u", "-", "./pty"]).current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert!(dir.path().join("pty").exists());
}

#[test]
fn options_may_stand_between_and_after_the_addresses() {
    for args in [
        ["--threads=0", "null:", "-"],
        ["-u", "null:", "-"],
        ["null:", "-u", "-"],
        ["null:", "-", "-u"],
    ] {
        let output = gush().arg("link").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

#[test]
fn there_are_two_addresses_no_fewer_and_no_more() {
    let dir = TempDir::new().unwrap();
    let none = refused(dir.path(), &[]);
    assert!(none.contains("missing operands: ADDR1, ADDR2\n"), "{none}");
    let one = refused(dir.path(), &["null:"]);
    assert!(one.contains("missing operand: ADDR2\n"), "{one}");
    assert!(refused(dir.path(), &["null:", "null:", "zero:"]).contains("'zero:'"));
}

#[test]
fn a_directory_is_no_address() {
    let dir = TempDir::new().unwrap();
    for args in
        [&["-u", ".", "null:"][..], &["-u", "null:", "."], &[".", "null:"], &["file:.", "-"]]
    {
        let said = refused(dir.path(), args);
        assert!(
            said.contains("open: Is a directory")
                && said.contains("(a directory has no bytes to move: name a file in it)"),
            "{said}"
        );
    }
}

#[test]
fn a_file_is_not_linked_to_itself() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("data");
    fs::write(&file, "content").unwrap();
    fs::hard_link(&file, dir.path().join("again")).unwrap();
    for args in
        [&["-u", "data", "data"][..], &["data", "again"], &["-u", "file:data", "file:again,append"]]
    {
        let said = refused(dir.path(), args);
        assert!(said.contains("input is output: the link would read its own output"), "{said}");
    }
    let said = refused(dir.path(), &["-u", "--tee", "again", "data", "null:"]);
    assert!(said.contains("link: data: the copy would be written into its own source"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
}

#[test]
fn contradictions_are_refused() {
    let dir = TempDir::new().unwrap();
    let cases: [(&[&str], &str); 12] = [
        (&["tcp-listen:0,fork", "tcp-listen:0,fork"], "both addresses say fork"),
        (&["-u", "--tee-back", "copy", "null:", "null:"], "bytes go one way only"),
        (&["--proxy-protocol", "accept", "null:", "null:"], "takes an address that listens"),
        (&["--limit", "0", "null:", "null:"], "more than zero"),
        (&["--one-wya", "null:", "null:"], "'--one-wya'; did you mean '--one-way'?"),
        (&["--threads", "x", "null:", "null:"], "write a whole number from 0 to 1024"),
        (&["-T", "5x", "null:", "null:"], "write seconds, such as 2 or 0.5"),
        (&["file:x,rdonly,append", "null:"], "contradict each other"),
        (
            &["--method", "vmsplice", "null:", "null:"],
            "invalid --method 'vmsplice'; choose from auto, read-write, splice",
        ),
        (&["null:"], "missing operand: ADDR2\n"),
        (&["null:", "null:", "null:"], "extra operand 'null:'\n"),
        (&["--stats=xml", "null:", "null:"], "invalid --stats 'xml'; choose from text, json\n"),
    ];
    for (args, words) in cases {
        let said = refused(dir.path(), args);
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made before");
}

#[test]
fn the_metrics_place_is_a_host_and_a_port() {
    let dir = TempDir::new().unwrap();
    for (place, words) in [
        ("9100", "write HOST:PORT, such as localhost:9100"),
        (":9100", "write HOST:PORT"),
        ("localhost:70000", "no port from 0 to 65535"),
        ("localhost:", "no port from 0 to 65535"),
        ("::1:9100", "is written in brackets"),
    ] {
        let said = refused(dir.path(), &["--metrics", place, "null:", "null:"]);
        assert!(said.contains(words), "{said}");
    }
    for place in ["[::1]:0", "localhost:0"] {
        let output = gush().args(["link", "--metrics", place, "null:", "null:"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // A machine without IPv6 has no such address.
        assert!(said.is_empty() || said.contains(": listen: "), "{place}: {said}");
    }
}

#[test]
fn a_copy_that_cannot_be_opened_is_reported_before_anything_is_done() {
    let dir = TempDir::new().unwrap();
    let said = refused(dir.path(), &["--tee", "no/file", "null:", "file:made,create"]);
    assert_eq!(
        said,
        "gush: link: the copy into no/file: open: No such file or directory (mkdir -p 'no' makes the directory)\n"
    );
    assert!(!dir.path().join("made").exists());
}

#[test]
fn a_name_that_is_missing_or_a_directorys_is_reported_with_a_remedy() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("there")).unwrap();
    for (args, remedy) in [
        (&["unix-listen:there/", "-"][..], "write there/NAME for a name in this directory"),
        (&["unix-listen:there", "-"], "write there/NAME for"),
        (&["unix-listen:new/", "-"], "leave the slash out"),
        (&["pty,link=there/", "-"], "write there/NAME for"),
        (&["pty,link=new/", "-"], "leave the slash out"),
        (&["-u", "pipe:new/", "-"], "leave the slash out"),
        (&["-u", "pipe:no/fifo", "-"], "mkdir -p 'no' makes the directory"),
        (&["-u", "-", "create:no/file"], "mkdir -p 'no' makes the directory"),
        (&["-u", "-", "file:no/file"], "mkdir -p 'no' makes the directory"),
        (&["-,lockfile=no/lock", "-"], "mkdir -p 'no' makes the directory"),
        (&["unix-listen:no/socket", "-"], "mkdir -p 'no' makes the directory"),
        (&["-u", "unix-recv:no/socket", "-"], "mkdir -p 'no' makes the directory"),
        (&["--make-cert", "no/own"], "mkdir -p 'no' makes the directory"),
        (&["--tee", "there", "-", "-"], "name a file in it"),
    ] {
        let said = refused(dir.path(), args);
        assert!(said.contains(remedy), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_method_that_adds_to_no_file_is_refused_with_an_address_that_writes_it_anew() {
    let dir = TempDir::new().unwrap();
    for name in ["from", "to it"] {
        std::fs::write(dir.path().join(name), "some").unwrap();
    }
    for method in ["splice", "sendfile"] {
        let said = refused(dir.path(), &["-u", "from", "to it", "--method", method]);
        assert!(said.contains("(a PATH is written at its end; file:to it,create,trunc "), "{said}");
    }
    // Without -u the first is written, too.
    let said = refused(dir.path(), &["to it", "shell:echo x", "--method", "splice"]);
    assert!(said.contains("(a PATH is written at its end; file:to it,create,trunc "), "{said}");
    for ends in [&["-u", "from", "file:to it,append"][..], &["file:to it,append", "shell:echo x"]] {
        let said = refused(dir.path(), &[ends, &["--method", "splice"]].concat());
        assert!(said.contains("(choose another method,"), "{said}");
    }
    assert_eq!(std::fs::read(dir.path().join("to it")).unwrap(), b"some");
}

#[test]
fn a_closed_or_full_standard_output_is_an_error() {
    let shell = |line: &str| {
        let output = Command::new("sh").args(["-c", line, env!("CARGO_BIN_EXE_gush")]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    let closed = shell("\"$0\" link -u zero: - >&-");
    assert!(closed.starts_with("gush: link: -: open: standard output is closed"), "{closed}");
    let full = shell("\"$0\" link -u zero: - >/dev/full");
    assert!(full.starts_with("gush: link: -: write: No space left on device"), "{full}");
    let unread = shell("\"$0\" link -u - null: <&-");
    assert!(unread.starts_with("gush: link: -: open: standard input is closed"), "{unread}");
}

#[test]
fn a_program_sees_the_end_of_an_unfinished_line_on_its_terminal() {
    let mut command = gush();
    command.args(["link", "-", "exec:cat,pty,echo=0"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"no end of line").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"no end of line");
}

#[test]
fn a_raw_terminal_gets_no_byte_of_ours() {
    let mut command = gush();
    command.args(["link", "-t", "2", "-", "exec:cat,pty,raw"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a\x04b\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"a\x04b\n");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("-t TIME ends the link"),
        "{output:?}"
    );
}

/// Anybody who may connect chooses the name.
#[test]
fn the_name_of_a_client_cannot_write_to_the_terminal_nor_end_a_line() {
    let dir = TempDir::new().unwrap();
    let own = gush_test::own_dir().to_string_lossy().into_owned();
    let path = dir.path().join("server");
    let listen = format!("unix-listen:{},fork", path.display());
    for format in [&["--log", "info"][..], &["--json"], &["--log", "info", "--log-format=json"]] {
        let link = Running::of({
            let mut command = gush();
            command.arg("link").args(format).args(["--stats", &listen, "pipe:"]);
            command
        });
        eventually("it listens", || path.exists());
        let shown = "@\\x1b[31m\\x0agush: \\x9b\\xc2\\x9b";
        let name = [&b"\0\x1b[31m\ngush: "[..], b"\x9b\xc2\x9b", own.as_bytes()].concat();
        let client = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&client, &SocketAddrUnix::new_abstract_name(&name[1..]).unwrap()).unwrap();
        connect(&client, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        drop(client);
        link.says("closed");
        link.signal(Signal::TERM);
        let (status, _, said) = link.finish();
        assert!(status.success(), "{status}: {said}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        let reported = said.replace("\\\\", "\\");
        assert!(reported.contains(shown), "{reported}");
        assert!(said.lines().all(|line| line.starts_with(['g', '{', '1'])), "{said}");
    }
}
