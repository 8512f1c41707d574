//! The pipe speed test: one program writes into a pipe for ever, another takes out of it and
//! counts.
//!
//! | room | holds |
//! |---|---|
//! | `options` | the options of both, and contradictions among them |
//! | `write`, `techniques` | the writer, and the five ways of writing |
//! | `unsound` | the one deliberate breach: memory reused while a reader may hold it |
//! | `read`, `hold` | the reader, and the hostile reader |
//! | `pattern` | bytes that any place in the stream can be checked for |
//! | `ends`, `memory`, `waiting` | pipe sizes and kinds, buffers, how to wait |

mod ends;
mod hold;
mod memory;
mod options;
mod pattern;
mod read;
mod techniques;
mod unsound;
mod waiting;
mod write;

pub use ends::closed;
pub use memory::without_huge_pages;
pub use options::{ReadOptions, Technique, WriteOptions};
pub use pattern::{Checker, Corruption, Pattern};
pub use read::{Reading, read};
pub use waiting::Waiting;
pub use write::write;

/// The default buffer of both programs, in bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// The bytes that a splicing reader asks for in one call by default: a whole pipe of fat slots, 256
/// of 32 KiB.
const SPLICE_BYTES: usize = 8 << 20;
/// The bytes that the reader takes out of the pipe by default.
const READ_BYTES: u64 = 10 << 30;
