//! `gush doctor`: facts, consequences and remedies, found out by doing, and nothing touched.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{gush, skipped};
use serde_json::Value;
use tempfile::TempDir;

fn doctor(words: &[&Path]) -> Output {
    gush().arg("doctor").args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The finding of a topic in a list of them.
fn finding<'a>(findings: &'a Value, topic: &str) -> &'a Value {
    let all = findings.as_array().unwrap();
    all.iter()
        .find(|finding| finding["topic"] == topic)
        .unwrap_or_else(|| panic!("no {topic}: {findings}"))
}

/// Keys and types of some JSON, a line each; a value that may be null or text is marked so, and
/// topics are named.
fn shape(value: &Value, at: &str, lines: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if at == ".machine.facts" {
                    // Which facts there are is the machine's affair.
                    lines.insert(format!("{at}.NAME: text"));
                } else if key == "topic" {
                    lines.insert(format!("{at}.topic = {}", value.as_str().unwrap()));
                } else {
                    shape(value, &format!("{at}.{key}"), lines);
                }
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| shape(value, &format!("{at}[]"), lines))
        }
        value => {
            let kind = match value {
                Value::Null | Value::String(_) if at.ends_with(".remedy") => "text or null",
                Value::String(_) if at.ends_with(".state") => "fine, limited, absent or unknown",
                Value::String(_) => "text",
                Value::Number(_) => "number",
                Value::Bool(_) => "true or false",
                _ => "null",
            };
            lines.insert(format!("{at}: {kind}"));
        }
    }
}

#[test]
fn the_json_has_the_form_that_was_agreed_on() {
    let dir = TempDir::new().unwrap();
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return skipped("there is no /dev/shm to pair with");
    }
    let output = doctor(&[dir.path(), shm, Path::new("--json")]);
    assert!(output.status.success(), "{output:?}");
    let found = json(&output);
    assert_eq!(found["schema"], 1);
    let mut lines = BTreeSet::new();
    shape(&found, "", &mut lines);
    let shown: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/doctor-json.txt");
    if std::env::var_os("GUSH_BLESS").is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let agreed = fs::read_to_string(&path).unwrap_or_default();
    assert!(shown == agreed, "{} differs:\n{shown}", path.display());
    let states = ["fine", "limited", "absent", "unknown"];
    for finding in found["findings"].as_array().unwrap() {
        assert!(states.contains(&finding["state"].as_str().unwrap()), "{finding}");
        assert!(!finding["fact"].as_str().unwrap().is_empty(), "{finding}");
        assert!(!finding["consequence"].as_str().unwrap().is_empty(), "{finding}");
    }
}

#[test]
fn what_doctor_prints_of_the_machine_is_what_a_run_keeps() {
    let dir = TempDir::new().unwrap();
    let doctor = json(&gush().args(["doctor", "--json"]).output().unwrap());
    let run = ["lab", "memory", "--rounds", "1", "--only", "read-1", "--bytes", "1M", "--json"];
    let run = gush().args(run).args(["--no-store"]).current_dir(dir.path()).output().unwrap();
    let run = json(&run);
    assert_eq!(doctor["machine"]["id"], run["runs"][0]["machine"]["id"]);
    for fact in ["kernel", "processors", "processors_allowed", "memory"] {
        let [one, other] =
            [&doctor["machine"], &run["runs"][0]["machine"]].map(|of| &of["facts"][fact]);
        assert_eq!(one, other, "{fact}");
    }
}

