//! A case: what is run, so that it can be measured.

use crate::Error;
use crate::model::{Described, Measured};
use crate::probe::Probe;

/// Something to be measured again and again.
///
/// A case starts processes of its own ([`crate::runner::children`]), so that one case's caches, heap
/// and pinning are not the next one's; the runner takes the cases of a round in turn.
pub trait Case {
    /// The suite it belongs to.
    fn suite(&self) -> &str;

    /// Its name, unique in the suite.
    fn name(&self) -> &str;

    /// What it is, apart from its figures.
    fn described(&self) -> Described {
        Described::new(self.suite(), self.name())
    }

    /// What has to be there before the first round: files made, caches warmed.
    ///
    /// # Errors
    /// Why it cannot be measured here; the case is then left out, and that is told.
    fn prepare(&self, _probe: &Probe) -> Result<(), Error> {
        Ok(())
    }

    /// Runs once before the first round, so that no round pays for cold caches and first touches.
    ///
    /// A measurement whose figures are dropped, unless a case knows something shorter or needs none.
    ///
    /// # Errors
    /// Why it could not run; the case is then left out, and that is told.
    fn warm_up(&self, probe: &Probe) -> Result<(), Error> {
        self.measure(probe).map(drop)
    }

    /// Measures once.
    ///
    /// # Errors
    /// Why it could not be measured.
    fn measure(&self, probe: &Probe) -> Result<Measured, Error>;
}

/// The cases of these names in the suite's order; all of them for no names.
///
/// # Errors
/// [`Error::Refused`] for a name that no case has.
///
/// ```
/// use gush_lab::case;
/// use gush_lab::suite::{Asked, pipe};
/// let all = || pipe::SUITE.cases(&Asked::of("gush")).unwrap().cases;
/// let two = case::choose(all(), &["huge-splice".to_owned(), "write-read".to_owned()]).unwrap();
/// assert_eq!((two.len(), two[0].name()), (2, "write-read"));
/// assert!(case::choose(all(), &["nope".to_owned()]).is_err());
/// ```
pub fn choose(
    mut cases: Vec<Box<dyn Case>>,
    names: &[String],
) -> Result<Vec<Box<dyn Case>>, Error> {
    if let Some(unknown) = names.iter().find(|name| cases.iter().all(|case| case.name() != **name))
    {
        let known: Vec<&str> = cases.iter().map(|case| case.name()).collect();
        return Err(Error::refused(format!(
            "no case is called '{unknown}'; there are {}",
            known.join(", ")
        )));
    }
    cases.retain(|case| names.is_empty() || names.iter().any(|name| name == case.name()));
    Ok(cases)
}
