//! The command line of `cp`: help, manual page and completions come from this definition.

use std::ffi::OsString;
use std::iter;

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, Command};
use gush::MethodName;

use super::attributes::ATTRIBUTES;
use super::settings::{ADVICE, BACKUPS, HOLES, ON_ERRORS, REFLINKS, UPDATES, WHENS};
use crate::listed::Listed;
use crate::manual::row;

const AFTER_HELP: &str = "\
ATTR_LIST is a comma-separated list of mode (permissions and access control lists), ownership, \
timestamps, links, context, xattr and all.

PATTERN reads as a line of .gitignore, from SOURCE on: '*.o' fits in every directory, '/target' in SOURCE alone, 'cache/' fits \
directories, '**' any number of them, and '?' any byte, also one that is no text. Of --exclude, --include and --filter-from the first rule that fits decides; without one an entry is \
copied. An excluded directory is left out with all that is in it. SOURCE itself is always copied.

With --delete, --verify, --resume, --checksum, --update=changed, --stable, --fsync or --commit-last a target in a tree that has other names (hard links) becomes a file of its own, and a file that two names of DEST lead to is written once: the second name is an error.

Sizes and rates read as GNU reads them: K=1024, KB=1000, KiB=1024, and so on to Q; 1.5M is fine.

CONTROL, also from the environment's VERSION_CONTROL, is none or off, numbered or t, existing or nil \
(numbered if numbered backups exist, else simple), simple or never. The suffix of simple backups is \
'~', or the text given by -S or by the environment's SIMPLE_BACKUP_SUFFIX.";

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

/// The notes, and a line on each method.
fn after_help() -> String {
    let rows = gush::MethodName::ALL.iter().map(|name| row(&name.to_string(), name.summary()));
    format!(
        "{AFTER_HELP}\n\nNAME is auto, which falls back, or one of\n{}",
        rows.collect::<String>().trim_end()
    )
}

/// The definition of `gush cp`, for a user who called the command `as_name`.
pub fn command(as_name: &str) -> Command {
    Command::new("cp")
        .about("Copy files by the fastest sound way")
        .version(env!("CARGO_PKG_VERSION"))
        .override_usage(format!(
            "{as_name} [OPTION]... [-T] SOURCE DEST\n       \
             {as_name} [OPTION]... SOURCE... DIRECTORY\n       \
             {as_name} [OPTION]... -t DIRECTORY SOURCE...",
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
        .next_help_heading("Messages")
        .args(telling())
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
        flag("parents", "Make the full source name under DIRECTORY"),
        // An abbreviation that was unambiguous before there was --stable.
        flag("strip-trailing-slashes", "Remove trailing slashes from each SOURCE").alias("st"),
        flag("recursive", "Copy directories with all that is in them, make special files anew")
            .short('R')
            .visible_short_alias('r'),
        flag("copy-contents", "With -R, read special files instead of making them anew"),
        flag("one-file-system", "With -R, leave out what is in directories of other file systems")
            .short('x'),
        flag(
            "keep-directory-symlink",
            "With -R, take a symbolic link to a directory, where a directory is to be made, for this directory",
        ),
        flag(
            "no-confine",
            "With -R, write through symbolic links that lead out of the tree copied to, as GNU cp does",
        ),
        flag("no-dereference", "Never follow symbolic links in SOURCE").short('P'),
        flag("dereference", "Always follow symbolic links in SOURCE").short('L'),
        Arg::new("H")
            .short('H')
            .help("Follow symbolic links that are named in SOURCE")
            .action(ArgAction::SetTrue),
        Arg::new("d")
            .short('d')
            .help("Same as --no-dereference --preserve=links")
            .action(ArgAction::SetTrue),
        flag("link", "Make hard links instead of copies").short('l'),
        flag("symbolic-link", "Make symbolic links instead of copies").short('s'),
        flag("attributes-only", "Copy the attributes, not the data"),
    ]
}

fn trees() -> Vec<Arg> {
    vec![
        value("exclude", "PATTERN", "Leave out entries of a tree that fit").action(ArgAction::Append),
        value("include", "PATTERN", "Copy entries that fit, whatever a later --exclude says")
            .action(ArgAction::Append),
        value(
            "filter-from",
            "FILE",
            "Read rules from FILE: '- PATTERN' (or PATTERN) excludes, '+ PATTERN' includes, '#' begins a comment",
        )
        .action(ArgAction::Append),
        flag("gitignore", "Leave out what the .gitignore files of the tree name"),
        flag(
            "delete",
            "Remove from the target's tree what SOURCE lacks, and what is of another kind than in SOURCE, such as a link in \
             the place of a file. What the filters leave out stays. Takes one SOURCE; a target that SOURCE is in is refused. \
             A target in SOURCE gets all but itself, and the status is 1",
        ),
        value(
            "commit-last",
            "PATTERN",
            "Copy files that fit when all else of their tree is copied and on stable storage, and not at all if something \
             has failed: a manifest, for instance. The file appears whole; an older one of that name stays until then, and so does, \
             with --delete, what SOURCE lacks. Implies --fsync",
        )
        .action(ArgAction::Append),
        flag(
            "resume",
            "Keep a journal beside DEST, .NAME.gush-journal, and go on where a copy with this journal was interrupted or \
             killed. Files not known as done are copied anew; a file that changed since is, too. Against a loss of \
             power add --fsync",
        ),
        value(
            "shard",
            "WHICH",
            "Copy one share of the tree as one of several processes, I/N (rank I of N, from 0), or auto: as mpirun, srun or a \
             Kubernetes indexed Job tells. Rank 0 waits for the others. State is kept beside DEST, in .NAME.gush-shards; \
             --resume goes on with an interrupted share. What --fsync and --verify promise holds when rank 0 has succeeded: it syncs \
             directories, and syncs and verifies files that were divided",
        ),
        listed(
            value(
                "on-error",
                "WHEN",
                "After an entry that cannot be copied continue (as without this option) or stop; at the end, list all failures",
            ),
            &ON_ERRORS,
        ),
    ]
}

fn replacement() -> Vec<Arg> {
    vec![
        flag("force", "Remove a target that cannot be opened, and try again").short('f'),
        flag("interactive", "Ask before replacing (overrides a previous -n)").short('i'),
        flag("no-clobber", "Silently skip existing targets (overrides a previous -i)").short('n'),
        listed(
        optional(
            "update",
            "WHEN",
            "older",
            "Which existing targets to replace: all; none; none-fail (none, and fail); older (than SOURCE); changed (of another size or \
             modification time) [-u: older]",
        ),
            &UPDATES,
        )
        .short('u'),
        flag("checksum", "Replace only targets with other bytes; both sides are read"),
        flag("remove-destination", "Remove each existing target before opening it"),
        listed(
            optional("backup", "CONTROL", "", "Keep each existing target under another name"),
            &BACKUPS,
        )
        .short('b'),
        value("suffix", "SUFFIX", "End the names of simple backups in SUFFIX").short('S'),
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
            optional("preserve", "ATTR_LIST", "mode,ownership,timestamps", "Keep these attributes"),
            &ATTRIBUTES,
        )
        .action(ArgAction::Append),
        listed(value("no-preserve", "ATTR_LIST", "Do not keep these attributes"), &ATTRIBUTES)
            .action(ArgAction::Append),
        optional("context", "CTX", "", "Set the SELinux context to CTX, or to the default")
            .short('Z'),
    ]
}

