//! `gush tee --to`: addresses of `gush link` as outputs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::gush;
use crate::common::shell::{said, shell, source};
use gush_test::Port;
use tempfile::TempDir;

#[test]
fn addresses_get_every_byte_before_tee_ends() {
    let (dir, bytes) = source();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = thread::spawn(move || {
        let mut taken = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut taken).unwrap();
        taken
    });
    for feed in ["<source", "< <(cat source)"] {
        let line = format!(
            "$G tee copy --to tcp:{address} --to file:far,create,trunc {feed} | cat >out; exit ${{PIPESTATUS[0]}}"
        );
        // The listener takes one connection.
        let line =
            if feed == "<source" { line } else { line.replace(&format!("--to tcp:{address}"), "") };
        let output = shell(dir.path(), &line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        for name in ["copy", "far", "out"] {
            assert!(fs::read(dir.path().join(name)).unwrap() == bytes, "{line}: {name}");
            fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
    assert!(taken.join().unwrap() == bytes);
}

#[test]
fn an_address_that_fails_is_reported_and_leaves_the_others_their_bytes() {
    let (dir, bytes) = source();
    let port = Port::reserve();
    for (words, others) in [("", true), ("-p", true), ("--output-error=exit", false)] {
        let line = format!("$G tee {words} copy --to tcp:127.0.0.1:{} <source >out", port.number());
        let output = shell(dir.path(), &line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", said(&output));
        assert!(said(&output).contains("Connection refused"), "{line}: {}", said(&output));
        if others {
            for name in ["copy", "out"] {
                assert!(fs::read(dir.path().join(name)).unwrap() == bytes, "{line}: {name}");
            }
        }
    }
}

#[test]
fn no_link_outlives_tee_where_another_output_fails_at_the_start() {
    let dir = TempDir::new().unwrap();
    let mark = dir.path().display().to_string();
    let program = format!("shell:'exec sleep 60 # {mark}'");
    let ended = gush()
        .args(["tee", "--output-error=exit", "--to", &program, "--to", "no-such-kind:x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(ended.code(), Some(1));
    let left = || {
        let lines = fs::read_dir("/proc").unwrap().flatten();
        let lines = lines.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.filter(|line| line.contains(&mark)).collect::<Vec<_>>()
    };
    // The child to which a link that dies of a signal leaves its open files outlives it by a
    // moment.
    let give_up = Instant::now() + Duration::from_secs(20);
    while !left().is_empty() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(left(), [""; 0]);
}

/// Bytes go one way, and options of `gush link` cannot be said here.
#[test]
fn a_link_that_fails_speaks_of_what_tee_does() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let resets = thread::spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        peer.read_exact(&mut [0; 1]).unwrap();
        // A close with bytes unread resets the connection.
    });
    let mut tee = gush()
        .args(["tee", "--output-error=exit", "--to", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = tee.stdin.take().unwrap();
    input.write_all(&[b'x'; 4096]).unwrap();
    resets.join().unwrap();
    // Whether the link or tee meets the reset first, the bytes have nowhere to go.
    while input.write_all(&[b'x'; 4096]).is_ok() && tee.try_wait().unwrap().is_none() {}
    drop(input);
    let output = tee.wait_with_output().unwrap();
    let said = said(&output);
    assert!(
        said.contains(&address) && !said.contains("back") && !said.contains("forward"),
        "{said}"
    );
    assert!(said.contains(" after ") && said.contains(" bytes"), "{said}");
}

#[test]
fn a_program_that_exits_early_is_reported_as_the_mode_says() {
    let cases = [
        ("", 1, true),
        ("-p", 0, true),
        ("--output-error=warn", 1, true),
        ("--output-error=warn-nopipe", 0, true),
        ("--output-error=exit", 1, false),
        ("--output-error=exit-nopipe", 0, true),
    ];
    let (dir, bytes) = source();
    let programs = ["exec:head -c1", "shell:exec head -c1"];
    for ((words, status, others), program) in
        cases.into_iter().flat_map(|case| programs.map(|program| (case, program)))
    {
        let line = format!("$G tee {words} copy --to '{program}' <source >out");
        let output = shell(dir.path(), &line);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        let sent = said
            .strip_prefix(&format!("gush: tee: '{program}': exited early ("))
            .and_then(|rest| rest.strip_suffix(" bytes were written)\n"));
        assert_eq!((sent.is_some(), said.is_empty()), (status == 1, status == 0), "{line}: {said}");
        // The program has had a byte before it left.
        let sent = sent.map(|bytes| bytes.parse::<usize>().unwrap());
        assert!(sent.is_none_or(|sent| (1..=bytes.len()).contains(&sent)), "{line}: {said}");
        if others {
            let copy = fs::read(dir.path().join("copy")).unwrap();
            assert!(copy == bytes, "{line}: {} of {} bytes", copy.len(), bytes.len());
        }
        // The link reports a program's exit status.
        let line = format!("$G tee {words} --to 'exec:sh -c \"exit 3\"' <source >out");
        let output = shell(dir.path(), &line);
        let said = self::said(&output);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
        assert!(said.contains("exit status: 3"), "{line}: {said}");
    }
}

#[test]
fn an_address_that_fails_is_reported_by_tee() {
    let (dir, _) = source();
    for (tee, prefix) in [("$G tee", "gush: tee: "), ("(exec -a tee $G", "tee: ")] {
        let end = if tee.starts_with('(') { ")" } else { "" };
        let line = format!("{tee} --to file:nodir/x <source >out{end}");
        let output = shell(dir.path(), &line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", said(&output));
        let begin = format!("{prefix}file:nodir/x: open: No such file or directory");
        assert!(said(&output).starts_with(&begin), "{line}: {}", said(&output));
    }
}

#[test]
fn a_wrong_address_is_reported_before_anything_starts() {
    let (dir, bytes) = source();
    let output = shell(dir.path(), "$G tee --to nonsense:x copy <source >out");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).starts_with("gush: tee: unknown kind of address 'nonsense'"),
        "{}",
        said(&output)
    );
    assert!(fs::read(dir.path().join("copy")).unwrap() == bytes);
    // Without the option the same word is a file, as with GNU tee.
    let output = shell(dir.path(), "$G tee tcp:127.0.0.1:1 <source >out");
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(dir.path().join("tcp:127.0.0.1:1")).unwrap() == bytes);
}

#[test]
fn an_address_that_is_the_source_is_refused_and_the_others_get_everything() {
    for address in [
        "file:source",
        "file:source,append",
        "file:source,trunc",
        "./source",
        "fd:7",
        // The part that is written, and each alternative, whichever of them would be opened.
        "file:other!!file:source,trunc",
        "file:missing/far|file:source,append",
        "file:far,create|file:other!!file:source",
    ] {
        let (dir, bytes) = source();
        fs::write(dir.path().join("other"), "other").unwrap();
        let line = format!("$G tee copy --to '{address}' <source >out 7<>source");
        let output = shell(dir.path(), &line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let shown = if address == "./source" { address.to_owned() } else { format!("'{address}'") };
        let words = format!("gush: tee: {shown}: input file is output file\n");
        assert_eq!(said(&output), words, "{line}");
        for name in ["source", "copy", "out"] {
            assert!(fs::read(dir.path().join(name)).unwrap() == bytes, "{line}: {name}");
        }
        assert!(!dir.path().join("far").exists(), "{line}: nothing was opened");
    }
}

#[test]
fn a_source_that_is_only_read_may_stand_in_an_address() {
    let (dir, bytes) = source();
    let line = "$G tee --to 'file:source!!file:far,create' <source >out";
    let output = shell(dir.path(), line);
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(dir.path().join("far")).unwrap() == bytes);
}

/// Standard output by any of its names gets the bytes once more, as `tee /dev/stdout` gives them.
#[test]
fn an_address_may_be_standard_output() {
    for address in ["-", "stdio", "fd:1", "file:/dev/stdout"] {
        let text = format!("printf 'once\\n' | \"$0\" tee --to {address} | sort | uniq -c");
        let output = Command::new("sh").args(["-c", &text, env!("CARGO_BIN_EXE_gush")]).output();
        let reported = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(reported.trim(), "2 once", "{address}");
    }
}
