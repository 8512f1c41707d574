//! The settings of a copy from the command line: GNU's rules about which option overrides which.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use gush::{Choice, Holes, MethodName, Rate, Space, Tuning};
use gush_text::{quote, suggestion};
use gush_tree::{
    Backup, BackupControl, CopyOptions, Dereference, Filter, Make, Moving, Naming, Preserve,
    Reflink, Specials, Update,
};

use super::attributes::Attributes;
use super::choice::pick;
use super::command::Words;

/// All settings of the command line.
#[derive(Debug)]
pub struct Settings {
    pub options: CopyOptions,
    pub naming: Naming,
    pub operands: Vec<PathBuf>,
    pub strips_slashes: bool,
    pub messages: Messages,
    /// Warnings for the user before the first copy.
    pub warnings: Vec<String>,
}

/// The messages to print.
#[derive(Clone, Debug)]
pub struct Messages {
    pub verbose: bool,
    pub dry_run: bool,
    /// List all failures at the end.
    pub lists_failures: bool,
    pub debug: bool,
    pub explain: bool,
    pub json: bool,
    pub progress: When,
}

/// When an optional action happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    Auto,
    Always,
    Never,
}

pub const WHENS: [(&str, When); 3] =
    [("auto", When::Auto), ("always", When::Always), ("never", When::Never)];

pub const ON_ERRORS: [(&str, bool); 2] = [("continue", false), ("stop", true)];

pub const UPDATES: [(&str, Update); 5] = [
    ("all", Update::All),
    ("none", Update::None),
    ("none-fail", Update::NoneFail),
    ("older", Update::Older),
    ("changed", Update::Changed),
];

pub const BACKUPS: [(&str, Option<BackupControl>); 8] = [
    ("none", None),
    ("off", None),
    ("simple", Some(BackupControl::Simple)),
    ("never", Some(BackupControl::Simple)),
    ("existing", Some(BackupControl::Existing)),
    ("nil", Some(BackupControl::Existing)),
    ("numbered", Some(BackupControl::Numbered)),
    ("t", Some(BackupControl::Numbered)),
];

pub const REFLINKS: [(&str, Reflink); 3] =
    [("auto", Reflink::Auto), ("always", Reflink::Always), ("never", Reflink::Never)];

pub const HOLES: [(&str, Holes); 3] =
    [("auto", Holes::Keep), ("always", Holes::Make), ("never", Holes::Fill)];

impl Settings {
    ///
    /// # Errors
    /// A message about the error in the command line.
    pub fn read(words: &Words) -> Result<Self, String> {
        let attributes = Attributes::read(words)?;
        let mut warnings = Vec::new();
        let label = attributes.label(words, &mut warnings)?;
        let recursive = words.has("recursive") || words.has("archive");
        let hard_link = words.has("link");
        if hard_link && words.has("symbolic-link") {
            return Err("cannot make both hard and symbolic links".into());
        }
        let (update, ask) = replacing(words)?;
        let mut options = CopyOptions::default();
        options.make = match (hard_link, words.has("symbolic-link")) {
            (true, _) => Make::HardLink,
            (_, true) => Make::SymbolicLink,
            _ => Make::Copy,
        };
        options.data = !words.has("attributes-only");
        // As GNU cp, which does not follow links with -R, except for hard links.
        options.dereference = attributes.dereference.unwrap_or(match recursive && !hard_link {
            true => Dereference::Never,
            false => Dereference::Always,
        });
        options.specials = match recursive && !words.has("copy-contents") {
            true => Specials::Recreate,
            false => Specials::Read,
        };
        options.update = update;
        options.ask = ask;
        options.force = words.has("force");
        options.remove_first = words.has("remove-destination");
        // GNU cp writes through dangling links only with POSIXLY_CORRECT.
        options.through_dangling = env::var_os("POSIXLY_CORRECT").is_some();
        options.preserve = Preserve { label, ..attributes.preserve };
        options.backup = backup(words)?;
        // As GNU cp, also with --backup=none.
        let backs_up = words.text("backup").is_some() || words.text("suffix").is_some();
        if backs_up && matches!(update, Update::None | Update::NoneFail) {
            return Err("--backup is mutually exclusive with -n or --update=none-fail".into());
        }
        options.atomic = words.has("atomic");
        options.sync = words.has("fsync");
        options.verify = words.has("verify");
        options.stable = words.has("stable");
        // Refuse a guarantee that cannot be given, rather than ignore it.
        if options.verify && (!options.data || options.make != Make::Copy) {
            return Err("--verify cannot be used with --attributes-only, -l or -s".into());
        }
        if options.stable && (!options.data || options.make != Make::Copy) {
            return Err("--stable cannot be used with --attributes-only, -l or -s".into());
        }
        if options.atomic && !options.data {
            return Err("--atomic cannot be used with --attributes-only".into());
        }
        options.recursive = recursive;
        options.one_file_system = words.has("one-file-system");
        options.keep_directory_symlink = words.has("keep-directory-symlink");
        options.confine = !words.has("no-confine");
        options.moving = moving(words)?;
        options.filter = filter(words)?;
        options.gitignore = words.has("gitignore");
        options.mirror = words.has("delete");
        options.resume = words.has("resume");
        if let Some(text) = words.text("shard") {
            options.shard = parse("--shard", text, super::shard::read)?;
        }
        options.last = last(words)?;
        // Everything else has to be durable by then.
        options.sync |= options.last.is_some();
        options.dry_run = words.has("dry-run");
        options.stop_at_error = choose(words, "on-error", false, &ON_ERRORS)?;
        refuse_contradictions(&options, words)?;
        Ok(Self {
            options,
            naming: naming(words)?,
            operands: words.texts("operands").map(PathBuf::from).collect(),
            strips_slashes: words.has("strip-trailing-slashes"),
            messages: messages(words)?,
            warnings,
        })
    }
}

