//! Which of the two addresses serves clients, and which is opened for each of them.

use std::time::Duration;

use crate::address::{Address, Kind, Opt};
use crate::open::{changes_user, is_changed};
use crate::record::Failure;

/// At least as long as firewalls track an answered UDP flow.
const SILENCE: Duration = Duration::from_secs(60);

/// The two addresses of a link, and their roles.
#[derive(Debug)]
pub(crate) struct Roles {
    pub first: Address,
    pub second: Address,
    server: Option<Position>,
}

/// The address that serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    First,
    Second,
}

impl Roles {
    /// The address with `fork` serves; without `fork`, the first address that listens.
    pub fn of(first: Address, second: Address) -> Result<Self, Failure> {
        let forks = |address: &Address| address.options().is_on(Opt::Fork);
        let server = match (first.serves(), second.serves()) {
            (true, true) if forks(&first) && forks(&second) => {
                let why = "both addresses say fork: say it at the one whose clients are to be served, \
                           the other is opened for each of them";
                return Err(Failure::new(why, None));
            }
            (true, true) if forks(&second) => Some(Position::Second),
            (true, _) => Some(Position::First),
            (false, true) => Some(Position::Second),
            (false, false) => None,
        };
        let roles = Self { first, second, server };
        roles.check_shared()?;
        roles.check_identity()?;
        roles.check_lock_files()?;
        Ok(roles)
    }

    /// Refuses `shared` where no other clients are.
    fn check_shared(&self) -> Result<(), Failure> {
        let other = self.other().filter(|_| self.forks());
        for address in [&self.first, &self.second] {
            let parts = address.parts();
            let why = if !parts.iter().any(|part| part.options().is_on(Opt::Shared)) {
                continue;
            } else if other != Some(address) {
                "shared is for the clients of the other address, which needs fork"
            } else if !parts.iter().all(|part| is_shared(part)) {
                "shared is said of all parts of an address or of none: they are opened together"
            } else {
                continue;
            };
            return Err(Failure::new(format!("{address}: {why}"), None));
        }
        Ok(())
    }

    /// Refuses to become another user for one client, whose successors would need the rights again.
    fn check_identity(&self) -> Result<(), Failure> {
        let each = self.opened_for_each();
        let called = [&self.first, &self.second].into_iter().filter(|address| address.calls());
        let opened_often = called.chain(each).flat_map(Address::parts);
        let changes =
            |part: &&Address| !part.kind().row().runs_program && is_changed(part.options());
        match opened_often.filter(|part| !part.kind().listens()).find(changes) {
            None => Ok(()),
            Some(part) => {
                let why = "this is opened again and again, and a process that has become another \
                           user does not get its rights back";
                Err(Failure::new(format!("{part}: {why}"), None))
            }
        }
    }

    /// Refuses a lock file that would stay, because its maker has become another user meanwhile.
    fn check_lock_files(&self) -> Result<(), Failure> {
        let once = |address: &&Address| Some(*address) != self.opened_for_each();
        let parts: Vec<_> =
            [&self.first, &self.second].into_iter().filter(once).flat_map(Address::parts).collect();
        let becomes =
            |part: &&Address| !part.kind().row().runs_program && changes_user(part.options());
        let locks = |part: &&&Address| {
            [Opt::LockFile, Opt::WaitLock].iter().any(|&option| part.options().has(option))
        };
        match parts.iter().find(locks) {
            Some(part) if parts.iter().any(becomes) => {
                let why = "its lock file could not be removed by another user, or from another \
                           root directory: start gush as that user, with setpriv(1), or there";
                Err(Failure::new(format!("{part}: {why}"), None))
            }
            _ => Ok(()),
        }
    }

    /// The other address, if it is opened for each client.
    fn opened_for_each(&self) -> Option<&Address> {
        self.other().filter(|_| self.forks() && !self.shares_other())
    }

    /// Is the other address opened once for all clients?
    pub fn shares_other(&self) -> bool {
        let other = self.other().filter(|_| self.forks());
        other.is_some_and(|other| other.parts().into_iter().all(is_shared))
    }

