//! Programs whose `main` is made by `gush_process::main!`: this one starts itself, as a shell starts a program.
#![cfg_attr(target_env = "gnu", no_main)]

use gush_test as _;

#[cfg(target_env = "gnu")]
gush_process::main!(cases::run);

#[cfg(not(target_env = "gnu"))]
fn main() {
    println!("skipped: only glibc gives a program its arguments before main");
}

#[cfg(target_env = "gnu")]
mod cases {
    use std::process::{Command, ExitCode, Output};
    use std::{env, fs};

    /// Names the part that a child plays.
    const PART: &str = "GUSH_ENTRY_PART";

    pub fn run() -> ExitCode {
        match env::var(PART).as_deref() {
            Err(_) => {
                checked();
                ExitCode::SUCCESS
            }
            Ok("part of a line") => {
                print!("part of a line");
                ExitCode::from(7)
            }
            Ok("arguments") => {
                println!("{:?}", env::args().skip(1).collect::<Vec<_>>());
                ExitCode::SUCCESS
            }
            Ok("panic") => panic!("on purpose"),
            Ok("descriptors") => {
                for standard in 0..3 {
                    let behind = fs::read_link(format!("/proc/self/fd/{standard}")).unwrap();
                    let is_null = behind.as_os_str() == "/dev/null";
                    eprint!("{} {is_null}; ", gush_process::was_closed(standard));
                }
                ExitCode::SUCCESS
            }
            Ok("signals") => {
                let status = fs::read_to_string("/proc/self/status").unwrap();
                let line = status.lines().find(|line| line.starts_with("SigIgn:")).unwrap();
                let ignored = u64::from_str_radix(line[7..].trim(), 16).unwrap();
                println!("{}", ignored >> (libc::SIGPIPE - 1) & 1);
                ExitCode::SUCCESS
            }
            Ok(part) => panic!("no such part: {part}"),
        }
    }

    /// Starts this program in a part, by a line of bash in which `"$@"` is the program.
    fn child(part: &str, line: &str) -> Output {
        let program = env::current_exe().unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", line, "bash"]).arg(program).args(["one", "two words"]);
        command.env(PART, part).output().unwrap()
    }

    fn checked() {
        let partial = child("part of a line", "\"$@\"");
        assert_eq!((partial.status.code(), &partial.stdout[..]), (Some(7), &b"part of a line"[..]));

        assert_eq!(child("arguments", "\"$@\"").stdout, b"[\"one\", \"two words\"]\n");

        let panicked = child("panic", "\"$@\"");
        assert!(String::from_utf8_lossy(&panicked.stderr).contains("on purpose"), "{panicked:?}");
        assert_eq!(panicked.status.code(), Some(101), "{panicked:?}");

        let null = "true true; true true; false false; ";
        assert_eq!(String::from_utf8_lossy(&child("descriptors", "\"$@\" <&- >&-").stderr), null);
        let open = child("descriptors", "\"$@\" </dev/zero >/dev/zero").stderr;
        assert_eq!(String::from_utf8_lossy(&open), "false false; ".repeat(3));

        assert_eq!(child("signals", "\"$@\"").stdout, b"0\n", "SIGPIPE is as the parent left it");
        assert_eq!(child("signals", "trap '' PIPE; \"$@\"").stdout, b"1\n");
    }
}
