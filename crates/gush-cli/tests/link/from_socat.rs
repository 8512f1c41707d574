//! `gush link --from-socat`: command lines of socat(1) in words of ours.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::link::Running;
use crate::common::{bounded, gush, noise, skipped};
use gush_test::{Port, side_by_side};
use rustix::process::Signal;
use tempfile::TempDir;

/// The answer to the words after `socat`, as a shell would pass them.
fn translated(arguments: &str) -> Output {
    gush().args(["link", "--from-socat", arguments]).output().unwrap()
}

/// The output of a line for a shell in `dir`, where `gush` is the built program.
fn shell(line: &str, dir: &Path) -> Output {
    let built = Path::new(env!("CARGO_BIN_EXE_gush")).parent().unwrap();
    let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path).current_dir(dir);
    bounded(20, &command).output().unwrap()
}

/// The files of `dir` with their modes and contents, in the order of their names.
fn files(dir: &Path) -> Vec<(OsString, u32, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let mode = entry.metadata().unwrap().permissions().mode();
            (entry.file_name(), mode, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_equivalent_does_what_socat_does() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    let cases = [
        "-u EXEC:'printf %s\\, a b' -",
        "-u SYSTEM:'echo a\\,b; echo \"c  d\"' -",
        r#"-u 'SYSTEM:echo \"it'"\\'"'s  so\" {1,2} $((2+3)) [a,b]' -"#,
        "-U - SYSTEM:'echo back'",
        "SYSTEM:'echo one; read a; echo $a >seen' SYSTEM:'read a; echo $a >other; echo two'",
        "-u SYSTEM:'seq 3' CREATE:made,mode=600",
        "-u SYSTEM:'seq 4' \"OPEN:'a,b',creat\"",
        "-u SYSTEM:'seq 5' GOPEN:./appended",
        "-u SYSTEM:'seq 5' GOPEN:./appended,trunc=0",
        "-u OPEN:/etc/passwd!!PIPE CREATE:made",
        "-u /etc/passwd,rdonly -",
        "-r forward -R back SYSTEM:'echo to; read a; read b' SYSTEM:'echo fro; echo fro; read a'",
        "-u EXEC:'sh -c \"echo out; echo err >&2\"',stderr -",
        "-u -b1 FILE:/etc/passwd,seek=5 STDOUT",
        // A program has the standard streams where it is not connected.
        "-u EXEC:gzip CREATE:out.gz",
        "-u SYSTEM:cat!!- CREATE:out",
        "-u SYSTEM:'stty raw <&1; cat',pty,raw -",
        "-u SYSTEM:'echo out; echo err >&2',pty CREATE:out",
        "-u SYSTEM:'echo out; echo err >&2',pty,stderr CREATE:out",
        "-u - EXEC:'tr a-z A-Z'",
        "-u OPEN:/etc/passwd,readbytes=9 -",
        "-u OPEN:/etc/passwd,o-noatime -",
        "-u - OPEN:made,creat,o-sync,ftruncate=0",
        "-u - CREATE:made,umask=137",
        "-u - OPEN:made,creat,mode=666",
        "-u - SYSTEM:'cat <&5 >got',fdin=5",
        "-t 1 - SYSTEM:'cat <&3 >&4',fdin=3,fdout=4",
        "- SYSTEM:'wc -l; exit 7',nofork",
        "- EXEC:\"sh -c 'wc -l; exit 7'\",nofork",
        "-u - EXEC:wc,nofork",
        "-U - EXEC:'wc /etc/passwd',nofork",
        "-t 0.1 - SYSTEM:'cat >got; sleep 1; echo later',nofork",
        "-u SYSTEM:'test $SOCAT_PID = $SOCAT_PPID && echo same' -",
        "-u SYSTEM:'echo $0' -",
        "-u -r forward -R back - CREATE:made",
        "-U -r forward -R back SYSTEM:'cat >made' -",
        "-t 1 SYSTEM:'until test -p f; do sleep 0.01; done; stat -c %a f >seen' PIPE:f,mode=666",
    ];
    for arguments in cases {
        let answer = translated(arguments);
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.status.success(), "{arguments}: {said}");
        let line = String::from_utf8(answer.stdout).unwrap();
        let [socat_dir, gush_dir] = [(); 2].map(|()| TempDir::new().unwrap());
        let socat = shell(&format!("seq 3000 | socat {arguments}"), socat_dir.path());
        let gush = shell(&format!("seq 3000 | {line}"), gush_dir.path());
        let outcome = |output: &Output| {
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert_eq!(outcome(&gush), outcome(&socat), "{arguments}\n{line}\n{gush:?}");
        assert!(files(gush_dir.path()) == files(socat_dir.path()), "{arguments}\n{line}");
    }
}

/// socat opens the first address once, and all clients of the second share it.
#[test]
fn what_all_clients_share_has_the_same_from_socat_and_from_the_equivalent() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    for address in ["OPEN:got,creat,trunc", "SYSTEM:'cat >got'", "GOPEN:got"] {
        for way in ["", "-U "] {
            let reserved = Port::reserve();
            let port = reserved.number();
            let arguments =
                format!("{way}{address} TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork");
            let equivalent = String::from_utf8(translated(&arguments).stdout).unwrap();
            let [socat, gush] = [format!("socat {arguments}"), equivalent].map(|line| {
                let dir = TempDir::new().unwrap();
                let script = format!(
                    "{} & link=$!
                     until grep -qi ':{port:04X} 00000000:0000 0A' /proc/net/tcp; do sleep 0.01; done
                     for client in 1 2 3; do
                         echo $client | socat -u - TCP:127.0.0.1:{port}
                         until grep -qs $client got; do sleep 0.01; done
                     done
                     kill $link; wait",
                    line.trim_end()
                );
                let done = shell(&script, dir.path());
                (std::fs::read_to_string(dir.path().join("got")).unwrap_or_default(), line, done)
            });
            assert_eq!(gush.0, socat.0, "{}: {:?}", gush.1, gush.2);
            assert_eq!(gush.0, "1\n2\n3\n", "{}: {:?}", socat.1, socat.2);
        }
    }
}

