//! What the help of `gush pv` says after the options.

use crate::manual::row;

pub fn after_options() -> String {
    let rows: String = SEQUENCES.iter().map(|(sequence, shown)| row(sequence, shown)).collect();
    format!("{FORMAT}\n{rows}\n{STATUS}\n\n{UNLIKE_PV}")
}

const FORMAT: &str = "\
Without any option of Display, the default is -p -t -e -r -b.

FORMAT is text with sequences. A number between % and the letter or brace of a bar sets its width:";

const SEQUENCES: [(&str, &str); 18] = [
    ("%p, %{progress}", "bar with percentage"),
    ("%{progress-bar-only}", "bar only"),
    ("%{progress-amount-only}", "percentage only"),
    ("%{bar-STYLE}", "bar only, in STYLE: plain, block, granular, shaded"),
    ("%t, %{timer}", "elapsed time"),
    ("%e, %{eta}", "estimated time left"),
    ("%I, %{fineta}", "estimated time of completion"),
    ("%r, %{rate}", "current rate"),
    ("%a, %{average-rate}", "average rate"),
    ("%b, %{bytes}", "amount transferred"),
    ("%T, %{buffer-percent}", "how full the output pipe is"),
    ("%nA, %n{last-written}", "last n bytes"),
    ("%nL, %n{previous-line}", "last line, in n columns"),
    ("%N, %{name}", "name"),
    ("%%", "percent sign"),
    ("%{sgr:bold,red}", "colours and weights"),
    ("%{ratio}", "with CMD, the ratio of input to output; gush adds %{out-bytes} and %{out-rate}"),
    ("%{sparkline}", "gush only: the rates of the last minute"),
];

const STATUS: &str = "\
Exit status: 0, or the sum of 2 (a file could not be opened), 4 (an input file is the output file), \
8 (close failed), 16 (a read or write failed, or the checksum differs from --expect), 32 (ended by a \
signal); 64 for a usage error; 1 if FILE of -P cannot be written or PID of -R or -Q does not answer. \
With CMD, the exit status of CMD, unless that is 0 or its output could not be written.";

const UNLIKE_PV: &str = "\
Differences from pv: the size of a partly read input is that of its rest, and -l estimates the \
number of lines instead of counting them first. %T refers to the output \
pipe, as gush has no transfer buffer; %nA and %nL show the last bytes even without a buffer.

A line is never wider than the terminal: parts that do not fit are left out. The last line is printed \
even after a failed write, since it shows how much was transferred. Each skip over a read error is \
reported, without a warning before the first.

Amounts have 64 bits, in pv 80, so a last digit may be rounded differently: 2065 lines may be 2.06k \
or 2.07k. A ratio of 10000 or more is a whole number, not a power of ten. Sizes accept all units of \
gush: 64KiB, 64KB, 1P.

-c neither queries the terminal nor uses shared memory, and also draws its line with -f and no \
terminal. -M shows both sides on one line. A process title is at most as long as the command line, \
and -x works only with a transfer.

-d also ends when the process is a zombie, and reports it when no process is called NAME.

-R and -Q reach only gush pv, through a socket instead of a signal, which would end another program. \
-R keeps -8, -k, -s, -L, -i, -m and -w unless it sets them, and never changes -n and -q, as in pv, \
nor -B, since the engine's buffer is fixed for a transfer. Its -L counts lines where lines are \
counted; a transfer with -O or -Y that started without -L counts bytes instead.

An unknown STYLE or -x place, -B 0 and -Z 0 are errors.

`gush pv ... -- CMD` runs CMD. If CMD leaves part of its input unread, how much it has read is \
reported on a terminal, with -f and with --json, but not with -n or -q. When invoked as pv, or if \
POSIXLY_CORRECT is set, the arguments after -- are files.";
