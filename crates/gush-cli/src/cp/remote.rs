//! `gush cp SOURCE... HOST:DEST`, or `HOST:SOURCE... DEST`: a copy to another machine, or from it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use clap::parser::ValueSource;
use gush_text::{Doing, errno_text, in_brackets, quote};
use gush_tree::{Destination, NamingError, Update};
use gush_wire::record;
use gush_wire::{Address, Error, Remote, Request, Streams, Transport};
use rustix::fs::CWD;
use rustix::io::Errno;

use super::command::Words;
use super::say::Reporter;
use super::settings::Settings;
use super::{count_ahead, source_name};
use crate::console::Console;

/// The options that such a copy serves. Any other is refused, never ignored.
const SERVED: &[&str] = &[
    "operands",
    "target-directory",
    "no-target-directory",
    "strip-trailing-slashes",
    "recursive",
    "one-file-system",
    "no-dereference",
    "H",
    "d",
    "archive",
    "p",
    "preserve",
    "no-preserve",
    "exclude",
    "include",
    "filter-from",
    "gitignore",
    "on-error",
    "update",
    "no-clobber",
    // A file is replaced in any case.
    "force",
    "checksum",
    "delete",
    "resume",
    "dry-run",
    "numeric-ids",
    "atomic",
    "verify",
    "limit",
    "verbose",
    "json",
    "progress",
    "rsh",
    "remote-gush",
    "via",
    "compress",
    "streams",
];

/// The options that a copy to or from another machine serves, as the help names them.
pub(super) fn served() -> String {
    let dashed = SERVED.iter().filter(|id| **id != "operands").map(|id| match id.len() {
        1 => format!("-{id}"),
        _ => format!("--{id}"),
    });
    dashed.collect::<Vec<_>>().join(", ")
}

/// The most streams where no number is given: one of ssh carries 2 MiB in a round trip.
const MOST_STREAMS: usize = 4;

/// What connects the two sides.
#[derive(Debug)]
enum Connector {
    /// `shell HOST gush serve-tree`.
    Shell { shell: Vec<String>, gush: OsString },
    /// An address of `gush link`, where `gush serve-tree` is started for each connection.
    Address(OsString),
}

impl Connector {
    fn read(words: &Words) -> Result<Self, String> {
        if let Some(address) = words.text("via") {
            if words.text("rsh").or(words.text("remote-gush")).is_some() {
                return Err(
                    "--via starts no remote shell: leave out --rsh and --remote-gush".into()
                );
            }
            return check_address(address).map(|()| Self::Address(address.clone()));
        }
        let shell = words.text("rsh").map_or("ssh".into(), |text| text.to_string_lossy());
        let shell = shlex::split(&shell).filter(|words| !words.is_empty());
        Ok(Self::Shell {
            shell: shell
                .ok_or("--rsh is not a command line: it is empty, or a quote is not closed")?,
            gush: words.text("remote-gush").map_or_else(|| "gush".into(), OsString::clone),
        })
    }

    /// Starts the first connection. The messages of a link begin with `as_name`.
    fn start(&self, address: &Address, as_name: &str) -> Result<(Remote, (File, File)), Error> {
        match self {
            Self::Shell { shell, gush } => Remote::start(shell, address, gush),
            Self::Address(via) => {
                let mut link = ["/proc/self/exe", "link", "--speak-for", as_name, "--", "-"]
                    .map(OsString::from)
                    .to_vec();
                link.push(via.clone());
                Remote::connect(link)
            }
        }
    }

