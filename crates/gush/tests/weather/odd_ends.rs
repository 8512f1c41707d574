//! Ends that are other than they seem, or go away.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gush::{Choice, Control, Errno, Holes, MethodName, Mover};
use rustix::fs::{
    CWD, FileType, MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create,
    mknodat, openat,
};

use crate::common::{
    Drainer, Ending, LoopDevice, Source, SourceKind, Target, TargetKind, file_methods, file_of,
    methods_served_here, noise, open_target, read_all, served_here, within,
};

fn choices() -> impl Iterator<Item = Choice> {
    methods_served_here(MethodName::ALL).into_iter().map(Choice::Only).chain([Choice::Auto])
}

fn errno_of(error: &gush::Error) -> Option<Errno> {
    error.io_error().and_then(Errno::from_io_error)
}

#[test]
fn made_up_files_arrive_whole_or_the_method_says_no() {
    // These report a size of 0, or of a page, and have other bytes: nothing may be concluded from
    // st_size.
    let paths = ["/proc/cpuinfo", "/proc/self/maps", "/proc/version", "/proc/self/status"];
    let sysfs = ["/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/notes"];
    let exists = |path: &&str| std::path::Path::new(path).exists();
    let all: Vec<_> = paths.into_iter().chain(sysfs).filter(exists).collect();
    assert!(all.len() >= paths.len(), "procfs is mounted everywhere: {all:?}");
    for path in all {
        for choice in choices() {
            let (outcome, arrived) = within(30, &format!("{choice}: {path}"), move || {
                let source: OwnedFd = File::open(path).expect(path).into();
                let target = file_of(b"");
                (Mover::new(&source, &target).method(choice).run(), read_all(&target))
            });
            match outcome {
                Ok(report) => {
                    assert_eq!(report.bytes, arrived.len() as u64, "{choice}: {path}");
                    assert!(!arrived.is_empty(), "{choice} took {path} for empty");
                    // Others change from look to look.
                    if path != "/proc/self/maps" && path != "/proc/self/status" {
                        let all = std::fs::read(path).expect(path);
                        // Only lines are compared: the frequencies in cpuinfo differ at each look.
                        let lines = |bytes: &[u8]| bytes.split(|&b| b == b'\n').count();
                        assert_eq!(lines(&arrived), lines(&all), "{choice}: {path}");
                    }
                }
                Err(error) => {
                    assert!(error.is_refused(), "{choice}: {path}: {error}");
                    assert_eq!(error.delivered_bytes(), arrived.len() as u64, "{choice}: {path}");
                }
            }
        }
        let read_write = [Choice::Auto, Choice::Only(MethodName::ReadWrite)];
        for choice in read_write {
            let source: OwnedFd = File::open(path).expect(path).into();
            let target = file_of(b"");
            let report = Mover::new(&source, &target).method(choice).run().expect(path);
            assert!(report.bytes > 0, "{choice}: {path}");
        }
    }
}

#[test]
fn a_full_device_says_that_there_is_no_space() {
    for from in [SourceKind::File, SourceKind::Pipe, SourceKind::UnixStream] {
        for choice in choices() {
            let name = format!("{choice} from {from:?}");
            let (error, rest) = within(30, &name, move || {
                let source = Source::new(from, &noise(1, 30_000), 1, false).expect("a source");
                let target = File::options().write(true).open("/dev/full").expect("/dev/full");
                let error = Mover::new(&source.fd, &target).method(choice).run();
                (error.expect_err("a full device"), source.filled().rest())
            });
            assert_eq!(error.delivered_bytes(), 0, "{name}");
            if errno_of(&error) != Some(Errno::NOSPC) {
                assert!(error.is_refused() && choice != Choice::Auto, "{name}: {error:?}");
            } else {
                assert_eq!(error.side(), Some(gush::Side::Target), "{name}");
                assert!(error.hint().is_some(), "{name}");
            }
            // Bytes taken and not delivered, and those left in the source, are all of them.
            let lost = usize::try_from(error.in_flight_bytes()).expect("few bytes");
            assert_eq!(lost + rest.len(), 30_000, "{name}: {error}");
        }
    }
}

