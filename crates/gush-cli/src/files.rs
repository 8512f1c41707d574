//! Files that a command writes in the end: whether they can be written is asked before the work begins.

use std::path::Path;

use gush_tree::quote;

/// Can text be put at `path`, as far as can be known without writing?
///
/// # Errors
/// A sentence: a closed standard descriptor is behind the path, a directory is there, or the parent directory is missing.
pub fn takes_text(path: &Path) -> Result<(), String> {
    let shown = quote::if_needed(path);
    if let Some(number) = gush_process::closed_behind(path) {
        let name = ["input", "output", "error"][number];
        return Err(format!("{shown}: standard {name} is closed: name a file"));
    }
    if path.is_dir() {
        return Err(format!("{shown} is a directory: name a file"));
    }
    Ok(())
}

/// As [`takes_text`], for a file whose directory has to be there.
///
/// # Errors
/// As [`takes_text`].
pub fn takes_text_in_its_directory(path: &Path) -> Result<(), String> {
    takes_text(path)?;
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            let (shown, dir) = (quote::if_needed(path), quote::if_needed(dir));
            Err(format!("{shown} cannot be written: {dir} is no directory"))
        }
        _ => Ok(()),
    }
}
