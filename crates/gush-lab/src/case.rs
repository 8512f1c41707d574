//! A case: a thing that a run measures.

use crate::Error;
use crate::model::{Described, Measured};
use crate::probe::Probe;

/// Something to be measured again and again.
///
/// A case starts processes of its own ([`crate::runner::children`]), so that one case's caches,
/// heap and pinning are not the next one's; the runner takes the cases of a round in turn.
pub trait Case {
    /// The suite of the case.
    fn suite(&self) -> &str;

    /// The case's name, unique in the suite.
    fn name(&self) -> &str;

    /// The case's description, without figures.
    fn described(&self) -> Described {
        Described::new(self.suite(), self.name())
    }

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
    ///
    /// # Errors
    /// The reason why the case could not be measured.
    fn measure(&self, probe: &Probe) -> Result<Measured, Error>;

    /// Removes what a measurement or warm-up left, even if it failed; not part of any figure.
    fn tidy(&self) {}
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
        return Err(Error::unknown("case", unknown, cases.iter().map(|case| case.name())));
    }
    cases.retain(|case| names.is_empty() || names.iter().any(|name| name == case.name()));
    Ok(cases)
}
