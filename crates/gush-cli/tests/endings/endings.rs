//! The table of endings: the side that ends, the way of ending, and the required outcome.

use crate::kinds::{Abilities, KINDS, Kind};
use crate::model::{Arrives, CLOSED, FAILED, LEFT_FAILED, Learned, Outcome, Status, ends_properly};
use crate::script::Step;
use Step::{
    Await, Close, Cut, End, Exit, Flood, Garble, Hear, Kill, Leave, Mark, Pending, Reset, Rest,
    Send,
};

/// The bytes that the ending side sends, in whole lines: less than the smallest buffer on the way.
pub const SENT_BYTES: usize = 47 * 64;
/// The bytes that the other side answers.
pub const ANSWER_BYTES: usize = 31 * 64;
/// The same where the buffers on the way shall be full: a peer that reads slowly leaves no room for
/// as many. A terminal holds 4 KiB (N_TTY_BUF_SIZE, drivers/tty/n_tty.c), and passes a line at a
/// time.
const LARGE_BYTES: usize = 8 << 20;
const LARGE_FOR_TERMINAL_BYTES: usize = 256 << 10;
/// The bytes left of a file that shrinks, and the bytes before.
pub const SHRUNK_BYTES: u64 = 64 * 64;
pub const WHOLE_BYTES: u64 = 64 << 20;

/// Two ends of a link, of which one does something.
#[derive(Clone, Copy)]
pub struct Pair {
    pub ender: &'static Abilities,
    pub other: &'static Abilities,
    pub ender_is_first: bool,
    /// Are more bytes sent than the buffers on the way hold, to a peer that reads slowly?
    pub is_large: bool,
}

impl Pair {
    /// The same pair with full buffers, where a peer of the kind takes so much.
    pub fn enlarged(self) -> Option<Self> {
        let is_stream = |peer: &Abilities| peer.kind != Kind::Udp;
        (is_stream(self.ender) && is_stream(self.other)).then_some(Self { is_large: true, ..self })
    }

    pub fn is_two_way(&self) -> bool {
        self.ender.two_way && self.other.two_way
    }
}

/// The test's acts from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    /// SIGTERM, once the other side has heard all.
    Terminate,
    /// The file of the ending side is cut, once the other side has received some bytes.
    Shrink,
}

/// The peer at the other address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    Peer,
    /// An address that cannot be opened.
    Nothing,
    /// A server of TCP that says something else than is expected, and closes.
    Stranger,
    /// A device that is full (full(4)).
    Full,
}

/// Why a pair has no meaning for an ending.
pub type LeftOut = &'static str;

pub struct Ending {
    pub name: &'static str,
    pub words: &'static str,
    pub options: &'static [&'static str],
    /// The limit of silence among the options, in seconds: no connection ended by the limit is
    /// shorter.
    pub limit_seconds: Option<f64>,
    /// Does the first address serve every client?
    pub forks: bool,
    pub act: Act,
    pub there: There,
    /// In a link of one direction: does the one who ends send?
    pub ender_sends: bool,
    pub ender: fn(&Pair) -> Vec<Step>,
    pub other: fn(&Pair) -> Vec<Step>,
    pub leaves_out: fn(&Pair) -> Option<LeftOut>,
    pub outcome: fn(&Pair) -> Outcome,
}

impl Ending {
    pub fn steps_of_ender(&self, pair: &Pair) -> Vec<Step> {
        sized((self.ender)(pair), pair)
    }

    pub fn steps_of_other(&self, pair: &Pair) -> Vec<Step> {
        sized((self.other)(pair), pair)
    }

    /// Has the ending a meaning with full buffers? A program next to one that has exited is given
    /// 0.5 s, which a slow reader may need.
    pub fn has_sizes(&self, pair: &Pair) -> bool {
        let is_hurried = pair.ender.is_program && pair.other.is_program;
        !(is_hurried && self.name.starts_with("leaves"))
            && (self.ender)(pair).contains(&Send(SENT_BYTES))
            && self.there == There::Peer
    }
}

/// Bytes that a peer leaves unread stay few: they have to fit into one buffer.
fn sized(steps: Vec<Step>, pair: &Pair) -> Vec<Step> {
    if !pair.is_large {
        return steps;
    }
    let has_terminal = [pair.ender.kind, pair.other.kind].contains(&Kind::Terminal);
    let large_bytes = if has_terminal { LARGE_FOR_TERMINAL_BYTES } else { LARGE_BYTES };
    let is_read = steps[0] == Rest && steps.last() == Some(&Leave);
    let enlarge = |step| match step {
        Send(SENT_BYTES) => Send(large_bytes),
        Hear(SENT_BYTES) => Hear(large_bytes),
        Send(ANSWER_BYTES) if is_read => Send(large_bytes / 2),
        step => step,
    };
    [Step::Slow].into_iter().chain(steps.into_iter().map(enlarge)).collect()
}

