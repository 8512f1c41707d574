//! File systems of our own, in a mount namespace of our own: full ones, and ones that share blocks.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use gush::{Call, Choice, Endpoint, Errno, MethodName, Mover, Refusals};
use gush_test::{FuseFile, mount_fuse};

use crate::common::mount::{self, knows, mounted, run};
use crate::common::{file_methods, file_of, noise, not_applicable, read_all, runs};

/// Runs an ignored test of this room as root of a new mount namespace.
fn in_own_namespace(test: &str) -> Result<(), String> {
    mount::in_own_namespace(&format!("mounts::{test}"))
}

fn create(path: PathBuf) -> OwnedFd {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true).open(path).expect("a file").into()
}

fn a_full_target_is_reported(point: &Path) {
    let content = noise(1, 12 << 20);
    let source = file_of(&content);
    for choice in file_methods().map(Choice::Only).chain([Choice::Auto]) {
        let path = point.join("target");
        let target = create(path.clone());
        let answer = Mover::new(&source, &target).method(choice).source_offset_bytes(0).run();
        let error = answer.expect_err("a full file system");
        let reported = error.io_error().and_then(Errno::from_io_error);
        if choice == Choice::Only(MethodName::CopyFileRange) {
            assert_eq!(reported, Some(Errno::XDEV), "{choice}: {error}");
            continue;
        }
        assert_eq!(reported, Some(Errno::NOSPC), "{choice}: {error}");
        let delivered = usize::try_from(error.delivered_bytes()).expect("few bytes");
        let arrived = read_all(&target);
        assert!(delivered < content.len(), "{choice}: {error}");
        assert!(arrived.get(..delivered) == Some(&content[..delivered]), "{choice}: {error}");
        if choice != Choice::Only(MethodName::Uring) {
            assert_eq!(arrived.len(), delivered, "{choice}: {error}");
        }
        drop(target);
        std::fs::remove_file(path).expect("removing it");
        println!("{choice}: {error}");
    }
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_fills_a_tmpfs() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = dir.path().to_str().expect("a path");
    run("mount", &["-t", "tmpfs", "-o", "size=3m", "none", point]);
    a_full_target_is_reported(dir.path());
    run("umount", &[point]);
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_fills_an_ext4() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = mounted("mkfs.ext4", 8, dir.path());
    a_full_target_is_reported(&point);
    run("umount", &[point.to_str().expect("a path")]);
}

#[test]
fn a_full_tmpfs_is_reported_with_what_had_arrived() {
    if let Err(reason) = in_own_namespace("child_fills_a_tmpfs") {
        skip!("{reason}");
    }
}

#[test]
fn a_full_ext4_is_reported_with_what_had_arrived() {
    if !runs("mkfs.ext4", &["-V"]) {
        skip!("mkfs.ext4 is missing");
    }
    if let Err(reason) = in_own_namespace("child_fills_an_ext4") {
        skip!("{reason}");
    }
}

/// Whole files and aligned parts are cloned; an unaligned part is refused, untouched.
fn reflink_clones(point: &Path) {
    let content = noise(1, 1 << 20);
    let path = point.join("source");
    std::fs::write(&path, &content).expect("the source");
    let source: OwnedFd = File::open(&path).expect("the source").into();
    let reflink = Choice::Only(MethodName::Reflink);
    let target = create(point.join("whole"));
    let report = Mover::new(&source, &target).method(reflink).run().expect("a clone");
    assert_eq!(report.bytes, 1 << 20);
    assert_eq!(report.methods[0].calls.get(Call::Ficlone), 1);
    assert!(read_all(&target) == content, "whole");
    let auto = create(point.join("auto"));
    let report = Mover::new(&source, &auto).source_offset_bytes(0).run().expect("auto clones");
    assert_eq!(report.main_method(), Some(MethodName::Reflink), "{}", report.explain());
    let part = create(point.join("part"));
    let mover = Mover::new(&source, &part).method(reflink).source_offset_bytes(65_536);
    let report = mover.length_bytes(131_072).target_offset_bytes(4096).run().expect("a part");
    assert_eq!(report.methods[0].calls.get(Call::FicloneRange), 1);
    assert!(read_all(&part)[4096..] == content[65_536..196_608], "a part");
    let odd = create(point.join("odd"));
    let mover = Mover::new(&source, &odd).method(reflink).source_offset_bytes(5);
    let error = mover.length_bytes(100).run().expect_err("not aligned");
    assert!(error.is_refused() && error.delivered_bytes() == 0, "{error}");
    assert!(read_all(&odd).is_empty(), "untouched");
    let mover = Mover::new(&source, &odd).source_offset_bytes(5).length_bytes(100);
    assert_eq!(mover.run().expect("auto falls back").bytes, 100);
    assert!(read_all(&odd) == content[5..105], "by falling back");
    clones_keep_holes(point, reflink);
    small_files_are_cloned_by_one_call(point);
}