/// A shell has read the quotes of a command line that is not one word already.
#[test]
fn a_command_line_of_socat_may_be_one_word_or_several() {
    let line = |words: &[&str]| {
        let output = gush().args(["link", "--from-socat"]).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (one, several) in [
        ("TCP-LISTEN:80,fork TCP:h:1", &["TCP-LISTEN:80,fork", "TCP:h:1"][..]),
        ("-d -u -T 3 -,raw TCP:h:1", &["-d", "-u", "-T", "3", "-,raw", "TCP:h:1"]),
        ("socat - 'SYSTEM:echo \"$HOME\"'", &["socat", "-", "SYSTEM:echo \"$HOME\""]),
    ] {
        assert_eq!(line(several), line(&[one]), "{one}");
    }
}

/// Each side by socat and by the equivalent, in each direction; and a client that does not trust
/// the server.
#[test]
fn the_equivalents_of_openssl_addresses_speak_with_socat() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to speak with");
    }
    let dir = TempDir::new().unwrap();
    let made = gush().args(["link", "--make-cert"]).arg(dir.path().join("own")).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::write(dir.path().join("sent"), noise(300_000, 1)).unwrap();
    let equivalent = |arguments: &str| {
        let answer = translated(arguments);
        assert!(answer.status.success(), "{arguments}: {answer:?}");
        String::from_utf8(answer.stdout).unwrap()
    };
    let socat = |arguments: &str| format!("socat {arguments}");
    for (trust, is_trusted) in
        [("cafile=own.crt", true), ("verify=0", true), ("snihost=localhost", false)]
    {
        let says: [&dyn Fn(&str) -> String; 2] = [&socat, &equivalent];
        for (server, client) in [(0, 1), (1, 0), (1, 1)] {
            let reserved = Port::reserve();
            let port = reserved.number();
            let listen = format!(
                "OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,cert=own.crt,key=own.key,verify=0"
            );
            let connect = format!("OPENSSL:localhost:{port},pf=ip4,{trust}");
            let listens = says[server](&format!("-u {listen} CREATE:got"));
            let connects = says[client](&format!("-u OPEN:sent {connect}"));
            let waits = format!(
                "until grep -qi ':{port:04X} 00000000:0000 0A' /proc/net/tcp; do sleep 0.01; done"
            );
            let line = format!(
                "({listens}) & {waits}; ({connects}); echo ended $? >>ends; wait $!; echo served $? >>ends"
            );
            let done = shell(&line, dir.path());
            let context = format!("{listens}{connects}{done:?}");
            let got = std::fs::read(dir.path().join("got")).unwrap_or_default();
            let ends = std::fs::read_to_string(dir.path().join("ends")).unwrap();
            // The failure of socat 1.8.
            let ends = ends.replace("255", "1");
            let expected = if is_trusted { "ended 0\nserved 0\n" } else { "ended 1\nserved 1\n" };
            assert_eq!(ends, expected, "{context}");
            assert_eq!(
                got == std::fs::read(dir.path().join("sent")).unwrap(),
                is_trusted,
                "{} bytes: {context}",
                got.len()
            );
            for name in ["got", "ends"] {
                let _ = std::fs::remove_file(dir.path().join(name));
            }
        }
    }
}

