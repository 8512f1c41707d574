//! The documents are true as far as a program can check: paths exist, and floors are on the map.

use gush_test as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What a build makes, and where users put things.
const NOT_KEPT: &[&str] = &["target/"];

/// All documents but CHANGELOG.md, which also names files that are gone.
fn documents(root: &Path) -> Vec<PathBuf> {
    let entries = |place: &Path| -> Vec<PathBuf> {
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let mut places = vec![root.to_owned(), root.join("docs"), root.join("bench")];
    places.extend(["crates", "bindings"].iter().flat_map(|floor| entries(&root.join(floor))));
    let all = places.iter().filter(|place| place.is_dir()).flat_map(|place| entries(place));
    all.filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .filter(|path| !path.ends_with("CHANGELOG.md"))
        .collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Does this source link `gush-test`, directly or through a module of its tests' that is called
/// `common`?
fn links_gush_test(program: &Path) -> bool {
    let text = fs::read_to_string(program).unwrap();
    let tests = program.ancestors().find(|place| place.ends_with("tests"));
    let common = text.lines().filter_map(|line| {
        line.strip_prefix("mod ")?.strip_suffix(';').filter(|module| module.ends_with("common"))
    });
    text.contains("gush_test")
        || common
            .filter_map(|module| Some(tests?.join(module).join("mod.rs")))
            .any(|module| fs::read_to_string(&module).is_ok_and(|text| text.contains("gush_test")))
}

#[test]
fn every_test_program_links_gush_test() {
    let entries = |place: &Path| -> Vec<PathBuf> {
        let Ok(found) = fs::read_dir(place) else { return Vec::new() };
        found.map(|entry| entry.unwrap().path()).collect()
    };
    let (mut programs, mut without) = (0, Vec::new());
    for floor in entries(&repository().join("crates")) {
        let units = ["src/lib.rs", "src/main.rs"].map(|root| floor.join(root));
        let tests = entries(&floor.join("tests")).into_iter().map(|path| match path.is_dir() {
            true => path.join("main.rs"),
            false => path,
        });
        let own = floor.ends_with("gush-test");
        let is_program = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs");
        let programs_of = units.into_iter().chain(tests).filter(is_program);
        for program in programs_of.filter(|path| path.is_file() && !own) {
            programs += 1;
            if !links_gush_test(&program) {
                without.push(program);
            }
        }
    }
    assert!(programs > 60, "{programs} test programs were found");
    assert!(without.is_empty(), "{without:?}");
}

/// `a/{b,c}.rs` means `a/b.rs` and `a/c.rs`.
fn expanded(text: &str) -> Vec<String> {
    let Some((head, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let Some((list, tail)) = rest.split_once('}') else { return vec![text.to_owned()] };
    list.split(',').flat_map(|part| expanded(&format!("{head}{part}{tail}"))).collect()
}

/// Does a text between backticks name a file or directory of the repository?
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
    let ending = [".rs", ".md", ".py", ".sh", ".html", ".json", ".toml"];
    text.chars().all(plain)
        && !text.starts_with(['/', '-'])
        && (text.contains('/') || ending.iter().any(|ending| text.ends_with(ending)))
        && !NOT_KEPT.iter().any(|place| text.starts_with(place))
}

/// The paths of a document that nothing is found at, each with its line; and how many it names.
///
/// A path is one of the repository, of `crates/`, or of the crate that the section is about (its
/// `src/` may be left out there), or of a directory that the paragraph or row has named before. A
/// bare name is in the directory that was named last, or else in the section's crate or the root:
/// `mod.rs` and `options.rs` are found nearly everywhere.
fn missing(root: &Path, document: &str) -> (usize, Vec<String>) {
    let (mut seen, mut missing) = (0, Vec::new());
    let mut crates = vec!["gush".to_owned()];
    let mut named: Vec<PathBuf> = Vec::new();
    let mut fenced = false;
    for (number, line) in document.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if line.starts_with('#') {
            let about = line.split("crates/").skip(1).map(|rest| {
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
            });
            let about: Vec<String> = about.collect();
            crates = if about.is_empty() { crates } else { about };
        }
        if line.is_empty() || line.starts_with('|') {
            named.clear();
        }
        if fenced {
            continue;
        }
        for path in
            line.split('`').skip(1).step_by(2).filter(|text| is_path(text)).flat_map(expanded)
        {
            seen += 1;
            let is_bare = !path.contains('/');
            let own = crates.iter().map(|name| root.join("crates").join(name));
            let general = [root.to_owned(), root.join("crates")].into_iter();
            let general = general.chain(own.flat_map(|place| [place.join("src"), place]));
            let near = named.iter().rev().take(if is_bare { 1 } else { named.len() });
            let near = near.flat_map(|place| [place.join("src"), place.clone()]);
            let is_of_root = is_bare && !path.ends_with(".rs");
            let places: Vec<_> = match is_bare && !named.is_empty() {
                true => near.chain(is_of_root.then(|| root.to_owned())).collect(),
                false => general.chain(near).collect(),
            };
            let Some(found) =
                places.iter().map(|place| place.join(&path)).find(|path| path.exists())
            else {
                missing.push(format!("line {}: `{path}`", number + 1));
                continue;
            };
            named.extend(match found.is_dir() {
                true => Some(found),
                false => found.parent().map(Path::to_owned),
            });
        }
    }
    (seen, missing)
}

#[test]
fn every_path_that_a_document_names_exists() {
    let root = repository();
    let mut wrong = Vec::new();
    let documents = documents(&root);
    assert!(documents.len() > 20, "{documents:?}");
    let mut seen = 0;
    for path in documents {
        let (named, missing) = missing(&root, &fs::read_to_string(&path).unwrap());
        let name = path.strip_prefix(&root).unwrap().display();
        wrong.extend(missing.into_iter().map(|path| format!("{name}, {path}")));
        seen += named;
    }
    assert!(seen > 150, "{seen} paths: is this test looking at them?");
    assert!(wrong.is_empty(), "these paths do not exist:\n{}", wrong.join("\n"));
}

#[test]
fn a_path_that_does_not_exist_is_found_out() {
    let text = "## crates/gush, room by room\n`mover/cursor.rs`, `drive.rs`, `nowhere.rs`, `lib.rs`, `a word`\n\n\
                `job.rs` and `gush-cli/cp/mod.rs`, `sys/{file,nothing}.rs`\n\n\
                `gush-cli/src/pv/mod.rs`, `args.rs`, `lib.rs`, `README.md`\n\
                `gush-tree/`, `lib.rs`, `pv.rs`";
    let (seen, missing) = missing(&repository(), text);
    let expected = [
        "line 2: `nowhere.rs`",
        "line 2: `lib.rs`",
        "line 4: `job.rs`",
        "line 4: `gush-cli/cp/mod.rs`",
        "line 4: `sys/nothing.rs`",
        // It is in the section's crate, and not next to the file named before.
        "line 6: `lib.rs`",
        "line 7: `pv.rs`",
    ];
    assert_eq!((seen, missing), (15, expected.map(str::to_owned).to_vec()));
}

#[test]
fn every_crate_is_on_the_map() {
    let root = repository();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let map = text.split("```text").nth(1).unwrap().split("```").next().unwrap();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let krate = entry.unwrap().file_name().into_string().unwrap();
        let on_it = map.lines().any(|line| line.split_whitespace().next() == Some(&krate));
        assert!(on_it, "no {krate} on the map");
    }
}

/// The numbers of the comment lines that are too long to read side by side. Tables and examples
/// cannot be wrapped.
fn long_comments(text: &str) -> Vec<usize> {
    let mut is_example = false;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let said = line.trim_start().strip_prefix("//");
        let said = said.map(|said| said.trim_start_matches(['/', '!']).trim_start());
        is_example ^= said.is_some_and(|said| said.starts_with("```"));
        let can_wrap = said.is_some_and(|said| !is_example && !said.starts_with('|'));
        can_wrap && line.chars().count() > 100
    });
    lines.map(|(at, _)| at + 1).collect()
}

fn sources(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

#[test]
fn comments_have_at_most_100_columns() {
    let all = sources(&repository().join("crates"));
    assert!(all.len() > 500, "{} sources were found", all.len());
    let long = all.iter().flat_map(|path| {
        let lines = long_comments(&fs::read_to_string(path).unwrap());
        lines.into_iter().map(move |line| format!("{}:{line}", path.display()))
    });
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn a_long_comment_is_found_out() {
    let long = "x".repeat(100);
    let text = format!(
        "// {long}\n//! | {long} |\n/// ```\n/// {long}\n/// ```\n    /// {long}\nlet x = \"{long}\";"
    );
    assert_eq!(long_comments(&text), [1, 6]);
}
