//! Names to Internet addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use dns_lookup::{AddrInfoHints, LookupErrorKind, getaddrinfo};
use gush_text::with_unit;
use tokio::sync::{Semaphore, oneshot};

use super::error::OpenError;
use crate::address::Family;

/// The name to look up, and the use of the address.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    pub family: Option<Family>,
    /// `None` means every local address.
    pub host: Option<String>,
    pub port: String,
    pub datagrams: bool,
    /// The address is for a listener, not for a connection.
    pub local: bool,
}

/// The limit on a lookup, the wait for a thread included.
const LIMIT: Duration = Duration::from_secs(30);

/// All addresses of the name, in the system's order of preference (getaddrinfo(3), gai.conf(5)); of
/// receivers of datagrams those of IPv4 first.
pub(super) async fn resolve(name: Lookup) -> Result<Vec<SocketAddr>, OpenError> {
    if let Some(address) = literal(&name) {
        return Ok(vec![address]);
    }
    let shown = match &name.host {
        Some(host) => format!("resolve {host}"),
        None => format!("resolve port {}", name.port),
    };
    in_time(&LOOKUPS, move || look_up(&name)).await.map_err(|error| error.step_is(shown))
}

/// The answer of a lookup, or a failure after [`LIMIT`].
async fn in_time(
    places: &'static Semaphore,
    look_up: impl FnOnce() -> Result<Vec<SocketAddr>, OpenError> + Send + 'static,
) -> Result<Vec<SocketAddr>, OpenError> {
    match gush_net::within(LIMIT, in_thread(places, look_up)).await {
        Ok(found) => found.unwrap_or_else(|error| {
            Err(OpenError::new("", error).hinted("a lookup needs a thread (ulimit -u)"))
        }),
        Err(_) => {
            let why = format!("the name servers do not answer within {}", with_unit(LIMIT));
            Err(OpenError::said("", why)
                .hinted("check the network and /etc/resolv.conf, or write the address in numbers")
                .passing(true))
        }
    }
}

/// The most lookups at once, each of which may take half a minute; further ones wait.
static LOOKUPS: Semaphore = Semaphore::const_new(16);

/// Runs `work`, which blocks in the C library, on a thread. A caller may stop waiting.
///
/// # Errors
/// When no thread can be started.
async fn in_thread<T: Send + 'static>(
    places: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let place = places.acquire().await.map_err(io::Error::other)?;
    let (sender, result) = oneshot::channel();
    let thread = thread::Builder::new().name("gush-lookup".into());
    thread.spawn(move || {
        // Also if the caller no longer waits.
        let _place = place;
        let _ = sender.send(work());
    })?;
    result.await.map_err(io::Error::other)
}

/// The address in numbers, which needs no thread.
fn literal(name: &Lookup) -> Option<SocketAddr> {
    in_numbers(name.host.as_deref()?, &name.port)
}

/// The address of a host and a port that are both numbers.
pub(super) fn in_numbers(host: &str, port: &str) -> Option<SocketAddr> {
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.parse().ok()?))
}

fn look_up(name: &Lookup) -> Result<Vec<SocketAddr>, OpenError> {
    let hints = AddrInfoHints {
        // Without a host AI_PASSIVE means the wildcard address, not loopback (getaddrinfo(3)).
        flags: if name.local { libc::AI_PASSIVE } else { 0 },
        address: match name.family {
            None => libc::AF_UNSPEC,
            Some(Family::V4) => libc::AF_INET,
            Some(Family::V6) => libc::AF_INET6,
        },
        // Without a type every address is returned once for each.
        socktype: if name.datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM },
        protocol: 0,
    };
    let found = getaddrinfo(name.host.as_deref(), Some(&name.port), Some(hints)).map_err(|error| {
        let kind = error.kind();
        let passes = matches!(kind, LookupErrorKind::NoName | LookupErrorKind::Again | LookupErrorKind::Fail);
        let zone = name.host.as_deref().and_then(|host| host.split_once('%'));
        match (kind, zone) {
            (LookupErrorKind::NoName, Some((_, zone))) => {
                OpenError::said("", format!("no network interface is called {zone}"))
                    .hinted("`ip link` lists them")
            }
            (LookupErrorKind::NoName, None) => OpenError::said("", "no such host is known")
                .hinted("check the spelling; the hosts of this machine are in /etc/hosts, others need a name server"),
            (LookupErrorKind::Again, _) => OpenError::said("", "the name servers do not answer")
                .hinted("check the network and /etc/resolv.conf, or write the address in numbers"),
            (LookupErrorKind::Service, _) => OpenError::said("", format!("no service is called {}", name.port))
                .hinted("write the port as a number, or add the service to /etc/services"),
            _ => OpenError::new("", io::Error::from(error)),
        }
        .passing(passes)
    })?;
    let mut addresses = Vec::new();
    for info in found.flatten() {
        // A host with several lines in /etc/hosts has the same address repeatedly.
        if !addresses.contains(&info.sockaddr) {
            addresses.push(info.sockaddr);
        }
    }
    if addresses.is_empty() {
        return Err(OpenError::said("", "the name has no address"));
    }
    if name.datagrams && !name.local {
        // No answer shows whether an address has a receiver: most listen on IPv4, and socat sends
        // there.
        addresses.sort_by_key(SocketAddr::is_ipv6);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, mpsc};

    use tokio::time::Instant;

    use super::*;

    /// The clock stands still, and goes to the next timer when there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn name_servers_that_do_not_answer_are_given_up_after_half_a_minute() {
        static PLACES: Semaphore = Semaphore::const_new(1);
        let (answer, hang) = mpsc::channel::<()>();
        let began = Instant::now();
        let looked_up = in_time(&PLACES, move || {
            let _ = hang.recv();
            Ok(Vec::new())
        });
        let error = looked_up.await.expect_err("nobody answers");
        assert_eq!(began.elapsed().as_secs(), 30);
        assert!(error.to_string().contains("do not answer within 30 s"), "{error}");
        assert!(error.passes() && error.hint().is_some(), "{error}");

        // The lookup still has its place; waiting for one is within the limit, too.
        let began = Instant::now();
        in_time(&PLACES, || Ok(Vec::new())).await.expect_err("no place");
        assert_eq!(began.elapsed().as_secs(), 30);
        drop(answer);
        PLACES.acquire().await.expect("the place is given back").forget();
    }

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
