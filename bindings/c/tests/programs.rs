//! Programs in C: compiled against the installed library, by the flags of pkg-config, and run.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gush_test as _;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        gush_test::skipped(&format!("{program} is not installed"));
    }
    found
}

fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{said}");
    String::from_utf8(stdout).expect("UTF-8")
}

/// The library where `make install` puts it.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // .../PROFILE/deps/this-program
        let built = std::env::current_exe().expect("a path");
        let built = built.ancestors().nth(2).expect("a profile");
        let profile = built.file_name().expect("a name").to_str().expect("UTF-8");
        let target = built.parent().expect("target").display();
        succeeded(Command::new("make").current_dir(here()).args([
            "all",
            "install",
            &format!("PREFIX={}", dir.path().display()),
            &format!("PROFILE={profile}"),
            &format!("TARGET_DIR={target}"),
        ]));
        Self(dir)
    }

    fn lib(&self) -> PathBuf {
        self.0.path().join("lib")
    }

    fn flags(&self, args: &[&str]) -> Vec<String> {
        let flags = succeeded(
            Command::new("pkg-config")
                .env("PKG_CONFIG_PATH", self.lib().join("pkgconfig"))
                .args(args)
                .arg("gush"),
        );
        flags.split_whitespace().map(str::to_owned).collect()
    }

    /// A program, linked to the shared library, or with the static one in it.
    fn compile(&self, source: &str, is_static: bool) -> PathBuf {
        let name = Path::new(source).file_stem().expect("a name").to_str().expect("UTF-8");
        let program = self.0.path().join(format!("{name}-{is_static}"));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"])
            .args(self.flags(&["--cflags"]))
            .arg(here().join(source))
            .arg("-o")
            .arg(&program);
        if is_static {
            cc.arg(self.lib().join("libgush.a"));
            let flags = self.flags(&["--static", "--libs"]);
            cc.args(flags.iter().filter(|&flag| flag != "-lgush"));
        } else {
            cc.args(self.flags(&["--libs"]));
        }
        succeeded(&mut cc);
        program
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.lib());
        command
    }
}

fn installed() -> Option<Installed> {
    let tools = ["cc", "make", "pkg-config"];
    tools.iter().all(|tool| has(tool)).then(Installed::new)
}

#[test]
fn what_the_header_promises_holds_for_the_shared_and_the_static_library() {
    let Some(installed) = installed() else { return };
    for is_static in [false, true] {
        let program = installed.compile("tests/check.c", is_static);
        assert_eq!(succeeded(&mut installed.command(&program)), "checked\n");
    }
    // The version in the name of the library is the one that programs ask for.
    let program = installed.compile("tests/check.c", false);
    fs::remove_file(installed.lib().join("libgush.so")).expect("remove");
    assert_eq!(succeeded(&mut installed.command(&program)), "checked\n");
}

#[test]
fn a_program_is_wholly_static_by_the_flags_of_pkg_config() {
    let Some(installed) = installed() else { return };
    let program = installed.0.path().join("static");
    succeeded(
        Command::new("cc")
            .arg("-static")
            .arg(here().join("tests/check.c"))
            .args(installed.flags(&["--cflags", "--static", "--libs"]))
            .arg("-o")
            .arg(&program),
    );
    fs::remove_dir_all(installed.lib()).expect("remove");
    assert_eq!(succeeded(&mut Command::new(&program)), "checked\n");
}

#[test]
fn all_paths_of_the_pc_file_follow_the_prefix() {
    let Some(installed) = installed() else { return };
    let flags = installed.flags(&["--define-variable=prefix=/elsewhere", "--cflags", "--libs"]);
    assert_eq!(flags, ["-I/elsewhere/include", "-L/elsewhere/lib", "-lgush"]);
}

#[test]
fn no_byte_of_memory_is_misused_or_lost() {
    let Some(installed) = installed() else { return };
    if !has("valgrind") {
        return;
    }
    let program = installed.compile("tests/check.c", false);
    let checked = succeeded(
        Command::new("valgrind")
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--track-fds=no"])
            .env("LD_LIBRARY_PATH", installed.lib())
            .arg(&program),
    );
    assert_eq!(checked, "checked\n");
}

#[test]
fn the_header_is_for_c_plus_plus_too() {
    let Some(installed) = installed() else { return };
    if !has("c++") {
        return;
    }
    let source = installed.0.path().join("plus.cc");
    let text = "#include <gush.h>\nint main() { return gush_copy(-1, -1, nullptr, nullptr) == GUSH_STATUS_INVALID ? 0 : 1; }\n";
    fs::write(&source, text).expect("write");
    let program = installed.0.path().join("plus");
    let flags = installed.flags(&["--cflags", "--libs"]);
    succeeded(
        Command::new("c++")
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(&source)
            .args(flags)
            .arg("-o")
            .arg(&program),
    );
    succeeded(&mut installed.command(&program));
}

#[test]
fn the_example_copies() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("examples/copy.c", false);
    let target = installed.0.path().join("target");
    let mut child = installed
        .command(&program)
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&target).expect("create"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    child.stdin.take().expect("stdin").write_all(&[7; 300_000]).expect("write");
    let output = child.wait_with_output().expect("wait");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("moved 300000 bytes by "), "{said}");
    assert!(fs::read(&target).expect("read") == [7; 300_000]);
    let full = fs::File::options().write(true).open("/dev/full").expect("open");
    let version = fs::File::open("/proc/version").expect("open");
    let output = installed.command(&program).stdin(version).stdout(full).output().expect("start");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("write failed on the target") && said.contains("ENOSPC"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_examples_of_writer_and_reservoir_fill_a_pipe() {
    let Some(installed) = installed() else { return };
    let lines = installed.compile("examples/lines.c", false);
    let printed = succeeded(installed.command(&lines).arg("200000"));
    let expected: String = (1..=200_000).map(|line| format!("{line}\n")).collect();
    assert!(printed == expected);
    let yes = installed.compile("examples/yes.c", false);
    assert!(succeeded(installed.command(&yes).arg("1000000")) == "y\n".repeat(1_000_000));
}
