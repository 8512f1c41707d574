//! One session over several streams: everything arrives once, whatever stream is late, and a stream
//! that fails ends the session or is done without.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gush_test as _;
use gush_tree::{CopyOptions, Error as TreeError, Events};
use gush_wire::frame::{Input, Output};
use gush_wire::record::{Hello, Rules, ToReceiver, ToSender};
use gush_wire::{Error, Request, Streams, Transport};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

fn pipe() -> (File, File) {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    // The less it holds, the sooner each side waits for the other.
    fcntl_setpipe_size(&to, 8192).unwrap();
    (File::from(from), File::from(to))
}

/// What happens to a further stream.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Serves,
    /// Each piece of it comes so late.
    LagsBy(Duration),
    /// It ends after so many bytes.
    EndsAfter(usize),
    /// It ends after so many bytes, and what comes after them is read and lost.
    LosesAfter(usize),
    /// What the side that was started has to say ends after so many bytes.
    AnswersFor(usize),
    /// The other side knows no such session.
    JoinsNothing,
}

/// A receiver in threads of this process, as `gush serve-tree` is in processes.
struct Threads {
    receivers: Mutex<Vec<JoinHandle<Result<(), Error>>>>,
    opened: AtomicUsize,
    fates: Vec<Fate>,
    direction: Direction,
}

/// Where the data goes, as the side sees it that opens the streams.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Push,
    Pull,
}

const BOTH: [Direction; 2] = [Direction::Push, Direction::Pull];

/// Passes on what comes, as the fate of the stream is.
fn pass_on(mut from: File, mut to: File, fate: Fate) {
    let mut left = match fate {
        Fate::EndsAfter(bytes) | Fate::LosesAfter(bytes) | Fate::AnswersFor(bytes) => bytes,
        _ => usize::MAX,
    };
    let mut piece = [0; 12000];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if let Fate::LagsBy(time) = fate {
            thread::sleep(time);
        }
        let passes = read.min(left);
        left -= passes;
        if to.write_all(&piece[..passes]).is_err() || left == 0 {
            break;
        }
    }
    drop(to);
    if let Fate::LosesAfter(_) = fate {
        while let Ok(1..) = from.read(&mut piece) {}
    }
}

impl Threads {
    fn new(fates: &[Fate], direction: Direction) -> Self {
        let (receivers, opened) = (Mutex::default(), AtomicUsize::new(0));
        Self { receivers, opened, fates: fates.to_vec(), direction }
    }

    /// Starts another one of the other side.
    fn connect(&self, fate: Fate) -> (File, File) {
        let ((mut input, to), (mut from, output)) = (pipe(), pipe());
        if !matches!(fate, Fate::Serves) {
            let (passed_from, passed_to) = pipe();
            let (before, after) = match (self.direction, fate) {
                (Direction::Push, Fate::AnswersFor(_)) => {
                    (std::mem::replace(&mut from, passed_from), passed_to)
                }
                (Direction::Pull, Fate::AnswersFor(_)) => {
                    (std::mem::replace(&mut input, passed_from), passed_to)
                }
                (Direction::Push, _) => (std::mem::replace(&mut input, passed_from), passed_to),
                (Direction::Pull, _) => (std::mem::replace(&mut from, passed_from), passed_to),
            };
            thread::spawn(move || pass_on(before, after, fate));
        }
        let serving = thread::spawn(move || gush_wire::serve(input, output));
        self.receivers.lock().unwrap().push(serving);
        (from, to)
    }
}

