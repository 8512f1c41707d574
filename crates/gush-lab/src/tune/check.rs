//! Does a profile make anything slower? Every choice that the profile changes, measured with and without the profile.

use std::time::{Duration, Instant};

use gush::Profile;

use super::bench::{self, Bench};
use super::decide::{self, Comparison};
use super::question;
use super::trial_dir::TrialDir;
use crate::Error;

/// Said of a choice not looked at more closely.
const THE_TABLES: &str = "the table's choice";

/// One choice, with the profile and without it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The move, in words.
    pub question: String,
    /// The table's choice.
    pub without: String,
    /// The profile's choice; none where the profile has no rule, so that both do the same.
    pub with: Option<String>,
    /// How they compare; none where nothing changes, or when there was no time.
    pub comparison: Option<Comparison>,
}

/// Measures every choice that the profile changes, for `time` in all, and tells each.
///
/// Each class of sizes is measured at the tuned size and, again, at both ends of the class.
///
/// # Errors
/// As [`super::measure`].
pub fn check(
    profile: &Profile,
    dirs: &[TrialDir],
    time: Duration,
    mut tell: impl FnMut(&Checked),
) -> Result<Vec<Checked>, Error> {
    let start = Instant::now();
    super::outlive_broken_pipes()?;
    let mut questions = Vec::new();
    for question in question::all(dirs) {
        questions.extend(question.ends());
        questions.push(question);
    }
    let mut all = Vec::new();
    let (mut changed, mut same) = (Vec::new(), Vec::new());
    for question in &questions {
        match bench::advice(question, profile)? {
            Some(rule) => changed.push((question, rule)),
            None => same.push(question),
        }
    }
    // What the profile leaves alone cannot have become slower, and takes no time.
    for question in same {
        let checked = Checked {
            question: question.to_string(),
            without: THE_TABLES.to_owned(),
            with: None,
            comparison: None,
        };
        tell(&checked);
        all.push(checked);
    }
    for (index, (question, rule)) in changed.iter().enumerate() {
        let weight = changed[index..].iter().map(|(question, _)| question.weight()).sum::<u32>();
        let left = time.saturating_sub(start.elapsed()) / weight * question.weight();
        let until = Instant::now() + left;
        let mut checked = Checked {
            question: question.to_string(),
            without: THE_TABLES.to_owned(),
            with: Some(rule.clone()),
            comparison: None,
        };
        if !left.is_zero() {
            let bench = Bench::new(question)?;
            checked.without = decide::told(&bench.sample(None)?.report);
            checked.comparison =
                decide::compare(&bench, None, Some(profile), question.bytes, until)?;
        }
        tell(&checked);
        all.push(checked);
    }
    Ok(all)
}
