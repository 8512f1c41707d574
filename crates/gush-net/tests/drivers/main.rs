//! One table of moves through every driver: the same bytes, the same account, the same end.
//!
//! A flow decides about bytes and a driver about waiting, so the outcome must be the same with
//! every driver: the blocking `Mover`, a relay on tokio, one that is dropped at every poll, or a
//! hand that waits for edges alone. Where outcomes differ on purpose, [`Hand::row`] and
//! [`Account::agrees`] say why.

#[path = "../../../gush/tests/common/mod.rs"]
#[macro_use]
mod common;

#[path = "../common/halting.rs"]
mod halting;

mod account;
mod case;
mod edges;
mod hands;
mod stage;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use account::{Account, Fate};
use case::{Case, Scene, To};
use common::{SourceKind as S, TargetKind as T};
use gush::{Choice, Errno, MethodName, Side};
use hands::Hand;

/// Plays every row with every hand that can; each must come to the expected end, and all to the
/// same. Every day these are the rows of a sample, with every hand.
fn play(rows: impl IntoIterator<Item = Case>, at_least: usize) {
    let rows: Vec<Case> = rows.into_iter().collect();
    let hands = |row: &Case| Hand::ALL.into_iter().filter(|hand| hand.row(*row).is_some()).count();
    let moves: usize = rows.iter().map(hands).sum();
    assert!(moves >= at_least, "only {moves} moves");
    let pair = |Case { from, to, choice, .. }: &Case| format!("{from:?} to {to:?} {choice}");
    let mut most_bytes: HashMap<String, usize> = HashMap::new();
    for row in &rows {
        let most = most_bytes.entry(pair(row)).or_default();
        *most = row.bytes.max(*most);
    }
    let rows = gush_test::sampled(rows, "rows", |row| {
        let Case { from, to, scene, bytes, limit, choice, .. } = row;
        let rest = format!("{scene:?} {bytes} {limit:?} {choice}");
        let mut keys = vec![format!("{from:?} {rest}"), format!("{to:?} {rest}")];
        // Two kinds meet with as many bytes as they ever do: a row without bytes says little about
        // the two.
        keys.extend((most_bytes[&pair(row)] == *bytes).then(|| pair(row)));
        keys
    });
    let expected: usize = rows.iter().map(hands).sum();
    // Each that hangs takes its time, so after some the rest is left.
    let failures = AtomicUsize::new(0);
    let outcomes = gush_test::side_by_side(rows, |row| {
        if failures.load(Ordering::Relaxed) >= 10 {
            return (0, String::new());
        }
        let (played, wrong) = play_by_all(&row);
        failures.fetch_add(wrong.lines().count(), Ordering::Relaxed);
        (played, wrong)
    });
    let played: usize = outcomes.iter().map(|(played, _)| played).sum();
    let wrong: String = outcomes.into_iter().map(|(_, wrong)| wrong).collect();
    assert!(wrong.is_empty(), "of {played} moves:\n{wrong}");
    assert_eq!(played, expected, "moves were left out");
}

/// Plays one row with every hand that can: the number of moves, and a line for each that went
/// wrong.
fn play_by_all(row: &Case) -> (usize, String) {
    let (mut wrong, mut played) = (String::new(), 0);
    let mut first: Option<(Hand, Account)> = None;
    for hand in Hand::ALL {
        let Some(case) = hand.row(*row) else { continue };
        played += 1;
        let judged = hands::outcome(case, hand).and_then(|account| {
            account.check(&case)?;
            // Refused by this hand alone: there is nothing to compare.
            if case.fate != row.fate {
                return Ok(());
            }
            let (other, before) = *first.get_or_insert((hand, account));
            let same_road = other.road(row) == hand.road(row);
            match before.agrees(&account, row, same_road) {
                true => Ok(()),
                false => Err(format!("{account:?}, and by {other:?} {before:?}")),
            }
        });
        if let Err(why) = judged {
            writeln!(wrong, "{row} by {hand:?}: {why}").expect("a string");
        }
    }
    (played, wrong)
}

