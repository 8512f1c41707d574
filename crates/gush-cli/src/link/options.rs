//! The command line of `gush link`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{ArgPredicate, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser, ValueEnum, ValueHint};
use gush::{Choice, MethodName};
use gush_link::address::{Kind, Opt};
use gush_link::proxy::Version;
use gush_text::{rate_bytes_per_second, some_time};
use tracing::level_filters::LevelFilter;

use crate::manual::row;
use crate::method;

/// Where these stand, nothing is connected.
const NO_ADDRESSES: [(&str, ArgPredicate, &str); 2] =
    [("from_socat", ArgPredicate::IsPresent, ""), ("make_cert", ArgPredicate::IsPresent, "")];

/// The command whose options these are.
pub const OWN_NAME: &str = "gush link";

/// Connect two addresses and move bytes between them
#[derive(Debug, Parser)]
#[command(name = "link", version, max_term_width = 100, disable_version_flag = true)]
pub struct Options {
    /// The first address
    #[arg(value_name = "ADDR1", value_hint = ValueHint::AnyPath, default_value_ifs(NO_ADDRESSES))]
    pub first: OsString,
    /// The second address
    #[arg(value_name = "ADDR2", value_hint = ValueHint::AnyPath, default_value_ifs(NO_ADDRESSES))]
    pub second: OsString,
    /// Print the gush link that does what socat ARGS does, or say which part has no equivalent and why
    #[arg(long, value_name = "ARGS", exclusive = true, allow_hyphen_values = true)]
    pub from_socat: Option<String>,
    /// Make PREFIX.crt, a certificate that signs itself, and PREFIX.key; PREFIX,NAME,NAME is for hosts of these names,
    /// PREFIX alone for this machine as localhost
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', exclusive = true)]
    pub make_cert: Option<Vec<OsString>>,

    /// Begin messages with the name of the command that has started this link
    #[arg(long, value_name = "COMMAND", hide = true, default_value = OWN_NAME)]
    pub speak_for: String,
    /// One way only: from the first address to the second
    #[arg(short = 'u', long)]
    pub one_way: bool,
    /// End a connection, with an error, when nothing has moved for TIME; opening and TLS handshakes have limits of their own
    #[arg(short = 'T', long, value_name = "TIME", value_parser = some_time)]
    pub idle: Option<Duration>,
    /// End a connection when one end has finished and nothing has moved for TIME
    #[arg(short = 't', long, value_name = "TIME", value_parser = some_time)]
    pub linger: Option<Duration>,
    /// At SIGTERM give clients TIME to finish, 30 s if it is not said, before they are cut
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub drain: Option<Duration>,
    /// Move at most RATE bytes a second, in each direction of each connection
    #[arg(long, value_name = "RATE", value_parser = rate_bytes_per_second)]
    pub limit: Option<u64>,
    /// Move by NAME or fail; auto picks the fastest sound method
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = method::parser(&METHODS))]
    pub method: Choice,
    /// Hand no page of a file on by reference, where a later write to the file would show
    #[arg(long)]
    pub isolated: bool,
    /// Append a copy of what goes from the first address to the second to FILE; copied bytes pass through memory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tee: Vec<PathBuf>,
    /// Append a copy of what comes back to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "one_way")]
    pub tee_back: Vec<PathBuf>,

    /// Show on standard error, as socat does, the text that passes
    #[arg(short = 'v', long)]
    pub dump_text: bool,
    /// Show on standard error the bytes that pass, in hexadecimal; with -v both
    #[arg(short = 'x', long)]
    pub dump_hex: bool,

    /// Read or send PROXY headers, which say where a client comes from: accept, send (= send-v1), send-v2
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        hide_possible_values = true,
        value_delimiter = ','
    )]
    pub proxy_protocol: Vec<ProxyProtocol>,
    /// Serve clients on at most N threads; 0, or no such option, means one a processor
    #[arg(long, value_name = "N", value_parser = crate::args::threads)]
    pub threads: Option<usize>,

    /// Show progress: auto (on a terminal), always, never
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub progress: Option<When>,
    /// Tell on standard error what moved the bytes, and which calls were refused
    #[arg(long)]
    pub explain: bool,
    /// Say on standard error, as text or json, of each connection that ended: peers, bytes, seconds, methods, why
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub stats: Option<Format>,
    /// The same as --stats=json
    #[arg(long)]
    pub json: bool,
    /// Answer HTTP at HOST:PORT with metrics for Prometheus, under /metrics
    #[arg(long, value_name = "HOST:PORT", value_parser = place)]
    pub metrics: Option<String>,
    /// Log what is as important as LEVEL: off, error, warn, info, debug
    #[arg(long, value_name = "LEVEL", value_parser = level_parser(), hide_possible_values = true, default_value = "warn")]
    pub log: LevelFilter,
    /// Log as text, timed (text with the time) or json
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true,
        default_value = "text"
    )]
    pub log_format: LogFormat,

    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProxyProtocol {
    Accept,
    Send,
    SendV1,
    SendV2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Timed,
    Json,
}

