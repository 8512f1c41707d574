//! A pipe between two programs lets both work at once, and no call is made that cannot learn
//! anything.

#[macro_use]
mod common;

use std::fs::File;
use std::io::PipeReader;

use common::within;
use gush::{Call, Choice, MethodName, Mover};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::fcntl_setpipe_size;

const PIPE_BYTES: usize = 1 << 20;

/// A pipe without a writer that holds `bytes` zeros in whole pages.
fn pipe_with(bytes: usize) -> PipeReader {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fcntl_setpipe_size(&writer, PIPE_BYTES).expect("a pipe of 1 MiB");
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    let put = Mover::new(&zeros, &writer)
        .method(Choice::Only(MethodName::ReadWrite))
        .length_bytes(bytes as u64)
        .run()
        .expect("zeros");
    assert_eq!(put.bytes, bytes as u64);
    reader
}

/// The kernel wakes the writer once, at the end of a splice: a reader that takes all in one call
/// empties the pipe before the writer is even woken.
#[test]
fn the_writer_can_go_on_before_its_pipe_is_empty() {
    needs!(splice);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fcntl_setpipe_size(&writer, PIPE_BYTES).expect("a pipe of 1 MiB");
    let full = vec![0; PIPE_BYTES];
    assert_eq!(rustix::io::write(&writer, &full), Ok(PIPE_BYTES));
    let null = File::create("/dev/null").expect("/dev/null");
    let mover = std::thread::spawn(move || {
        let report = Mover::new(&reader, &null).length_bytes(PIPE_BYTES as u64).run();
        (report.expect("the pipe's bytes"), reader)
    });
    let (report, _reader) = within(60, "a full pipe", move || mover.join().expect("the mover"));
    let splices = report.methods[0].calls.get(Call::Splice);
    assert!((4..=8).contains(&splices), "{splices} splices for a full pipe");
}

/// As the reader is woken once, at the end.
#[test]
fn the_reader_can_begin_before_its_pipe_is_full() {
    needs!(splice);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(PIPE_BYTES as u64).expect("a MiB");
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    fcntl_setpipe_size(&writer, PIPE_BYTES).expect("a pipe of 1 MiB");
    let report = within(60, "an empty pipe", move || Mover::new(&file, &writer).run());
    let splices = report.expect("a MiB").methods[0].calls.get(Call::Splice);
    assert!((4..=8).contains(&splices), "{splices} splices into an empty pipe");
}

const LONG_BYTES: u64 = 5 << 20;

fn long_file() -> File {
    let file = tempfile::tempfile().expect("a file");
    let content = common::noise(1, LONG_BYTES as usize);
    std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).expect("its content");
    file
}

/// How many ends of pipes this process has.
fn ends_of_pipes() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd");
    let is_pipe = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"pipe:"))
    };
    descriptors.filter_map(Result::ok).filter(is_pipe).count()
}

