//! A receiver whose sender is hostile, and the other way round: nothing is made outside the target,
//! and a session that makes no sense ends.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use gush_test as _;
use gush_tree::remote::EntryMetadata;
use gush_tree::{CopyOptions, Done, Error as TreeError, Events, ModeRule, Preserve, Update};
use gush_wire::frame::{Input, Output};
use gush_wire::record::{
    BASE, Hello, Item, Outcome, Rules, ToReceiver, ToSender, Token, VERSION, WINDOW, Wish,
};
use gush_wire::{Error, Request, Streams, Transport};

fn pipe() -> (File, File) {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (File::from(from), File::from(to))
}

fn request<'a>(sources: &'a [&'a Path], target: &'a Path) -> Request<'a> {
    Request::new(sources, target, OsStr::new("h:"))
}

/// The other side broke the protocol in this way, and was told if it is the user's.
fn breaks<T: fmt::Debug>(ended: &Result<T, Error>, how: &str, what: &str) {
    let is_right = matches!(
        ended,
        Err(Error::Protocol(why)) | Err(Error::Refused(why)) if why.contains(how)
    );
    assert!(is_right, "{what}: {ended:?} and not {how:?}");
}

const ONE: Streams = Streams::Exactly(1);
const TOKEN: Token = Token { socket: 1, secret: [0; 16] };

fn begin(target: &Path) -> ToReceiver {
    begin_by(target, Rules::default())
}

fn begin_by(target: &Path, rules: Rules) -> ToReceiver {
    ToReceiver::Begin {
        target: target.to_str().unwrap().into(),
        is_exact: false,
        is_directory: true,
        rules,
    }
}

const BEGUN: ToSender = ToSender::Begun { is_exact: false };

/// The end of a copy of nothing to a receiver that says this at once.
fn send_to(hello: Hello, answers: &[ToSender]) -> Result<bool, Error> {
    let ((input, to), (_from, output)) = (pipe(), pipe());
    let mut receiver = Output::new(to);
    receiver.record(&hello).unwrap();
    answers.iter().for_each(|answer| assert!(receiver.record(answer).unwrap()));
    receiver.flush().unwrap();
    let request = request(&[], Path::new("t"));
    gush_wire::send(&request, &CopyOptions::default(), (input, output), (&(), ONE), &mut ())
}

/// Sends these records to a receiver whose target is `dir/target`, and closes the stream.
fn receive(dir: &Path, records: &[ToReceiver], then: &[u8]) -> (Result<(), Error>, Vec<ToSender>) {
    receive_all(dir, records.iter().cloned(), then)
}

fn receive_all(
    dir: &Path,
    records: impl Iterator<Item = ToReceiver>,
    then: &[u8],
) -> (Result<(), Error>, Vec<ToSender>) {
    receive_by(Rules::default(), dir, records, then)
}

fn receive_by(
    rules: Rules,
    dir: &Path,
    records: impl Iterator<Item = ToReceiver>,
    then: &[u8],
) -> (Result<(), Error>, Vec<ToSender>) {
    let target = dir.join("target");
    if !target.exists() {
        std::fs::create_dir(&target).unwrap();
    }
    let ((input, to), (from, output)) = (pipe(), pipe());
    let receiver = thread::spawn(move || gush_wire::serve(input, output));
    let answers = thread::spawn(move || {
        let mut input = Input::new(from);
        let _: Hello = input.record().unwrap();
        let answers = std::iter::from_fn(|| input.record().ok());
        answers.filter(|answer| !matches!(answer, ToSender::Begun { .. })).collect()
    });
    let mut sender = Output::new(to.try_clone().unwrap());
    let send = || -> Result<(), Error> {
        sender.record(&Hello::OURS)?;
        sender.record(&begin_by(&target, rules))?;
        for record in records {
            sender.record(&record)?;
            if let ToReceiver::Data { length, .. } = record {
                sender.data(&vec![b'x'; length.min(1 << 20) as usize])?;
            }
        }
        sender.flush()
    };
    // A receiver that has ended closes the stream.
    let _ = send();
    let _ = std::io::Write::write_all(&mut &to, then);
    drop((sender, to));
    (receiver.join().unwrap(), answers.join().unwrap())
}

fn file(name: &str, size_bytes: u64) -> ToReceiver {
    let metadata = EntryMetadata { mode: 0o100_644, size_bytes, ..EntryMetadata::default() };
    sent(Item { id: 1, folder: BASE, name: name.into(), metadata, has_names: false })
}

fn sent(item: Item) -> ToReceiver {
    ToReceiver::File { item, resumes: None }
}

