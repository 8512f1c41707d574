//! From names to addresses of the Internet.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use dns_lookup::{AddrInfoHints, LookupErrorKind, getaddrinfo};
use tokio::sync::{Semaphore, oneshot};

use super::error::OpenError;
use crate::address::Family;

/// What is looked up.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub family: Option<Family>,
    /// `None` is every local address.
    pub host: Option<String>,
    pub port: String,
    pub datagrams: bool,
    /// To listen there, not to connect.
    pub local: bool,
}

/// How long a lookup may take, its turn included.
const LIMIT: Duration = Duration::from_secs(30);

/// Every address of the name, in the order that the system prefers (getaddrinfo(3), gai.conf(5)).
pub(super) async fn resolve(name: Name) -> Result<Vec<SocketAddr>, OpenError> {
    if let Some(address) = literal(&name) {
        return Ok(vec![address]);
    }
    let shown = match &name.host {
        Some(host) => format!("resolve {host}"),
        None => format!("resolve port {}", name.port),
    };
    let found = tokio::time::timeout(LIMIT, in_thread(&LOOKUPS, move || look_up(&name))).await;
    let answer = match found {
        Ok(found) => found.unwrap_or_else(|error| {
            Err(OpenError::new("", error).hinted("a lookup takes a thread of its own (ulimit -u)"))
        }),
        Err(_) => {
            Err(OpenError::said("", format!("the name servers do not answer within {LIMIT:?}"))
                .hinted("check the network and /etc/resolv.conf, or write the address in numbers")
                .passing(true))
        }
    };
    answer.map_err(|error| error.step_is(shown))
}

/// Lookups at once. A name server that does not answer holds each for half a minute; the others wait their turn.
static LOOKUPS: Semaphore = Semaphore::const_new(16);

/// Runs `work`, which the C library holds up for as long as the network takes, in a thread; nobody waits for the
/// thread when the answer is not wanted any more.
///
/// # Errors
/// What starting a thread answers.
async fn in_thread<T: Send + 'static>(
    places: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let place = places.acquire().await.map_err(io::Error::other)?;
    let (tell, told) = oneshot::channel();
    let thread = thread::Builder::new().name("gush-lookup".into());
    thread.spawn(move || {
        // Whoever has given up left the thread at work: its place is taken until it is done.
        let _place = place;
        let _ = tell.send(work());
    })?;
    told.await.map_err(io::Error::other)
}

/// Numbers need no thread.
fn literal(name: &Name) -> Option<SocketAddr> {
    let port = name.port.parse().ok()?;
    let ip: IpAddr = name.host.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

fn look_up(name: &Name) -> Result<Vec<SocketAddr>, OpenError> {
    let hints = AddrInfoHints {
        flags: if name.local { libc::AI_PASSIVE } else { 0 },
        address: match name.family {
            None => libc::AF_UNSPEC,
            Some(Family::V4) => libc::AF_INET,
            Some(Family::V6) => libc::AF_INET6,
        },
        socktype: if name.datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM },
        protocol: 0,
    };
    let found = getaddrinfo(name.host.as_deref(), Some(&name.port), Some(hints)).map_err(|error| {
        let kind = error.kind();
        let passes = matches!(kind, LookupErrorKind::NoName | LookupErrorKind::Again | LookupErrorKind::Fail);
        match kind {
            LookupErrorKind::NoName => OpenError::said("", "no such host is known")
                .hinted("check the spelling; the hosts of this machine are in /etc/hosts, others need a name server"),
            LookupErrorKind::Again => OpenError::said("", "the name servers do not answer")
                .hinted("check the network and /etc/resolv.conf, or write the address in numbers"),
            LookupErrorKind::Service => OpenError::said("", format!("no service is called {}", name.port))
                .hinted("write the port as a number, or add the service to /etc/services"),
            _ => OpenError::new("", io::Error::from(error)),
        }
        .passing(passes)
    })?;
    let mut addresses = Vec::new();
    for info in found.flatten() {
        if !addresses.contains(&info.sockaddr) {
            addresses.push(info.sockaddr);
        }
    }
    if addresses.is_empty() {
        return Err(OpenError::said("", "the name has no address"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, mpsc};

    use super::*;

    #[tokio::test]
    async fn lookups_that_hang_take_few_threads_and_keep_their_places() {
        static PLACES: Semaphore = Semaphore::const_new(2);
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(3)));
        let (done, is_done) = mpsc::channel();
        let lookups: Vec<_> = (0..6)
            .map(|_| {
                let done = done.clone();
                tokio::spawn(in_thread(&PLACES, move || {
                    STARTED.fetch_add(1, Ordering::SeqCst);
                    barrier.wait();
                    done.send(()).expect("the test waits");
                }))
            })
            .collect();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // Given up, they are at work all the same.
        lookups.iter().for_each(tokio::task::JoinHandle::abort);
        let next = tokio::spawn(in_thread(&PLACES, || ()));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(STARTED.load(Ordering::SeqCst) <= 2 && !next.is_finished());
        barrier.wait();
        (0..2).for_each(|_| is_done.recv().expect("they end"));
        next.await.expect("no panic").expect("a thread");
        assert_eq!(STARTED.load(Ordering::SeqCst), 2);
    }
}
