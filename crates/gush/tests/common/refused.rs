//! System calls that the kernel or a filter refuses, asked without the engine where there is a way:
//! a test about such a call has no subject here, and the methods and techniques that need it are
//! left out, visibly.

use std::os::fd::OwnedFd;

use gush::pipe::Technique;
use gush::{Choice, Errno, Kernel, MethodName, Mover, Vmsplice};
use rustix::pipe::SpliceFlags;

use super::not_applicable;

/// Why a call is refused; `None` where the call works.
pub type Refused = Option<String>;

type Probe = fn() -> Refused;

/// The calls that a method needs, each with its probe.
const NEEDS: [(MethodName, &[Probe]); 5] = [
    (MethodName::Splice, &[splice]),
    (MethodName::Vmsplice, &[vmsplice, splice]),
    (MethodName::Sendfile, &[sendfile]),
    (MethodName::CopyFileRange, &[copy_file_range]),
    (MethodName::Uring, &[io_uring_setup]),
];

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().expect("a pipe")
}

/// The call has nothing to move: any answer but the expected one is a refusal.
fn unless(name: &str, answer: Result<usize, Errno>, expected: Result<usize, Errno>) -> Refused {
    (answer != expected).then(|| format!("{name}(2) answers {answer:?}"))
}

pub fn splice() -> Refused {
    // With a writer that says nothing: an empty pipe without one would answer 0.
    let ((empty, _open), (_open_too, target)) = (pipe(), pipe());
    let answer = rustix::pipe::splice(&empty, None, &target, None, 1, SpliceFlags::NONBLOCK);
    unless("splice", answer, Err(Errno::AGAIN))
}

pub fn tee() -> Refused {
    let ((empty, _open), (_open_too, target)) = (pipe(), pipe());
    let answer = rustix::pipe::tee(&empty, &target, 1, SpliceFlags::NONBLOCK);
    unless("tee", answer, Err(Errno::AGAIN))
}

pub fn vmsplice() -> Refused {
    match Kernel::get().vmsplice() {
        Vmsplice::Absent(errno) => Some(format!("vmsplice(2) answers {errno:?}")),
        _ => None,
    }
}

pub fn sendfile() -> Refused {
    let [empty, target] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    unless("sendfile", rustix::fs::sendfile(&target, &empty, None, 1), Ok(0))
}

pub fn copy_file_range() -> Refused {
    let [empty, target] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let answer = rustix::fs::copy_file_range(&empty, None, &target, None, 1);
    unless("copy_file_range", answer, Ok(0))
}

/// Asked by the engine, for want of another safe way: only an answer of the kernel counts.
pub fn io_uring_setup() -> Refused {
    let [source, target] = [&b"x"[..], b""].map(super::file_of);
    let answer = Mover::new(&source, &target).method(Choice::Only(MethodName::Uring)).run();
    let errno = answer.err().filter(gush::Error::is_refused)?.errno()?;
    let by_kernel = matches!(errno, Errno::NOSYS | Errno::PERM);
    by_kernel.then(|| format!("io_uring_setup(2) answers {errno:?}"))
}

/// The methods without those that need a call which is refused.
pub fn methods_served_here(methods: &[MethodName]) -> Vec<MethodName> {
    let refused = |method: &MethodName| {
        let (_, probes) = NEEDS.iter().find(|(needy, _)| needy == method)?;
        probes.iter().find_map(|probe| probe())
    };
    let served = |method: &MethodName| match refused(method) {
        Some(why) => {
            not_applicable(&format!("{method}: {why}"));
            false
        }
        None => true,
    };
    methods.iter().copied().filter(served).collect()
}

/// The choices without methods that need a call which is refused.
pub fn served_here(choices: &[Choice]) -> Vec<Choice> {
    let served = |choice: &Choice| match choice {
        Choice::Only(method) => !methods_served_here(&[*method]).is_empty(),
        _ => true,
    };
    choices.iter().copied().filter(served).collect()
}

/// The techniques of a [`gush::pipe::Writer`] without those whose calls are refused.
pub fn techniques_served_here() -> Vec<Technique> {
    let refused = |technique: &Technique| match technique {
        Technique::Fresh => (Kernel::get().vmsplice() != Vmsplice::ZeroCopy)
            .then(|| "vmsplice(2) lends no pages here".to_owned()),
        Technique::Socket => splice(),
        _ => None,
    };
    let mut techniques = vec![Technique::Fresh, Technique::Socket, Technique::Write];
    techniques.retain(|technique| match refused(technique) {
        Some(why) => {
            not_applicable(&format!("{technique:?}: {why}"));
            false
        }
        None => true,
    });
    techniques
}

/// Ends the test visibly where the call that the test is about is refused: `needs!(splice)`.
#[macro_export]
macro_rules! needs {
    ($call:ident) => {
        if let Some(why) = $crate::common::refused::$call() {
            gush_test::not_applicable(&why);
            return;
        }
    };
}
