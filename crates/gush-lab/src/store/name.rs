//! Which run a word means.

use super::{Store, StoreError, no_runs_yet};

impl Store {
    /// The id of the run that `word` means: an id, the unique start of one, `last`, or `last~N`,
    /// the Nth before the last.
    pub fn find(&self, word: &str) -> Result<String, StoreError> {
        let runs = self.catch_up()?;
        let ids: Vec<&String> = runs.sorted().into_iter().map(|run| &run.id).collect();
        let no_such = |why: String| Err(StoreError::NoSuchRun(why));
        if ids.is_empty() {
            return Err(no_runs_yet(self.path()));
        }
        if let Some(back) = back(word) {
            if back.is_none() {
                return no_such(format!(
                    "'{word}' is not a run: last~1 is the one before the last"
                ));
            }
            return match back.and_then(|back| ids.len().checked_sub(back.checked_add(1)?)) {
                Some(index) => Ok(ids[index].clone()),
                None => no_such(format!("'{word}' is before the first of {} runs", ids.len())),
            };
        }
        let found: Vec<&&String> = ids.iter().filter(|id| id.starts_with(word)).collect();
        match found[..] {
            [id] => Ok((*id).clone()),
            _ if ids.iter().any(|id| *id == word) => Ok(word.to_owned()),
            [] => no_such(format!("unknown run '{word}'; gush lab history lists them")),
            _ => no_such(format!(
                "'{word}' could be {} runs, {} to {}: write more of the id",
                found.len(),
                found[0],
                found[found.len() - 1]
            )),
        }
    }
}

/// How many runs before the last: `last` 0, `last~2` 2; `Some(None)` for a number that is none.
fn back(word: &str) -> Option<Option<usize>> {
    match word.strip_prefix("last")? {
        "" => Some(Some(0)),
        rest => rest.strip_prefix('~').map(|number| number.parse().ok()),
    }
}
