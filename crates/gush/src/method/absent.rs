//! The place of a technique that this build leaves out: refused, with that as the reason.

use super::{Method, MethodName, Pair, Refusal, Setup, Start, Traits};
use crate::kernel::Kernel;

#[derive(Debug)]
pub(super) struct Absent {
    pub(super) name: MethodName,
    pub(super) why: &'static str,
}

impl Method for Absent {
    fn name(&self) -> MethodName {
        self.name
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }

    fn serves(&self, _pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        Err(Refusal::because(self.name, self.why))
    }

    fn start<'fd>(&self, _pair: &Pair<'fd>, _setup: &Setup) -> Result<Start<'fd>, Refusal> {
        Err(Refusal::because(self.name, self.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::tuning::Tuning;

    #[test]
    fn a_technique_that_was_left_out_says_so_instead_of_moving() {
        let file = tempfile::tempfile().expect("a file");
        let end = Endpoint::of(&file).expect("an endpoint");
        let pair = Pair {
            source: end,
            target: end,
            source_at: None,
            target_at: None,
            length_bytes: None,
            expected_bytes: None,
        };
        let setup = Setup::of(&Tuning::default());
        let absent = Absent { name: MethodName::Uring, why: "left out" };
        let refusal = absent.serves(&pair, Kernel::get()).expect_err("a refusal");
        assert_eq!(refusal.to_string(), "uring cannot serve this: left out");
        assert_eq!(absent.start(&pair, &setup).err(), Some(refusal));
    }
}
