//! `gush link`: two addresses connected.

mod dump;
mod from_socat;
mod logging;
mod make_cert;
mod messages;
mod options;
mod progress;
mod signals;
pub mod socat;
mod socat_log;
mod stats;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use gush::Rate;
use gush::pipe::Pool;
use gush_link::address::{Address, AddressError};
use gush_link::gush_net::Direction;
use gush_link::{Ending, Ledger, Link, OnEnd, Settings, Stop, Tee};
use gush_text::{errno_text, in_brackets, os_text, quote};

use crate::args;
use crate::console::{Console, remedy_to_store};
use messages::Messages;
use options::{Format, LinkArgs};
use progress::Display;

/// The definition of `gush link`, for parsing, help, manual page and completions.
pub fn command() -> clap::Command {
    LinkArgs::command().after_help(options::after_help())
}

/// Runs `link` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    gush_process::restore_sigchld();
    let words = from_socat::as_one_word(words.collect());
    let parsed = words.iter().cloned().map(standard_streams);
    let mut options: LinkArgs = match args::parse(command(), parsed, "gush link") {
        Ok(options) => options,
        Err(status) => return status,
    };
    // Messages quote an address as the user wrote it.
    for address in [&mut options.first, &mut options.second] {
        if let Some(word) = words.iter().find(|word| standard_streams((*word).clone()) == *address)
        {
            address.clone_from(word);
        }
    }
    let console = Console::new(&options.speak_for).stamped(options.log_format.stamp());
    if let Some(arguments) = &options.from_socat {
        return from_socat::run(arguments, &console);
    }
    if let Some(words) = &options.make_cert {
        return make_cert::run(words, &console);
    }
    if let Some(bytes) = options.pipe_size {
        Pool::shared_with(bytes);
    }
    let messages = Messages::of(&options.speak_for);
    let link = match link(&options, &console, &messages) {
        Ok(link) => link,
        Err(why) => return console.fail(why),
    };
    if options.check {
        return link.check().map_or_else(|why| console.fail(why), |()| ExitCode::SUCCESS);
    }
    // EPIPE is a failure of one connection.
    gush_process::ignore_sigpipe();
    // So is EFBIG (ulimit -f).
    if let Err(status) = console.outlives_file_size_limit() {
        return status;
    }
    if options.graceful {
        // As socat, which Ctrl-C ends together with the script that has it in the background.
        gush_process::restore_terminations();
    }
    let stop = Stop::new();
    let is_socats = options.log_format.stamp().is_some();
    let report = report(&options, link.ledger(), console.clone().through(messages.clone()));
    // Before the link's threads, which inherit the mask that leaves signals to one thread.
    let (forks, exits) = (link.forks(), options.graceful);
    let watch = match signals::watch(&stop, forks, exits, messages.clone(), report) {
        Ok(watch) => watch,
        Err(errno) => {
            let why = errno_text(errno);
            return console.fail(format_args!("cannot watch for signals: {why}"));
        }
    };
    let _writing = match messages.write_to(io::stderr()) {
        Ok(writing) => writing,
        Err(error) => {
            let why = os_text(&error);
            return console
                .fail(format_args!("cannot start the thread that writes messages: {why}"));
        }
    };
    let console = console.through(messages.clone());
    logging::start(options.log, options.log_format, &messages, &options.speak_for);
    let display = Display::start(options.progress, link.ledger(), &console);
    let ran = link.run(&stop);
    if let Some(display) = display {
        display.finish();
    }
    let drained_by = watch.finish();
    match ran {
        // As socat, which exits with this status and leaves its clients to other processes.
        Ok(_) => match drained_by.filter(|_| options.graceful) {
            Some(signal) => {
                signals::report_exit(signal);
                ExitCode::from(signals::status(signal))
            }
            None => ExitCode::SUCCESS,
        },
        Err(failure) if failure.reader_gone && !options.graceful => {
            // As filters do, unless SIGPIPE was ignored from the start, and unlike socat.
            messages.wait_while_read();
            gush_process::die_of_sigpipe();
            console.fail(failure)
        }
        Err(failure) => {
            console.say(&failure);
            match drained_by.filter(|_| options.graceful) {
                Some(signal) => ExitCode::from(signals::status(signal)),
                None if is_socats && failure.is_refusal => ExitCode::from(REFUSED_TO_SOCAT),
                None => ExitCode::FAILURE,
            }
        }
    }
}

/// socat's exit status after the refusal of a proxy or a TLS server, which it takes for a warning.
const REFUSED_TO_SOCAT: u8 = 255;

/// `-,OPTION`, `-!!ADDR` and `-|ADDR` are addresses, in which clap would see short options.
fn standard_streams(word: OsString) -> OsString {
    let rest = word.to_str().and_then(|text| text.strip_prefix('-'));
    match rest.filter(|rest| [",", "!!", "|"].iter().any(|sign| rest.starts_with(sign))) {
        Some(rest) => format!("stdio{rest}").into(),
        None => word,
    }
}

