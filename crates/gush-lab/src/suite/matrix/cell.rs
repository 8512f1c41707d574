//! The cells of the matrix as cases.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Aim, Attempt, Kind, KindPlace, Load, Method, Outcome, Pairs, Prober, places, s4};
use crate::Error;
use crate::case::Case;
use crate::model::{Described, Measured};
use crate::probe::Probe;
use crate::runner::interrupt;

/// The bytes sent through a timed cell of the old experiment: as many as in the experiment.
pub const S4_BYTES: u64 = 1 << 30;
/// The bytes sent through any other timed cell.
pub const GRID_BYTES: u64 = 64 << 20;

/// The cells, and the questions about them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The methods; none: all.
    pub methods: Vec<Method>,
    /// The pairs; none: all.
    pub pairs: Vec<Pairs>,
    /// Only the cells of the old experiment: five methods, four pairs.
    pub only_s4: bool,
    /// Whether to time the cells that work.
    pub speed: bool,
    /// The bytes of a timed attempt, instead of [`S4_BYTES`] and [`GRID_BYTES`].
    pub bytes: Option<u64>,
}

impl Plan {
    fn wants(&self, method: Method, source: Kind, target: Kind) -> bool {
        (self.methods.is_empty() || self.methods.contains(&method))
            && self.wants_pair(source, target)
    }

    fn wants_pair(&self, source: Kind, target: Kind) -> bool {
        source.is_source()
            && target.is_target()
            && (self.pairs.is_empty() || self.pairs.iter().any(|pairs| pairs.has(source, target)))
    }

    /// The kinds that any cell needs.
    fn kinds(&self) -> Vec<Kind> {
        let all = || Kind::ALL.iter().copied();
        let is_end =
            |kind| all().any(|other| self.wants_pair(kind, other) || self.wants_pair(other, kind));
        all().filter(|&kind| is_end(kind)).collect()
    }
}

/// Cells that are ready to be tried.
pub struct Matrix {
    /// Those of the old experiment first, then method by method.
    pub cases: Vec<Box<dyn Case>>,
    /// Where files of each kind lie, or why a kind has no cells here.
    pub places: Vec<KindPlace>,
}

/// The cells of a plan as cases.
pub fn cases(plan: &Plan) -> Matrix {
    let kinds = plan.kinds();
    let mut places = places::find(&kinds);
    let dirs = places.iter().filter_map(|place| Some((place.kind, place.dir.clone()?)));
    let prober = Rc::new(RefCell::new(Prober::new(dirs.collect())));
    let has = |kind: Kind| {
        !kind.needs_place() || places.iter().any(|place| place.kind == kind && place.dir.is_some())
    };
    let present: Vec<Kind> = kinds.into_iter().filter(|&kind| has(kind)).collect();
    let file = s4::file_among(has).unwrap_or(Kind::Tmpfs);
    places.retain(|place| !plan.only_s4 || place.kind == file);
    let mut cells = Vec::new();
    for method in Method::all() {
        for &source in &present {
            for &target in present.iter().filter(|&&target| plan.wants(method, source, target)) {
                let is_s4 = s4::has(method, source, target, file);
                if plan.only_s4 && !is_s4 {
                    continue;
                }
                let bytes = plan.bytes.unwrap_or(if is_s4 { S4_BYTES } else { GRID_BYTES });
                let speed_bytes = plan.speed.then_some(bytes);
                // Of a cell that is not timed the name says all, and there are thousands.
                let described = Described::new("matrix", &format!("{method}:{source}:{target}"));
                let described = match speed_bytes {
                    Some(bytes) => described.with("bytes", bytes),
                    None => described,
                };
                let prober = prober.clone();
                let cell = CellCase { described, method, source, target, speed_bytes, prober };
                cells.push((!is_s4, cell));
            }
        }
    }
    // The table of 2007 first: a long run that is interrupted has that at least.
    cells.sort_by_key(|(later, _)| *later);
    let cases = cells.into_iter().map(|(_, cell)| Box::new(cell) as Box<dyn Case>).collect();
    Matrix { cases, places }
}

/// A method on a pair.
struct CellCase {
    described: Described,
    method: Method,
    source: Kind,
    target: Kind,
    speed_bytes: Option<u64>,
    prober: Rc<RefCell<Prober>>,
}

impl Case for CellCase {
    fn described(&self) -> &Described {
        &self.described
    }

    /// Verifying comes first anyway, and warms up the caches.
    fn warm_up(&self, _probe: &Probe) -> Result<(), Error> {
        Ok(())
    }

    fn measure(&self, probe: &Probe) -> Result<Measured, Error> {
        // Verified first: the speed of a method that loses bytes is worth nothing.
        let verified = self.try_out(Aim::Verify, None)?;
        let mut measured = self.measured(&verified);
        let works = matches!(verified.outcome, Outcome::Works { .. });
        if let Some(bytes) = self.speed_bytes.filter(|_| works && self.can_be_timed()) {
            let timed = self.try_out(Aim::Speed(bytes), probe.processors)?;
            match timed.cost.filter(|cost| Load::can_be_timed(cost.bytes)) {
                Some(cost) => measured = Measured { facts: measured.facts, ..cost },
                None if matches!(timed.outcome, Outcome::Works { .. }) => {}
                None => measured = measured.with("not_timed", timed.outcome.to_string()),
            }
        }
        Ok(measured)
    }
}

impl CellCase {
    /// UDP drops messages that are sent faster than received: the time would be that of the loss.
    fn can_be_timed(&self) -> bool {
        ![self.source, self.target].contains(&Kind::Udp)
    }

    fn try_out(&self, aim: Aim, processors: Option<[usize; 2]>) -> Result<Attempt, Error> {
        let mut prober = self.prober.borrow_mut();
        let attempt = prober.try_out(self.method, self.source, self.target, aim, processors);
        // An attempt given up for an interrupt says nothing about the cell.
        if interrupt::requested() { Err(Error::refused("interrupted")) } else { Ok(attempt) }
    }

    /// The outcome, as the facts of the suite.
    fn measured(&self, attempt: &Attempt) -> Measured {
        let outcome = &attempt.outcome;
        let bytes = if let Outcome::Works { bytes } = outcome { *bytes } else { 0 };
        let mut measured = Measured { bytes, ..Measured::default() }
            .with("method", self.method.name())
            .with("source", self.source.name())
            .with("target", self.target.name())
            .with("works", matches!(outcome, Outcome::Works { .. }))
            .with("errno", outcome.word());
        if !matches!(outcome, Outcome::Works { .. }) {
            measured = measured.with("why", outcome.to_string());
        }
        measured
    }
}
