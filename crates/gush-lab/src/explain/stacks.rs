//! From a recording of perf to shares: functions and their kinds of work.

use std::collections::HashMap;

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};

use super::calls::Calls;
use super::kinds::{WorkKind, kind_of};
use crate::Error;

/// The suffix that inferno appends to a kernel function's name.
const KERNEL: &str = "_[k]";

/// A function's part of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub function: String,
    /// Time in the function itself, without the functions below, in nanoseconds of processor time.
    pub cpu_ns: u64,
    /// The kind of work here: by its own name, or by the caller that has one.
    pub kind: WorkKind,
}

/// A recorded profile: stacks, each with the processor time spent in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// `program;function;…;function_[k] ns`, outermost first. perf's period of `cpu-clock` is in
    /// nanoseconds, and inferno adds up periods.
    folded: Vec<String>,
}

impl Stacks {
    /// Reads the output of `perf script`.
    pub fn of_script(script: &[u8]) -> Result<Self, Error> {
        let too_short = || Error::refused("perf recorded no sample: the case was too short");
        let is_event = |line: &&[u8]| line.first().is_some_and(|c| !b"#\t ".contains(c));
        // The folder takes for granted that there is one.
        if !script.split(|c| *c == b'\n').any(|line| is_event(&line)) {
            return Err(too_short());
        }
        let mut options = Options::default();
        // The mark distinguishes a kernel function from a program's of the same name.
        options.annotate_kernel = true;
        let mut folded = Vec::new();
        Folder::from(options)
            .collapse(script, &mut folded)
            .map_err(|error| Error::failed("cannot read what perf script printed", error))?;
        // Symbols come from any program, and need not be UTF-8.
        let text = String::from_utf8_lossy(&folded);
        let folded: Vec<String> = text.lines().map(str::to_owned).collect();
        match folded.is_empty() {
            true => Err(too_short()),
            false => Ok(Self { folded }),
        }
    }

    fn each(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        self.folded.iter().filter_map(|line| {
            let (stack, count) = line.rsplit_once(' ')?;
            Some((stack.split(';').collect(), count.parse().ok()?))
        })
    }

    /// Processor time in all, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.each().map(|(_, count)| count).sum()
    }

    /// Was the kernel seen at all, and by name?
    pub fn sees_kernel(&self) -> bool {
        self.folded.iter().any(|line| line.contains(KERNEL))
    }

    /// The functions that were at work, those with most time first; the kernel's alone if asked
    /// for.
    pub fn functions(&self, kernel_only: bool) -> Vec<Share> {
        let mut counts: HashMap<(&str, WorkKind), u64> = HashMap::new();
        for (stack, count) in self.each() {
            let Some(leaf) = stack.last() else { continue };
            if leaf.ends_with(KERNEL) || !kernel_only {
                *counts.entry((leaf, kind_in(&stack))).or_default() += count;
            }
        }
        let share = |((leaf, kind), cpu_ns): ((&str, WorkKind), u64)| Share {
            function: leaf.strip_suffix(KERNEL).unwrap_or(leaf).to_owned(),
            cpu_ns,
            kind,
        };
        let mut shares: Vec<_> = counts.into_iter().map(share).collect();
        shares.sort_by(|a, b| {
            b.cpu_ns.cmp(&a.cpu_ns).then_with(|| (&a.function, a.kind).cmp(&(&b.function, b.kind)))
        });
        shares
    }

    /// The kinds of work, in nanoseconds, most first; the sum is [`Stacks::cpu_ns`].
    pub fn kinds(&self) -> Vec<(WorkKind, u64)> {
        let mut counts: HashMap<WorkKind, u64> = HashMap::new();
        self.each().for_each(|(stack, ns)| *counts.entry(kind_in(&stack)).or_default() += ns);
        let mut kinds: Vec<_> = counts.into_iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
        kinds
    }

    /// Which kernel functions called which, with their parts of the time, most first: an indented
    /// tree down to so many levels. Frames that every system call passes on the way into the kernel
    /// are left out.
    pub fn call_tree(&self, depth: usize) -> String {
        let mut calls = Calls::default();
        for (stack, cpu_ns) in self.each() {
            let kernel: Vec<_> =
                stack.iter().filter_map(|frame| frame.strip_suffix(KERNEL)).collect();
            let entry =
                kernel.iter().take_while(|name| kind_of(name) == Some(WorkKind::ENTERING)).count();
            for end in entry + 1..=kernel.len() {
                calls.enter(&kernel[entry..end], cpu_ns);
            }
        }
        calls.shares(depth, self.cpu_ns())
    }

    /// The stacks as a picture: width is time, callers below. Opened by itself, the picture can be
    /// zoomed and searched.
    pub fn flame(&self, title: &str) -> Result<String, Error> {
        use inferno::flamegraph::color::{MultiPalette, Palette};
        let mut options = inferno::flamegraph::Options::default();
        options.title = title.to_owned();
        options.subtitle = Some("width: part of the processor time; orange: the kernel".to_owned());
        options.colors = Palette::Multi(MultiPalette::Java);
        // The same recording gives the same picture, so that two can be compared.
        options.deterministic = true;
        options.count_name = "ns of processor time".to_owned();
        options.min_width = 0.1;
        let mut svg = Vec::new();
        let lines = self.folded.iter().map(String::as_str);
        inferno::flamegraph::from_lines(&mut options, lines, &mut svg)
            .map_err(|error| Error::failed("cannot draw the flame graph", error))?;
        Ok(String::from_utf8_lossy(&svg).into_owned())
    }
}

/// The kind of a stack: that of the innermost function that the table knows, in the kernel.
fn kind_in(stack: &[&str]) -> WorkKind {
    let kernel: Vec<_> = stack.iter().rev().map_while(|frame| frame.strip_suffix(KERNEL)).collect();
    match kernel.is_empty() {
        true => WorkKind::PROGRAM,
        false => kernel.into_iter().find_map(kind_of).unwrap_or(WorkKind::ELSE),
    }
}