const ORDINARY: Ending = Ending {
    name: "",
    words: "",
    options: &[],
    limit_seconds: None,
    forks: false,
    act: Act::Nothing,
    there: There::Peer,
    ender_sends: true,
    ender: |_| Vec::new(),
    other: hears_and_stays,
    leaves_out: |_| None,
    outcome: |_| CLOSED,
};

const NO_HALF: LeftOut = "a peer of this kind cannot end its data and read on";
const ENDLESS: LeftOut = "datagrams have no end";
const ONE_WAY: LeftOut = "nothing comes back in one direction";
const LIFELESS: LeftOut = "a file neither waits nor goes away";
const NOT_PROGRAM: LeftOut = "only programs have an exit status";
const NOT_RESET: LeftOut = "only TCP can be reset";
const NOT_TLS: LeftOut = "only TLS has a close_notify";
const OPENED_FIRST: LeftOut = "the first address is opened first";
const NEVER_STALLS: LeftOut = "files and datagrams are always taken";

fn unless(holds: bool, rule: LeftOut) -> Option<LeftOut> {
    (!holds).then_some(rule)
}

/// Stays and reads until the link ends the connection. The source of a link of one direction has
/// nothing to read but on a socket.
fn stays(peer: &Abilities, pair: &Pair) -> Step {
    let reads = pair.is_two_way() || peer.is_connection;
    if reads { Rest } else { Await("over".into()) }
}

fn sends_and_stays(pair: &Pair) -> Vec<Step> {
    vec![Send(SENT_BYTES), stays(pair.ender, pair)]
}

fn hears_and_stays(_: &Pair) -> Vec<Step> {
    vec![Hear(SENT_BYTES), Mark("heard".into()), Rest]
}

fn sends_and(last: impl IntoIterator<Item = Step>) -> Vec<Step> {
    [Send(SENT_BYTES), Await("heard".into())].into_iter().chain(last).collect()
}

const A_PROGRAM_FAILS: Ending = Ending {
    leaves_out: |pair| unless(pair.ender.is_program, NOT_PROGRAM),
    outcome: |_| Outcome { ended: "program-failed", ..LEFT_FAILED },
    ..ORDINARY
};

const OPENS_NOTHING: Ending = Ending {
    ender: |_| vec![Rest],
    outcome: |_| Outcome {
        other_learns: Learned::Nothing,
        ender_learns: Learned::FailureInHaste,
        ended: "open-failed",
        ..FAILED
    },
    ..ORDINARY
};