fn file_in(folder: u64, id: u64, name: &str) -> ToReceiver {
    let metadata = EntryMetadata { mode: 0o100_644, ..EntryMetadata::default() };
    sent(Item { id, folder, name: name.into(), metadata, has_names: false })
}

fn directory(id: u64, name: &str) -> ToReceiver {
    directory_in(id - 1, id, name)
}

fn directory_in(folder: u64, id: u64, name: &str) -> ToReceiver {
    let metadata = EntryMetadata { mode: 0o040_755, ..EntryMetadata::default() };
    ToReceiver::Enter { id, folder, name: name.into(), metadata, within: Vec::new(), mounted: None }
}

fn data(offset: u64, length: u32) -> ToReceiver {
    ToReceiver::Data { id: 1, offset, length, hole_bytes: 0 }
}

fn end(sent_bytes: u64) -> ToReceiver {
    ToReceiver::End { id: 1, sent_bytes, digest: None }
}

fn leave(id: u64, entries: u64) -> ToReceiver {
    ToReceiver::Leave { id, entries, is_listed: true }
}

fn operand(number: u32, name: &str) -> ToReceiver {
    ToReceiver::Operand { number, name: name.into() }
}

fn finish(entries: u64) -> ToReceiver {
    ToReceiver::Finish { entries }
}

#[test]
fn a_file_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let records = [file("a", 3), data(0, 3), end(3), finish(1)];
    let (ended, answers) = receive(dir.path(), &records, &[]);
    ended.unwrap();
    assert_eq!(answers, [ToSender::Done { id: 1, outcome: Outcome::Made }, ToSender::Finished]);
    assert_eq!(std::fs::read(dir.path().join("target/a")).unwrap(), b"xxx");
}

#[test]
fn no_name_leads_out_of_the_target() {
    for name in ["..", ".", "", "/etc/x", "a/b", "../x", "a\0b", &"n".repeat(256)] {
        let dir = tempfile::tempdir().unwrap();
        for records in [
            [file(name, 0), end(0), finish(1)],
            // `.` is the content of the target.
            [directory(1, if name == "." { "/" } else { name }), leave(1, 0), finish(1)],
            [directory(1, "."), directory(2, name), leave(2, 0)],
            [directory(1, "."), file_in(1, 2, name), leave(1, 1)],
        ] {
            let (ended, _) = receive(dir.path(), &records, &[]);
            breaks(&ended, "a name is no name of an entry", name);
        }
        assert_eq!(std::fs::read_dir(dir.path().join("target")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn no_symbolic_link_of_the_target_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [outside, target] = ["outside", "target"].map(|name| dir.path().join(name));
    for made in [&outside, &target] {
        std::fs::create_dir(made).unwrap();
    }
    std::fs::write(outside.join("file"), "guarded").unwrap();
    symlink("../outside", target.join("to-dir")).unwrap();
    symlink("../outside/file", target.join("to-file")).unwrap();
    let records = [
        directory(1, "to-dir"),
        file_in(1, 2, "file"),
        ToReceiver::End { id: 2, sent_bytes: 0, digest: None },
        leave(1, 1),
        file("to-file", 1),
        data(0, 1),
        end(1),
        finish(2),
    ];
    let (ended, answers) = receive(dir.path(), &records, &[]);
    ended.unwrap();
    assert!(
        matches!(&answers[0], ToSender::Failed { id: 1, why } if why.text.contains("non-directory"))
    );
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"guarded");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read(target.join("to-file")).unwrap(), b"x");
}

#[test]
fn records_out_of_place_end_the_session_and_leave_no_file() {
    let huge = u64::MAX - 1;
    let link = |first| ToReceiver::Link {
        id: 9,
        folder: BASE,
        name: "l".into(),
        metadata: EntryMetadata::default(),
        first,
    };
    let broken = ToReceiver::Broken { id: 1, sent_bytes: 2 };
    let missing =
        |folder| ToReceiver::Unreadable { id: 5, folder, name: "u".into(), has_names: false };
    let problem = ToReceiver::Problem {
        path: "p".into(),
        target: "t".into(),
        why: "p".into(),
        is_warning: false,
    };
    let cases: [(&str, &str, Vec<ToReceiver>); 28] = [
        (
            "an invitation, to open streams",
            "Invitation is out",
            vec![ToReceiver::Invitation(TOKEN)],
        ),
        (
            "a source that nobody here has asked for",
            "Operand is out of place",
            vec![operand(0, "a")],
        ),
        ("a problem that nobody here is shown", "Problem is out of place", vec![problem]),
        (
            "a second request, to send",
            "a record is out of place",
            vec![ToReceiver::Send(Wish::default())],
        ),
        ("a further name of nothing", "a further name is out of place", vec![link(7), finish(1)]),
        (
            "data beyond the file",
            "data lies outside its file",
            vec![file("a", 3), data(1, 3), end(3)],
        ),
        (
            "an offset that wraps",
            "data lies outside its file",
            vec![file("a", huge), data(huge, 8), end(8)],
        ),
        (
            "a frame too long",
            "data lies outside its file",
            vec![file("a", 1 << 60), data(0, u32::MAX), end(1)],
        ),
        (
            "more data than the size",
            "more data than its size",
            vec![file("a", 3), data(0, 3), data(0, 1), end(4)],
        ),
        ("less sent than came", "more data than was sent", vec![file("a", 3), data(0, 3), end(2)]),
        (
            "more sent than came",
            "less has come than was counted",
            vec![file("a", 3), data(0, 3), end(4), finish(1)],
        ),
        (
            "a broken file that is not all there",
            "more data than was sent",
            vec![file("a", 3), data(0, 3), broken, finish(1)],
        ),
        (
            "two ends of a file",
            "the second end of a file",
            vec![file("a", 3), data(0, 2), end(3), end(3)],
        ),
        ("a file twice", "a file announced twice", vec![file("a", 3), file("a", 3)]),
        (
            "a file in an unknown directory",
            "an unknown directory",
            vec![file_in(7, 1, "a"), end(0)],
        ),
        ("a missing entry of an unknown directory", "an unknown directory", vec![missing(7)]),
        (
            "more entries than were counted",
            "more has come than",
            vec![directory(1, "d"), missing(1), leave(1, 0)],
        ),
        (
            "fewer entries than were counted",
            "less has come than",
            vec![directory(1, "d"), leave(1, 1), finish(1)],
        ),
        (
            "fewer operands than were counted",
            "less has come than",
            vec![file("b", 0), end(0), finish(2)],
        ),
        ("Leave of the base", "Leave is out of place", vec![leave(BASE, 0)]),
        (
            "Leave of another directory",
            "Leave is out of place",
            vec![directory(1, "d"), leave(2, 0)],
        ),
        ("the end of no file", "data of an unknown file", vec![end(0)]),
        ("a second request", "a record is out of place", vec![begin(Path::new("/"))]),
        (
            "a stream that nobody has opened",
            "a stream that has not joined",
            vec![ToReceiver::Uses { number: 1 }],
        ),
        ("the end of a further stream", "a record is out of place", vec![ToReceiver::Close]),
        (
            "a refusal of what nobody here has asked for",
            "a record is out of place",
            vec![ToReceiver::Refused("no".into())],
        ),
        ("the end in a directory", "Leave is out of place", vec![directory(1, "d"), finish(1)]),
        ("a directory twice", "Enter is out of place", vec![directory(1, "d"), directory(1, "e")]),
    ];
    for (what, how, records) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (ended, _) = receive(dir.path(), &records, &[]);
        breaks(&ended, how, what);
        assert!(!dir.path().join("target/a").exists(), "{what}");
    }
}

