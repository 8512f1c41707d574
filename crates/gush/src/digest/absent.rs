//! Without the feature `digest` nobody can ask for a hash: a type of which there is no value.

#[derive(Clone, Debug)]
pub(crate) enum Hasher {}

impl Hasher {
    pub(crate) fn if_wanted(_wanted: bool) -> Option<Self> {
        None
    }

    pub(crate) fn add(&self, _bytes: &[u8]) {
        match *self {}
    }
}
