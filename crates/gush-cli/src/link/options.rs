//! The command line of `gush link`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{ArgPredicate, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser, ValueEnum, ValueHint};
use gush::{Choice, MethodName};
use gush_link::address::{Kind, Opt};
use gush_link::proxy::Version;
use gush_text::{pipe_bytes, rate_bytes_per_second, size_bytes, some_time};
use tracing::level_filters::LevelFilter;

use crate::cp::When;
use crate::manual::row;
use crate::method;

/// Options without which two addresses are required.
const NO_ADDRESSES: [(&str, ArgPredicate, &str); 2] =
    [("from_socat", ArgPredicate::IsPresent, ""), ("make_cert", ArgPredicate::IsPresent, "")];

/// The command whose options these are.
pub const OWN_NAME: &str = "gush link";

/// Connect two addresses and move bytes between them
#[derive(Debug, Parser)]
#[command(name = "link", version, max_term_width = 100, disable_version_flag = true)]
pub struct LinkArgs {
    /// The first address
    #[arg(value_name = "ADDR1", value_hint = ValueHint::AnyPath, default_value_ifs(NO_ADDRESSES))]
    pub first: OsString,
    /// The second address
    #[arg(value_name = "ADDR2", value_hint = ValueHint::AnyPath, default_value_ifs(NO_ADDRESSES))]
    pub second: OsString,
    /// Translate the command line socat ARGS, or report the parts without an equivalent
    #[arg(long, value_name = "ARGS", exclusive = true, allow_hyphen_values = true)]
    pub from_socat: Option<String>,
    /// Make a self-signed certificate PREFIX.crt and its key PREFIX.key; PREFIX,NAME,NAME is for
    /// hosts of these names, PREFIX alone for localhost
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', exclusive = true)]
    pub make_cert: Option<Vec<OsString>>,

    /// Check the addresses, options, certificates, keys and users, open nothing, and exit with 0 or
    /// a message; files, ports, programs and directories are not tried
    #[arg(long)]
    pub check: bool,
    /// Prefix messages with the name of the command that started this link
    #[arg(long, value_name = "COMMAND", hide = true, default_value = OWN_NAME)]
    pub speak_for: String,
    /// One way only: from the first address to the second
    #[arg(short = 'u', long)]
    pub one_way: bool,
    /// One way only: from the second address to the first, which is still opened first
    #[arg(short = 'U', long, conflicts_with = "one_way")]
    pub one_way_back: bool,
    /// End a connection, with an error, when nothing has moved for TIME; opening and TLS handshakes
    /// have separate limits
    #[arg(short = 'T', long, value_name = "TIME", value_parser = some_time)]
    pub idle: Option<Duration>,
    /// End a connection when one end has finished and nothing has moved for TIME
    #[arg(short = 't', long, value_name = "TIME", value_parser = some_time)]
    pub linger: Option<Duration>,
    /// After a failure end the data instead of resetting TCP connections, unless bytes of the peer
    /// are left unread; let -T and -t wait while bytes wait for a reader, and end without an error
    #[arg(long)]
    pub graceful: bool,
    /// At SIGTERM, give clients TIME to finish before they are cut; 30 s by default
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub drain: Option<Duration>,
    /// Move at most RATE bytes a second, in each direction of each connection
    #[arg(long, value_name = "RATE", value_parser = rate_bytes_per_second)]
    pub limit: Option<u64>,
    /// Cut a stream into datagrams of at most SIZE bytes, up to 64K; 8K by default. With --graceful
    /// the rest of a longer one that comes is dropped
    #[arg(short = 'b', long = "message-size", value_name = "SIZE", value_parser = message_bytes)]
    pub message_bytes: Option<usize>,
    /// Move by pipes of at most SIZE: at least 64K; 1M by default, and less with many connections
    #[arg(long, value_name = "SIZE", value_parser = pipe_bytes)]
    pub pipe_size: Option<usize>,
    /// Move by NAME or fail; auto picks the fastest sound method
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = method::parser(&METHODS))]
    pub method: Choice,
    /// Never send pages of a file by reference, where a later write to the file can change data
    /// that was already sent
    #[arg(long)]
    pub isolated: bool,
    /// Append a copy of the data from the first address to the second to FILE; copied data passes
    /// through memory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tee: Vec<PathBuf>,
    /// Append a copy of the data from the second address to the first to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tee_back: Vec<PathBuf>,

    /// Dump the data to standard error as text, in socat's format
    #[arg(short = 'v', long)]
    pub dump_text: bool,
    /// Dump the data to standard error in hexadecimal; with -v both
    #[arg(short = 'x', long)]
    pub dump_hex: bool,

    /// Accept or send PROXY headers, which carry the client's address: accept, send (= send-v1),
    /// send-v2
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        hide_possible_values = true,
        value_delimiter = ','
    )]
    pub proxy_protocol: Vec<ProxyProtocol>,
    /// Serve clients on at most N threads; one per processor by default, or with 0
    #[arg(long, value_name = "N", value_parser = crate::args::threads)]
    pub threads: Option<usize>,

    /// Show progress: auto (on a terminal), always, never
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub progress: Option<When>,
    /// Report on standard error which methods moved the data, and which calls were refused
    #[arg(long)]
    pub explain: bool,
    /// Report each ended connection on standard error, as text or json: peers, bytes, seconds,
    /// methods, reason
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub stats: Option<Format>,
    /// The same as --stats=json
    #[arg(long)]
    pub json: bool,
    /// Serve Prometheus metrics over HTTP at HOST:PORT, under /metrics
    #[arg(long, value_name = "HOST:PORT", value_parser = place)]
    pub metrics: Option<String>,
    /// Take over listeners and connections from the link that runs with the same PATH and
    /// addresses (one with fork), and later pass them on to the next one. PATH is a socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub handover: Option<PathBuf>,
    /// Log messages at LEVEL and above: off, error, warn, info, debug
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
pub enum Format {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Timed,
    Json,
    /// As socat's messages, for `gush socat`.
    #[value(hide = true)]
    Socat,
    /// The same with microseconds.
    #[value(hide = true)]
    SocatPrecise,
}

