//! The parts of a random move.

use gush::{Choice, Holes, MethodName};
use proptest::prelude::*;

use crate::common::{SourceKind, TargetKind, methods_served_here};

/// A place in a file: its own position, or an offset that is named while the position is elsewhere.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Own(usize),
    Named(usize),
}

impl Place {
    pub fn offset(self) -> usize {
        match self {
            Place::Own(at) | Place::Named(at) => at,
        }
    }
}

/// The size of a block device that is a source.
const DEVICE_BYTES: usize = 65_536;

/// A move, and its circumstances.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub from: SourceKind,
    pub to: TargetKind,
    pub choice: Choice,
    pub len: usize,
    /// A range of the source that is zeros: punched, or written.
    pub zeros: Option<(usize, usize, bool)>,
    pub source: Place,
    pub target: Place,
    pub before_len: usize,
    pub length: Option<usize>,
    pub buffer_bytes: Option<usize>,
    pub pipe_bytes: Option<usize>,
    pub threads: usize,
    pub holes: Holes,
    pub digest: bool,
    pub isolated: bool,
    pub dawdle: bool,
    pub nonblocking: bool,
    /// The observer stops the move when so many bytes are through.
    pub stop_at: Option<u64>,
}

/// Around pages, blocks and buffers, where the mistakes are.
fn size(most: usize) -> impl Strategy<Value = usize> + Clone {
    let edges = prop::sample::select(vec![
        0, 1, 511, 512, 4095, 4096, 4097, 8191, 65_535, 65_536, 65_537, 131_072, 262_144, 262_145,
    ]);
    prop_oneof![4 => edges, 4 => 0..20_000usize, 2 => 0..400_000usize, 1 => 0..2_500_000usize]
        .prop_map(move |size| size.min(most))
}

/// Enough for several threads, now and then.
fn len() -> impl Strategy<Value = usize> {
    prop_oneof![60 => size(usize::MAX), 1 => (16usize << 20)..(18 << 20)]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        2 => Just(Place::Own(0)),
        2 => size(300_000).prop_map(Place::Own),
        2 => size(300_000).prop_map(Place::Named),
        // Aligned alike on both sides, as `direct` and `reflink` ask for it.
        1 => (0..20usize).prop_map(|block| Place::Named(block * 4096)),
    ]
}

fn choice() -> impl Strategy<Value = Choice> {
    let named = prop::sample::select(methods_served_here(MethodName::ALL)).prop_map(Choice::Only);
    prop_oneof![1 => Just(Choice::Auto), 6 => named]
}

/// Any move; block devices only where there are any.
pub fn any_plan(with_devices: bool) -> impl Strategy<Value = Plan> {
    let sources: Vec<_> = SourceKind::ALL
        .iter()
        .copied()
        // Files are what most methods are for.
        .chain([SourceKind::File, SourceKind::Tmpfs, SourceKind::Memfd, SourceKind::File])
        .filter(|&kind| with_devices || kind != SourceKind::Block)
        .collect();
    let targets: Vec<_> = TargetKind::ALL
        .iter()
        .copied()
        .chain([TargetKind::File, TargetKind::Tmpfs, TargetKind::Memfd, TargetKind::File])
        .filter(|&kind| with_devices || kind != TargetKind::Block)
        .collect();
    let ends = (prop::sample::select(sources), prop::sample::select(targets), choice(), len());
    let places = (
        place(),
        place(),
        size(600_000),
        prop::option::of(size(usize::MAX)),
        prop::option::weighted(0.3, (size(200_000), size(400_000), any::<bool>())),
    );
    let buffers = prop_oneof![
        Just(None),
        (64..300_000usize).prop_map(Some),
        Just(Some(4096)),
        Just(Some(1 << 20))
    ];
    let pipes = prop::option::of(prop::sample::select(vec![1usize, 4096, 16_384, 1 << 20]));
    let holes = prop::sample::select(vec![Holes::Keep, Holes::Keep, Holes::Make, Holes::Fill]);
    let tuning = (buffers, pipes, 1..5usize, holes);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let stop = prop::option::weighted(0.2, 0..600_000u64);
    (any::<u64>(), ends, places, tuning, flags, stop).prop_map(
        |(seed, (from, to, choice, len), places, tuning, flags, stop_at)| {
            let (source, target, before_len, length, zeros) = places;
            let (buffer_bytes, pipe_bytes, threads, holes) = tuning;
            let (digest, isolated, dawdle, nonblocking) = flags;
            let plan = Plan {
                seed,
                from,
                to,
                choice,
                len,
                zeros,
                source,
                target,
                before_len,
                length,
                buffer_bytes,
                pipe_bytes,
                threads,
                holes,
                digest,
                isolated,
                dawdle: dawdle && len < 1 << 20,
                nonblocking,
                stop_at,
            };
            plan.made_possible()
        },
    )
}

impl Plan {
    /// Within the abilities of the ends: no offsets in streams, datagrams that fit, devices of one
    /// size.
    fn made_possible(mut self) -> Self {
        self.len = self.len.min(self.from.most_bytes()).min(self.to.most_bytes());
        if !self.from.has_offsets() {
            self.source = Place::Own(0);
        }
        if !self.to.takes_offsets() {
            self.target = Place::Own(0);
        }
        if self.from == SourceKind::Block {
            self.len = DEVICE_BYTES;
            // No position is past a device's end.
            self.source = match self.source {
                Place::Own(at) => Place::Own(at.min(DEVICE_BYTES)),
                Place::Named(at) => Place::Named(at.min(DEVICE_BYTES)),
            };
        }
        if self.to == TargetKind::Block {
            self.len = self.len.min(500_000);
        }
        if self.from.is_datagram() || self.to.is_datagram() {
            self.buffer_bytes = Some(4096);
        }
        // A byte at a time takes its time.
        if self.len > 1 << 20 {
            self.buffer_bytes = self.buffer_bytes.map(|bytes| bytes.max(16_384));
        }
        let copies = matches!(self.from, SourceKind::File | SourceKind::Tmpfs | SourceKind::Memfd);
        self.zeros = self.zeros.filter(|_| copies).and_then(|(at, len, punched)| {
            let len = len.min(self.len.checked_sub(at)?);
            (len > 0).then_some((at, len, punched))
        });
        // Such a source never ends, and a datagram may not be cut.
        if !self.from.ends() {
            self.length = Some(self.len);
        } else if self.from.is_datagram() {
            self.length = None;
        }
        self
    }
}
