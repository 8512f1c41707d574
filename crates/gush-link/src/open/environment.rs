//! The environment of a program: the variables of its client.

use std::net::SocketAddr;
use std::process::Command;

use super::Client;

/// Variables of the service manager for this process only (sd_listen_fds(3)).
const NOT_FOR_CHILDREN: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// Sets the variables that socat sets, under socat's names and without socat's prefix.
pub(super) fn set(command: &mut Command, client: Option<Client>) {
    for variable in NOT_FOR_CHILDREN {
        command.env_remove(variable);
    }
    let Some(Client { peer, local }) = client else { return };
    let host = |address: Option<SocketAddr>| address.map(|address| address.ip().to_string());
    let port = |address: Option<SocketAddr>| address.map(|address| address.port().to_string());
    let variables = [
        ("PEERADDR", host(peer)),
        ("PEERPORT", port(peer)),
        ("SOCKADDR", host(local)),
        ("SOCKPORT", port(local)),
    ];
    for (name, value) in variables {
        for name in [name.to_owned(), format!("SOCAT_{name}")] {
            // An inherited one is another client's.
            match &value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}
