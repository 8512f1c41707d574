//! Cases of one table that mostly wait, several at a time.

use std::sync::Mutex;
use std::thread;

/// So many cases at once: enough to use the processors while others wait, few enough for what a
/// user may have of pipes.
const AT_ONCE: usize = 4;

/// Calls `each` with every item, several at a time, and returns the answers in the items' order.
///
/// # Panics
/// With the panic of a call, once every other call has ended.
pub fn side_by_side<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    each: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let items: Vec<T> = items.into_iter().collect();
    let number = items.len();
    let waiting = Mutex::new(items.into_iter().enumerate());
    // The lock is released before the call.
    let next = || waiting.lock().expect("no call is made under the lock").next();
    let work = || {
        let mut answers = Vec::new();
        while let Some((at, item)) = next() {
            answers.push((at, each(item)));
        }
        answers
    };
    // The test's own name, so that a panic or a hang says where it belongs.
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let mut answers: Vec<(usize, R)> = thread::scope(|scope| {
        let start = |_| thread::Builder::new().name(name.clone()).spawn_scoped(scope, work);
        let threads: Vec<_> = (0..AT_ONCE.min(number)).map(start).collect();
        let answer = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| {
            thread
                .expect("a thread")
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(answer).collect()
    });
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::{AT_ONCE, side_by_side};

    #[test]
    fn every_item_is_answered_once_in_order_and_several_run_at_a_time() {
        for number in [0, 1, AT_ONCE - 1, AT_ONCE, 100] {
            let answers = side_by_side(0..number, |item| item * 2);
            assert_eq!(answers, (0..number).map(|item| item * 2).collect::<Vec<_>>());
        }
        // Ends only if so many calls are under way at the same time.
        let meet = Barrier::new(AT_ONCE);
        side_by_side(0..AT_ONCE, |_| meet.wait().is_leader());
    }

    #[test]
    fn a_panic_of_one_call_is_the_panic_of_all() {
        let caught = std::panic::catch_unwind(|| {
            side_by_side(0..10, |item| assert_ne!(item, 7, "seven"));
        });
        let text = *caught.expect_err("no panic").downcast::<String>().expect("a text");
        assert!(text.contains("seven"), "{text}");
    }
}
