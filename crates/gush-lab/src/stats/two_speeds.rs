//! Cases with two speeds: a figure between the two would be that of no round.

use super::Summary;

/// Fewer samples show two groups by chance too often.
const FEWEST: usize = 9;
/// The widest gap between neighbours, as a part of the range, from which the samples on both sides are two groups.
const GAP: f64 = 0.5;
/// And as a part of the median: less is a difference that does not matter.
const WORTH: f64 = 0.1;
/// The smaller group has at least this part of the samples: one odd sample is an outlier, and no speed.
const PART: f64 = 0.2;

/// The medians of the two groups that some samples fall into, the smaller first; none where they are one group.
///
/// Two groups are parted by a gap of half of the whole range, of a tenth of the median, and have a fifth of the samples each, of
/// nine or more. Of nine samples of one group this takes 1.4 % for two if they are normal, 2.6 % if lognormal, and 6 % if
/// exponential; of fifteen 0.5 % at most; nine samples of two groups five of their deviations apart are told in 93 % of the cases.
///
/// ```
/// use gush_lab::stats::two_speeds;
/// let here_and_there = [2.0, 5.1, 2.1, 2.0, 5.0, 1.9, 4.9, 2.0, 5.0];
/// assert_eq!(two_speeds(&here_and_there), Some([2.0, 5.0]));
/// assert_eq!(two_speeds(&[2.0, 2.1, 2.0, 1.9, 2.2, 2.0, 2.1, 2.0, 9.0]), None);
/// ```
#[must_use]
pub fn two_speeds(samples: &[f64]) -> Option<[f64; 2]> {
    if samples.len() < FEWEST || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Summary { least, median, most } = Summary::of(&sorted)?;
    let fewest = ((samples.len() as f64 * PART).ceil() as usize).max(2);
    let gap_before = |place: &usize| sorted[*place] - sorted[*place - 1];
    let place =
        (1..sorted.len()).max_by(|one, other| gap_before(one).total_cmp(&gap_before(other)))?;
    let gap = gap_before(&place);
    let are_groups = place >= fewest && sorted.len() - place >= fewest;
    let is_wide = gap >= GAP * (most - least) && gap > WORTH * median;
    let [lower, upper] = [&sorted[..place], &sorted[place..]].map(Summary::of);
    (are_groups && is_wide).then_some([lower?.median, upper?.median])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_group_is_seldom_taken_for_two_and_two_are_seen() {
        let mut rng = fastrand::Rng::with_seed(7);
        // The sum of twelve even numbers is nearly normal, with deviation 1.
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let mut count = |len: usize, apart: f64| {
            let groups = |_: &u32| {
                let sample = |place: usize| {
                    100.0 + 5.0 * normal() + if place.is_multiple_of(2) { apart } else { 0.0 }
                };
                two_speeds(&(0..len).map(sample).collect::<Vec<_>>()).is_some()
            };
            (0..1000).filter(groups).count()
        };
        assert!(count(9, 0.0) < 40 && count(15, 0.0) < 10, "one group");
        assert!(count(9, 50.0) > 800 && count(15, 50.0) > 800, "two groups");
    }

    #[test]
    fn few_samples_an_outlier_and_a_small_difference_are_no_second_speed() {
        let two = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
        assert_eq!(two_speeds(&two), None, "eight are too few");
        assert_eq!(two_speeds(&[1.0; 9]), None);
        assert_eq!(two_speeds(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.05, 1.05, 1.05, 1.05]), None);
        let mut one_odd = [1.0; 12];
        one_odd[3] = 9.0;
        assert_eq!(two_speeds(&one_odd), None);
    }
}