impl Options {
    /// How to tell of each connection, by whichever option.
    pub fn stats(&self) -> Option<Format> {
        if self.json { Some(Format::Json) } else { self.stats }
    }

    pub fn accepts_proxy(&self) -> bool {
        self.proxy_protocol.contains(&ProxyProtocol::Accept)
    }

    /// The version of the header to send; of several the last one counts.
    pub fn sends_proxy(&self) -> Option<Version> {
        self.proxy_protocol.iter().rev().find_map(|what| match what {
            ProxyProtocol::Accept => None,
            ProxyProtocol::Send | ProxyProtocol::SendV1 => Some(Version::V1),
            ProxyProtocol::SendV2 => Some(Version::V2),
        })
    }
}

/// The methods that a relay has.
const METHODS: [MethodName; 3] = [MethodName::ReadWrite, MethodName::Splice, MethodName::Sendfile];

fn level_parser() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["off", "error", "warn", "info", "debug"])
        .try_map(|name| name.parse())
}

/// Where to listen for scrapes. The port 0 is any that is free.
fn place(text: &str) -> Result<String, String> {
    const EXAMPLE: &str = "write HOST:PORT, such as localhost:9100, or 0.0.0.0:9100 for everybody";
    match text.rsplit_once(':') {
        None | Some(("", _)) => Err(EXAMPLE.to_owned()),
        Some((host, _))
            if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) =>
        {
            Err("an IPv6 address stands in brackets, such as [::1]:9100".to_owned())
        }
        Some((_, port)) if port.parse::<u16>().is_err() => {
            Err(format!("no port from 0 to 65535; {EXAMPLE}"))
        }
        Some(_) => Ok(text.to_owned()),
    }
}

/// The text below the options in the help.
pub fn after_help() -> String {
    let mut text = "Addresses:\n".to_owned();
    for kind in Kind::all() {
        text += &row(kind.grammar(), kind.help());
    }
    text += "\nOptions of addresses, each after a comma:\n";
    let most = Opt::all().map(|option| option.kinds().count()).max();
    for option in Opt::all() {
        let kinds: Vec<&str> = option.kinds().map(|kind| kind.name()).collect();
        let kinds =
            if Some(kinds.len()) == most { "every kind".to_owned() } else { kinds.join(", ") };
        text += &row(&option.usage(), &format!("{} ({kinds})", option.help));
    }
    format!("{text}\n{NOTES}\n{EXAMPLES}\n{STATUS}")
}

