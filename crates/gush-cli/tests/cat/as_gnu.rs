//! `gush cat` and GNU cat side by side: the same line of shell in two equal directories must print
//! the same bytes, leave the same files, end with the same status, and say the same in gush's
//! words.

use crate::common::as_gnu::{Sentence, Side};

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
    (
        "cat: option '--show' is ambiguous; possibilities: %a",
        "cat: option '--show' is ambiguous; possibilities: %b",
    ),
    (
        "cat: option '--n' is ambiguous; possibilities: %a",
        "cat: option '--n' is ambiguous; possibilities: %b",
    ),
];

#[test]
fn every_line_is_gnus() {
    Side { program: "cat", variable: "C", files: FILES, sentences: SENTENCES }.agrees_on(LINES);
}