    /// The address whose clients are served, if one listens.
    pub fn server(&self) -> Option<&Address> {
        self.server.map(|position| match position {
            Position::First => &self.first,
            Position::Second => &self.second,
        })
    }

    /// The address to open for each client of the server.
    pub fn other(&self) -> Option<&Address> {
        self.server.map(|position| match position {
            Position::First => &self.second,
            Position::Second => &self.first,
        })
    }

    /// Is the client at the second address?
    pub fn are_flipped(&self) -> bool {
        self.server == Some(Position::Second)
    }

    /// Are all clients served, not just the first?
    pub fn forks(&self) -> bool {
        self.server().is_some_and(|server| server.options().is_on(Opt::Fork))
    }

    /// The default idle limit: datagrams have no end. With `graceful` a sender that `udp-listen`
    /// serves stays, as with socat.
    pub fn idle(&self, graceful: bool) -> Option<Duration> {
        let is_datagrams = self.server().is_some_and(|server| {
            let stays = graceful && server.kind() == Kind::UdpListen;
            server.kind().row().is_datagrams && !stays
        });
        (is_datagrams && self.forks()).then_some(SILENCE)
    }

    /// The user's limit on clients served at once.
    pub fn max_children(&self) -> Option<usize> {
        let most = self.server()?.options().count(Opt::MaxChildren)?;
        usize::try_from(most).ok()
    }
}

/// An inherited descriptor is shared in any case: each copy has the same offset.
fn is_shared(part: &Address) -> bool {
    matches!(part.kind(), Kind::Stdio | Kind::Fd) || part.options().is_on(Opt::Shared)
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
            ("tcp:a:1,fork", "tcp-listen:2", Some("tcp:a:1,fork")),
            ("tcp-listen:1", "tcp:a:2,fork", Some("tcp:a:2,fork")),
        ];
        for (first, second, server) in cases {
            let roles = roles(first, second).expect("no contradiction");
            let serves = roles.server().map(ToString::to_string);
            assert_eq!(serves.as_deref(), server, "{first} {second}");
            assert_eq!(roles.other().is_some(), server.is_some());
        }
        assert!(roles("tcp-listen:1,fork", "tcp-listen:2,fork").is_err());
        assert!(roles("tcp-listen:1,fork", "tcp:a:2,fork").is_err());
    }

    #[test]
    fn the_process_changes_only_after_what_is_opened_once() {
        for (first, second, is_sound) in [
            ("tcp-listen:1,fork,su=nobody", "tcp:a:2", true),
            ("tcp-listen:1,fork", "exec:id,su=nobody", true),
            ("file:f,shared,su=nobody", "tcp-listen:1,fork", true),
            ("file:f,su=nobody", "tcp:a:1", true),
            ("tcp-listen:1,fork", "file:f,su=nobody", false),
            ("tcp-listen:1,fork", "file:f,chroot=/!!-", false),
            ("tcp:a:1,fork,setuid=1", "exec:id", false),
            // Nobody could remove a lock file of root's.
            ("tcp-listen:1,fork,su=nobody,lockfile=l", "pipe:", false),
            ("file:f,shared,waitlock=l", "tcp-listen:1,fork,chroot=/", false),
            ("tcp-listen:1,fork,su=nobody", "exec:id,lockfile=l", true),
            ("tcp-listen:1,fork,setgid=1,lockfile=l", "exec:id,su=nobody", true),
        ] {
            assert_eq!(roles(first, second).is_ok(), is_sound, "{first} {second}");
        }
    }

    #[test]
    fn only_flows_of_datagrams_end_by_themselves() {
        for (server, seconds, graceful_seconds) in [
            ("udp-listen:1,fork", Some(60), None),
            ("udp-recvfrom:1,fork", Some(60), Some(60)),
            ("udp-listen:1", None, None),
            ("tcp-listen:1,fork", None, None),
        ] {
            let roles = roles(server, "tcp:a:1").expect("no contradiction");
            for (graceful, seconds) in [(false, seconds), (true, graceful_seconds)] {
                let idle = roles.idle(graceful).map(|idle| idle.as_secs());
                assert_eq!(idle, seconds, "{server} {graceful}");
            }
        }
    }
}
