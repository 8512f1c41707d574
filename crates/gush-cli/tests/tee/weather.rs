//! `gush tee` in bad weather: outputs of every kind, faulty and denied calls, readers that leave or
//! stall.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::common::link::eventually;
use crate::common::shell::{said, shell, source};
use crate::common::{gush, skipped, strace, words_of};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn taker(mut reader: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    })
}

/// `gush tee` with `args` in `dir`, from the file `source`.
fn tee(dir: &Path, args: &[&str]) -> Command {
    let mut command = gush();
    command.arg("tee").args(args).current_dir(dir);
    command.stdin(File::open(dir.join("source")).unwrap());
    command
}

#[test]
fn every_output_gets_every_byte_from_a_file_and_from_a_pipe() {
    // A file is read by position, and a pipe is teed by reference: two roads inside.
    for feed in ["$G tee", "cat source | $G tee"] {
        for way in ["", "--method=read-write", "--method=splice", "--isolated", "--pipe-size=64K"] {
            let (dir, bytes) = source();
            let line = format!(
                "mkfifo fifo; printf before >log; exec <source; cat fifo >by-fifo & reader=$!
                {feed} {way} plain fifo >(cat >by-process; : >done) /dev/null | cat >by-pipe
                status=${{PIPESTATUS[-2]}}; wait $reader
                until [ -e done ]; do sleep 0.01; done; exit $status"
            );
            let output = shell(dir.path(), &line);
            assert!(output.status.success(), "{feed} {way}: {}", said(&output));
            for name in ["plain", "by-fifo", "by-process", "by-pipe"] {
                let got = fs::read(dir.path().join(name)).unwrap();
                assert!(got == bytes, "{feed} {way}: {name} has {} bytes", got.len());
            }
        }
    }
}

#[test]
fn what_is_there_already_is_kept_with_append() {
    let (dir, bytes) = source();
    fs::write(dir.path().join("log"), "before").unwrap();
    let output = tee(dir.path(), &["-a", "log"]).output().unwrap();
    assert!(output.status.success() && output.stdout == bytes, "{}", said(&output));
    let log = fs::read(dir.path().join("log")).unwrap();
    assert!(log.starts_with(b"before") && log[6..] == bytes);
}

#[test]
fn a_slow_output_that_does_not_block_gets_every_byte() {
    let (dir, bytes) = source();
    let ends: [(OwnedFd, OwnedFd); 2] = [
        std::io::pipe().map(|(reader, writer)| (reader.into(), writer.into())).unwrap(),
        UnixStream::pair().map(|(near, far)| (near.into(), far.into())).unwrap(),
    ];
    for (reader, writer) in ends {
        let flags = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
        let mut child = tee(dir.path(), &["copy"]).stdout(writer).spawn().unwrap();
        let (mut reader, mut got, mut piece) = (File::from(reader), Vec::new(), vec![0; 70_000]);
        loop {
            // Slower than tee, so that its output is full most of the time and answers EAGAIN.
            thread::sleep(std::time::Duration::from_millis(1));
            match reader.read(&mut piece).unwrap() {
                0 => break,
                bytes => got.extend_from_slice(&piece[..bytes]),
            }
        }
        assert!(child.wait().unwrap().success());
        assert!(got == bytes && fs::read(dir.path().join("copy")).unwrap() == bytes);
    }
}

