//! The tables, how older files become newer ones, and which files are left alone.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{BUSY, StoreError, failed};

/// Marks the file as ours (`PRAGMA application_id`): "gush".
const APPLICATION_ID: i32 = 0x6775_7368;

/// The step at index n makes version n + 1 (`PRAGMA user_version`) of version n.
///
/// A run's `head` is the run as JSON without its samples: what later versions add to it needs no step.
const STEPS: &[&str] = &["
    CREATE TABLE runs (
        id TEXT PRIMARY KEY NOT NULL,
        started TEXT NOT NULL,
        machine TEXT NOT NULL,
        head TEXT NOT NULL
    ) STRICT;
    CREATE TABLE samples (
        run TEXT NOT NULL REFERENCES runs (id),
        number INTEGER NOT NULL,
        suite TEXT NOT NULL,
        name TEXT NOT NULL,
        round INTEGER NOT NULL,
        gib_per_s REAL,
        wall_s REAL,
        user_s REAL,
        system_s REAL,
        bytes INTEGER NOT NULL,
        facts TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT, WITHOUT ROWID;
"];

/// Opens the file to be written, and brings it up to this version.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let fails = |error| failed(path, "cannot open the store", error);
    is_file_or_missing(path)?;
    let mut connection = Connection::open(path).map_err(fails)?;
    connection.busy_timeout(BUSY).map_err(fails)?;
    is_ours(&connection, path)?;
    write_ahead(&connection).map_err(fails)?;
    connection.pragma_update(None, "synchronous", "normal").map_err(fails)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(fails)?;
    upgrade(&mut connection)
        .map_err(|error| failed(path, "cannot bring the store up to date", error))?;
    Ok(connection)
}

/// SQLite takes a device for an empty store, and leaves a journal beside it.
fn is_file_or_missing(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let kind = if there.is_dir() { "is a directory" } else { "is no regular file" };
            let why = format!("{kind}: name another file with --db");
            Err(StoreError::Foreign { path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// Readers then never wait, and a killed writer leaves whole rows. A file system that cannot do it keeps
/// the rollback journal, which is as safe.
///
/// SQLite does not wait by itself here: of two that change the journal at once each could wait for the other.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let until = Instant::now() + BUSY;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < until =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// Opens the file to be read, also on a medium that cannot be written, where SQLite could not keep its
/// book of readers, and nobody can change the file either.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let fails = |error| failed(path, "cannot open the store", error);
    let none_yet = || {
        let path = path.display();
        StoreError::NoSuchRun(format!(
            "{path}: no runs yet: gush lab, or gush lab import, makes the first"
        ))
    };
    if !path.exists() {
        return Err(none_yet());
    }
    is_file_or_missing(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let try_open = |uri: String| {
        let connection = Connection::open_with_flags(uri, flags)?;
        connection.busy_timeout(BUSY)?;
        version(&connection)?;
        Ok::<_, rusqlite::Error>(connection)
    };
    let uri = uri(path);
    let connection = match try_open(format!("{uri}?mode=ro")) {
        Err(error) if cannot_write_beside(&error) => try_open(format!("{uri}?immutable=1")),
        other => other,
    };
    let connection = connection.map_err(fails)?;
    // An empty file, which another process may be about to fill.
    if is_ours(&connection, path)? == 0 {
        return Err(none_yet());
    }
    Ok(connection)
}

fn cannot_write_beside(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// A path as an address (<https://sqlite.org/uri.html>).
fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02x}"));
        }
    }
    uri
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The application's mark, how many tables there are, and the version: in one transaction, because another
/// process may be making the file just now.
fn marks(connection: &Connection) -> rusqlite::Result<(i32, u64, usize)> {
    let reading = connection.unchecked_transaction()?;
    let application = reading.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables = reading.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let version = version(&reading)?;
    reading.finish()?;
    Ok((application, tables, version))
}

/// Refuses a file that is something else's, or a newer gush's; else gives its version, 0 of an empty one.
fn is_ours(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let fails = |error| failed(path, "cannot read the store", error);
    let foreign = |why: String| Err(StoreError::Foreign { path: path.to_owned(), why });
    let (application, tables, version) = marks(connection).map_err(fails)?;
    if application != APPLICATION_ID && (application != 0 || tables > 0) {
        return foreign("is another program's database: name another file with --db".to_owned());
    }
    if version > STEPS.len() {
        return foreign(format!(
            "was written by a newer gush (version {version} of the store, this gush knows {}): update gush, or name \
             another file with --db",
            STEPS.len()
        ));
    }
    Ok(version)
}

/// Takes the missing steps, all or none; of two processes the second finds them taken.
fn upgrade(connection: &mut Connection) -> rusqlite::Result<()> {
    if version(connection)? == STEPS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in STEPS.iter().skip(version(&transaction)?) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", STEPS.len())?;
    transaction.commit()
}
