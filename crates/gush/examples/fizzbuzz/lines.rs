//! The text of FizzBuzz from any number on, 3000 lines at a time.
//!
//! After 3000 lines both the pattern (15 lines) and the last three digits (1000 lines) begin again.
//! One [`Block`] of them is kept as text, in the first-level cache: the words and the last three
//! digits never change, and of the digits before them mostly the lowest. From one block to the next
//! these go up by three, which is one addition for eight digits at once ([`Tail`]) in each thousand
//! of the block, stored over the old ones at places that are constants of the digit count. Then the
//! block is copied out, which libc's memcpy does with the widest registers there are: plain stores
//! and that copy make a line in about 0.3 ns, so that nothing here asks for vectors by name.
//!
//! Blocks of 300 lines were slower (their copies are short), and those of 30 000, which no longer
//! fit the first-level cache, slower still.
//!
//! A power of ten is 1000 (mod 3000), so blocks that begin there fill every digit count completely.

/// Digits at a number's end that a block keeps.
const KEPT_DIGITS: usize = 3;
/// Where blocks begin, modulo their lines; also how many lines share the digits before the kept
/// ones.
const PHASE: u64 = 10_u64.pow(KEPT_DIGITS as u32);
/// Lines of a block.
const LINES: u64 = 3 * PHASE;
/// Lines of a group, all of the same shape within a digit count.
const GROUP_LINES: usize = 15;
/// Groups of a block.
const GROUPS: usize = LINES as usize / GROUP_LINES;
/// The group, and the line in it, where the second and the third thousand of a block begin.
const SECOND: (usize, usize) = (PHASE as usize / GROUP_LINES, PHASE as usize % GROUP_LINES);
const THIRD: (usize, usize) = (2 * PHASE as usize / GROUP_LINES, 2 * PHASE as usize % GROUP_LINES);
/// Numbers among the lines of a group.
const NUMBERS: usize = 8;
/// Digits of the largest number.
const MOST_DIGITS: usize = 20;
/// Digits of the shortest number that has some before the kept ones.
const LEAST_DIGITS: usize = KEPT_DIGITS + 1;

/// The word for a number, if the digits are not written out.
const fn word(number: u64) -> Option<&'static [u8]> {
    match (number % 3, number % 5) {
        (0, 0) => Some(b"FizzBuzz\n"),
        (0, _) => Some(b"Fizz\n"),
        (_, 0) => Some(b"Buzz\n"),
        _ => None,
    }
}

/// The lines from a number on, to be taken in pieces of any size.
pub struct Lines {
    next: u64,
    left: u64,
    text: Text,
    /// Bytes of the text already taken.
    taken: usize,
}

enum Text {
    Block(Block),
    Plain(Vec<u8>),
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Text::Block(block) => &block.text,
            Text::Plain(text) => text,
        }
    }
}

impl Lines {
    /// At most `lines` lines from the number `from`, which is not 0; the last is that of
    /// `u64::MAX`.
    pub fn new(from: u64, lines: u64) -> Self {
        let left = lines.min((u64::MAX - from).saturating_add(1));
        Self { next: from, left, text: Text::Plain(Vec::new()), taken: 0 }
    }

    /// Fills all of `out`, or less if the lines end before; returns the number of bytes.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        loop {
            let text = &self.text.bytes()[self.taken..];
            let len = text.len().min(out.len() - filled);
            out[filled..filled + len].copy_from_slice(&text[..len]);
            filled += len;
            self.taken += len;
            if filled == out.len() || !self.go_on() {
                return filled;
            }
        }
    }

    /// Makes the next text, once the last one is taken; `false` when there is none.
    fn go_on(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.taken = 0;
        let lines = if self.next % LINES == PHASE && self.left >= LINES && self.next >= PHASE {
            match &mut self.text {
                Text::Block(block) if self.next < block.beyond => block.advance(),
                text => *text = Text::Block(Block::new(self.next)),
            }
            LINES
        } else {
            let to_block = LINES - (self.next % LINES + LINES - PHASE) % LINES;
            let lines = to_block.min(self.left);
            self.text = Text::Plain(plain(self.next, lines));
            lines
        };
        // Beyond the largest number nothing is left.
        self.next = self.next.wrapping_add(lines);
        self.left -= lines;
        true
    }
}

/// Lines where no block fits: up to the first block, and after the last.
fn plain(first: u64, lines: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines as usize * (MOST_DIGITS + 1));
    for number in first..=first + (lines - 1) {
        match word(number) {
            Some(word) => text.extend_from_slice(word),
            None => {
                text.extend_from_slice(number.to_string().as_bytes());
                text.push(b'\n');
            }
        }
    }
    text
}

/// 3000 lines of numbers with equally many digits: each is a head and the kept digits.
struct Block {
    text: Vec<u8>,
    /// The head in the first thousand lines; the head grows by one with each further thousand.
    head: u64,
    tails: [Tail; 3],
    /// Blocks for which no digit above the tails changes.
    quiet: u64,
    /// The first number with more digits.
    beyond: u64,
    shape: &'static Shape,
}

impl Block {
    fn new(first: u64) -> Self {
        let shape = &SHAPES[first.ilog10() as usize + 1 - LEAST_DIGITS];
        let mut block = Self {
            text: plain(first, LINES),
            head: first / PHASE,
            tails: [Tail(0); 3],
            quiet: 0,
            beyond: 10_u64.checked_pow(first.ilog10() + 1).unwrap_or(u64::MAX),
            shape,
        };
        block.read_tails();
        block
    }

    fn heads(&self) -> [u64; 3] {
        [0, 1, 2].map(|thousand| self.head + thousand)
    }

