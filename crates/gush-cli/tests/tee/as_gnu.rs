//! `gush tee` and GNU tee side by side: the same line of shell in two equal directories must print
//! the same bytes, leave the same files, end with the same status, and say the same in gush's
//! words.

use crate::common::as_gnu::{Sentence, Side};

const FILES: &str = r#"printf 'one\ntwo\n' >in; printf 'old content\n' >old; : >empty; mkdir d; ln -s loop loop
    head -c 3M /dev/zero | tr '\0' z >big; mkfifo fifo"#;

/// Lines of shell; `$T` is tee. Where a mode makes tee exit, GNU tee loses the bytes on the way to
/// the other files, and gush does not: these files are removed before the comparison (`weather.rs`
/// looks into them).
const LINES: &[&str] = &[
    "$T <in",
    "$T a <in",
    "$T a b c <in",
    "$T old <in",
    "$T -a old <in",
    "$T --append old new <in",
    "$T --app old <in",
    "$T - <in",
    "$T - - <in",
    "$T a a <in",
    "$T -- -a <in",
    "$T '' <in",
    "$T 'a b' <in",
    "$T a <empty",
    "$T d <in",
    "$T d a <in",
    "$T a d b <in",
    "$T nope/a b <in",
    "$T loop a <in",
    "$T in2 <d",
    // GNU tee also reports closing what was never open.
    "$T a <&- 2>err; echo $?; head -n 1 err | sed 's|^.*tee: ||'; rm err",
    "$T a <in >&-",
    "$T <in >&-",
    "$T <empty >&-",
    "$T a <empty >&-",
    "$T <in >/dev/full",
    "$T a <in >/dev/full",
    "$T /dev/full <in",
    "$T /dev/full a <in",
    "$T a /dev/full b <big >/dev/null",
    "$T /dev/full <in >/dev/full",
    "$T -p /dev/full a <in",
    "$T -i a <in",
    "$T -ai old <in",
    "$T -pi a <in",
    "$T --output-error a <in",
    "$T --output-error=warn d a <in",
    "$T --output-error=warn /dev/full a <in",
    "$T --output-error=warn-nopipe /dev/full a <in",
    "$T --output-error=exit d a <in; ls a",
    "$T --output-error=exit a d b <in; ls b",
    "$T --output-error=exit-nopipe d a <in",
    "$T --output-error=exit /dev/full a <in >/dev/null; rm a",
    "$T --output-error=exit- /dev/full a <in >/dev/null; rm a",
    "$T --output-error=warn-n /dev/full a <in >/dev/null",
    "$T --output-err=warn a <in",
    "$T -p --output-error=exit d a <in",
    "$T --output-error=exit -p d a <in",
    "$T -x <in",
    "$T --nope <in",
    "$T --append=3 a <in",
    "$T a -a <in",
    "POSIXLY_CORRECT=1 $T old -a <in",
    "$T a --help <in",
    "$T --version --nope -a",
    "$T a --help -x",
    "$T --nope --help",
    "$T --nope=1 --help",
    "$T --help=1",
    "$T a <in 1<in",
    "$T a <empty 1<in",
    "$T --output-error=exit a <empty 1<in",
    "$T a /dev/full <in >&-",
    "$T /dev/full <big >&-",
    "$T -p >(true) <big >&-; echo $?",
    "$T --output-error=exit a <big >&-; rm a",
    "cat <(exec <&-) | $T a 1<in",
    "$T --version",
    "$T --help >&-",
    "cat in | $T a | cat",
    "cat big | $T a b c | md5sum",
    "cat big | $T >(cat >x; : >xed) >(cat >y; : >yed) | md5sum
     until [ -e xed ] && [ -e yed ]; do sleep 0.01; done",
    "$T a <in >>old",
    "$T -a old <in >>old",
    "(sleep 0.1; cat big) | $T a | md5sum",
    "cat fifo >x & $T fifo <in; wait",
    // Readers that leave.
    "cat big big | $T a | true; echo ${PIPESTATUS[1]}; rm a",
    "cat big big | $T | head -c 5; echo ${PIPESTATUS[1]}",
    "cat big big | $T -p a | true; echo ${PIPESTATUS[1]}; md5sum a",
    "cat big big | $T --output-error=warn-nopipe a | true; echo ${PIPESTATUS[1]}; md5sum a",
    "cat big big | $T --output-error=warn a | true; echo ${PIPESTATUS[1]}; md5sum a",
    "cat big big | $T --output-error=exit a | true; echo ${PIPESTATUS[1]}; rm a",
    "cat big big | $T --output-error=exit-nopipe a | true; echo ${PIPESTATUS[1]}; md5sum a",
    "cat big big | $T -p | true; echo ${PIPESTATUS[1]}",
    "(trap '' PIPE; cat big big | $T a | true; echo ${PIPESTATUS[1]}; md5sum a)",
    "(trap '' PIPE; cat big big | $T --output-error=exit a | true; echo ${PIPESTATUS[1]}; rm a)",
    "(trap '' PIPE; cat big big | $T --output-error=warn a | true; echo ${PIPESTATUS[1]}; md5sum a)",
    "(trap '' PIPE; cat big big | $T -p /dev/full a | true; echo ${PIPESTATUS[1]}; md5sum a)",
];

const SENTENCES: &[Sentence] = &[];

#[test]
fn every_line_is_gnus() {
    Side { program: "tee", variable: "T", files: FILES, sentences: SENTENCES }.agrees_on(LINES);
}
