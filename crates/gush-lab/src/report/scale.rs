//! Axes: the place of a value, in percent, and which values are named.

use super::number::count;

/// A named place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Percent of the axis.
    pub at: f64,
    pub text: String,
}

/// No measured value is larger, and arithmetic would overflow.
const FARTHEST: f64 = 1e100;

/// An axis from one round value to another.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    step: f64,
    logarithmic: bool,
}

impl Scale {
    /// From 0 to a bound of all `values`, in steps of 1, 2 or 5.
    pub fn linear(values: impl Iterator<Item = f64>) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max).min(FARTHEST);
        let most = if most > 0.0 { most } else { 1.0 };
        let rough = most / 5.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|times| times * decade)
            .into_iter()
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(rough);
        Self { from: 0.0, to: (most / step).ceil().max(1.0) * step, step, logarithmic: false }
    }

    /// From one power of ten to another, around all `values` above 0.
    pub fn logarithmic(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.clamp(1.0 / FARTHEST, FARTHEST));
        let least = positive.clone().fold(f64::INFINITY, f64::min);
        let most = positive.fold(0.0, f64::max);
        if most == 0.0 {
            return Self { from: -1.0, to: 1.0, step: 1.0, logarithmic: true };
        }
        // A bar that ends where its axis begins could not be seen.
        let from = (least.log10() - 0.05).floor();
        let to = most.log10().ceil().max(from + 1.0);
        Self { from, to, step: ((to - from) / 8.0).ceil(), logarithmic: true }
    }

    /// The place of `value`, in percent with two digits; the ends for values outside.
    pub fn at(&self, value: f64) -> f64 {
        let place = if self.logarithmic { value.log10() } else { value };
        let share = (place - self.from) / (self.to - self.from);
        if share.is_nan() { 0.0 } else { (share.clamp(0.0, 1.0) * 10_000.0).round() / 100.0 }
    }

    pub fn ticks(&self) -> Vec<Tick> {
        let steps = ((self.to - self.from) / self.step + 0.001).floor() as u32;
        (0..=steps)
            .map(|index| {
                let place = self.from + f64::from(index) * self.step;
                let value = if self.logarithmic { 10f64.powf(place) } else { place };
                Tick { at: self.at(value), text: self.text(value) }
            })
            .collect()
    }

    fn text(&self, value: f64) -> String {
        match value {
            0.0 => "0".to_owned(),
            v if !(1e-4..1e6).contains(&v) => format!("{v:.1e}").replace(".0e", "e"),
            // With three digits, steps such as 0.0005 and 0.001 would look alike.
            v if v < 1.0 || self.step < 1.0 => {
                let decimals = if self.logarithmic { 4 } else { self.decimals() };
                let text = format!("{v:.decimals$}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            v => count(v.round() as u64),
        }
    }

    /// The decimals needed to distinguish one step from the next.
    fn decimals(&self) -> usize {
        (-self.step.log10().floor()).max(0.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn a_linear_axis_starts_at_zero_and_has_round_steps() {
        let scale = Scale::linear([3.7, 62.5].into_iter());
        assert_eq!(texts(scale), ["0", "20", "40", "60", "80"]);
        assert!((scale.at(40.0) - 50.0).abs() < 0.01);
        let large = Scale::linear([1.4e6].into_iter());
        assert_eq!(texts(large), ["0", "500\u{202f}000", "1e6", "1.5e6"]);
        // The processor time of a short program, in seconds.
        let small = Scale::linear([0.002].into_iter());
        assert_eq!(texts(small), ["0", "0.0005", "0.001", "0.0015", "0.002"]);
        let tiny = Scale::linear([7e-6].into_iter());
        assert_eq!(texts(tiny), ["0", "2e-6", "4e-6", "6e-6", "8e-6"]);
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten() {
        let scale = Scale::logarithmic([0.63, 558.0].into_iter());
        assert_eq!(texts(scale), ["0.1", "1", "10", "100", "1\u{202f}000"]);
        assert!((scale.at(10.0) - 50.0).abs() < 0.01);
        let large = Scale::logarithmic([0.63, 9.5e5].into_iter());
        let thousands = ["1\u{202f}000", "10\u{202f}000", "100\u{202f}000", "1e6"];
        assert_eq!(texts(large)[..4], ["0.1", "1", "10", "100"]);
        assert_eq!(texts(large)[4..], thousands);
        assert!(Scale::logarithmic([1.0].into_iter()).at(1.0) > 0.0);
    }

    #[test]
    fn odd_values_break_no_axis() {
        for values in [
            vec![],
            vec![0.0],
            vec![f64::NAN, 1e308],
            vec![1e-300, 1e300],
            vec![f64::MAX],
            vec![-5.0],
        ] {
            for scale in
                [Scale::linear(values.iter().copied()), Scale::logarithmic(values.iter().copied())]
            {
                let ticks = scale.ticks();
                assert!((2..=12).contains(&ticks.len()), "{values:?}: {ticks:?}");
                assert!(values.iter().all(|value| (0.0..=100.0).contains(&scale.at(*value))));
            }
        }
    }
}