    fn read_tails(&mut self) {
        let modulus = self.shape.tail_modulus;
        self.tails = self.heads().map(Tail::of);
        self.quiet = (modulus - 1 - self.head % modulus).saturating_sub(2) / 3;
    }

    fn advance(&mut self) {
        self.head += 3;
        if self.quiet > 0 {
            self.quiet -= 1;
            self.tails = self.tails.map(Tail::plus_3);
            (self.shape.store_tails)(&mut self.text, self.tails);
        } else {
            self.read_tails();
            let heads = self.heads();
            (self.shape.store_heads)(&mut self.text, heads);
        }
    }
}

/// The last eight decimal digits of a number, a byte each, the lowest in the lowest byte.
#[derive(Clone, Copy)]
struct Tail(u64);

impl Tail {
    fn of(number: u64) -> Self {
        let digits = (0..8).map(|place| ((number / 10_u64.pow(place)) % 10) << (8 * place));
        Self(digits.sum())
    }

    /// Each digit is raised to 246..=255, so that a carry out of 9 leaves the byte; bytes that no
    /// carry left are lowered again.
    fn plus_3(self) -> Self {
        const RAISED: u64 = 0xF6F6_F6F6_F6F6_F6F6;
        const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
        let sum = self.0.wrapping_add(RAISED).wrapping_add(3);
        Self(sum - (sum & HIGH_BITS) / 0x80 * 0xF6)
    }

    fn ascii(self) -> [u8; 8] {
        (self.0 | 0x3030_3030_3030_3030).to_be_bytes()
    }
}

/// How the digits of one digit count are stored.
struct Shape {
    /// Ten to the power of how many digits `store_tails` stores.
    tail_modulus: u64,
    store_tails: fn(&mut [u8], [Tail; 3]),
    store_heads: fn(&mut [u8], [u64; 3]),
}

/// The shape of numbers with heads of `HEAD` digits, the last `TAIL` of which are stored as tails;
/// a group of lines has `LEN` bytes.
struct Of<const HEAD: usize, const TAIL: usize, const LEN: usize>;

impl<const HEAD: usize, const TAIL: usize, const LEN: usize> Of<HEAD, TAIL, LEN> {
    const SHAPE: Shape = Shape {
        tail_modulus: 10_u64.pow(TAIL as u32),
        store_tails: Self::store_tails,
        store_heads: Self::store_heads,
    };

    /// Each number of a group: which line, and where it begins.
    const PLACES: [(usize, usize); NUMBERS] = {
        let mut places = [(0, 0); NUMBERS];
        let (mut line, mut found, mut at) = (0, 0, 0);
        while line < GROUP_LINES {
            at += match word(PHASE + line as u64) {
                Some(word) => word.len(),
                None => {
                    places[found] = (line, at);
                    found += 1;
                    HEAD + KEPT_DIGITS + 1
                }
            };
            line += 1;
        }
        assert!(found == NUMBERS && at == LEN && TAIL <= HEAD);
        places
    };

    fn store_tails(text: &mut [u8], tails: [Tail; 3]) {
        let tails = tails.map(|tail| {
            let mut last = [0; TAIL];
            last.copy_from_slice(&tail.ascii()[8 - TAIL..]);
            last
        });
        Self::store(text, tails);
    }

    fn store_heads(text: &mut [u8], heads: [u64; 3]) {
        let heads = heads.map(|head| {
            let mut digits = [0; HEAD];
            digits.copy_from_slice(head.to_string().as_bytes());
            digits
        });
        Self::store(text, heads);
    }

    /// Stores digits of the three heads so that they end where the heads end.
    #[inline(always)]
    fn store<const LAST: usize>(text: &mut [u8], [a, b, c]: [[u8; LAST]; 3]) {
        let (groups, _) = text.as_chunks_mut::<LEN>();
        let Ok(groups) = <&mut [[u8; LEN]; GROUPS]>::try_from(groups) else { return };
        groups[..SECOND.0].iter_mut().for_each(|group| Self::store_group(group, |_| a));
        Self::store_group(&mut groups[SECOND.0], |line| if line < SECOND.1 { a } else { b });
        groups[SECOND.0 + 1..THIRD.0].iter_mut().for_each(|group| Self::store_group(group, |_| b));
        Self::store_group(&mut groups[THIRD.0], |line| if line < THIRD.1 { b } else { c });
        groups[THIRD.0 + 1..].iter_mut().for_each(|group| Self::store_group(group, |_| c));
    }

    #[inline(always)]
    fn store_group<const LAST: usize>(group: &mut [u8; LEN], digits: impl Fn(usize) -> [u8; LAST]) {
        for (line, at) in Self::PLACES {
            group[at + HEAD - LAST..at + HEAD].copy_from_slice(&digits(line));
        }
    }
}

/// By digit count, from [`LEAST_DIGITS`] on.
static SHAPES: [Shape; MOST_DIGITS + 1 - LEAST_DIGITS] = [
    Of::<1, 1, 79>::SHAPE,
    Of::<2, 2, 87>::SHAPE,
    Of::<3, 3, 95>::SHAPE,
    Of::<4, 4, 103>::SHAPE,
    Of::<5, 4, 111>::SHAPE,
    Of::<6, 4, 119>::SHAPE,
    Of::<7, 4, 127>::SHAPE,
    Of::<8, 8, 135>::SHAPE,
    Of::<9, 8, 143>::SHAPE,
    Of::<10, 8, 151>::SHAPE,
    Of::<11, 8, 159>::SHAPE,
    Of::<12, 8, 167>::SHAPE,
    Of::<13, 8, 175>::SHAPE,
    Of::<14, 8, 183>::SHAPE,
    Of::<15, 8, 191>::SHAPE,
    Of::<16, 8, 199>::SHAPE,
    Of::<17, 8, 207>::SHAPE,
];
