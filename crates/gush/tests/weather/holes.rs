//! Holes: kept, made, filled.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use gush::{Call, Choice, Control, Holes, MethodName, Mover};
use rustix::fs::SeekFrom;

use crate::common::{Target, TargetKind, noise, read_all};
use crate::common::{file_methods, file_of};

const BLOCK: usize = 64 << 10;

/// One letter a block: data, hole, or written zeros.
const PATTERNS: &[&str] =
    &["d", "h", "hhhh", "dhd", "hdh", "dhhhd", "hd", "dh", "dzd", "hzh", "zz", "ddhhddhhzzd"];

/// A sparse file on `dir`, and the content.
fn sparse(pattern: &str, tail: usize, dir: &str) -> (OwnedFd, Vec<u8>) {
    let file = tempfile::tempfile_in(dir).expect("a file");
    let mut content = vec![0; pattern.len() * BLOCK + tail];
    for (nth, letter) in pattern.bytes().enumerate() {
        let range = nth * BLOCK..(nth + 1) * BLOCK;
        if letter == b'd' {
            content[range.clone()].copy_from_slice(&noise(nth as u64, BLOCK));
        }
        if letter != b'h' {
            file.write_all_at(&content[range.clone()], range.start as u64).expect("data");
        }
    }
    file.set_len(content.len() as u64).expect("size");
    (file.into(), content)
}

fn allocated_bytes(fd: &OwnedFd) -> u64 {
    File::from(fd.try_clone().expect("dup")).metadata().expect("metadata").blocks() * 512
}

fn dirs() -> Vec<String> {
    let temporary = std::env::temp_dir().to_str().expect("a path").to_owned();
    let mut dirs = vec![temporary];
    if std::path::Path::new("/dev/shm").is_dir() {
        dirs.push("/dev/shm".into());
    }
    dirs
}

fn choices() -> impl Iterator<Item = Choice> {
    file_methods().map(Choice::Only).chain([Choice::Auto])
}

#[test]
fn holes_are_kept_and_the_content_is_the_same() {
    for dir in dirs() {
        for pattern in PATTERNS {
            for (tail, choice) in [0, 700].into_iter().flat_map(|t| choices().map(move |c| (t, c)))
            {
                let name = format!("{dir}, {choice}, {pattern}+{tail}");
                let (source, content) = sparse(pattern, tail, &dir);
                let target: OwnedFd = tempfile::tempfile_in(&dir).expect("a file").into();
                let report = Mover::new(&source, &target).method(choice).run().expect(&name);
                assert_eq!(report.bytes, content.len() as u64, "{name}");
                assert!(report.hole_bytes <= report.bytes, "{name}: {}", report.hole_bytes);
                assert!(read_all(&target) == content, "{name}: other content");
                let position = rustix::fs::seek(&target, SeekFrom::Current(0));
                assert_eq!(position, Ok(content.len() as u64), "{name}");
                assert_eq!(rustix::fs::seek(&source, SeekFrom::Current(0)), position, "{name}");
                // A fault in a mapped file allocates all blocks under the large folio that it hits.
                let mapped = [MethodName::MmapCopy, MethodName::ReadMmap].map(Choice::Only);
                let room = allocated_bytes(&source) + 8192;
                let used = allocated_bytes(&target);
                assert!(
                    mapped.contains(&choice) || used <= room,
                    "{name}: {used} bytes allocated of {room}"
                );
            }
        }
    }
}

