//! What is reported of a stored recording. `GUSH_BLESS=1 cargo test -p gush-lab --test explain`
//! writes it anew.

use gush_test as _;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gush_lab::explain::{Stacks, WorkKind};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Part of what `perf script` printed of `gush lab pipe --only write-read-busy` on Linux 6.18.
fn stored() -> Stacks {
    let script = fs::read(data("perf-script.txt")).expect("the stored recording");
    Stacks::of_script(&script).expect("stacks")
}

#[test]
fn a_stored_recording_is_summed_up_as_agreed() {
    let stacks = stored();
    let mut reported = format!("{} us\n", stacks.cpu_ns() / 1000);
    for (kind, cpu_ns) in stacks.kinds() {
        let _ = writeln!(reported, "{:>6} {}", cpu_ns / 1000, kind.name());
    }
    for share in stacks.functions(true) {
        let _ = writeln!(
            reported,
            "{:>6} {} ({})",
            share.cpu_ns / 1000,
            share.function,
            share.kind.name()
        );
    }
    let golden = data("perf-script.golden");
    if std::env::var_os("GUSH_BLESS").is_some() {
        fs::write(&golden, &reported).expect("to bless");
    }
    assert_eq!(reported, fs::read_to_string(&golden).unwrap_or_default());
}

#[test]
fn the_parts_add_up_to_the_whole() {
    let stacks = stored();
    assert_eq!(stacks.kinds().iter().map(|(_, cpu_ns)| cpu_ns).sum::<u64>(), stacks.cpu_ns());
    let functions = stacks.functions(false);
    assert_eq!(functions.iter().map(|share| share.cpu_ns).sum::<u64>(), stacks.cpu_ns());
    let kernel: u64 = stacks.functions(true).iter().map(|share| share.cpu_ns).sum();
    let program =
        stacks.kinds().iter().find(|(kind, _)| *kind == WorkKind::PROGRAM).map_or(0, |k| k.1);
    assert_eq!(kernel + program, stacks.cpu_ns());
    assert!(stacks.sees_kernel());
}

#[test]
fn a_flame_graph_is_a_picture_of_every_function() {
    let svg = stored().flame("a <b> & c").expect("a picture");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("a &lt;b&gt; &amp; c"), "the title is escaped");
    for name in ["anon_pipe_write", "do_syscall_64"] {
        assert!(svg.contains(name), "{name}");
    }
    assert_eq!(svg, stored().flame("a <b> & c").expect("the same again"));
}

#[test]
fn what_is_no_recording_is_reported() {
    for odd in ["", "\n\n", "# nothing\n"] {
        let error = Stacks::of_script(odd.as_bytes()).expect_err("no stacks").to_string();
        assert!(error.contains("too short"), "{odd:?}: {error}");
    }
}