/// A line is a paragraph, which `--help` and the manual page wrap.
const NOTES: &str = "\
A comma or backslash that belongs to a path stands after a backslash or within quotes: file:'a,b'. Upper case and socat's names \
(TCP4-LISTEN, UNIX-CONNECT, OPEN) are understood, and --from-socat ARGS translates a whole command line of socat, quoted as one \
word or not. A socket that systemd or another service manager hands over (LISTEN_FDS) is listen-fd:3, or listen-fd:NAME.
";

const EXAMPLES: &str = "\
Send a file, and receive it:
  gush link -u backup.tar tcp:10.0.0.2:9000
  gush link -u tcp-listen:9000 file:backup.tar,create,trunc

Forward a port; serve a Unix socket on TCP, to this machine; serve a program:
  gush link tcp-listen:8080,fork,range=10.0.0.0/8 tcp:10.0.0.2:80
  gush link tcp-listen:127.0.0.1:2375,fork unix:/run/docker.sock
  gush link tcp-listen:7000,fork exec:'sort -u'

Tee a stream to a log; talk to a server by hand; show what passes:
  gush link -u --tee all.log tcp-listen:5140 -
  gush link - tcp:mail.example.org:25
  gush link -v tcp-listen:8080,fork tcp:10.0.0.2:80

Serve a port by TLS, with a certificate for a first try; connect to it:
  gush link --make-cert own,localhost
  gush link tls-listen:4433,fork,cert=own.crt,key=own.key tcp:localhost:80
  gush link - tls:localhost:4433,cafile=own.crt

Tell a server who its clients are, end the silent ones, and count:
  gush link --proxy-protocol send -T 5m --metrics localhost:9100 \\
      tcp-listen:443,fork tcp:10.0.0.2:8443
";

const STATUS: &str = "\
What -v and -x show passes through memory. Where nobody reads standard error, a connection waits for 1 s at most; then bytes \
are not shown, and their number is told once somebody reads again.

gush link moves bytes and leaves the rest to others: it does not balance load or check health (HAProxy, IPVS), nor look into \
requests of HTTP (nginx); TUN and TAP interfaces, raw IP, SCTP, DTLS and Unix datagrams are socat's.

TIME is a number of seconds, such as 2 or 0.5, or has a unit: 200ms, 5m, 1h.
RATE is a number of bytes, with K, M or G behind it for powers of 1024.

How a connection ends: the end of one side's data is passed on behind its last byte. When both have ended, what was written is \
waited for until the other side has acknowledged it (for 30 s without an answer, or -t TIME), and what still comes from a peer \
that nobody reads is dropped, so that nothing is cut. Where something failed instead, TCP peers see a reset, not an end: after \
a reset of the other side, a time limit (-T), a file that shrank, a program that failed, an address that cannot be opened, and \
when a link is told to end.

The bytes of --stats, --json and --metrics are those written to the other side. Of TCP the kernel has them then, and the peer \
may not have acknowledged the last ones: all have arrived where the account has no failure, and the link was not told to end.

Of TLS the end is a close_notify, then a FIN. A FIN alone means that data was cut, and fails; after a failure there is no \
close_notify.

The exit status of a program counts: other than 0, its connection has failed. A program that reads no more and then exits with \
0 had all it wanted. Datagrams have no end: once the data towards UDP has ended, answers are waited for until nothing comes \
for 0.5 s (or -t TIME), and a silence of -T TIME is no failure. The same 0.5 s hold for a terminal opened by its name, such as \
a serial line. With udp-listen and fork each sender is served until it is silent for 60 s (or -T TIME); where descriptors are \
short, those that have been silent longest, for 0.5 s at least, make room for senders that wait.

At SIGTERM a link with fork accepts no new clients, and ends when those it has are done, at the latest after 30 s (or --drain \
TIME); a second SIGTERM ends it at once, and so does SIGINT. Any other link ends at the first SIGTERM.

Exit status: 0 when the link was ended by its two ends, by -t with nothing left to deliver, or drained; 1 when something \
failed or was cut (with fork: the listener or the draining, a client's failure is its own); or death by the signal.";