#[test]
fn holes_over_old_content_read_as_zeros_and_nothing_around_them_is_touched() {
    for pattern in PATTERNS {
        for choice in choices() {
            let name = format!("{choice}, {pattern}");
            let (source, content) = sparse(pattern, 700, &dirs()[0]);
            let old = noise(9, content.len() + 3 * BLOCK);
            let target = file_of(&old);
            let mover = Mover::new(&source, &target).method(choice);
            let answer = if choice == Choice::Only(MethodName::Sendfile) {
                rustix::fs::seek(&target, SeekFrom::Start(4096)).expect("seek");
                mover.source_offset_bytes(0).run()
            } else {
                mover.source_offset_bytes(0).target_offset_bytes(4096).run()
            };
            assert_eq!(answer.expect(&name).bytes, content.len() as u64, "{name}");
            let got = read_all(&target);
            assert!(got[4096..4096 + content.len()] == content, "{name}: other content");
            assert!(got[..4096] == old[..4096], "{name}: what lies before");
            assert!(
                got[4096 + content.len()..] == old[4096 + content.len()..],
                "{name}: after the data"
            );
            assert_eq!(rustix::fs::seek(&source, SeekFrom::Current(0)), Ok(0), "{name}");
        }
    }
}

#[test]
fn a_length_may_end_in_a_hole_or_in_data() {
    for pattern in PATTERNS {
        for choice in choices() {
            for (offset, length) in [(0, 1), (100, BLOCK), (BLOCK - 1, 2), (BLOCK / 2, 3 * BLOCK)] {
                let name = format!("{choice}, {pattern}, {length} from {offset}");
                let (source, content) = sparse(pattern, 700, &dirs()[0]);
                let target = file_of(b"");
                let mover = Mover::new(&source, &target).method(choice);
                let answer =
                    mover.source_offset_bytes(offset as u64).length_bytes(length as u64).run();
                let error_is_refusal = answer.as_ref().is_err_and(gush::Error::is_refused);
                if choice == Choice::Only(MethodName::Direct) && error_is_refusal {
                    assert!(offset % 512 > 0, "{name}: {answer:?}");
                    assert_eq!(read_all(&target).len(), 0, "{name}");
                    continue;
                }
                let expected = content.get(offset..).unwrap_or_default();
                let expected = &expected[..length.min(expected.len())];
                assert_eq!(answer.expect(&name).bytes, expected.len() as u64, "{name}");
                assert!(read_all(&target) == expected, "{name}: other content");
            }
        }
    }
}

#[test]
fn a_method_that_refuses_a_sparse_file_leaves_the_target_as_it_was() {
    let (source, content) = sparse("hdh", 0, &dirs()[0]);
    for (choice, offset) in [
        (Choice::Only(MethodName::Reflink), 4096 + 7),
        (Choice::Only(MethodName::Sendfile), 4096),
        (Choice::Only(MethodName::Direct), 4096 + 7),
    ] {
        let old = noise(9, content.len() + BLOCK);
        let target = file_of(&old);
        let mover = Mover::new(&source, &target).method(choice).target_offset_bytes(offset);
        let error = mover.run().expect_err("cannot serve this");
        assert!(error.is_refused(), "{choice}: {error}");
        assert_eq!(error.delivered_bytes(), 0, "{choice}: {error}");
        assert!(read_all(&target) == old, "{choice} has touched the target");
        assert_eq!(rustix::fs::seek(&source, SeekFrom::Current(0)), Ok(0), "{choice}");
    }
}

#[test]
fn holes_are_made_of_zeros_when_asked() {
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        for pattern in PATTERNS {
            let name = format!("{choice}, {pattern}");
            let (source, content) = sparse(pattern, 700, &dirs()[0]);
            let target = file_of(&noise(9, content.len()));
            let mover = Mover::new(&source, &target).method(choice).holes(Holes::Make);
            let report = mover.run().expect(&name);
            assert!(read_all(&target) == content, "{name}: other content");
            let data = pattern.matches('d').count() * BLOCK;
            assert!(allocated_bytes(&target) <= data as u64 + 8192, "{name}: not punched");
            assert_eq!(report.hole_bytes, (content.len() - data) as u64, "{name}");
        }
    }
}