/// More than a pipe of 1 MiB holds: each of its 256 slots can refer to 32 KiB of a socket's memory.
const MUCH_BYTES: usize = (9 << 20) + 13;

const SOURCES: [S; 10] = [
    S::File,
    S::Tmpfs,
    S::Pipe,
    S::Fifo,
    S::UnixStream,
    S::Tcp,
    S::Seqpacket,
    S::UnixDatagram,
    S::Udp,
    S::Terminal,
];

const TARGETS: [T; 11] = [
    T::File,
    T::Append,
    T::Pipe,
    T::Fifo,
    T::UnixStream,
    T::Tcp,
    T::Seqpacket,
    T::UnixDatagram,
    T::Udp,
    T::Terminal,
    T::Null,
];

fn pairs() -> impl Iterator<Item = (S, T)> {
    SOURCES.into_iter().flat_map(|from| TARGETS.into_iter().map(move |to| (from, to)))
}

fn whole(from: S, to: T, bytes: usize) -> Case {
    let end = Fate::Proven;
    let limit = (!from.ends()).then_some(bytes as u64);
    Case { limit, ..Case::new(from, To::Kind(to), Scene::Whole, bytes, end) }
}

#[test]
fn everything_arrives_between_any_two_ends() {
    let cases = pairs().flat_map(|(from, to)| {
        let most = from.most_bytes().min(to.most_bytes());
        // Nothing, a byte, within a page, the bound of short messages, and more than a pipe.
        let sizes = [0, 1, 1000, 16 << 10, 300_007];
        sizes
            .into_iter()
            .filter(move |&bytes| bytes <= most)
            .map(move |bytes| whole(from, to, bytes))
    });
    play(cases, 2000);
}

#[test]
fn everything_arrives_by_a_method_that_was_named() {
    let kinds = [T::File, T::Pipe, T::UnixStream, T::Tcp];
    let sources = [S::File, S::Pipe, S::UnixStream, S::Tcp];
    let cases = sources.into_iter().flat_map(|from| kinds.map(|to| (from, to)));
    let cases = cases.flat_map(|pair| {
        [MethodName::Splice, MethodName::ReadWrite].map(|method| (pair, Choice::Only(method)))
    });
    let cases = cases.flat_map(|((from, to), choice)| {
        [0, 1, 5000, 300_007].map(|bytes| Case { choice, ..whole(from, to, bytes) })
    });
    play(cases, 500);
}

/// More than any pipe or socket holds, and a reader that begins once the feeder can write no more.
#[test]
fn a_target_that_was_full_takes_the_rest() {
    let sources = [S::File, S::Pipe, S::Fifo, S::UnixStream, S::Tcp, S::Seqpacket];
    let targets = [T::Pipe, T::Fifo, T::UnixStream, T::Tcp, T::Seqpacket, T::UnixDatagram];
    let cases = sources.into_iter().flat_map(|from| targets.map(|to| (from, to)));
    let cases =
        cases.map(|(from, to)| Case { scene: Scene::Stuffed, ..whole(from, to, MUCH_BYTES) });
    play(cases, 200);
    let slow = [S::Pipe, S::Tcp].map(|from| Case {
        scene: Scene::Stuffed,
        ..whole(from, T::Terminal, T::Terminal.most_bytes())
    });
    play(slow, 10);
}

/// The second half is sent once the first has arrived: nobody may wait for more before delivering.
#[test]
fn a_source_that_pauses_is_waited_for_and_its_end_is_the_end() {
    let sources = [
        S::Pipe,
        S::Fifo,
        S::UnixStream,
        S::Tcp,
        S::Seqpacket,
        S::UnixDatagram,
        S::Udp,
        S::Terminal,
    ];
    let targets = [T::Pipe, T::Fifo, T::UnixStream, T::Tcp, T::Seqpacket, T::Terminal];
    let cases = sources.into_iter().flat_map(|from| targets.map(|to| (from, to)));
    let cases = cases.flat_map(|(from, to)| {
        [2, 40_000].map(|bytes| Case { scene: Scene::Pause, ..whole(from, to, bytes) })
    });
    play(cases, 300);
}

