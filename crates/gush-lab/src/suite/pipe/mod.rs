//! The pipe speed test, step by step, and the techniques next to and above it.
//!
//! A case is two command lines, of `gush pipe write` and `gush pipe read`, that a user can run.
//!
//! Facts of a sample: `buffer_bytes`, `pipe_bytes`, `sound` (null where nothing showed soundness),
//! `evidence`.
//!
//! | room | holds |
//! |---|---|
//! | `steps` | the cases as data: both command lines, and the case each is measured against |
//! | `climb` | one of them run and measured |
//! | `hostile` | whether the writer is sound, as the hostile reader finds |

mod climb;
mod hostile;
mod steps;

use std::rc::Rc;

use super::asked::size;
use super::{Asked, Cases, Suite, THROUGHPUT, Tour, WORK};
use crate::case::{self, Case};
use climb::Climb;
use hostile::Hostile;
pub use steps::{STEPS, Step};

pub static SUITE: Suite = Suite {
    name: "pipe",
    title: "Pipes, step by step",
    about: "The pipe speed test, step by step: gush pipe write and read, pinned, in rounds",
    more: "",
    options: || {
        vec![size(
            "bytes",
            "Move SIZE bytes in every case, instead of as many as take up to a second or so",
        )]
    },
    only: ("NAME,…", "Only these cases"),
    rounds: "6",
    quantities: &[THROUGHPUT, WORK],
    axis: None,
    notes: &[
        "**Sound** means: what was written arrives, whatever a reader does with it. The table says what \
         a hostile reader found in the same run: it kept pieces of what each writer wrote by reference, and looked at them \
         later.",
        "The clock is the reader's, from its first byte. Processor time is that of both programs, with their start.",
    ],
    section: None,
    tour: Tour::Repeated(&TOUR, &[]),
    once: None,
    make,
};

/// The published steps, and the sound techniques next to the way to write that they are compared
/// with.
const TOUR: [&str; 12] = [
    "write-read",
    "vmsplice-read",
    "vmsplice-splice",
    "huge-splice",
    "huge-splice-busy",
    "write-read-busy",
    "socket-read",
    "fresh-read",
    "write-splice-busy",
    "socket-splice",
    "fresh-splice",
    "reservoir-splice",
];

fn make(asked: &Asked) -> Result<Cases, crate::Error> {
    let hostile = Rc::new(Hostile::new(&asked.program));
    // A tour is a first look.
    let part = if asked.is_brief { 16 } else { 1 };
    let climb = |step: &'static Step| -> Box<dyn Case> {
        let bytes = asked.size("bytes").unwrap_or(step.bytes / part);
        Box::new(Climb::new(step, &asked.program, bytes, Rc::clone(&hostile)))
    };
    Ok(Cases::of(case::choose(STEPS.iter().map(climb).collect(), &asked.only)?))
}
