//! `gush lab relay`: the cases, the CSV, and the message about a relay that cannot start.

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{gush, not_applicable};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn csv_has_a_row_for_every_case_and_round() {
    let output = gush()
        .args(["lab", "relay", "--csv", "--rounds", "2", "--bytes", "9M", "--no-store"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let header =
        "case,method,connections,round,gib_per_s,wall_s,user_s,system_s,cpu_s_per_gib,bytes";
    assert_eq!(lines.next(), Some(header));
    let mut rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    for round in ["1", "2"] {
        for (name, method, connections) in [
            ("link", "auto", "1"),
            ("read-write", "read-write", "1"),
            ("splice", "splice", "1"),
            ("link-many", "auto", "16"),
            ("read-write-many", "read-write", "16"),
            ("splice-many", "splice", "16"),
        ] {
            let place = rows.iter().position(|row| row[..4] == [name, method, connections, round]);
            let fields = rows.swap_remove(place.unwrap_or_else(|| panic!("{name}: {rows:?}")));
            assert!(fields[4].parse::<f64>().unwrap() > 0.0, "{name}");
            assert!(fields[8].parse::<f64>().unwrap() > 0.0, "{name} computed");
            assert_eq!(fields[9], (9 << 20).to_string());
        }
    }
    assert!(rows.is_empty(), "{rows:?}");
}

#[test]
fn a_case_that_nobody_knows_is_refused_with_those_that_there_are() {
    let output = gush().args(["lab", "relay", "--only", "sockmap"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("sockmap") && said.contains("splice-many"), "{said}");
}

/// `gush lab relay`, and the process of its relay.
fn running() -> (Child, i32) {
    let mut lab = gush()
        .args(["lab", "relay", "--only", "link", "--rounds", "1", "--bytes", "64G", "--no-store"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", lab.id());
    let is_relay = |pid: &&str| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("tcp-listen:")
    };
    loop {
        let listed = fs::read_to_string(&children).unwrap();
        if let Some(relay) = listed.split_whitespace().find(is_relay) {
            return (lab, relay.parse().unwrap());
        }
        assert!(lab.try_wait().unwrap().is_none(), "the lab ended without a relay");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_relay_is_pinned_and_the_run_keeps_the_processors() {
    let allowed = gush_lab::affinity::allowed().unwrap();
    let [first, second, ..] = allowed[..] else {
        return not_applicable("one processor cannot be told from another");
    };
    let (mut lab, relay) = running();
    let status = fs::read_to_string(format!("/proc/{relay}/status")).unwrap();
    lab.kill().unwrap();
    lab.wait().unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    assert_eq!(list.map(str::trim), Some(first.to_string().as_str()));
    let words = ["lab", "memory", "--only", "read-1", "--rounds", "1", "--bytes", "4M", "--json"];
    let output = gush().args(words).arg("--no-store").output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pinned = run["runs"][0]["machine"]["facts"]["pinned"].as_str().expect("the processors");
    let others: Vec<usize> = allowed[1..].to_vec();
    let (one, other) = pinned.split_once(" and ").expect("two of them");
    assert_eq!(one, first.to_string());
    assert!(others.contains(&other.parse().unwrap()), "{pinned}, {second} is one");
}

#[test]
fn no_relay_goes_on_after_its_lab_was_killed() {
    let (mut lab, relay) = running();
    lab.kill().unwrap();
    lab.wait().unwrap();
    let is_relay = || {
        let command = fs::read_to_string(format!("/proc/{relay}/cmdline")).unwrap_or_default();
        command.contains("tcp-listen:")
    };
    let begun = Instant::now();
    while is_relay() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it listens on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_relay_that_is_killed_fails_its_case_and_not_the_lab() {
    let (mut lab, relay) = running();
    // Starting takes less processor time.
    while computed_ticks(relay) < 5 {
        assert!(lab.try_wait().unwrap().is_none(), "the relay ended before it was killed");
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(relay).unwrap(), Signal::KILL).unwrap();
    let output = lab.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("link: the relay lost the stream: "), "{said}");
}

/// utime and stime, fields 14 and 15 of `/proc/PID/stat` (proc(5)).
fn computed_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}