#[test]
fn without_paths_it_looks_at_the_current_directory() {
    let dir = TempDir::new().unwrap();
    let output = gush().arg("doctor").current_dir(dir.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let said = text(&output.stdout);
    for topic in [
        "pipe-pages",
        "huge-pages",
        "vmsplice",
        "vmsplice-fifo",
        "pipe-output",
        "tcp-congestion",
        "seccomp",
        "perf",
        "\n.\n",
        "file-pages",
        "direct",
        "holes",
    ] {
        assert!(said.contains(topic), "{topic}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn two_file_systems_share_nothing_and_one_may() {
    let dir = TempDir::new().unwrap();
    let shm = Path::new("/dev/shm");
    let device = |path: &Path| {
        fs::metadata(path).map(|about| std::os::unix::fs::MetadataExt::dev(&about)).ok()
    };
    if device(shm).is_none() || device(shm) == device(dir.path()) {
        return skipped("there is no second file system at /dev/shm");
    }
    let found = json(&doctor(&[dir.path(), shm, Path::new("--json")]));
    let pairs = found["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    for pair in pairs {
        for topic in ["reflink", "copy-file-range"] {
            let finding = finding(&pair["findings"], topic);
            assert_eq!(finding["state"], "absent", "{finding}");
            assert!(finding["fact"].as_str().unwrap().contains("EXDEV"), "{finding}");
            assert!(finding["remedy"].as_str().unwrap().contains("one file system"), "{finding}");
        }
    }
    for path in found["paths"].as_array().unwrap() {
        assert_eq!(finding(&path["findings"], "copy-file-range")["state"], "fine", "{path}");
    }
}

#[test]
fn a_missing_path_is_a_sentence_and_the_exit_status_says_so() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let output = doctor(&[dir.path(), &missing]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("it cannot be looked at: No such file or directory"), "{said}");
    assert!(said.contains("+ check the name"), "{said}");
    let found = json(&doctor(&[&missing, Path::new("--json")]));
    assert_eq!(found["paths"][0]["usable"], false);
    assert_eq!(found["pairs"].as_array().unwrap().len(), 0);
}

#[test]
fn nothing_is_written_and_nothing_left() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, vec![7; 100_000]).unwrap();
    let state = || {
        let about = fs::metadata(&file).unwrap();
        (about.modified().unwrap(), about.permissions(), fs::read(&file).unwrap())
    };
    let before = state();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let output = doctor(&[dir.path(), &file, &fifo, Path::new("/dev/null")]);
    assert!(output.status.success(), "{output:?}");
    assert!(state() == before);
    let names: BTreeSet<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, BTreeSet::from(["fifo".into(), "file".into()]));
    assert!(text(&output.stdout).contains("it is a FIFO, no file"), "{output:?}");
}

