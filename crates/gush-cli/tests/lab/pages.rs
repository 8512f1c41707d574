//! `gush lab pages`: costs of touched and untouched, small and huge pages.

use std::process::Output;

use crate::common::{gush, skipped};

fn lab(options: &[&str]) -> Output {
    gush().args(["lab", "pages", "--no-store"]).args(options).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn can_lend() -> bool {
    !matches!(gush::Kernel::get().vmsplice(), gush::Vmsplice::Absent(_))
}

#[test]
fn csv_has_the_cost_of_every_kind_of_memory() {
    if !can_lend() {
        return skipped("vmsplice is denied: nothing lends pages");
    }
    let output = lab(&["--csv", "--rounds", "2", "--bytes", "64M"]);
    let text = text(&output.stdout);
    let mut lines = text.lines();
    let columns = "case,memory,page_bytes,round,gib_per_s,ns_per_page,drop_ns_per_page,bytes";
    assert_eq!(lines.next(), Some(columns));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    for (name, memory, page) in [
        ("touched-4K", "touched", "4096"),
        ("untouched-4K", "untouched", "4096"),
        ("touched-2M", "touched", "2097152"),
        ("untouched-2M", "untouched", "2097152"),
    ] {
        for round in ["1", "2"] {
            let own = rows.iter().find(|row| (row[0], row[3]) == (name, round));
            let Some(row) = own else {
                let told = self::text(&output.stderr);
                let is_told = ["huge pages came: see ", "no memory of that kind"];
                let is_told = is_told.iter().any(|why| told.contains(why));
                assert!(page != "4096" && is_told, "{name}: {told}");
                crate::common::not_applicable(&format!("no huge pages: {told}"));
                continue;
            };
            assert_eq!((row[1], row[2], row[7]), (memory, page, "67108864"));
            let figure = |at: usize| row[at].parse::<f64>().unwrap();
            assert!(figure(5) > 0.0 && figure(6) > 0.0, "{row:?}");
            // The two columns are one figure in two units.
            let gib_per_s = 4096.0 / figure(5) * 1e9 / f64::from(1 << 30);
            assert!((gib_per_s / figure(4) - 1.0).abs() < 1e-3, "{row:?}");
        }
    }
}

#[test]
fn the_kernels_own_test_is_used_or_said_to_be_missing() {
    let all = lab(&["--rounds", "1", "--bytes", "1M"]);
    let named = lab(&["--rounds", "1", "--bytes", "1M", "--only", "gup-test-4K"]);
    if std::fs::File::open("/sys/kernel/debug/gup_test").is_ok() {
        assert!(named.status.success() && text(&named.stdout).contains("gup-test-4K"), "{named:?}");
        return;
    }
    assert!(text(&all.stderr).contains("gup-test-4K and gup-test-2M are left out: "), "{all:?}");
    assert_eq!(named.status.code(), Some(1));
    assert!(text(&named.stderr).contains("CONFIG_GUP_TEST"), "{named:?}");
}

#[test]
fn denied_vmsplice_is_reported() {
    const VMSPLICE: &str = "278";
    let dir = tempfile::tempdir().unwrap();
    let deny = match crate::common::denier(dir.path()) {
        Ok(deny) => deny,
        Err(why) => return skipped(&why),
    };
    let output = std::process::Command::new(deny)
        .args(["1", VMSPLICE, env!("CARGO_BIN_EXE_gush"), "lab", "pages", "--no-store"])
        .args(["--rounds", "1", "--bytes", "1M", "--only", "touched-4K"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = "touched-4K: vmsplice is refused here: Operation not permitted";
    assert!(text(&output.stderr).contains(told), "{output:?}");
}
