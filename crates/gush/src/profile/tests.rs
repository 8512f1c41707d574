use super::*;

fn host() -> Host {
    Host {
        kernel: "6.18.0".into(),
        processor: "x86,ven0000".into(),
        processors: 2,
        allowed: "0-1".into(),
        quota: "none".into(),
    }
}

fn text(rules: &str) -> String {
    format!(
        "format = 1\n[machine]\nkernel = '6.18.0'\nprocessor = 'x86,ven0000'\nprocessors = 2\n{rules}"
    )
}

fn read(rules: &str) -> Profile {
    Profile::for_host(&text(rules), &host()).expect("a profile")
}

fn refused(text: &str) -> String {
    Profile::for_host(text, &host()).expect_err("no profile").to_string()
}

#[test]
fn a_profile_of_another_machine_says_which() {
    let other = |change: fn(&mut Host)| {
        let mut host = host();
        change(&mut host);
        Profile::for_host(&text(""), &host).expect_err("another machine").to_string()
    };
    let kernel = other(|host| host.kernel = "6.19.1".into());
    assert_eq!(
        kernel,
        "it was made for kernel \"6.18.0\", and this is \"6.19.1\": make it anew with gush tune"
    );
    assert!(other(|host| host.processor = "arm".into()).contains("processor \"x86,ven0000\""));
    assert!(other(|host| host.processors = 8).contains("processors of \"2\", and this is \"8\""));
}

#[test]
fn a_profile_of_other_limits_or_another_gush_says_which() {
    let whole = |version: &str| {
        let text =
            text("").replace("processors = 2", "processors = 2\nallowed = '0-1'\nquota = 'none'");
        format!("gush = '{version}'\n{text}")
    };
    let own = env!("CARGO_PKG_VERSION");
    assert!(Profile::for_host(&whole(own), &host()).is_ok());
    let refused =
        |text: &str, host: &Host| Profile::for_host(text, host).expect_err("stale").to_string();
    assert!(
        refused(&whole("0.0.9"), &host())
            .starts_with("it was made for gush \"0.0.9\", and this is")
    );
    let pinned = Host { allowed: "1".into(), ..host() };
    assert!(
        refused(&whole(own), &pinned).contains("may use the processors \"0-1\", and this is \"1\"")
    );
    let limited = Host { quota: "0.50".into(), ..host() };
    assert!(
        refused(&whole(own), &limited)
            .contains("grants processors: \"none\", and this is \"0.50\"")
    );
    assert!(Profile::for_host(&text(""), &limited).is_ok(), "an older profile tells of no limits");
}

#[test]
fn a_garbled_text_is_told_in_a_line() {
    for garbled in ["", "format", "format = 1", "format = 1\n[machine]\nkernel = 3", "[[[[", "\0"] {
        let why = refused(garbled);
        assert!(!why.is_empty() && !why.contains('\n'), "{garbled:?}: {why:?}");
    }
    assert!(refused("format = 2").contains("format 2, and this gush reads format 1"));
    assert!(refused(&"a=[".repeat(10_000)).len() < 1000);
}

#[test]
fn a_rule_without_sense_is_left_out_alone() {
    let profile = read(
        "[[rule]]\nsource = 'pipe'\ntarget = 'socket'\nmethods = ['rsync']\n\
         [[rule]]\nsource = 'terminal'\ntarget = 'pipe'\n\
         [[rule]]\nsource = 'pipe'\ntarget = 'pipe'\nbuffer_bytes = -1\n\
         [[rule]]\nsource = 'pipe'\ntarget = 'pipe'\ncolour = 'red'\n\
         [[rule]]\nsource = 'file'\ntarget = 'file'\nmethods = ['sendfile']\n\
         [[rule]]\nsource = 'file'\ntarget = 'pipe'\nsource_file_system = 'nfs'\n\
         [[rule]]\nsource = 'pipe'\ntarget = 'pipe'\npipe_bytes = 65536\n",
    );
    assert_eq!(profile.rules.len(), 1, "{:?}", profile.notes());
    let notes = profile.notes().join("\n");
    assert_eq!(profile.notes().len(), 6, "{notes}");
    for told in [
        "rule 1 left out: unknown method 'rsync'",
        "rule 2 left out: unknown endpoint 'terminal'",
        "rule 3 left out: ",
        "unknown field `colour`",
        "from file to file it must name both file systems",
        "no rule can be made for the file system \"nfs\"",
    ] {
        assert!(notes.contains(told), "{told:?} is missing in\n{notes}");
    }
}

#[test]
fn absurd_sizes_are_clamped_and_told() {
    let profile = read(
        "[[rule]]\nsource = 'pipe'\ntarget = 'pipe'\nbuffer_bytes = 9223372036854775807\n\
         pipe_bytes = 1\nthreads = 100000\nspin_us = 60000000\n",
    );
    assert_eq!(
        profile.notes(),
        [
            "rule 1: buffer_bytes = 9223372036854775807 is taken as 4194304",
            "rule 1: pipe_bytes = 1 is taken as 4096",
            "rule 1: threads = 100000 is taken as 64",
            "rule 1: spin_us = 60000000 is taken as 1000",
        ]
    );
    assert_eq!(
        profile.rules[0].to_string(),
        "rule 1, pipe to pipe: buffer 4096 KiB, pipe 4 KiB, threads 64, spin 1000 us"
    );
}

#[test]
fn a_missing_profile_is_no_matter_an_odd_one_is() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(Profile::load(&dir.path().join("none.toml")).is_none());
    let directory = Profile::load(dir.path()).expect("something");
    assert!(directory.is_empty() && directory.notes()[0].contains("is not used: it is no regular"));
    let endless = Profile::load(Path::new("/dev/zero")).expect("something");
    assert!(endless.notes()[0].ends_with("is not used: it is no regular file"));
    let long = dir.path().join("long.toml");
    std::fs::write(&long, vec![b' '; 300 << 10]).expect("a file");
    assert!(Profile::load(&long).expect("something").notes()[0].contains("longer than 262144"));
    let binary = dir.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe]).expect("a file");
    assert!(Profile::load(&binary).expect("something").is_empty());
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a FIFO");
    assert!(Profile::load(&fifo).expect("something, at once").is_empty());
}
