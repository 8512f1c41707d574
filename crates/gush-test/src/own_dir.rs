//! One directory for a whole process of tests.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, process};

static OWN: OnceLock<PathBuf> = OnceLock::new();

/// A directory for files that tested programs keep between their runs. It belongs to this process
/// and its user, and goes when the process ends: neither another user's tests nor another version's
/// find any of the files.
///
/// # Panics
/// Where the directory of temporary files takes none.
#[must_use]
pub fn own_dir() -> &'static Path {
    OWN.get_or_init(|| {
        let dir = path();
        fs::create_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        // SAFETY: `remove` stays in memory for as long as the process lives.
        unsafe { libc::atexit(remove) };
        dir
    })
}

fn path() -> PathBuf {
    let since = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    env::temp_dir().join(format!("gush-test.{}.{since}", process::id()))
}

extern "C" fn remove() {
    // A child that a fork made ends with the same list.
    let own = format!("gush-test.{}.", process::id());
    if let Some(dir) = OWN.get().filter(|dir| dir.to_string_lossy().contains(&own)) {
        // A failure leaves a directory among the temporary files, and spoils no test.
        let _ = fs::remove_dir_all(dir);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    #[test]
    #[ignore = "run by the test below, which looks afterwards"]
    fn child_says_its_own_dir() {
        let dir = super::own_dir();
        std::fs::write(dir.join("file"), "kept while the process lives").unwrap();
        assert_eq!(super::own_dir(), dir);
        println!("\nit is {}", dir.display());
    }

    #[test]
    fn the_directory_goes_with_its_process() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "own_dir::tests::child_says_its_own_dir",
            "--ignored",
            "--nocapture",
        ]);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        let dir = said.lines().find_map(|line| line.strip_prefix("it is ")).expect("its name");
        assert!(!Path::new(dir).exists(), "{dir} is left");
        assert_ne!(Path::new(dir), super::own_dir());
    }
}
