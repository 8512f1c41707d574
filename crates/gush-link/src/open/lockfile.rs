//! Files by which programs exclude each other: `lockfile=` and `waitlock=`.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use super::error::OpenError;
use super::keeper::Made;
use crate::address::{Opt, OptionSet};

/// The pause before another look at a lock that another process has.
const LOOK: Duration = Duration::from_millis(100);

/// The file that `options` name, made by this process.
pub(super) async fn taken(options: &OptionSet) -> Result<Option<Made>, OpenError> {
    let (waited_for, path) = (options.path(Opt::WaitLock), options.path(Opt::LockFile));
    let Some(path) = waited_for.or(path).map(Path::new) else { return Ok(None) };
    let fail = |error| OpenError::new(format!("make the lock {}", path.display()), error);
    let mut says = true;
    let mut file = loop {
        match File::create_new(path) {
            Ok(file) => break file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists && waited_for.is_some() => {
                if std::mem::take(&mut says) {
                    tracing::info!("waiting for the lock {}", path.display());
                }
                tokio::time::sleep(LOOK).await;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let owner = std::fs::read_to_string(path).unwrap_or_default();
                let hint = match owner.trim().parse::<u32>() {
                    Ok(number) => {
                        format!("process {number} has made it; remove it if that has ended")
                    }
                    Err(_) => "remove it if the program that has made it has ended".to_owned(),
                };
                return Err(fail(error).passing(false).hinted(hint));
            }
            Err(error) => {
                let hint = gush_text::missing_directory(path);
                return Err(fail(error).passing(false).hinted_by(hint.as_deref()));
            }
        }
    };
    // Removed if its content cannot be written.
    let made = Made::at(path, path).map_err(fail)?;
    writeln!(file, "{}", std::process::id()).map_err(fail)?;
    Ok(Some(made))
}
