//! How many clients the process has descriptors for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A client's own descriptor, that of the other address, and a pipe between.
const DESCRIPTORS_EACH: u64 = 4;
/// Standard streams, runtimes, listeners, a log, the metrics and their scrapers.
const DESCRIPTORS_APART: u64 = 48;
/// More are never waited for at once.
const MOST: usize = 1 << 20;

/// Raises the limit on descriptors as far as it may be raised, and says for how many clients it is enough.
pub(super) fn most_clients() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the limit as it was, which is counted with then.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    clients(getrlimit(Resource::Nofile).current)
}

fn clients(descriptors: Option<u64>) -> usize {
    let Some(descriptors) = descriptors else { return MOST };
    let clients = descriptors.saturating_sub(DESCRIPTORS_APART) / DESCRIPTORS_EACH;
    usize::try_from(clients).unwrap_or(MOST).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_always_tried() {
        assert_eq!(clients(Some(0)), 1);
        assert_eq!(clients(Some(1024)), 244);
        assert_eq!(clients(None), MOST);
    }
}
