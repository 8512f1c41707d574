//! The engine's effects on the caller's descriptors: each sentence of the crate's page of that
//! name.

#[macro_use]
mod common;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use common::{
    SourceKind, Target, TargetKind, child, file_of, is_root, noise, open_source, open_target, runs,
    skipped,
};
use gush::pipe::Writer;
use gush::{Cancel, Choice, Control, Holes, MethodName, Mover, Repeat, Tuning};
use rustix::fs::OFlags;
use rustix::pipe::fcntl_getpipe_size;

/// Methods that move a file's bytes one way or another: by offsets, by mapping, by reference.
fn all_methods() -> impl Iterator<Item = Choice> {
    common::file_methods().map(Choice::Only).chain([Choice::Auto])
}

/// A file of 1 MiB with data at the start and the end, and a hole between.
fn sparse() -> File {
    let file = tempfile::tempfile().expect("a file");
    file.write_all_at(b"start", 0).expect("room");
    file.write_all_at(&noise(1, 4096), (1 << 20) - 4096).expect("room");
    file
}

fn position(mut file: &File) -> u64 {
    file.stream_position().expect("a position")
}

fn flags(fd: &impl AsFd) -> OFlags {
    rustix::fs::fcntl_getfl(fd).expect("F_GETFL")
}

#[test]
fn without_offsets_both_positions_end_after_the_last_byte() {
    for choice in all_methods() {
        for holes in [Holes::Keep, Holes::Fill] {
            let (mut source, mut target) = (sparse(), tempfile::tempfile().unwrap());
            source.seek(SeekFrom::Start(3)).unwrap();
            target.seek(SeekFrom::Start(4096 + 3)).unwrap();
            let moved = Mover::new(&source, &target).method(choice).holes(holes).run();
            match moved {
                Ok(report) => {
                    assert_eq!(report.bytes, (1 << 20) - 3, "{choice}");
                    assert_eq!(position(&source), 1 << 20, "{choice}, {holes:?}");
                    assert_eq!(position(&target), (1 << 20) + 4096, "{choice}, {holes:?}");
                }
                Err(error) if error.is_refused() && error.delivered_bytes() == 0 => {
                    assert_eq!((position(&source), position(&target)), (3, 4099), "{choice}");
                }
                Err(error) => panic!("{choice}: {error}"),
            }
        }
    }
}

#[test]
fn a_move_that_fails_leaves_both_positions_after_the_last_byte() {
    let (source, target) = (File::from(file_of(&noise(1, 8 << 20))), tempfile::tempfile().unwrap());
    let mut stop = |_: &gush::Progress| Control::Stop;
    let by_name = Choice::Only(MethodName::ReadWrite);
    let error = Mover::new(&source, &target)
        .method(by_name)
        .threads(1)
        .observe(&mut stop)
        .run()
        .unwrap_err();
    let moved = error.delivered_bytes();
    assert!(error.is_stopped() && moved > 0 && moved < 8 << 20, "{error}");
    assert_eq!((position(&source), position(&target)), (moved, moved));
}

#[test]
fn with_offsets_both_positions_stay_although_asking_for_holes_moves_them() {
    for choice in all_methods() {
        let (mut source, mut target) = (sparse(), tempfile::tempfile().unwrap());
        source.seek(SeekFrom::Start(77)).unwrap();
        target.seek(SeekFrom::Start(99)).unwrap();
        let mover = Mover::new(&source, &target).method(choice);
        let moved = mover.source_offset_bytes(0).target_offset_bytes(0).run();
        if let Err(error) = moved {
            assert!(error.is_refused(), "{choice}: {error}");
        }
        assert_eq!((position(&source), position(&target)), (77, 99), "{choice}");
    }
}

/// A file in memory that has this size and cannot grow.
fn sealed(size_bytes: u64) -> File {
    use rustix::fs::{MemfdFlags, SealFlags};
    let fd = rustix::fs::memfd_create(c"sealed", MemfdFlags::ALLOW_SEALING).expect("a file");
    rustix::fs::ftruncate(&fd, size_bytes).expect("its size");
    rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).expect("a seal");
    File::from(fd)
}

