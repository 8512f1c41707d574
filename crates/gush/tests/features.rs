//! What a program compiles that depends on the engine: by default little, and each feature what it needs.

use std::process::Command;

use gush_test as _;

/// The packages that the engine is built with, its own name left out; none where cargo cannot say.
fn packages(features: &str) -> Option<Vec<String>> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "gush", "--edges", "normal", "--prefix", "none"])
        .args(["--no-default-features", "--features", features, "--format", "{lib}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    if !out.status.success() {
        gush_test::skipped(&format!("cargo tree: {}", String::from_utf8_lossy(&out.stderr)));
        return None;
    }
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Some(text.lines().map(|line| line.trim().to_owned()).filter(|name| name != "gush").collect())
}

const OPTIONAL: [(&str, &[&str]); 3] =
    [("uring", &["io_uring"]), ("digest", &["blake3"]), ("profile", &["serde", "toml"])];

#[test]
fn whoever_asks_for_no_feature_compiles_none_of_their_packages() {
    let Some(packages) = packages("") else { return };
    assert!(packages.iter().any(|name| name == "rustix"), "{packages:?}");
    for (_, names) in OPTIONAL {
        for name in names {
            assert!(!packages.iter().any(|known| known == name), "{name}: {packages:?}");
        }
    }
}

#[test]
fn each_feature_brings_its_own_packages_only() {
    for (feature, _) in OPTIONAL {
        let Some(packages) = packages(feature) else { return };
        for (other, names) in OPTIONAL {
            for name in names {
                let is_there = packages.iter().any(|known| known == name);
                assert_eq!(is_there, other == feature, "{feature}, {name}: {packages:?}");
            }
        }
    }
}
