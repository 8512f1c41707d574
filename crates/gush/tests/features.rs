//! The packages that a program compiles by depending on the engine: few by default, and those of
//! each feature.

use std::process::Command;

use gush_test as _;

/// The packages that the engine is built with by these arguments, the engine's own name left out;
/// none where cargo cannot say.
fn packages(choice: &[&str]) -> Option<Vec<String>> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "gush", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{lib}"])
        .args(choice)
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

const OPTIONAL: [(&str, &[&str]); 2] = [("uring", &["io_uring"]), ("digest", &["blake3"])];

#[test]
fn a_build_without_features_compiles_none_of_their_packages() {
    // A program that names no feature gets the default ones.
    let Some(packages) = packages(&[]) else { return };
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
        let chosen = ["--no-default-features", "--features", feature];
        let Some(packages) = packages(&chosen) else { return };
        for (other, names) in OPTIONAL {
            for name in names {
                let is_there = packages.iter().any(|known| known == name);
                assert_eq!(is_there, other == feature, "{feature}, {name}: {packages:?}");
            }
        }
    }
}