/// A reader that copies out of the pipe holds the pipe's lock meanwhile: the next bytes are looked
/// up at the same time.
#[test]
fn a_long_file_goes_into_a_pipe_through_another_one() {
    needs!(splice);
    let (passed, said) = common::child(&[], "in_a_child_another_pipe_is_there", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_another_pipe_is_there() {
    for (length, more) in [(LONG_BYTES, 2), (PIPE_BYTES as u64, 0)] {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let before = ends_of_pipes();
        let reading = std::thread::spawn(move || {
            let mut read = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut read).expect("the bytes");
            read
        });
        let mut seen = before;
        let mut look = |_: &gush::Progress| {
            seen = seen.max(ends_of_pipes());
            gush::Control::Continue
        };
        let file = long_file();
        let mover = Mover::new(&file, &writer).length_bytes(length).observe(&mut look);
        assert_eq!(mover.run().expect("the file").bytes, length);
        drop(writer);
        let content = common::noise(1, LONG_BYTES as usize);
        assert!(reading.join().expect("a reader") == content[..length as usize]);
        assert_eq!(seen - before, more, "{length} bytes");
        assert_eq!(ends_of_pipes(), before - 2);
    }
}

#[test]
fn without_a_descriptor_for_another_pipe_a_long_file_is_spliced_all_the_same() {
    needs!(splice);
    let (passed, said) = common::child(&[], "in_a_child_no_pipe_can_be_had", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_no_pipe_can_be_had() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let file = long_file();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let none = rustix::process::Rlimit { current: Some(3), maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, none).expect("a limit");
    let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let splice = Choice::Only(MethodName::Splice);
    let report = Mover::new(&file, &writer).method(splice).run().expect("the file");
    drop(writer);
    assert_eq!(reading.join().expect("a reader").expect("the bytes"), LONG_BYTES);
    assert_eq!((report.bytes, report.main_method()), (LONG_BYTES, Some(MethodName::Splice)));
}

/// The reader is gone: the bytes in the pipe of our own are still in the file, and count as neither
/// delivered nor lost.
#[test]
fn what_waits_in_the_pipe_of_our_own_is_not_lost() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let file = long_file();
    let reading = std::thread::spawn(move || {
        let mut some = vec![0; 700_000];
        std::io::Read::read_exact(&mut &reader, &mut some).expect("some bytes");
        some
    });
    let error = within(60, "a reader that leaves", move || {
        let error = Mover::new(&file, &writer).run().expect_err("nobody reads");
        let position = rustix::fs::tell(&file).expect("a position");
        (error, position)
    });
    let (error, position) = error;
    assert_eq!(error.errno(), Some(gush::Errno::PIPE));
    assert_eq!(error.in_flight_bytes(), 0, "{error}");
    assert_eq!(position, error.delivered_bytes());
    assert!(error.delivered_bytes() >= 700_000);
    assert!(reading.join().expect("a reader") == common::noise(1, 700_000));
}

/// References change hands there, in any number.
#[test]
fn from_pipe_to_pipe_all_goes_at_once() {
    needs!(splice);
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    fcntl_setpipe_size(&writer, PIPE_BYTES).expect("a pipe of 1 MiB");
    let full = pipe_with(PIPE_BYTES);
    let report = Mover::new(&full, &writer).length_bytes(PIPE_BYTES as u64).run();
    assert_eq!(report.expect("a MiB").methods[0].calls.get(Call::Splice), 1);
}

#[test]
fn a_small_pipe_is_emptied_at_once() {
    needs!(splice);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fcntl_setpipe_size(&writer, 4096).expect("a pipe of a page");
    assert_eq!(rustix::io::write(&writer, &[7; 4096]), Ok(4096));
    let report = Mover::new(&reader, &File::create("/dev/null").expect("/dev/null"))
        .length_bytes(4096)
        .run()
        .expect("a page");
    assert_eq!(report.methods[0].calls.get(Call::Splice), 1);
}

/// The devices of memory are always ready: poll(2) has nothing to say about them.
#[test]
fn null_and_zero_are_not_polled() {
    let null = File::options().read(true).write(true).open("/dev/null").expect("/dev/null");
    let full = pipe_with(PIPE_BYTES);
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    // A blocking pipe is polled before Linux 6.4, which has RWF_NOWAIT for pipes.
    rustix::io::ioctl_fionbio(&writer, true).expect("non-blocking");
    let moves = [
        Mover::new(&full, &null).length_bytes(PIPE_BYTES as u64).run(),
        Mover::new(&zeros, &writer).length_bytes(40_000).run(),
        Mover::new(&zeros, &null).length_bytes(40_000).run(),
    ];
    for report in moves.map(|report| report.expect("a move")) {
        assert!(!report.methods.is_empty(), "{report:?}");
        for used in report.methods {
            assert_eq!(used.calls.get(Call::Poll), 0, "{used:?}");
        }
    }
}

/// Asks the kernel about the assumption of the test above.
#[test]
fn the_devices_of_memory_are_always_ready() {
    for name in ["/dev/null", "/dev/zero", "/dev/full"] {
        let device = File::options().read(true).write(true).open(name).expect(name);
        let asked = PollFlags::IN | PollFlags::OUT;
        let mut fds = [PollFd::new(&device, asked)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&at_once)), Ok(1), "{name}");
        assert_eq!(fds[0].revents() & asked, asked, "{name}");
    }
}
