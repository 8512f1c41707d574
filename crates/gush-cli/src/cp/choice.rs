//! Options with a fixed set of values: `--sparse=WHEN`, `--preserve=LIST`, `--backup=CONTROL`.

use std::ffi::OsStr;
use std::path::Path;

use gush_text::quote;

/// Finds `text`, or the only meaning that it abbreviates, in `table`.
///
/// # Errors
/// A message with the option, the invalid text, and all valid ones.
pub fn pick<T: Copy + PartialEq>(
    option: &str,
    text: &OsStr,
    table: &[(&str, T)],
) -> Result<T, String> {
    if let Some((_, meaning)) = table.iter().find(|(name, _)| text == *name) {
        return Ok(*meaning);
    }
    let begins = text.to_str().map(|text| {
        let fits = table.iter().filter(move |(name, _)| name.starts_with(text));
        fits.map(|(_, meaning)| *meaning).collect::<Vec<_>>()
    });
    match begins.as_deref().unwrap_or_default() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => Ok(*first),
        fits => {
            let wrong = if fits.is_empty() { "invalid" } else { "ambiguous" };
            let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "{wrong} argument {} for '{option}': valid arguments are {}",
                quote::always(Path::new(text)),
                names.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_enough_unless_it_fits_two_meanings() {
        let table = [("none", 0), ("off", 0), ("numbered", 1), ("nil", 2)];
        let pick = |text: &str| pick("--backup", text.as_ref(), &table);
        assert_eq!(pick("none"), Ok(0));
        assert_eq!(pick("nu"), Ok(1));
        let ambiguous =
            "ambiguous argument 'n' for '--backup': valid arguments are none, off, numbered, nil";
        assert_eq!(pick("n"), Err(ambiguous.to_owned()));
        assert!(pick("x").unwrap_err().starts_with("invalid argument 'x'"));
    }
}
