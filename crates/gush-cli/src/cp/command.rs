//! The command line of `cp`: help, manual page and completions come from this definition.

use std::ffi::OsString;
use std::iter;

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, Command};
use gush::MethodName;

use super::attributes::ATTRIBUTES;
use super::remote;
use super::settings::{BACKUPS, HOLES, ON_ERRORS, REFLINKS, UPDATES, WHENS};
use crate::listed::Listed;
use crate::manual::row;

const AFTER_HELP: &str = "\
ATTR_LIST is a comma-separated list of mode (permissions and access control lists), ownership, \
timestamps, links, context, xattr and all.

PATTERN uses the syntax of .gitignore, relative to SOURCE: '*.o' matches in every directory, \
'/target' only in SOURCE itself, 'cache/' only directories, '**' any number of directories, and '?' \
any byte, even of a name that is not text. The first rule of --exclude, --include and --filter-from \
that matches decides; an entry that none matches is copied. An excluded directory is skipped with all \
its contents. SOURCE itself is always copied.

With --delete, --verify, --resume, --checksum, --update=changed, --stable, --fsync or --commit-last, \
a target in a tree that has other hard links is replaced by a separate file, and a file that two names \
in DEST lead to is written once: the second name is an error.

Sizes and rates use the suffixes of GNU: K=1024, KB=1000, KiB=1024, and so on to Q; 1.5M is accepted.

CONTROL, which can also be set by the environment variable VERSION_CONTROL, is none or off, numbered \
or t, existing or nil (numbered if numbered backups exist, else simple), simple or never. The suffix of \
simple backups is '~', or the value of -S or of the environment variable SIMPLE_BACKUP_SUFFIX.";

/// The long options of GNU cp.
pub const GNU: &[&str] = &[
    "archive",
    "attributes-only",
    "backup",
    "context",
    "copy-contents",
    "debug",
    "dereference",
    "force",
    "help",
    "interactive",
    "keep-directory-symlink",
    "link",
    "no-clobber",
    "no-dereference",
    "no-preserve",
    "no-target-directory",
    "one-file-system",
    "parents",
    "preserve",
    "recursive",
    "reflink",
    "remove-destination",
    "sparse",
    "strip-trailing-slashes",
    "suffix",
    "symbolic-link",
    "target-directory",
    "update",
    "verbose",
    "version",
];

fn after_help() -> String {
    let rows = gush::MethodName::ALL.iter().map(|name| row(&name.to_string(), name.summary()));
    format!(
        "{AFTER_HELP}\n\nNAME is auto, which falls back, or one of\n{}",
        rows.collect::<String>().trim_end()
    )
}

/// The definition of `gush cp`, invoked as `as_name`.
pub fn command(as_name: &str) -> Command {
    // Called by the name of GNU cp, it has local files alone.
    let (usage, remote) = match as_name {
        "cp" => (String::new(), Vec::new()),
        _ => (
            format!(
                "\n       {as_name} [OPTION]... SOURCE... HOST:DEST\n       {as_name} [OPTION]... HOST:SOURCE... DEST"
            ),
            remote(),
        ),
    };
    Command::new("cp")
        .about("Copy files by the fastest sound way")
        .version(env!("CARGO_PKG_VERSION"))
        .override_usage(format!(
            "{as_name} [OPTION]... [-T] SOURCE DEST\n       \
             {as_name} [OPTION]... SOURCE... DIRECTORY\n       \
             {as_name} [OPTION]... -t DIRECTORY SOURCE...{usage}",
        ))
        .after_help(after_help())
        .max_term_width(100)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(operands())
        .next_help_heading("Sources and targets")
        .args(placement())
        .next_help_heading("Trees")
        .args(trees())
        .next_help_heading("Existing targets")
        .args(replacement())
        .next_help_heading("Metadata")
        .args(metadata())
        .next_help_heading("Promises")
        .args(promises())
        .next_help_heading("Methods and sizes")
        .args(moving())
        .next_help_heading("Another machine")
        .args(remote)
        .next_help_heading("Messages")
        .args(messages())
}

