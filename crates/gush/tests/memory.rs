//! Invariant 8: memory does not grow with the data.

mod common;

use std::fs::File;
use std::os::fd::OwnedFd;

use common::child;
use gush::{Choice, Control, Errno, MethodName, Mover, Pages, Tuning};
use rustix::fs::FallocateFlags;

const DATA_BYTES: u64 = 512 << 20;
const MOST_KIB: u64 = 16 << 10;

/// A field of /proc/self/status in KiB.
fn status_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

fn shared_file(len: u64) -> OwnedFd {
    let file: OwnedFd = tempfile::tempfile_in("/dev/shm").expect("tmpfs").into();
    if len > 0 {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len).expect("room");
    }
    file
}

fn device(path: &str) -> OwnedFd {
    File::options().read(true).write(true).open(path).expect("a device").into()
}

/// Moves by the method that the environment names, in a process that does nothing else.
#[test]
#[ignore = "run as a child process by the tests below"]
fn child_moves_and_measures() {
    let word = |name: &str| std::env::var(name).unwrap_or_default();
    let (pair, greedy) = (word("PAIR"), word("GREEDY") == "1");
    let choice: Choice = word("METHOD").parse().expect("a method");
    let (source, target) = match pair.as_str() {
        "devices" => (device("/dev/zero"), device("/dev/null")),
        "zero-to-file" => (device("/dev/zero"), shared_file(0)),
        _ => (shared_file(DATA_BYTES), shared_file(0)),
    };
    let mut tuning = Tuning::default();
    if greedy {
        tuning = tuning.buffer_bytes(Tuning::MOST_BUFFER_BYTES).pipe_bytes(1 << 30);
    }
    std::fs::write("/proc/self/clear_refs", "5").expect("resetting the peak");
    let (anonymous, peak) = (status_kib("RssAnon"), status_kib("VmHWM"));
    let mut most = anonymous;
    let mut observer = |_: &gush::Progress| {
        most = most.max(status_kib("RssAnon"));
        Control::Continue
    };
    let mover = Mover::new(&source, &target).method(choice).tuning(tuning);
    let mover = mover.length_bytes(DATA_BYTES).threads(if greedy { 64 } else { 0 });
    let answer = mover.observe(&mut observer).run();
    // Until a peak is kept, VmHWM is the memory of now, and falls with that (`task_mem` in
    // fs/proc/task_mmu.c).
    let peak = status_kib("VmHWM").saturating_sub(peak);
    match answer {
        Ok(report) => assert_eq!(report.bytes, DATA_BYTES),
        Err(error) if error.is_refused() => return println!("REFUSED: {error}"),
        Err(error) => panic!("{error}"),
    }
    println!("MEASURED: {} KiB anonymous, {peak} KiB at the peak", most - anonymous);
    assert!(most - anonymous <= MOST_KIB, "{} KiB of anonymous memory", most - anonymous);
    // Mapped windows count as well.
    assert!(peak <= MOST_KIB, "{peak} KiB at the peak");
}

fn measure(methods: &[MethodName], pair: &str, greedy: &str) {
    let free = rustix::fs::statvfs("/dev/shm").map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if free < 3 * DATA_BYTES {
        skip!("/dev/shm has not 1.5 GiB free");
    }
    let mut wrong = Vec::new();
    for method in &common::methods_served_here(methods) {
        let env = [("METHOD", method.as_str()), ("PAIR", pair), ("GREEDY", greedy)];
        let (passed, said) = child(&[], "child_moves_and_measures", &env);
        if !passed {
            wrong.push(format!("{method}: {said}"));
        } else if !said.contains("MEASURED") && *method != MethodName::Reflink {
            wrong.push(format!("{method} does not serve this: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn invariant_8_memory_stays_within_16_mib_from_file_to_file() {
    measure(MethodName::ALL, "files", "0");
}

#[test]
fn invariant_8_memory_stays_within_16_mib_with_the_largest_buffers_and_most_threads() {
    measure(MethodName::ALL, "files", "1");
}

#[test]
fn invariant_8_memory_stays_within_16_mib_from_endless_devices() {
    use MethodName::{ReadWrite, Sendfile, Splice, Vmsplice};
    measure(&[Sendfile, Splice, Vmsplice, ReadWrite], "devices", "0");
    measure(&[Sendfile, Splice, Vmsplice, ReadWrite], "devices", "1");
    measure(&[Splice, Vmsplice, ReadWrite], "zero-to-file", "1");
}

#[test]
fn more_memory_than_there_are_addresses_is_refused() {
    assert_eq!(Pages::new(usize::MAX).err(), Some(Errno::NOMEM));
    for len_bytes in [usize::MAX, usize::MAX - (2 << 20), usize::MAX - (4 << 20) + 2] {
        assert_eq!(Pages::huge(len_bytes).err(), Some(Errno::NOMEM), "{len_bytes}");
    }
}
