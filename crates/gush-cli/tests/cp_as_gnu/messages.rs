//! The messages of `cp` and of `gush cp` are those of GNU cp, in the same words and order.

use crate::common::as_gnu::Side;
use crate::crossed::SENTENCES;

const FILES: &str = "echo a >a; echo b >b; mkdir -p d/a e 'with space'; ln -s nowhere dangling
    ln -s loop loop; mkfifo fifo; ln -s ../d d/up; echo s >\"it's\"";

/// Lines of shell; `$P` is cp.
const LINES: &[&str] = &[
    "$P nosuch b",
    "$P 'no such' b",
    "$P \"it's not\" b",
    "$P nosuch a e",
    "$P a a",
    "$P a nope/b",
    "$P a nope/",
    "$P a b/",
    "$P a a/b",
    "$P a/ e",
    "$P a dangling",
    "$P a loop",
    "$P a /dev/full",
    "$P a b nope",
    "$P a b d/a/nope",
    "$P a b b",
    "$P -t nope a",
    "$P -t a b",
    "$P -T a d",
    "$P d e",
    "$P 'with space' e",
    "$P a d",
    "$P -r d d/x",
    "$P -r d b",
    "$P -r d nope/x",
    "$P -rL d e",
    "$P -l a b",
    "$P -l a nope/b",
    "$P -l d e",
    "$P -s a b",
    "$P -s a e/a",
    "$P -s a nope/b",
    "$P -R fifo nope/f",
    "$P -d dangling nope/l",
    "$P a a e",
    "$P -r d d e",
    "$P a b e/a",
    "$P --parents a b",
    "$P --parents nosuch/a e",
    "$P -b b~ b",
    "$P /proc/self/mem e",
    "$P a e <&- >&-",
    "$P -v a e >&-",
    "$P a",
    "$P",
    "$P -T a",
    "$P -T a b e",
    "$P --nope a b",
    "$P -Y a b",
    "$P --suffix",
    "$P --verbose=x a b",
    "ulimit -f 1; trap '' XFSZ; head -c 1M /dev/zero | $P /dev/stdin e/z; rm -f e/z",
];

#[test]
fn every_message_is_gnus_as_cp_and_as_gush_cp() {
    Side { program: "cp", variable: "P", files: FILES, sentences: SENTENCES }.agrees_on(LINES);
}