/// The reader goes away at once, or after some bytes.
#[test]
fn a_reader_that_goes_away_is_an_error_that_counts_what_went_out() {
    let targets = [TargetKind::Pipe, TargetKind::Fifo, TargetKind::UnixStream, TargetKind::Tcp];
    // More than any pipe or socket here holds, so the writer meets the missing reader.
    let content = noise(1, 3 << 20);
    for to in targets {
        for from in [SourceKind::File, SourceKind::Pipe, SourceKind::UnixStream] {
            for choice in choices() {
                for reads in [0, 10_000] {
                    let name = format!("{choice}: {from:?} -> {to:?}, {reads} read");
                    let content = content.clone();
                    let outcome = within(30, &name, move || {
                        let source = Source::new(from, &content, 1, false).expect("a source");
                        let (target, far) = open_target(to).expect("a target");
                        let reader = std::thread::spawn(move || {
                            let mut left = reads;
                            while left > 0 {
                                let mut buf = vec![0; left];
                                match rustix::io::read(&far, &mut buf) {
                                    Ok(got) if got > 0 => left -= got,
                                    _ => break,
                                }
                            }
                        });
                        if reads == 0 {
                            reader.join().expect("the reader");
                        }
                        Mover::new(&source.fd, &target).method(choice).run()
                    });
                    let error = match outcome {
                        Err(error) => error,
                        // A connection takes a good deal before it hears that nobody reads.
                        Ok(_) if to == TargetKind::Tcp && reads > 0 => continue,
                        Ok(report) => panic!("{name}: {}", report.explain()),
                    };
                    // The method does not serve this pair at all, which other tests hold.
                    if error.is_refused() && error.delivered_bytes() == 0 {
                        continue;
                    }
                    let reported = errno_of(&error);
                    assert!(
                        // A socket with unread bytes resets at close; a pipe, or a socket read out,
                        // gives EPIPE.
                        matches!(reported, Some(Errno::PIPE | Errno::CONNRESET)),
                        "{name}: {error:?}"
                    );
                    assert!(error.delivered_bytes() >= reads as u64, "{name}: {error}");
                }
            }
        }
    }
}

/// Another method would find the end of the source, and report a success without them.
#[test]
fn bytes_that_were_taken_and_that_the_target_refuses_are_lost_with_an_error() {
    let error = within(30, "a sealed file", || {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        far.write_all(b"lost").expect("room");
        drop(far);
        let target = memfd_create("sealed", MemfdFlags::ALLOW_SEALING).expect("a file");
        fcntl_add_seals(&target, SealFlags::WRITE).expect("a seal");
        Mover::new(&near, &target).run().expect_err("4 bytes have no place")
    });
    assert_eq!(errno_of(&error), Some(Errno::PERM), "{error}");
    assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (0, 4), "{error}");
}

#[test]
fn non_blocking_descriptors_are_waited_for() {
    let from = [SourceKind::File, SourceKind::Pipe, SourceKind::UnixStream, SourceKind::Tcp];
    let to = [TargetKind::File, TargetKind::Pipe, TargetKind::UnixStream, TargetKind::Tcp];
    // Many times a pipe's 64 KiB: both sides have to be waited for.
    let content = noise(1, 700_000);
    for (from, to) in from.into_iter().flat_map(|from| to.map(|to| (from, to))) {
        for choice in choices() {
            let name = format!("{choice}: {from:?} -> {to:?}");
            let copy = content.clone();
            let (outcome, arrived) = within(30, &name, move || {
                let source = Source::new(from, &copy, 1, true).expect("a source");
                let target = Target::new(to, b"", 2, true).expect("a target");
                for fd in [&source.fd, &target.fd] {
                    rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK).expect("O_NONBLOCK");
                }
                let outcome = Mover::new(&source.fd, &target.fd).method(choice).run();
                (outcome, target.content())
            });
            match outcome {
                Ok(report) => {
                    assert_eq!(report.bytes, 700_000, "{name}");
                    assert!(arrived == content, "{name}: other bytes");
                }
                Err(error) => {
                    assert!(error.is_refused(), "{name}: {error:?}");
                    assert!(arrived.is_empty() && choice != Choice::Auto, "{name}: {error}");
                }
            }
        }
    }
}

