//! The values of pv's options.

use std::time::Duration;

use clap::ValueEnum;
use gush_text::{SizeError, memory_bytes, size_bytes};
use serde::{Deserialize, Serialize};

/// How a bar is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Style {
    #[default]
    Plain,
    Block,
    Granular,
    Shaded,
}

/// The sides of a command that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitored {
    Input,
    Output,
    Both,
}

impl Monitored {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "in" | "0" => Ok(Self::Input),
            "out" | "1" => Ok(Self::Output),
            "both" | "2" => Ok(Self::Both),
            _ => Err("expected in, out or both"),
        }
    }
}

/// The value of `--size`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    Number(u64),
    /// The size of the file at this path.
    AsLargeAs(String),
}

impl Expected {
    pub fn parse(text: &str, is_after_si: bool) -> Result<Self, SizeError> {
        match text.strip_prefix('@') {
            Some(path) if !path.is_empty() => Ok(Self::AsLargeAs(path.to_owned())),
            _ => as_pv_reads(text, is_after_si).map(Self::Number),
        }
    }
}

/// The size `text` after `--si`, if its unit is one letter: `1k`, but not `1KiB`.
fn decimal(text: &str, is_after_si: bool) -> Option<u64> {
    let has_letter = text.ends_with(|end: char| end.is_ascii_alphabetic() && end != 'B');
    (is_after_si && has_letter).then(|| size_bytes(&format!("{text}B")).ok())?
}

/// A size as in pv: a comma is a decimal point, fractions of a byte are dropped, and a number that
/// is too large is the largest.
fn as_pv_reads(text: &str, is_after_si: bool) -> Result<u64, SizeError> {
    if let Some(bytes) = decimal(text, is_after_si) {
        return Ok(bytes);
    }
    let pointed = text.replacen(',', ".", 1);
    let (whole, fraction) = pointed.split_once('.').unwrap_or((&pointed, ""));
    let has_no_digits = !fraction.starts_with(|c: char| c.is_ascii_digit());
    let read = match has_no_digits {
        true => size_bytes(&format!("{whole}{fraction}")),
        false => size_bytes(&pointed),
    };
    match read {
        Err(SizeError::Fraction) => size_bytes(whole),
        // With a unit, pv refuses such a size.
        Err(SizeError::TooLarge) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(u64::MAX),
        answer => answer,
    }
}

/// Longer than any transfer, and sums with other times do not overflow.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// A number of seconds, such as 2 or 0.5; at most [`LONGEST`].
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits && text.parse().is_ok_and(|seconds: f64| seconds > LONGEST.as_secs_f64()) {
        return Ok(LONGEST);
    }
    gush_text::seconds(text).ok_or("expected a number of seconds, such as 2 or 0.5")
}

pub fn columns(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 0..=100_000) => Ok(number),
        _ => Err("expected a number from 0 to 100000"),
    }
}

pub fn pid(text: &str) -> Result<i32, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("not a valid PID"),
    }
}

pub fn hex(text: &str) -> Result<String, &'static str> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { Ok(text.to_ascii_lowercase()) } else { Err("not a hexadecimal number") }
}

/// A rate as in pv, in bytes or lines per second.
pub fn rate(text: &str, is_after_si: bool) -> Result<u64, SizeError> {
    as_pv_reads(text.strip_suffix("/s").unwrap_or(text), is_after_si)
}

/// The bytes of a buffer, whose bounds apply to the size without `--si`.
pub fn memory(text: &str, is_after_si: bool) -> Result<usize, SizeError> {
    let bytes = memory_bytes(text)?;
    let decimal = decimal(text, is_after_si).and_then(|bytes| usize::try_from(bytes).ok());
    Ok(decimal.unwrap_or(bytes))
}