/// The user is at the sender, and reads there what the receiver says.
#[test]
fn a_sender_that_breaks_the_protocol_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let (ended, answers) = receive(dir.path(), &[file("f", 4), data(3, 2)], b"");
    let why = "the other side broke the protocol: data lies outside its file";
    assert_eq!(answers, [ToSender::Refused(why.into())]);
    assert!(ended.unwrap_err().is_known_there());
}

#[test]
fn text_shorter_than_a_header_is_refused_while_the_stream_stays_open() {
    let ((input, mut to), (_from, output)) = (pipe(), pipe());
    std::io::Write::write_all(&mut to, b"Welcome!\n").unwrap();
    let ended = gush_wire::serve(input, output);
    assert!(matches!(&ended, Err(Error::Greeting(came)) if came == "'Welcome!'"), "{ended:?}");
}

/// The sender's words about a file of three bytes with this mode: a question, or that it is the
/// same.
fn about(name: &str, bits: u32, is_question: bool) -> ToReceiver {
    let (id, folder, name, has_names) = (1, BASE, name.into(), false);
    let metadata =
        EntryMetadata { mode: 0o100_000 | bits, size_bytes: 3, ..EntryMetadata::default() };
    let item = Item { id, folder, name, metadata, has_names };
    match is_question {
        true => ToReceiver::Ask(item),
        false => ToReceiver::Compared { item, is_same: true },
    }
}