#[test]
fn overlapping_ranges_of_one_file_are_refused_and_untouched() {
    let content = noise(1, 50_000);
    for choice in choices() {
        // By one byte, on either side.
        let one_byte = [(0, 8191, 8192), (8191, 0, 8192)];
        let more = [(0, 0, 50_000), (0, 49_999, 50_000), (1000, 0, 2000)];
        for (from, to, length) in more.into_iter().chain(one_byte) {
            let file = file_of(&content);
            let mover = Mover::new(&file, &file).method(choice).length_bytes(length);
            let error = mover.source_offset_bytes(from).target_offset_bytes(to).run();
            let error = error.expect_err("an overlap");
            assert!(error.to_string().contains("same file"), "{choice}: {error}");
            assert!(read_all(&file) == content, "{choice}: touched");
        }
    }
}

#[test]
fn ranges_of_one_file_that_lie_apart_are_copied() {
    let content = noise(1, 50_000);
    for choice in file_methods().map(Choice::Only).chain([Choice::Auto]) {
        let file = file_of(&content);
        let mover = Mover::new(&file, &file).method(choice).length_bytes(8192);
        let answer = mover.source_offset_bytes(4096).target_offset_bytes(20_480).run();
        // sendfile(2) writes at the target's position, and knows no offset there.
        if choice == Choice::Only(MethodName::Sendfile) {
            assert!(answer.expect_err("an offset").is_refused());
            continue;
        }
        assert_eq!(answer.expect("apart").bytes, 8192, "{choice}");
        let got = read_all(&file);
        assert!(got[20_480..28_672] == content[4096..12_288], "{choice}: other bytes");
        assert!(got[..20_480] == content[..20_480], "{choice}: what lies before");
        assert!(got[28_672..] == content[28_672..], "{choice}: what follows");
    }
}

/// The bytes to be copied would be cut off with the old content, before the first of them is read.
#[test]
fn a_file_is_not_replaced_by_a_later_part_of_itself() {
    let content = noise(1, 50_000);
    for choice in choices() {
        for length in [8192, 50_000] {
            let file = file_of(&content);
            let mover = Mover::new(&file, &file).method(choice).replace(true).length_bytes(length);
            let answer = mover.source_offset_bytes(20_480).target_offset_bytes(0).run();
            let error = answer.expect_err("an overlap");
            assert!(error.to_string().contains("same file"), "{choice}: {error}");
            assert!(read_all(&file) == content, "{choice}: touched");
        }
    }
    // An earlier part stays where it is.
    let file = file_of(&content);
    let mover = Mover::new(&file, &file).replace(true).length_bytes(8192);
    let report = mover.source_offset_bytes(0).target_offset_bytes(8192).run().expect("apart");
    assert_eq!(report.bytes, 8192);
    assert!(read_all(&file) == [&content[..8192], &content[..8192]].concat());
}

#[test]
fn ranges_of_one_file_that_touch_are_copied() {
    let content = noise(1, 50_000);
    for choice in file_methods().map(Choice::Only).chain([Choice::Auto]) {
        if choice == Choice::Only(MethodName::Sendfile) {
            continue;
        }
        for (from, to) in [(8192, 16_384), (16_384, 8192)] {
            let file = file_of(&content);
            let mover = Mover::new(&file, &file).method(choice).length_bytes(8192);
            let answer = mover.source_offset_bytes(from).target_offset_bytes(to).run();
            assert_eq!(answer.expect("no overlap").bytes, 8192, "{choice}, {from} to {to}");
            let (from, to) = (from as usize, to as usize);
            let mut expected = content.clone();
            expected.copy_within(from..from + 8192, to);
            assert!(read_all(&file) == expected, "{choice}, {from} to {to}: other bytes");
        }
    }
}

/// Without a length, a copy to the file's own end would find its own output and never end.
#[test]
fn a_file_copied_past_its_own_end_does_not_feed_on_itself() {
    let content = noise(1, 50_000);
    for choice in file_methods().map(Choice::Only).chain([Choice::Auto]) {
        let name = choice.to_string();
        let (outcome, size) = within(30, &name, {
            let content = content.clone();
            move || {
                let file = file_of(&content);
                let mut observer = |progress: &gush::Progress| {
                    // A move that feeds on itself is stopped, so that the test fails instead of
                    // filling the disk.
                    if progress.bytes > 500_000 { Control::Stop } else { Control::Continue }
                };
                let mover = Mover::new(&file, &file).method(choice).observe(&mut observer);
                let mover = mover.source_offset_bytes(0).target_offset_bytes(50_000);
                (mover.run(), read_all(&file).len())
            }
        });
        match outcome {
            Ok(report) => assert_eq!((report.bytes, size), (50_000, 100_000), "{name}"),
            Err(error) => {
                assert!(error.is_refused() && choice != Choice::Auto, "{name}: {error}");
                assert_eq!(size, 50_000, "{name}: {error}");
            }
        }
    }
}

