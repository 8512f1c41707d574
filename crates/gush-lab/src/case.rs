//! A case: what is run, so that it can be measured.

use crate::Error;
use crate::model::Measured;
use crate::runner::Conditions;

/// Something to be measured again and again.
///
/// A case starts processes of its own, so that one case's caches, heap and pinning are not the
/// next one's; the runner takes the cases of a round in turn.
pub trait Case {
    /// The suite it belongs to.
    fn suite(&self) -> &'static str;

    /// Its name, unique in the suite.
    fn name(&self) -> &str;

    /// What has to be there before the first round: files made, caches warmed.
    ///
    /// # Errors
    /// Why it cannot be measured here; the case is then left out, and that is told.
    fn prepare(&self, _conditions: &Conditions) -> Result<(), Error> {
        Ok(())
    }

    /// Measures once.
    ///
    /// # Errors
    /// Why it could not be measured.
    fn measure(&self, conditions: &Conditions) -> Result<Measured, Error>;
}