/// The answers in a copy that compares bytes, to a target `a` that is there with another name.
fn receive_compared(dir: &Path, records: &[ToReceiver]) -> (Result<(), Error>, Vec<ToSender>) {
    let [target, snapshot] = ["target/a", "snapshot"].map(|name| dir.join(name));
    std::fs::create_dir(dir.join("target")).unwrap();
    std::fs::write(&target, "xxx").unwrap();
    std::fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
    std::fs::hard_link(target, &snapshot).unwrap();
    let preserve = Preserve { mode: ModeRule::Keep, ..Preserve::default() };
    let rules = Rules { preserve, update: Update::Different, ..Rules::default() };
    let received = receive_by(rules, dir, records.iter().cloned(), &[]);
    assert_eq!(std::fs::metadata(snapshot).unwrap().mode() & 0o777, 0o644, "{received:?}");
    received
}

#[test]
fn only_the_answer_to_a_question_sets_attributes() {
    for records in [
        vec![about("a", 0o600, false)],
        vec![about("a", 0o644, true), about("b", 0o600, false)],
        vec![about("a", 0o644, true), file("a", 3), about("a", 0o600, false)],
        vec![about("a", 0o644, true), about("a", 0o644, false), about("a", 0o600, false)],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (ended, _) = receive_compared(dir.path(), &records);
        breaks(&ended, "Compared is out of place", &format!("{records:?}"));
    }
}

/// The source has got other attributes since the question, which all names would show.
#[test]
fn a_file_with_other_names_is_wanted_after_a_comparison() {
    let dir = tempfile::tempdir().unwrap();
    let records = [about("a", 0o644, true), about("a", 0o600, false), finish(1)];
    let (_, answers) = receive_compared(dir.path(), &records);
    assert!(matches!(
        answers[..],
        [ToSender::Compare { id: 1, .. }, ToSender::Wanted { id: 1 }, ..]
    ));
}

#[test]
fn a_file_that_is_wanted_after_a_comparison_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("f");
    std::fs::write(&source, "xxx").unwrap();
    let digest = gush::digest_of(&File::open(&source).unwrap()).unwrap().to_string();
    let ((input, to), (from, output)) = (pipe(), pipe());
    let receiver = thread::spawn(move || {
        let (mut input, mut output) = (Input::new(from), Output::new(to));
        output.record(&Hello::OURS).unwrap();
        output.flush().unwrap();
        let _: Hello = input.record().unwrap();
        let mut says = |answer: &ToSender| {
            output.record(answer).unwrap();
            output.flush().unwrap();
        };
        says(&BEGUN);
        let mut came_bytes = 0;
        loop {
            match input.record().unwrap() {
                ToReceiver::Ask(Item { id, .. }) => {
                    says(&ToSender::Compare { id, digest: digest.clone() });
                }
                ToReceiver::Compared { item: Item { id, .. }, is_same: true } => {
                    says(&ToSender::Wanted { id });
                }
                ToReceiver::Data { length, .. } => {
                    input.data(length as usize, None, None).unwrap().unwrap();
                    came_bytes += length;
                }
                ToReceiver::End { id, .. } => {
                    says(&ToSender::Done { id, outcome: Outcome::Made });
                }
                ToReceiver::Finish { .. } => break says(&ToSender::Finished),
                _ => {}
            }
        }
        came_bytes
    });
    let sources = [source.as_path()];
    let request = request(&sources, Path::new("t"));
    let mut options = CopyOptions::default();
    options.update = Update::Different;
    let sent = gush_wire::send(&request, &options, (input, output), (&(), ONE), &mut ());
    assert!(matches!(sent, Ok(true)), "{sent:?}");
    assert_eq!(receiver.join().unwrap(), 3);
}

#[test]
fn a_session_cut_short_leaves_no_half_file() {
    let dir = tempfile::tempdir().unwrap();
    let (ended, _) = receive(dir.path(), &[file("a", 9), data(0, 3)], &[1, 2, 3]);
    assert!(matches!(ended, Err(Error::Ended)), "{ended:?}");
    assert_eq!(std::fs::read_dir(dir.path().join("target")).unwrap().count(), 0);
}

#[test]
fn directories_are_not_nested_without_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let name = "n".repeat(250);
    let records: Vec<_> = (1..200).map(|id| directory(id, &name)).collect();
    let (ended, _) = receive(dir.path(), &records, b"");
    breaks(&ended, "a path is longer than 32 KiB", "250 bytes a level");
}

