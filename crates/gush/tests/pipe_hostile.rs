//! The committed bytes are the bytes that arrive, with every reader (invariant 4).

#[macro_use]
mod common;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use common::{noise, techniques_served_here, within};
use gush::pipe::{PipeLoan, Pool, Reservoir, Writer};
use gush::{Errno, Wait};
use rustix::pipe::{PipeFlags, SpliceFlags};

/// Three huge pages, an odd rest, and bytes written in small pieces.
const BYTES: usize = (6 << 20) + 12_345;
const SECONDS: u64 = 60;

/// A reader's use of the bytes in the pipe.
#[derive(Clone, Copy, Debug)]
enum Reader {
    Reads,
    SplicesToAFile,
    SplicesToASocket,
    SplicesAndHolds,
    TeesAndHolds,
}

const READERS: [Reader; 5] = [
    Reader::Reads,
    Reader::SplicesToAFile,
    Reader::SplicesToASocket,
    Reader::SplicesAndHolds,
    Reader::TeesAndHolds,
];

/// Without splice(2) there is one reader, who reads; without tee(2) nobody tees.
fn readers() -> Vec<Reader> {
    let refused = |reader: &Reader| match reader {
        Reader::Reads => None,
        Reader::TeesAndHolds => common::refused::tee().or_else(common::refused::splice),
        _ => common::refused::splice(),
    };
    let mut readers = READERS.to_vec();
    readers.retain(|reader| refused(reader).inspect(|why| common::not_applicable(why)).is_none());
    readers
}

fn splice(from: impl AsFd, to: impl AsFd, len: usize) -> Result<usize, Errno> {
    rustix::pipe::splice(from, None, to, None, len, SpliceFlags::empty())
}

/// Takes everything in the reader's way, and looks at the bytes only when the writer has ended long
/// ago.
fn take(reader: Reader, from: OwnedFd) -> Vec<u8> {
    match reader {
        Reader::Reads => {
            let mut got = Vec::new();
            File::from(from).read_to_end(&mut got).expect("read");
            got
        }
        Reader::SplicesToAFile => {
            let file = tempfile::tempfile().expect("a file");
            while splice(&from, &file, 1 << 20).expect("splice") > 0 {}
            let mut got = vec![0; file.metadata().expect("stat").len() as usize];
            file.read_exact_at(&mut got, 0).expect("read");
            got
        }
        Reader::SplicesToASocket => {
            let (near, mut far) = std::os::unix::net::UnixStream::pair().expect("sockets");
            let collector = thread::spawn(move || {
                let mut got = Vec::new();
                thread::sleep(Duration::from_millis(50));
                far.read_to_end(&mut got).expect("receive");
                got
            });
            while splice(&from, &near, 1 << 20).expect("splice") > 0 {}
            drop(near);
            collector.join().expect("collector")
        }
        Reader::SplicesAndHolds => hold(|private| splice(&from, private, 1 << 20)),
        Reader::TeesAndHolds => {
            let null = File::options().write(true).open("/dev/null").expect("/dev/null");
            hold(|private| {
                let got = rustix::pipe::tee(&from, private, 1 << 20, SpliceFlags::empty())?;
                let mut left = got;
                while left > 0 {
                    left -= splice(&from, &null, left)?;
                }
                Ok(got)
            })
        }
    }
}