/// As a tree's files are: both ends known, and refusals remembered.
fn small_files_are_cloned_by_one_call(point: &Path) {
    let refusals = Refusals::default();
    let path = point.join("small");
    for len in [0, 1, 4095, 4096, 10_000, 1 << 20] {
        std::fs::write(&path, noise(2, len)).expect("the source");
        let source: OwnedFd = File::open(&path).expect("the source").into();
        let target = create(point.join("small copy"));
        let (from, to) = (Endpoint::of(&source).expect("it"), Endpoint::of(&target).expect("it"));
        let mover = Mover::between(from, to).source_offset_bytes(0).target_offset_bytes(0);
        let report = mover.remember(&refusals).run().expect("a clone");
        let calls: Vec<_> = report.methods[0].calls.iter().collect();
        let clone = if len > 0 { Call::FicloneRange } else { Call::Ficlone };
        assert_eq!(calls, [(clone, 1), (Call::Fstat, 1)], "{}", report.explain());
        assert_eq!((report.methods[0].name, report.bytes), (MethodName::Reflink, len as u64));
        assert!(read_all(&target) == noise(2, len), "{len}");
    }
}

fn clones_keep_holes(point: &Path, reflink: Choice) {
    let sparse = create(point.join("sparse"));
    rustix::fs::ftruncate(&sparse, 4 << 20).expect("a hole");
    rustix::io::pwrite(&sparse, b"data", 2 << 20).expect("data");
    let expected = read_all(&sparse);
    for choice in [reflink, Choice::Auto, Choice::Only(MethodName::CopyFileRange)] {
        let copy = create(point.join("copy"));
        let mover = Mover::new(&sparse, &copy).method(choice).source_offset_bytes(0);
        mover.run().expect("a sparse copy");
        assert!(read_all(&copy) == expected, "{choice}");
        rustix::fs::fsync(&copy).expect("fsync");
        let blocks = rustix::fs::fstat(&copy).expect("stat").st_blocks;
        assert!(blocks * 512 <= 256 << 10, "{choice}: {blocks} blocks");
    }
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_clones_on_xfs() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = mounted("mkfs.xfs", 320, dir.path());
    reflink_clones(&point);
    run("umount", &[point.to_str().expect("a path")]);
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_clones_on_btrfs() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = mounted("mkfs.btrfs", 160, dir.path());
    reflink_clones(&point);
    run("umount", &[point.to_str().expect("a path")]);
}

/// Each subvolume of btrfs has a separate `st_dev`; the kernel shares blocks between them all the
/// same.
#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_clones_between_subvolumes() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = mounted("mkfs.btrfs", 160, dir.path());
    let [one, two] = ["one", "two"].map(|name| point.join(name));
    for volume in [&one, &two] {
        run("btrfs", &["-q", "subvolume", "create", volume.to_str().expect("a path")]);
    }
    let content = noise(1, 20 << 20);
    std::fs::write(one.join("source"), &content).expect("the source");
    let source: OwnedFd = File::open(one.join("source")).expect("the source").into();
    let device = |fd: &OwnedFd| rustix::fs::fstat(fd).expect("fstat").st_dev;
    let refusals = gush::Refusals::default();
    for threads in [1, 2] {
        let target = create(two.join(format!("{threads}")));
        assert_ne!(device(&source), device(&target));
        let mover = Mover::new(&source, &target).source_offset_bytes(0).threads(threads);
        let report = mover.remember(&refusals).run().expect("a clone");
        assert_eq!(report.main_method(), Some(MethodName::Reflink), "{}", report.explain());
        assert!(read_all(&target) == content, "other content");
    }
    let excluded = [MethodName::Reflink];
    let target = create(two.join("copied"));
    let mover = Mover::new(&source, &target).source_offset_bytes(0).exclude(&excluded);
    let report = mover.length_bytes(1 << 20).run().expect("a copy");
    assert_eq!(report.main_method(), Some(MethodName::CopyFileRange), "{}", report.explain());
    let elsewhere = File::create(dir.path().join("elsewhere")).expect("a file");
    for _ in 0..2 {
        let mover = Mover::new(&source, &elsewhere).source_offset_bytes(0);
        let report = mover.remember(&refusals).run().expect("a copy to another file system");
        assert_eq!(report.main_method(), Some(MethodName::ReadWrite), "{}", report.explain());
    }
    drop((source, target));
    run("umount", &[point.to_str().expect("a path")]);
}

