//! The command line of `gush cat`: GNU cat's options, and gush's own.

use std::ffi::OsString;

use clap::{ArgAction, Parser, ValueHint};
use gush::{Choice, MethodName};
use gush_text::{buffer_bytes, pipe_bytes, rate_bytes_per_second};

use super::text::{Number, Style};
use crate::method;

/// Concatenate files to standard output
#[derive(Debug, Parser)]
#[command(
    name = "cat",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "Sizes and rates: 512, 1.5M, 64K or 64KiB (1024), 64KB (1000), and so on with M, G, T, P, E.\n\
                  If a file changes while its bytes are in a pipe, the reader may see the change; \
                  --isolated prevents this."
)]
pub struct CatArgs {
    /// Files to concatenate; none, or -, is standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true, value_hint = ValueHint::AnyPath)]
    files: Vec<OsString>,

    /// Equivalent to -vET
    #[arg(short = 'A', long)]
    show_all: bool,
    /// Number nonempty output lines, overrides -n
    #[arg(short = 'b', long)]
    number_nonblank: bool,
    /// Equivalent to -vE
    #[arg(short = 'e')]
    ends_and_nonprinting: bool,
    /// Display $ at end of each line
    #[arg(short = 'E', long)]
    show_ends: bool,
    /// Number all output lines
    #[arg(short, long)]
    number: bool,
    /// Suppress repeated empty output lines
    #[arg(short, long)]
    squeeze_blank: bool,
    /// Equivalent to -vT
    #[arg(short = 't')]
    tabs_and_nonprinting: bool,
    /// Display TAB characters as ^I
    #[arg(short = 'T', long)]
    show_tabs: bool,
    /// (ignored)
    #[arg(short = 'u')]
    _unbuffered: bool,
    /// Use ^ and M- notation, except for LFD and TAB
    #[arg(short = 'v', long)]
    show_nonprinting: bool,

    /// Use method NAME or fail; auto picks the fastest sound method
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = method::parser(MethodName::ALL), help_heading = BEYOND)]
    pub method: Choice,
    /// Print to standard error which methods moved the bytes, and which were refused and why
    #[arg(long, help_heading = BEYOND)]
    pub explain: bool,
    /// Print the same to standard error as one JSON object per file
    #[arg(long, help_heading = BEYOND)]
    pub json: bool,
    /// Move at most RATE bytes per second
    #[arg(long, value_name = "RATE", value_parser = rate_bytes_per_second, help_heading = BEYOND)]
    pub limit: Option<u64>,
    /// Use no method that shares pages with the source
    #[arg(long, help_heading = BEYOND)]
    pub isolated: bool,
    /// Move up to SIZE bytes at a time through memory, at most 4M
    #[arg(long, value_name = "SIZE", value_parser = buffer_bytes, help_heading = BEYOND)]
    pub buffer_size: Option<usize>,
    /// Size of the pipes in use: at least 64K, up to fs.pipe-max-size
    #[arg(long, value_name = "SIZE", value_parser = pipe_bytes, help_heading = BEYOND)]
    pub pipe_size: Option<usize>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// The long options of GNU cat.
pub const GNU: &[&str] = &[
    "help",
    "number",
    "number-nonblank",
    "show-all",
    "show-ends",
    "show-nonprinting",
    "show-tabs",
    "squeeze-blank",
    "version",
];

const BEYOND: &str = "Beyond GNU cat";

impl CatArgs {
    /// The operands in order; standard input if there are none.
    pub fn files(&self) -> &[OsString] {
        &self.files
    }

    /// The style of all text flags.
    pub fn style(&self) -> Style {
        Style {
            number: match (self.number_nonblank, self.number) {
                (true, _) => Number::NonBlank,
                (false, true) => Number::All,
                (false, false) => Number::None,
            },
            ends: self.show_ends || self.show_all || self.ends_and_nonprinting,
            squeeze: self.squeeze_blank,
            tabs: self.show_tabs || self.show_all || self.tabs_and_nonprinting,
            nonprinting: self.show_nonprinting
                || self.show_all
                || self.ends_and_nonprinting
                || self.tabs_and_nonprinting,
        }
    }

    /// Why `--method` cannot be used with the text flags, if it cannot.
    pub fn text_conflict(&self) -> Option<&'static str> {
        match self.method {
            Choice::Auto | Choice::Only(MethodName::ReadWrite) => None,
            _ => Some("-A, -b, -e, -E, -n, -s, -t, -T and -v require --method=read-write"),
        }
    }
}