fn operands() -> Arg {
    Arg::new("operands")
        .value_name("SOURCE")
        .num_args(0..)
        .value_parser(OsStringValueParser::new())
        .value_hint(clap::ValueHint::AnyPath)
        .hide(true)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

fn value(name: &'static str, shown: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(shown).help(help).value_parser(OsStringValueParser::new())
}

/// An option with an optional value; `missing` is the default.
fn optional(
    name: &'static str,
    shown: &'static str,
    missing: &'static str,
    help: &'static str,
) -> Arg {
    value(name, shown, help).num_args(0..=1).require_equals(true).default_missing_value(missing)
}

/// An option whose values are the names of a table.
fn listed<T>(option: Arg, table: &[(&'static str, T)]) -> Arg {
    named(option, table.iter().map(|(name, _)| *name).collect())
}

fn named(option: Arg, names: Vec<&'static str>) -> Arg {
    option.value_parser(Listed(names)).hide_possible_values(true)
}

fn placement() -> Vec<Arg> {
    vec![
        value("target-directory", "DIRECTORY", "Copy all SOURCE arguments into DIRECTORY")
            .short('t')
            .action(ArgAction::Append)
            .value_hint(clap::ValueHint::DirPath),
        flag("no-target-directory", "Treat DEST as a normal file").short('T'),
        flag("parents", "Use full source file name under DIRECTORY"),
        // An abbreviation that was unambiguous before there was --stable.
        flag("strip-trailing-slashes", "Remove any trailing slashes from each SOURCE argument")
            .alias("st"),
        flag("recursive", "Copy directories recursively; recreate special files")
            .short('R')
            .visible_short_alias('r'),
        flag("copy-contents", "Copy contents of special files when recursive"),
        flag("one-file-system", "Stay on this file system").short('x'),
        flag(
            "keep-directory-symlink",
            "With -R, follow existing symbolic links to directories in the target",
        ),
        flag(
            "no-confine",
            "With -R, write through symbolic links that lead out of the target tree, as GNU cp does",
        ),
        flag("no-dereference", "Never follow symbolic links in SOURCE").short('P'),
        flag("dereference", "Always follow symbolic links in SOURCE").short('L'),
        Arg::new("H")
            .short('H')
            .help("Follow command-line symbolic links in SOURCE")
            .action(ArgAction::SetTrue),
        Arg::new("d")
            .short('d')
            .help("Same as --no-dereference --preserve=links")
            .action(ArgAction::SetTrue),
        flag("link", "Make hard links instead of copying").short('l'),
        flag("symbolic-link", "Make symbolic links instead of copying").short('s'),
        flag("attributes-only", "Copy the attributes, not the data"),
    ]
}

fn trees() -> Vec<Arg> {
    vec![
        value("exclude", "PATTERN", "Skip entries of a tree that match").action(ArgAction::Append),
        value("include", "PATTERN", "Copy entries that match, even if a later --exclude matches")
            .action(ArgAction::Append),
        value(
            "filter-from",
            "FILE",
            "Read rules from FILE: '- PATTERN' or PATTERN excludes, '+ PATTERN' includes, '#' starts a comment",
        )
        .action(ArgAction::Append),
        flag("gitignore", "Skip what the .gitignore files of the tree ignore"),
        flag(
            "delete",
            "Remove from the target's tree what SOURCE lacks or has as another type, such as a link in \
             place of a file. Entries that the filters skip are kept. Takes one SOURCE, which must not \
             be inside the target. If the target is inside SOURCE, everything except the target is \
             copied, and gush exits with status 1",
        ),
        value(
            "commit-last",
            "PATTERN",
            "Copy matching files, such as a manifest, only after everything else in their tree is \
             copied and synced, and not at all if anything failed. The file appears complete; until \
             then an older one stays, and with --delete so does what SOURCE lacks. Implies --fsync",
        )
        .action(ArgAction::Append),
        flag(
            "resume",
            "Keep a journal next to DEST, .NAME.gush-journal, and continue an interrupted copy that \
             has one. Files that are not recorded as done or have changed since are copied again. Add \
             --fsync to survive a power failure. Between machines no journal is kept: what has equal size \
             and time is skipped, and large files go on from .NAME.gush-partial",
        ),
        value(
            "shard",
            "WHICH",
            "Copy one share of the tree as one of several processes: I/N (rank I of N, from 0), or \
             auto to take the rank from mpirun, srun or a Kubernetes indexed Job. Rank 0 waits for the \
             others. State is kept next to DEST, in .NAME.gush-shards; --resume continues an \
             interrupted share. --fsync and --verify hold once rank 0 has succeeded: it syncs \
             directories, and syncs and verifies files that were divided",
        ),
        listed(
            value(
                "on-error",
                "WHEN",
                "After an entry that cannot be copied, continue (the default) or stop; list all \
                 failures at the end",
            ),
            &ON_ERRORS,
        ),
    ]
}

fn replacement() -> Vec<Arg> {
    vec![
        flag("force", "If a target cannot be opened, remove it and try again").short('f'),
        flag("interactive", "Prompt before overwriting (overrides a previous -n)").short('i'),
        flag("no-clobber", "Silently skip existing targets (overrides a previous -i)").short('n'),
        listed(
        optional(
            "update",
            "WHEN",
            "older",
            "Which existing targets to replace: all; none; none-fail (none, and fail); older (than \
             SOURCE); changed (different size or modification time) [-u: older]",
        ),
            &UPDATES,
        )
        .short('u'),
        flag("checksum", "Replace only targets whose content differs; reads both sides. The others get the attributes to preserve, as with --update=changed"),
        flag("remove-destination", "Remove each existing target before opening it"),
        listed(
            optional("backup", "CONTROL", "", "Make a backup of each existing target"),
            &BACKUPS,
        )
        .short('b'),
        value("suffix", "SUFFIX", "Override the usual backup suffix").short('S'),
    ]
}

fn metadata() -> Vec<Arg> {
    vec![
        flag("archive", "Same as -dR --preserve=all").short('a'),
        Arg::new("p")
            .short('p')
            .help("Same as --preserve=mode,ownership,timestamps")
            .action(ArgAction::SetTrue),
        listed(
            optional(
                "preserve",
                "ATTR_LIST",
                "mode,ownership,timestamps",
                "Preserve the specified attributes",
            ),
            &ATTRIBUTES,
        )
        .action(ArgAction::Append),
        listed(
            value("no-preserve", "ATTR_LIST", "Do not preserve the specified attributes"),
            &ATTRIBUTES,
        )
        .action(ArgAction::Append),
        optional(
            "context",
            "CTX",
            "",
            "Set the SELinux context of targets to CTX, or to the default type",
        )
        .short('Z'),
    ]
}

fn promises() -> Vec<Arg> {
    vec![
        flag(
            "atomic",
            "Replace DEST atomically: it is the old file or the complete new one. DEST becomes a new \
             file: hard links keep the old one, the owner may change, and the directory must be \
             writable",
        ),
        flag("fsync", "Sync the file and its directory to stable storage before reporting success"),
        flag(
            "verify",
            "Read the target back from storage and compare it, by blake3 hash or around holes; in a \
             tree once more at the end, if it has changed since",
        ),
        flag(
            "stable",
            "Fail if the size or timestamps of SOURCE, a regular file, change during the copy (writes through a shared mapping may go unnoticed); with --atomic nothing is published then",
        ),
        flag("isolated", "Use no method that lets later writes to SOURCE appear in the copy"),
    ]
}

fn moving() -> Vec<Arg> {
    vec![
        listed(
            optional("reflink", "WHEN", "always", "Share blocks with the source: auto, always, never"),
            &REFLINKS,
        ),
        listed(value("sparse", "WHEN", "Create holes in the target: auto, always (unless it can be a clone), never"), &HOLES),
        named(
            value(
                "method",
                "NAME",
                "Use method NAME or fail: auto, reflink, splice, ...",
            ),
            iter::once("auto").chain(MethodName::ALL.iter().map(|name| name.as_str())).collect(),
        ),
        value("threads", "N", "Threads for one large file, and for the entries of a tree. 0 chooses: one per \
             processor, or up to 64 where each mostly waits for a server or a disk. A killed copy may \
             have gaps of 2 MiB, one per thread. More than 1 cannot be used with a single-threaded --method, such as splice")
            .value_parser(crate::args::threads),
        value("limit", "RATE", "Copy at most RATE bytes per second, over all files"),
        flag("no-cache", "Leave the page cache as it was: write the copy to disk at once, each file by one thread, and drop its pages and those of SOURCE that were not cached before"),
        value("buffer-size", "SIZE", "Size of a buffer or mapped window, at most 4M"),
        value("pipe-size", "SIZE", "Size of the pipe that splice uses: at least 64K, up to fs.pipe-max-size"),
        flag("preallocate", "Reserve the target's space before copying"),
    ]
}

fn remote() -> Vec<Arg> {
    vec![
        value("rsh", "COMMAND", "").help(format!(
            "Run 'COMMAND HOST gush serve-tree' to reach HOST [default: ssh]; 'ssh -o \
             ServerAliveInterval=20' ends a copy on a dead line after a minute. DEST is as for a local \
             copy; HOST:PATH has a colon before its first slash, and ./A:B is a local file. HOST \
             expands a leading ~ or ~/ in PATH, and nothing else. Files appear whole, links in DEST \
             are not followed. All options are refused but {}",
            remote::served()
        )),
        value("remote-gush", "PATH", "The path of gush on HOST [default: gush]"),
        value(
            "via",
            "ADDRESS",
            "Connect to ADDRESS of gush link instead, where gush link tls-listen:PORT,fork,cert=CERT,\
             key=KEY,cafile=CA exec:'gush serve-tree' runs: all who connect read and write as its user. HOST is \
             only shown",
        ),
        flag(
            "compress",
            "Compress the data as long as that speeds the copy up; --limit counts uncompressed bytes",
        ),
        flag(
            "numeric-ids",
            "Keep owners by number [default: by name, where the machine of DEST knows the name]",
        ),
        value(
            "streams",
            "N",
            "Use up to N connections to HOST [default: one; up to 4 if it is the slow part or SOURCE has \
             64M, and --rsh needs no password]",
        ),
    ]
}

fn messages() -> Vec<Arg> {
    vec![
        flag(
            "dry-run",
            "Print what would be copied and removed, as -v or --json do, without changing anything",
        ),
        flag("verbose", "Print each copy").short('v'),
        flag("debug", "Explain how each file is copied, as GNU cp does; implies -v"),
        flag("explain", "Print to standard error which methods were used and refused, and why"),
        listed(
            optional(
                "progress",
                "WHEN",
                "auto",
                "Show progress: auto (on a terminal, after half a second), always, never",
            ),
            &WHENS,
        ),
        flag(
            "json",
            "Print one JSON object per file and directory, failed ones included, to standard output, \
             which then cannot be DEST; the lines of -v go to standard error",
        ),
        Arg::new("help").long("help").help("Print help").action(ArgAction::Help),
        Arg::new("version").long("version").help("Print version").action(ArgAction::Version),
    ]
}

/// The matches of clap, for [`crate::args::parse`].
pub struct Words(pub clap::ArgMatches);

impl clap::FromArgMatches for Words {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl Words {
    pub fn has(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    pub fn text(&self, name: &str) -> Option<&OsString> {
        self.0.get_one(name)
    }

    pub fn texts(&self, name: &str) -> impl Iterator<Item = &OsString> {
        self.0.get_many(name).unwrap_or_default()
    }

    /// The index of the last use of a flag.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.has(name).then(|| self.0.indices_of(name)?.next_back()).flatten()
    }

    /// The values of an option with their indices.
    pub fn placed(&self, name: &str) -> impl Iterator<Item = (usize, &OsString)> {
        self.0.indices_of(name).into_iter().flatten().zip(self.texts(name))
    }
}
