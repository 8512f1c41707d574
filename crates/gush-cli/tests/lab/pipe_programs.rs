//! `gush pipe write | gush pipe read`: the arriving bytes, the printed lines, and who catches whom.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{gush, skipped, strace};

const TECHNIQUES: [&str; 5] = ["write", "vmsplice", "fresh", "socket", "reservoir"];
const WAITS: [&str; 4] = ["block", "poll", "spin", "hybrid"];

fn pipe(side: &str, options: &[&str]) -> Command {
    let mut command = gush();
    command.args(["pipe", side]).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Both programs, connected; the pipe has no other holder.
fn start(write: &[&str], read: &[&str]) -> (Child, Child) {
    let (from, to) = std::io::pipe().unwrap();
    let writer = pipe("write", write).stdout(to).spawn().unwrap();
    let reader = pipe("read", read).stdin(from).spawn().unwrap();
    (writer, reader)
}

fn run(write: &[&str], read: &[&str]) -> (Output, Output) {
    let (writer, reader) = start(write, read);
    let read = reader.wait_with_output().unwrap();
    (writer.wait_with_output().unwrap(), read)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Can pages be lent here, and huge ones be had?
fn can_lend(technique: &str) -> bool {
    let can = match technique {
        "vmsplice" | "fresh" => gush::Kernel::get().vmsplice() == gush::Vmsplice::ZeroCopy,
        _ => true,
    };
    if !can {
        skipped("no vmsplice by reference on this kernel");
    }
    can
}

/// Waits for a process, and fails if the process still runs after a long time.
fn ends(mut child: Child, what: &str) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("{what}: still there");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn the_reader_prints_the_line_of_the_speed_test() {
    let (_, read) = run(&[], &["--bytes", "64M"]);
    let line = text(&read.stdout);
    let (speed, rest) = line.split_once("GiB/s, ").expect(&line);
    assert!(speed.parse::<f64>().unwrap() > 0.0);
    assert_eq!(rest, "256KiB buffer, 256 iterations (64MiB piped)\n");
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
}

#[test]
fn csv_has_the_columns_of_the_speed_test() {
    let options = ["--csv", "--bytes", "8M", "--busy-loop", "--splice", "--buffer-size", "256K"];
    let (write, read) = run(&["--vmsplice", "--csv", "--busy-loop"], &options);
    assert!(write.stderr.is_empty(), "{write:?}");
    let line = text(&read.stdout);
    let fields: Vec<&str> = line.trim().split(',').collect();
    assert_eq!(fields[1..4], ["8388608", "262144", "131072"], "{line}");
    assert_eq!(fields[4..], ["1", "0", "0", "0", "0", "1", "0", "0", "0", "0"], "{line}");
}

#[test]
fn a_reader_that_splices_asks_for_a_whole_pipe_of_fat_slots() {
    let line = |read: &[&str]| {
        let (_, read) = run(&[], &[&["--bytes", "16M"], read].concat());
        assert!(read.status.success(), "{read:?}");
        text(&read.stdout)
    };
    assert!(line(&["--splice"]).contains(" 8MiB buffer"));
    assert!(line(&["--splice", "--buffer-size", "64K"]).contains(" 64KiB buffer"));
    assert!(line(&[]).contains(" 256KiB buffer"));
}

#[test]
fn fresh_pages_can_be_small_and_still_arrive() {
    if !can_lend("fresh") {
        return crate::common::skipped("vmsplice is denied: fresh pages cannot be lent");
    }
    let write = ["--technique", "fresh", "--no-huge-page", "--pattern", "counter"];
    let (write, read) = run(&write, &["--verify", "--pattern", "counter", "--bytes", "8M"]);
    assert!(read.status.success() && write.stderr.is_empty(), "{write:?} {read:?}");
    let refused = pipe("write", &["--no-huge-page", "--huge-page"]).output().unwrap();
    assert!(text(&refused.stderr).contains("cannot be used with"), "{refused:?}");
}

#[test]
fn every_technique_ends_quietly_when_the_reader_is_gone() {
    for technique in TECHNIQUES.into_iter().filter(|technique| can_lend(technique)) {
        for wait in WAITS {
            let options = ["--technique", technique, "--wait", wait, "--quiet"];
            let (writer, reader) = start(&options, &["--bytes", "3M"]);
            assert!(ends(reader, "reader").status.success());
            let write = ends(writer, technique);
            assert_eq!(write.status.code(), Some(0), "{technique} {wait}: {write:?}");
            assert!(write.stderr.is_empty(), "{technique} {wait}: {write:?}");
        }
    }
}

#[test]
fn every_technique_delivers_its_pattern_to_a_reader_that_copies() {
    for technique in TECHNIQUES.into_iter().filter(|technique| can_lend(technique)) {
        for wait in WAITS {
            let pattern = if technique == "reservoir" { "constant" } else { "counter" };
            let write = ["--technique", technique, "--wait", wait, "--pattern", pattern, "--quiet"];
            let read = ["--wait", wait, "--pattern", pattern, "--verify", "--bytes", "9M"];
            let (_, read) = run(&write, &read);
            assert!(read.status.success(), "{technique} {wait} {pattern}: {read:?}");
        }
    }
}

#[test]
fn an_exact_number_of_bytes_is_written() {
    for technique in TECHNIQUES.into_iter().filter(|technique| can_lend(technique)) {
        let write = ["--technique", technique, "--bytes", "2500001", "--quiet"];
        let (write, read) = run(&write, &["--verify", "--quiet", "--buffer-size", "4096"]);
        assert!(write.status.success() && read.status.success(), "{write:?} {read:?}");
        assert!(text(&read.stdout).ends_with("(2500001B piped)\n"), "{technique}: {read:?}");
    }
}

#[test]
fn the_hostile_reader_catches_the_published_technique() {
    if !can_lend("vmsplice") {
        return;
    }
    for wait in ["block", "spin"] {
        for extra in [&[][..], &["--huge-page"], &["--same-buffer"], &["--gift"]] {
            let mut write = vec!["--technique", "vmsplice", "--pattern", "counter", "--wait", wait];
            write.extend(extra);
            let (write, read) = run(&write, &["--hold", "--pattern", "counter", "--bytes", "64M"]);
            assert_eq!(read.status.code(), Some(1), "{wait} {extra:?}: {read:?}");
            assert!(text(&read.stderr).contains("corrupted: byte "), "{read:?}");
            assert!(text(&write.stderr).contains("warning: vmsplice writes its buffers again"));
        }
    }
}

#[test]
fn the_sound_techniques_survive_the_hostile_reader() {
    for technique in ["write", "fresh", "socket", "reservoir"] {
        if !can_lend(technique) {
            continue;
        }
        let pattern = if technique == "reservoir" { "constant" } else { "counter" };
        let write = ["--technique", technique, "--pattern", pattern];
        let (write, read) = run(&write, &["--hold", "--pattern", pattern, "--bytes", "24M"]);
        assert!(read.status.success(), "{technique}: {read:?}");
        assert!(write.stderr.is_empty(), "no warning is due: {write:?}");
    }
}

#[test]
fn the_reader_notices_a_wrong_pattern() {
    let (_, read) = run(&["--pattern", "counter"], &["--verify"]);
    assert_eq!(read.status.code(), Some(1));
    assert!(text(&read.stderr).contains("corrupted: byte 0 "), "{read:?}");
}

#[test]
fn killing_either_end_leaves_no_process() {
    for technique in TECHNIQUES.into_iter().filter(|technique| can_lend(technique)) {
        for wait in ["block", "spin"] {
            let write = ["--technique", technique, "--wait", wait, "--quiet"];
            let read = ["--wait", wait, "--quiet", "--bytes", "8E"];
            for kill_the_writer in [true, false] {
                let (mut writer, mut reader) = start(&write, &read);
                thread::sleep(Duration::from_millis(30));
                if kill_the_writer {
                    writer.kill().unwrap();
                    writer.wait().unwrap();
                    let read = ends(reader, "reader");
                    assert_eq!(read.status.code(), Some(1), "{read:?}");
                    assert!(text(&read.stderr).contains("the writer ended after "), "{read:?}");
                } else {
                    reader.kill().unwrap();
                    reader.wait().unwrap();
                    assert!(ends(writer, "writer").status.success());
                }
            }
        }
    }
}

#[test]
fn who_waits_for_the_other_uses_no_processor_time() {
    for wait in ["block", "poll", "hybrid"] {
        for technique in TECHNIQUES.into_iter().filter(|technique| can_lend(technique)) {
            let (from, to) = std::io::pipe().unwrap();
            let options = ["--technique", technique, "--wait", wait, "--quiet"];
            idles(pipe("write", &options).stdout(to).spawn().unwrap(), &options);
            drop(from);
        }
        for read in [&[][..], &["--splice"], &["--hold"]] {
            let (from, to) = std::io::pipe().unwrap();
            let mut options = vec!["--wait", wait];
            options.extend(read);
            idles(pipe("read", &options).stdin(from).spawn().unwrap(), &options);
            drop(to);
        }
    }
}

#[test]
fn a_reservoir_alone_spins_before_it_sleeps_where_the_reader_has_a_processor_of_its_own() {
    let verbose = |options: &[&str]| {
        let options = [&["--bytes", "4K", "--verbose"], options].concat();
        text(&run(&options, &["--bytes", "4K"]).0.stderr)
    };
    let own = gush_lab::affinity::allowed().unwrap().len() > 1;
    let usual = if own { "waiting: Hybrid" } else { "waiting: Block" };
    for (options, waiting) in [
        (&["--technique", "reservoir"][..], usual),
        (&["--technique", "reservoir", "--wait", "block"], "waiting: Block"),
        (&["--technique", "reservoir", "--busy-loop"], "waiting: Spin"),
        (&["--technique", "socket"], "waiting: Block"),
        (&[], "waiting: Block"),
    ] {
        let reported = verbose(options);
        assert!(reported.contains(waiting), "{options:?}: {reported}");
    }
}

#[test]
fn verbose_names_the_values_that_are_used_and_not_the_options() {
    let said = |write: &[&str], read: &[&str]| {
        let (writer, reader) = run(write, read);
        [writer, reader].map(|output| text(&output.stderr))
    };
    let [writer, reader] = said(&["--vmsplice", "--verbose"], &["--bytes", "1M", "--verbose"]);
    let words = "technique: vmsplice, buffer: 262144 bytes, bytes: unlimited, waiting: Block, ";
    assert!(writer.contains(words), "{writer}");
    let words = "buffer: 262144 bytes, bytes: 1048576, waiting: Block, pattern: Constant\n";
    assert!(reader.contains(words), "{reader}");
    let [_, reader] = said(&["--bytes", "64K"], &["--splice", "--bytes", "64K", "--verbose"]);
    assert!(reader.contains("buffer: 8388608 bytes, bytes: 65536, "), "{reader}");
}

#[test]
fn a_reader_that_splices_spins_only_where_slots_bring_more_than_a_page() {
    let is_fat = gush::pipe::Reservoir::of(b"x", 65536)
        .is_ok_and(|reservoir| reservoir.held_bytes() > 65536);
    let has_own = gush_lab::affinity::allowed().unwrap().len() > 1;
    if !is_fat || !has_own {
        return gush_test::not_applicable("no slots of more than a page, or one processor only");
    }
    let dir = tempfile::tempdir().unwrap();
    let calls = dir.path().join("calls");
    for (technique, wait, spins) in [
        ("reservoir", None, true),
        ("reservoir", Some("block"), false),
        ("write", None, false),
        ("write", Some("hybrid"), true),
    ] {
        let log = calls.to_str().unwrap();
        let mut reader = match strace(&["-e", "trace=splice", "-o", log]) {
            Ok(strace) => strace,
            Err(why) => return skipped(&why),
        };
        let (from, to) = std::io::pipe().unwrap();
        let write = ["--technique", technique, "--bytes", "32M", "--quiet"];
        let writer = pipe("write", &write).stdout(to).spawn().unwrap();
        reader.args(["pipe", "read", "--splice", "--quiet", "--bytes", "32M"]).stdin(from);
        reader.args(wait.iter().flat_map(|wait| ["--wait", wait]));
        let read = reader.output().unwrap();
        assert!(read.status.success(), "{read:?}");
        assert!(ends(writer, technique).status.success());
        let calls = fs::read_to_string(&calls).unwrap();
        assert_eq!(calls.contains("SPLICE_F_NONBLOCK"), spins, "{technique} {wait:?}: {calls}");
    }
}

/// Looks at a process that has nothing to do until the process sleeps and uses no processor time
/// for a fifth of a second, and ends the process.
fn idles(mut child: Child, what: &[&str]) {
    let start = Instant::now();
    let sleeps = loop {
        let before = ticks(&child);
        thread::sleep(Duration::from_millis(200));
        // Starting up takes its time under load.
        if ticks(&child) <= before + 1 && state(&child) == 'S' {
            break true;
        }
        if start.elapsed() > Duration::from_secs(30) {
            break false;
        }
    };
    let (used, state) = (ticks(&child), state(&child));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(sleeps, "{what:?}: {used} ticks, state {state}");
}

/// The fields of proc_pid_stat(5) after the program's name.
fn stat(child: &Child) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').map(str::to_owned).collect()
}

fn state(child: &Child) -> char {
    stat(child)[0].chars().next().unwrap()
}

fn ticks(child: &Child) -> u64 {
    let stat = stat(child);
    stat[11].parse::<u64>().unwrap() + stat[12].parse::<u64>().unwrap()
}

#[test]
fn the_pipe_is_as_large_as_was_asked_for() {
    for (write, read, expected) in [
        (&["--vmsplice"][..], &[][..], 128 << 10),
        (&["--pipe-size", "32K"], &[], 32 << 10),
        (&[], &["--pipe-size", "512K"], 512 << 10),
        (&["--technique", "socket", "--pipe-size", "64K"], &[], 64 << 10),
        (&["--technique", "fresh", "--pipe-size", "64K"], &[], 64 << 10),
        (&["--technique", "reservoir", "--pipe-size", "64K"], &[], 64 << 10),
    ] {
        let mut read = read.to_vec();
        read.extend(["--csv", "--bytes", "4M"]);
        let (write_out, read) = run(write, &read);
        let line = text(&read.stdout);
        let size = line.split(',').nth(3).map(str::to_owned);
        assert_eq!(size, Some(expected.to_string()), "{write:?}: {write_out:?} {read:?}");
    }
}
