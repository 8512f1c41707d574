//! Medians, intervals and scores agree with SciPy's on stored samples.

use gush_lab::stats::{
    Estimate, Interval, Verdict, median, modified_z_scores, outliers, paired_ratio, ratio,
};
use gush_test as _;
use proptest::prelude::*;
use serde::Deserialize;

/// Made by `data/scipy_values.py`.
#[derive(Deserialize)]
struct Values {
    sets: Vec<Set>,
    ratios: Vec<Ratio>,
    paired: Vec<Paired>,
}

#[derive(Deserialize)]
struct Set {
    name: String,
    samples: Vec<f64>,
    median: f64,
    interval: [f64; 2],
    modified_z: Vec<f64>,
}

#[derive(Deserialize)]
struct Ratio {
    of: String,
    to: String,
    value: f64,
    interval: [f64; 2],
}

#[derive(Deserialize)]
struct Paired {
    name: String,
    rounds: Vec<(f64, f64)>,
    value: f64,
    interval: [f64; 2],
}

fn values() -> Values {
    serde_json::from_str(include_str!("data/scipy_values.json")).unwrap()
}

/// The draws are others than SciPy's: the ends of an interval agree within a tenth of its width.
fn agrees(what: &str, estimate: &Estimate, value: f64, [low, high]: [f64; 2]) {
    assert!((estimate.value - value).abs() < 1e-12 * value, "{what}: {estimate:?}, SciPy {value}");
    let near = 0.1 * (high - low) + 1e-12;
    let own = estimate.interval.unwrap();
    assert!(
        (own.low - low).abs() <= near && (own.high - high).abs() <= near,
        "{what}: {estimate:?}, SciPy {low} … {high}"
    );
}

#[test]
fn medians_and_their_intervals_are_those_of_scipy() {
    for set in values().sets {
        agrees(&set.name, &median(&set.samples).unwrap(), set.median, set.interval);
    }
}

#[test]
fn ratios_and_their_intervals_are_those_of_scipy() {
    let values = values();
    let samples = |name: &str| &values.sets.iter().find(|set| set.name == name).unwrap().samples;
    for Ratio { of, to, value, interval } in &values.ratios {
        let ours = ratio(samples(of), samples(to)).unwrap();
        agrees(&format!("{of} / {to}"), &ours, *value, *interval);
    }
    for Paired { name, rounds, value, interval } in &values.paired {
        agrees(name, &paired_ratio(rounds).unwrap(), *value, *interval);
    }
}

#[test]
fn rounds_that_drift_together_differ_only_in_pairs() {
    let Paired { rounds, .. } = values().paired.remove(0);
    let (of, to): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
    let (paired, apart) = (paired_ratio(&rounds).unwrap(), ratio(&of, &to).unwrap());
    assert_eq!(paired.value, apart.value);
    let [narrow, wide] =
        [paired, apart].map(|of| of.interval.map(|around| around.high - around.low).unwrap());
    assert!(narrow < 0.5 * wide, "{paired:?} {apart:?}");
}

#[test]
fn outliers_have_the_scores_that_scipy_gives_them() {
    for Set { name, samples, modified_z, .. } in values().sets {
        for (ours, theirs) in modified_z_scores(&samples).iter().zip(&modified_z) {
            assert!((ours - theirs).abs() < 1e-9, "{name}: {ours}, SciPy {theirs}");
        }
    }
    let slow = &values().sets[2];
    let odd: Vec<f64> = slow
        .samples
        .iter()
        .zip(outliers(&slow.samples))
        .filter_map(|(&sample, odd)| odd.then_some(sample))
        .collect();
    assert_eq!(odd, [31.0, 44.2], "{}", slow.name);
}

#[test]
fn nothing_is_said_of_nothing_or_of_what_is_no_number() {
    assert!(median(&[]).is_none() && ratio(&[], &[1.0]).is_none() && paired_ratio(&[]).is_none());
    assert!(median(&[1.0, f64::NAN]).is_none() && ratio(&[1.0], &[0.0]).is_none());
    assert!(modified_z_scores(&[]).is_empty());
}

#[test]
fn a_few_samples_make_no_interval_and_no_verdict() {
    let [few, enough] = [4, 5].map(|len| ratio(&vec![9.0; len], &[1.0; 9]));
    assert!(few.is_some_and(|few| few.interval.is_none() && few.value == 9.0));
    assert!(median(&[9.0; 4]).unwrap().interval.is_none());
    assert!(paired_ratio(&[(9.0, 1.0); 4]).unwrap().interval.is_none());
    assert_eq!(Verdict::of(few.as_ref(), 0.0), Verdict::CannotTell);
    assert_eq!(Verdict::of(enough.as_ref(), 0.0), Verdict::Faster);
    assert_eq!(Verdict::of(None, 0.0), Verdict::CannotTell);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_interval_holds_its_median_and_stays_within_the_samples(
        samples in prop::collection::vec(1e-3..1e6_f64, 5..20)
    ) {
        let estimate = median(&samples).unwrap();
        let Interval { low, high } = estimate.interval.unwrap();
        prop_assert!(low <= estimate.value && estimate.value <= high);
        prop_assert!(samples.iter().any(|&least| least <= low));
        prop_assert!(samples.iter().any(|&most| most >= high));
        prop_assert_eq!(median(&samples).unwrap(), estimate);
    }

    #[test]
    fn swapping_sides_never_keeps_a_verdict(
        of in prop::collection::vec(1.0..10.0_f64, 5..9),
        to in prop::collection::vec(1.0..10.0_f64, 5..9),
    ) {
        let one = Verdict::of(ratio(&of, &to).as_ref(), 0.05);
        let other = Verdict::of(ratio(&to, &of).as_ref(), 0.05);
        prop_assert!(one == Verdict::CannotTell || one != other);
    }
}
