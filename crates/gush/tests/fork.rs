//! After fork(2) parent and child have copies of the same descriptors: what either keeps for its
//! next move must not carry the other's bytes.

mod common;

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use gush::Tee;
use gush::pipe::{Pool, Technique, Writer};
use gush_test::forked;

use common::within;

/// A child has copies of all descriptors, and would keep the pipes of another test open.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pipe with these bytes and an end.
fn fed(bytes: &[u8]) -> PipeReader {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(bytes).expect("room");
    reader
}

/// Copies `source` to both targets, and returns the bytes that the source gave.
fn tee(source: &PipeReader, targets: [&PipeWriter; 2]) -> u64 {
    let tee = Tee::new(source).to(targets[0]).to(targets[1]);
    tee.run().expect("a tee").taken_bytes
}

/// As [`tee`] into pipes with room for all `bytes`; returns the content of one.
fn teed(bytes: &[u8]) -> Vec<u8> {
    let [(mut reader, one), (_held, two)] = [(); 2].map(|()| std::io::pipe().expect("a pipe"));
    tee(&fed(bytes), [&one, &two]);
    drop(one);
    let mut seen = Vec::new();
    reader.read_to_end(&mut seen).expect("bytes");
    seen
}

#[test]
fn a_tee_after_fork_gets_no_byte_of_the_other_process() {
    let _alone = alone();
    const LEN: usize = 20_000;
    // Leaves an idle pipe in the shared pool.
    assert_eq!(teed(&[b'w'; LEN]).len(), LEN);
    let (mut childs_reader, childs_target) = std::io::pipe().expect("a pipe");
    let (_held, other_target) = std::io::pipe().expect("a pipe");
    let childs_source = fed(&[b'c'; LEN]);
    // Room for a page: the other bytes stay in the pipe of the child's tee until somebody reads.
    // The pipe is as large as the tee would make it.
    let size = rustix::pipe::fcntl_setpipe_size(&childs_target, 1 << 20).expect("a pipe");
    let room = size - rustix::param::page_size();
    (&childs_target).write_all(&vec![b'x'; room]).expect("room");
    let child = forked(|| {
        assert_eq!(tee(&childs_source, [&childs_target, &other_target]), LEN as u64);
    });
    drop((childs_target, other_target));
    // A moment for the child to take its bytes; the test passes, too, if the child is late.
    thread::sleep(Duration::from_millis(300));
    let seen = within(30, "the parent's tee", || teed(&[b'p'; LEN]));
    assert!(seen == [b'p'; LEN], "{} bytes are not the parent's", LEN - count(&seen, b'p'));
    let mut rest = Vec::new();
    childs_reader.read_to_end(&mut rest).expect("bytes");
    assert!(child.passed());
    assert_eq!((rest.len(), count(&rest, b'c')), (room + LEN, LEN));
}

fn count(bytes: &[u8], byte: u8) -> usize {
    bytes.iter().filter(|&&b| b == byte).count()
}

#[test]
fn pipes_of_the_parent_are_neither_used_nor_counted_by_the_child() {
    let _alone = alone();
    let pool = Pool::new(4 << 20, 8);
    drop(pool.take().expect("a pipe"));
    let held = pool.take().expect("a pipe");
    let other = pool.take().expect("a pipe");
    drop(other);
    assert_eq!((pool.usage().in_use, pool.usage().idle), (1, 1));
    let child = forked(|| {
        // The parent's loan, which the child has a copy of, is not the child's to give back.
        drop(held);
        let own = pool.take().expect("a pipe");
        let usage = pool.usage();
        assert_eq!((usage.in_use, usage.idle, usage.bytes), (1, 0, own.capacity_bytes()));
        drop(own);
        assert_eq!((pool.usage().in_use, pool.usage().idle), (0, 1));
    });
    assert!(child.passed());
    // The parent's own copy of the loan has come back.
    assert_eq!((pool.usage().in_use, pool.usage().idle), (0, 2));
}

/// A lock that another thread holds at the fork is never given back in the child.
#[test]
fn a_child_takes_a_pipe_although_threads_of_the_parent_used_the_pool_at_the_fork() {
    let _alone = alone();
    let pool = Pool::new(4 << 20, 8);
    // A child cannot outlive a fork during the first questions to the kernel, which are asked once.
    drop(pool.take());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(pool.take());
                }
            });
        }
        let children: Vec<_> = (0..30)
            .map(|_| forked(|| assert!(pool.take().is_some_and(|pipe| pipe.is_empty()))))
            .collect();
        is_over.store(true, Ordering::Relaxed);
        let have_passed = || children.into_iter().all(|child| child.passed());
        assert!(within(30, "the children's pipes", have_passed));
    });
}

/// [`Technique::Socket`] passes bytes through a private socket.
#[test]
fn a_writer_after_fork_passes_no_byte_of_the_other_process_on() {
    let _alone = alone();
    const LEN: usize = 100_000;
    let (mut reader, pipe) = std::io::pipe().expect("a pipe");
    let mut writer = match Writer::with(&pipe, Technique::Socket) {
        Ok(writer) => writer,
        Err(error) => return gush_test::not_applicable(&format!("no sockets: {error}")),
    };
    // No room: the child's bytes stay inside until it is killed.
    let room = rustix::pipe::fcntl_getpipe_size(&pipe).expect("a pipe");
    (&pipe).write_all(&vec![b'x'; room]).expect("room");
    let child = forked(|| writer.write_all(&[b'c'; LEN]).expect("killed before"));
    // A moment for the child to begin; the test passes, too, if the child is late.
    thread::sleep(Duration::from_millis(300));
    child.kill();
    let taker = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("bytes");
        all
    });
    writer.write_all(&[b'p'; LEN]).expect("a reader");
    writer.flush().expect("a reader");
    drop(writer);
    drop(pipe);
    let all = taker.join().expect("no panic");
    assert_eq!(count(&all, b'p'), LEN, "of the parent's bytes, {} of the child", count(&all, b'c'));
}