/// Refuses options that require others, or that together would destroy files.
fn refuse_contradictions(options: &CopyOptions, words: &Words) -> Result<(), String> {
    let of_trees = [
        ("--exclude, --include and --filter-from require", options.filter.is_some()),
        ("--gitignore requires", options.gitignore),
        ("--delete requires", options.mirror),
        ("--resume requires", options.resume),
        ("--commit-last requires", options.last.is_some()),
        ("--shard requires", words.text("shard").is_some()),
    ];
    if let Some((words, _)) = of_trees.iter().find(|(_, is_given)| *is_given && !options.recursive)
    {
        return Err(format!("{words} -r"));
    }
    // An answer would have no effect.
    if options.dry_run && options.ask {
        return Err("--dry-run cannot be used with -i".into());
    }
    if options.resume {
        refuse_with_resume(options)?;
    }
    // A missing operand is reported later, as in GNU cp.
    let is_target_last = words.text("target-directory").is_none();
    let sources = words.texts("operands").count().saturating_sub(usize::from(is_target_last));
    if words.text("shard").is_some() {
        refuse_with_shard(options, words, sources)?;
    }
    if options.mirror {
        refuse_with_delete(options, words, sources)?;
    }
    Ok(())
}

/// Refuses the first of `others` that is given together with `option`.
fn exclude(option: &str, others: &[(&str, bool)]) -> Result<(), String> {
    match others.iter().find(|(_, is_given)| *is_given) {
        Some((names, _)) => Err(format!("{option} cannot be used with {names}")),
        None => Ok(()),
    }
}

fn refuse_with_resume(options: &CopyOptions) -> Result<(), String> {
    let keeps = matches!(options.update, Update::None | Update::NoneFail | Update::Older);
    let others = [
        ("-u or -n, which could keep a half-copied file", keeps),
        (
            "--checksum or --update=changed: --resume decides itself what is unchanged",
            matches!(options.update, Update::Changed | Update::Different),
        ),
        ("-i", options.ask),
        ("--backup", options.backup.is_some()),
        ("-l or -s", options.make != Make::Copy),
        ("--dry-run", options.dry_run),
    ];
    exclude("--resume", &others)
}

fn refuse_with_shard(options: &CopyOptions, words: &Words, sources: usize) -> Result<(), String> {
    let others = [
        ("--delete; mirror with one process after the copy", options.mirror),
        ("--parents", words.has("parents")),
        ("-i", options.ask),
        ("--dry-run", options.dry_run),
    ];
    exclude("--shard", &others)?;
    match sources {
        0 | 1 => Ok(()),
        _ => Err("--shard takes one SOURCE".into()),
    }
}

