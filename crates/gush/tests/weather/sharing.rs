//! Who else has the pages: isolation from the source, and lent memory that stays unchanged.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use gush::{Choice, MethodName, Mover, Tuning};
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::common::{TargetKind, noise, open_target, within};
use crate::common::{file_methods, file_of, methods_served_here};

const LEN: usize = 32_768;

/// Moves a file into a pipe or socket, changes the file, and answers whether the change shows.
fn later_write_shows(choice: Choice, to: TargetKind, isolated: bool) -> Option<bool> {
    let before = noise(1, LEN);
    let source = file_of(&before);
    let (target, far) = open_target(to).expect("a target");
    let mover = Mover::new(&source, &target).method(choice).isolated(isolated);
    if let Err(error) = mover.run() {
        assert!(error.is_refused(), "{choice} into {to:?}: {error}");
        return None;
    }
    File::from(source).write_all_at(&noise(2, LEN), 0).expect("a later write");
    drop(target);
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut File::from(far), &mut got).expect("the bytes");
    assert_eq!(got.len(), LEN);
    Some(got != before)
}

#[test]
fn isolated_moves_never_show_a_later_write() {
    for to in [TargetKind::Pipe, TargetKind::UnixStream, TargetKind::Tcp] {
        for choice in file_methods().map(Choice::Only).chain([Choice::Auto]) {
            let name = format!("{choice} into {to:?}");
            let shown = within(30, &name, move || later_write_shows(choice, to, true));
            assert_ne!(shown, Some(true), "{name}");
            if choice == Choice::Auto {
                assert_eq!(shown, Some(false), "{name} is always served");
            }
            let sharing = [MethodName::Splice, MethodName::Sendfile].map(Choice::Only);
            assert_eq!(shown.is_none(), sharing.contains(&choice) || serves_files_only(choice));
        }
    }
}

fn serves_files_only(choice: Choice) -> bool {
    use MethodName::{CopyFileRange, Direct, MmapCopy, ReadMmap, Uring};
    [CopyFileRange, Direct, MmapCopy, ReadMmap, Uring].map(Choice::Only).contains(&choice)
}

/// If this ever fails, the test above proves nothing on this kernel.
#[test]
fn without_isolation_a_spliced_file_shows_a_later_write() {
    let shows = |choice, to| within(30, "a splice", move || later_write_shows(choice, to, false));
    for method in methods_served_here(&[MethodName::Splice, MethodName::Sendfile]) {
        assert_eq!(shows(Choice::Only(method), TargetKind::Pipe), Some(true), "{method}");
        assert!(method.shares_source());
    }
    let copied = shows(Choice::Only(MethodName::ReadWrite), TargetKind::Pipe);
    assert_eq!(copied, Some(false), "read-write copies");
}

/// Invariant 4: a reader that holds pages lent by vmsplice keeps their content.
#[test]
fn invariant_4_lent_pages_stay_as_they_were_in_a_tee() {
    needs!(splice);
    needs!(vmsplice);
    needs!(tee);
    for buffer_bytes in [4096, 16 << 10, 256 << 10] {
        within(60, &buffer_bytes.to_string(), move || held_by_tee(buffer_bytes));
    }
}

/// A reader duplicates everything with tee(2), keeps the duplicate unread, and only looks at the
/// duplicate when the mover has long gone on.
fn held_by_tee(buffer_bytes: usize) {
    let content = noise(5, 600_000);
    let source = file_of(&content);
    let (reader, target) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let (held, holder) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&holder, 1 << 20).expect("a large pipe");
    let teeing = std::thread::spawn(move || {
        let mut sink = vec![0; 1 << 16];
        let mut drained = Vec::new();
        loop {
            let len =
                rustix::pipe::tee(&reader, &holder, 1 << 16, SpliceFlags::empty()).expect("a tee");
            if len == 0 {
                return drained;
            }
            let mut left = len;
            while left > 0 {
                let got = rustix::io::read(&reader, &mut sink[..left]).expect("a read");
                drained.extend_from_slice(&sink[..got]);
                left -= got;
            }
        }
    });
    let tuning = Tuning::default().buffer_bytes(buffer_bytes);
    let mover = Mover::new(&source, &target).tuning(tuning);
    let report = mover.method(Choice::Only(MethodName::Vmsplice)).run().expect("a move");
    assert_eq!(report.bytes, 600_000);
    drop(target);
    assert!(teeing.join().expect("the reader") == content, "what was read");
    assert!(read_to_end(held) == content, "what was held has changed");
}

fn read_to_end(fd: OwnedFd) -> Vec<u8> {
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut File::from(fd), &mut got).expect("the bytes");
    got
}