/// Nothing of what these announce ever ends, and each takes memory.
#[test]
fn what_is_kept_of_the_unfinished_is_bounded() {
    // Two bytes each in a record.
    let attributes = vec![(Vec::new(), Vec::new()); 400_000];
    let large = EntryMetadata { attributes, ..EntryMetadata::default() };
    let file = |id, has_names| {
        let metadata = EntryMetadata { mode: 0o100_644, ..large.clone() };
        sent(Item { id, folder: BASE, name: "f".into(), metadata, has_names })
    };
    let link = |id| ToReceiver::Link {
        id,
        folder: BASE,
        name: "l".into(),
        metadata: large.clone(),
        first: 1,
    };
    let enter = |id| ToReceiver::Enter {
        id,
        folder: id - 1,
        name: "d".into(),
        metadata: EntryMetadata { mode: 0o040_755, ..large.clone() },
        within: Vec::new(),
        mounted: None,
    };
    let kinds: [&dyn Fn(u64) -> ToReceiver; 3] = [&|id| file(id, false), &link, &enter];
    for (kind, make) in kinds.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let records = (1..40).map(|id| if kind == 1 && id == 1 { file(1, true) } else { make(id) });
        let (ended, _) = receive_all(dir.path(), records, &[]);
        breaks(&ended, "too much is under way at once", &kind.to_string());
    }
}

#[test]
fn rules_and_marks_are_bounded() {
    let ignore = ToReceiver::Ignore { lines: b"n\n".repeat(300_000) };
    let mirror = Rules { is_mirror: true, resumes: true, ..Rules::default() };
    let ignores = (1..3000)
        .flat_map(|id| [directory_in(BASE, id, &id.to_string()), ignore.clone(), leave(id, 0)]);
    let metadata =
        EntryMetadata { mode: 0o100_644, size_bytes: 1 << 62, ..EntryMetadata::default() };
    let resumes = (1..3000).map(|id: u64| {
        let (name, metadata) = (id.to_string().into(), metadata.clone());
        let item = Item { id, folder: BASE, name, metadata, has_names: false };
        ToReceiver::File { item, resumes: Some(Vec::new()) }
    });
    let roots = |are_mounts: bool| {
        (1..3000).flat_map(move |id| {
            let mut root = directory_in(BASE, id, &id.to_string());
            if let ToReceiver::Enter { within, mounted, .. } = &mut root {
                let roots = if are_mounts { mounted.insert(Vec::new()) } else { within };
                *roots = vec![1; 1_000_000];
            }
            [root, leave(id, 0)]
        })
    };
    let cases: [(&str, Box<dyn Iterator<Item = ToReceiver>>); 4] = [
        ("rules", Box::new(ignores)),
        ("marks", Box::new(resumes)),
        ("roots", Box::new(roots(false))),
        ("mounts", Box::new(roots(true))),
    ];
    for (what, records) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (ended, _) = receive_by(mirror.clone(), dir.path(), records, &[]);
        breaks(&ended, "too much is under way at once", what);
    }
    let dir = tempfile::tempdir().unwrap();
    let (ended, _) = receive(dir.path(), &[directory(1, "d"), ignore], &[]);
    breaks(&ended, "Ignore is out of place", "no mirror");
}

#[test]
fn another_version_is_refused_by_both_sides() {
    let other = Hello { version: VERSION + 1, ..Hello::OURS };
    let ((input, to), (_from, output)) = (pipe(), pipe());
    let mut sender = Output::new(to);
    sender.record(&other).unwrap();
    sender.flush().unwrap();
    let ended = gush_wire::serve(input, output);
    assert!(matches!(ended, Err(Error::Version { theirs, .. }) if theirs == VERSION + 1));

    let ended = send_to(other, &[]);
    assert!(matches!(ended, Err(Error::Version { .. })), "{ended:?}");
}

/// Closes the other end of the stream, as a command that ends does.
struct Closing(Mutex<Option<File>>);

impl Transport for Closing {
    fn end(&self) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn an_end_before_all_is_sent_is_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    // More than the pipe and the buffer hold, so that nothing but the answer ends the session.
    std::fs::write(&file, vec![1; 8 << 20]).unwrap();
    let ((input, to), (from, output)) = (pipe(), pipe());
    let mut receiver = Output::new(to);
    receiver.record(&Hello::OURS).unwrap();
    receiver.record(&BEGUN).unwrap();
    receiver.record(&ToSender::Finished).unwrap();
    receiver.flush().unwrap();
    let sources = [file.as_path()];
    let request = request(&sources, Path::new("t"));
    let closing = Closing(Mutex::new(Some(from)));
    let options = CopyOptions::default();
    let ended = gush_wire::send(&request, &options, (input, output), (&closing, ONE), &mut ());
    breaks(&ended, "it has finished without all answers", "the end");
}

#[test]
fn answers_about_entries_that_were_not_sent_end_the_session() {
    let done = ToSender::Done { id: 1 << 60, outcome: Outcome::Made };
    let ended = send_to(Hello::OURS, &[BEGUN, done]);
    breaks(&ended, "it answers entry 1152921504606846976, which was not sent", "");
}

