//! Which of the two addresses serves clients, and which is opened for each of them.

use std::time::Duration;

use crate::address::{Address, Opt};
use crate::record::Failure;

/// At least as long as firewalls track an answered UDP flow.
const SILENCE: Duration = Duration::from_secs(60);

/// The two addresses of a link by their roles.
#[derive(Debug)]
pub(crate) struct Roles {
    /// The address whose clients are served, if an address listens.
    pub server: Option<Address>,
    /// The first address, unless this address serves.
    pub first: Option<Address>,
    /// The second address, unless this address serves.
    pub second: Option<Address>,
}

impl Roles {
    /// The address with `fork` serves; without `fork`, the first address that listens.
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

    /// Are all clients served, not just the first?
    pub fn forks(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.options().is_on(Opt::Fork))
    }

    /// The default idle limit: datagrams have no end.
    pub fn idle(&self) -> Option<Duration> {
        let is_datagrams =
            self.server.as_ref().is_some_and(|server| server.kind().row().is_datagrams);
        (is_datagrams && self.forks()).then_some(SILENCE)
    }

    /// The user's limit on clients served at once.
    pub fn max_children(&self) -> Option<usize> {
        let most = self.server.as_ref()?.options().count(Opt::MaxChildren)?;
        usize::try_from(most).ok()
    }

    /// The address to open for each client of the server.
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
    fn the_address_with_fork_serves_or_else_the_first_that_listens() {
        let cases = [
            ("-", "tcp:a:1", None),
            ("tcp-listen:1", "tcp:a:1", Some("tcp-listen:1")),
            ("-", "tcp-listen:2", Some("tcp-listen:2")),
            ("tcp-listen:1", "tcp-listen:2", Some("tcp-listen:1")),
            ("tcp-listen:1", "tcp-listen:2,fork", Some("tcp-listen:2,fork")),
        ];
        for (first, second, server) in cases {
            let roles = roles(first, second).expect("no contradiction");
            let serves = roles.server.as_ref().map(ToString::to_string);
            assert_eq!(serves.as_deref(), server, "{first} {second}");
            assert_eq!(roles.other().is_some(), server.is_some());
        }
        assert!(roles("tcp-listen:1,fork", "tcp-listen:2,fork").is_err());
    }

    #[test]
    fn only_flows_of_datagrams_end_by_themselves() {
        for (server, seconds) in [
            ("udp-listen:1,fork", Some(60)),
            ("udp-recvfrom:1,fork", Some(60)),
            ("udp-listen:1", None),
            ("tcp-listen:1,fork", None),
        ] {
            let idle = roles(server, "tcp:a:1").expect("no contradiction").idle();
            assert_eq!(idle.map(|idle| idle.as_secs()), seconds, "{server}");
        }
    }
}