#[test]
fn programs_get_the_variables_of_socat_in_socats_form() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    let dir = TempDir::new().unwrap();
    let reserved = Port::reserve();
    let port = reserved.number();
    let own = gush_test::own_dir().display().to_string();
    for (listen, connect) in [
        (format!("TCP6-LISTEN:{port},bind=[::1],reuseaddr"), format!("TCP6:[::1]:{port}")),
        (format!("TCP4-LISTEN:{port},reuseaddr"), format!("TCP4:127.0.0.1:{port}")),
        // Sockets of IPv6 see clients of IPv4 as mapped addresses.
        (format!("TCP6-LISTEN:{port},reuseaddr"), format!("TCP4:127.0.0.1:{port}")),
        (format!("UDP6-LISTEN:{port},reuseaddr"), format!("UDP4:127.0.0.1:{port}")),
        (format!("UDP6-LISTEN:{port},reuseaddr,fork"), format!("UDP4:127.0.0.1:{port}")),
        ("UNIX-LISTEN:s".to_owned(), "UNIX-CONNECT:s".to_owned()),
        ("UNIX-LISTEN:s".to_owned(), "UNIX-CONNECT:s,bind=c".to_owned()),
        (format!("ABSTRACT-LISTEN:{own}"), format!("ABSTRACT-CONNECT:{own}")),
    ] {
        let arguments =
            format!("-t 1 {listen} SYSTEM:'echo \"$SOCAT_PEERADDR\" \"$SOCAT_SOCKADDR\" >>got'");
        let ends = if listen.contains("fork") { "kill $!; " } else { "" };
        let equivalent = String::from_utf8(translated(&arguments).stdout).unwrap();
        let seen = [format!("socat {arguments}"), equivalent].map(|server| {
            let server = server.trim_end();
            let line = format!(
                "{server} 2>seen & until test -s got; do echo | socat -t 0.1 - {connect} 2>>seen; \
                 rm -f c; sleep 0.05; done; {ends}wait $!; head -n 1 got; rm -f s c got"
            );
            let done = shell(&line, dir.path());
            assert!(done.status.success(), "{line}: {done:?}");
            String::from_utf8(done.stdout).unwrap()
        });
        assert_eq!(seen[0], seen[1], "{listen}");
    }
}

#[test]
fn nonblock_refuses_a_fifo_without_a_reader_and_reads_from_a_later_writer() {
    let dir = TempDir::new().unwrap();
    assert!(shell("mkfifo f", dir.path()).status.success());
    let line = |arguments| String::from_utf8(translated(arguments).stdout).unwrap();
    let done = shell(&line("-u - OPEN:f,ndelay"), dir.path());
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("no program reads the FIFO"), "{said}");
    for arguments in ["-u OPEN:f,nonblock -", "-u PIPE:f,o-nonblock -"] {
        let reads = line(arguments);
        let done = shell(&format!("{} & echo hi >f; wait $!", reads.trim_end()), dir.path());
        assert!(done.status.success() && done.stdout == b"hi\n", "{reads}: {done:?}");
    }
}