#[test]
fn faulty_and_denied_calls_lose_no_byte() {
    let (dir, bytes) = source();
    let faults = [
        "tee:error=EINTR:when=1+2",
        "splice:error=EINTR:when=1+2",
        "splice:error=EPERM",
        "tee:error=EPERM",
        "tee:error=EINVAL",
        "tee:error=EPERM:when=2+",
        "splice:error=ENOSYS",
        "splice:error=EINVAL:when=3+",
        "pipe2:error=EMFILE",
    ];
    for fault in faults {
        let log = dir.path().join("log");
        let inject = format!("inject={fault}");
        let options = ["-o", log.to_str().unwrap(), "-e", &inject];
        let mut command = match strace(&options) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        let (left, to_left) = std::io::pipe().unwrap();
        let (right, to_right) = std::io::pipe().unwrap();
        let _ = fs::remove_file(dir.path().join("copy"));
        command.args(["tee", "copy", "/dev/stderr"]).current_dir(dir.path());
        command.stdin(File::open(dir.path().join("source")).unwrap());
        command.stdout(to_left).stderr(to_right);
        let mut child = command.spawn().unwrap();
        drop(command);
        let (left, right) = (taker(left), taker(right));
        let status = child.wait().unwrap();
        let (left, right) = (left.join().unwrap(), right.join().unwrap());
        let traced = fs::read_to_string(&log).unwrap();
        // A fault that met no call would prove nothing.
        assert!(traced.contains("(INJECTED)"), "{fault} met no call:\n{traced}");
        let why =
            || String::from_utf8_lossy(&right[right.len().saturating_sub(300)..]).into_owned();
        assert!(status.success(), "{fault}: {status} {}", why());
        assert!(left == bytes && right == bytes, "{fault}: {} and {}", left.len(), right.len());
        assert!(fs::read(dir.path().join("copy")).unwrap() == bytes, "{fault}");
    }
}

#[test]
fn a_fifo_is_written_by_more_than_a_page_at_a_time_without_splice() {
    let (dir, bytes) = source();
    let [log, fifo] = ["log", "fifo"].map(|name| dir.path().join(name));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let options = ["-y", "-o", log.to_str().unwrap(), "-e", "inject=splice:error=ENOSYS"];
    let mut command = match strace(&options) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    command.args(["tee", "fifo"]).current_dir(dir.path());
    command.stdin(File::open(dir.path().join("source")).unwrap()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let reader = taker(File::open(&fifo).unwrap());
    assert!(child.wait().unwrap().success());
    assert!(reader.join().unwrap() == bytes);
    let traced = fs::read_to_string(&log).unwrap();
    let longest =
        traced.lines().filter(|line| line.contains("write(") && line.contains("fifo>")).filter_map(
            |line| line.rsplit_once("= ").and_then(|(_, taken)| taken.parse::<usize>().ok()),
        );
    assert!(longest.max() > Some(4096), "{traced}");
}

/// GNU tee loses here the bytes that are on the way to the other outputs.
#[test]
fn when_a_reader_leaves_the_others_get_what_was_taken() {
    for (mode, signal, status) in
        [(None, Some(Signal::PIPE.as_raw()), None), (Some("--output-error=exit"), None, Some(1))]
    {
        let (dir, bytes) = source();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = tee(dir.path(), &["copy"]);
        let child = command.args(mode).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        drop(command);
        let mut first = vec![0; 100_000];
        // Some bytes first: tee is at work as this reader leaves.
        reader.read_exact(&mut first).unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.signal(), output.status.code()), (signal, status), "{mode:?}");
        assert_eq!(said(&output).lines().count(), usize::from(mode.is_some()));
        let copy = fs::read(dir.path().join("copy")).unwrap();
        assert!(copy.len() >= first.len() && copy == bytes[..copy.len()], "{} bytes", copy.len());
        assert!(first == bytes[..first.len()]);
    }
}

#[test]
fn with_p_a_reader_that_leaves_an_idle_pipeline_is_noticed() {
    // Nobody writes, and nobody reads: without a look at the output this pipeline would never end.
    let dir = TempDir::new().unwrap();
    let line = "mkfifo in; sleep 1000 >in & $G tee -p <in | true; echo ${PIPESTATUS[0]}; kill $!";
    let output = shell(dir.path(), line);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", said(&output));
}

#[test]
fn an_interrupt_ends_it_unless_interrupts_are_ignored() {
    for (ignores, args) in [(false, &["copy"][..]), (true, &["-i", "copy"])] {
        let (dir, _) = source();
        let mut command = gush();
        command.arg("tee").args(args).current_dir(dir.path());
        let mut child: Child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut feed, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut turn = |word: &[u8]| {
            feed.write_all(word)?;
            let mut got = vec![0; word.len()];
            out.read_exact(&mut got)?;
            Ok::<_, std::io::Error>(got)
        };
        assert_eq!(turn(b"one").unwrap(), b"one");
        // Standard output gets the word before the file does.
        let copy = dir.path().join("copy");
        eventually("the file has the word", || fs::read(&copy).is_ok_and(|kept| kept == b"one"));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        if ignores {
            assert_eq!(turn(b"two").unwrap(), b"two");
        }
        drop(feed);
        let status = child.wait().unwrap();
        let expected = if ignores { None } else { Some(Signal::INT.as_raw()) };
        assert_eq!(status.signal(), expected);
        let kept = fs::read(copy).unwrap();
        assert_eq!(kept, if ignores { &b"onetwo"[..] } else { b"one" });
    }
}

