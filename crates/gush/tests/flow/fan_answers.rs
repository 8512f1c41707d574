//! Single answers to a fan's calls, and the required next step.

use gush::flow::{Buf, Fan, FanNext, FanOp, Lender, Op, PortState, Shelf, Spread, Terms};
use gush::pipe::{PipeLoan, Pool};
use gush::{Errno, Kind};

/// Lends, and counts the buffers that are out.
struct Counting(Shelf, usize);

impl Counting {
    fn new() -> Self {
        Self(Shelf::new(Pool::new(16 << 20, 16)), 0)
    }
}

impl Lender for Counting {
    fn pipe(&mut self) -> Option<PipeLoan> {
        self.0.pipe()
    }

    fn buf(&mut self, bytes: usize) -> Result<Buf, Errno> {
        self.1 += 1;
        self.0.buf(bytes)
    }

    fn take_back(&mut self, buf: Buf) {
        self.1 -= 1;
        self.0.take_back(buf);
    }
}

fn fan(targets: &[Kind]) -> Fan {
    let states: Vec<_> = targets.iter().map(|&kind| PortState::known(kind, true)).collect();
    Fan::between(PortState::known(Kind::Pipe, true), &states, &Terms::default()).expect("a fan")
}

/// The bytes of one intake here.
const BYTES: usize = 100;

/// Passes one intake on to every target, where each splice to a file is answered by `answer`;
/// answers the calls on the source, and the one that comes after everything was delivered.
fn pass_on(fan: &mut Fan, lender: &mut Counting, answer: Result<usize, Errno>) -> Vec<FanOp> {
    let mut takes = Vec::new();
    loop {
        let op = match fan.next(u64::MAX, lender) {
            FanNext::Do(op) => op,
            other => panic!("{other:?}"),
        };
        if let FanOp::Intake(Op::Fill(_) | Op::Read(_)) = op {
            takes.push(op);
            if takes.len() == 2 {
                return takes;
            }
        }
        let answer = if let FanOp::Lane(_, Op::Empty) = op { answer } else { Ok(BYTES) };
        fan.learn(op, answer);
    }
}

/// References are given up for all targets once more targets need a copy than are spared one.
#[test]
fn one_target_that_refuses_references_does_not_cost_the_others_theirs() {
    use Kind::{File, Pipe};
    for (targets, goes_on) in [(&[Pipe, Pipe, File][..], true), (&[Pipe, File, File], false)] {
        for refused in [true, false] {
            let (mut fan, mut lender) = (fan(targets), Counting::new());
            let answer = if refused { Err(Errno::INVAL) } else { Ok(BYTES) };
            let takes = pass_on(&mut fan, &mut lender, answer);
            assert!(matches!(takes[0], FanOp::Intake(Op::Fill(_))), "{targets:?}: {takes:?}");
            let by_reference = matches!(takes[1], FanOp::Intake(Op::Fill(_)));
            assert_eq!(by_reference, goes_on || !refused, "{targets:?}, refused: {refused}");
            for target in 0..targets.len() as u16 {
                assert_eq!(fan.delivered_bytes(target), BYTES as u64, "{targets:?}, {target}");
            }
        }
    }
}

/// The memory of a lost target is there for the others at once.
#[test]
fn the_buffer_of_a_target_that_is_lost_comes_back() {
    let (mut fan, mut lender) = (fan(&[Kind::Pipe, Kind::File]), Counting::new());
    let lost = loop {
        let op = match fan.next(u64::MAX, &mut lender) {
            FanNext::Do(op) => op,
            FanNext::Lost(target) => break target,
            other => panic!("{other:?}"),
        };
        let answer = match op {
            FanOp::Lane(1, Op::Empty) => Err(Errno::INVAL),
            FanOp::Lane(1, Op::Write) => {
                assert_eq!(lender.1, 1, "what was refused is written out of a buffer");
                Err(Errno::NOSPC)
            }
            _ => Ok(BYTES),
        };
        fan.learn(op, answer);
    };
    assert_eq!((lost, lender.1), (1, 0));
}

/// The number of a target has 16 bits.
#[test]
fn a_fan_has_as_many_targets_as_it_can_number() {
    let pipe = PortState::known(Kind::Pipe, true);
    let between = |targets| Fan::between(pipe, &vec![pipe; targets], &Terms::default());
    assert_eq!(between(65_535).expect("a fan").targets(), 65_535);
    let refusal = between(65_536).expect_err("one too many");
    assert!(refusal.why.contains("65,535"), "{}", refusal.why);
}
