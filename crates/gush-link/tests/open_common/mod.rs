//! Addresses opened, and talked to through a relay.
#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gush_link::address::Address;
use gush_link::open::{End, Listener, OpenError, OpenOptions, Opened, Peer, open};
use gush_net::{Conduit, Relay, RelayOptions};
pub use gush_test::{not_applicable, skipped};

/// Runs `work` on a runtime of its own; what takes longer than this hangs.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await });
    // A name that is still being looked up holds nobody up.
    runtime.shutdown_background();
    answer.expect("it hangs")
}

pub fn address(text: &str) -> Address {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub async fn one_as(text: &str, how: OpenOptions) -> Result<End, OpenError> {
    match open(&address(text), &how).await? {
        Opened::One(end) => Ok(end),
        Opened::Listener(_) => panic!("{text} listens"),
    }
}

pub async fn one(text: &str) -> Result<End, OpenError> {
    one_as(text, OpenOptions::default()).await
}

pub async fn listener(text: &str) -> Result<Listener, OpenError> {
    match open(&address(text), &OpenOptions::default()).await? {
        Opened::Listener(listener) => Ok(listener),
        Opened::One(_) => panic!("{text} does not listen"),
    }
}

pub fn port_of(listener: &Listener) -> u16 {
    socket_of(listener).port()
}

pub fn socket_of(listener: &Listener) -> SocketAddr {
    match listener.local().unwrap() {
        Peer::Ip(address) => address,
        other => panic!("{other}"),
    }
}

/// Sends `bytes` and the end of data to a conduit; what comes back until its own end.
pub async fn talk(conduit: &mut Conduit, bytes: &[u8]) -> Vec<u8> {
    let (near, far) = UnixStream::pair().unwrap();
    let bytes = bytes.to_vec();
    let mut reader = far.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        // A program need not read all that it is sent.
        let _ = (&far).write_all(&bytes);
        let _ = far.shutdown(Shutdown::Write);
    });
    let receiver = std::thread::spawn(move || {
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer).unwrap();
        answer
    });
    {
        let mut near = Conduit::new(near.into()).unwrap();
        let _ = Relay::new(&RelayOptions::new()).run(&mut near, conduit).await;
    }
    sender.join().unwrap();
    receiver.join().unwrap()
}

/// Waits until `what` holds.
pub fn until(what: impl Fn() -> bool, why: &str) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < give_up, "{why}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
