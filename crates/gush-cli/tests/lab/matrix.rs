//! `gush lab matrix`: the ways that work on every pair of ends, really tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::{gush, skipped};
use tempfile::TempDir;

fn matrix(options: &[&str]) -> Output {
    gush().args(["lab", "matrix"]).args(options).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The samples by method, source and target: the values of works, errno and speed.
fn rows(output: &Output) -> BTreeMap<[String; 3], (bool, String, Option<f64>)> {
    let row = |sample: &serde_json::Value| {
        let facts = &sample["facts"];
        let text = |name: &str| facts[name].as_str().expect(name).to_owned();
        let works = facts["works"].as_bool().expect("whether it works");
        let key = ["method", "source", "target"].map(text);
        (key, (works, text("errno"), sample["gib_per_s"].as_f64()))
    };
    crate::samples(output).iter().map(row).collect()
}

fn can_lend() -> bool {
    !matches!(gush::Kernel::get().vmsplice(), gush::Vmsplice::Absent(_))
}

#[test]
fn five_ways_on_four_pairs_come_out_as_on_linux_6_18() {
    if !can_lend() {
        return skipped("vmsplice is denied: its row cannot be compared");
    }
    let output = matrix(&["--five-ways"]);
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    let row = |name: &str| {
        let line =
            text.lines().find(|line| line.split_whitespace().next() == Some(name)).expect(name);
        line.split_whitespace().skip(1).filter(|word| ["✓", "–"].contains(word)).collect::<String>()
    };
    assert_eq!(row("read-write"), "✓✓✓✓✓✓✓✓", "{text}");
    assert_eq!(row("sendfile"), "–✓✓✓––––", "{text}");
    assert_eq!(row("splice-direct"), "––––––––", "{text}");
    assert_eq!(row("splice"), "✓✓✓✓–✓–✓", "{text}");
    assert_eq!(row("vmsplice"), "✓✓✓✓✓✓✓✓", "{text}");
}

#[test]
fn every_method_meets_every_pair_and_nothing_is_lost_hangs_or_dies() {
    let output = matrix(&["--json"]);
    assert!(output.status.success(), "{output:?}");
    let rows = rows(&output);
    let column = |at: usize| rows.keys().map(|key| key[at].as_str()).collect::<BTreeSet<_>>();
    let methods = column(0);
    assert!(gush::MethodName::ALL.iter().all(|name| methods.contains(name.as_str())));
    assert!(methods.contains("splice-direct"));
    let both = [
        "append",
        "direct",
        "procfs",
        "memfd",
        "pipe",
        "fifo",
        "tcp",
        "unix-stream",
        "unix-datagram",
        "udp",
        "pty",
        "zero",
        "null",
        "full",
    ];
    for name in both {
        if name != "direct" || column(1).contains(name) {
            assert!(column(1).contains(name) && column(2).contains(name), "{name}");
        }
    }
    assert_eq!(rows.len(), methods.len() * column(1).len() * column(2).len());
    for (cell, (works, errno, speed)) in &rows {
        let [method, source, target] = cell.each_ref().map(String::as_str);
        assert!(!["wrong", "hangs", "absent"].contains(&errno.as_str()), "{cell:?}: {errno}");
        assert_eq!(*works, errno.is_empty(), "{cell:?}");
        assert_eq!(*speed, None, "{cell:?}");
        if method == "read-write" {
            let expected = if target == "full" && source != "null" { "ENOSPC" } else { "" };
            assert_eq!(errno, expected, "{cell:?}");
        }
        if method == "splice-direct"
            && ![source, target].iter().any(|end| ["pipe", "fifo"].contains(end))
        {
            assert_eq!(errno, "EINVAL", "{cell:?}");
        }
    }
}

#[test]
fn a_grid_shows_that_a_filter_denies_splice() {
    let dir = TempDir::new().unwrap();
    let deny = match crate::common::denier(dir.path()) {
        Ok(deny) => deny,
        Err(why) => return skipped(&why),
    };
    const SPLICE: &str = "275";
    const EPERM: &str = "1";
    let output = Command::new(deny)
        .args([
            EPERM,
            SPLICE,
            env!("CARGO_BIN_EXE_gush"),
            "lab",
            "matrix",
            "--no-store",
            "--only",
            "splice,read-write",
        ])
        .args(["--pairs", "pipe:tcp"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    assert!(text.contains("  pipe          –\n  – EPERM: 1\n"), "{text}");
}

#[test]
fn speed_is_measured_where_it_works() {
    let options =
        ["--only", "read-write,splice-direct", "--pairs", "tcp:tcp,tmpfs:tcp,null:tcp,udp:tcp"];
    let timed =
        |more: &[&str]| matrix(&[&options[..], &["--speed", "--bytes", "2M"], more].concat());
    let rows = rows(&timed(&["--json"]));
    assert_eq!(rows.len(), 8);
    for ([method, source, _], (works, _, speed)) in &rows {
        assert_eq!(*works, method == "read-write", "{method} {source}");
        // Nothing comes out of null, and UDP would lose what it is sent.
        let is_timed = *works && source != "null" && source != "udp";
        let shows_speed = speed.is_some_and(|speed| speed > 0.0);
        assert_eq!(shows_speed, is_timed, "{method} {source} {speed:?}");
    }
    let table = text(&timed(&[]).stdout);
    assert!(
        table.contains("elapsed s") && table.contains("user s") && table.contains("system s"),
        "{table}"
    );
    assert!(
        table.lines().any(|line| line.contains("socket→socket") && line.contains('%')),
        "{table}"
    );
}

#[test]
fn an_unprivileged_user_sees_what_is_left_out_and_why() {
    let nobody = match crate::common::nobody() {
        Ok(nobody) => nobody,
        Err(why) => return skipped(&why),
    };
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let program = crate::common::copied_gush(dir.path());
    let tried = |pairs: &str| {
        let options = ["lab", "matrix", "--no-store", "--only", "read-write", "--pairs", pairs];
        let mut command = Command::new(&program);
        command.args(options).uid(nobody).gid(nobody).current_dir("/").output().unwrap()
    };
    let missing = ["xfs", "btrfs"].into_iter().find(|name| {
        !fs::read_to_string("/proc/self/mounts").unwrap().contains(&format!(" {name} "))
    });
    let Some(missing) = missing else {
        return crate::common::not_applicable("xfs and btrfs are both mounted");
    };
    let output = tried(&format!("{missing}:pipe,tcp:pipe"));
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains(missing)
            && said.contains("left out: none is mounted where this user may write"),
        "{said}"
    );
    assert!(said.contains("  tcp           ✓"), "{said}");
    let alone = tried(&format!("{missing}:pipe"));
    assert_eq!(alone.status.code(), Some(1));
    let said = text(&alone.stderr);
    assert!(
        said.contains(&format!("leave no cell to be tried: no {missing}: none is mounted")),
        "{said}"
    );
}

#[test]
fn a_network_without_loopback_is_reported_and_the_rest_goes_on() {
    let own_network = Command::new("unshare").args(["--net", "true"]).output();
    if !own_network.as_ref().is_ok_and(|output| output.status.success()) {
        return skipped(&format!("no network of one's own: {own_network:?}"));
    }
    let mut matrix = gush();
    matrix.args(["lab", "matrix", "--no-store", "--only", "read-write"]);
    matrix.args(["--pairs", "tcp:pipe,udp:pipe,unix-stream:pipe"]);
    let output = crate::common::within(&["unshare", "--net"], &matrix).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("Ends that could not be had") && said.contains("no tcp: "), "{said}");
    assert!(said.contains("  unix-stream   ✓"), "{said}");
}

/// `script` in a new mount namespace, where `DIR` is a full tmpfs for temporary files.
fn with_full_temporary_files(options: &str) -> Option<Output> {
    let dir = TempDir::new().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k none m && cat /dev/zero >m/x 2>/dev/null; \
         TMPDIR=$PWD/m exec \"$G\" lab matrix --no-store {options}"
    );
    crate::common::cp::with_mounts(dir.path(), &script)
}

