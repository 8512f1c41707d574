//! Idle sources and blocked targets: nobody else hangs (invariant 5), every wait ends (invariant
//! 7).

mod common;

use std::os::fd::OwnedFd;
use std::time::Duration;

use common::{
    Drainer, Ending, STREAMS, Source, SourceKind, Target, TargetKind, WAITS, ends_within, noise,
    open_source, open_target, within,
};
use gush::{Choice, Control, Errno, MethodName, Mover, Tuning};
use rustix::fs::OFlags;

/// Long enough to be idle for sure, many times the slice after which an observer is asked.
const STOP_AFTER: Duration = Duration::from_millis(120);

/// Splicing from an idle terminal or socket into a pipe holds that pipe's lock while waiting; a
/// non-blocking read of the pipe by somebody else would then hang.
#[test]
fn invariant_5_nobody_elses_read_hangs_while_the_source_is_idle() {
    let choices = [&STREAMS[..], &[Choice::Only(MethodName::Sendfile)]].concat();
    let choices = common::served_here(&choices);
    let takes_streams = sendfile_takes_streams();
    let is_served = |&(kind, choice): &(SourceKind, Choice)| {
        // From these sendfile(2) is refused.
        let is_refused = matches!(kind, SourceKind::Pipe | SourceKind::Fifo) || kind.is_datagram();
        choice != Choice::Only(MethodName::Sendfile) || (takes_streams && !is_refused)
    };
    let pairs = SourceKind::CAN_IDLE
        .into_iter()
        .flat_map(|kind| choices.iter().map(move |&choice| (kind, choice)));
    gush_test::side_by_side(pairs.filter(is_served), |(kind, choice)| {
        let name = format!("{choice} from an idle {kind:?}");
        let (source, far) = open_source(kind).expect("a source");
        let far = far.expect("its far end");
        let (target, reader) = open_target(TargetKind::Pipe).expect("a pipe");
        rustix::io::write(&far, b"first").expect("some bytes");
        let mover = std::thread::spawn(move || {
            let mover = Mover::new(&source, &target).method(choice);
            (mover.length_bytes(11).run(), source)
        });
        let reader = within(60, &name, move || {
            assert_eq!(read_exactly(&reader, 5), b"first");
            std::thread::sleep(Duration::from_millis(30));
            rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK).expect("O_NONBLOCK");
            assert_eq!(rustix::io::read(&reader, &mut [0; 9]), Err(Errno::AGAIN));
            rustix::fs::fcntl_setfl(&reader, OFlags::empty()).expect("blocking");
            reader
        });
        rustix::io::write(&far, b"second").expect("more bytes");
        let (rest, report) = within(60, &name, move || {
            (read_exactly(&reader, 6), mover.join().expect("the mover").0)
        });
        assert_eq!(rest, b"second", "{name}");
        assert_eq!(report.expect(&name).bytes, 11);
    });
}

/// Before Linux 5.12 sendfile(2) refused a source without pages, also into a pipe.
fn sendfile_takes_streams() -> bool {
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::write(&far, b"x").expect("room");
    let is_served = rustix::fs::sendfile(&writer, &near, None, 1) != Err(Errno::INVAL);
    if !is_served {
        common::not_applicable("sendfile(2) takes no stream as source here");
    }
    is_served
}

fn read_exactly(fd: &OwnedFd, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < len {
        let mut buf = vec![0; len - got.len()];
        let more = rustix::io::read(fd, &mut buf).expect("a read");
        assert!(more > 0, "the end after {got:?}");
        got.extend_from_slice(&buf[..more]);
    }
    got
}