#[test]
fn a_hole_at_the_end_that_cannot_be_made_is_not_counted_and_positions_are_put_right() {
    const ROOM: u64 = 256 << 10;
    for has_named_offsets in [false, true] {
        for holes in [Holes::Keep, Holes::Make] {
            let case = format!("named {has_named_offsets}, {holes:?}");
            let (source, target) = (tempfile::tempfile().unwrap(), sealed(ROOM));
            source.set_len(1 << 20).unwrap();
            source.write_all_at(&noise(1, 4096), 8192).unwrap();
            let mover = Mover::new(&source, &target).holes(holes);
            let (answer, expected) = if has_named_offsets {
                (&source).seek(SeekFrom::Start(5)).unwrap();
                (&target).seek(SeekFrom::Start(7)).unwrap();
                (mover.source_offset_bytes(0).target_offset_bytes(0).run(), (5, 7))
            } else {
                (mover.run(), (ROOM, ROOM))
            };
            let error = answer.expect_err("no room for the hole");
            assert_eq!(error.delivered_bytes(), ROOM, "{case}: {error}");
            assert_eq!((position(&source), position(&target)), expected, "{case}: {error}");
            let mut bytes = [source, target].map(|file| common::read_all(&file.into()));
            bytes[0].truncate(ROOM as usize);
            assert!(bytes[0] == bytes[1], "{case}: other bytes");
        }
    }
}

#[test]
fn comparing_two_sparse_files_leaves_both_positions() {
    let (mut a, mut b) = (sparse(), sparse());
    a.seek(SeekFrom::Start(5)).unwrap();
    b.seek(SeekFrom::Start(6)).unwrap();
    assert_eq!(gush::first_difference(&a, &b).unwrap(), None);
    assert_eq!((position(&a), position(&b)), (5, 6));
}

#[test]
fn no_target_has_another_flag_while_somebody_observes_or_afterwards() {
    for &kind in TargetKind::ALL {
        if kind == TargetKind::Block && !is_root() {
            skipped("block devices: a loop device needs root");
            continue;
        }
        let target = Target::new(kind, b"", 1, false).expect("a target");
        let source = file_of(b"some bytes");
        let before = flags(&target.fd);
        let mut during = OFlags::empty();
        let mut look = |_: &gush::Progress| {
            during = flags(&target.fd);
            Control::Continue
        };
        Mover::new(&source, &target.fd).observe(&mut look).run().expect("a move");
        assert!(!before.contains(OFlags::NONBLOCK), "{kind:?}");
        assert_eq!([during, flags(&target.fd)], [before; 2], "{kind:?}");
    }
}

#[test]
fn a_watched_move_by_a_method_that_a_shared_socket_could_hold_is_refused() {
    for kind in [TargetKind::UnixStream, TargetKind::Tcp, TargetKind::UnixDatagram] {
        for name in [MethodName::Sendfile, MethodName::Splice, MethodName::Vmsplice] {
            let (target, _far) = open_target(kind).expect("a socket");
            let source = file_of(b"some bytes");
            let cancel = Cancel::new();
            let mover = Mover::new(&source, &target).method(Choice::Only(name));
            let error = mover.cancelled_by(&cancel).run().expect_err("it could be held");
            assert!(error.is_refused(), "{kind:?}: {error}");
            assert!(error.to_string().contains("has no O_NONBLOCK"), "{kind:?}: {error}");
        }
    }
}

#[test]
fn a_pipe_is_grown_to_1_mib_and_stays_so_unless_another_size_is_asked_for() {
    needs!(splice);
    let born = fcntl_getpipe_size(std::io::pipe().unwrap().1).unwrap();
    let grown = |tuning: Tuning| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let by_name = Choice::Only(MethodName::Splice);
        let source = file_of(b"some bytes");
        Mover::new(&source, &writer).method(by_name).tuning(tuning).run().expect("a move");
        let bytes = fcntl_getpipe_size(&writer).unwrap();
        drop(writer);
        reader.read_to_end(&mut Vec::new()).unwrap();
        bytes
    };
    assert_eq!(grown(Tuning::default().pipe_bytes(1)), born);
    assert_eq!(grown(Tuning::default().pipe_bytes(2 * born)), 2 * born);
    let (_reader, pipe) = std::io::pipe().unwrap();
    let pipe = Writer::new(pipe).unwrap().into_inner().unwrap();
    let all = [grown(Tuning::default()), fcntl_getpipe_size(&pipe).unwrap()];
    if all.iter().any(|&bytes| bytes < 1 << 20) && !is_root() {
        skip!("this user's pages are used up: pipes of {all:?} bytes");
    }
    assert_eq!(all, [1 << 20; 2]);
}