fn link(options: &LinkArgs, console: &Console, messages: &Messages) -> Result<Link, String> {
    let (mut copy, mut copy_back) =
        (only("--tee", &options.tee)?, only("--tee-back", &options.tee_back)?);
    if options.one_way_back {
        std::mem::swap(&mut copy, &mut copy_back);
    }
    let is_one_way = options.one_way || options.one_way_back;
    // socat makes the file.
    if is_one_way && copy_back.is_some() && !options.graceful {
        return Err(
            "bytes go one way only, and there are none in the direction that is to be copied"
                .to_owned(),
        );
    }
    // A check makes no file.
    let tee = |path: &Path| tee(if options.check { Path::new("/dev/null") } else { path });
    let settings = Settings {
        one_way: is_one_way,
        reversed: options.one_way_back,
        is_part: options.speak_for != options::OWN_NAME,
        idle: options.idle,
        linger: options.linger,
        graceful: options.graceful,
        drain: options.drain,
        limit: options.limit.and_then(Rate::bytes_per_second),
        method: options.method,
        isolated: options.isolated,
        message_bytes: options.message_bytes,
        accept_proxy: options.accepts_proxy(),
        send_proxy: options.sends_proxy(),
        tee: copy.map(tee).transpose()?,
        tee_back: copy_back.map(tee).transpose()?,
        handover: options.handover.clone(),
        metrics: options.metrics.clone(),
        threads: options.threads.filter(|threads| *threads > 0),
        observe: dump::observe(options.dump_text, options.dump_hex, messages),
        on_end: on_end(options, console.clone().through(messages.clone())),
    };
    let with_pointer = |error: AddressError| format!("{error}{}", from_socat::pointer(&error));
    let address = |text: &OsStr| Address::from_os(text).map_err(with_pointer);
    let (mut first, mut second) = (address(&options.first)?, address(&options.second)?);
    // The source is the first to a link.
    if options.one_way_back {
        std::mem::swap(&mut first, &mut second);
    }
    Link::new(first, second, settings).map_err(|failure| failure.to_string())
}

/// The file of `option`, of which there is at most one.
fn only<'a>(option: &str, files: &'a [PathBuf]) -> Result<Option<&'a Path>, String> {
    match files {
        [] => Ok(None),
        [file] => Ok(Some(file)),
        _ => Err(format!("{option} is given twice, and takes one FILE (gush tee writes several)")),
    }
}

fn tee(path: &Path) -> Result<Arc<Tee>, String> {
    let failed = |error: io::Error| {
        let by_errno = in_brackets(remedy_to_store(path, &error).as_deref());
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied if by_errno.is_empty() => {
                " (the file, or its directory, must be writable to this user)"
            }
            ErrorKind::IsADirectory => " (name a file in it)",
            _ => &by_errno,
        };
        let file = quote::if_needed(path);
        format!("the copy into {file}: open: {}{remedy}", os_text(&error))
    };
    Tee::append_to(path).map(Arc::new).map_err(failed)
}

/// Prints the totals of the running link whenever it is called.
fn report(
    options: &LinkArgs,
    ledger: Arc<Ledger>,
    console: Console,
) -> Box<dyn FnMut() + Send + 'static> {
    if options.log_format.stamp().is_none() {
        return Box::new(progress::report(ledger, console));
    }
    let ways = (options.one_way, options.one_way_back);
    Box::new(move || {
        let bytes = Direction::ALL.map(|way| ledger.delivered_bytes(way));
        let is_open = ledger.connections() > 0;
        stats::as_socat(is_open.then_some(bytes), ways).for_each(|line| console.say(line));
    })
}

/// Reports connections as the options say.
fn on_end(options: &LinkArgs, console: Console) -> Option<OnEnd> {
    let (stats, explain) = (options.stats(), options.explain);
    let is_socats = options.log_format.stamp().is_some();
    let ways = (options.one_way, options.one_way_back);
    if stats.is_none() && !explain {
        return None;
    }
    Some(Arc::new(move |record| {
        if explain {
            console.say(stats::explained(record));
        }
        match stats {
            Some(Format::Text) if is_socats => {
                let is_open =
                    !matches!(record.ending, Ending::OpenFailed | Ending::HandshakeFailed);
                let bytes = [record.forward.bytes, record.back.bytes];
                stats::as_socat(is_open.then_some(bytes), ways).for_each(|line| console.say(line));
            }
            Some(Format::Text) => console.say(stats::text(record)),
            Some(Format::Json) => console.print(format_args!("{}\n", stats::json(record))),
            None => {}
        }
    }))
}
