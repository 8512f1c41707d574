//! The kernel's call path, from the tracer's output or from samples: a tree of functions, folded.

use std::fmt::Write as _;

/// A function and the functions called below, in the order of the first calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// The function's name; empty at the root.
    pub function: String,
    /// The number of calls there, or the nanoseconds of samples there.
    pub times: u64,
    pub below: Vec<Calls>,
}

impl Calls {
    /// Reads the output of the `function` tracer (Documentation/trace/ftrace.rst): `task [cpu]
    /// flags time: function <-caller`.
    ///
    /// This tracer does not report ends of calls: a function belongs to the innermost open call of
    /// the caller. Where there is none (a caller that cannot be traced) the function is left out. A
    /// function that a root jumps to at the end has the root's own caller.
    pub fn of_functions(text: &str, is_root: impl Fn(&str) -> bool) -> Self {
        let mut root = Self::default();
        let (mut path, mut outer) = (Vec::new(), "");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((before, caller)) = line.split_once(" <-") else { continue };
            let (name, caller) = (before.rsplit(' ').next().unwrap_or_default(), caller.trim());
            if !is_name(name) {
                continue;
            }
            if is_root(name) {
                path.clear();
                outer = caller;
            // The innermost of that name: a function may call itself.
            } else if let Some(open) = path.iter().rposition(|open| *open == caller) {
                path.truncate(open + 1);
            } else if path.len() != 1 || caller != outer {
                continue;
            }
            path.push(name);
            root.enter(&path, 1);
        }
        root
    }

    /// Adds to the last function of `path`.
    pub(super) fn enter(&mut self, path: &[&str], times: u64) {
        let mut at = self;
        for open in path {
            at = at.child(open);
        }
        at.times += times;
    }

    fn child(&mut self, name: &str) -> &mut Self {
        let index = self.below.iter().position(|call| call.function == name).unwrap_or_else(|| {
            self.below.push(Self { function: name.to_owned(), ..Self::default() });
            self.below.len() - 1
        });
        &mut self.below[index]
    }

    /// The tree, indented, down to so many levels; deeper functions are counted.
    pub fn tree(&self, depth: usize) -> String {
        let times = |call: &Self| match call.times {
            0 | 1 => call.function.clone(),
            times => format!("{} x {times}", call.function),
        };
        self.indented(depth, &times)
    }

    /// The tree of sampled functions, with the parts of `all`; below a hundredth is left out.
    pub(super) fn shares(mut self, depth: usize, all: u64) -> String {
        // Below one part in a hundred a line says nothing, and there are thousands of them.
        self.keep(all.div_ceil(100).max(1));
        let share = |call: &Self| {
            format!("{:5.1} %  {}", call.times as f64 * 100.0 / all.max(1) as f64, call.function)
        };
        self.indented(depth, &share)
    }

    /// Keeps functions sampled for at least `least`, most first.
    fn keep(&mut self, least: u64) {
        self.below.retain(|call| call.times >= least);
        self.below.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.function.cmp(&b.function)));
        self.below.iter_mut().for_each(|call| call.keep(least));
    }

    fn indented(&self, depth: usize, label: &dyn Fn(&Self) -> String) -> String {
        let mut text = String::new();
        for call in &self.below {
            call.write(&mut text, 0, depth.max(1), label);
        }
        text
    }

    fn write(
        &self,
        text: &mut String,
        level: usize,
        depth: usize,
        label: &dyn Fn(&Self) -> String,
    ) {
        let hidden = if level + 1 >= depth { self.below.iter().map(Self::count).sum() } else { 0 };
        let folded = match hidden {
            0 => String::new(),
            1 => " (and one function below)".to_owned(),
            _ => format!(" (and {hidden} functions below)"),
        };
        // Writing into a `String` cannot fail.
        let _ = writeln!(text, "{}{}{folded}", "  ".repeat(level), label(self));
        if hidden == 0 {
            self.below.iter().for_each(|call| call.write(text, level + 1, depth, label));
        }
    }

    fn count(&self) -> u64 {
        1 + self.below.iter().map(Self::count).sum::<u64>()
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_become_a_folded_tree_by_their_callers() {
        let text = "\
# tracer: function
            gush-77      [001] .....   1.000001: __x64_sys_read <-do_syscall_64
            gush-77      [001] .....   1.000002: ksys_read <-__x64_sys_read
            gush-77      [001] .....   1.000003: fdget_pos <-ksys_read
            gush-77      [001] .....   1.000004: vfs_read <-ksys_read
            gush-77      [001] d.h..   1.000005: tick_irq <-somewhere_else
            gush-77      [001] .....   1.000006: filemap_read <-vfs_read
            gush-77      [001] .....   1.000007: __x64_sys_read <-do_syscall_64
            gush-77      [001] .....   1.000008: ksys_read <-__x64_sys_read
            gush-77      [001] .....   1.000009: exit_work <-do_syscall_64
            gush-77      [001] .....   1.000010: __x64_sys_write <-do_syscall_64
            gush-77      [001] .....   1.000011: ksys_write <-do_syscall_64
            gush-77      [001] .....   1.000012: exit_work <-do_syscall_64
odd line
";
        let calls = Calls::of_functions(text, |name| name.starts_with("__x64_sys_"));
        assert_eq!(
            calls.tree(9),
            "__x64_sys_read x 2\n  ksys_read x 2\n    fdget_pos\n    vfs_read\n      filemap_read\n\
             __x64_sys_write\n  ksys_write\n"
        );
        assert_eq!(
            calls.tree(2),
            "__x64_sys_read x 2\n  ksys_read x 2 (and 3 functions below)\n__x64_sys_write\n  ksys_write\n"
        );
    }

    #[test]
    fn what_was_seen_long_comes_first_and_what_was_hardly_seen_not_at_all() {
        let mut seen = Calls::default();
        for (path, times) in [
            (&["read", "lock"][..], 1),
            (&["write"], 150),
            (&["read"], 849),
            (&["write", "copy"], 100),
        ] {
            seen.enter(path, times);
        }
        assert_eq!(seen.shares(9, 1000), " 84.9 %  read\n 15.0 %  write\n   10.0 %  copy\n");
    }

    #[test]
    fn nothing_is_an_empty_tree() {
        for odd in ["", "\n", "|", "}\n}\n| }", " <-", "| {"] {
            assert_eq!(Calls::of_functions(odd, |_| true).tree(3), "");
        }
    }
}
