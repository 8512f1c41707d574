//! `gush::pipe` where sizes are refused and vmsplice is denied: the module still works, with
//! smaller pipes or by another way.

use std::io::Read;
use std::os::fd::AsFd;

use gush::faults::{Injection, Plan};
use gush::pipe::{Pipe, Pool, Reservoir, Technique, Writer};
use gush::{Call, Choice, Errno, FileSplice, Kernel, MethodName, Mover, Pages, Vmsplice};

use crate::common::{child, noise, not_applicable, round_trip, within};

const SECONDS: u64 = 60;

#[test]
fn a_refused_pipe_size_means_a_smaller_pipe() {
    for refusals in [1, 3, 5, u64::MAX] {
        let _guard = Plan::new(move |call, nth| match call {
            // EPERM is the answer to a user whose pages are used up (fcntl(2)).
            Call::SetPipeSize if nth < refusals => Injection::Fail(Errno::PERM),
            _ => Injection::None,
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

/// The probe is made once a process, so each answer needs a separate process.
#[test]
fn denied_vmsplice_means_another_way() {
    for errno in ["EPERM", "ENOSYS", "EOPNOTSUPP"] {
        let (passed, said) =
            child(&[], "pipes::a_writer_where_vmsplice_is_denied", &[("GUSH_TEST_ERRNO", errno)]);
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
        Call::Vmsplice => Injection::Fail(errno),
        _ => Injection::None,
    };
    let _guard = Plan::new(deny).install();
    assert_eq!(Kernel::get().vmsplice(), Vmsplice::Absent(errno));
    assert_eq!(round_trip(5 << 20), Technique::Socket);
    // The reader stays open: without one every write would fail, for another reason.
    let (_from, to) = std::io::pipe().expect("pipe");
    let refused = Writer::with(to, Technique::Fresh).map(drop).map_err(|refused| refused.errno);
    assert_eq!(refused, Err(errno), "what is asked for by name is used or refused");
}

/// A FIFO in a directory of its own, open for reading and for writing.
fn fifo() -> (tempfile::TempDir, std::fs::File, std::fs::File) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("fifo");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("a FIFO");
    // Opened both ways first: each of the two opens below would wait for the other (fifo(7)).
    let both = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("both ends");
    let writer = std::fs::OpenOptions::new().write(true).open(&path).expect("an end for writing");
    let reader = std::fs::File::open(&path).expect("an end for reading");
    drop(both);
    (dir, reader, writer)
}

#[test]
fn a_vmsplice_that_copies_is_no_better_than_write() {
    let (passed, said) = child(&[], "pipes::where_vmsplice_copies", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a_vmsplice_that_copies_is_no_better_than_write"]
fn where_vmsplice_copies() {
    let copy = |call, _| match call {
        Call::Vmsplice => Injection::Copy,
        _ => Injection::None,
    };
    let _guard = Plan::new(copy).install();
    assert_eq!(Kernel::get().vmsplice(), Vmsplice::Copies);
    assert_eq!(Kernel::get().vmsplice_into_fifo(), Vmsplice::Absent(Errno::OPNOTSUPP));
    assert_eq!(round_trip(5 << 20), Technique::Socket);

    let (_dir, _reader, fifo) = fifo();
    let refused = Writer::with(fifo, Technique::Fresh).map(drop).map_err(|refused| refused.errno);
    assert_eq!(refused, Err(Errno::OPNOTSUPP), "a FIFO is asked about by itself");
    let (_reader, pipe) = std::io::pipe().expect("pipe");
    let fresh = Writer::with(pipe, Technique::Fresh).expect("the call is there, and sound");
    assert_eq!(fresh.technique(), Technique::Fresh, "a technique asked for by name is used");

    let moved = |choice: Choice| {
        let mut source = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut source, &noise(5, 40_000)).expect("content");
        std::io::Seek::rewind(&mut source).expect("the start");
        let (mut reader, pipe) = std::io::pipe().expect("pipe");
        let report = Mover::new(&source, &pipe).method(choice).run().expect("a move");
        drop(pipe);
        let mut got = Vec::new();
        reader.read_to_end(&mut got).expect("the bytes");
        assert!(got == noise(5, 40_000), "{}", report.explain());
        (report.main_method(), report.explain().to_string())
    };
    let (method, explained) = moved(Choice::Only(MethodName::Vmsplice));
    assert_eq!(
        method,
        Some(MethodName::Vmsplice),
        "a method asked for by name is used: {explained}"
    );
    assert!(
        explained.contains("vmsplice copies on this kernel: no gain over read-write"),
        "{explained}"
    );
}

#[test]
fn lent_pages_are_not_written_again_where_advice_answers_0_and_drops_nothing() {
    let (passed, said) = child(&[], "pipes::where_advice_drops_nothing", &[]);
    assert!(passed, "{said}");
}

/// As an emulator that takes MADV_DONTNEED for a hint.
#[test]
#[ignore = "run by lent_pages_are_not_written_again_where_advice_answers_0_and_drops_nothing"]
fn where_advice_drops_nothing() {
    let ignore = |call, _| match call {
        Call::Madvise => Injection::Zero,
        _ => Injection::None,
    };
    let _guard = Plan::new(ignore).install();
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let mut pages = Pages::new(4096).expect("memory");
    pages.as_mut_slice()[0] = b'a';
    let lent = pages.lend();
    match lent.splice_into(writer.as_fd(), 0..1, false) {
        Ok(put) => assert_eq!(put, 1),
        Err(errno) => return not_applicable(&format!("vmsplice: {errno:?}")),
    }
    lent.renew().expect("memory").as_mut_slice()[0] = b'b';
    let mut seen = [0];
    reader.read_exact(&mut seen).expect("the byte");
    assert_eq!(seen, [b'a'], "a lent page was written");
    assert_ne!(Technique::probe(), Technique::Fresh);
}

#[test]
fn explain_reports_a_splice_from_a_file_that_copies() {
    let (passed, said) = child(&[], "pipes::where_file_splices_copy", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by explain_reports_a_splice_from_a_file_that_copies"]
fn where_file_splices_copy() {
    let copy = |call, _| match call {
        Call::Splice => Injection::Copy,
        _ => Injection::None,
    };
    let _guard = Plan::new(copy).install();
    assert_eq!(Kernel::get().file_splice(), FileSplice::Copies);
    let mut source = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut source, &noise(5, 4_000)).expect("content");
    for (choice, is_expected) in [
        (Choice::Auto, true),
        (Choice::Only(MethodName::Sendfile), true),
        (Choice::Only(MethodName::ReadWrite), false),
    ] {
        std::io::Seek::rewind(&mut source).expect("the start");
        let (mut reader, pipe) = std::io::pipe().expect("pipe");
        let report = Mover::new(&source, &pipe).method(choice).run().expect("a move");
        drop(pipe);
        let mut got = Vec::new();
        reader.read_to_end(&mut got).expect("the bytes");
        let explained = report.explain().to_string();
        assert!(got == noise(5, 4_000), "{explained}");
        assert_eq!(
            explained.contains("a splice from a file copies on this kernel"),
            is_expected,
            "{explained}"
        );
    }
    // Into a file nothing is shared by any splice.
    std::io::Seek::rewind(&mut source).expect("the start");
    let target = tempfile::tempfile().expect("a file");
    let by_name = Choice::Only(MethodName::Sendfile);
    let report = Mover::new(&source, &target).method(by_name).run().expect("a move");
    assert!(!report.explain().to_string().contains("splice from a file"), "{}", report.explain());
}

#[test]
fn explain_is_silent_about_file_splices_without_a_file_in_memory() {
    let (passed, said) = child(&[], "pipes::where_no_file_in_memory_can_be_had", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by explain_is_silent_about_file_splices_without_a_file_in_memory"]
fn where_no_file_in_memory_can_be_had() {
    let answers = [(Call::MemfdCreate, Errno::MFILE), (Call::MemfdCreate, Errno::PERM)];
    for (denied, errno) in answers {
        let deny =
            move |call, _| if call == denied { Injection::Fail(errno) } else { Injection::None };
        let _guard = Plan::new(deny).install();
        assert_eq!(Kernel::get().file_splice(), FileSplice::Absent(errno));
        let mut source = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut source, b"bytes").expect("content");
        std::io::Seek::rewind(&mut source).expect("the start");
        let (_reader, pipe) = std::io::pipe().expect("pipe");
        let explained = Mover::new(&source, &pipe).run().expect("a move").explain().to_string();
        assert!(!explained.contains("pages") && !explained.contains("copies"), "{explained}");
    }
}

#[test]
fn a_fifo_that_takes_no_lent_pages_changes_nothing_for_pipes() {
    let (passed, said) = child(&[], "pipes::where_a_fifo_takes_no_lent_pages", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a_fifo_that_takes_no_lent_pages_changes_nothing_for_pipes"]
fn where_a_fifo_takes_no_lent_pages() {
    if Kernel::get().vmsplice() != Vmsplice::ZeroCopy {
        skip!("no vmsplice by reference on this kernel");
    }
    let for_pipes = round_trip(5 << 20);
    let copy = |call, _| match call {
        Call::Vmsplice => Injection::Copy,
        _ => Injection::None,
    };
    let guard = Plan::new(copy).install();
    assert_eq!(Kernel::get().vmsplice_into_fifo(), Vmsplice::Absent(Errno::OPNOTSUPP));
    drop(guard);
    let (_dir, _reader, fifo) = fifo();
    let writer = Writer::new(fifo).expect("a writer");
    assert_eq!(writer.technique(), Technique::Socket);
    assert_eq!(round_trip(5 << 20), for_pipes);
}

#[test]
fn a_shortage_during_the_question_is_no_answer_for_good() {
    let (passed, said) = child(&[], "pipes::where_descriptors_run_out_for_a_moment", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a_shortage_during_the_question_is_no_answer_for_good"]
fn where_descriptors_run_out_for_a_moment() {
    for call in [Call::Pipe, Call::Mmap, Call::Open] {
        let errno = if call == Call::Mmap { Errno::NOMEM } else { Errno::MFILE };
        let short =
            move |made, _| if made == call { Injection::Fail(errno) } else { Injection::None };
        let guard = Plan::new(short).install();
        assert_eq!(Kernel::get().vmsplice_into_fifo(), Vmsplice::Absent(errno), "{call}");
        // The question about pipes opens no file.
        if call != Call::Open {
            assert_eq!(Kernel::get().vmsplice(), Vmsplice::Absent(errno), "{call}");
        }
        drop(guard);
    }
    for answer in [Kernel::get().vmsplice_into_fifo(), Kernel::get().vmsplice()] {
        let short = [Errno::MFILE, Errno::NOMEM].map(Vmsplice::Absent);
        assert!(!short.contains(&answer), "{answer:?}");
    }
}

#[test]
fn without_proc_a_fifo_is_taken_for_a_pipe() {
    let (passed, said) = child(&[], "pipes::where_there_is_no_proc", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by without_proc_a_fifo_is_taken_for_a_pipe"]
fn where_there_is_no_proc() {
    let of_pipes = Kernel::get().vmsplice();
    let missing = |call, _| match call {
        // The probe reaches a FIFO without a name through /proc/self/fd.
        Call::Open => Injection::Fail(Errno::NOENT),
        _ => Injection::None,
    };
    let _guard = Plan::new(missing).install();
    assert_eq!(Kernel::get().vmsplice_into_fifo(), of_pipes);
}

#[test]
fn a_writer_that_is_denied_vmsplice_reports_another_technique_and_does_not_ask_again() {
    if Kernel::get().vmsplice() != Vmsplice::ZeroCopy {
        skip!("no vmsplice by reference on this kernel");
    }
    within(SECONDS, "a writer", || {
        let (mut from, to) = std::io::pipe().expect("pipe");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            from.read_to_end(&mut got).map(|_| got)
        });
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = std::sync::Arc::clone(&asked);
        let _guard = Plan::new(move |call, _| match call {
            Call::Vmsplice => {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Injection::Fail(Errno::OPNOTSUPP)
            }
            _ => Injection::None,
        })
        .install();
        let mut writer = Writer::with(to, Technique::Fresh).expect("a writer");
        let mut sent = Vec::new();
        for seed in 1..9 {
            let mut buffer = writer.buffer().expect("buffer");
            let bytes = noise(seed, buffer.len());
            buffer.copy_from_slice(&bytes);
            writer.commit(buffer, bytes.len()).expect("commit");
            sent.extend(bytes);
        }
        assert_eq!(writer.technique(), Technique::Socket);
        drop(writer);
        assert!(reader.join().expect("reader").expect("read") == sent);
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}

#[test]
fn a_writer_without_any_splice_writes() {
    for errno in ["EPERM", "ENOSYS", "EOPNOTSUPP"] {
        let (passed, said) =
            child(&[], "pipes::where_every_splice_is_denied", &[("GUSH_TEST_ERRNO", errno)]);
        assert!(passed, "{errno}: {said}");
    }
}

#[test]
#[ignore = "run by a_writer_without_any_splice_writes"]
fn where_every_splice_is_denied() {
    let errno = errno_of_this_process();
    let deny = move |call, _| match call {
        Call::Splice | Call::Vmsplice => Injection::Fail(errno),
        _ => Injection::None,
    };
    let _guard = Plan::new(deny).install();
    let (mut from, to) = std::io::pipe().expect("pipe");
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        from.read_to_end(&mut got).map(|_| got)
    });
    let mut writer = Writer::new(to).expect("a writer");
    assert_eq!(writer.technique(), Technique::Write);
    std::io::Write::write_all(&mut writer, &noise(9, 3 << 20)).expect("room");
    std::io::Write::flush(&mut writer).expect("room");
    drop(writer);
    assert!(reader.join().expect("reader").expect("read") == noise(9, 3 << 20));
    for technique in [Technique::Fresh, Technique::Socket] {
        let (_from, to) = std::io::pipe().expect("pipe");
        let refused = Writer::with(to, technique).map(drop).map_err(|refused| refused.errno);
        assert_eq!(refused, Err(errno), "{technique:?} is used or refused");
    }
}

#[test]
fn splice_denied_in_the_middle_loses_nothing() {
    for errno in [Errno::PERM, Errno::NOSYS, Errno::OPNOTSUPP] {
        within(SECONDS, "a writer", move || {
            let (mut from, to) = std::io::pipe().expect("pipe");
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                from.read_to_end(&mut got).map(|_| got)
            });
            let mut writer = Writer::with(to, Technique::Socket).expect("a writer");
            let _guard = Plan::new(move |call, nth| match call {
                // Some bytes first: the denial then comes with a slot half emptied.
                Call::Splice if nth == 0 => Injection::Short(50_000),
                Call::Splice => Injection::Fail(errno),
                _ => Injection::None,
            })
            .install();
            let mut sent = Vec::new();
            for seed in 1..4 {
                let mut buffer = writer.buffer().expect("buffer");
                let bytes = noise(seed, buffer.len());
                buffer.copy_from_slice(&bytes);
                writer.commit(buffer, bytes.len()).expect("commit");
                sent.extend(bytes);
            }
            assert_eq!(writer.technique(), Technique::Write);
            drop(writer);
            assert!(reader.join().expect("reader").expect("read") == sent, "{errno}");
        });
    }
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
                // Some pages first: these are lent already when the denial comes.
                Call::Vmsplice if nth == 0 => Injection::Short(70_000),
                Call::Vmsplice => Injection::Fail(errno),
                _ => Injection::None,
            })
            .install();
            let mut writer = match Writer::with(to, Technique::Fresh) {
                Ok(writer) => writer,
                Err(refused) => panic!("fresh: {refused}"),
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

/// The bytes given to a writer, the bytes that its reader got, and whether each of the writer's
/// answers was a success.
fn written_under(
    technique: Technique,
    inject: impl FnMut(Call, u64) -> Injection + Send + 'static,
) -> (Vec<u8>, Vec<u8>, bool) {
    let (mut from, to) = std::io::pipe().expect("pipe");
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        from.read_to_end(&mut got).map(|_| got)
    });
    let guard = Plan::new(inject).install();
    let mut sent = Vec::new();
    let write = |writer: &mut Writer<_>, sent: &mut Vec<u8>| -> Result<(), Errno> {
        // More than one huge page: the second is filled while the reader may still have the first.
        for seed in 1..7 {
            let mut buffer = writer.buffer()?;
            let len = buffer.len();
            buffer.copy_from_slice(&noise(seed, len));
            sent.extend_from_slice(&buffer);
            writer.commit(buffer, len)?;
        }
        Ok(())
    };
    let all_well = match Writer::with(to, technique) {
        Ok(mut writer) => write(&mut writer, &mut sent).is_ok(),
        Err(_refused) => false,
    };
    drop(guard);
    (sent, reader.join().expect("reader").expect("read"), all_well)
}

#[test]
fn a_writer_whose_call_fails_has_sent_a_beginning_and_says_so() {
    // What is probed once a process is probed without faults.
    assert_ne!(Kernel::get().pipe_max_bytes(), 0);
    let techniques = match Kernel::get().vmsplice() {
        Vmsplice::ZeroCopy => &[Technique::Fresh, Technique::Socket, Technique::Write][..],
        _ => &[Technique::Socket, Technique::Write],
    };
    let (mut wrong, mut tried) = (Vec::new(), std::collections::BTreeSet::new());
    for &technique in techniques {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = seen.clone();
        let (sent, got, all_well) = within(SECONDS, "a writer", move || {
            written_under(technique, move |call, nth| {
                log.lock().expect("log").push((call, nth));
                Injection::None
            })
        });
        assert!(all_well && got == sent, "{technique:?} without any fault");
        let calls = seen.lock().expect("log").clone();
        // The first of each kind: later ones are of the same loop, and would only cost time.
        for (call, nth) in calls.into_iter().filter(|&(_, nth)| nth < 3) {
            tried.insert(call);
            for errno in [Errno::IO, Errno::NOMEM, Errno::INVAL, Errno::PERM, Errno::AGAIN] {
                let name = format!("{technique:?}: {call} #{nth} {}", gush::errno_name(errno));
                let (sent, got, all_well) = within(SECONDS, &name, move || {
                    written_under(technique, move |asked, number| match (asked, number) {
                        at if at == (call, nth) => Injection::Fail(errno),
                        _ => Injection::None,
                    })
                });
                // A failure may cut the end off, and nothing else.
                if !sent.starts_with(&got) || all_well && got != sent {
                    wrong.push(format!("{name}: {} of {} bytes, or others", got.len(), sent.len()));
                }
            }
        }
    }
    for call in
        [Call::GetPipeSize, Call::Socketpair, Call::SetSocketOption, Call::Mmap, Call::Fstat]
    {
        assert!(tried.contains(&call), "no writer made {call}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sockets are denied by filters (EPERM, EACCES, EAFNOSUPPORT), or cannot be spliced from (EINVAL).
#[test]
fn a_reservoir_pours_where_there_is_no_socket_to_fill_its_slots() {
    let denials = [
        (Call::Socketpair, Errno::PERM),
        (Call::Socketpair, Errno::AFNOSUPPORT),
        (Call::Splice, Errno::INVAL),
        (Call::Send, Errno::PERM),
    ];
    for (denied, errno) in denials {
        let _guard = Plan::new(move |call, _| match call {
            call if call == denied => Injection::Fail(errno),
            _ => Injection::None,
        })
        .install();
        for pattern in [&b"y\n"[..], &noise(3, 5000), &noise(4, 40_000)] {
            let name = format!("{denied}: {errno}, {} bytes", pattern.len());
            let mut reservoir = Reservoir::of(pattern, 1 << 20).expect(&name);
            // Slots of one page each: most of the pipe is used.
            assert!(reservoir.held_bytes() >= 1 << 19, "{name}: {}", reservoir.held_bytes());
            let (mut from, to) = std::io::pipe().expect("a pipe");
            let most = 300_000;
            let reader = std::thread::spawn(move || {
                let mut got = vec![0; most];
                from.read_exact(&mut got).map(|()| got)
            });
            let mut left = most;
            while left > 0 {
                left -= reservoir.pour_blocking(&to, left).expect(&name);
            }
            let got = reader.join().expect("a reader").expect("all of it");
            let expected: Vec<u8> = pattern.iter().copied().cycle().take(most).collect();
            assert!(got == expected, "{name}");
        }
    }
}

/// One refusal is enough to ask for less, and the refusal does not hold for ever.
#[test]
fn a_pool_remembers_a_refused_size_until_no_pipe_is_in_use() {
    let pool = Pool::new(64 << 20, 100);
    let refuse_once = || {
        let refuse = |call, nth| match (call, nth) {
            (Call::SetPipeSize, 0) => Injection::Fail(Errno::PERM),
            _ => Injection::None,
        };
        Plan::new(refuse).install()
    };
    let large = pool.take().expect("a pipe");
    assert_eq!(pool.pipe_bytes(), 1 << 20);
    if large.capacity_bytes() < 1 << 20 {
        skip!("the user may have no pipe of 1 MiB");
    }
    let guard = refuse_once();
    let refused = pool.take().expect("a smaller pipe");
    drop(guard);
    assert_eq!((refused.capacity_bytes(), pool.pipe_bytes()), (512 << 10, 512 << 10));
    let next = pool.take().expect("another pipe");
    assert_eq!(next.capacity_bytes(), 512 << 10, "the refusal was forgotten");
    // A pipe from before the refusal is made smaller when it comes back.
    drop(large);
    assert_eq!((pool.usage().idle, pool.usage().bytes), (1, 3 * (512 << 10)));
    assert_eq!(pool.pipe_bytes(), 512 << 10, "others are still in use");
    drop((refused, next));
    assert_eq!(pool.pipe_bytes(), 1 << 20, "none is in use");

    // No size is asked for that is smaller than a pipe is born with.
    let pool = Pool::of(64 << 20, 100, 64 << 10);
    let guard = refuse_once();
    let born = pool.take().expect("a pipe");
    drop(guard);
    assert_eq!((born.capacity_bytes(), pool.pipe_bytes()), (64 << 10, 64 << 10));
}

#[test]
fn a_pipe_that_the_kernel_does_not_give_costs_no_budget() {
    let pool = Pool::new(1 << 20, 100);
    let guard = Plan::new(|call, _| match call {
        Call::Pipe => Injection::Fail(Errno::MFILE),
        _ => Injection::None,
    })
    .install();
    assert!(pool.take().is_none());
    drop(guard);
    assert_eq!((pool.usage().in_use, pool.usage().bytes), (0, 0));
    assert!(pool.take().is_some(), "there is the whole budget");
}
