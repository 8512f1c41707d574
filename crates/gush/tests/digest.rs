//! A digest covers the moved bytes, byte by byte and in order, or there is none.

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use common::{file_of, methods_served_here, noise, read_all};
use gush::{Choice, MethodName, Mover};

/// Enough for several threads.
const LEN: usize = (17 << 20) + 13;

#[test]
fn a_digest_is_made_on_one_thread_however_many_are_asked_for() {
    let content = noise(1, LEN);
    let hash = blake3::hash(&content).to_string();
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        for (digest, threads) in [(false, 4), (true, 1)] {
            let (source, target) = (file_of(&content), file_of(b""));
            let mover = Mover::new(&source, &target).method(choice).threads(4).digest(digest);
            let report = mover.run().expect("a move");
            if choice != Choice::Auto {
                assert_eq!(report.methods[0].threads, threads, "{choice}, digest {digest}");
            }
            assert!(read_all(&target) == content, "{choice}: other bytes");
            let reported = report.digest.map(|digest| digest.to_string());
            assert_eq!(reported, digest.then(|| hash.clone()), "{choice}");
        }
    }
}

/// A method that was named is used (invariant 6); bytes that the method did not see are not hashed.
#[test]
fn a_named_method_that_does_not_see_the_bytes_leaves_no_digest() {
    let methods = [MethodName::Splice, MethodName::CopyFileRange, MethodName::Sendfile];
    for method in methods_served_here(&methods) {
        let by_name = Choice::Only(method);
        let (source, target) = (file_of(&noise(1, 50_000)), file_of(b""));
        let report = Mover::new(&source, &target).method(by_name).digest(true).run();
        let report = report.expect("a move");
        assert_eq!((report.bytes, report.digest), (50_000, None), "{method}");

        let (nothing, target) = (file_of(b""), file_of(b""));
        let report = Mover::new(&nothing, &target).method(by_name).digest(true).run();
        let digest = report.expect("a move").digest.map(|digest| digest.to_string());
        assert_eq!(digest, Some(blake3::hash(b"").to_string()), "{method}: nothing moved");
    }
}

/// The bytes of a move that an inspector was shown, and the report.
fn shown(
    source: &impl AsFd,
    target: &impl AsFd,
    choice: Choice,
) -> (Vec<u8>, Result<gush::Report, gush::Error>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = Arc::clone(&seen);
    let look = move |bytes: &[u8]| look.lock().unwrap().extend_from_slice(bytes);
    let report = Mover::new(source, target).method(choice).threads(4).inspect(look).run();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, report)
}

#[test]
fn an_inspector_is_shown_every_byte_once_and_in_order() {
    let content = noise(3, LEN);
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        let (source, target) = (file_of(&content), file_of(b""));
        let (seen, report) = shown(&source, &target, choice);
        assert!(seen == content, "{choice}: {} bytes, {report:?}", seen.len());
        assert!(read_all(&target) == content, "{choice}");

        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let (inner, outer) = std::io::pipe().expect("a pipe");
        let fed = content.clone();
        let feeder = std::thread::spawn(move || writer.write_all(&fed));
        let taker = std::thread::spawn(move || {
            let mut all = Vec::new();
            { inner }.read_to_end(&mut all).map(|_| all)
        });
        let (seen, report) = shown(&reader, &outer, choice);
        drop(outer);
        feeder.join().expect("the feeder").expect("room");
        assert!(taker.join().expect("the taker").expect("bytes") == content, "{choice}");
        assert!(seen == content, "{choice}, pipes: {} bytes, {report:?}", seen.len());
    }
}

#[test]
fn an_inspector_is_shown_holes_as_zeros() {
    let source = file_of(b"begin");
    rustix::fs::ftruncate(&source, 3 << 20).expect("a hole");
    let target = file_of(b"");
    let (seen, report) = shown(&source, &target, Choice::Auto);
    assert!(seen == read_all(&source), "{} bytes, {report:?}", seen.len());
    assert!(read_all(&target) == seen);
}