#[test]
fn an_empty_datagram_loses_nothing_that_follows() {
    for from in [SourceKind::UnixDatagram, SourceKind::Seqpacket] {
        for choice in served_here(&[Choice::Only(MethodName::Splice), Choice::Auto]) {
            let name = format!("{choice} from {from:?}");
            let (delivered, arrived) = within(30, &name, move || {
                let (source, far) = crate::common::open_source(from).expect("sockets");
                let far = far.expect("the far end");
                for message in [&b"first"[..], b"", b"second", b"third"] {
                    rustix::net::send(&far, message, rustix::net::SendFlags::empty())
                        .expect("sent");
                }
                let target = file_of(b"");
                let outcome = Mover::new(&source, &target).method(choice).length_bytes(16).run();
                let delivered = outcome.map_or_else(|e| e.delivered_bytes(), |r| r.bytes);
                (delivered, read_all(&target))
            });
            // The empty message may be the end; what follows may not arrive cut.
            let whole = [&b"first"[..], b"firstsecond", b"firstsecondthird"];
            assert!(whole.contains(&&arrived[..]), "{name}: {arrived:?}");
            assert_eq!(delivered, arrived.len() as u64, "{name}");
        }
    }
}

#[test]
fn a_source_position_past_the_end_is_the_end() {
    for choice in choices() {
        let (source, target) = (file_of(b"abc"), file_of(b""));
        rustix::fs::seek(&source, SeekFrom::Start(10_000)).expect("seek");
        match Mover::new(&source, &target).method(choice).run() {
            Ok(report) => assert_eq!(report.bytes, 0, "{choice}"),
            Err(error) => {
                assert!(error.is_refused() && choice != Choice::Auto, "{choice}: {error}");
            }
        }
        assert!(read_all(&target).is_empty(), "{choice}");
    }
}

/// Past the page cache the kernel may have written a part before refusing the rest.
#[test]
fn a_refused_write_past_the_page_cache_leaves_the_target_as_it_was() {
    let (mut wrong, mut refused) = (Vec::new(), 0);
    let shapes = [(217_921, 4095, 511), (4097, 0, 1)];
    let all = choices().flat_map(|choice| shapes.map(|shape| (choice, shape)));
    for ((choice, (len, from, held)), named) in
        all.flat_map(|move_| [(move_, true), (move_, false)])
    {
        let (source, old) = (file_of(&noise(1, len)), noise(2, held));
        let target = Target::new(TargetKind::Direct, &old, 3, false).expect("O_DIRECT");
        let mover = Mover::new(&source, &target.fd).method(choice).source_offset_bytes(from);
        let answer = if named { mover.target_offset_bytes(0).run() } else { mover.run() };
        refused += u32::from(answer.is_err());
        let delivered = answer.map_or_else(|error| error.delivered_bytes(), |report| report.bytes);
        if delivered == 0 && target.content() != old {
            wrong.push(format!("{choice}, {len} bytes, named {named}"));
        }
    }
    assert!(wrong.is_empty(), "refused, and has touched the target: {wrong:#?}");
    assert!(refused > 0, "every method served all shapes: no refusal was tried");
}

#[test]
fn a_refusal_past_the_end_of_a_target_does_not_make_it_grow() {
    let mut refused = 0;
    for choice in choices() {
        let source = Source::new(SourceKind::Direct, &noise(1, 4095), 1, false).expect("O_DIRECT");
        let target = file_of(b"");
        let mover = Mover::new(&source.fd, &target).method(choice).target_offset_bytes(4096);
        match mover.run() {
            Ok(report) => {
                assert_eq!(report.bytes, 4095, "{choice}");
                assert!(read_all(&target)[4096..] == noise(1, 4095), "{choice}: other bytes");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.delivered_bytes(), 0, "{choice}: {error}");
                assert_eq!(read_all(&target).len(), 0, "{choice}: {error}");
            }
        }
    }
    assert!(refused > 0, "every method served it: no refusal was tried");
}

