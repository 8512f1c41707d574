//! A case: a thing that a run measures.

use crate::Error;
use crate::model::{Described, Measured};
use crate::probe::Probe;

/// Something to be measured again and again.
///
/// A case starts processes of its own ([`crate::runner::children`]), so that one case's caches,
/// heap and pinning are not the next one's; the runner takes the cases of a round in turn.
pub trait Case {
    /// The case's suite, name and description, without figures.
    fn described(&self) -> &Described;

    /// Makes all that the first round needs: files made, caches warmed.
    ///
    /// # Errors
    /// Why the case cannot be measured here; the run reports it and leaves the case out.
    fn prepare(&self, _probe: &Probe) -> Result<(), Error> {
        Ok(())
    }

    /// Runs once before the first round, so that no round pays for cold caches and first touches.
    ///
    /// By default a measurement whose figures are dropped.
    ///
    /// # Errors
    /// Why the case could not run; the run reports it and leaves the case out.
    fn warm_up(&self, probe: &Probe) -> Result<(), Error> {
        self.measure(probe).map(drop)
    }

    /// Measures once.
    fn measure(&self, probe: &Probe) -> Result<Measured, Error>;

    /// Removes what a measurement or warm-up left, even if it failed; not part of any figure.
    fn tidy(&self) {}
}

/// The cases of these names in the suite's order; all of them for no names.
pub fn choose(
    mut cases: Vec<Box<dyn Case>>,
    names: &[String],
) -> Result<Vec<Box<dyn Case>>, Error> {
    let known = cases.iter().map(|case| case.described().case.as_str());
    if let Some(unknown) = names.iter().find(|name| known.clone().all(|case| case != **name)) {
        return Err(Error::unknown("case", unknown, known));
    }
    cases.retain(|case| names.is_empty() || names.contains(&case.described().case));
    Ok(cases)
}