/// Keeps every piece in as many private pipes as needed, and reads them at the end.
fn hold(mut take: impl FnMut(&OwnedFd) -> Result<usize, Errno>) -> Vec<u8> {
    let mut held: VecDeque<(OwnedFd, usize)> = VecDeque::new();
    loop {
        let (out_of, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let _ = rustix::pipe::fcntl_setpipe_size(&into, 1 << 20);
        match take(&into).expect("take") {
            0 => break,
            got => held.push_back((out_of, got)),
        }
    }
    thread::sleep(Duration::from_millis(20));
    let mut all = Vec::new();
    for (out_of, len) in held {
        let at = all.len();
        all.resize(at + len, 0);
        File::from(out_of).read_exact(&mut all[at..]).expect("read what was held");
    }
    all
}

/// Sends `bytes`, partly in place and partly by `Write`.
fn send(writer: &mut Writer<std::io::PipeWriter>, mut bytes: &[u8]) {
    for turn in 0.. {
        if bytes.is_empty() {
            break;
        }
        let len = if turn % 3 == 1 {
            let len = bytes.len().min(70_001);
            writer.write_all(&bytes[..len]).expect("write");
            len
        } else {
            let mut buffer = writer.buffer().expect("buffer");
            let len = bytes.len().min(buffer.len());
            buffer[..len].copy_from_slice(&bytes[..len]);
            writer.commit(buffer, len).expect("commit");
            len
        };
        bytes = &bytes[len..];
    }
    writer.flush().expect("flush");
}

#[test]
fn invariant_4_what_was_committed_arrives_whatever_the_reader_does() {
    for technique in techniques_served_here() {
        for reader in readers() {
            for wait in [Wait::Auto, Wait::Block, Wait::Hybrid(Duration::from_micros(20))] {
                let what = format!("{technique:?} {reader:?} {wait:?}");
                let (got, sent) = within(SECONDS, &what, move || {
                    let (from, to) = std::io::pipe().expect("pipe");
                    let taker = thread::spawn(move || take(reader, from.into()));
                    let sent = noise(technique as u64 + 1, BYTES);
                    let writer = Writer::with(to, technique).map_err(|refused| refused.errno);
                    send(&mut writer.expect("a writer").wait(wait), &sent);
                    (taker.join().expect("reader"), sent)
                });
                assert!(got == sent, "{what}: {} of {} bytes, or others", got.len(), sent.len());
            }
        }
    }
}

#[test]
fn what_was_poured_stays_after_the_reservoir_is_gone() {
    needs!(tee);
    for reader in readers() {
        let (got, sent) = within(SECONDS, &format!("{reader:?}"), move || {
            let (from, to) = std::io::pipe().expect("pipe");
            let taker = thread::spawn(move || take(reader, from.into()));
            let pattern = noise(7, 1000);
            let mut reservoir = Reservoir::of(&pattern, 1 << 20).expect("reservoir");
            let mut sent = 0;
            while sent < BYTES {
                match reservoir.pour(&to, BYTES - sent) {
                    Ok(poured) => sent += poured,
                    Err(Errno::AGAIN) => thread::yield_now(),
                    Err(errno) => panic!("pour: {errno}"),
                }
            }
            drop((reservoir, to));
            let sent: Vec<u8> = pattern.into_iter().cycle().take(BYTES).collect();
            (taker.join().expect("reader"), sent)
        });
        assert!(got == sent, "{reader:?}");
    }
}

#[test]
fn a_pipe_that_holds_bytes_is_nobody_elses() {
    needs!(splice);
    let pool = Pool::of(1 << 20, 4, 64 << 10);
    let mut pipes: Vec<PipeLoan> = std::iter::from_fn(|| pool.take()).take(3).collect();
    let (mut writer, reader) = std::os::unix::net::UnixStream::pair().expect("a pair");
    writer.write_all(b"somebody's").expect("room");
    let mut port = gush::Port::of(&reader).expect("a port");
    assert_eq!(pipes[0].fill(&mut port, 64), Ok(10));
    let kept = pipes.len() - 1;
    drop(pipes);
    assert_eq!((pool.usage().in_use, pool.usage().idle), (0, kept), "the full one was closed");
    let again = pool.take().expect("pipe");
    assert!(again.is_empty());
    assert_eq!(pool.usage().idle, kept - 1);
}

/// The kernel refers to whole pages.
#[test]
fn invariant_4_a_strip_lends_the_rest_of_a_page_with_its_first_bytes() {
    let page_bytes = rustix::param::page_size();
    let mut strip = gush::Strip::new(gush::Pages::new(2 * page_bytes).expect("memory"));
    assert_eq!(strip.lend(3), 0..3);
    let next_page = strip.pages().address() + page_bytes;
    assert_eq!((strip.rest_mut().as_ptr() as usize, strip.rest().len()), (next_page, page_bytes));
}

/// A sum that wraps around would make pages writable that a pipe may hold.
#[test]
fn invariant_4_a_strip_that_is_asked_for_too_much_lends_all_that_it_has() {
    let page_bytes = rustix::param::page_size();
    for too_much in [3 * page_bytes, usize::MAX - page_bytes, usize::MAX] {
        let mut strip = gush::Strip::new(gush::Pages::new(4 * page_bytes).expect("memory"));
        assert_eq!(strip.lend(2 * page_bytes), 0..2 * page_bytes);
        assert_eq!(strip.lend(too_much), 2 * page_bytes..4 * page_bytes, "{too_much}");
        assert_eq!((strip.lent().len(), strip.rest_mut().len()), (4 * page_bytes, 0), "{too_much}");
    }
}
