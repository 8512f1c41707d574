//! The halves of an end: what is read, and what is written.

use gush::Side;

/// A descriptor, or a stream without one: owned by a conduit, opened for a relay, or lent for a
/// poll.
#[derive(Debug)]
pub(crate) enum Half<F, S> {
    Fd(F),
    Stream(S),
}

/// One half that is read and written, or one for each.
#[derive(Debug)]
pub(crate) enum Halves<T> {
    Joint(T),
    /// Boxed, because most ends are one socket.
    Apart(Box<[Option<T>; 2]>),
}

impl<T> Halves<T> {
    pub(crate) fn apart(read: Option<T>, write: Option<T>) -> Self {
        Self::Apart(Box::new([read, write]))
    }

    pub(crate) fn get(&self, side: Side) -> Option<&T> {
        match self {
            Self::Joint(half) => Some(half),
            Self::Apart(halves) => halves[side as usize].as_ref(),
        }
    }

    pub(crate) fn get_mut(&mut self, side: Side) -> Option<&mut T> {
        match self {
            Self::Joint(half) => Some(half),
            Self::Apart(halves) => halves[side as usize].as_mut(),
        }
    }

    /// The half of one side alone; the other is dropped.
    pub(crate) fn into_half(self, side: Side) -> Option<T> {
        match self {
            Self::Joint(half) => Some(half),
            Self::Apart(mut halves) => halves[side as usize].take(),
        }
    }

    /// Each half once.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        let halves = match self {
            Self::Joint(half) => [Some(half), None],
            Self::Apart(halves) => halves.each_ref().map(Option::as_ref),
        };
        halves.into_iter().flatten()
    }

    /// Each half once.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let halves = match self {
            Self::Joint(half) => [Some(half), None],
            Self::Apart(halves) => halves.each_mut().map(Option::as_mut),
        };
        halves.into_iter().flatten()
    }
}