fn promises() -> Vec<Arg> {
    vec![
        flag(
            "atomic",
            "Show the old file or the whole new one under DEST, never less. DEST becomes a new file: hard links \
             keep the old one, the owner may change, and the directory must be writable",
        ),
        flag("fsync", "Put the file and its directory on stable storage before reporting success"),
        flag(
            "verify",
            "Re-read the target from storage and compare, by blake3 hashes or around holes",
        ),
        flag(
            "stable",
            "Fail if the size or times of SOURCE, a regular file, change during the copy (stores through a shared mapping may change neither); with --atomic nothing is published then",
        ),
        flag("isolated", "Use no method by which later writes to SOURCE can show in the copy"),
    ]
}

fn moving() -> Vec<Arg> {
    vec![
        listed(
            optional("reflink", "WHEN", "always", "Share blocks with the source: auto, always, never"),
            &REFLINKS,
        ),
        listed(value("sparse", "WHEN", "Make holes in the target: auto, always, never"), &HOLES),
        named(
            value(
                "method",
                "NAME",
                "Move the bytes by this method or fail: auto, reflink, splice, ...",
            ),
            iter::once("auto").chain(MethodName::ALL.iter().map(|name| name.as_str())).collect(),
        ),
        value("threads", "N", "Threads for one large file, and for the entries of a tree (0: the engine's choice, and one a processor). Of a copy that is killed, the more threads the \
             more may be missing, in pieces of 2 MiB. A --method of one thread, such as splice, excludes more")
            .value_parser(crate::args::threads),
        value("limit", "RATE", "Move at most RATE bytes a second, of all files together"),
        flag("no-cache", "Leave the page cache as it was: the copy goes to the disk at once and out of the cache, and so do pages of SOURCE that were not cached before"),
        value("buffer-size", "SIZE", "Size of one buffer or mapped window, 4M at most"),
        value("pipe-size", "SIZE", "Size of the pipe that splice goes through: 64K or more, as far as fs.pipe-max-size allows"),
        listed(value("advise", "ADVICE", "Read-ahead: none, sequential, willneed, random"), &ADVICE),
        flag("preallocate", "Reserve the target's space before copying"),
        flag("no-profile", "Ignore the profile of gush tune (also: GUSH_NO_PROFILE=1)"),
        flag("no-gift", "Only lend pages to vmsplice, do not give them away"),
    ]
}

fn telling() -> Vec<Arg> {
    vec![
        flag(
            "dry-run",
            "Tell what would be copied and removed, as -v or --json, and change nothing",
        ),
        flag("verbose", "Tell of each copy").short('v'),
        flag("debug", "Tell how each file is copied, as GNU cp does; implies -v"),
        flag("explain", "Tell on standard error which methods were picked and refused, and why"),
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
            "Print one JSON object for each file and directory, failed ones too, on standard output, which then cannot be DEST; the \
             lines of -v go to standard error",
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

    /// The index of a flag's last use.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.has(name).then(|| self.0.indices_of(name)?.next_back()).flatten()
    }

    /// The values of an option, each with the index on the command line.
    pub fn placed(&self, name: &str) -> impl Iterator<Item = (usize, &OsString)> {
        self.0.indices_of(name).into_iter().flatten().zip(self.texts(name))
    }
}
