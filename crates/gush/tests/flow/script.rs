//! A kernel that answers from a script.

use gush::Errno;

/// The answer to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As many bytes as were asked for.
    Full,
    /// About half of them.
    Short,
    One,
    Zero,
    Again,
    Interrupted,
    /// EINVAL: not this way.
    Refused,
    /// EIO.
    Error,
    /// EPIPE: the target has no reader.
    Deserted,
}

impl Answer {
    /// `Deserted` last: only a flow treats it otherwise than any error.
    pub const ALL: [Answer; 9] = [
        Answer::Full,
        Answer::Short,
        Answer::One,
        Answer::Zero,
        Answer::Again,
        Answer::Interrupted,
        Answer::Refused,
        Answer::Error,
        Answer::Deserted,
    ];

    /// The answer to a call that may move at most `most` bytes.
    pub fn to(self, most: usize) -> Result<usize, Errno> {
        match self {
            Answer::Full => Ok(most),
            Answer::Short => Ok(most.div_ceil(2)),
            Answer::One => Ok(most.min(1)),
            Answer::Zero => Ok(0),
            Answer::Again => Err(Errno::AGAIN),
            Answer::Interrupted => Err(Errno::INTR),
            Answer::Refused => Err(Errno::INVAL),
            Answer::Error => Err(Errno::IO),
            Answer::Deserted => Err(Errno::PIPE),
        }
    }
}

/// The answers to come; none when they are used up.
pub struct Script {
    answers: Vec<Answer>,
    at: usize,
}

impl Script {
    pub fn of(digits: &[usize]) -> Self {
        Self { answers: digits.iter().map(|&digit| Answer::ALL[digit]).collect(), at: 0 }
    }

    /// Mostly bytes, so that a long script gets somewhere.
    pub fn random(seed: u64, len: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut answer = || match random.u8(..100) {
            0..30 => Answer::Full,
            30..55 => Answer::Short,
            55..70 => Answer::One,
            70..76 => Answer::Zero,
            76..90 => Answer::Again,
            90..97 => Answer::Interrupted,
            97 => Answer::Deserted,
            98 => Answer::Refused,
            _ => Answer::Error,
        };
        Self { answers: (0..len).map(|_| answer()).collect(), at: 0 }
    }

    pub fn next(&mut self) -> Option<Answer> {
        let answer = self.answers.get(self.at).copied();
        self.at += usize::from(answer.is_some());
        answer
    }

    pub fn used(&self) -> usize {
        self.at
    }
}

/// Plays every sequence of `depth` of these answers, the first ones of [`Answer::ALL`]; `play`
/// returns how many of them it took. Returns the number of sequences played.
pub fn every(depth: usize, answers: usize, mut play: impl FnMut(&mut Script) -> usize) -> u64 {
    let mut scripts = 0;
    let mut digits = vec![0; depth];
    loop {
        let used = play(&mut Script::of(&digits));
        scripts += 1;
        // Answers after the last one that was asked for make no difference: skip them all.
        let last = used.clamp(1, depth);
        digits[last..].fill(0);
        let Some(at) = (0..last).rev().find(|&at| digits[at] + 1 < answers) else {
            return scripts;
        };
        digits[at] += 1;
        digits[at + 1..].fill(0);
    }
}
