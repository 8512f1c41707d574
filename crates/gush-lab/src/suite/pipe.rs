//! The ladder of the pipe speed test, rung by rung, and what stands beside and above it.
//!
//! A case is two command lines, of `gush pipe write` and `gush pipe read`: whoever doubts a figure can
//! run them by hand.

use crate::Error;

/// One rung.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// The options of the writer.
    pub write: &'static [&'static str],
    /// The options of the reader.
    pub read: &'static [&'static str],
    /// Bytes to move, unless told otherwise: about a second or less.
    pub bytes: u64,
    /// Does what was written arrive, whatever a reader does?
    pub sound: bool,
    /// Does it stand on huge pages?
    pub huge: bool,
}

const GIB: u64 = 1 << 30;

const fn case(
    name: &'static str,
    write: &'static [&'static str],
    read: &'static [&'static str],
    bytes: u64,
) -> Case {
    Case { name, write, read, bytes, sound: true, huge: false }
}

impl Case {
    const fn unsound(self) -> Self {
        Self { sound: false, ..self }
    }

    const fn huge(self) -> Self {
        Self { huge: true, ..self }
    }
}

/// The first six are the published ones: 256 KiB buffers, and with vmsplice a pipe of 128 KiB.
pub const CASES: &[Case] = &[
    case("write-read", &[], &[], GIB),
    case("vmsplice-read", &["--vmsplice"], &[], 2 * GIB).unsound(),
    case("vmsplice-splice", &["--vmsplice"], &["--splice"], 4 * GIB).unsound(),
    case(
        "vmsplice-splice-untouched",
        &["--vmsplice", "--dont-touch-pages"],
        &["--splice"],
        4 * GIB,
    )
    .unsound(),
    case("huge-splice", &["--vmsplice", "--huge-page"], &["--splice"], 4 * GIB).unsound().huge(),
    case(
        "huge-splice-busy",
        &["--vmsplice", "--huge-page", "--busy-loop"],
        &["--splice", "--busy-loop"],
        32 * GIB,
    )
    .unsound()
    .huge(),
    case(
        "same-buffer-busy",
        &["--vmsplice", "--huge-page", "--busy-loop", "--same-buffer"],
        &["--splice", "--busy-loop"],
        32 * GIB,
    )
    .unsound()
    .huge(),
    case("write-read-busy", &["--busy-loop"], &["--busy-loop"], 4 * GIB),
    case("fresh-splice", &["--technique", "fresh", "--busy-loop"], LARGE_SPLICE, 16 * GIB).huge(),
    case("fresh-read", &["--technique", "fresh", "--busy-loop"], &["--busy-loop"], 8 * GIB).huge(),
    case("socket-splice", &["--technique", "socket", "--busy-loop"], LARGE_SPLICE, 8 * GIB),
    case("socket-read", &["--technique", "socket", "--busy-loop"], &["--busy-loop"], 8 * GIB),
    case("reservoir-splice", &["--technique", "reservoir", "--busy-loop"], LARGE_SPLICE, 256 * GIB),
    case(
        "reservoir-read",
        &["--technique", "reservoir", "--busy-loop"],
        &["--busy-loop"],
        32 * GIB,
    ),
];

/// A whole pipe of fat slots in one call.
const LARGE_SPLICE: &[&str] = &["--splice", "--busy-loop", "--buffer-size", "8M"];

/// The cases of these names in the ladder's order; all of them for no names.
///
/// # Errors
/// [`Error::Refused`] for a name that no case has.
///
/// ```
/// use gush_lab::suite::pipe;
/// let two = pipe::choose(&["huge-splice".to_owned(), "write-read".to_owned()]).unwrap();
/// assert_eq!(two[0].name, "write-read");
/// assert!(pipe::choose(&["nope".to_owned()]).is_err());
/// ```
pub fn choose(names: &[String]) -> Result<Vec<&'static Case>, Error> {
    if let Some(unknown) = names.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(Error::refused(format!(
            "no case is called '{unknown}'; there are {}",
            known.join(", ")
        )));
    }
    let wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(CASES.iter().filter(wanted).collect())
}