/// Neither the buffer's size nor its start decides which zeros become a hole.
#[test]
fn zeros_become_holes_whatever_the_buffer() {
    for buffer_bytes in [1 << 9, 2 << 10, 5000, 12_345, 1 << 20] {
        for pattern in PATTERNS {
            let name = format!("{buffer_bytes}, {pattern}");
            // Written zeros, in a file without holes.
            let (_, content) = sparse(pattern, 700, &dirs()[0]);
            let source = file_of(&content);
            let tuning = gush::Tuning::default().buffer_bytes(buffer_bytes);
            for old in [vec![], noise(9, content.len())] {
                let target = file_of(&old);
                let mover = Mover::new(&source, &target).source_offset_bytes(0);
                let mover = mover.holes(Holes::Make).tuning(tuning.clone());
                let report = mover.run().expect(&name);
                assert_eq!(report.bytes, content.len() as u64, "{name}");
                assert!(read_all(&target) == content, "{name}: other content");
                let data = pattern.matches('d').count() * BLOCK;
                let used = allocated_bytes(&target);
                assert!(used <= data as u64 + 8192, "{name}: {used} bytes for {data} of data");
                assert_eq!(report.hole_bytes, (content.len() - data) as u64, "{name}");
            }
        }
    }
}

/// Where a move begins in source and target need not be alike.
#[test]
fn zeros_become_holes_at_the_blocks_of_the_target() {
    let mut content = noise(1, 3 * BLOCK);
    content[5000..5000 + 2 * BLOCK].fill(0);
    let source = file_of(&content);
    let target = file_of(&noise(9, 4 * BLOCK));
    let mover = Mover::new(&source, &target).holes(Holes::Make).target_offset_bytes(333);
    mover.run().expect("a move");
    let mut expected = noise(9, 4 * BLOCK);
    expected[333..333 + content.len()].copy_from_slice(&content);
    assert!(read_all(&target) == expected, "other content");
    let holes = (4 * BLOCK as u64).saturating_sub(allocated_bytes(&target));
    // A block can be as large as a page; the two at the ends of the zeros hold data, too.
    let at_least = (2 * BLOCK).saturating_sub(2 * rustix::param::page_size());
    assert!(holes >= at_least as u64, "{holes} bytes of holes");
}

#[test]
fn holes_that_can_be_believed_are_not_read_when_zeros_become_holes() {
    for dir in dirs() {
        let (source, content) = sparse("dhzh", 0, &dir);
        rustix::fs::ftruncate(&source, 64 << 30).expect("a long hole");
        let target: OwnedFd = tempfile::tempfile_in(&dir).expect("a file").into();
        let mover = Mover::new(&source, &target).holes(Holes::Make).source_offset_bytes(0);
        let report = mover.run().expect("a copy");
        assert_eq!((report.bytes, report.hole_bytes), (64 << 30, (64 << 30) - BLOCK as u64));
        let reads: u64 = report.methods.iter().map(|used| used.calls.get(Call::Pread)).sum();
        assert!(reads < 10, "{dir}: {reads} reads of two blocks of data");
        let mut got = vec![1; content.len()];
        rustix::io::pread(&target, &mut got, 0).expect("the start");
        assert!(got == content, "{dir}: other content");
        assert!(allocated_bytes(&target) <= 2 * BLOCK as u64, "{dir}");
        assert_eq!(rustix::fs::fstat(&target).expect("fstat").st_size, 64 << 30, "{dir}");
    }
}

#[test]
fn holes_are_filled_when_asked() {
    for choice in choices().filter(|&c| c != Choice::Only(MethodName::CopyFileRange)) {
        for pattern in ["hhhh", "dhd", "hzh"] {
            let name = format!("{choice}, {pattern}");
            let (source, content) = sparse(pattern, 700, &dirs()[0]);
            let target = file_of(b"");
            let mover = Mover::new(&source, &target).method(choice).holes(Holes::Fill);
            let report = mover.run().expect(&name);
            assert_eq!(report.hole_bytes, 0, "{name}");
            assert!(read_all(&target) == content, "{name}: other content");
            rustix::fs::fsync(&target).expect("fsync");
            assert!(allocated_bytes(&target) >= content.len() as u64, "{name}: not filled");
        }
    }
}

