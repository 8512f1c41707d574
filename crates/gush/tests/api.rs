//! The public interface is small enough to be read in one sitting, and grows only on purpose.

use std::collections::BTreeSet;

use gush_test as _;

/// The names in the `pub use` statements of a module, and the functions declared there, apart from
/// those that the feature `unstable-flow` adds.
fn stable_items(source: &str, module: &str) -> BTreeSet<String> {
    const GATE: &str = "#[cfg(feature = \"unstable-flow\")]";
    let mut items = BTreeSet::new();
    let mut is_gated = false;
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(used) = line.strip_prefix("pub use ") {
            let mut used = used.to_owned();
            while !used.ends_with(';') {
                used += lines.next().expect("the end of the statement");
            }
            let names = used.rsplit_once("::").expect("a path").1;
            let names = names.trim_matches(['{', '}', ';']).split(',').map(str::trim);
            let named = names.filter(|name| !is_gated && !name.is_empty() && *name != "*");
            items.extend(named.map(|name| format!("{module}{name}")));
        } else if let Some(declared) = line.strip_prefix("pub fn ").filter(|_| !is_gated) {
            items.extend(declared.split(['(', '<']).next().map(|name| format!("{module}{name}")));
        }
        if !line.starts_with("#[") {
            is_gated = false;
        }
        is_gated |= line == GATE;
    }
    items
}

/// With the features `digest` and `faults`.
#[test]
fn the_public_items_are_those_of_the_list_and_at_most_60() {
    let mut items = stable_items(include_str!("../src/lib.rs"), "");
    items.extend(stable_items(include_str!("../src/pipe/mod.rs"), "pipe::"));
    let found: String = items.iter().map(|item| format!("{item}\n")).collect();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api.txt");
    if std::env::var_os("GUSH_BLESS").is_some() {
        std::fs::write(list, &found).expect("the list is written");
    }
    let listed = std::fs::read_to_string(list).expect("tests/api.txt");
    assert_eq!(found, listed, "GUSH_BLESS=1 cargo test -p gush --test api renews tests/api.txt");
    assert!(items.len() <= 60, "{} items", items.len());
}

#[test]
fn what_the_feature_adds_is_not_counted() {
    let source = "\
pub use one::{A, B};
#[cfg(feature = \"unstable-flow\")]
pub use two::C;
#[cfg(feature = \"digest\")]
pub use three::{
    D, E,
};
pub fn f(x: u8) {}
";
    let items: Vec<_> = stable_items(source, "m::").into_iter().collect();
    assert_eq!(items, ["m::A", "m::B", "m::D", "m::E", "m::f"]);
}
