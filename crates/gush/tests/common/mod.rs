//! Helpers that the engine's tests share: ends of every kind, made-up bytes, and a guard against
//! hanging.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of it")]

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gush::{Choice, Errno, MethodName, Wait};

mod bytes;
mod drain;
mod feed;
mod loopdev;
pub mod mount;
mod pipe;
#[macro_use]
pub mod refused;
mod source;
mod target;

pub use gush_test::{not_applicable, skipped};

pub use bytes::{Dice, noise};
pub use drain::{Drainer, Ending};
pub use feed::{Feed, feed};
pub use loopdev::LoopDevice;
pub use pipe::round_trip;
pub use refused::{methods_served_here, served_here, techniques_served_here};
pub use source::{Source, SourceKind, append_file, open_source, terminal};
pub use target::{Target, TargetKind, open_target, read_all};

/// The plan, and each method that moves a stream of any kind.
pub const STREAMS: [Choice; 4] = [
    Choice::Auto,
    Choice::Only(MethodName::Splice),
    Choice::Only(MethodName::Vmsplice),
    Choice::Only(MethodName::ReadWrite),
];

/// Every way to wait.
pub const WAITS: [Wait; 4] =
    [Wait::Auto, Wait::Block, Wait::Spin, Wait::Hybrid(Duration::from_micros(20))];

/// Ends the test visibly; where nothing may be skipped, in failure.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        gush_test::skipped(&format!($($reason)+));
        return;
    }};
}

/// Runs `body` on a separate thread, and fails if `body` has not ended after `seconds`.
pub fn within<T: Send + 'static>(
    seconds: u64,
    what: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    ends_within(seconds, body).unwrap_or_else(|| panic!("{what}: hangs ({seconds} s)"))
}

/// Runs `body` on a separate thread; `None` if `body` has not ended after `seconds`.
pub fn ends_within<T: Send + 'static>(
    seconds: u64,
    body: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    // The test's own name, so that a panic of the thread names the test.
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let worker = thread::Builder::new()
        .name(name)
        .spawn(move || {
            let answer = body();
            let _ = sender.send(());
            answer
        })
        .expect("a thread");
    match receiver.recv_timeout(Duration::from_secs(seconds)) {
        Err(mpsc::RecvTimeoutError::Timeout) => None,
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            Some(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        }
    }
}

/// The methods that move plain files on one ext4 or tmpfs.
pub fn file_methods() -> impl Iterator<Item = MethodName> {
    methods_served_here(MethodName::ALL).into_iter().filter(|&name| name != MethodName::Reflink)
}

/// A temporary file with this content, at position 0.
pub fn file_of(content: &[u8]) -> OwnedFd {
    let file = tempfile::tempfile().expect("a file");
    file.write_all_at(content, 0).expect("its content");
    file.into()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Is there such a program, and does the program end well when run so?
pub fn runs(program: &str, words: &[&str]) -> bool {
    Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs one ignored test of this binary in a separate process, under `wrapper` (a program and its
/// words) if there is one; returns whether the test passed, and its output.
pub fn child(wrapper: &[&str], test: &str, env: &[(&str, &str)]) -> (bool, String) {
    let own = std::env::current_exe().expect("own path");
    let mut words: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
    words.push(own.into());
    words.extend(["--exact", test, "--ignored", "--nocapture"].iter().map(Into::into));
    let out = Command::new(&words[0])
        .args(&words[1..])
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("a child process");
    let passed = gush_test::one_test_ran(&out);
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (passed, said.concat())
}
