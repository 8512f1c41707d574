//! Messages to a standard error that nobody reads: GNU's tools die of SIGPIPE there, and so do
//! gush's of the same names.

use crate::common::as_gnu::Side;

/// Descriptor 4 is a pipe without a reader.
const FILES: &str = "printf 'one\\n' >a; mkdir d; mkfifo p; exec 3<>p 4>p 3<&-";

#[test]
fn a_message_that_nobody_reads_ends_a_filter_as_it_ends_gnus() {
    for (program, lines) in [
        (
            "cat",
            &[
                "$X nope a 2>&4; echo $?",
                "$X a nope a 2>&4; echo $?",
                "$X -n nope a 2>&4; echo $?",
                "$X a 2>&4; echo $?",
                "$X --nope 2>&4; echo $?",
                "(trap '' PIPE; $X nope a 2>&4; echo $?)",
            ][..],
        ),
        (
            "tee",
            &[
                "$X nope/b c <a 2>&4; echo $?; rm -f c",
                "$X -p nope/b c <a 2>&4; echo $?",
                "$X --output-error=warn nope/b c <a 2>&4; echo $?",
                "(trap '' PIPE; $X nope/b c <a 2>&4; echo $?)",
            ],
        ),
        (
            "cp",
            &[
                "$X nope a d 2>&4; echo $?; ls d",
                "$X a d/ 2>&4; echo $?; ls d",
                "$X -f nope a d 2>&4; echo $?; ls -a d",
                "(trap '' PIPE; $X nope a d 2>&4; echo $?; ls d)",
            ],
        ),
    ] {
        Side { program, variable: "X", files: FILES, sentences: &[] }.agrees_on(lines);
    }
}
