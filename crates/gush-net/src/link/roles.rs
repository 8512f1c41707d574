//! Which address serves, and which is opened for each client.

use std::time::Duration;

use super::record::Failure;
use crate::address::{Address, Kind, Opt};

/// As long as a firewall keeps a flow that was answered in mind, or longer.
const SILENCE: Duration = Duration::from_secs(60);

/// The two addresses of a link by what they do.
#[derive(Debug)]
pub(super) struct Roles {
    /// The one whose clients are served, if one listens.
    pub server: Option<Address>,
    /// The first address, unless it serves.
    pub first: Option<Address>,
    /// The second address, unless it serves.
    pub second: Option<Address>,
}

impl Roles {
    /// The address that says `fork` serves; without the word the first that listens does.
    pub fn of(first: Address, second: Address) -> Result<Self, Failure> {
        let forks = |address: &Address| address.options().is_on(Opt::Fork);
        if forks(&first) && forks(&second) {
            let why = "both addresses say fork: say it at the one whose clients are to be served, \
                       the other is opened for each of them";
            return Err(Failure::new(why, None));
        }
        let second_serves = second.kind().listens() && !first.kind().listens();
        Ok(if forks(&second) || (second_serves && !forks(&first)) {
            Self { server: Some(second), first: Some(first), second: None }
        } else if first.kind().listens() {
            Self { server: Some(first), first: None, second: Some(second) }
        } else {
            Self { server: None, first: Some(first), second: Some(second) }
        })
    }

    /// Is every client served, not one?
    pub fn forks(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.options().is_on(Opt::Fork))
    }

    /// How long a client may be silent if nobody says so: senders of datagrams come and go without a word.
    pub fn idle(&self) -> Option<Duration> {
        let is_udp = self.server.as_ref().is_some_and(|server| server.kind() == Kind::UdpListen);
        (is_udp && self.forks()).then_some(SILENCE)
    }

    /// How many clients are served at once, where the user says so.
    pub fn max_children(&self) -> Option<usize> {
        let most = self.server.as_ref()?.options().count(Opt::MaxChildren)?;
        usize::try_from(most).ok()
    }

    /// The address that is opened for each client of the server.
    pub fn other(&self) -> Option<&Address> {
        self.server.as_ref()?;
        self.first.as_ref().or(self.second.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(first: &str, second: &str) -> Result<Roles, Failure> {
        Roles::of(first.parse().expect("an address"), second.parse().expect("an address"))
    }

    #[test]
    fn whoever_says_fork_serves_and_else_the_first_that_listens() {
        let cases = [
            ("-", "tcp:a:1", None),
            ("tcp-listen:1", "tcp:a:1", Some("tcp-listen:1")),
            ("-", "tcp-listen:2", Some("tcp-listen:2")),
            ("tcp-listen:1", "tcp-listen:2", Some("tcp-listen:1")),
            ("tcp-listen:1", "tcp-listen:2,fork", Some("tcp-listen:2,fork")),
        ];
        for (first, second, server) in cases {
            let roles = roles(first, second).expect("no contradiction");
            let told = roles.server.as_ref().map(ToString::to_string);
            assert_eq!(told.as_deref(), server, "{first} {second}");
            assert_eq!(roles.other().is_some(), server.is_some());
        }
        assert!(roles("tcp-listen:1,fork", "tcp-listen:2,fork").is_err());
    }
}
