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
fn every_kind_of_memory_has_its_cost() {
    if !can_lend() {
        return skipped("vmsplice is denied: nothing lends pages");
    }
    let output = lab(&["--json", "--rounds", "2", "--bytes", "64M"]);
    let samples = crate::samples(&output);
    for (name, memory, page) in [
        ("touched-4K", "touched", 4096),
        ("untouched-4K", "untouched", 4096),
        ("touched-2M", "touched", 2 << 20),
        ("untouched-2M", "untouched", 2 << 20),
    ] {
        for round in [1, 2] {
            let own = samples.iter().find(|one| one["case"] == name && one["round"] == round);
            let Some(one) = own else {
                let said = text(&output.stderr);
                let reasons = ["huge pages came: see ", "no memory of that kind"];
                let is_explained = reasons.iter().any(|why| said.contains(why));
                assert!(page != 4096 && is_explained, "{name}: {said}");
                crate::common::not_applicable(&format!("no huge pages: {said}"));
                continue;
            };
            let facts = &one["facts"];
            assert_eq!((&facts["memory"], &facts["page_bytes"]), (&memory.into(), &page.into()));
            assert_eq!(one["bytes"], 67_108_864);
            let [cost, drop] =
                ["ns_per_page", "drop_ns_per_page"].map(|cost| facts[cost].as_f64().unwrap());
            assert!(cost > 0.0 && drop > 0.0, "{one}");
            // The speed and the cost are one figure in two units.
            let gib_per_s = 4096.0 / cost * 1e9 / f64::from(1 << 30);
            assert!((gib_per_s / one["gib_per_s"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{one}");
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
    let reported = "touched-4K: vmsplice is refused here: Operation not permitted";
    assert!(text(&output.stderr).contains(reported), "{output:?}");
}
