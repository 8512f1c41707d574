//! The kernel's call path, from samples: a tree of functions, folded.

use std::fmt::Write as _;

/// A function and the functions called below, in the order of the first samples.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The function's name; empty at the root.
    function: String,
    /// The nanoseconds of samples there.
    cpu_ns: u64,
    below: Vec<Calls>,
}

impl Calls {
    /// Adds to the last function of `path`.
    pub(super) fn enter(&mut self, path: &[&str], cpu_ns: u64) {
        let mut at = self;
        for open in path {
            at = at.child(open);
        }
        at.cpu_ns += cpu_ns;
    }

    fn child(&mut self, name: &str) -> &mut Self {
        let index = self.below.iter().position(|call| call.function == name).unwrap_or_else(|| {
            self.below.push(Self { function: name.to_owned(), ..Self::default() });
            self.below.len() - 1
        });
        &mut self.below[index]
    }

    /// The tree, indented, with the parts of `all`, down to so many levels, below which functions
    /// are counted.
    pub(super) fn shares(mut self, depth: usize, all: u64) -> String {
        // Below one part in a hundred a line says nothing, and there are thousands of them.
        self.keep(all.div_ceil(100).max(1));
        let mut text = String::new();
        for call in &self.below {
            call.write(&mut text, 0, depth.max(1), all.max(1));
        }
        text
    }

    /// Keeps functions sampled for at least `least`, most first.
    fn keep(&mut self, least: u64) {
        self.below.retain(|call| call.cpu_ns >= least);
        self.below
            .sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then_with(|| a.function.cmp(&b.function)));
        self.below.iter_mut().for_each(|call| call.keep(least));
    }

    fn write(&self, text: &mut String, level: usize, depth: usize, all: u64) {
        let hidden = if level + 1 >= depth { self.below.iter().map(Self::count).sum() } else { 0 };
        let folded = match hidden {
            0 => String::new(),
            1 => " (and one function below)".to_owned(),
            _ => format!(" (and {hidden} functions below)"),
        };
        let (indent, share) = ("  ".repeat(level), self.cpu_ns as f64 * 100.0 / all as f64);
        // Writing into a `String` cannot fail.
        let _ = writeln!(text, "{indent}{share:5.1} %  {}{folded}", self.function);
        if hidden == 0 {
            self.below.iter().for_each(|call| call.write(text, level + 1, depth, all));
        }
    }

    fn count(&self) -> u64 {
        1 + self.below.iter().map(Self::count).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_long_comes_first_and_what_was_hardly_seen_not_at_all() {
        let shares = |depth| {
            let mut seen = Calls::default();
            for (path, cpu_ns) in [
                (&["read", "lock"][..], 1),
                (&["write"], 150),
                (&["read"], 849),
                (&["write", "copy"], 100),
                (&["write", "copy", "fault"], 50),
            ] {
                seen.enter(path, cpu_ns);
            }
            seen.shares(depth, 1000)
        };
        let read = " 84.9 %  read\n";
        let [write, copy, fault] =
            [" 15.0 %  write", "   10.0 %  copy", "      5.0 %  fault"].map(str::to_owned);
        assert_eq!(shares(9), format!("{read}{write}\n{copy}\n{fault}\n"));
        assert_eq!(shares(2), format!("{read}{write}\n{copy} (and one function below)\n"));
        assert_eq!(shares(1), format!("{read}{write} (and 2 functions below)\n"));
        assert_eq!(Calls::default().shares(3, 0), "");
    }
}