#[test]
fn the_pipe_of_a_splices_source_and_that_of_a_repeat_are_grown() {
    needs!(splice);
    let size = |pipe: &dyn AsFd| fcntl_getpipe_size(pipe.as_fd()).unwrap();
    let born = size(&std::io::pipe().unwrap().1);
    for (asked, expected) in [(Some(1), born), (Some(2 * born), 2 * born), (None, 1 << 20)] {
        let (source, mut feeder) = std::io::pipe().unwrap();
        feeder.write_all(b"some bytes").unwrap();
        drop(feeder);
        let tuning = match asked {
            Some(bytes) => Tuning::default().pipe_bytes(bytes),
            None => Tuning::default(),
        };
        let (target, by_name) = (tempfile::tempfile().unwrap(), Choice::Only(MethodName::Splice));
        Mover::new(&source, &target).method(by_name).tuning(tuning).run().expect("a move");
        let (_reader, pipe) = std::io::pipe().unwrap();
        let repeat = Repeat::new(b"yes\n").length_bytes(8);
        let repeat = match asked {
            Some(bytes) => repeat.pipe_bytes(bytes),
            None => repeat,
        };
        repeat.run(&pipe).expect("room");
        let all = [size(&source), size(&pipe)];
        if asked.is_none() && all.iter().any(|&bytes| bytes < expected) && !is_root() {
            skip!("this user's pages are used up: pipes of {all:?} bytes");
        }
        assert_eq!(all, [expected; 2], "{asked:?}");
    }
}

#[test]
fn a_pipe_is_grown_to_a_sixteenth_of_the_users_pages_at_most() {
    needs!(splice);
    let test = "in_a_child_pipes_stay_modest";
    let page_bytes = rustix::param::page_size();
    // A sixteenth of 1024 pages is 64. With 64 pages a pipe is born larger than its share.
    let sixteenth_bytes = (64 * page_bytes).min(1 << 20);
    for (pages, expected) in [("1024", sixteenth_bytes), ("64", 16 * page_bytes), ("0", 1 << 20)] {
        let limit = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(limit.path(), format!("{pages}\n")).unwrap();
        let script = format!(
            "mount --bind {} /proc/sys/fs/pipe-user-pages-soft && exec \"$@\"",
            limit.path().display()
        );
        let wrapper = ["unshare", "--mount", "sh", "-c", &script, "sh"];
        if !is_root() || !runs(wrapper[0], &[&wrapper[1..], &["true"]].concat()) {
            skip!("cannot mount over /proc/sys (needs root and a mount namespace)");
        }
        let expected = usize::to_string(&expected);
        let (passed, said) = child(&wrapper, test, &[("GUSH_TEST_BYTES", &expected)]);
        assert!(passed, "{pages} pages: {said}");
    }
}

#[test]
#[ignore = "run by a_pipe_is_grown_to_a_sixteenth_of_the_users_pages_at_most"]
fn in_a_child_pipes_stay_modest() {
    let expected: usize = std::env::var("GUSH_TEST_BYTES").unwrap().parse().unwrap();
    let (_reader, pipe) = std::io::pipe().unwrap();
    let pipe = Writer::new(pipe).unwrap().into_inner().unwrap();
    assert_eq!(fcntl_getpipe_size(&pipe).unwrap(), expected, "a writer's");
    let (_reader, pipe) = std::io::pipe().unwrap();
    let by_name = Choice::Only(MethodName::Splice);
    Mover::new(&file_of(b"x"), &pipe).method(by_name).run().unwrap();
    assert_eq!(fcntl_getpipe_size(&pipe).unwrap(), expected, "a move's");
    let named = Tuning::default().pipe_bytes(1 << 20);
    Mover::new(&file_of(b"x"), &pipe).method(by_name).tuning(named).run().unwrap();
    assert_eq!(fcntl_getpipe_size(&pipe).unwrap(), 1 << 20, "as the user says");
}

#[test]
fn a_target_becomes_shorter_only_where_it_is_to_be_replaced() {
    for choice in all_methods() {
        for (replace, expected) in [(false, 100_000), (true, 10)] {
            let (source, target) = (file_of(b"ten bytes."), file_of(&noise(1, 100_000)));
            let moved = Mover::new(&source, &target).method(choice).replace(replace).run();
            let size = rustix::fs::fstat(&target).unwrap().st_size;
            match moved {
                Ok(_) => assert_eq!(size, expected, "{choice}, {replace}"),
                Err(error) => {
                    assert!(error.is_refused(), "{choice}: {error}");
                    assert_eq!(size, 100_000, "{choice}, {replace}");
                }
            }
        }
    }
}

