//! The kernel's call path, from what its tracers print: a tree of functions, folded.

use std::fmt::Write as _;

/// A function and what it called, in the order of the first calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Its name; empty at the root.
    pub function: String,
    /// How often it was called there.
    pub times: u64,
    /// What it called.
    pub below: Vec<Calls>,
}

impl Calls {
    /// Reads what the `function_graph` tracer printed (Documentation/trace/ftrace.rst): depth is
    /// indentation, a call ends with its brace.
    ///
    /// ```
    /// use gush_lab::explain::Calls;
    /// let text = " 0)               |  __x64_sys_read() {\n 0)   0.1 us      |    fdget_pos();\n 0)   1.2 us      |  }\n";
    /// assert_eq!(Calls::of_graph(text).tree(9), "__x64_sys_read\n  fdget_pos\n");
    /// ```
    #[must_use]
    pub fn of_graph(text: &str) -> Self {
        let mut root = Self::default();
        let mut path: Vec<String> = Vec::new();
        for line in text.lines().filter_map(|line| Some(line.split_once('|')?.1.trim())) {
            let name = line.split('(').next().unwrap_or_default();
            if line.starts_with('}') {
                path.pop();
            } else if !is_name(name) {
                // A comment of the tracer, or an interrupt's marker.
            } else if line.ends_with('{') {
                root.enter(&path, name);
                path.push(name.to_owned());
            } else {
                root.enter(&path, name);
            }
        }
        root
    }

    /// Reads what the `function` tracer printed: `task [cpu] flags time: function <-caller`.
    ///
    /// Ends of calls are not told: a function belongs to the innermost open call of its caller. Where
    /// that is none (a tail call, a caller that cannot be traced) it stays out.
    ///
    /// ```
    /// use gush_lab::explain::Calls;
    /// let text = "gush-7 [000] ..... 1.0: ksys_read <-__x64_sys_read\n\
    ///             gush-7 [000] ..... 1.1: vfs_read <-ksys_read\n";
    /// let calls = Calls::of_functions(text, |name| name == "ksys_read");
    /// assert_eq!(calls.tree(9), "ksys_read\n  vfs_read\n");
    /// ```
    #[must_use]
    pub fn of_functions(text: &str, is_root: impl Fn(&str) -> bool) -> Self {
        let mut root = Self::default();
        let mut path: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((before, caller)) = line.split_once(" <-") else { continue };
            let name = before.rsplit(' ').next().unwrap_or_default();
            if !is_name(name) {
                continue;
            }
            if is_root(name) {
                path.clear();
            } else {
                let Some(open) = path.iter().rposition(|open| open == caller.trim()) else {
                    continue;
                };
                path.truncate(open + 1);
            }
            root.enter(&path, name);
            path.push(name.to_owned());
        }
        root
    }

    /// Counts a call of `name` below `path`.
    fn enter(&mut self, path: &[String], name: &str) {
        let mut at = self;
        for open in path {
            at = at.child(open);
        }
        at.child(name).times += 1;
    }

    fn child(&mut self, name: &str) -> &mut Self {
        let index = self.below.iter().position(|call| call.function == name).unwrap_or_else(|| {
            self.below.push(Self { function: name.to_owned(), ..Self::default() });
            self.below.len() - 1
        });
        &mut self.below[index]
    }

    /// The tree, indented, down to so many levels; what is deeper is counted.
    #[must_use]
    pub fn tree(&self, depth: usize) -> String {
        let mut text = String::new();
        for call in &self.below {
            call.write(&mut text, 0, depth);
        }
        text
    }

    fn write(&self, text: &mut String, level: usize, depth: usize) {
        let times = if self.times > 1 { format!(" x {}", self.times) } else { String::new() };
        let hidden = if level + 1 >= depth { self.below.iter().map(Self::count).sum() } else { 0 };
        let folded = match hidden {
            0 => String::new(),
            1 => " (and one function below)".to_owned(),
            _ => format!(" (and {hidden} functions below)"),
        };
        let _ = writeln!(text, "{}{}{times}{folded}", "  ".repeat(level), self.function);
        if hidden == 0 {
            self.below.iter().for_each(|call| call.write(text, level + 1, depth));
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

    const GRAPH: &str = "\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)               |  __x64_sys_sendfile64() {
 0)               |    do_sendfile() {
 0)   0.120 us    |      rw_verify_area();
 0)   ==========> |
 0)   <========== |
 0)               |      do_splice_direct() {
 0) + 12.300 us   |        filemap_splice_read();
 0)               |        /* a comment */
 0)               |        splice_direct_to_actor() {
 0)   0.100 us    |          iter_file_splice_write();
 0)   0.100 us    |          iter_file_splice_write();
 0)   0.900 us    |        } /* splice_direct_to_actor */
 0)   1.000 us    |      }
 ------------------------------------------
 0)   2.000 us    |    }
 0)   3.000 us    |  }
";

    #[test]
    fn a_graph_becomes_a_folded_tree() {
        let calls = Calls::of_graph(GRAPH);
        assert_eq!(
            calls.tree(9),
            "__x64_sys_sendfile64\n  do_sendfile\n    rw_verify_area\n    do_splice_direct\n      \
             filemap_splice_read\n      splice_direct_to_actor\n        iter_file_splice_write x 2\n"
        );
        assert_eq!(calls.tree(2), "__x64_sys_sendfile64\n  do_sendfile (and 5 functions below)\n");
    }

    #[test]
    fn plain_functions_become_a_tree_by_their_callers() {
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
odd line
";
        let calls = Calls::of_functions(text, |name| name == "__x64_sys_read");
        assert_eq!(
            calls.tree(9),
            "__x64_sys_read x 2\n  ksys_read x 2\n    fdget_pos\n    vfs_read\n      filemap_read\n"
        );
    }

    #[test]
    fn nothing_is_an_empty_tree() {
        for odd in ["", "\n", "|", "}\n}\n| }", " <-", "| {"] {
            assert_eq!(Calls::of_graph(odd).tree(3), "");
            assert_eq!(Calls::of_functions(odd, |_| true).tree(3), "");
        }
    }
}
