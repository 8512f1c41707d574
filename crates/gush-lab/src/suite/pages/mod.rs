//! The cost of getting a user's pages: vmsplice(2) of memory that was touched or not, on pages of 4
//! KiB or of 2 MiB, and the kernel's own test of `get_user_pages_fast` where the kernel has the
//! test built in.
//!
//! vmsplice takes a reference to every 4 KiB (`iov_iter_get_pages2`), which is a walk of the page
//! tables for each small page, and one for all 512 of a huge page. The references are dropped by a
//! splice to /dev/null, which is timed apart.
//!
//! Facts of a sample: `memory` (`touched`, `untouched`), `page_bytes`, `ns_per_page` (of every 4
//! KiB, by whichever page size it is backed), `drop_ns_per_page`.

mod once;

use std::fs::File;

pub use once::once;

use super::asked::{memory, size, text};
use super::{Asked, Cases, Once, Quantity, Suite, THROUGHPUT, Tour};
use crate::Error;
use crate::case::{self, Case};
use crate::model::{Described, Measured};
use crate::once::Single;

pub static SUITE: Suite = Suite {
    name: "pages",
    title: "What getting pages costs",
    about: "The cost of lending memory to the kernel: vmsplice of touched and untouched, small and huge pages",
    more: "Costs are of every 4 KiB, with huge pages too.",
    options: || {
        vec![memory("bytes", "Lend SIZE bytes in every case, in fields of 64M, instead of 2G")]
    },
    only: ("NAME,…", "Only these cases"),
    rounds: "6",
    quantities: &[
        THROUGHPUT,
        Quantity {
            caption: "Cost of getting 4 KiB, less is better",
            unit: "ns/4 KiB",
            of: |measured| number(measured, "ns_per_page"),
            less_is_better: true,
        },
        Quantity {
            caption: "Cost of giving 4 KiB back, less is better",
            unit: "ns back",
            of: |measured| number(measured, "drop_ns_per_page"),
            less_is_better: true,
        },
    ],
    axis: None,
    notes: &[
        "Only the calls that take the references are under the clock; giving them back is timed apart.",
    ],
    section: None,
    tour: Tour::Repeated(&[], &["--bytes", "256M"]),
    once: Some(Once {
        about: "Take references to pages, and drop them",
        options: || vec![text("way", "NAME", "Measure this"), size("bytes", "Lend SIZE bytes")],
        run: |asked| once(asked.way(LENDINGS, |one| one.name)?, asked.size("bytes")),
    }),
    make,
};

fn number(measured: &Measured, name: &str) -> Option<f64> {
    measured.facts.get(name)?.as_f64()
}

/// The kernel's own test (`mm/gup_test.c`, CONFIG_GUP_TEST), in debugfs.
const GUP_TEST: &str = "/sys/kernel/debug/gup_test";

/// The call that takes the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// vmsplice(2) into a pipe.
    Vmsplice,
    /// The kernel's own test.
    GupTest,
}

/// One measurement of getting pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// The name, unique.
    pub name: &'static str,
    /// The call that takes the references.
    pub taker: Taker,
    /// Every page was written before.
    pub touched: bool,
    /// The memory is on pages of 2 MiB.
    pub huge: bool,
}

/// Every measurement.
pub const LENDINGS: &[Lending] = &[
    Lending { name: "touched-4K", taker: Taker::Vmsplice, touched: true, huge: false },
    Lending { name: "touched-2M", taker: Taker::Vmsplice, touched: true, huge: true },
    Lending { name: "untouched-4K", taker: Taker::Vmsplice, touched: false, huge: false },
    Lending { name: "untouched-2M", taker: Taker::Vmsplice, touched: false, huge: true },
    Lending { name: "gup-test-4K", taker: Taker::GupTest, touched: true, huge: false },
    Lending { name: "gup-test-2M", taker: Taker::GupTest, touched: true, huge: true },
];

/// The cases: those of the kernel's own test only where it exists, or if they are named.
fn make(asked: &Asked) -> Result<Cases, Error> {
    let mut notes = Vec::new();
    let test = gup_test();
    if let (Err(error), true) = (&test, asked.only.is_empty()) {
        notes.push(format!("gup-test-4K and gup-test-2M are left out: {}", error));
    }
    let bytes = asked.size("bytes").unwrap_or(once::BYTES);
    let case = |lending: &Lending| -> Box<dyn Case> {
        Box::new(Single::new(&SUITE, asked, described(lending, bytes), bytes, true))
    };
    let wanted = |lending: &&Lending| {
        let named = asked.only.iter().any(|name| name == lending.name);
        lending.taker == Taker::Vmsplice || test.is_ok() || named
    };
    let cases = case::choose(LENDINGS.iter().filter(wanted).map(case).collect(), &asked.only)?;
    Ok(Cases { cases, notes, show: None })
}

/// Huge pages are measured against small ones, untouched ones against touched ones.
fn described(lending: &Lending, bytes: u64) -> Described {
    let (group, small) = match lending.taker {
        Taker::Vmsplice => ("vmsplice into a pipe of 256 KiB", "touched-4K"),
        Taker::GupTest => ("The kernel's own test of get_user_pages_fast", "gup-test-4K"),
    };
    let baseline = if lending.huge && !lending.touched { "untouched-4K" } else { small };
    let page = if lending.huge { "2 MiB" } else { "4 KiB" };
    let memory = if lending.touched { "touched" } else { "untouched" };
    Described::new(SUITE.name, lending.name)
        .does(format!("{memory} memory, pages of {page}"))
        .group(group)
        .against(baseline)
        .with("memory", memory)
        .with("page", page)
        .with("taker", format!("{:?}", lending.taker))
        .with("bytes", bytes)
}

fn gup_test() -> Result<File, Error> {
    File::open(GUP_TEST).map_err(|error| {
        let why = "the kernel's own test is not at /sys/kernel/debug/gup_test (a kernel built with \
                   CONFIG_GUP_TEST has it, for root, where debugfs is mounted)";
        Error::failed(why, error)
    })
}