#[test]
fn denied_calls_are_reported_with_the_filter_that_denies_them() {
    let dir = TempDir::new().unwrap();
    let deny = match crate::common::denier(dir.path()) {
        Ok(deny) => deny,
        Err(why) => return skipped(&why),
    };
    /// A topic of the doctor, and the number of the call that it is about.
    const CALLS: [(&str, &str); 9] = [
        ("sendfile", "40"),
        ("splice", "275"),
        ("tee", "276"),
        ("vmsplice", "278"),
        ("copy-file-range", "326"),
        ("preadv2", "327"),
        ("pwritev2", "328"),
        ("io-uring", "425"),
        ("openat2", "437"),
    ];
    let all = CALLS.map(|(_, number)| number).join(",");
    for (errno, name) in [("1", "EPERM"), ("38", "ENOSYS")] {
        for (denied, calls) in CALLS.into_iter().chain([("all", all.as_str())]) {
            let output = Command::new(&deny)
                .args([errno, calls, env!("CARGO_BIN_EXE_gush"), "doctor", "--json"])
                .arg(dir.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            let found = json(&output);
            for (topic, _) in CALLS {
                let finding = finding(&found["findings"], topic);
                let fact = finding["fact"].as_str().unwrap_or_default();
                if denied != "all" && denied != topic {
                    assert!(!fact.contains(name), "{denied}: {finding}");
                    continue;
                }
                assert_eq!(finding["state"], "absent", "{denied} {topic}: {finding}");
                assert!(fact.contains(name), "{finding}");
                let remedy = finding["remedy"].as_str().unwrap();
                assert!(remedy.contains("filter of system calls"), "{finding}");
            }
            assert_eq!(finding(&found["findings"], "seccomp")["state"], "limited");
            let of_path = finding(&found["paths"][0]["findings"], "copy-file-range");
            let is_denied = denied == "all" || denied == "copy-file-range";
            assert_eq!(of_path["state"] == "absent", is_denied, "{denied}: {of_path}");
        }
    }
}

/// Calls that have nothing to do with moving bytes may be denied just as well.
#[cfg(target_arch = "x86_64")]
#[test]
fn whatever_a_filter_denies_the_rest_is_reported() {
    let dir = TempDir::new().unwrap();
    let deny = match crate::common::denier(dir.path()) {
        Ok(deny) => deny,
        Err(why) => return skipped(&why),
    };
    /// ioctl, fallocate, statx, statfs, fstatfs, prlimit64, sysinfo, uname, mlock,
    /// sched_getaffinity, clone and clone3, pipe2, memfd_create, socketpair, faccessat2, unlink,
    /// getdents64.
    const CALLS: &[&str] = &[
        "16", "285", "332", "137", "138", "302", "99", "63", "149", "204", "56,435", "293", "319",
        "53", "439", "87", "217",
    ];
    for calls in CALLS {
        let mut denied = Command::new(&deny);
        denied.args(["1", calls, env!("CARGO_BIN_EXE_gush"), "doctor", "--json"]).arg(dir.path());
        let output = denied.output().unwrap();
        assert!(!text(&output.stderr).contains("panicked"), "{calls}: {output:?}");
        let found = json(&output);
        assert!(!finding(&found["findings"], "splice").is_null(), "{calls}");
    }
}

/// A copy of the program that anybody may run, as somebody without privileges.
fn as_nobody(dir: &Path) -> Command {
    const NOBODY: u32 = 65534;
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(crate::common::copied_gush(dir));
    command.arg("doctor").uid(NOBODY).gid(NOBODY).current_dir("/");
    command
}

#[test]
fn an_unprivileged_user_hears_what_is_read_only_and_what_profiling_needs() {
    if let Err(why) = crate::common::nobody() {
        return skipped(&why);
    }
    let dir = TempDir::new().unwrap();
    let [locked, readable] = ["locked", "readable"].map(|name| dir.path().join(name));
    for (path, mode) in [(&locked, 0o700), (&readable, 0o755)] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), "content").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let output =
        as_nobody(dir.path()).args(["--json".as_ref(), readable.as_os_str()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = json(&output);
    let access = finding(&found["paths"][0]["findings"], "access");
    assert_eq!(access["fact"], "it can be read, and not written");
    assert_eq!(access["consequence"], "it serves as source only");
    assert!(!access["remedy"].is_null());
    assert_eq!(finding(&found["paths"][0]["findings"], "holes")["state"], "unknown");
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().is_ok_and(|level| level >= 2) {
        let perf = finding(&found["findings"], "perf");
        assert_eq!(perf["state"], "absent", "{perf}");
        let fact = perf["fact"].as_str().unwrap();
        let level = format!("; kernel.perf_event_paranoid is {}", paranoid.trim());
        assert!(fact.len() > level.len() && fact.ends_with(&level), "{perf}");
        // perf may have a reason of its own, which nobody here knows a remedy for.
        let is_known = ["may not profile the kernel", "not installed", "not this kernel's"];
        if is_known.iter().any(|why| fact.contains(why)) {
            assert!(!perf["remedy"].is_null(), "{perf}");
        }
    }
    let output = as_nobody(dir.path()).args([&locked, &readable]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("it can neither be read nor written by this user"), "{said}");
    // Nothing is tried with what is closed to this user: the answer would be the same each time.
    let closed = said.split("/locked\n").nth(1).unwrap().split("/readable\n").next().unwrap();
    assert!(!closed.contains("cannot be tried") && !said.contains("→ /"), "{said}");
}

#[test]
fn a_read_only_mount_serves_as_source() {
    let dir = TempDir::new().unwrap();
    let script = "mount -t tmpfs none m && echo content >m/file && mount -o remount,ro m && \
                  exec \"$G\" doctor --json m /dev/shm";
    let Some(output) = crate::common::cp::with_mounts(dir.path(), script) else { return };
    assert!(output.status.success(), "{output:?}");
    let found = json(&output);
    let own = &found["paths"][0];
    assert_eq!(own["usable"], true);
    assert_eq!(finding(&own["findings"], "access")["consequence"], "it serves as source only");
    assert_eq!(finding(&own["findings"], "space")["fact"], "it is mounted read-only");
    assert!(
        finding(&own["findings"], "file-system")["fact"].as_str().unwrap().starts_with("tmpfs")
    );
    let from = finding(&found["pairs"][0]["findings"], "copy-file-range");
    assert!(from["fact"].as_str().unwrap().contains("EXDEV"), "{from}");
    let to = finding(&found["pairs"][1]["findings"], "copy-file-range");
    assert_eq!(to["state"], "unknown", "{to}");
    assert!(to["fact"].as_str().unwrap().contains("Read-only file system"), "{to}");
}

#[test]
fn few_descriptors_are_reported_and_are_no_failure() {
    let script = "ulimit -n 12; exec \"$0\" doctor --json";
    let shell = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_gush")]).output();
    let output = shell.unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = json(&output);
    let descriptors = finding(&found["findings"], "descriptors");
    assert_eq!(descriptors["state"], "limited", "{descriptors}");
    assert!(descriptors["remedy"].as_str().unwrap().contains("ulimit -n"), "{descriptors}");
}

/// Every network namespace has a congestion control of its own, and may have reno.
#[test]
fn the_congestion_control_of_the_network_namespace_is_reported() {
    const CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    let script = format!("echo reno >{CONTROL} && exec \"$0\" doctor --json");
    let mut inside = Command::new("unshare");
    inside.args(["--net", "sh", "-c", &script, env!("CARGO_BIN_EXE_gush")]);
    let congestion = |output: &Output| finding(&json(output)["findings"], "tcp-congestion").clone();
    match inside.output() {
        Ok(output) if output.status.success() => {
            let control = congestion(&output);
            assert_eq!(control["state"], "fine", "{control}");
            assert!(control["fact"].as_str().unwrap().contains("with reno ("), "{control}");
        }
        refused => skipped(&format!("no network namespace can be made: {refused:?}")),
    }
    let own = congestion(&doctor(&[Path::new("--json")]));
    match fs::read_to_string(CONTROL) {
        Ok(name) => {
            assert!(own["fact"].as_str().unwrap().contains(&format!("with {}", name.trim())));
            assert_eq!(own["state"] == "limited", name.starts_with("bbr"), "{own}");
        }
        Err(_) => assert_eq!(own["state"], "unknown", "{own}"),
    }
}

/// A user of this test's own, who has no pipes but those made here.
const USER: u32 = 64_322;

#[test]
fn new_pipes_with_two_slots_are_reported() {
    if let Err(why) = crate::common::nobody() {
        return skipped(&why);
    }
    let limit = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap();
    let limit_bytes = limit.trim().parse::<usize>().unwrap() * rustix::param::page_size();
    if limit_bytes == 0 || limit_bytes > 256 << 20 {
        return crate::common::not_applicable("users may have more pages in pipes than a test has");
    }
    let held = std::thread::spawn(move || {
        let user = rustix::fs::Uid::from_raw(USER);
        // Of this thread alone: the kernel charges pages to the user of the thread that makes a
        // pipe.
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let mut pipes = Vec::new();
        for _ in 0..limit_bytes >> 20 {
            let (reader, writer) = std::io::pipe().unwrap();
            rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
            pipes.push((reader, writer));
        }
        pipes
    });
    let held = held.join().unwrap();
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let own = crate::common::copied_gush(dir.path());
    let pages = || {
        let mut doctor = Command::new(&own);
        doctor.uid(USER).gid(USER).args(["doctor", "--json"]).current_dir("/");
        finding(&json(&doctor.output().unwrap())["findings"], "pipe-pages").clone()
    };
    assert_eq!(pages()["state"], "limited", "{}", pages());
    drop(held);
    assert_eq!(pages()["state"], "fine", "{}", pages());
}
