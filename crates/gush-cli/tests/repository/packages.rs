//! The content of each crate's package: fields of the manifest, texts of the licences, and no
//! tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gush_test::skipped;
use serde_json::Value;
use tempfile::TempDir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Standard output of Cargo, which reads only the repository; nothing where no Cargo can be
/// started.
fn cargo(words: &[&str]) -> Option<String> {
    let home = TempDir::new().unwrap();
    let started = Command::new(env!("CARGO"))
        .args(words)
        .arg("--offline")
        .current_dir(repository())
        .env("CARGO_HOME", home.path())
        .output();
    let Ok(output) = started else {
        skipped("no Cargo here");
        return None;
    };
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Cargo's own account of the crates that are published.
fn published() -> Vec<Value> {
    let Some(reported) = cargo(&["metadata", "--no-deps", "--format-version", "1"]) else {
        return Vec::new();
    };
    let reported: Value = serde_json::from_str(&reported).unwrap();
    let all = reported["packages"].as_array().unwrap();
    let crates: Vec<Value> =
        all.iter().filter(|one| one["publish"].is_null()).map(Value::clone).collect();
    assert!(crates.len() >= 7, "{} crates are published", crates.len());
    crates
}

fn directory_of(one: &Value) -> PathBuf {
    Path::new(one["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

#[test]
fn every_published_crate_says_what_a_registry_asks_for() {
    for one in published() {
        let name = one["name"].as_str().unwrap();
        for field in ["description", "license", "rust_version", "readme"] {
            assert!(one[field].is_string(), "{name}: no {field}");
        }
        let keywords = one["keywords"].as_array().unwrap();
        assert!((1..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        assert!(keywords.iter().all(|word| word.as_str().unwrap().len() <= 20), "{name}");
        assert!(!one["categories"].as_array().unwrap().is_empty(), "{name}: no category");
        let docs = &one["metadata"]["docs"]["rs"];
        assert_eq!(docs["default-target"], "x86_64-unknown-linux-gnu", "{name}");
        // Nobody outside has a crate that is found by its path alone.
        for dependency in one["dependencies"].as_array().unwrap() {
            let for_tests = dependency["kind"] == "dev";
            let versioned = dependency["req"] != "*";
            assert!(for_tests || versioned, "{name}: {} has no version", dependency["name"]);
        }
    }
}

/// The address that cargo-binstall downloads ends with the name that `.ci/dist` gives a program.
#[test]
fn binstall_looks_for_the_programs_that_are_made_for_a_release() {
    let published = published();
    let Some(program) = published.iter().find(|one| one["name"] == "gush-cli") else { return };
    let binstall = &program["metadata"]["binstall"];
    assert_eq!(binstall["pkg-fmt"], "bin");
    let address = binstall["pkg-url"].as_str().unwrap();
    let script = fs::read_to_string(repository().join(".ci/dist")).unwrap();
    let made = "$dist/gush-$version-$target\"";
    assert!(script.contains(made) && script.contains("target=$1-unknown-linux-musl"));
    let made = made.replace("$target", "{ target-arch }-unknown-linux-musl");
    let file = made.replace("$dist", "").replace("$version", "{ version }").replace('"', "");
    assert!(address.starts_with("{ repo }/") && address.ends_with(&file), "{address}");
}

/// `.ci/packages` looks into the packages themselves.
#[test]
fn every_crate_brings_its_licences_and_its_readme_and_leaves_its_tests_out() {
    for one in published() {
        let name = one["name"].as_str().unwrap();
        let directory = directory_of(&one);
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let left_out = manifest["package"]["exclude"].as_array().unwrap();
        for own in ["tests/", "fuzz/"].into_iter().filter(|own| directory.join(own).exists()) {
            assert!(left_out.iter().any(|path| path.as_str() == Some(own)), "{name}: {own}");
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let packed = fs::read(directory.join(licence)).unwrap();
            assert_eq!(packed, fs::read(repository().join(licence)).unwrap(), "{name}: {licence}");
        }
        assert!(directory.join(one["readme"].as_str().unwrap()).is_file(), "{name}");
    }
}

/// A text compiled in has to be in the package as well.
#[test]
fn no_source_of_a_package_includes_a_file_from_outside() {
    let published = published();
    let lowest = if published.is_empty() { 0 } else { 4 };
    fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => sources(&entry, found),
                false if entry.extension().is_some_and(|ending| ending == "rs") => {
                    found.push(entry)
                }
                false => (),
            }
        }
    }
    let mut seen = 0;
    for one in published {
        let directory = directory_of(&one);
        let mut found = Vec::new();
        sources(&directory.join("src"), &mut found);
        for source in found {
            let text = fs::read_to_string(&source).unwrap();
            for call in ["include_str!(\"", "include_bytes!(\""] {
                for rest in text.split(call).skip(1) {
                    let path = source.parent().unwrap().join(rest.split('"').next().unwrap());
                    let path = path.canonicalize().unwrap();
                    assert!(path.starts_with(&directory), "{}: {path:?}", source.display());
                    assert!(!path.starts_with(directory.join("tests")), "{}", source.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= lowest, "{seen} included files were found");
}

#[test]
fn every_crate_refuses_another_system_with_one_sentence() {
    for one in published() {
        let name = one["name"].as_str().unwrap();
        let source = directory_of(&one).join("src");
        let root =
            [source.join("lib.rs"), source.join("main.rs")].into_iter().find(|root| root.exists());
        let text = fs::read_to_string(root.unwrap()).unwrap();
        let refusal = format!(
            "#[cfg(not(target_os = \"linux\"))]\ncompile_error!(\"{name} runs on Linux only\");\n"
        );
        assert!(text.contains(&refusal), "{name}");
    }
}

/// Cargo writes the locks of the bindings only where these are built, and `.ci/bindings` refuses an
/// old one.
#[test]
fn the_bindings_locks_know_every_dependency_of_the_crates() {
    let read =
        |path: PathBuf| -> toml::Table { fs::read_to_string(path).unwrap().parse().unwrap() };
    for binding in ["c", "python"] {
        let lock = read(repository().join("bindings").join(binding).join("Cargo.lock"));
        let mut ours = 0;
        for package in lock["package"].as_array().unwrap() {
            let name = package["name"].as_str().unwrap();
            let manifest = repository().join("crates").join(name).join("Cargo.toml");
            if package.get("source").is_some() || !manifest.exists() {
                continue;
            }
            ours += 1;
            // `name`, or `name version` where the lock has several versions.
            let locked: Vec<&str> = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|text| text.as_str()?.split(' ').next())
                .collect();
            for (dependency, how) in read(manifest)["dependencies"].as_table().unwrap() {
                let is_optional = how.get("optional").is_some_and(|is| is.as_bool() == Some(true));
                assert!(
                    is_optional || locked.contains(&dependency.as_str()),
                    "bindings/{binding}/Cargo.lock: {name} without {dependency}: cargo update --workspace there"
                );
            }
        }
        assert!(ours > 0, "bindings/{binding}/Cargo.lock names no crate of this repository");
    }
}