#[test]
fn a_file_that_is_the_source_is_neither_emptied_nor_made_endless() {
    for append in [&[][..], &["-a"]] {
        let (dir, bytes) = source();
        let output = tee(dir.path(), &[append, &["source", "copy"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(said(&output), "gush: tee: source: input file is output file\n");
        assert!(output.stdout == bytes, "the other outputs get everything");
        assert!(fs::read(dir.path().join("copy")).unwrap() == bytes);
        assert!(fs::read(dir.path().join("source")).unwrap() == bytes);
    }
}

#[test]
fn standard_output_that_is_the_source_gets_nothing_and_the_others_everything() {
    for (words, to, others) in
        [("", ">>", true), ("-p", "1<>", true), ("--output-error=exit", ">>", false)]
    {
        let (dir, bytes) = source();
        let line = format!("$G tee {words} copy <source {to}source");
        let output = shell(dir.path(), &line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert_eq!(
            said(&output),
            "gush: tee: 'standard output': input file is output file\n",
            "{line}"
        );
        let copy = fs::read(dir.path().join("copy")).unwrap_or_default();
        assert!(copy == if others { &bytes[..] } else { b"" }, "{line}: {} bytes", copy.len());
        assert!(fs::read(dir.path().join("source")).unwrap() == bytes, "{line}");
    }
}

#[test]
fn an_error_of_close_is_reported() {
    let (dir, bytes) = source();
    for (words, name, reported) in [
        (&["tee"][..], "out", "gush: tee: write error: "),
        (&["tee", "copy"], "copy", "gush: tee: copy: "),
        (&["cat"], "out", "gush: cat: write error: "),
        (&["pv", "-q"], "out", "gush: pv: close failed: "),
    ] {
        let (log, path) = (dir.path().join("log"), dir.path().join(name));
        let [log, path] = [&log, &path].map(|path| path.to_str().unwrap());
        let options = ["-o", log, "-P", path, "-e", "inject=close:error=EDQUOT"];
        let mut command = match strace(&options) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        command.args(words).current_dir(dir.path());
        command.stdin(File::open(dir.path().join("source")).unwrap());
        command.stdout(File::create(dir.path().join("out")).unwrap()).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 8)), "{words:?}: {}", output.status);
        let reported = format!("{reported}{}\n", words_of(Errno::DQUOT));
        assert_eq!(said(&output), reported, "{words:?}");
        assert!(fs::read(path).unwrap() == bytes, "{words:?}");
    }
}

#[test]
fn a_reader_that_takes_nothing_is_dropped_where_that_was_asked_for() {
    let (dir, bytes) = source();
    let (mut stuck, slow) = std::io::pipe().unwrap();
    let mut command = tee(dir.path(), &["--drop-slow=50ms", "copy"]);
    let child = command.stdout(slow).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(fs::read(dir.path().join("copy")).unwrap() == bytes);
    let mut first = Vec::new();
    stuck.read_to_end(&mut first).unwrap();
    assert!(first.len() < bytes.len() && first == bytes[..first.len()]);
    let expected =
        format!("gush: tee: 'standard output': too slow, dropped after {} bytes\n", first.len());
    assert_eq!(said(&output), expected);
}

#[test]
fn a_slow_reader_is_waited_for_as_long_as_was_asked_for() {
    for words in ["--drop-slow=1h", "--drop-slow=600"] {
        let (dir, bytes) = source();
        let (late, slow) = std::io::pipe().unwrap();
        let mut command = tee(dir.path(), &[words, "copy"]);
        let child = command.stdout(slow).stderr(Stdio::piped()).spawn().unwrap();
        drop(command);
        let copy = dir.path().join("copy");
        eventually("the first bytes", || fs::metadata(&copy).is_ok_and(|copy| copy.len() > 0));
        // Long enough for a shorter time to pass.
        thread::sleep(std::time::Duration::from_millis(200));
        let taken = taker(late);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words}: {}", said(&output));
        assert!(taken.join().unwrap() == bytes && fs::read(&copy).unwrap() == bytes, "{words}");
    }
}

