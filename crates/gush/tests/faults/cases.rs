//! The pairs on which each method is put under faults.

use gush::{Choice, MethodName};

use crate::common::{SourceKind as S, TargetKind as T};
use crate::sweep::{Case, LARGE, SMALL};

const PAIRS: &[(MethodName, &[(S, T)])] = &[
    (MethodName::Reflink, &[(S::File, T::File)]),
    (MethodName::CopyFileRange, &[(S::File, T::File), (S::Tmpfs, T::Tmpfs)]),
    (
        MethodName::Sendfile,
        &[
            (S::File, T::File),
            (S::File, T::Pipe),
            (S::Tmpfs, T::UnixStream),
            (S::Memfd, T::Tcp),
            (S::UnixStream, T::Pipe),
            (S::File, T::Null),
        ],
    ),
    (
        MethodName::Splice,
        &[
            (S::File, T::Pipe),
            (S::Pipe, T::File),
            (S::Pipe, T::Pipe),
            (S::Fifo, T::Fifo),
            (S::File, T::Tmpfs),
            (S::UnixStream, T::File),
            (S::UnixStream, T::UnixStream),
            (S::Tcp, T::Tcp),
            (S::File, T::UnixStream),
            (S::Pipe, T::UnixStream),
            (S::Tcp, T::Pipe),
        ],
    ),
    (
        MethodName::Vmsplice,
        &[
            (S::File, T::File),
            (S::Pipe, T::Pipe),
            (S::UnixStream, T::UnixStream),
            (S::File, T::Tcp),
            (S::Pipe, T::Memfd),
        ],
    ),
    (
        MethodName::MmapWrite,
        &[(S::File, T::File), (S::File, T::Pipe), (S::Tmpfs, T::Tcp), (S::File, T::Append)],
    ),
    (MethodName::MmapCopy, &[(S::File, T::File), (S::Memfd, T::Tmpfs)]),
    (MethodName::ReadMmap, &[(S::File, T::File), (S::Memfd, T::Tmpfs)]),
    (
        MethodName::ReadWrite,
        &[
            (S::File, T::File),
            (S::File, T::Pipe),
            (S::Pipe, T::File),
            (S::Pipe, T::Pipe),
            (S::Fifo, T::Fifo),
            (S::UnixStream, T::UnixStream),
            (S::Tcp, T::File),
            (S::Pipe, T::Append),
            (S::Direct, T::Direct),
        ],
    ),
    (MethodName::Direct, &[(S::File, T::File), (S::Direct, T::Direct)]),
    (MethodName::Uring, &[(S::File, T::File), (S::Tmpfs, T::Tmpfs)]),
];

/// Every method on its pairs; files also amidst other content, by offsets.
pub fn named() -> impl Iterator<Item = Case> {
    PAIRS.iter().flat_map(|&(method, pairs)| {
        pairs.iter().flat_map(move |&(from, to)| both(Choice::Only(method), from, to))
    })
}

/// The same pairs, left to the plan.
pub fn auto() -> impl Iterator<Item = Case> {
    let mut pairs: Vec<_> = PAIRS.iter().flat_map(|(_, pairs)| pairs.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.into_iter().flat_map(|(from, to)| both(Choice::Auto, from, to))
}

/// Into sockets while an observer watches: their flags are changed, and put back.
pub fn observed() -> impl Iterator<Item = Case> {
    named()
        .filter(|case| matches!(case.to, T::UnixStream | T::Tcp))
        .map(|case| Case { observed: true, ..case })
}

/// Moves that several threads share.
pub fn shared() -> impl Iterator<Item = Case> {
    let pairs = [(S::File, T::File), (S::Tmpfs, T::Memfd)];
    let methods = MethodName::ALL.iter().filter(|name| name.is_parallel());
    methods.flat_map(move |&method| {
        pairs.into_iter().map(move |(from, to)| Case {
            choice: Choice::Only(method),
            from,
            // Between two file systems it is refused.
            to: match (method, from) {
                (MethodName::CopyFileRange, S::Tmpfs) => T::Tmpfs,
                _ => to,
            },
            amidst: from == S::Tmpfs,
            observed: false,
            len: LARGE,
        })
    })
}

fn both(choice: Choice, from: S, to: T) -> impl Iterator<Item = Case> {
    let offsets = from.has_offsets() || to.takes_offsets();
    let wanted = if offsets { &[false, true][..] } else { &[false] };
    wanted.iter().map(move |&amidst| Case { choice, from, to, amidst, observed: false, len: SMALL })
}