#[test]
fn a_receiver_begins_once_and_first() {
    breaks(&send_to(Hello::OURS, &[BEGUN, BEGUN]), "it has begun twice", "twice");
    for answer in [
        ToSender::Done { id: 1, outcome: Outcome::Made },
        ToSender::Failed { id: 1, why: "no".into() },
        ToSender::Finished,
    ] {
        let what = format!("{answer:?}");
        breaks(&send_to(Hello::OURS, &[answer]), "it answers before it has begun", &what);
    }
}

/// More directories are entered before the first one is left than answers are awaited.
#[test]
fn a_tree_that_is_deeper_than_the_window_is_sent() {
    use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
    let dir = tempfile::tempdir().unwrap();
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut deepest = open(dir.path(), flags, Mode::empty()).unwrap();
    for _ in 0..WINDOW + 10 {
        mkdirat(&deepest, "d", Mode::RWXU).unwrap();
        deepest = openat(&deepest, "d", flags, Mode::empty()).unwrap();
    }
    let ((input, to), (from, output)) = (pipe(), pipe());
    let receiver = thread::spawn(move || {
        let (mut input, mut output) = (Input::new(from), Output::new(to));
        output.record(&Hello::OURS).unwrap();
        output.record(&BEGUN).unwrap();
        output.flush().unwrap();
        let _: Hello = input.record().unwrap();
        let mut entered = Vec::new();
        loop {
            match input.record().unwrap() {
                ToReceiver::Enter { id, .. } => entered.push(id),
                ToReceiver::Leave { .. } => {
                    let id = entered.pop().unwrap();
                    output.record(&ToSender::Done { id, outcome: Outcome::Made }).unwrap();
                }
                ToReceiver::Finish { .. } => break,
                _ => {}
            }
        }
        output.record(&ToSender::Finished).unwrap();
        output.flush().unwrap();
    });
    let source = dir.path().join("d");
    let sources = [source.as_path()];
    let request = request(&sources, Path::new("t"));
    let mut options = CopyOptions::default();
    options.recursive = true;
    let sent = gush_wire::send(&request, &options, (input, output), (&(), ONE), &mut ());
    assert!(matches!(sent, Ok(true)), "{sent:?}");
    receiver.join().unwrap();
}

#[test]
fn what_the_other_side_says_does_not_steer_the_terminal() {
    let ended = send_to(Hello::OURS, &[ToSender::Refused("no\x1b[2J".into())]);
    assert_eq!(ended.unwrap_err().to_string(), "no\u{fffd}[2J");
}

/// What a sender says to somebody who wants this.
fn ask_for(wish: Wish) -> (Result<(), Error>, Vec<ToReceiver>) {
    let ((input, to), (from, output)) = (pipe(), pipe());
    let mut asks = Output::new(to);
    asks.record(&Hello::OURS).unwrap();
    asks.record(&ToReceiver::Send(wish)).unwrap();
    asks.flush().unwrap();
    let serving = thread::spawn(move || gush_wire::serve(input, output));
    let mut input = Input::new(from);
    let _: Hello = input.record().unwrap();
    let said = std::iter::from_fn(|| input.record().ok()).collect();
    (serving.join().unwrap(), said)
}

#[test]
fn why_a_sender_ends_is_told_to_the_receiver() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".gitignore"), vec![b'n'; 2 << 20]).unwrap();
    let rules = |is_mirror, pattern: &str| {
        let filter = vec![(false, pattern.into())];
        Rules { is_mirror, filter, ..Rules::default() }
    };
    for (rules, why) in
        [(rules(false, ""), "matches no name"), (rules(true, "n"), "longer than 1 MiB")]
    {
        let sources = vec![dir.path().to_str().unwrap().into()];
        let wish = Wish { sources, rules, is_recursive: true, gitignore: true, ..Wish::default() };
        let (ended, said) = ask_for(wish);
        let is_told =
            |said: &ToReceiver| matches!(said, ToReceiver::Refused(text) if text.contains(why));
        assert!(said.last().is_some_and(is_told), "{why}: {said:?}");
        assert!(ended.unwrap_err().is_known_there(), "{why}");
    }
}

/// What a user who has asked for `sources` is shown.
#[derive(Default)]
struct Seen(Vec<String>);

impl Events for Seen {
    fn entry_ended(&mut self, source: &Path, _: &Path, result: &Result<Done, TreeError>) {
        let ended = result.as_ref().map_or_else(ToString::to_string, |_| "done".into());
        self.0.push(format!("{}: {ended}", source.display()));
    }
}