    /// The remedy for a command that does not start, or leads to another program.
    fn remedy(&self, error: &Error) -> Option<String> {
        if let Error::Protocol(_) = error {
            let remedy = "install the same gush on both machines, unless something between them \
                          changes bytes";
            return Some(remedy.into());
        }
        let Error::Start { command, error } = error else { return None };
        let errno = Errno::from_io_error(error)?;
        let remedy = gush_text::remedy_at(CWD, command, Doing::Starting, errno);
        let option = matches!(self, Self::Shell { .. }).then_some("--rsh names another program");
        let parts: Vec<_> = remedy.into_iter().chain(option).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The remedy for a command that has ended before gush answered.
    fn remedy_for_silence(&self, host: &OsStr, status: Option<ExitStatus>) -> Option<String> {
        let Self::Shell { shell, gush } = self else {
            let remedy = "the address must lead to gush serve-tree, whose messages appear where it \
                          runs";
            return Some(remedy.into());
        };
        // What a shell answers where it finds no such program, or none that it may run.
        let lacks_gush = matches!(status.and_then(|status| status.code()), Some(126 | 127));
        let option = if lacks_gush { "--remote-gush names another program; " } else { "" };
        let (host, gush) = (host.to_string_lossy(), gush.to_string_lossy());
        let words = shell.iter().map(String::as_str).chain([&*host, &*gush, "--version"]);
        Some(format!("{option}`{}` shows why", shlex::try_join(words).ok()?))
    }

    /// Has the command itself said why nobody answers? A link names the call that has failed.
    fn has_said(&self, error: &Error, status: Option<ExitStatus>) -> bool {
        let is_failure = status.and_then(|status| status.code()) == Some(1);
        is_failure && matches!((self, error), (Self::Address(_), Error::Silent))
    }

    /// Explains the end of a session by that of the command.
    fn explains(&self, error: Error, command: &str, status: Option<ExitStatus>) -> Error {
        let (name, silence) = match self {
            Self::Shell { .. } => (command, "the shell's start-up files there must print nothing"),
            Self::Address(_) => ("the link", "the address must lead to gush serve-tree"),
        };
        let status = status.filter(|status| !status.success());
        // `exit status: 1`, or `signal: 9 (SIGKILL)`.
        let status = status.map(|status| status.to_string().replacen(':', "", 1));
        match (error, status) {
            (error @ Error::Greeting(_), _) => Error::Refused(format!("{error} ({silence})")),
            (Error::Silent, Some(status)) => {
                Error::Refused(format!("{name} ended with {status} before gush answered"))
            }
            (Error::Ended | Error::Io { .. }, Some(status)) => {
                Error::Refused(format!("{name} ended with {status} before the copy was complete"))
            }
            (error, _) => error,
        }
    }
}

#[cfg(feature = "link")]
fn check_address(address: &OsStr) -> Result<(), String> {
    use std::os::unix::fs::FileTypeExt;

    use gush_link::address::{Address, Locator};

    let address = Address::from_os(address).map_err(|error| format!("--via: {error}"))?;
    let is_socket = |path: &Path| path.metadata().is_ok_and(|found| found.file_type().is_socket());
    match address.locator() {
        // Any other word is a path.
        Locator::Path(path) if !is_socket(path) => {
            Err("--via takes an address such as tcp:HOST:PORT".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(not(feature = "link"))]
fn check_address(_address: &OsStr) -> Result<(), String> {
    Err(format!("--via: {}", crate::about::why_left_out("link")))
}

/// The two sides, each path as its machine finds it.
#[derive(Debug)]
struct Sides {
    /// The target, or the first source.
    other: Address,
    sources: Vec<PathBuf>,
    target: PathBuf,
    /// The sources are on the other machine.
    is_pull: bool,
    /// An operand that has also the name of a local file.
    namesake: Option<PathBuf>,
}

impl Sides {
    /// `None` if both are on this machine.
    fn of(settings: &Settings) -> Result<Option<Self>, String> {
        let (target, sources) = match (&settings.naming.target_directory, &settings.operands[..]) {
            (Some(directory), sources) => (directory, sources),
            (None, [sources @ .., target]) => (target, sources),
            (None, []) => return Ok(None),
        };
        let named: Vec<&Path> =
            sources.iter().map(|operand| source_name(settings, operand)).collect();
        let remote: Vec<Address> =
            named.iter().filter_map(|path| Address::of(path.as_os_str())).collect();
        let target_there = Address::of(target.as_os_str());
        let Some(other) = target_there.as_ref().or(remote.first()).filter(|_| !named.is_empty())
        else {
            return Ok(None);
        };
        let namesake = || {
            let mut remote = match target_there {
                Some(_) => vec![target.as_path()],
                None => named.clone(),
            };
            remote.retain(|path| path.symlink_metadata().is_ok());
            remote.first().map(|path| path.to_path_buf())
        };
        let why = match () {
            () if target_there.is_some() && !remote.is_empty() => {
                "SOURCE and DEST cannot both be on another machine"
            }
            () if target_there.is_none() && remote.len() < named.len() => {
                "some sources are on another machine and some on this one; copy them one by one"
            }
            () if remote.iter().any(|address| address.host != other.host) => {
                "the sources are on several machines; copy from one after the other"
            }
            () if remote.iter().any(|address| address.path.as_os_str().is_empty()) => {
                "HOST: names no source (HOST:. is the directory where a login starts)"
            }
            () => {
                return Ok(Some(Self {
                    other: other.clone(),
                    is_pull: target_there.is_none(),
                    namesake: namesake(),
                    sources: match remote.is_empty() {
                        true => named.into_iter().map(Path::to_path_buf).collect(),
                        false => remote.into_iter().map(|address| address.path).collect(),
                    },
                    target: target_there.map_or_else(|| target.clone(), |address| address.path),
                }));
            }
        };
        Err(format!("{why}; a local file with a colon in its name is written ./NAME"))
    }
}

/// The other machine, and what leads there.
#[derive(Debug)]
pub struct RemoteCopy {
    sides: Sides,
    is_directory: bool,
    connector: Connector,
    streams: Streams,
    compresses: bool,
    numeric_ids: bool,
}

impl RemoteCopy {
    /// What the command line says, if one of the sides is on another machine.
    ///
    /// # Errors
    /// A message about an option or operand that such a copy does not serve.
    pub fn read(words: &Words, settings: &Settings) -> Result<Option<Self>, String> {
        settings.naming.check(&settings.operands)?;
        let is_given = |id: &&str| words.0.value_source(id) == Some(ValueSource::CommandLine);
        let Some(sides) = Sides::of(settings)? else {
            let alone = ["rsh", "remote-gush", "via", "compress", "streams", "numeric-ids"]
                .into_iter()
                .find(is_given);
            return match alone {
                Some(name) => Err(format!("--{name} requires HOST:SOURCE or HOST:DEST")),
                None => Ok(None),
            };
        };
        let ids: Vec<&str> = words.0.ids().map(clap::Id::as_str).collect();
        let unserved = ids.into_iter().filter(|id| !SERVED.contains(id)).find(is_given);
        if let Some(name) = unserved {
            let is_meant = ["rsh", "via"].iter().any(is_given);
            let hint =
                (!is_meant).then_some("a local file with a colon in its name is written ./NAME");
            return Err(format!(
                "--{name} is not served in a copy to or from another machine{}",
                in_brackets(hint)
            ));
        }
        if settings.options.stop_at_error {
            return Err("--on-error=stop is not served in a copy to or from another machine".into());
        }
        let naming = &settings.naming;
        if settings.options.resume
            && !naming.no_target_directory
            && naming.target_directory.is_none()
        {
            return Err(
                "--resume in a copy to or from another machine requires -T or -t: without \
                        them the same command means another target once DEST is there"
                    .into(),
            );
        }
        let streams = match words.text("streams").map(|text| text.to_string_lossy()) {
            None => Streams::UpTo(MOST_STREAMS),
            Some(text) => match text.parse() {
                Ok(number @ 1..=record::MOST_STREAMS) => Streams::Exactly(number),
                _ => {
                    let most = record::MOST_STREAMS;
                    return Err(format!("--streams takes a number from 1 to {most}, not '{text}'"));
                }
            },
        };
        Ok(Some(Self {
            sides,
            is_directory: settings.naming.target_directory.is_some(),
            connector: Connector::read(words)?,
            streams,
            compresses: words.has("compress"),
            numeric_ids: words.has("numeric-ids"),
        }))
    }
}

/// Prepares this process to make files of another machine.
///
/// # Errors
/// The exit status for failure, after the message is written.
fn prepare_to_receive(settings: &Settings, console: &Console) -> Result<(), ExitCode> {
    match settings.naming.destination(&mut settings.operands.clone()) {
        Ok(Destination::File { path, .. })
            if path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir()) =>
        {
            let shown = quote::always(&path);
            return Err(console.fail(format_args!(
                "{shown} is a special file, which a copy from another machine does not write to"
            )));
        }
        Ok(_) => {}
        Err(NamingError::Usage(text)) => return Err(console.fail(text)),
        Err(NamingError::Target(error)) => return Err(console.fail(error)),
    }
    gush_process::on_termination(gush_tree::remove_temporaries).map_err(|errno| {
        console.fail(format_args!("cannot watch for signals: {}", errno_text(errno)))
    })?;
    gush_process::raise_descriptor_limit();
    Ok(())
}

/// Copies to the other machine, or from it.
pub fn run(settings: &Settings, copy: &RemoteCopy, as_name: &str, console: &Console) -> ExitCode {
    let sides = &copy.sides;
    if sides.is_pull
        && let Err(status) = prepare_to_receive(settings, console)
    {
        return status;
    }
    let request = Request {
        sources: &sides.sources.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
        target: &sides.target,
        host: &sides.other.prefix,
        is_exact: settings.naming.no_target_directory,
        is_directory: copy.is_directory,
        compresses: copy.compresses,
    };
    if settings.options.resume && !settings.options.preserve.times {
        console.say(
            "warning: without -p or -a the copies get other times than the sources, by which --resume \
             finds what is complete: all files are sent again",
        );
    }
    let mut reporter = Reporter::new(as_name, console, settings);
    reporter.sum_up();
    if !sides.is_pull && reporter.shows_progress() {
        reporter.expect(count_ahead(&settings.options, sides.sources.clone()));
    }
    gush_process::restore_sigchld();
    let (mut is_reached, mut is_said, mut remedy) = (false, false, None);
    let ended = copy.connector.start(&sides.other, as_name).and_then(|(remote, streams)| {
        let mut options = settings.options.clone();
        options.preserve.numeric_ids = copy.numeric_ids;
        let further: (&dyn Transport, Streams) = (&remote, copy.streams);
        let transfer = if sides.is_pull { gush_wire::receive } else { gush_wire::send };
        let sent = transfer(&request, &options, streams, further, &mut reporter);
        if sent.is_err() {
            remote.end();
            gush_tree::remove_temporaries();
        }
        is_reached = !matches!(sent, Err(Error::Silent));
        let (command, status) = remote.wait()?;
        remedy = match &sent {
            Err(Error::Silent) => copy.connector.remedy_for_silence(&sides.other.host, status),
            Err(Error::Ended | Error::Io { .. } | Error::Further(_)) if !options.dry_run => {
                let is_resumable = options.recursive && options.preserve.times;
                let goes_on = match options.update {
                    Update::Different | Update::None => "the same command copies the rest",
                    Update::Changed if options.preserve.times => "the same command copies the rest",
                    _ if options.resume && is_resumable => "the same command copies the rest",
                    Update::All if is_resumable => "--resume with -T or -t copies the rest",
                    _ => "copy again",
                };
                Some(format!("{}; {goes_on}", reporter.copied()))
            }
            _ => None,
        };
        sent.map_err(|error| {
            is_said = copy.connector.has_said(&error, status);
            copy.connector.explains(error, &command, status)
        })
    });
    let written = reporter.finish();
    match ended {
        Ok(is_whole) if is_whole && written => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let hint = sides.namesake.as_ref().filter(|_| !is_reached).map(|path| {
                let (name, local) = (quote::always(path), Path::new(".").join(path));
                format!("{name} is also a local file, written {}", quote::always(&local))
            });
            if is_said && hint.is_none() {
                return ExitCode::FAILURE;
            }
            let remedy = remedy.or_else(|| copy.connector.remedy(&error));
            let hints: Vec<_> = remedy.into_iter().chain(hint).collect();
            let hint = in_brackets((!hints.is_empty()).then(|| hints.join("; ")).as_deref());
            match error {
                Error::Local(_) | Error::Start { .. } => {
                    console.fail(format_args!("{error}{hint}"))
                }
                error => {
                    let host = sides.other.host.to_string_lossy();
                    console.fail(format_args!("{host}: {error}{hint}"))
                }
            }
        }
    }
}
