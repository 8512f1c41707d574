//! Do bytes travel by reference? Asked by a store after the bytes were handed over.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use gush::pipe::Technique;
use gush::{Errno, Kernel, Vmsplice};
use gush_text::os_text;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::asked_path::Found;
use super::calls::lacking;
use super::finding::{Finding, words};
use super::status::Status;
use crate::procfs::reopened;

/// One page and one block, so that O_DIRECT serves too.
const PAGE_BYTES: usize = 4096;

/// vmsplice into a pipe and into a FIFO.
pub(super) fn of_memory(status: &Status) -> [Finding; 2] {
    let kernel = Kernel::get();
    [
        vmsplice("vmsplice", "the pipe", kernel.vmsplice(), status),
        vmsplice("vmsplice-fifo", "a FIFO", kernel.vmsplice_into_fifo(), status),
    ]
}

fn vmsplice(topic: &'static str, into: &str, answer: Vmsplice, status: &Status) -> Finding {
    match answer {
        Vmsplice::ZeroCopy => Finding::fine(
            topic,
            format!("vmsplice hands pages over: a later store shows through {into}"),
            "output needs no copy; gush never writes a page again that it has lent",
        ),
        Vmsplice::Copies => Finding::limited(
            topic,
            format!("vmsplice copies into {into}"),
            "it is safe here whatever the writer does, and no faster than write; gush prefers other ways",
        ),
        Vmsplice::Absent(errno) => lacking(
            topic,
            "vmsplice",
            errno,
            "output goes by write, or through a unix socket's large slots where splice works",
            status,
        ),
    }
}

/// Splices out of a file of this place, one that may be written and one that may only be read.
pub(super) fn of_files(found: &Found) -> Finding {
    const TOPIC: &str = "file-pages";
    let file = match found.filled_scratch() {
        Ok(file) => file,
        Err(error) => {
            return Finding::unknown(
                TOPIC,
                format!("splicing cannot be tried: no file can be made there: {}", os_text(&error)),
                "gush takes it that a later write to a file can show in bytes already sent",
            );
        }
    };
    let own = shows_later_write(&file, file.as_fd());
    // A kernel was proposed that shares only the pages of writable files.
    let read_only = rustix::fs::fchmod(&file, Mode::RUSR)
        .and_then(|()| reopened(&file, OFlags::RDONLY))
        .and_then(|source| shows_later_write(&file, source.as_fd()));
    of_answers(TOPIC, own, read_only)
}

fn of_answers(
    topic: &'static str,
    own: Result<bool, Errno>,
    read_only: Result<bool, Errno>,
) -> Finding {
    let shares = "without a copy; bytes already sent can still change with the file (--isolated reads instead)";
    match (own, read_only) {
        (Ok(true), Ok(true)) => Finding::fine(
            topic,
            "a splice from a file shares its pages, also where the file may only be read",
            format!("files go into pipes and sockets {shares}"),
        ),
        (Ok(false), Ok(false)) => Finding::limited(
            topic,
            "a splice from a file copies",
            "bytes already sent stay as they were; splicing still copies once less than reading and writing",
        ),
        (Ok(true), Ok(false)) => Finding::limited(
            topic,
            "a splice shares the pages of a file that may be written, and copies from one that may only be read",
            format!("only own files go into pipes and sockets {shares}"),
        ),
        (Ok(false), Ok(true)) => Finding::limited(
            topic,
            "a splice copies from a file that may be written, and shares the pages of one that may only be read",
            format!("only files of others go into pipes and sockets {shares}"),
        ),
        (Err(errno), _) | (_, Err(errno)) => Finding::absent(
            topic,
            format!("nothing can be spliced from a file here: {}", words(errno)),
            "gush reads and writes instead: one copy more each way",
        ),
    }
}

/// Splices the first page of `source` into a pipe and changes the file: does the pipe show it?
fn shows_later_write(file: &File, source: BorrowedFd<'_>) -> Result<bool, Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::pwrite(file, &[b'x'; PAGE_BYTES], 0)?;
    let mut from = 0;
    let flags = SpliceFlags::NONBLOCK;
    rustix::pipe::splice(source, Some(&mut from), &writer, None, PAGE_BYTES, flags)?;
    // After the splice: if this byte shows, the pipe refers to the file's page.
    rustix::io::pwrite(file, b"y", 0)?;
    // Nothing in the pipe would be waited for, if this were the last end for writing.
    drop(writer);
    let mut first = [0];
    match rustix::io::read(&reader, &mut first)? {
        1 => Ok(first == *b"y"),
        _ => Err(Errno::IO),
    }
}

/// How bytes that are made anew each time go into a pipe, as `pipe::Writer` has found out.
pub(super) fn technique() -> Finding {
    let by = match Technique::probe() {
        Technique::Fresh => "as lent pages",
        Technique::Socket => "through a socket's slots",
        _ => "by write",
    };
    Finding::fine(
        "pipe-output",
        format!("new bytes go into a pipe {by}"),
        "programs that use gush's writer do so; 'gush lab pipe' measures each way",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::doctor::Condition;

    #[test]
    fn the_answers_for_both_files_decide() {
        let state = |own, read_only| of_answers("x", own, read_only).state;
        assert_eq!(state(Ok(true), Ok(true)), Condition::Fine);
        for (own, read_only) in [(false, false), (true, false), (false, true)] {
            assert_eq!(state(Ok(own), Ok(read_only)), Condition::Limited, "{own} {read_only}");
        }
        assert_eq!(state(Err(Errno::PERM), Ok(true)), Condition::Absent);
        assert_eq!(state(Ok(true), Err(Errno::PERM)), Condition::Absent);
        let facts = [true, false].map(|own| of_answers("x", Ok(own), Ok(!own)).fact);
        assert_ne!(facts[0], facts[1]);
    }

    /// splice(2) copies from a file open with O_DIRECT (`copy_splice_read` of `fs/splice.c`).
    #[test]
    fn a_splice_that_copies_is_distinguished_from_one_that_shares() {
        let file = tempfile::tempfile().expect("a file");
        rustix::io::pwrite(&file, &[b'x'; PAGE_BYTES], 0).expect("its content");
        let direct = match reopened(&file, OFlags::RDONLY | OFlags::DIRECT) {
            Ok(direct) => direct,
            Err(errno) => return gush_test::skipped(&format!("no O_DIRECT: {errno}")),
        };
        let direct = match shows_later_write(&file, direct.as_fd()) {
            Ok(shows) => shows,
            Err(errno) => return gush_test::skipped(&format!("no splice with O_DIRECT: {errno}")),
        };
        assert!(!direct, "O_DIRECT copies");
        if shows_later_write(&file, file.as_fd()) == Ok(false) {
            gush_test::skipped("a splice from any file copies on this kernel");
        }
    }
}