#[test]
fn what_has_no_equivalent_is_said_part_by_part_and_nothing_is_printed() {
    let answer = translated("-ly TUN:10.0.0.1/24,up TCP-LISTEN:1,fork,tcpwrap=a");
    assert_eq!(answer.status.code(), Some(1));
    assert!(answer.stdout.is_empty(), "{answer:?}");
    let said = String::from_utf8(answer.stderr).unwrap();
    let lines: Vec<_> =
        said.lines().filter(|line| line.starts_with("gush: link: no equivalent: ")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    for (line, part) in lines.iter().zip(["-ly: messages", "TUN: network", "tcpwrap=a: range="]) {
        assert!(line.contains(part), "{line}");
    }
}

/// Names of socat, in the case in which they were mistyped; other words are not near to any.
#[test]
fn a_mistyped_name_of_socat_is_answered_by_the_nearest() {
    for (arguments, answer) in [
        ("- TPC:h:1", "unknown kind of address 'TPC'; did you mean 'TCP'?\n"),
        ("- tcp-listn:1", "unknown kind of address 'tcp-listn'; did you mean 'tcp-listen'?\n"),
        // A listener cannot stand there.
        ("- tcp-listn:1!!-", "unknown kind of address 'tcp-listn'; gush link --help lists them\n"),
        ("- FOO:x", ": unknown kind of address 'FOO'; gush link --help lists them\n"),
        (
            "- TCP,fork",
            "gush: link: TCP,fork: tcp needs more, after a colon: tcp:HOST:PORT; a file of this name is written ./TCP\n",
        ),
        (
            "- TCP:h:1,md5sig=1",
            "no equivalent: md5sig=1: setsockopt=LEVEL:NAME:VALUE sets any option by its numbers\n",
        ),
        (
            "- TCP-LISTEN:1,frok",
            "gush: link: TCP-LISTEN:1: frok: unknown option 'frok' of tcp-listen; did you mean 'fork'?\n",
        ),
        (
            "- UDP-LISTEN",
            "gush: link: UDP-LISTEN: udp-listen needs more, after a colon: udp-listen:[HOST:]PORT; a file of this name is written ./UDP-LISTEN\n",
        ),
        (
            "- EXEC:'ssh h',nonblock,rawer",
            "gush: link: EXEC:ssh h: rawer: a terminal setting needs pty too\n",
        ),
        ("- TCP:h:1,retry=x", "retry=x: retry takes a number, or 'forever'\n"),
        ("- TCP:h:1,fnord", "gush: link: TCP:h:1: fnord: unknown option 'fnord' of tcp\n"),
        ("--statistcs - -", "unknown switch '--statistcs'; did you mean '--statistics'?\n"),
        ("-X - -", "unknown switch '-X'\n"),
        ("-z - -", "unknown switch '-z'\n"),
    ] {
        let said = String::from_utf8(translated(arguments).stderr).unwrap();
        assert!(said.ends_with(answer), "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments}: {said}");
    }
}

#[test]
fn the_last_option_of_a_name_counts_and_empty_ones_do_not() {
    for (given, ours) in [
        ("TCP-LISTEN:1,fork,,reuseaddr,fork -", "tcp4-listen:1,fork,reuseaddr -"),
        ("TCP-LISTEN:1,nodelay=1,fork,nodelay=0 -", "tcp4-listen:1,fork,nodelay=0 -"),
        ("- TCP:h:1,nodelay,", "- tcp:h:1,nodelay,prefer=4"),
    ] {
        let output = translated(given);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, format!("gush link --graceful {ours}\n"), "{given}");
    }
}

#[test]
fn values_that_socat_refuses_or_lacks_are_named_and_passwords_are_not() {
    for (arguments, answer) in [
        ("-T abc - TCP:h:1", "-T abc: not a time: socat takes seconds, such as 2 or 0.5\n"),
        ("-t-5 - TCP:h:1", "-t -5: not a time: socat takes seconds, such as 2 or 0.5\n"),
        ("-T inf - TCP:h:1", "-T inf: not a time: socat takes seconds, such as 2 or 0.5\n"),
        (
            "- ,TCP:h:1",
            "gush: link: ,TCP:h:1: an address of socat begins with its kind, or a path\n",
        ),
    ] {
        let output = translated(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.ends_with(answer) && said.lines().count() == 1, "{arguments}: {said}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{arguments}");
    }
    let said = String::from_utf8(translated("-T").stderr).unwrap();
    assert!(said.starts_with("gush: link: -T: its value is missing\n"), "{said}");
    let said = String::from_utf8(translated("PROXY:p:h:443,proxyauth=u:secret -").stderr).unwrap();
    assert!(said.contains("proxyauth=...: ") && !said.contains("secret"), "{said}");
}

