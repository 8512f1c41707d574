//! `gush cat` and GNU cat side by side: the same line of shell in two equal directories must print the same bytes, leave
//! the same files, end with the same status, and say the same in gush's words.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::as_gnu::{Sentence, agree};
use common::cp::{names, stderr};
use common::{gnu, skipped};

const FILES: &str = r#"printf 'a\tx\n' >a; printf 'b\n\n\nB' >b; : >e; mkdir d; echo x >'a b'; echo q >"it's"
    ln -s loop loop; ln -s no dangling; head -c 300K /dev/zero | tr '\0' z >big; echo r >r"#;

/// Lines of shell; `$C` is cat.
const LINES: &[&str] = &[
    "$C a b",
    "$C a nope b",
    "$C nope a >out",
    "$C a d b",
    "$C a >/dev/full",
    "$C nope a >/dev/full",
    "$C a nope b >/dev/full",
    "$C nope >/dev/full",
    "$C d >/dev/full",
    "$C nope d dangling >/dev/full",
    "$C e >/dev/full",
    "$C e a e >/dev/full",
    "$C >/dev/full",
    "$C a >&-",
    "$C nope >&-",
    "$C e >&-",
    "$C --help >&-",
    "$C --version >&-",
    "$C a - b",
    "$C <a",
    "$C <d",
    "$C - a <d",
    "$C a >>a",
    "$C a <a >>a",
    "$C a b >b",
    "$C b >b",
    "$C - <a >>a",
    "$C - - <a",
    "$C e >>e",
    "$C a b >>a",
    "$C a nope b >>a",
    "$C a 1<>r",
    "$C r 1<>r",
    "$C a 1<a",
    "$C /proc/self/mem",
    "$C /proc/self/mem a",
    "$C a /proc/self/mem b",
    "$C /proc/self/mem a >/dev/full",
    "$C /proc/self/mem nope >/dev/full",
    "$C -n a nope b",
    "$C -n nope a >/dev/full",
    "$C -n a nope >/dev/full",
    "$C -n d a",
    "$C -n /proc/self/mem a",
    "$C -n a b >>a",
    "$C -A b e a",
    "$C -b a b",
    "$C -s b b",
    "$C -E e >/dev/full",
    "$C -u a",
    "$C -x a",
    "$C --nope a",
    "$C --show a",
    "$C --show-a b",
    "$C --n b",
    "$C --number=3 b",
    "$C -- -a",
    "$C --",
    "$C '' a",
    "$C 'a b' \"it's\"",
    "$C loop a",
    "$C dangling a >/dev/full",
    "$C a/ b",
    "$C a/x b",
    "(trap '' PIPE; $C nope big big big big big big big big | head -c 1; echo ${PIPESTATUS[0]})",
    "POSIXLY_CORRECT=1 $C a -n",
];

const SENTENCES: &[Sentence] = &[
    ("cat: /proc/self/mem: %e", "cat: /proc/self/mem: read failed on the source: %e"),
    ("cat: /proc/self/mem: %e", "cat: /proc/self/mem: read failed after 0 bytes: %e"),
    ("cat: write error: %e", "cat: write error after %n bytes of %f: %e"),
    (
        "cat: option '--show' is ambiguous; possibilities: %a",
        "cat: option '--show' is ambiguous; possibilities: %b",
    ),
    (
        "cat: option '--n' is ambiguous; possibilities: %a",
        "cat: option '--n' is ambiguous; possibilities: %b",
    ),
];

fn run(line: &str, cat: &Path) -> (Output, Vec<(String, Vec<u8>)>) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-c", &format!("umask 022\n{FILES}\n{line}")])
        .current_dir(dir.path())
        .env("C", cat)
        .env("LC_ALL", "C.UTF-8")
        .env("GUSH_NO_PROFILE", "1")
        .env_remove("POSIXLY_CORRECT")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let content = |name: &String| std::fs::read(dir.path().join(name)).unwrap_or_default();
    let files = names(dir.path()).into_iter().map(|name| (name.clone(), content(&name))).collect();
    (output, files)
}

#[test]
fn every_line_is_gnus() {
    let cat = match gnu("cat") {
        Ok(cat) => cat,
        Err(why) => return skipped(&why),
    };
    let programs = tempfile::tempdir().unwrap();
    let ours = programs.path().join("cat");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gush"), &ours).unwrap();
    let mut wrong = Vec::new();
    for line in LINES {
        let (theirs, their_files) = run(line, &cat);
        let (our, our_files) = run(line, &ours);
        let (their_words, our_words) = (
            stderr(&theirs).replace(cat.to_str().unwrap(), "cat"),
            stderr(&our).replace(ours.to_str().unwrap(), "cat"),
        );
        let prints = !line.contains("--version");
        let same = theirs.status.code() == our.status.code()
            && (!prints || theirs.stdout == our.stdout)
            && their_files == our_files;
        let agreed = agree(SENTENCES, &their_words, &our_words);
        if !same || agreed.is_err() {
            let said = |output: &Output, words: &str| {
                let shown = String::from_utf8_lossy(&output.stdout);
                let shown: String = shown.chars().take(60).collect();
                format!("{:?} {shown:?} {words:?}", output.status.code())
            };
            let (theirs, our) = (said(&theirs, &their_words), said(&our, &our_words));
            let files = if their_files == our_files { "" } else { " (other files)" };
            wrong.push(format!("{line}{files}\n  GNU  {theirs}\n  gush {our}\n  {agreed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), LINES.len(), wrong.join("\n"));
}