pub const ENDINGS: [Ending; 21] = [
    Ending {
        name: "finishes",
        words: "one side ends its data, the other answers and ends",
        ender: |pair| match pair.is_two_way() {
            true => vec![Send(SENT_BYTES), End, Rest, Leave],
            false => vec![Send(SENT_BYTES), Leave],
        },
        other: |pair| match (pair.is_two_way(), pair.other.kind) {
            (true, Kind::Udp) => vec![Hear(SENT_BYTES), Send(ANSWER_BYTES), Rest],
            (true, _) => vec![Rest, Send(ANSWER_BYTES), Leave],
            (false, _) => vec![Rest, Leave],
        },
        leaves_out: |pair| match pair.ender.kind {
            Kind::Udp => Some(ENDLESS),
            _ => unless(!pair.is_two_way() || pair.ender.half_closes, NO_HALF),
        },
        outcome: |pair| match (pair.is_two_way(), pair.other.kind) {
            (false, _) => CLOSED,
            (true, Kind::Udp) => ends_properly(Learned::EndThenOver, pair.other),
            (true, _) => ends_properly(Learned::End, pair.other),
        },
        ..ORDINARY
    },
    Ending {
        name: "leaves",
        words: "one side closes both directions, or exits with 0; the other then ends",
        ender: |_| vec![Send(SENT_BYTES), Leave],
        other: |_| vec![Rest, Leave],
        leaves_out: |pair| match pair.ender.kind {
            Kind::Udp => Some(ENDLESS),
            _ => unless(pair.is_two_way(), ONE_WAY),
        },
        // Nobody waits for answers to a program that has exited.
        outcome: |pair| match pair.ender.is_program {
            true => CLOSED,
            false => ends_properly(Learned::Nothing, pair.other),
        },
        ..ORDINARY
    },
    Ending {
        name: "leaves-unanswered",
        words: "one side closes both directions, and then the other answers",
        ender: |_| vec![Send(SENT_BYTES), Close, Mark("gone".into()), Leave],
        other: |_| vec![Rest, Await("gone".into()), Send(ANSWER_BYTES), Leave],
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) | (_, Kind::Udp) => Some(ENDLESS),
            _ => unless(pair.is_two_way(), ONE_WAY),
        },
        outcome: |pair| {
            let failed = Outcome { other_learns: Learned::End, ..LEFT_FAILED };
            match pair.ender.kind {
                _ if pair.ender.is_program => CLOSED,
                Kind::Standard => Outcome { status: Status::Death("SIGPIPE"), ..failed },
                _ => failed,
            }
        },
        ..ORDINARY
    },
    Ending {
        name: "leaves-unread",
        words: "one side closes, or exits with 0, with bytes unread",
        ender: |_| {
            let mut steps = sends_and([Close, Mark("gone".into()), Leave]);
            steps.insert(0, Pending(ANSWER_BYTES));
            steps
        },
        // TLS says its end before the socket is closed.
        other: |_| {
            let mut steps = vec![Send(ANSWER_BYTES), Hear(SENT_BYTES), Mark("heard".into())];
            steps.extend([Rest, Await("gone".into()), Leave]);
            steps
        },
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) | (_, Kind::Udp) => Some(ENDLESS),
            _ => unless(pair.is_two_way(), ONE_WAY),
        },
        outcome: |pair| match pair.ender.kind {
            // Its end stands in what it has sent, before the reset.
            Kind::Tls => Outcome { other_learns: Learned::EndThenFailure, ..LEFT_FAILED },
            _ if pair.ender.reports_unread => LEFT_FAILED,
            _ => CLOSED,
        },
        ..ORDINARY
    },
    Ending {
        name: "stops-reading",
        words: "one side closes while the other goes on sending",
        ender_sends: false,
        ender: |_| vec![Hear(SENT_BYTES), Leave],
        other: |_| vec![Flood],
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) | (_, Kind::Udp) => Some(ENDLESS),
            (Kind::File, _) | (_, Kind::File) => Some(LIFELESS),
            _ => None,
        },
        outcome: |pair| {
            let failed = Outcome { other_learns: Learned::Nothing, ..LEFT_FAILED };
            match pair.ender.kind {
                // It had all that it wanted; on a terminal the other learns of that by SIGHUP, and
                // dies of it.
                _ if pair.ender.is_program && pair.other.kind == Kind::Terminal => {
                    Outcome { ended: "program-failed", ..failed }
                }
                _ if pair.ender.is_program => Outcome { other_learns: Learned::Nothing, ..CLOSED },
                Kind::Standard => Outcome { status: Status::Death("SIGPIPE"), ..failed },
                _ => failed,
            }
        },
        ..ORDINARY
    },
    Ending {
        name: "resets",
        words: "one side resets the connection",
        ender: |_| sends_and([Reset]),
        leaves_out: |pair| unless(pair.ender.resets, NOT_RESET),
        outcome: |_| LEFT_FAILED,
        ..ORDINARY
    },
    Ending {
        name: "is-cut",
        words: "one side ends the connection's data without close_notify",
        ender: |_| sends_and([Cut, Rest, Leave]),
        leaves_out: |pair| unless(pair.ender.kind == Kind::Tls, NOT_TLS),
        outcome: |_| FAILED,
        ..ORDINARY
    },
    Ending {
        name: "is-garbled",
        words: "right after its data one side sends bytes that are no TLS record",
        ender: |_| vec![Send(SENT_BYTES), Garble, Rest, Leave],
        leaves_out: |pair| match pair.other.is_program {
            _ if pair.ender.kind != Kind::Tls => Some("only TLS has records"),
            true => Some("a program may be ended before it has read"),
            false => None,
        },
        outcome: |_| LEFT_FAILED,
        ..ORDINARY
    },
    Ending {
        name: "fails",
        words: "a program exits with 3",
        ender: |_| sends_and([Exit(3)]),
        ..A_PROGRAM_FAILS
    },
    Ending {
        name: "is-killed",
        words: "a program is killed (SIGKILL)",
        ender: |_| sends_and([Kill]),
        ..A_PROGRAM_FAILS
    },
    Ending {
        name: "is-silent",
        words: "nothing moves for the idle limit (`-T`)",
        options: &["-T", "2"],
        limit_seconds: Some(2.0),
        ender: sends_and_stays,
        leaves_out: |pair| unless(pair.ender.is_alive, LIFELESS),
        outcome: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) | (_, Kind::Udp) => Outcome {
                other_learns: Learned::EndThenOver,
                ender_learns: Learned::EndThenOver,
                ended: "idle",
                ..CLOSED
            },
            _ => Outcome { ended: "idle", ..FAILED },
        },
        ..ORDINARY
    },
    Ending {
        name: "is-not-answered",
        words: "one side has ended, and the other is silent for the linger limit (`-t`)",
        options: &["-t", "1"],
        limit_seconds: Some(1.0),
        ender: |pair| sends_and([End, stays(pair.ender, pair)]),
        other: |_| vec![Hear(SENT_BYTES), Mark("heard".into()), Rest, Await("over".into())],
        leaves_out: |pair| match pair.ender.kind {
            Kind::Udp => Some(ENDLESS),
            Kind::File => Some(LIFELESS),
            Kind::Fifo => None,
            _ => unless(pair.ender.half_closes, NO_HALF),
        },
        outcome: |pair| {
            let over = Outcome {
                other_learns: Learned::EndThenOver,
                ender_learns: Learned::EndThenOver,
                ..CLOSED
            };
            match pair.is_two_way() {
                true => Outcome { ended: "lingered", ..over },
                // In one direction no answer is waited for, but a program's work is.
                false => {
                    let works = pair.ender.is_program || pair.other.is_program;
                    let ended = if works { "lingered" } else { over.ended };
                    Outcome { ender_learns: Learned::Nothing, ended, ..over }
                }
            }
        },
        ..ORDINARY
    },
    Ending {
        name: "is-not-read",
        words: "one side sends, and the other reads nothing for the idle limit (`-T`)",
        options: &["-T", "2"],
        limit_seconds: Some(2.0),
        ender: |_| vec![Flood],
        other: |_| vec![Await("over".into()), Rest],
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (_, Kind::Udp | Kind::File) => Some(NEVER_STALLS),
            (Kind::Udp, _) => Some(ENDLESS),
            _ => unless(pair.ender.is_alive, LIFELESS),
        },
        outcome: |_| Outcome {
            arrives: Arrives::Prefix,
            ender_learns: Learned::Nothing,
            ended: "idle",
            ..FAILED
        },
        ..ORDINARY
    },
    Ending {
        name: "ends-and-reads-nothing",
        words: "one side has ended and reads nothing of the answer for the linger limit (`-t`)",
        options: &["-t", "1"],
        limit_seconds: Some(1.0),
        ender: |_| sends_and([End, Await("over".into())]),
        other: |_| vec![Hear(SENT_BYTES), Mark("heard".into()), Rest, Flood],
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) | (_, Kind::Udp) => Some(ENDLESS),
            _ if !pair.is_two_way() => Some(ONE_WAY),
            _ => unless(pair.ender.half_closes, NO_HALF),
        },
        outcome: |_| Outcome {
            other_learns: Learned::End,
            ender_learns: Learned::Nothing,
            ended: "lingered",
            ..FAILED
        },
        ..ORDINARY
    },
    Ending {
        name: "is-terminated",
        words: "SIGTERM, without `fork`",
        act: Act::Terminate,
        ender: sends_and_stays,
        leaves_out: |pair| unless(pair.ender.is_alive, LIFELESS),
        outcome: |_| Outcome {
            other_learns: Learned::FailureInHaste,
            ender_learns: Learned::FailureInHaste,
            status: Status::Death("SIGTERM"),
            ended: "interrupted",
            ..FAILED
        },
        ..ORDINARY
    },
    Ending {
        name: "is-drained",
        words: "SIGTERM, with `fork`, and draining takes longer than `--drain`",
        // Far from the 0.5 s after which a silent sender of datagrams is let go.
        options: &["--drain", "0.02"],
        forks: true,
        act: Act::Terminate,
        ender: sends_and_stays,
        leaves_out: |pair| {
            let first = if pair.ender_is_first { pair.ender } else { pair.other };
            let second = if pair.ender_is_first { pair.other } else { pair.ender };
            match (first.kind, second.kind) {
                (Kind::Udp, _) => Some(ENDLESS),
                (_, Kind::Standard) => Some("there is one standard input for all clients"),
                _ => unless(first.listens, "only listening addresses serve every client"),
            }
        },
        // A program that is cut has 0.5 s to end by itself.
        outcome: |_| Outcome {
            other_learns: Learned::FailureInHaste,
            ender_learns: Learned::FailureInHaste,
            ended: "interrupted",
            ..FAILED
        },
        ..ORDINARY
    },
    Ending {
        name: "finds-nothing",
        words: "the other address cannot be opened",
        there: There::Nothing,
        other: |_| Vec::new(),
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            _ if !pair.ender_is_first => Some(OPENED_FIRST),
            (Kind::Udp, _) => Some(ENDLESS),
            (_, Kind::Standard | Kind::Fifo | Kind::Udp | Kind::Pipes | Kind::Terminal) => {
                Some("an address of this kind can always be opened")
            }
            _ => unless(pair.ender.two_way, LIFELESS),
        },
        ..OPENS_NOTHING
    },
    Ending {
        name: "finds-a-stranger",
        words: "the other address speaks another protocol",
        there: There::Stranger,
        other: |_| vec![Send(ANSWER_BYTES), Leave],
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            _ if !pair.ender_is_first => Some(OPENED_FIRST),
            (Kind::Udp, _) => Some(ENDLESS),
            (_, Kind::Tls | Kind::Socks | Kind::Connect) => unless(pair.ender.two_way, LIFELESS),
            _ => Some("nobody need agree on anything there"),
        },
        ..OPENS_NOTHING
    },
    Ending {
        name: "finds-nobody",
        words: "nobody receives at a UDP port",
        there: There::Nothing,
        ender: |_| vec![Send(SENT_BYTES), Rest],
        other: |_| Vec::new(),
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) => Some(ENDLESS),
            (_, Kind::Udp) => unless(pair.is_two_way(), ONE_WAY),
            _ => Some("the kernel reports it for datagrams alone"),
        },
        outcome: |_| Outcome { arrives: Arrives::Prefix, other_learns: Learned::Nothing, ..FAILED },
        ..ORDINARY
    },
    Ending {
        name: "finds-no-space",
        words: "a file cannot be written any more",
        there: There::Full,
        ender: sends_and_stays,
        other: |_| Vec::new(),
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (Kind::Udp, _) => Some("a datagram that cannot be written is the next test's"),
            (Kind::File, Kind::File) => None,
            _ => unless(pair.other.kind == Kind::File, "only files have no space"),
        },
        outcome: |_| Outcome { arrives: Arrives::Prefix, other_learns: Learned::Nothing, ..FAILED },
        ..ORDINARY
    },
    Ending {
        name: "shrinks",
        words: "a file shrinks while it is sent",
        act: Act::Shrink,
        ender: |_| vec![Send(SHRUNK_BYTES as usize)],
        other: |_| {
            let shrunk = SHRUNK_BYTES as usize;
            vec![Hear(shrunk), Mark("heard".into()), Await("cut".into()), Rest]
        },
        leaves_out: |pair| match (pair.ender.kind, pair.other.kind) {
            (_, Kind::Udp | Kind::File) => Some(NEVER_STALLS),
            (_, Kind::Terminal) => Some("a terminal drops what makes no lines"),
            _ => unless(pair.ender.kind == Kind::File, "only files shrink"),
        },
        outcome: |_| Outcome { arrives: Arrives::Prefix, ender_learns: Learned::Nothing, ..FAILED },
        ..ORDINARY
    },
];