/// Notes are about a command, and none is printed; an expansion may be the reason.
#[test]
fn a_refusal_comes_first_and_without_notes_on_other_parts() {
    for (arguments, lines) in [
        ("-b 5 -T 3 - TUN,nonblock", &["no equivalent: TUN: network interfaces"][..]),
        ("/no/such TCP:h:1,md5sig=1,nonblock", &["no equivalent: md5sig=1: "]),
        ("-b 5 - TCP:$PLACE", &["TCP:$PLACE: a host and a port", "note: $PLACE: a shell expands"]),
        ("- 'UNIX:a", &["- 'UNIX:a: a quote"]),
    ] {
        let said = String::from_utf8(translated(arguments).stderr).unwrap();
        assert_eq!(said.lines().count(), lines.len(), "{arguments}: {said}");
        for (said, line) in said.lines().zip(lines) {
            assert!(said.starts_with(&format!("gush: link: {line}")), "{arguments}: {said}");
        }
    }
}

#[test]
fn a_part_that_needs_no_equivalent_is_noted() {
    let answer = translated("-b 65536 -t 1 - TCP:127.0.0.1:80,nonblock");
    assert_eq!(answer.stdout, b"gush link --graceful -b 65536 -t 1 - tcp:127.0.0.1:80\n");
    let said = String::from_utf8(answer.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("note: nonblock: nothing waits"), "{said}");
}

/// A program writes its terminal's settings into a file; socat may miss a program's last output.
#[test]
fn a_terminal_echoes_and_edits_lines_as_socat_has_it() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    const SEEN: [&str; 7] = ["brkint", "icrnl", "ixon", "imaxbel", "opost", "icanon", "echo"];
    // They show only together with opost and echo.
    const SHOWN: [&str; 2] = ["onlcr", "echoctl"];
    for (option, expected) in [
        ("raw", "-brkint -icrnl -ixon -imaxbel -opost -icanon echo"),
        ("raw,echo=0", "-brkint -icrnl -ixon -imaxbel -opost -icanon -echo"),
        ("echo=0,raw", "-brkint -icrnl -ixon -imaxbel -opost -icanon -echo"),
        ("rawer", "-brkint -icrnl -ixon -imaxbel -opost -icanon -echo"),
        ("rawer,opost,echo", "-brkint -icrnl -ixon -imaxbel opost -icanon echo"),
        ("rawer,echo,raw", "-brkint -icrnl -ixon -imaxbel -opost -icanon echo"),
        ("cfmakeraw", "-brkint -icrnl -ixon -imaxbel -opost -icanon -echo"),
        ("cfmakeraw,raw", "-brkint -icrnl -ixon -imaxbel -opost -icanon -echo"),
        ("imaxbel,echo,cfmakeraw", "-brkint -icrnl -ixon imaxbel -opost -icanon -echo"),
        ("brkint,icanon,raw,icrnl", "-brkint icrnl -ixon -imaxbel -opost -icanon echo"),
        ("sane", "brkint icrnl ixon imaxbel opost icanon echo"),
        ("sane,echo=0,imaxbel=0", "brkint icrnl ixon -imaxbel opost icanon -echo"),
        ("echo=0,icrnl=0,ixon=0,sane", "brkint icrnl -ixon imaxbel opost icanon echo"),
        ("sane,raw", "-brkint -icrnl -ixon -imaxbel -opost -icanon echo"),
        ("raw,sane", "brkint icrnl -ixon imaxbel opost icanon echo"),
        ("rawer,ixon,sane", "brkint icrnl ixon imaxbel opost icanon echo"),
    ] {
        let arguments = format!("-u SYSTEM:'stty -a <&1 >seen',pty,{option} -");
        let equivalent = String::from_utf8(translated(&arguments).stdout).unwrap();
        let mut shown = Vec::new();
        for line in [format!("socat {arguments}"), equivalent] {
            let dir = TempDir::new().unwrap();
            let done = shell(&line, dir.path());
            let seen = std::fs::read_to_string(dir.path().join("seen")).unwrap();
            let modes = |of: &[&str]| {
                let is_of = |word: &&str| of.contains(&word.trim_start_matches('-'));
                seen.split_whitespace().filter(is_of).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(modes(&SEEN), expected, "{line}: {done:?}: {seen}");
            shown.push(modes(&SHOWN));
        }
        let is_shown = option.contains("opost");
        assert!(!is_shown || shown[0] == shown[1], "{arguments}: {shown:?}");
    }
}