/// Two bytes are one before the mark and one after it: each call by reference ends at the mark, and
/// the read that checks for the end takes the last byte.
#[test]
fn an_urgent_byte_is_no_part_of_the_stream_unless_it_was_asked_for_in_line() {
    let targets = [T::File, T::Pipe, T::UnixStream, T::Tcp, T::UnixDatagram];
    let scenes = [false, true].map(|in_line| Scene::Urgent { in_line });
    let splice = Choice::Only(MethodName::Splice);
    let cases = targets.into_iter().flat_map(|to| scenes.map(|scene| (to, scene)));
    let cases = cases.flat_map(|(to, scene)| {
        let choices = [Choice::Auto, splice].into_iter();
        // A stream's pieces become datagrams by read and write alone.
        let choices =
            choices.filter(move |&choice| choice == Choice::Auto || to != T::UnixDatagram);
        choices.flat_map(move |choice| {
            [2, 5000, 60_000].map(|bytes| Case { scene, choice, ..whole(S::Tcp, to, bytes) })
        })
    });
    play(cases, 300);
}

#[test]
fn a_length_cuts_where_it_says() {
    let sources = [S::File, S::Tmpfs, S::Pipe, S::UnixStream, S::Tcp];
    let targets = [T::File, T::Pipe, T::UnixStream, T::Tcp, T::Null];
    let cases = sources.into_iter().flat_map(|from| targets.map(|to| (from, to)));
    let cases = cases.flat_map(|(from, to)| {
        let lengths =
            [(0, 10), (1, 10), (9, 10), (10, 10), (11, 10), (4096, 50_000), (49_999, 50_000)];
        lengths.map(|(limit, bytes)| {
            let end = if limit > bytes { Fate::Proven } else { Fate::Limit };
            let limit = Some(limit as u64);
            Case { limit, ..Case::new(from, To::Kind(to), Scene::Whole, bytes, end) }
        })
    });
    play(cases, 500);
}

/// Messages have 1400 bytes here: the rest of the length is less than the next message.
#[test]
fn a_length_cuts_no_datagram() {
    let sources = [S::Seqpacket, S::UnixDatagram, S::Udp];
    let targets = [T::File, T::Pipe, T::UnixStream, T::UnixDatagram, T::Seqpacket];
    let cases = sources.into_iter().flat_map(|from| targets.map(|to| (from, to)));
    let cases = cases.map(|(from, to)| Case {
        limit: Some(3000),
        delivers: Some(2800),
        ..Case::new(
            from,
            To::Kind(to),
            Scene::Whole,
            7000,
            Fate::Failed(Side::Source, Errno::MSGSIZE),
        )
    });
    play(cases, 40);
}

#[test]
fn empty_datagrams_are_datagrams_and_no_end() {
    let cases = [S::UnixDatagram, S::Udp].into_iter().flat_map(|from| {
        [T::UnixDatagram, T::Udp, T::Pipe, T::UnixStream, T::Seqpacket, T::File]
            .map(|to| Case { scene: Scene::Empties, ..whole(from, to, 5000) })
    });
    play(cases, 40);
}

#[test]
fn a_peer_that_resets_is_an_error_of_the_source_after_its_last_byte() {
    let targets = [T::File, T::Pipe, T::UnixStream, T::Tcp, T::Seqpacket, T::Null];
    let cases = targets.into_iter().flat_map(|to| {
        [0, 1, 40_000].map(|bytes| {
            let end = Fate::Failed(Side::Source, Errno::CONNRESET);
            Case {
                delivers: Some(bytes),
                ..Case::new(S::Tcp, To::Kind(to), Scene::Reset, bytes, end)
            }
        })
    });
    play(cases, 100);
}

