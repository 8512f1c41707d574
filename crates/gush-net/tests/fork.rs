//! A relay after fork(2): parent and child have copies of the same idle pipes.

mod common;

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use common::{Peer, Wire, pair, run, spawn_relay};
use gush_net::{Conduit, Relay, RelayOptions};
use gush_test::forked;

const LEN: usize = 4 << 20;

/// Writes to a relay and ends the direction, on a separate thread.
fn write_all(mut client: Peer, byte: u8) -> thread::JoinHandle<Peer> {
    thread::spawn(move || {
        client.write_all(&vec![byte; LEN]).expect("a relay");
        client.finish();
        client
    })
}

/// Reads what a relay delivers, and returns how many bytes are `byte`, and how many there are.
fn read_all(mut server: Peer, byte: u8) -> (usize, usize) {
    let mut all = Vec::new();
    server.read_to_end(&mut all).expect("bytes");
    (all.iter().filter(|&&b| b == byte).count(), all.len())
}

/// Relays on this thread, whose runtime is a new one.
fn relayed(near: Peer, far: Peer) -> u64 {
    run(async {
        let [mut near, mut far] = [near, far].map(|end| Conduit::new(end.into()).expect("an end"));
        Relay::new(&RelayOptions::new())
            .run(&mut near, &mut far)
            .await
            .expect("both ends")
            .forward
            .bytes
    })
}

#[test]
fn a_relay_after_fork_delivers_no_byte_of_the_other_process() {
    let ((client, near), (far, server)) = (pair(Wire::Unix), pair(Wire::Unix));
    let writer = write_all(client, b'w');
    server.finish();
    let reader = thread::spawn(move || read_all(server, b'w'));
    // Leaves idle pipes in the shared pool.
    assert_eq!(relayed(near, far), LEN as u64);
    assert_eq!(reader.join().expect("no panic"), (LEN, LEN));
    drop(writer.join().expect("no panic"));

    let ((client, near), (far, server)) = (pair(Wire::Unix), pair(Wire::Unix));
    server.finish();
    let child = forked(|| assert_eq!(relayed(near, far), LEN as u64));
    let writer = write_all(client, b'c');
    // A moment until the child holds bytes that nobody reads; the test passes, too, if it is late.
    thread::sleep(Duration::from_millis(300));

    let ((own_client, near), (far, own_server)) = (pair(Wire::Unix), pair(Wire::Unix));
    own_server.finish();
    let relay = spawn_relay(near.into(), far.into(), RelayOptions::new());
    let own_writer = write_all(own_client, b'p');
    assert_eq!(read_all(own_server, b'p'), (LEN, LEN), "the parent's bytes");
    relay.join().expect("no panic").expect("both ends");
    drop(own_writer.join().expect("no panic"));
    assert_eq!(read_all(server, b'c'), (LEN, LEN), "the child's bytes");
    assert!(child.passed());
    drop(writer.join().expect("no panic"));
}
