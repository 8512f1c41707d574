//! `gush::pipe` where sizes are refused and vmsplice is denied: it still works, smaller or by another way.

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;

use common::{child, is_root, noise, runs, within};
use gush::faults::{Plan, Verdict};
use gush::pipe::{Pipe, Pool, Technique, Writer};
use gush::{Call, Errno, Kernel, Vmsplice};

const SECONDS: u64 = 60;

/// Sends some bytes by the writer that is chosen here, reads them, and answers the technique.
fn round_trip(len: usize) -> Technique {
    within(SECONDS, "a round trip", move || {
        let (mut from, to) = std::io::pipe().expect("pipe");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            from.read_to_end(&mut got).map(|_| got)
        });
        let mut writer = Writer::new(to).expect("writer");
        let sent = noise(3, len);
        let mut buffer = writer.buffer().expect("buffer");
        let first = len.min(buffer.len());
        buffer[..first].copy_from_slice(&sent[..first]);
        writer.commit(buffer, first).expect("commit");
        writer.write_all(&sent[first..]).expect("write");
        writer.flush().expect("flush");
        let technique = writer.technique();
        drop(writer);
        assert!(reader.join().expect("reader").expect("read") == sent);
        technique
    })
}

#[test]
fn a_refused_pipe_size_means_a_smaller_pipe() {
    for refusals in [1, 3, 5, u64::MAX] {
        let _guard = Plan::new(move |call, nth| match call {
            Call::SetPipeSize if nth < refusals => Verdict::Fail(Errno::PERM),
            _ => Verdict::Go,
        })
        .install();
        let pipe = Pipe::new(1 << 20).expect("a refused size is no error");
        let expected = match refusals {
            1 => 512 << 10,
            3 => 128 << 10,
            // From here on it is the size that a pipe is born with.
            _ => 64 << 10,
        };
        // Root may have what pipe-max-size forbids others, so only the first refusal may cap it.
        assert!(pipe.capacity_bytes() <= expected, "{refusals}: {}", pipe.capacity_bytes());
        assert!(pipe.capacity_bytes() >= 4096);
    }
}

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

#[test]
#[ignore = "run as nobody by past_the_users_page_limit_pipes_are_small_and_work"]
fn many_pipes_of_an_unprivileged_user() {
    assert!(!is_root());
    let soft = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").expect("a limit");
    let soft: usize = soft.trim().parse().expect("a number");
    let full = Kernel::get().pipe_max_bytes();
    let pipes_in_limit = soft * 4096 / full;
    let pipes: Vec<Pipe> =
        (0..pipes_in_limit + 20).map(|_| Pipe::new(full).expect("a pipe")).collect();
    let sizes: Vec<usize> = pipes.iter().map(Pipe::capacity_bytes).collect();
    assert_eq!(sizes[0], full, "{sizes:?}");
    if soft > 0 {
        assert!(sizes.last().is_some_and(|&last| last < full), "{sizes:?}");
    }
    assert!(sizes.iter().all(|&size| size >= 4096), "{sizes:?}");
    round_trip(5 << 20);
    drop(pipes);

    let pool = Pool::new(full, pipes_in_limit);
    let taken: Vec<Pipe> = (0..pipes_in_limit + 4).map(|_| pool.take().expect("pipe")).collect();
    if soft > 0 {
        assert!(pool.pipe_bytes() < full, "a refused size is not asked for again");
    }
    taken.into_iter().for_each(|pipe| pool.give_back(pipe));
    let again: Vec<usize> =
        (0..pipes_in_limit).map(|_| pool.take().expect("pipe").capacity_bytes()).collect();
    assert!(again.iter().all(|&size| size <= pool.pipe_bytes()), "shrunk when idle: {again:?}");
    assert_eq!(Pipe::new(full).expect("pipe").capacity_bytes(), full, "their pages are free again");
}

/// The probe is made once a process, so each answer is met in a process of its own.
#[test]
fn denied_vmsplice_means_another_way() {
    for errno in ["EPERM", "ENOSYS", "EOPNOTSUPP"] {
        let (passed, said) =
            child(&[], "a_writer_where_vmsplice_is_denied", &[("GUSH_TEST_ERRNO", errno)]);
        assert!(passed, "{errno}: {said}");
    }
}

fn errno_of_this_process() -> Errno {
    match std::env::var("GUSH_TEST_ERRNO").as_deref() {
        Ok("ENOSYS") => Errno::NOSYS,
        Ok("EOPNOTSUPP") => Errno::OPNOTSUPP,
        _ => Errno::PERM,
    }
}

#[test]
#[ignore = "run by denied_vmsplice_means_another_way"]
fn a_writer_where_vmsplice_is_denied() {
    let errno = errno_of_this_process();
    let deny = move |call, _| match call {
        Call::Vmsplice => Verdict::Fail(errno),
        _ => Verdict::Go,
    };
    let _guard = Plan::new(deny).install();
    assert_eq!(Kernel::get().vmsplice(), Vmsplice::Absent(errno));
    assert_eq!(round_trip(5 << 20), Technique::Socket);
    let (_from, to) = std::io::pipe().expect("pipe");
    let refused = Writer::with(to, Technique::Fresh).map(drop).map_err(|(_, errno)| errno);
    assert_eq!(refused, Err(errno), "what is asked for by name is used or refused");
}

#[test]
fn vmsplice_denied_in_the_middle_loses_nothing() {
    if Kernel::get().vmsplice() != Vmsplice::ZeroCopy {
        skip!("no vmsplice by reference on this kernel");
    }
    for errno in [Errno::PERM, Errno::NOSYS, Errno::OPNOTSUPP] {
        within(SECONDS, "a writer", move || {
            let (mut from, to) = std::io::pipe().expect("pipe");
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                from.read_to_end(&mut got).map(|_| got)
            });
            let _guard = Plan::new(move |call, nth| match call {
                Call::Vmsplice if nth == 0 => Verdict::Short(70_000),
                Call::Vmsplice => Verdict::Fail(errno),
                _ => Verdict::Go,
            })
            .install();
            let mut writer = match Writer::with(to, Technique::Fresh) {
                Ok(writer) => writer,
                Err((_, errno)) => panic!("fresh: {errno}"),
            };
            let mut sent = Vec::new();
            for seed in 1..4 {
                let mut buffer = writer.buffer().expect("buffer");
                let bytes = noise(seed, buffer.len());
                buffer.copy_from_slice(&bytes);
                let len = bytes.len();
                writer.commit(buffer, len).expect("commit");
                sent.extend(bytes);
            }
            drop(writer);
            assert!(reader.join().expect("reader").expect("read") == sent, "{errno}");
        });
    }
}

#[test]
fn a_gone_reader_is_epipe_while_the_writer_waits() {
    for technique in [Technique::Fresh, Technique::Socket, Technique::Write] {
        let answer = within(SECONDS, "a blocked writer", move || {
            let (from, to) = std::io::pipe().expect("pipe");
            let Ok(mut writer) = Writer::with(to, technique) else { return Err(Errno::PIPE) };
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
        assert_eq!(refused.map(drop).map_err(|(_, errno)| errno), Err(Errno::INVAL));
    }
    let mut writer = Writer::new(&socket.0).expect("a socket is written");
    assert_eq!(writer.technique(), Technique::Write);
    writer.write_all(b"hello").expect("write");
    writer.flush().expect("flush");
    let mut got = [0; 5];
    (&socket.1).read_exact(&mut got).expect("read");
    assert_eq!(&got, b"hello");
}