#[test]
fn files_of_two_subvolumes_share_their_blocks() {
    needs!(copy_file_range);
    if !knows("btrfs") {
        return not_applicable("the kernel has no btrfs");
    }
    if !runs("mkfs.btrfs", &["-V"]) {
        skip!("mkfs.btrfs is missing");
    }
    if let Err(reason) = in_own_namespace("child_clones_between_subvolumes") {
        skip!("{reason}");
    }
}

/// `st_blksize` is a size for fast transfers: a tmpfs with huge pages says 2 MiB, NFS often 1 MiB.
#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_makes_holes_between_large_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = dir.path().to_str().expect("a path");
    run("mount", &["-t", "tmpfs", "-o", "huge=always", "none", point]);
    let target = create(dir.path().join("target"));
    let block_bytes = rustix::fs::fstat(&target).expect("fstat").st_blksize;
    println!("st_blksize {block_bytes}");
    let mut content = vec![0; 1 << 20];
    content[..100].fill(1);
    content.extend(noise(1, 1 << 16));
    let source = file_of(&content);
    let mover = Mover::new(&source, &target).source_offset_bytes(0).holes(gush::Holes::Make);
    let report = mover.run().expect("a copy");
    assert!(read_all(&target) == content, "other content");
    assert!(report.hole_bytes >= (1 << 20) - 8192, "{} bytes of holes", report.hole_bytes);
    drop(target);
    run("umount", &[point]);
    if block_bytes < 1 << 20 {
        not_applicable(&format!("st_blksize is {block_bytes}: no huge pages for tmpfs here"));
    }
}

#[test]
fn holes_are_made_where_st_blksize_is_larger_than_they_are() {
    if let Err(reason) = in_own_namespace("child_makes_holes_between_large_blocks") {
        skip!("{reason}");
    }
}

#[test]
fn reflink_clones_files_and_parts_on_xfs() {
    needs!(copy_file_range);
    if !knows("xfs") {
        return not_applicable("the kernel has no xfs");
    }
    if !runs("mkfs.xfs", &["-V"]) {
        skip!("mkfs.xfs is missing");
    }
    if let Err(reason) = in_own_namespace("child_clones_on_xfs") {
        skip!("{reason}");
    }
}

#[test]
fn reflink_clones_files_and_parts_on_btrfs() {
    needs!(copy_file_range);
    if !knows("btrfs") {
        return not_applicable("the kernel has no btrfs");
    }
    if !runs("mkfs.btrfs", &["-V"]) {
        skip!("mkfs.btrfs is missing");
    }
    if let Err(reason) = in_own_namespace("child_clones_on_btrfs") {
        skip!("{reason}");
    }
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_from_fuse_with_direct_io() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = noise(1, 1_000_000);
    let reported = [("empty", 0), ("half", 500_000), ("right", 1_000_000), ("twice", 2_000_000)];
    let reads = [("whole", usize::MAX), ("short", 70_000), ("shorter", 3000)];
    let files = reported.into_iter().flat_map(|(size, claimed_bytes)| {
        let content = &content;
        reads.map(|(read, most_read_bytes)| FuseFile {
            name: format!("{size}-{read}"),
            content: content.clone(),
            stat_bytes: claimed_bytes,
            most_read_bytes,
        })
    });
    let files: Vec<_> = files.collect();
    if let Err(error) = mount_fuse(dir.path(), files.clone()) {
        return not_applicable(&format!("no FUSE: {error}"));
    }
    let mut wrong = Vec::new();
    for FuseFile { name, .. } in &files {
        let source = File::open(dir.path().join(name)).expect("a file");
        for choice in file_methods().map(Choice::Only).chain([Choice::Auto]) {
            for threads in [1, 3] {
                rustix::fs::seek(&source, rustix::fs::SeekFrom::Start(0)).expect("the start");
                let target = file_of(b"");
                let outcome = Mover::new(&source, &target).method(choice).threads(threads).run();
                let arrived = read_all(&target);
                let is_right = match &outcome {
                    Ok(report) => arrived == content && report.bytes == content.len() as u64,
                    Err(error) => error.is_refused() && choice != Choice::Auto,
                };
                if !is_right {
                    let said =
                        outcome.map_or_else(|error| error.to_string(), |r| r.explain().to_string());
                    wrong.push(format!(
                        "{choice}, {threads} threads, {name}: {} bytes: {said}",
                        arrived.len()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_of_fuse_with_direct_io_arrive_whole_whatever_their_size_says() {
    if let Err(reason) = in_own_namespace("child_copies_from_fuse_with_direct_io") {
        skip!("{reason}");
    }
}