/// Asks a sender, which sends these records, for `sources` in the directory `target`.
fn pull(
    target: &Path,
    sources: &[&str],
    records: &[ToReceiver],
    seen: &mut Seen,
) -> (Result<bool, Error>, Wish) {
    pull_by(&CopyOptions::default(), target, sources, records, seen)
}

fn pull_by(
    options: &CopyOptions,
    target: &Path,
    sources: &[&str],
    records: &[ToReceiver],
    seen: &mut Seen,
) -> (Result<bool, Error>, Wish) {
    let ((from, output), (input, to)) = (pipe(), pipe());
    let records = records.to_vec();
    let sender = thread::spawn(move || {
        let (mut asked, mut sender) = (Input::new(from), Output::new(to));
        let _: Hello = asked.record().unwrap();
        let Ok(ToReceiver::Send(wish)) = asked.record() else { panic!("no wish") };
        let mut send = || -> Result<(), Error> {
            sender.record(&Hello::OURS)?;
            for record in &records {
                sender.record(record)?;
                if let ToReceiver::Data { length, .. } = record {
                    sender.data(&vec![b'x'; *length as usize])?;
                }
            }
            sender.flush()
        };
        // A receiver that has ended closes the stream.
        let _ = send();
        drop(sender);
        while asked.record::<ToSender>().is_ok() {}
        wish
    });
    let sources: Vec<&Path> = sources.iter().map(Path::new).collect();
    let request = Request { is_directory: true, ..request(&sources, target) };
    let received = gush_wire::receive(&request, options, (input, output), (&(), ONE), seen);
    (received, sender.join().unwrap())
}

#[test]
fn a_source_that_was_asked_for_comes() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    let records = [operand(0, "a"), file("a", 3), data(0, 3), end(3), finish(1)];
    let (received, wish) = pull(dir.path(), &["dir/a"], &records, &mut seen);
    assert!(received.unwrap());
    assert_eq!(wish.sources, [b"dir/a"]);
    assert_eq!(seen.0, ["h:dir/a: done"]);
    assert_eq!(std::fs::read(dir.path().join("a")).unwrap(), b"xxx");
}

#[test]
fn a_sender_makes_nothing_that_was_not_asked_for() {
    let begun = file("a", 1);
    let other = |mode| {
        let metadata = EntryMetadata { mode, link_text: "/etc".into(), ..EntryMetadata::default() };
        let name = "a".into();
        ToReceiver::Other(Item { id: 1, folder: BASE, name, metadata, has_names: false })
    };
    let cases: [(&str, &str, Vec<ToReceiver>); 17] = [
        (
            "an invitation, where one stream is enough",
            "Invitation is out",
            vec![ToReceiver::Invitation(TOKEN)],
        ),
        (
            "the content of the target",
            "not asked for",
            vec![operand(0, "."), directory(1, "."), leave(1, 0)],
        ),
        (
            "a link for a followed source",
            "not asked for",
            vec![operand(0, "a"), other(0o120_777), finish(1)],
        ),
        (
            "a device, without -r",
            "not asked for",
            vec![operand(0, "a"), other(0o020_666), finish(1)],
        ),
        (
            "another name",
            "not asked for",
            vec![operand(0, ".bashrc"), file(".bashrc", 0), end(0), finish(1)],
        ),
        ("a name that was not announced", "not asked for", vec![file("a", 0), end(0), finish(1)]),
        ("a second name", "not asked for", vec![operand(0, "a"), file("b", 0), end(0), finish(1)]),
        (
            "another source",
            "Operand is out of place",
            vec![operand(1, "a"), file("a", 0), end(0), finish(1)],
        ),
        ("a name that leads out", "not asked for", vec![operand(0, ".."), directory(1, "..")]),
        (
            "a directory, without -r",
            "a directory is out of place",
            vec![operand(0, "a"), directory(1, "a"), leave(1, 0)],
        ),
        (
            "a missing entry of another name",
            "not asked for",
            vec![ToReceiver::Unreadable {
                id: 1,
                folder: BASE,
                name: "b".into(),
                has_names: false,
            }],
        ),
        ("a further stream", "Invite is out of place", vec![ToReceiver::Invite]),
        ("a target", "a record is out of place", vec![begin(Path::new("/"))]),
        ("a wish", "a record is out of place", vec![ToReceiver::Send(Wish::default())]),
        ("the end of nothing", "a source was not sent", vec![finish(0)]),
        ("a source twice", "Operand is out of place", vec![operand(0, "a"), operand(0, "a")]),
        (
            "an end before all has come",
            "less has come than",
            vec![operand(0, "a"), begun, finish(1)],
        ),
    ];
    for (what, how, records) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (received, _) = pull(dir.path(), &["dir/a"], &records, &mut Seen::default());
        breaks(&received, how, what);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{what}");
    }
}