#[test]
fn a_move_closes_what_it_opens_and_nothing_else() {
    let (passed, said) = child(&[], "in_a_child_descriptors_are_the_same_before_and_after", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a_move_closes_what_it_opens_and_nothing_else"]
fn in_a_child_descriptors_are_the_same_before_and_after() {
    let open = || {
        let names = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let content = noise(1, 100_000);
    for choice in MethodName::ALL.iter().map(|&name| Choice::Only(name)).chain([Choice::Auto]) {
        for from in [SourceKind::File, SourceKind::Pipe, SourceKind::UnixStream] {
            for to in [TargetKind::File, TargetKind::UnixStream, TargetKind::Direct] {
                let (source, far) = open_source(from).expect("a source");
                match far {
                    Some(far) => (&File::from(far)).write_all(&content[..4000]).unwrap(),
                    None => drop(rustix::io::pwrite(&source, &content, 0).unwrap()),
                }
                // No thread reads there, whose descriptors would come and go.
                let (target, _far) = match to {
                    TargetKind::UnixStream => open_target(to).expect("a target"),
                    _ => (Target::new(to, b"", 1, false).expect("a target").fd, file_of(b"")),
                };
                let before = open();
                let mut go_on = |_: &gush::Progress| Control::Continue;
                let _ = Mover::new(&source, &target)
                    .method(choice)
                    .length_bytes(4000)
                    .observe(&mut go_on)
                    .run();
                assert_eq!(open(), before, "{choice}, {from:?} to {to:?}");
            }
        }
    }
}

/// The master of a pseudo-terminal is written to itself: opening the master once more makes another
/// pair (ptmx(4)).
#[test]
fn a_watched_move_reaches_the_slave_of_the_master_that_it_was_given() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a master");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a slave");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut raw = rustix::termios::tcgetattr(&slave).expect("settings");
    raw.make_raw();
    rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &raw).unwrap();
    let mut source = tempfile::tempfile().expect("a file");
    source.write_all(b"hello").unwrap();
    source.rewind().unwrap();
    let mut observer = |_: &gush::Progress| Control::Continue;
    assert_eq!(Mover::new(&source, &master).observe(&mut observer).run().unwrap().bytes, 5);
    rustix::io::ioctl_fionbio(&slave, true).expect("no waiting");
    let mut seen = [0; 8];
    assert_eq!((&slave).read(&mut seen).expect("what was written"), 5);
    assert_eq!(&seen[..5], b"hello");
}

/// The pipes and buffers of the process are for those that move bytes.
#[test]
fn a_move_that_waits_for_long_holds_no_pipe() {
    let (passed, said) = child(&[], "in_a_child_a_move_that_waits_for_long_holds_no_pipe", &[]);
    assert!(passed, "{said}");
}

/// How many ends of pipes this process has open.
fn pipe_ends() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    names.filter(|name| name.to_string_lossy().starts_with("pipe:")).count()
}

#[test]
#[ignore = "run by a_move_that_waits_for_long_holds_no_pipe, in a process of its own"]
fn in_a_child_a_move_that_waits_for_long_holds_no_pipe() {
    let methods = [MethodName::Splice, MethodName::Vmsplice, MethodName::ReadWrite];
    for method in common::served_here(&methods.map(Choice::Only)) {
        for watched in [false, true] {
            let before = pipe_ends();
            let (mut feeder, source) = std::os::unix::net::UnixStream::pair().unwrap();
            let (target, mut reader) = std::os::unix::net::UnixStream::pair().unwrap();
            // A watched move splices into a socket with the flag alone.
            target.set_nonblocking(watched).unwrap();
            let cancel = Cancel::new();
            let report = std::thread::scope(|scope| {
                let mover = Mover::new(&source, &target).method(method);
                let mover = if watched { mover.cancelled_by(&cancel) } else { mover };
                let mover = scope.spawn(|| mover.run());
                let mut word = [0; 5];
                for _ in 0..3 {
                    feeder.write_all(b"bytes").unwrap();
                    reader.read_exact(&mut word).unwrap();
                    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
                    while pipe_ends() > before && std::time::Instant::now() < end {
                        std::thread::yield_now();
                    }
                    assert_eq!(pipe_ends(), before, "{method}: pipes of a move that waits");
                }
                drop(feeder);
                mover.join().expect("no panic")
            });
            assert_eq!(report.expect("no error").bytes, 15, "{method}");
        }
    }
}
