//! `gush::pipe` where pages run out, readers leave, and targets are no pipes.

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;

use common::{child, is_root, not_applicable, round_trip, runs, techniques_served_here, within};
use gush::pipe::{Pipe, PipeLoan, Pool, Technique, Writer};
use gush::{Errno, Kernel};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const SECONDS: u64 = 60;

#[test]
fn past_the_users_page_limit_pipes_are_small_and_work() {
    let nobody =
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"];
    if !is_root() || !runs(nobody[0], &[&nobody[1..], &["true"]].concat()) {
        skip!("cannot become nobody (needs root and setpriv)");
    }
    let own = std::env::current_exe().expect("own path");
    if !runs(nobody[0], &[&nobody[1..], &[own.to_str().expect("a path"), "--list"]].concat()) {
        skip!("nobody may not run this test");
    }
    let (passed, said) = child(&nobody, "many_pipes_of_an_unprivileged_user", &[]);
    assert!(passed, "{said}");
}

/// The limit is a user's, so the test has a user of its own.
#[test]
fn a_pipe_of_an_ordinary_user_grows_only_where_others_keep_room() {
    let user =
        ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--inh-caps=-all"];
    if !is_root() || !runs(user[0], &[&user[1..], &["true"]].concat()) {
        skip!("cannot become another user (needs root and setpriv)");
    }
    let own = std::env::current_exe().expect("own path");
    if !runs(user[0], &[&user[1..], &[own.to_str().expect("a path"), "--list"]].concat()) {
        skip!("another user may not run this test");
    }
    let (passed, said) = child(&user, "a_pipe_grows_and_leaves_a_reserve", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a_pipe_of_an_ordinary_user_grows_only_where_others_keep_room"]
fn a_pipe_grows_and_leaves_a_reserve() {
    let soft = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").expect("a limit");
    let soft: usize = soft.trim().parse().expect("a number");
    let (limit_bytes, full_bytes) =
        (soft * rustix::param::page_size(), Kernel::get().pipe_max_bytes());
    let reserve_bytes = limit_bytes / 16;
    if soft == 0 || reserve_bytes < 3 * full_bytes {
        return not_applicable("no limit on a user's pipes, or one of few pipes");
    }
    let (_reader, pipe) = std::io::pipe().expect("a pipe");
    let born_bytes = rustix::pipe::fcntl_getpipe_size(&pipe).expect("a pipe");
    // Less than the reserve and another pipe is left, and more than the pipe alone would need.
    let others: Vec<_> = (0..(limit_bytes - reserve_bytes) / full_bytes)
        .map(|_| {
            let other = std::io::pipe().expect("a pipe");
            rustix::pipe::fcntl_setpipe_size(&other.1, full_bytes).expect("within the limit");
            other
        })
        .collect();
    assert_eq!(gush::pipe::enlarge(&pipe), Ok(born_bytes), "the reserve is not taken");
    drop(others);
    assert!(gush::pipe::enlarge(&pipe).is_ok_and(|bytes| bytes > born_bytes), "room for all");
}

#[test]
#[ignore = "run as nobody by past_the_users_page_limit_pipes_are_small_and_work"]
fn many_pipes_of_an_unprivileged_user() {
    assert!(!is_root());
    let soft = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").expect("a limit");
    let soft: usize = soft.trim().parse().expect("a number");
    let full = Kernel::get().pipe_max_bytes();
    let pipes_in_limit = soft * rustix::param::page_size() / full;
    // With pages of 64 KiB the limit is some thousand pipes, and a process may have 1,024
    // descriptors until it asks for more.
    let descriptors = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: descriptors.maximum, ..descriptors })
        .expect("the hard limit");
    let most_pipes = descriptors.maximum.map_or(usize::MAX, |most| most as usize / 2);
    if most_pipes < pipes_in_limit + 50 {
        skip!(
            "{most_pipes} pipes may be open, and the user's pages are enough for {pipes_in_limit}"
        );
    }
    let pipes: Vec<Pipe> =
        (0..pipes_in_limit + 20).map(|_| Pipe::new(full).expect("a pipe")).collect();
    let sizes: Vec<usize> = pipes.iter().map(Pipe::capacity_bytes).collect();
    assert_eq!(sizes[0], full, "{sizes:?}");
    if soft > 0 {
        assert!(sizes.last().is_some_and(|&last| last < full), "{sizes:?}");
    }
    assert!(sizes.iter().all(|&size| size >= rustix::param::page_size()), "{sizes:?}");
    round_trip(5 << 20);
    drop(pipes);

    if soft == 0 {
        skip!("users may have any number of pages in pipes here");
    }
    // Other pipes of the same user take nearly all of the pages.
    let others: Vec<Pipe> =
        (0..pipes_in_limit - 1).map(|_| Pipe::new(full).expect("a pipe")).collect();
    let pool = Pool::of(usize::MAX / 2, 1000, full);
    let taken: Vec<PipeLoan> = (0..6).filter_map(|_| pool.take()).collect();
    assert!(!taken.is_empty(), "what is left serves some pipes");
    let page_bytes = rustix::param::page_size();
    let is_large = |loan: &PipeLoan| loan.capacity_bytes() >= 4 * page_bytes;
    assert!(taken.iter().all(is_large), "two slots are no pipe");
    // With pages of 64 KiB the largest pipe has the 16 slots that every pipe is born with.
    let can_be_halved = full > 16 * page_bytes;
    assert_eq!(pool.pipe_bytes() < full, can_be_halved, "a refused size is not asked for again");
    let lent: usize = taken.iter().map(|loan| loan.capacity_bytes()).sum();
    assert_eq!(pool.usage().bytes, lent);
    drop(taken);
    drop(others);
    assert_eq!(pool.pipe_bytes(), full, "a refusal does not hold for ever");
    drop(pool);
    assert_eq!(Pipe::new(full).expect("pipe").capacity_bytes(), full, "their pages are free again");
}

#[test]
fn a_gone_reader_is_epipe_while_the_writer_waits() {
    for technique in techniques_served_here() {
        let answer = within(SECONDS, "a blocked writer", move || {
            let (from, to) = std::io::pipe().expect("pipe");
            let writer = Writer::with(to, technique).map_err(|refused| refused.errno);
            let mut writer = writer.unwrap_or_else(|errno| panic!("{technique:?}: {errno}"));
            // The pipe is full, and the writer waits, when the reader goes.
            let gone = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                drop(from);
            });
            let answer = loop {
                let buffer = writer.buffer().expect("buffer");
                let len = buffer.len();
                if let Err(errno) = writer.commit(buffer, len) {
                    break Err(errno);
                }
            };
            gone.join().expect("reader");
            answer
        });
        assert_eq!(answer, Err::<(), _>(Errno::PIPE), "{technique:?}");
    }
}

#[test]
fn a_closed_or_wrong_target_is_refused_or_written() {
    let socket = std::os::unix::net::UnixStream::pair().expect("sockets");
    for technique in [Technique::Fresh, Technique::Socket] {
        let refused = Writer::with(socket.0.as_fd(), technique);
        assert_eq!(refused.map(drop).map_err(|refused| refused.errno), Err(Errno::INVAL));
    }
    let mut writer = Writer::new(&socket.0).expect("a socket is written");
    assert_eq!(writer.technique(), Technique::Write);
    writer.write_all(b"hello").expect("write");
    writer.flush().expect("flush");
    let mut got = [0; 5];
    (&socket.1).read_exact(&mut got).expect("read");
    assert_eq!(&got, b"hello");
}
