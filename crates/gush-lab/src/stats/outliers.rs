//! Samples that do not belong to the others.

use super::middle;

/// A sample of a higher modified Z-score, either way, is an outlier: the bound that Iglewicz and
/// Hoaglin recommend (*How to Detect and Handle Outliers*, ASQC Basic References in Quality Control
/// 16, 1993).
const OUTLIER_SCORE: f64 = 3.5;

/// The expected median absolute deviation of normal samples, in standard deviations.
const MAD_OF_NORMAL: f64 = 0.6745;
/// The expected mean absolute deviation of normal samples, in standard deviations.
const MEAN_DEVIATION_OF_NORMAL: f64 = 0.7979;

/// How far each sample lies from the median, in standard deviations estimated from the median
/// absolute deviation: `0.6745 (x − median) / MAD`.
///
/// Where more than half of the samples are equal, that deviation is 0, and the mean one stands in.
pub fn modified_z_scores(samples: &[f64]) -> Vec<f64> {
    let Some(median) = middle(samples) else { return Vec::new() };
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - median).abs()).collect();
    let mad = middle(&deviations).unwrap_or(0.0);
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    let deviation = if mad > 0.0 { mad / MAD_OF_NORMAL } else { mean / MEAN_DEVIATION_OF_NORMAL };
    let score = |sample: &f64| if deviation > 0.0 { (sample - median) / deviation } else { 0.0 };
    samples.iter().map(score).collect()
}

/// Which samples are outliers.
pub fn outliers(samples: &[f64]) -> Vec<bool> {
    modified_z_scores(samples).iter().map(|score| score.abs() > OUTLIER_SCORE).collect()
}
