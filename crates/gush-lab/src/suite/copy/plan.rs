//! Which ways are measured at which sizes, with which advice.

use gush::{Advice, MethodName, Space};

use super::case::What;
use super::ways::{By, WAYS, Way};

/// The sizes of a default run, in bytes.
pub const SIZES_BYTES: &[u64] = &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20];
/// The sizes of a whole run, in bytes.
pub const ALL_SIZES_BYTES: &[u64] = &[
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
    1 << 30,
];

/// The user's choice; empty parts leave the choice to the suite.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub sizes_bytes: Vec<u64>,
    pub advice: Vec<Advice>,
    pub space: Vec<Space>,
    /// Everything with the source out of the page cache, too.
    pub cold: bool,
    /// All sizes, all ways, everything cold, too.
    pub all: bool,
}

/// Everything that is to be measured, by size and then in the order of the ways.
pub fn plan(choice: &Choice) -> Vec<What> {
    let sizes = match (choice.sizes_bytes.as_slice(), choice.all) {
        ([], false) => SIZES_BYTES,
        ([], true) => ALL_SIZES_BYTES,
        (chosen, _) => chosen,
    };
    let largest = sizes.iter().max();
    let chosen = !(choice.advice.is_empty() && choice.space.is_empty());
    let mut whats = Vec::new();
    for size in sizes {
        for way in WAYS {
            let plain = What::plain(way, *size);
            let variants = if chosen {
                asked(plain, choice)
            } else {
                let special = Some(size) == largest;
                [plain]
                    .into_iter()
                    .chain(if special { specials(way, plain) } else { Vec::new() })
                    .collect()
            };
            for what in variants {
                push(&mut whats, what);
                if choice.cold || choice.all {
                    push(&mut whats, What { cold: true, ..what });
                }
            }
        }
    }
    whats
}

fn push(whats: &mut Vec<What>, what: What) {
    if !whats.contains(&what) {
        whats.push(what);
    }
}

/// Every combination of the advice and the space asked for, where the way takes them.
fn asked(plain: What, choice: &Choice) -> Vec<What> {
    fn or<T: Copy>(chosen: &[T], otherwise: T) -> Vec<T> {
        if chosen.is_empty() { vec![otherwise] } else { chosen.to_vec() }
    }
    if !plain.way.is_engines() {
        return vec![plain];
    }
    let spaces = or(&choice.space, plain.space);
    or(&choice.advice, plain.advice)
        .into_iter()
        .flat_map(|advice| spaces.iter().map(move |&space| What { advice, space, ..plain }))
        .collect()
}

/// The cases of a default run for cold files, fadvise and fallocate: a few ways, at the largest
/// size.
fn specials(way: &'static Way, plain: What) -> Vec<What> {
    let cold = What { cold: true, ..plain };
    let reserved = What { space: Space::Reserve, ..plain };
    match way.by {
        By::Engine(MethodName::ReadWrite) if way.name == "read-write-128K" => vec![
            reserved,
            What { advice: Advice::Sequential, ..plain },
            cold,
            What { advice: Advice::Sequential, ..cold },
            What { advice: Advice::WillNeed, ..cold },
        ],
        By::Engine(MethodName::CopyFileRange | MethodName::Uring) | By::Auto => {
            vec![reserved, cold]
        }
        By::Engine(MethodName::Sendfile | MethodName::Direct | MethodName::MmapWrite) => vec![cold],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        for choice in [Choice::default(), Choice { all: true, ..Choice::default() }] {
            let plan = plan(&choice);
            let names: BTreeSet<String> = plan.iter().map(What::name).collect();
            assert_eq!(names.len(), plan.len());
        }
    }

    #[test]
    fn chosen_advice_and_space_make_every_combination() {
        let plan = plan(&Choice {
            sizes_bytes: vec![4096],
            advice: vec![Advice::None, Advice::Sequential],
            space: vec![Space::Reserve],
            cold: true,
            all: false,
        });
        let own = plan.iter().filter(|what| what.way.name == "uring");
        let names: Vec<String> = own.map(What::name).collect();
        assert_eq!(
            names,
            [
                "uring+reserve@4K",
                "uring+reserve+cold@4K",
                "uring+sequential+reserve@4K",
                "uring+sequential+reserve+cold@4K"
            ]
        );
        assert_eq!(plan.iter().filter(|what| what.way.name == "stdio-char").count(), 2);
    }
}