fn refuse_with_delete(options: &CopyOptions, words: &Words, sources: usize) -> Result<(), String> {
    let others = [
        ("--backup, because removed files have no backup", options.backup.is_some()),
        ("--parents", words.has("parents")),
        ("-i", options.ask),
        ("-n", matches!(options.update, Update::None | Update::NoneFail)),
        (
            "--keep-directory-symlink, because two directories could become one and remove each other's files",
            options.keep_directory_symlink,
        ),
        ("-l or -s", options.make != Make::Copy),
        ("--attributes-only", !options.data),
        (
            "-L, because a link may lead into the target, and the file it leads to would be removed",
            options.dereference == Dereference::Always,
        ),
    ];
    exclude("--delete", &others)?;
    match sources {
        0 | 1 => Ok(()),
        _ => Err("--delete takes one SOURCE; it would remove what another one copied".into()),
    }
}

fn pattern(option: &str, text: &OsStr) -> Result<OsString, String> {
    let shown = || quote::always(Path::new(text));
    // Such as an unset variable of a script, which would exclude nothing.
    match text.to_string_lossy().trim().trim_matches('/').is_empty() {
        true => Err(format!("invalid --{option} {}: matches no name", shown())),
        false => Ok(text.to_owned()),
    }
}

/// The rules in the order of the command line.
fn filter(words: &Words) -> Result<Option<Filter>, String> {
    let mut rules: Vec<(usize, Vec<(bool, OsString)>)> = Vec::new();
    for (name, includes) in [("exclude", false), ("include", true)] {
        for (place, text) in words.placed(name) {
            let rule = [(includes, pattern(name, text)?)];
            Filter::new(&rule).map_err(|why| format!("invalid --{name} {why}"))?;
            rules.push((place, rule.into()));
        }
    }
    for (place, path) in words.placed("filter-from") {
        let failed = |error: std::io::Error| {
            let why = gush_text::os_text(&error);
            format!("--filter-from {}: {why}", quote::if_needed(Path::new(path)))
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        let lines = Filter::read_lines(std::io::BufReader::new(file)).map_err(failed)?;
        let shown = quote::if_needed(Path::new(path));
        Filter::new(&lines)
            .map_err(|why| format!("invalid pattern of --filter-from {shown}: {why}"))?;
        rules.push((place, lines));
    }
    // The first rule that matches decides, so restore the order across options.
    rules.sort_by_key(|(place, _)| *place);
    let rules: Vec<_> = rules.into_iter().flat_map(|(_, rules)| rules).collect();
    match rules.is_empty() {
        true => Ok(None),
        false => Filter::new(&rules).map(Some),
    }
}

/// The files to copy after all others.
fn last(words: &Words) -> Result<Option<Filter>, String> {
    let patterns = words.texts("commit-last").map(|text| pattern("commit-last", text));
    let globs: Vec<_> = patterns.map(|text| Ok((false, text?))).collect::<Result<_, String>>()?;
    match globs.as_slice() {
        [] => Ok(None),
        globs => Filter::new(globs).map(Some).map_err(|why| format!("invalid --commit-last {why}")),
    }
}

fn naming(words: &Words) -> Result<Naming, String> {
    let mut directories = words.texts("target-directory");
    let target_directory = directories.next().map(PathBuf::from);
    if directories.next().is_some() {
        return Err("multiple target directories specified".into());
    }
    Ok(Naming {
        target_directory,
        no_target_directory: words.has("no-target-directory"),
        parents: words.has("parents"),
    })
}

fn messages(words: &Words) -> Result<Messages, String> {
    let debug = words.has("debug");
    let dry_run = words.has("dry-run");
    Ok(Messages {
        // A dry run would otherwise print nothing.
        verbose: debug || words.has("verbose") || (dry_run && !words.has("json")),
        dry_run,
        lists_failures: words.text("on-error").is_some(),
        debug,
        explain: words.has("explain"),
        json: words.has("json"),
        progress: choose(words, "progress", When::Never, &WHENS)?,
    })
}

fn choose<T: Copy + PartialEq>(
    words: &Words,
    name: &str,
    default: T,
    table: &[(&str, T)],
) -> Result<T, String> {
    match words.text(name) {
        Some(text) => pick(&format!("--{name}"), text, table),
        None => Ok(default),
    }
}

/// -n and -i override each other; -n overrides -u.
fn replacing(words: &Words) -> Result<(Update, bool), String> {
    let mut update = choose(words, "update", Update::All, &UPDATES)?;
    if words.has("checksum") {
        if !matches!(update, Update::All | Update::Changed) || words.has("no-clobber") {
            return Err("--checksum cannot be used with -u or -n".into());
        }
        update = Update::Different;
    }
    let (keep, ask) = (words.place_of("no-clobber"), words.place_of("interactive"));
    // The later option wins; None is less than any index.
    Ok(if keep > ask { (Update::None, false) } else { (update, ask.is_some()) })
}

fn backup(words: &Words) -> Result<Option<Backup>, String> {
    let suffix = words.text("suffix");
    let control = words.text("backup");
    if suffix.is_none() && control.is_none() {
        return Ok(None);
    }
    let from_environment = env::var_os("VERSION_CONTROL");
    // With a plain -b the environment decides.
    let (source, text) = match control.filter(|text| !text.is_empty()) {
        Some(text) => ("backup type", Some(text.as_os_str())),
        None => ("$VERSION_CONTROL", from_environment.as_deref().filter(|text| !text.is_empty())),
    };
    let control = match text {
        Some(text) => pick(source, text, &BACKUPS)?,
        None => Some(BackupControl::Existing),
    };
    let suffix = suffix.cloned().or_else(|| env::var_os("SIMPLE_BACKUP_SUFFIX"));
    // A suffix must not contain a slash.
    let suffix = suffix.filter(|text| !text.is_empty() && !text.to_string_lossy().contains('/'));
    let suffix = suffix.unwrap_or_else(|| OsString::from("~"));
    Ok(control.map(|control| Backup { control, suffix }))
}

fn moving(words: &Words) -> Result<Moving, String> {
    let mut moving = Moving {
        reflink: choose(words, "reflink", Reflink::Auto, &REFLINKS)?,
        holes: choose(words, "sparse", Holes::Keep, &HOLES)?,
        ..Moving::default()
    };
    if let Some(text) = words.text("method") {
        let names = ["auto"].into_iter().chain(MethodName::ALL.iter().map(|name| name.as_str()));
        let word = text.to_string_lossy();
        moving.choice = word.parse().map_err(|_| {
            let shown = quote::always(Path::new(text));
            format!("invalid --method {shown}{}", suggestion(&word, names))
        })?;
    }
    let cloning = Choice::Only(MethodName::Reflink);
    match (moving.reflink, moving.holes) {
        (Reflink::Always, Holes::Make | Holes::Fill) => {
            return Err("--reflink can be used only with --sparse=auto".into());
        }
        (_, Holes::Make | Holes::Fill) if moving.choice == cloning => {
            return Err("--method=reflink can be used only with --sparse=auto".into());
        }
        (Reflink::Never, _) if moving.choice == cloning => {
            return Err("--reflink=never cannot be used with --method=reflink".into());
        }
        // A clone would not fill the holes.
        (Reflink::Auto, Holes::Fill) => moving.reflink = Reflink::Never,
        _ => {}
    }
    if moving.reflink == Reflink::Always && ![Choice::Auto, cloning].contains(&moving.choice) {
        return Err(format!("--reflink=always cannot be used with --method={}", moving.choice));
    }
    moving.isolated = words.has("isolated");
    moving.threads = words.0.get_one("threads").copied().unwrap_or(0);
    if let Choice::Only(name) = moving.choice
        && moving.threads > 1
        && !name.is_parallel()
    {
        return Err(format!(
            "--threads={} cannot be used with --method={name}, which is single-threaded",
            moving.threads
        ));
    }
    if let Some(text) = words.text("limit") {
        let rate = parse("--limit", text, gush_text::rate_bytes_per_second)?;
        moving.limit = Rate::bytes_per_second(rate);
    }
    moving.no_cache = words.has("no-cache");
    moving.tuning = tuning(words)?;
    moving.space = words.has("preallocate").then_some(Space::Reserve);
    Ok(moving)
}

fn tuning(words: &Words) -> Result<Tuning, String> {
    let mut tuning = Tuning::default();
    if let Some(text) = words.text("buffer-size") {
        tuning = tuning.buffer_bytes(parse("--buffer-size", text, gush_text::buffer_bytes)?);
    }
    if let Some(text) = words.text("pipe-size") {
        tuning = tuning.pipe_bytes(parse("--pipe-size", text, gush_text::pipe_bytes)?);
    }
    Ok(tuning)
}

fn parse<T, E: std::fmt::Display>(
    option: &str,
    text: &OsStr,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, String> {
    let shown = quote::always(Path::new(text));
    let wrong = |why: &dyn std::fmt::Display| format!("invalid {option} {shown}: {why}");
    match text.to_str() {
        Some(utf8) => read(utf8).map_err(|error| wrong(&error)),
        None => Err(wrong(&"not valid UTF-8")),
    }
}