#[test]
fn drainers_and_feeders_of_the_tests_see_all_bytes() {
    let (near, far) = open_target(TargetKind::Pipe).expect("a pipe");
    let drainer = Drainer::start(far, Ending::Closed, false, 1, true);
    rustix::io::write(&near, b"abc").expect("a write");
    drop(near);
    assert_eq!(drainer.finish(), b"abc");
}

/// Bytes written ahead of the reading would be read again.
#[test]
fn a_block_device_is_not_copied_onto_a_part_of_itself_that_is_yet_to_be_read() {
    const LEN: usize = 1 << 20;
    let device = match LoopDevice::new(LEN as u64) {
        Ok(device) => device,
        Err(why) => return gush_test::skipped(&why),
    };
    let content = noise(3, LEN);
    let disk: File = device.open().into();
    disk.write_all_at(&content, 0).expect("a device");
    // The device by another name.
    let dir = tempfile::tempdir().expect("a directory");
    let other_name = dir.path().join("disk");
    let number = disk.metadata().expect("fstat").rdev();
    let made = mknodat(CWD, &other_name, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number);
    if let Err(why) = made {
        return gush_test::skipped(&format!("no device node: {why}"));
    }
    for (from, to, length, is_refused) in [
        (0, 4096, 512 << 10, true),
        (4096, 0, 512 << 10, true),
        (0, 512 << 10, 512 << 10, false),
        (4096, 4096, 512 << 10, false),
    ] {
        let source = device.open();
        let target = File::options().write(true).open(&other_name);
        let target = match target {
            Ok(target) => target,
            // A file system mounted with nodev.
            Err(why) => return gush_test::skipped(&format!("no device of a node: {why}")),
        };
        let moved = Mover::new(&source, &target)
            .source_offset_bytes(from)
            .target_offset_bytes(to)
            .length_bytes(length)
            .run();
        let now = read_at(&disk, to, length);
        match moved {
            Ok(report) => {
                assert!(!is_refused, "{from} to {to}");
                assert_eq!(report.bytes, length);
                let from = usize::try_from(from).expect("small");
                assert!(now == content[from..][..now.len()], "{from} to {to}");
            }
            Err(error) => {
                assert!(is_refused, "{from} to {to}: {error}");
                let to = usize::try_from(to).expect("small");
                assert!(now == content[to..][..now.len()], "{from} to {to}: {error}");
            }
        }
        disk.write_all_at(&content, 0).expect("a device");
    }
}

fn read_at(file: &File, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).expect("small")];
    file.read_exact_at(&mut bytes, at).expect("bytes");
    bytes
}

/// Beyond the kernel's largest offset nothing can be, and no sum of an offset and a count may begin
/// anew at 0.
#[test]
fn an_offset_beyond_the_kernels_largest_is_an_error_before_anything_moves() {
    let source = file_of(&[0; 1 << 20]);
    for holes in [Holes::Keep, Holes::Make, Holes::Fill] {
        for at in [u64::MAX, u64::MAX - 4095, 1 << 63] {
            let target = file_of(b"old");
            let mover = Mover::new(&source, &target).holes(holes);
            let error = mover.target_offset_bytes(at).run().expect_err("no such place");
            assert_eq!(errno_of(&error), Some(Errno::INVAL), "{holes:?}: {error}");
            assert_eq!(read_all(&target), b"old", "{holes:?}");
            let error = Mover::new(&source, &target).source_offset_bytes(at).run();
            assert_eq!(errno_of(&error.expect_err("no such place")), Some(Errno::INVAL));
        }
    }
}

/// Who shares the description must not find the end of the device where it is not.
#[test]
fn a_look_at_a_block_device_leaves_its_position_alone() {
    const LEN: u64 = 1 << 20;
    let device = match LoopDevice::new(LEN) {
        Ok(device) => device,
        Err(why) => return gush_test::skipped(&why),
    };
    let shared = device.open();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let size_bytes = gush::Endpoint::of(&shared).map(|end| end.size_bytes());
                assert_eq!(size_bytes.ok(), Some(LEN));
            }
        });
        let mut early = 0;
        for _ in 0..200 {
            rustix::fs::seek(&shared, SeekFrom::Start(0)).expect("seek");
            let (mut read_bytes, mut buffer) = (0, [0; 4096]);
            while read_bytes < LEN {
                match rustix::io::read(&shared, &mut buffer).expect("a read") as u64 {
                    0 => break,
                    got => read_bytes += got,
                }
            }
            early += u32::from(read_bytes < LEN);
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(early, 0, "reads of 200 that met a false end");
    });
}