#[test]
fn files_are_made_with_every_permission_that_the_umask_leaves() {
    let (dir, _) = source();
    for line in ["tee made", "tee -a made", "pv -q -o made", "pv -q -U made"] {
        for (umask, mode) in [("022", "644"), ("000", "666"), ("037", "640")] {
            let line =
                format!("umask {umask}; $G {line} <source >/dev/null; stat -c %a made; rm made");
            let output = shell(dir.path(), &line);
            let shown = String::from_utf8_lossy(&output.stdout);
            assert_eq!(shown.trim_end(), mode, "{line}: {}", said(&output));
        }
    }
}

#[test]
fn a_file_at_the_limit_on_file_sizes_fails_alone() {
    let (dir, bytes) = source();
    // bash counts blocks of 1,024 bytes.
    let line = "ulimit -c 0; ulimit -f 1000; $G tee limited <source | wc -c; exit ${PIPESTATUS[0]}";
    let output = shell(dir.path(), line);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), bytes.len().to_string());
    assert!(fs::read(dir.path().join("limited")).unwrap() == bytes[..1_024_000]);
    let reported = "gush: tee: limited: File too large (after 1024000 bytes; ";
    assert!(said(&output).contains(reported), "{}", said(&output));
}

#[test]
fn failures_say_what_how_far_and_why() {
    let (dir, bytes) = source();
    let output = tee(dir.path(), &["/dev/full", "nope/a", "copy"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout == bytes && fs::read(dir.path().join("copy")).unwrap() == bytes);
    let said = said(&output);
    let (open, full) = said.split_once('\n').unwrap();
    let why = "No such file or directory (mkdir -p 'nope' makes the directory)";
    assert_eq!(open, format!("gush: tee: nope/a: {why}"));
    assert!(
        full.starts_with("gush: tee: /dev/full: No space left on device (after 0 bytes; "),
        "{full}"
    );
    for (line, why) in [
        ("$G tee copy <&-", "gush: tee: read error: Bad file descriptor\n"),
        ("$G tee copy <.", "gush: tee: read error: Is a directory (after 0 bytes"),
        (
            "echo x | $G tee copy >&-",
            "gush: tee: 'standard output': Bad file descriptor (after 0 bytes",
        ),
        ("echo x | $G tee >&-", "gush: tee: 'standard output': Bad file descriptor (after 0 bytes"),
        ("$G tee --output-error=e </dev/null", "gush: tee: "),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(self::said(&output).starts_with(why), "{line}: {}", self::said(&output));
    }
}

#[test]
fn a_slow_output_lags_by_up_to_the_buffer_and_gets_every_byte() {
    let (dir, bytes) = source();
    for (buffer, words) in [("4M", &[][..]), ("3000017", &["-p"]), ("1G", &["--drop-slow=1ms"])] {
        let (late, slow) = std::io::pipe().unwrap();
        let mut command = tee(dir.path(), &["copy", "--buffer", buffer]);
        command.args(words).stdout(slow);
        let mut child = command.spawn().unwrap();
        drop(command);
        // Nobody reads from the pipe, and the file gets everything.
        let copy = dir.path().join("copy");
        eventually("the whole copy", || fs::read(&copy).is_ok_and(|copy| copy == bytes));
        assert!(child.try_wait().unwrap().is_none(), "the slow output lacks bytes");
        assert!(taker(late).join().unwrap() == bytes, "{buffer}");
        assert!(child.wait().unwrap().success());
        fs::remove_file(copy).unwrap();
    }
}

#[test]
fn a_full_buffer_holds_the_others_back_and_drops_only_where_that_was_asked_for() {
    let (dir, bytes) = source();
    let copy = dir.path().join("copy");
    let (late, slow) = std::io::pipe().unwrap();
    let mut command = tee(dir.path(), &["copy", "--buffer", "100000", "--pipe-size", "64K"]);
    let mut child = command.stdout(slow).spawn().unwrap();
    drop(command);
    let copied = || fs::metadata(&copy).map_or(0, |file| file.len());
    eventually("the buffer's bytes", || copied() >= 100_000);
    // Beside the buffer there are the pipe, and what the source's side and the slow output's have
    // in hand.
    thread::sleep(std::time::Duration::from_millis(100));
    assert!(copied() <= 100_000 + 3 * (64 << 10), "{} bytes", copied());
    assert!(taker(late).join().unwrap() == bytes);
    assert!(child.wait().unwrap().success());
    assert!(fs::read(&copy).unwrap() == bytes);

    let (mut stuck, slow) = std::io::pipe().unwrap();
    let mut command = tee(dir.path(), &["copy", "--buffer", "100000", "--drop-slow=50ms"]);
    let child = command.stdout(slow).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(fs::read(&copy).unwrap() == bytes);
    let mut first = Vec::new();
    stuck.read_to_end(&mut first).unwrap();
    assert!(first.len() < bytes.len() && first == bytes[..first.len()]);
    let expected =
        format!("gush: tee: 'standard output': too slow, dropped after {} bytes\n", first.len());
    assert_eq!(said(&output), expected);
}

#[test]
fn with_a_buffer_failures_are_those_without() {
    let (dir, bytes) = source();
    for (line, status, words) in [
        (
            "$G tee --buffer 1M copy /dev/full <source | cmp - source",
            1,
            "/dev/full: No space left on device (after 0 bytes",
        ),
        ("cat source | $G tee --buffer 1M -a copy | cmp - source", 0, ""),
        ("cat source source | $G tee --buffer 1 copy | head -c 5 >&2", 141, ""),
        ("cat source | $G tee --buffer 1M -p copy | true", 0, ""),
        ("$G tee --buffer 1M <. | cat", 1, "read error: Is a directory (after 0 bytes"),
        ("$G tee --buffer 1M --method splice <source | cat", 1, "splice"),
        ("$G tee --buffer 8E <source | cat", 1, "no memory for --buffer: "),
        ("$G tee --buffer 0 <source | cat", 1, "invalid --buffer"),
    ] {
        let line = format!("{line}; exit ${{PIPESTATUS[$((${{#PIPESTATUS[@]}} - 2))]}}");
        let output = shell(dir.path(), &line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(said(&output).contains(words), "{line}: {}", said(&output));
        if let Ok(copy) = fs::read(dir.path().join("copy")) {
            let is_whole = copy == bytes || line.contains("head");
            assert!(is_whole, "{line}: {} bytes", copy.len());
            fs::remove_file(dir.path().join("copy")).unwrap();
        }
    }
}

#[test]
fn a_buffer_takes_no_more_memory_than_was_asked_for() {
    const ALL_BYTES: usize = 200 << 20;
    let (dir, _) = source();
    let (mut late, slow) = std::io::pipe().unwrap();
    let mut command = tee(dir.path(), &["copy", "--buffer", "16M"]);
    let mut child = command.stdin(Stdio::piped()).stdout(slow).spawn().unwrap();
    drop(command);
    let mut input = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || {
        for _ in 0..ALL_BYTES >> 20 {
            input.write_all(&[7; 1 << 20]).unwrap();
        }
        input
    });
    let copied = || fs::metadata(dir.path().join("copy")).map_or(0, |file| file.len());
    eventually("a full buffer", || copied() >= 16 << 20);
    let mut piece = vec![0; 1 << 20];
    // Many times the buffer goes through: a ring that grew would show.
    for _ in 0..ALL_BYTES >> 20 {
        late.read_exact(&mut piece).unwrap();
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most_kib: usize = most.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    drop(feeder.join().unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(copied(), ALL_BYTES as u64);
    // Far above the buffer, since the program, its libraries and pipes count too.
    assert!(most_kib < 100 << 10, "{most_kib} KiB for a buffer of 16 MiB");
}