/// It sends the file without a question, or one about another name.
#[test]
fn a_sender_replaces_nothing_that_the_rules_keep() {
    let metadata = EntryMetadata { mode: 0o100_644, size_bytes: 3, ..EntryMetadata::default() };
    let name = "new".into();
    let ask = ToReceiver::Ask(Item { id: 1, folder: BASE, name, metadata, has_names: false });
    let comes = [operand(0, "a"), file("a", 3), data(0, 3), end(3), finish(1)];
    let is_asked = [operand(0, "new"), ask, operand(1, "a")];
    let asked: Vec<_> = is_asked.iter().chain(&comes[1..]).cloned().collect();
    let cases: [(&[&str], &[ToReceiver]); 2] = [(&["a"], &comes), (&["new", "a"], &asked)];
    for (update, is_kept) in
        [(Update::None, true), (Update::Older, true), (Update::NoneFail, false)]
    {
        for (sources, records) in cases {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("a"), "old").unwrap();
            let mut options = CopyOptions::default();
            options.update = update;
            let (received, _) =
                pull_by(&options, dir.path(), sources, records, &mut Seen::default());
            assert!(matches!(received, Ok(whole) if whole == is_kept), "{update:?}: {received:?}");
            assert_eq!(std::fs::read(dir.path().join("a")).unwrap(), b"old", "{update:?}");
        }
    }
}

#[test]
fn a_sender_makes_nothing_in_a_dry_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = CopyOptions::default();
    options.dry_run = true;
    let records = [operand(0, "a"), file("a", 3), data(0, 3), end(3), finish(1)];
    let (received, _) = pull_by(&options, dir.path(), &["a"], &records, &mut Seen::default());
    breaks(&received, "a file in a dry run", "");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Their names are the sender's to say, and so a file could have any.
#[test]
fn a_source_whose_name_the_sender_knows_is_a_directory() {
    for source in [".", "dir/..", "~"] {
        for name in ["bashrc", ".bashrc"] {
            let dir = tempfile::tempdir().unwrap();
            let records = [operand(0, name), file(name, 0), end(0), finish(1)];
            let (received, _) = pull(dir.path(), &[source], &records, &mut Seen::default());
            breaks(&received, "it sends what was not asked for", source);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{source}");
        }
    }
}

#[test]
fn what_does_not_come_without_a_reason_is_counted() {
    let missing =
        ToReceiver::Unreadable { id: 2, folder: BASE, name: "b".into(), has_names: false };
    let problem = ToReceiver::Problem {
        path: "b".into(),
        target: "b".into(),
        why: "no".into(),
        is_warning: false,
    };
    let broken = ToReceiver::Broken { id: 1, sent_bytes: 0 };
    let silent = [operand(0, "a"), file("a", 3), broken, operand(1, "b"), missing, finish(2)];
    let mut explained = silent.to_vec();
    explained.insert(0, problem);
    for (records, expected) in [
        (&silent[..], &["h:: h: 2 entries were not sent, without a reason"][..]),
        (&explained, &["h:b: h: no", "h:: h: 1 entries were not sent, without a reason"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = Seen::default();
        let (received, _) = pull(dir.path(), &["a", "b"], records, &mut seen);
        assert!(matches!(received, Ok(false)), "{received:?}");
        assert_eq!(seen.0, expected);
    }
}

/// Only the sender knows it, and could name what this user's programs read.
#[test]
fn the_name_of_a_home_directory_is_no_hidden_one() {
    let mut options = CopyOptions::default();
    options.recursive = true;
    for (name, is_right) in [("ada", true), (".ssh", false), (".", false), ("..", false)] {
        let dir = tempfile::tempdir().unwrap();
        let records = [operand(0, name), directory(1, name), leave(1, 0), finish(1)];
        for source in ["~", "~/"] {
            let (received, _) =
                pull_by(&options, dir.path(), &[source], &records, &mut Seen::default());
            match is_right {
                true => assert!(matches!(received, Ok(true)), "{received:?}"),
                false => breaks(&received, "it sends what was not asked for", name),
            }
        }
        assert_eq!(dir.path().join("ada").exists(), is_right);
    }
}

#[test]
fn a_problem_of_the_sender_is_a_failure_and_does_not_steer_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    let problem = ToReceiver::Problem {
        path: "p".into(),
        target: "../../etc".into(),
        why: "no\x1b[2J".into(),
        is_warning: false,
    };
    let (received, _) = pull(dir.path(), &["p"], &[problem, finish(0)], &mut seen);
    assert!(matches!(received, Ok(false)), "{received:?}");
    assert_eq!(seen.0, ["h:p: h: no\u{fffd}[2J"]);
}