/// As of a file with O_DIRECT, odd places and pieces go through the page cache.
#[test]
fn odd_pieces_of_a_block_device_with_o_direct_arrive() {
    const LEN: usize = 1 << 20;
    let device = match LoopDevice::new(LEN as u64) {
        Ok(device) => device,
        Err(why) => return gush_test::skipped(&why),
    };
    let content = noise(4, LEN);
    let disk: File = device.open().into();
    let direct = || {
        let path = format!("/proc/self/fd/{}", disk.as_raw_fd());
        openat(CWD, path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())
    };
    for (at, length) in [(0, 1000), (100, 1 << 18), (LEN as u64 - 4000, 4000), (4096, 4096)] {
        disk.write_all_at(&content, 0).expect("a device");
        let from = match direct() {
            Ok(from) => from,
            Err(why) => return gush_test::skipped(&format!("no O_DIRECT: {why}")),
        };
        let expected = &content[at as usize..][..length as usize];
        for has_named_offset in [false, true] {
            let case = format!("{length} at {at}, named {has_named_offset}");
            let place = if has_named_offset { 0 } else { at };
            rustix::fs::seek(&from, SeekFrom::Start(place)).expect("seek");
            let target = file_of(b"");
            let mover = Mover::new(&from, &target).length_bytes(length);
            let mover = if has_named_offset { mover.source_offset_bytes(at) } else { mover };
            assert_eq!(mover.run().expect("out of the device").bytes, length, "{case}");
            assert!(read_all(&target) == expected, "{case}: other bytes");
            let position = if has_named_offset { 0 } else { at + length };
            assert_eq!(rustix::fs::tell(&from), Ok(position), "{case}");
        }
        disk.write_all_at(&vec![0; LEN], 0).expect("a device");
        let (source, into) = (file_of(expected), direct().expect("as before"));
        rustix::fs::seek(&into, SeekFrom::Start(at)).expect("seek");
        let report = Mover::new(&source, &into).run().expect("into the device");
        assert_eq!(report.bytes, length, "{length} at {at}");
        assert_eq!(rustix::fs::tell(&into), Ok(at + length), "{length} at {at}");
        let mut whole = vec![0; LEN];
        whole[at as usize..][..length as usize].copy_from_slice(expected);
        assert!(read_at(&disk, 0, LEN as u64) == whole, "{length} at {at}: other bytes");
    }
}

/// No call may go beyond the largest offset, 2^63 - 1, also where its answer would be a short one.
#[test]
fn the_last_bytes_before_the_largest_offset_arrive() {
    const END: u64 = i64::MAX as u64;
    let mut wrong = Vec::new();
    for left_bytes in [100_usize, 4095, 300_000] {
        let (from, content) = (END - left_bytes as u64, noise(1, left_bytes));
        let source = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC);
        let source = source.expect("a file in memory");
        rustix::io::pwrite(&source, &content, from).expect("the largest file");
        for choice in choices() {
            for (is_named, is_piped) in [(true, false), (false, false), (true, true), (false, true)]
            {
                let position = SeekFrom::Start(if is_named { 0 } else { from });
                rustix::fs::seek(&source, position).expect("a position");
                let (file, (mut reader, pipe)) = (file_of(b""), std::io::pipe().expect("a pipe"));
                rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20).expect("room for all");
                let target = if is_piped { pipe.as_fd() } else { file.as_fd() };
                let mover = Mover::new(&source, &target).method(choice);
                let mover = if is_named { mover.source_offset_bytes(from) } else { mover };
                let outcome = mover.run();
                drop(pipe);
                let mut arrived = read_all(&file);
                reader.read_to_end(&mut arrived).expect("bytes");
                let (is_right, said) = match outcome {
                    Ok(report) => (arrived == content, report.explain().to_string()),
                    // The last page cannot be mapped, and others serve no such pair.
                    Err(error) => {
                        let refused = error.is_refused() && choice != Choice::Auto;
                        (refused && arrived.is_empty(), error.to_string())
                    }
                };
                if !is_right {
                    let name = format!("{choice}, named {is_named}, piped {is_piped}");
                    wrong.push(format!("{name}: {} of {left_bytes}: {said}", arrived.len()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