#[test]
fn invariant_7_an_idle_source_does_not_keep_the_observer_from_stopping() {
    let choices = common::served_here(&STREAMS);
    let cases = SourceKind::CAN_IDLE.into_iter().flat_map(|kind| {
        let waits = |&choice: &Choice| WAITS.map(|wait| (kind, choice, wait));
        choices.iter().flat_map(waits).collect::<Vec<_>>()
    });
    let wrong = gush_test::side_by_side(cases, |(kind, choice, wait)| {
        let outcome = ends_within(60, move || {
            let (source, _far) = open_source(kind).expect("a source");
            let target = Target::new(TargetKind::File, b"", 1, false).expect("a target");
            let mut observer = stop_after_a_while();
            let mover = Mover::new(&source, &target.fd).method(choice).wait(wait);
            mover.observe(&mut observer).run()
        });
        match outcome {
            Some(Err(error)) if error.is_stopped() => None,
            outcome => Some(format!("{choice} from {kind:?}, {wait:?}: {outcome:?}")),
        }
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn stop_after_a_while() -> impl FnMut(&gush::Progress) -> Control {
    |progress| if progress.elapsed > STOP_AFTER { Control::Stop } else { Control::Continue }
}

#[test]
fn invariant_7_a_blocked_target_does_not_keep_the_observer_from_stopping() {
    let targets = [
        TargetKind::Pipe,
        TargetKind::Fifo,
        TargetKind::UnixStream,
        TargetKind::Tcp,
        TargetKind::Seqpacket,
        TargetKind::Terminal,
    ];
    let content = noise(1, 24 << 20);
    let choices = || MethodName::ALL.iter().map(|&name| Choice::Only(name)).chain([Choice::Auto]);
    let cases = targets.into_iter().flat_map(|to| choices().map(move |choice| (to, choice)));
    let wrong = gush_test::side_by_side(cases, |(to, choice)| {
        let (target, far) = open_target(to).expect("a target");
        let copy = content.clone();
        let outcome = ends_within(60, move || {
            let source = Source::new(SourceKind::File, &copy, 1, false).expect("a source");
            let mut observer = stop_after_a_while();
            let mut tuning = Tuning::default();
            if to.is_datagram() {
                tuning = tuning.buffer_bytes(4096);
            }
            let mover = Mover::new(&source.fd, &target).method(choice).tuning(tuning);
            mover.observe(&mut observer).run()
        });
        let error = match outcome {
            Some(Err(error)) => error,
            outcome => return Some(format!("{choice} into a full {to:?}: {outcome:?}")),
        };
        if error.is_refused() && error.delivered_bytes() == 0 {
            return None;
        }
        let ending = if to == TargetKind::Terminal { Ending::Idle(25) } else { Ending::Closed };
        let got = Drainer::start(far, ending, to.is_datagram(), 1, false).finish();
        if !error.is_stopped() || got.len() as u64 != error.delivered_bytes() {
            return Some(format!("{choice} into {to:?}: {error}, {} arrived", got.len()));
        }
        let is_same = got == content[..got.len()];
        (!is_same).then(|| format!("{choice} into {to:?}: other bytes arrived"))
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each call that leaves bytes in a pipe wakes the pipe's writer, who then writes little at a time.
#[test]
fn below_a_rate_limit_a_full_pipe_is_emptied_by_one_call() {
    const PIPE_BYTES: usize = 1 << 20;
    if let Some(why) = common::refused::splice() {
        return gush_test::not_applicable(&why);
    }
    let (source, writer) = rustix::pipe::pipe().expect("a pipe");
    match rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES) {
        Ok(PIPE_BYTES) => {}
        other => return gush_test::skipped(&format!("no pipe of 1 MiB: {other:?}")),
    }
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).expect("O_NONBLOCK");
    let filled = rustix::io::write(&writer, &noise(1, PIPE_BYTES)).expect("bytes");
    drop(writer);
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null");
    let rate = gush::Rate::bytes_per_second(1 << 30).expect("not 0");
    let splice = Choice::Only(MethodName::Splice);
    let report = Mover::new(&source, &null).method(splice).limit(rate).run().expect("a move");
    assert_eq!((report.bytes, report.methods[0].steps), (filled as u64, 1));
}