impl Transport for Threads {
    fn open(&self, _: bool) -> Result<(File, File), Error> {
        let fate = self.fates[self.opened.fetch_add(1, Ordering::Relaxed) % self.fates.len()];
        if let Fate::JoinsNothing = fate {
            return Err(Error::Refused("no way".into()));
        }
        Ok(self.connect(fate))
    }
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Events for Heard {
    fn warns(&mut self, warning: &TreeError) {
        self.0.push(warning.to_string());
    }
}

/// Copies `dir/s` to `dir/t`.
fn copy(
    dir: &Path,
    direction: Direction,
    (first, further): (Fate, &[Fate]),
    heard: &mut Heard,
) -> (Result<bool, Error>, Vec<Result<(), Error>>) {
    let threads = Threads::new(further, direction);
    let first = threads.connect(first);
    let [source, target] = ["s", "t"].map(|name| dir.join(name));
    let sources = [source.as_path()];
    let request = Request::new(&sources, &target, OsStr::new("h:"));
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.verify = true;
    options.preserve.links = true;
    let streams = Streams::Exactly(further.len() + 1);
    let copy = match direction {
        Direction::Push => gush_wire::send,
        Direction::Pull => gush_wire::receive,
    };
    let copied = copy(&request, &options, first, (&threads, streams), heard);
    let receivers = threads.receivers.into_inner().unwrap();
    (copied, receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect())
}

fn plant(dir: &Path) {
    let source = dir.join("s");
    for top in 0..8 {
        let mut deep = source.join(format!("d{top}"));
        for level in 0..4 {
            fs::create_dir_all(&deep).unwrap();
            for number in 0..6 {
                let content = vec![b'a' + number as u8; (top * 997 + number * 2311) % 9000];
                fs::write(deep.join(format!("f{number}")), content).unwrap();
            }
            fs::hard_link(deep.join("f1"), source.join(format!("link-{top}-{level}"))).unwrap();
            deep.push("e");
        }
    }
    let large: Vec<u8> = (0..6_000_001_u32).map(|at| (at >> 9) as u8).collect();
    fs::write(source.join("large"), large).unwrap();
    fs::hard_link(source.join("large"), source.join("d3/large too")).unwrap();
    let holes = File::create(source.join("holes")).unwrap();
    holes.set_len(12 << 20).unwrap();
    for at in [0, 5 << 20, 9 << 20, (12 << 20) - 1] {
        holes.write_at(b"x", at).unwrap();
    }
    File::create(source.join("void")).unwrap().set_len(5 << 20).unwrap();
    fs::write(source.join("empty"), "").unwrap();
}

/// Paths with content, and the count of names.
fn look(root: &Path) -> BTreeMap<String, (u64, String)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let shown = path.strip_prefix(root).unwrap().display().to_string();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = match metadata.is_dir() {
            true => "directory".into(),
            false => gush::digest_of(&File::open(&path).unwrap()).unwrap().to_string(),
        };
        found.insert(shown, (if metadata.is_dir() { 0 } else { metadata.nlink() }, content));
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn everything_arrives_whatever_stream_is_late() {
    use Fate::Serves;
    const LAGS: Fate = Fate::LagsBy(Duration::from_millis(1));
    let cases: [(Fate, &[Fate]); 5] = [
        (Serves, &[]),
        (Serves, &[Serves]),
        (Serves, &[Serves, LAGS, Serves]),
        (LAGS, &[Serves, Serves]),
        (Serves, &[LAGS; 6]),
    ];
    for ((first, further), direction) in
        cases.into_iter().flat_map(|case| BOTH.map(|way| (case, way)))
    {
        let case = format!("{direction:?} {first:?} {further:?}");
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path());
        let mut heard = Heard::default();
        let (copied, served) = copy(dir.path(), direction, (first, further), &mut heard);
        assert!(matches!(copied, Ok(true)), "{case}: {copied:?} {served:?}");
        assert!(served.iter().all(Result::is_ok), "{case}: {served:?}");
        assert_eq!(heard.0, [""; 0], "{case}");
        assert_eq!(served.len(), further.len() + 1, "{case}");
        assert!(look(&dir.path().join("s")) == look(&dir.path().join("t")), "{case}");
    }
}

#[test]
fn a_stream_that_cannot_be_had_is_done_without() {
    use Fate::{EndsAfter, JoinsNothing, Serves};
    let cases = [&[JoinsNothing, Serves][..], &[EndsAfter(1)], &[EndsAfter(40), JoinsNothing]];
    for (further, direction) in cases.into_iter().flat_map(|case| BOTH.map(|way| (case, way))) {
        let case = format!("{direction:?} {further:?}");
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path());
        let mut heard = Heard::default();
        // A copy that has ended meanwhile lacks nothing.
        let slow = Fate::LagsBy(Duration::from_millis(1));
        let (copied, _) = copy(dir.path(), direction, (slow, further), &mut heard);
        assert!(matches!(copied, Ok(true)), "{case}: {copied:?}");
        let lacking = further.len() - further.iter().filter(|fate| matches!(fate, Serves)).count();
        assert_eq!(heard.0.len(), lacking, "{case}: {:?}", heard.0);
        assert!(heard.0.iter().all(|text| text.contains("with a stream less")), "{:?}", heard.0);
        assert!(look(&dir.path().join("s")) == look(&dir.path().join("t")), "{case}");
    }
}