#[test]
fn invariant_4_lent_pages_stay_as_they_were_in_a_socket() {
    needs!(splice);
    needs!(vmsplice);
    for to in [TargetKind::UnixStream, TargetKind::Tcp] {
        within(60, &format!("{to:?}"), move || {
            // The mover fills the socket and reuses its memory while nobody has read.
            let content = noise(5, 600_000);
            let source = file_of(&content);
            let (target, far) = open_target(to).expect("a target");
            let moving = std::thread::spawn(move || {
                let tuning = Tuning::default().buffer_bytes(8192);
                let mover = Mover::new(&source, &target).tuning(tuning);
                mover.method(Choice::Only(MethodName::Vmsplice)).run().expect("a move")
            });
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(read_to_end(far) == content, "what was in the socket has changed");
            moving.join().expect("the mover");
        });
    }
}

/// Spliced on into another pipe, the pages are never known to be free.
#[test]
fn invariant_4_lent_pages_stay_as_they_were_in_a_second_pipe() {
    needs!(splice);
    needs!(vmsplice);
    within(60, "a second pipe", || {
        let content = noise(5, 400_000);
        let source = file_of(&content);
        let (reader, target) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (held, holder) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        rustix::pipe::fcntl_setpipe_size(&holder, 1 << 20).expect("a large pipe");
        let splicing = std::thread::spawn(move || {
            let flags = SpliceFlags::empty();
            while rustix::pipe::splice(&reader, None, &holder, None, 1 << 16, flags)
                .expect("a splice")
                > 0
            {}
        });
        let tuning = Tuning::default().buffer_bytes(16 << 10);
        let mover = Mover::new(&source, &target).tuning(tuning);
        mover.method(Choice::Only(MethodName::Vmsplice)).run().expect("a move");
        drop(target);
        splicing.join().expect("the reader");
        assert!(read_to_end(held) == content, "what was held has changed");
    });
}

/// A descriptor of another kind than its owner says: safe code may say so, and the pages stay as
/// they were.
#[test]
fn invariant_4_lent_pages_stay_as_they_were_where_a_pipe_is_called_a_file() {
    needs!(splice);
    needs!(vmsplice);
    let page = |at: usize| (at / 4096) as u8;
    let content: Vec<u8> = (0..16 * 4096).map(page).collect();
    let by_name = Choice::Only(MethodName::Vmsplice);
    let source = file_of(&content);

    // By a mover, of an end that the caller describes.
    let (reader, pipe) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let from = gush::Endpoint::of(&source).expect("an end");
    let to = gush::Endpoint::of_new_file(&pipe, 0, rustix::fs::OFlags::WRONLY);
    let mover = Mover::between(from, to).source_offset_bytes(0).method(by_name);
    let error = mover.tuning(Tuning::default().buffer_bytes(4096)).run().expect_err("no file");
    assert_eq!((error.call(), error.delivered_bytes()), (Some(gush::Call::Lseek), 16 * 4096));
    drop(pipe);
    assert!(read_to_end(reader) == content, "what was in the pipe has changed");

    // By a flow, of a state that the driver makes up.
    for is_lying in [false, true] {
        let (reader, pipe) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        flow_to_a_pipe_that_is_called_a_file(&source, &pipe, is_lying);
        drop(pipe);
        let got = read_to_end(reader);
        let expected = if is_lying { &content[..got.len()] } else { &content[..] };
        assert!(got == expected, "what was in the pipe has changed, lying {is_lying}");
    }
}

/// Drives a flow by vmsplice; one that lies says of the first page that a splice has moved the
/// page, and makes none.
fn flow_to_a_pipe_that_is_called_a_file(source: &OwnedFd, pipe: &OwnedFd, is_lying: bool) {
    use gush::flow::{Fds, Flow, Next, Op, PortState, Shelf, Terms};
    use std::os::fd::AsFd;

    let choice = Choice::Only(MethodName::Vmsplice);
    let terms = Terms { choice, buffer_bytes: 4096, ..Terms::default() };
    let from = PortState::of(source).expect("a port state").at(0);
    let to = PortState::known(gush::Kind::File, true);
    let mut flow = Flow::between(from, to, &terms).expect("a flow");
    let mut shelf = Shelf::new(gush::pipe::Pool::shared().clone());
    let fds = Fds { source: source.as_fd(), target: pipe.as_fd() };
    let mut lies = u32::from(is_lying);
    while let Next::Do(op) = flow.next(u64::MAX, &mut shelf) {
        let answer = match op {
            Op::Empty if lies > 0 => {
                lies -= 1;
                Ok(4096)
            }
            _ => flow.perform(op, fds),
        };
        flow.learn(op, answer, &mut ());
    }
}