#[test]
fn zeros_for_a_hole_keep_to_a_limit_and_end_when_asked() {
    const HOLE_BYTES: u64 = 8 << 20;
    let rate = gush::Rate::bytes_per_second(16 << 20).expect("not 0");
    let source = File::from(file_of(b""));
    source.set_len(HOLE_BYTES).expect("a hole");
    let started = Instant::now();
    let target = file_of(b"");
    let fill = || Mover::new(&source, &target).holes(Holes::Fill).source_offset_bytes(0);
    fill().target_offset_bytes(0).limit(rate).run().expect("a copy");
    assert!(started.elapsed() > Duration::from_millis(300), "{:?}", started.elapsed());
    let mut stops = |_: &gush::Progress| Control::Stop;
    let error = fill().target_offset_bytes(0).observe(&mut stops).run().expect_err("a stop");
    assert!(error.delivered_bytes() < HOLE_BYTES, "{error}");
}

#[test]
fn a_hole_that_is_filled_is_not_read_into_the_page_cache() {
    let (source, content) = sparse("hhhh", 700, "/var/tmp");
    let cached = || gush::page_cache::cached_pages(&source, 0, 0);
    gush::page_cache::drop_clean(&source, 0, 0).expect("advice");
    match cached() {
        Ok(pages) => assert_eq!(pages, 0),
        Err(error) => skip!("no count of cached pages: {error}"),
    }
    let target = file_of(b"old");
    let report = Mover::new(&source, &target)
        .holes(Holes::Fill)
        .replace(true)
        .target_offset_bytes(0)
        .run()
        .expect("a copy");
    assert_eq!((report.bytes, report.hole_bytes), (content.len() as u64, 0));
    assert!(read_all(&target) == content, "other content");
    assert_eq!(cached().expect("a count"), 0);
}

#[test]
fn the_digest_of_a_sparse_file_covers_its_holes() {
    for pattern in PATTERNS {
        let (source, content) = sparse(pattern, 700, &dirs()[0]);
        for holes in [Holes::Keep, Holes::Make, Holes::Fill] {
            let target = file_of(b"");
            let mover = Mover::new(&source, &target).source_offset_bytes(0).holes(holes);
            let digest = mover.digest(true).run().expect(pattern).digest.expect("a digest");
            assert_eq!(digest.to_string(), blake3::hash(&content).to_string(), "{pattern}");
            assert_eq!(digest, gush::digest_of(&target).expect("a digest"), "{pattern}");
        }
    }
}

/// The refusal may not come at the odd last piece, when the data before that has arrived.
#[test]
fn a_named_method_that_cannot_write_the_last_piece_touches_nothing() {
    for name in file_methods() {
        let (source, content) = sparse("dhd", 1, "/var/tmp");
        rustix::io::pwrite(&source, b"x", content.len() as u64 - 1).expect("the last byte");
        let Ok(target) = Target::new(TargetKind::Direct, b"", 1, false) else {
            skip!("no O_DIRECT on the temporary directory");
        };
        match Mover::new(&source, &target.fd).method(Choice::Only(name)).run() {
            Ok(report) => assert_eq!(report.bytes, content.len() as u64, "{name}"),
            Err(error) => {
                assert_eq!(error.delivered_bytes(), 0, "{name}: {error}");
                assert!(target.content().is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn files_of_different_sizes_differ_where_the_shorter_ends() {
    let content = noise(3, 300_000);
    for (extra, is_hole) in [(1, false), (1, true), (200 << 20, true)] {
        let (short, long) = (file_of(&content), file_of(&content));
        let longer = File::from(long.try_clone().unwrap());
        longer.set_len(300_000 + extra).unwrap();
        if !is_hole {
            longer.write_all_at(&[0], 300_000 + extra - 1).unwrap();
        }
        for (a, b) in [(&short, &long), (&long, &short)] {
            let differs = gush::first_difference(a, b).expect("two files");
            assert_eq!(differs, Some(300_000), "{extra} bytes more, a hole: {is_hole}");
        }
        assert_eq!(gush::first_difference(&long, &long).unwrap(), None);
    }
}