/// The greeting has 25 bytes, the request to join at most 43, and the answer to it 18. The copy
/// goes on without a stream whose last answer did not arrive.
#[test]
fn a_stream_that_is_lost_while_it_joins_is_done_without() {
    let cases = [(Direction::Push, 25), (Direction::Push, 30), (Direction::Pull, 75)];
    for (direction, answer_bytes) in cases {
        let case = format!("{direction:?} {answer_bytes}");
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path());
        let slow = Fate::LagsBy(Duration::from_millis(1));
        let further = [Fate::AnswersFor(answer_bytes)];
        let mut heard = Heard::default();
        let (copied, served) = copy(dir.path(), direction, (slow, &further), &mut heard);
        assert!(matches!(copied, Ok(true)), "{case}: {copied:?} {served:?}");
        assert!(look(&dir.path().join("s")) == look(&dir.path().join("t")), "{case}");
    }
}

#[test]
fn a_stream_that_fails_later_ends_the_session() {
    // Long enough for the other one to join.
    let slow = Fate::LagsBy(Duration::from_millis(20));
    let cases = [(slow, Fate::EndsAfter(20_000)), (Fate::EndsAfter(200_000), Fate::Serves)];
    for ((first, further), direction) in
        cases.into_iter().flat_map(|case| BOTH.map(|way| (case, way)))
    {
        let case = format!("{direction:?} {first:?} {further:?}");
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path());
        let mut heard = Heard::default();
        let (copied, served) = copy(dir.path(), direction, (first, &[further]), &mut heard);
        assert!(copied.is_err(), "{case}: {served:?} {:?}", heard.0);
        assert!(served.iter().any(Result::is_err), "{case}: {served:?}");
        // What has a name is whole.
        let (source, target) = (look(&dir.path().join("s")), look(&dir.path().join("t")));
        for (path, (_, content)) in target {
            assert_eq!(source[&path].1, content, "{case}: {path}");
        }
    }
}

/// The sender could write all to it, and the receiver has seen an end.
#[test]
fn a_stream_that_loses_records_ends_the_session_and_is_named() {
    // In the middle of a record, and after the last one that joins a stream.
    for (bytes, direction) in
        [100, 1000, 10_000].into_iter().flat_map(|bytes| BOTH.map(|way| (bytes, way)))
    {
        let case = format!("{direction:?} {bytes}");
        let dir = tempfile::tempdir().unwrap();
        plant(dir.path());
        let slow = Fate::LagsBy(Duration::from_millis(20));
        let further = [Fate::LosesAfter(bytes)];
        let (copied, served) = copy(dir.path(), direction, (slow, &further), &mut Heard::default());
        let why = copied.unwrap_err().to_string();
        assert!(why.starts_with("a further connection was lost: "), "{case}: {why} {served:?}");
    }
}

/// A token of the right form, and the wrong secret.
#[test]
fn a_stream_with_another_secret_does_not_join() {
    let dir = tempfile::tempdir().unwrap();
    let threads = Threads::new(&[Fate::Serves], Direction::Push);
    let (input, output) = threads.connect(Fate::Serves);
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    let _: Hello = input.record().unwrap();
    output.record(&Hello::OURS).unwrap();
    let target = dir.path().as_os_str().as_encoded_bytes().to_vec();
    let rules = Rules::default();
    let begin = ToReceiver::Begin { target, is_exact: false, is_directory: true, rules };
    output.record(&begin).unwrap();
    output.record(&ToReceiver::Invite).unwrap();
    output.flush().unwrap();
    assert!(matches!(input.record(), Ok(ToSender::Begun { .. })));
    let ToSender::Invitation(Some(mut token)) = input.record().unwrap() else {
        panic!("no invitation");
    };
    token.secret[7] ^= 1;
    let (from, to) = threads.open(true).unwrap();
    let mut further = Output::new(to);
    further.record(&Hello::OURS).unwrap();
    further.record(&ToReceiver::Join(token)).unwrap();
    further.flush().unwrap();
    let mut answers = Input::new(from);
    let _: Hello = answers.record().unwrap();
    let answer = answers.record::<ToSender>();
    assert!(
        matches!(&answer, Ok(ToSender::Refused(why)) if why.contains("did not take")),
        "{answer:?}"
    );
    output.record(&ToReceiver::Finish { entries: 0 }).unwrap();
    output.flush().unwrap();
    let [first, second] = threads.receivers.into_inner().unwrap().try_into().unwrap();
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
}