impl LogFormat {
    /// Makes a line of a message, where the format is not the usual one.
    pub fn stamp(self) -> Option<fn(&str) -> String> {
        match self {
            Self::Socat => Some(super::socat_log::line),
            Self::SocatPrecise => Some(super::socat_log::precise_line),
            _ => None,
        }
    }
}

impl LinkArgs {
    /// The format of the report about each connection.
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

/// Parses the size of a datagram.
fn message_bytes(text: &str) -> Result<usize, String> {
    const MOST: u64 = 64 << 10;
    match size_bytes(text).map_err(|error| error.to_string())? {
        bytes @ 1..=MOST => Ok(bytes as usize),
        _ => Err("a datagram has 1 to 65536 bytes".to_owned()),
    }
}

/// Parses HOST:PORT. Port 0 is any free one.
fn place(text: &str) -> Result<String, String> {
    const EXAMPLE: &str =
        "write HOST:PORT, such as localhost:9100, or 0.0.0.0:9100 for all interfaces";
    match text.rsplit_once(':') {
        None | Some(("", _)) => Err(EXAMPLE.to_owned()),
        Some((host, _))
            if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) =>
        {
            Err("an IPv6 address is written in brackets, such as [::1]:9100".to_owned())
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
A comma or backslash in a path is escaped by a backslash or quoted: file:'a,b'. Upper case and socat's names (TCP4-LISTEN, \
UNIX-CONNECT, OPEN) are accepted, and --from-socat ARGS translates a whole command line of socat, quoted as one argument or not. \
A socket from systemd or another service manager (LISTEN_FDS) is listen-fd:3, or listen-fd:NAME.
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
What -v and -x dump passes through memory. If standard error is not read, a connection waits for at most 1 s; then data is not \
shown, and the number of omitted bytes is reported once it is read again.

gush link moves data and nothing else: it does not balance load or check health (HAProxy, IPVS), nor look into HTTP requests \
(nginx); TUN and TAP interfaces, raw IP, SCTP and DTLS are left to socat.

TIME is a number of seconds, such as 2 or 0.5, or has a unit: 200ms, 5m, 1h.
RATE and BYTES take units: K, M and G are powers of 1024, KB, MB and GB of 1000, and b is 512.

How a connection ends: the end of one side's data is passed on after its last byte. When both sides have ended, gush link waits \
until the other side has acknowledged what was written (30 s without an answer, or -t TIME), and drops what still comes from a \
peer that is no longer read, so that nothing is lost. After a failure TCP peers see a reset, not an end of data: after a reset \
of the other side, a time limit (-T), a file that shrank, a program that failed, an address that cannot be opened, and when the \
link is ended by a signal. With --graceful they see an end, as with socat, unless bytes that they have sent are left \
unread: close(2) resets those connections. -T and -t wait for readers then, and programs are not killed.

--stats, --json and --metrics count the bytes written to the other side. A TCP peer may not have acknowledged the last ones: all \
have arrived if the record has no error, and the link was not ended by a signal.

A TLS stream ends with a close_notify, then a FIN. A FIN alone means that data was truncated, and is an error; after a failure no \
close_notify is sent.

The exit status of a program counts: other than 0, its connection has failed. If a program stops reading early but exits with 0, \
that is not a failure. Datagrams have no end: once the data towards UDP has ended, answers are awaited until nothing comes for 0.5 s \
(or -t TIME), and a silence of -T TIME is no failure. The same 0.5 s apply to a terminal opened by its name, such as a serial \
line. With udp-listen and fork each sender is served until it is silent for 60 s (or -T TIME); if descriptors are short, senders \
that have been silent longest, for at least 0.5 s, are evicted for new ones.

At SIGTERM a link with fork accepts no new clients, and ends when those it has are done, at the latest after 30 s (or --drain \
TIME); a second SIGTERM ends it at once, and so do SIGINT, SIGQUIT and SIGHUP (with --graceful those of a terminal). Any other link ends at the first SIGTERM. SIGUSR1 \
prints the totals on standard error.

Exit status: 0 if the two ends finished, -t ended the link with nothing left to deliver, or it drained; 1 if something failed or \
was cut (with fork: the listener or the draining, not a client); or death by the signal.";