#[test]
fn a_command_that_ends_or_reads_otherwise_is_noted() {
    let cases = [
        ("-t 1 - EXEC:prog", "- exec:prog", ""),
        ("-t 1 TCP:h:1 EXEC:prog", "tcp:h:1,prefer=4 exec:prog", ""),
        ("-t 1 -T 5 - TCP:h:1", "-T 5 - tcp:h:1,prefer=4", "note: -T: a reader that takes nothing"),
        ("-t 1 FILE:`tty`,rawer - ", "'file:`tty`,rawer' -", "note: `tty`: a shell expands"),
        ("-t 1 - \"UNIX:$HOME/s\"", "- 'unix-client:$HOME/s'", "note: $HOME: a shell expands"),
        ("-t 1 PTY,sane -", "pty,sane -", ""),
    ];
    for (socat, gush, note) in cases {
        let answer = translated(socat);
        let said = String::from_utf8(answer.stderr).unwrap();
        assert_eq!(
            String::from_utf8(answer.stdout).unwrap(),
            format!("gush link --graceful -t 1 {gush}\n"),
            "{said}"
        );
        let lines = usize::from(!note.is_empty());
        assert!(said.lines().count() == lines && said.contains(note), "{socat}: {said}");
    }
    let literal = translated("-t 1 - 'UNIX:$HOME/`s`'");
    assert!(literal.stderr.is_empty(), "{literal:?}");
}

/// socat listens on IPv4 alone by default: a listener on IPv6, too, may find the port taken, and
/// lets other clients in.
#[test]
fn the_equivalent_of_a_listener_takes_ipv4_alone() {
    let answer = translated("-t 1 -u TCP-LISTEN:0 -");
    let line = String::from_utf8(answer.stdout).unwrap();
    let words: Vec<_> = line.split_whitespace().skip(2).collect();
    let link = Running::start(&words);
    let said = link.says("listening on ");
    assert!(said.contains("listening on 0.0.0.0:"), "{said}");
    link.signal(Signal::TERM);
    link.finish();
}

#[test]
fn it_takes_neither_addresses_nor_other_options() {
    let output = gush().args(["link", "--from-socat", "- -", "null:", "null:"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty());
}

/// The list of `socat -h` has one name of each; the others are in the table of xioopen.c.
#[test]
fn every_name_of_a_kind_of_address_of_socat_has_an_answer() {
    for (name, answer) in [
        ("UDP-SEND", "gush link --graceful -u - udp-sendto:h:1"),
        ("UDP4-SEND", "gush link --graceful -u - udp4-sendto:h:1"),
        ("UDP6-SEND", "gush link --graceful -u - udp6-sendto:h:1"),
        ("UDP-DGRAM", "gush link --graceful -u - udp-datagram:h:1"),
        ("INET4-LISTEN", "gush link --graceful -u - tcp4-listen:h:1"),
        ("INET6-LISTEN", "gush link --graceful -u - tcp6-listen:h:1"),
        ("IP-SEND", "IP-SEND: raw IP is left to socat"),
    ] {
        let done = translated(&format!("-u - {name}:h:1"));
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(answer), "{name}: {said}");
    }
}

/// A word of socat without `--from-socat` is answered with the option that translates it.
#[test]
fn a_word_of_socat_in_an_address_points_at_the_translation() {
    const POINTER: &str = "  this word is socat's: gush link --from-socat 'ARGS' prints";
    for address in [
        "exec:true,pty,ctty",
        "tcp:h:1,forever",
        "tcp:h:1,sourceport=7",
        "tcp:h:1,pf=ip6",
        "null:!!tcp:h:1,FLOCK=5",
        "socks:p:h:1",
        "proxy:p:h:1",
        "readline",
    ] {
        let said = String::from_utf8(gush().args(["link", "-", address]).output().unwrap().stderr);
        let said = said.unwrap();
        assert!(said.contains(POINTER), "{address}: {said}");
    }
    for address in
        ["tcp:h:1,frok", "tpc:h:1", "tcp:h:99999", "tcp-listen:1,rdonly", "exec:true,end"]
    {
        let said = String::from_utf8(gush().args(["link", "-", address]).output().unwrap().stderr);
        let said = said.unwrap();
        assert!(!said.contains("socat'"), "{address}: {said}");
    }
}