/// Why two ends make no link at all, or the same one as another pair.
fn makes_no_link(ending: &Ending, pair: &Pair) -> Option<LeftOut> {
    let source_is_first = pair.ender_is_first == ending.ender_sends;
    match (pair.ender.kind, pair.other.kind) {
        (Kind::Standard, Kind::Standard) => Some("there is one standard input"),
        _ if !pair.is_two_way() && !source_is_first => {
            Some("a link of one direction goes from its first address")
        }
        (Kind::Udp, Kind::Udp) => Some("datagrams on both sides show nothing"),
        (Kind::Udp, _) if !pair.is_two_way() => Some(ENDLESS),
        (_, Kind::Udp) if !pair.is_two_way() => Some(ENDLESS),
        // The first datagram makes the connection.
        (Kind::Udp, _) => unless(pair.ender_is_first, "who sends first makes the connection"),
        (_, Kind::Udp) => unless(pair.ender_is_first, "who sends first makes the connection"),
        _ => None,
    }
}

/// Every pair of kinds with an ending, in both orders: the ones with a meaning, and the rules by
/// which others are left out.
pub fn pairs(ending: &'static Ending) -> impl Iterator<Item = (Pair, Option<LeftOut>)> {
    KINDS.iter().flat_map(move |ender| {
        KINDS.iter().flat_map(move |other| {
            [true, false].into_iter().map(move |ender_is_first| {
                let pair = Pair { ender, other, ender_is_first, is_large: false };
                let rule = makes_no_link(ending, &pair).or_else(|| (ending.leaves_out)(&pair));
                (pair, rule)
            })
        })
    })
}
