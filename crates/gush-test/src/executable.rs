use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes the file `path` a program with this `text`, such as a script of sh(1).
///
/// Another process writes the file: a thread that forks while this process has the file open for
/// writing would inherit the open file, and then nobody can start the program (ETXTBSY of
/// execve(2)).
///
/// ```
/// let program = gush_test::own_dir().join("three");
/// gush_test::executable(&program, "#!/bin/sh\nexit 3\n");
/// assert_eq!(std::process::Command::new(program).status()?.code(), Some(3));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// If the file cannot be written.
pub fn executable(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh starts");
    // The pipe is closed after the text, which ends cat.
    let mut input = writer.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("sh reads");
    drop(input);
    assert!(writer.wait().expect("sh ends").success(), "cannot write {}", path.display());
}