#[test]
fn another_number_of_addresses_is_the_fault_of_none() {
    for arguments in ["", "-", "- -- -"] {
        let said = String::from_utf8(translated(arguments).stderr).unwrap();
        assert_eq!(said, "gush: link: socat takes two addresses, after all switches\n");
    }
}

/// Another name of an option that is translated or not needed is translated or not needed, too.
#[test]
fn every_option_of_socat_is_translated_by_all_names_or_refused_with_the_reason() {
    // With three letters the other names come, too.
    let Ok(listed) = Command::new("socat").arg("-hhh").output() else {
        return skipped("no socat to list its options");
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let options = listed.lines().skip_while(|line| !line.trim_start().starts_with("opt:")).skip(1);
    // One address for each group; the first that fits an option is asked about it.
    let addresses = [
        ("TCP", "TCP:h:1"),
        ("LISTEN", "TCP-LISTEN:1"),
        ("CHILD", "TCP-LISTEN:1"),
        ("RANGE", "TCP-LISTEN:1"),
        ("UDP", "UDP:h:1"),
        ("IP4", "TCP4:h:1"),
        ("IP6", "TCP6:h:1"),
        ("SOCKET", "TCP:h:1"),
        ("RETRY", "TCP:h:1"),
        ("UNIX", "UNIX:s"),
        ("HTTP", "PROXY:p:h:1"),
        ("EXEC", "EXEC:true,pty"),
        ("FORK", "EXEC:true,pty"),
        ("PARENT", "EXEC:true,pty"),
        ("PROCESS", "EXEC:true,pty"),
        ("TERMIOS", "EXEC:true,pty"),
        ("OPEN", "OPEN:f"),
        ("REG", "OPEN:f"),
        ("NAMED", "OPEN:f"),
        ("APPL", "OPEN:f"),
        ("FD", "OPEN:f"),
        ("PTY", "PTY"),
        ("OPENSSL", "OPENSSL:h:1"),
    ];
    let (mut names, mut aliases) = (BTreeMap::new(), Vec::new());
    for line in options {
        let fields: Vec<_> = line.split_whitespace().collect();
        match *fields {
            [name, groups, ..] if groups.starts_with("groups=") => {
                let groups: Vec<_> = groups["groups=".len()..].split(',').collect();
                let address = addresses.iter().find(|(group, _)| groups.contains(group));
                names.extend(address.map(|(_, address)| (name, *address)));
            }
            [alias, "is", "an", "alias", "for", name] => aliases.push((alias, name)),
            _ => {}
        }
    }
    assert!(names.len() > 300 && aliases.len() > 300, "{} and {}", names.len(), aliases.len());
    // The first value with which the option is translated.
    let taken_with = |name: &str, address: &str, values: &[&'static str]| {
        values
            .iter()
            .copied()
            .find(|value| translated(&format!("{address},{name}{value} -")).status.success())
    };
    let values = ["", "=1", "=/x", "=127.0.0.1", "=1:1:1"];
    let asked: Vec<_> = names.iter().map(|(&name, &address)| (name, address)).collect();
    let answers = side_by_side(asked.clone(), |(name, address)| taken_with(name, address, &values));
    let count = answers.iter().flatten().count();
    assert!(count > 100, "{count} options are translated");
    let unanswered = asked.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
    // An option of groups that gush link has no kind of is asked about nowhere.
    let without_a_reason: Vec<_> = unanswered
        .map(|(asked, _)| asked)
        .filter(|(name, address)| {
            let said = translated(&format!("{address},{name}=1 -")).stderr;
            String::from_utf8_lossy(&said).contains("unknown option")
        })
        .collect();
    assert!(without_a_reason.is_empty(), "{without_a_reason:?}");
    let answer_of: BTreeMap<_, _> = asked.iter().map(|asked| asked.0).zip(answers).collect();
    let others: Vec<_> = aliases
        .into_iter()
        .filter_map(|(alias, name)| Some((alias, *names.get(name)?, answer_of[name]?)))
        .collect();
    let answered = side_by_side(others.clone(), |(alias, address, value)| {
        taken_with(alias, address, &[value])
    });
    let refused: Vec<_> =
        others.iter().zip(answered).filter(|(_, answer)| answer.is_none()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_script_that_looks_for_socat_finds_it() {
    for (word, text) in [("-V", "socat version 1.8"), ("-h", "Usage"), ("-hh", "Usage")] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_gush")).args(["socat", word]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(text), "{word}: {output:?}");
    }
}
