//! One rule of a profile: for which pairs and sizes, which methods first, with which sizes.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::endpoint::{Endpoint, Kind};
use crate::method::MethodName;
use crate::mover::Mover;
use crate::tuning::{Measured, Tuning};

/// Kinds of endpoint in a rule. Terminals, made-up files and datagrams are not among them:
/// they have one sound way.
const KINDS: &[(&str, Kind)] = &[
    ("file", Kind::File),
    ("block", Kind::Block),
    ("pipe", Kind::Pipe),
    ("socket", Kind::Stream),
    ("device", Kind::Character),
];

/// The largest pipe of a rule.
const MOST_PIPE_BYTES: u64 = 4 << 20;
/// The longest spin of a rule: a processor is not burnt for longer than a wake-up costs.
const MOST_SPIN_US: u64 = 1000;
/// Buffers below a page only cost calls.
const LEAST_BUFFER_BYTES: u64 = 4096;

/// A rule in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    source: String,
    target: String,
    same_device: Option<bool>,
    source_file_system: Option<String>,
    target_file_system: Option<String>,
    at_least_bytes: Option<u64>,
    below_bytes: Option<u64>,
    #[serde(default)]
    methods: Vec<String>,
    buffer_bytes: Option<u64>,
    pipe_bytes: Option<u64>,
    threads: Option<u64>,
    spin_us: Option<u64>,
}

/// A valid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    number: usize,
    source: Kind,
    target: Kind,
    same_device: Option<bool>,
    source_file_system: Option<&'static str>,
    target_file_system: Option<&'static str>,
    at_least_bytes: u64,
    below_bytes: u64,
    methods: Vec<MethodName>,
    measured: Measured,
    threads: Option<usize>,
    spin: Option<Duration>,
}

impl Rule {
    /// Reads the rule of this number; each clamped value is told to `warn`.
    ///
    /// # Errors
    /// Why the rule is left out.
    pub(super) fn read(
        number: usize,
        value: toml::Value,
        mut warn: impl FnMut(String),
    ) -> Result<Self, String> {
        let text = Text::deserialize(value).map_err(|error| error.message().to_owned())?;
        let kind = |name: &str| {
            let known = KINDS.iter().find(|(known, _)| *known == name);
            known.map(|(_, kind)| *kind).ok_or_else(|| {
                let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
                format!("unknown endpoint '{name}'; choose from {}", names.join(", "))
            })
        };
        let (source, target) = (kind(&text.source)?, kind(&text.target)?);
        let file_system = |name: Option<String>| match name {
            None => Ok(None),
            Some(name) => Endpoint::local_file_systems()
                .find(|known| *known == name)
                .map(Some)
                // A name that this engine does not know can never fit: better told than silently unused.
                .ok_or_else(|| format!("no rule can be made for the file system {name:?}")),
        };
        let source_file_system = file_system(text.source_file_system)?;
        let target_file_system = file_system(text.target_file_system)?;
        // Elsewhere a copy may be a server's work, which no measurement of this machine can rank.
        let named = source_file_system.is_some() && target_file_system.is_some();
        if source == Kind::File && target == Kind::File && !named {
            return Err("from file to file it must name both file systems".to_owned());
        }
        let mut methods = Vec::new();
        for name in &text.methods {
            let name = name.parse::<MethodName>().map_err(|error| error.to_string())?;
            if !methods.contains(&name) {
                methods.push(name);
            }
        }
        let mut clamp = |what: &str, value: Option<u64>, least: u64, most: u64| {
            let value = value?;
            let used = value.clamp(least, most);
            if used != value {
                warn(format!("rule {number}: {what} = {value} is taken as {used}"));
            }
            usize::try_from(used).ok()
        };
        let most_buffer = Tuning::MOST_BUFFER_BYTES as u64;
        let measured = Measured {
            buffer_bytes: clamp("buffer_bytes", text.buffer_bytes, LEAST_BUFFER_BYTES, most_buffer),
            pipe_bytes: clamp("pipe_bytes", text.pipe_bytes, 4096, MOST_PIPE_BYTES),
        };
        let threads = clamp("threads", text.threads, 1, Mover::MOST_THREADS as u64);
        let spin_us = clamp("spin_us", text.spin_us, 0, MOST_SPIN_US);
        Ok(Self {
            number,
            source,
            target,
            same_device: text.same_device,
            source_file_system,
            target_file_system,
            at_least_bytes: text.at_least_bytes.unwrap_or(0),
            below_bytes: text.below_bytes.unwrap_or(u64::MAX),
            methods,
            measured,
            threads,
            spin: spin_us.map(|spin_us| Duration::from_micros(spin_us as u64)),
        })
    }

    pub(crate) fn fits(
        &self,
        source: &Endpoint<'_>,
        target: &Endpoint<'_>,
        expected_bytes: u64,
    ) -> bool {
        let on = |endpoint: &Endpoint<'_>, name: Option<&str>| {
            name.is_none_or(|name| endpoint.local_file_system() == Some(name))
        };
        self.source == source.kind()
            && self.target == target.kind()
            && (self.at_least_bytes..self.below_bytes).contains(&expected_bytes)
            && self.same_device.is_none_or(|same| same == (source.device() == target.device()))
            && on(target, self.target_file_system)
            && on(source, self.source_file_system)
    }

    /// The methods to try first, as far as the table permits them.
    pub(crate) fn methods(&self) -> &[MethodName] {
        &self.methods
    }

    /// The sizes for this method: measured with the first one only.
    pub(crate) fn measured_for(&self, name: MethodName) -> Measured {
        // Sizes were measured with the first method, and say nothing about another.
        if self.concerns(name) { self.measured } else { Measured::default() }
    }

    pub(crate) fn threads_for(&self, name: MethodName) -> Option<usize> {
        self.threads.filter(|_| self.concerns(name))
    }

    pub(crate) fn threads(&self) -> Option<usize> {
        self.threads
    }

    pub(crate) fn spin(&self) -> Option<Duration> {
        self.spin
    }

    /// Without methods the sizes are for any pick of the table.
    fn concerns(&self, name: MethodName) -> bool {
        self.methods.first().is_none_or(|first| *first == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |kind| {
            let known = KINDS.iter().find(|(_, known)| *known == kind);
            known.map_or("?", |(name, _)| *name)
        };
        write!(f, "rule {}, {} to {}", self.number, kind(self.source), kind(self.target))?;
        if let Some(name) = self.target_file_system {
            write!(f, " on {name}")?;
        }
        f.write_str(":")?;
        for (index, name) in self.methods.iter().enumerate() {
            write!(f, "{} {name}", if index == 0 { "" } else { "," })?;
        }
        let bytes = |size: usize| format!("{} KiB", size.div_ceil(1024));
        let figures = [
            ("buffer", self.measured.buffer_bytes.map(bytes)),
            ("pipe", self.measured.pipe_bytes.map(bytes)),
            ("threads", self.threads.map(|threads| threads.to_string())),
            ("spin", self.spin.map(|spin| format!("{} us", spin.as_micros()))),
        ];
        let figures = figures.iter().filter_map(|(what, value)| Some((what, value.as_ref()?)));
        for (index, (what, value)) in figures.enumerate() {
            let comma = if index == 0 && self.methods.is_empty() { "" } else { "," };
            write!(f, "{comma} {what} {value}")?;
        }
        Ok(())
    }
}