#[test]
fn a_reader_that_has_gone_is_an_error_of_the_target() {
    let sources = [S::File, S::Pipe, S::Fifo, S::UnixStream, S::Tcp, S::Seqpacket];
    let targets = [
        (T::Pipe, Errno::PIPE),
        (T::Fifo, Errno::PIPE),
        (T::UnixStream, Errno::PIPE),
        (T::Tcp, Errno::CONNRESET),
        (T::Seqpacket, Errno::PIPE),
        (T::UnixDatagram, Errno::CONNREFUSED),
        // The master was closed (pty(7)).
        (T::Terminal, Errno::IO),
    ];
    let cases = sources.into_iter().flat_map(|from| targets.map(|to| (from, to)));
    let cases = cases.flat_map(|(from, (to, errno))| {
        [1, 1000, 60_000].map(|bytes| {
            let end = Fate::Failed(Side::Target, errno);
            Case { delivers: Some(0), ..Case::new(from, To::Kind(to), Scene::NoReader, bytes, end) }
        })
    });
    play(cases, 500);
}

/// splice(2) answers EPIPE before looking at the source; a `read` would have found the end.
#[test]
fn where_nothing_is_to_be_moved_nobody_need_read() {
    let sources = [S::File, S::Pipe, S::Fifo, S::UnixStream, S::Tcp, S::Seqpacket];
    let targets = [T::Pipe, T::Fifo, T::UnixStream, T::Seqpacket, T::UnixDatagram]
        .map(|to| (to, Fate::Proven));
    let cases = sources.into_iter().flat_map(|from| targets.map(|(to, end)| (from, to, end)));
    let cases = cases.map(|(from, to, end)| Case {
        delivers: Some(0),
        ..Case::new(from, To::Kind(to), Scene::NoReader, 0, end)
    });
    play(cases, 100);
    let named = [S::File, S::Pipe, S::UnixStream].map(|from| Case {
        delivers: Some(0),
        choice: Choice::Only(MethodName::Splice),
        ..Case::new(from, To::Kind(T::Pipe), Scene::NoReader, 0, Fate::Proven)
    });
    play(named, 10);
}

#[test]
fn a_reader_that_goes_in_the_middle_leaves_every_byte_accounted_for() {
    let sources = [S::File, S::Pipe, S::UnixStream, S::Tcp, S::Seqpacket];
    let cases = sources.into_iter().flat_map(|from| {
        [T::Pipe, T::Fifo].map(|to| {
            let end = Fate::Failed(Side::Target, Errno::PIPE);
            Case::new(from, To::Kind(to), Scene::Leaves, MUCH_BYTES, end)
        })
    });
    play(cases, 50);
}

#[test]
fn a_full_device_takes_nothing() {
    let sources = [S::File, S::Pipe, S::Fifo, S::UnixStream, S::Tcp, S::Seqpacket];
    let cases = sources.into_iter().flat_map(|from| {
        [1, 1000, 60_000].map(|bytes| {
            let end = Fate::Failed(Side::Target, Errno::NOSPC);
            Case { delivers: Some(0), ..Case::new(from, To::Full, Scene::Whole, bytes, end) }
        })
    });
    play(cases, 80);
}

#[test]
fn a_full_file_system_takes_what_it_has_room_for() {
    if stage::small_file_system().is_none() {
        skip!("a file system of its own needs root");
    }
    let sources = [S::File, S::Pipe, S::Fifo, S::UnixStream, S::Tcp, S::Seqpacket];
    let cases = sources.into_iter().map(|from| {
        let end = Fate::Failed(Side::Target, Errno::NOSPC);
        let delivers = Some(stage::ROOM_BYTES);
        Case { delivers, ..Case::new(from, To::Room, Scene::Whole, 200_003, end) }
    });
    play(cases, 30);
}
