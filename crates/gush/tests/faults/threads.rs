//! The plan applies to all threads of a move: no call is missed.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use gush::faults::{Injection, Plan, unplanned_calls};
use gush::{Call, Choice, Errno, Holes, MethodName, Mover};

use crate::cases;
use crate::common::{Source, Target, child};
use crate::sweep::content;

/// Other tests of this process make calls without a plan: these have one of their own.
#[test]
fn no_thread_of_a_move_escapes_its_plan() {
    let (passed, said) = child(&[], "threads::alone_no_thread_of_a_move_escapes_its_plan", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by no_thread_of_a_move_escapes_its_plan, in a process of its own"]
fn alone_no_thread_of_a_move_escapes_its_plan() {
    let methods: HashSet<MethodName> =
        MethodName::ALL.iter().copied().filter(|name| name.is_parallel()).collect();
    let mut several = HashSet::new();
    for case in cases::shared() {
        let source = Source::new(case.from, content(case), 1, false).expect("a source").filled();
        let target = Target::new(case.to, b"", 2, false).expect("a target");
        let seen: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
        let threads = seen.clone();
        let guard = Plan::new(move |_, _| {
            threads.lock().expect("a set").insert(thread::current().id());
            Injection::None
        })
        .install();
        let moved = Mover::new(&source.fd, &target.fd).method(case.choice).threads(4).run();
        drop(guard);
        moved.unwrap_or_else(|error| panic!("{case}: {error}"));
        if let (Choice::Only(name), 2..) = (case.choice, seen.lock().expect("a set").len()) {
            several.insert(name);
        }
    }
    assert_eq!(several, methods, "methods whose calls the plan has seen on several threads");
    assert_eq!(unplanned_calls(), 0, "calls that no plan has seen");

    // A thread that nobody gave the plan is noticed.
    let file = tempfile::tempfile().expect("a file");
    let _guard = Plan::new(|_, _| Injection::None).install();
    thread::scope(|scope| {
        scope.spawn(|| gush::Port::of(&file).map(drop)).join().expect("no panic")
    })
    .expect("a port");
    assert!(unplanned_calls() > 0, "a call without a plan was not counted");
}

/// The caller's panic ends the move; nobody is left to hear how far the other threads come.
#[test]
fn a_panic_of_the_observer_ends_the_other_threads() {
    const PIECES: u64 = 256;
    let source = tempfile::tempfile().expect("a file");
    source.set_len(PIECES << 20).expect("a size");
    let target = tempfile::tempfile().expect("a file");
    let writes = Arc::new(AtomicU64::new(0));
    let seen = writes.clone();
    let guard = Plan::new(move |call, _| {
        if call == Call::Pwrite {
            seen.fetch_add(1, Ordering::Relaxed);
            // The observer is asked every 50 ms.
            thread::sleep(Duration::from_millis(10));
        }
        Injection::None
    })
    .install();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        // Without the hook, whose backtrace takes its time.
        let mut observer = |_: &gush::Progress| resume_unwind(Box::new("the observer"));
        Mover::new(&source, &target)
            .method(Choice::Only(MethodName::ReadWrite))
            .holes(Holes::Fill)
            .threads(2)
            .observe(&mut observer)
            .run()
    }));
    drop(guard);
    assert_eq!(panicked.expect_err("a panic").downcast_ref(), Some(&"the observer"));
    let written = writes.load(Ordering::Relaxed);
    assert!((1..PIECES / 2).contains(&written), "{written} of {PIECES} pieces were written");
}

/// A guard may save a file while somebody else's panic unwinds its thread.
#[test]
fn a_move_on_several_threads_within_an_unwinding_thread_is_complete() {
    struct Saves(Arc<Mutex<Option<Result<u64, gush::Error>>>>);
    impl Drop for Saves {
        fn drop(&mut self) {
            let source = tempfile::tempfile().expect("a file");
            source.set_len(64 << 20).expect("a size");
            let target = tempfile::tempfile().expect("a file");
            let mover = Mover::new(&source, &target).holes(Holes::Fill).threads(2);
            let moved = mover.method(Choice::Only(MethodName::ReadWrite)).run();
            *self.0.lock().expect("a place") = Some(moved.map(|report| report.bytes));
        }
    }
    let outcome = Arc::default();
    let guard = Saves(Arc::clone(&outcome));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        resume_unwind(Box::new("somebody"));
    }));
    assert!(panicked.is_err());
    let moved = outcome.lock().expect("a place").take().expect("a move");
    assert_eq!(moved.expect("a copy"), 64 << 20);
}

/// A panic there would abort the process: the calls are made in one of their own.
#[test]
fn a_thread_at_its_end_makes_its_calls_without_a_plan() {
    let name = "threads::alone_a_thread_at_its_end_makes_its_calls_without_a_plan";
    let (passed, said) = child(&[], name, &[]);
    assert!(passed, "{said}");
}

/// Ends the writing direction of a socket when it is dropped.
struct Last(UnixStream);

impl Drop for Last {
    fn drop(&mut self) {
        gush::end_writing(&self.0).expect("the end");
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
#[ignore = "run by a_thread_at_its_end_makes_its_calls_without_a_plan, in a process of its own"]
fn alone_a_thread_at_its_end_makes_its_calls_without_a_plan() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    let kept = ours.try_clone().expect("a second descriptor");
    let plan = Plan::new(|_, _| Injection::Fail(Errno::IO));
    thread::spawn(move || {
        LAST.set(Some(Last(ours)));
        // What a thread has used first is dropped last: the plan is gone before the socket.
        let _guard = plan.install();
        let refused = gush::end_writing(&kept).map_err(|error| error.raw_os_error());
        assert_eq!(refused, Err(Some(Errno::IO.raw_os_error())));
    })
    .join()
    .expect("no panic");
    assert_eq!(theirs.read(&mut [0]).expect("the end"), 0);
}
