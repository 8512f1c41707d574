//! A digest covers what moved, byte by byte and in order, or there is none.

mod common;

use common::{file_of, noise, read_all};
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
            let told = report.digest.map(|digest| digest.to_string());
            assert_eq!(told, digest.then(|| hash.clone()), "{choice}");
        }
    }
}

/// A method that was named is used (invariant 6); what it did not see is not hashed.
#[test]
fn a_named_method_that_does_not_see_the_bytes_leaves_no_digest() {
    for method in [MethodName::Splice, MethodName::CopyFileRange, MethodName::Sendfile] {
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