#[test]
fn a_full_place_for_temporary_files_is_passed_over() {
    let options = "--json --only sendfile --pairs 'zero:tmpfs,fifo:append,direct:fifo,append:tcp'";
    let Some(output) = with_full_temporary_files(options) else { return };
    assert!(output.status.success(), "{output:?}");
    let wrong: Vec<_> = rows(&output)
        .into_iter()
        .filter(|(_, (_, errno, _))| ["ENOSPC", "absent"].contains(&errno.as_str()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn ends_that_cannot_be_had_for_one_reason_are_reported_in_one_line() {
    let output = gush()
        .args(["lab", "matrix", "--no-store", "--only", "read-write", "--pairs", "fifo:*"])
        .env("TMPDIR", "/no/such/directory")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.lines().filter(|line| line.contains("no fifo")).count() <= 1, "{said}");
    assert!(!said.contains("/.tmp") && !said.contains(".gush-lab-"), "{said}");
}

#[test]
fn nothing_is_left() {
    let dir = TempDir::new().unwrap();
    let output = gush()
        .args(["lab", "matrix", "--only", "read-write", "--pairs", "*:fifo,fifo:*"])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    for (options, reported) in [
        (["--only", "teleport"], "unknown method 'teleport'; choose from reflink, copy-file-range"),
        (["--pairs", "pipe"], "'pipe' is not a pair: write SOURCE:TARGET"),
        (["--pairs", "modem:tcp"], "unknown kind of end 'modem'; choose from file, ext4"),
        (["--pairs", "tcp:procfs-seq"], "procfs-seq can be no target"),
        (["--bytes", "1M"], "--speed"),
        (["--bytes=0", "--speed"], "must be more than zero"),
        (["--five-ways", "--only=direct"], "leave no cell to be tried"),
    ] {
        let output = matrix(&options);
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        let said = text(&output.stderr);
        assert!(said.contains(reported) && output.stdout.is_empty(), "{options:?}: {said}");
    }
}
