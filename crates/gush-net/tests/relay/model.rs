//! A relay between two peers, against a plain model: each reads the other's bytes, and then the
//! other's end.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use crate::common::{Bridge, Pattern, Peer, Wire};
use gush::{Choice, MethodName};
use gush_net::{Direction, EndReason, RelayOptions};
use proptest::prelude::*;

/// The acts of a peer on the writing side, in order; a half-close follows.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize),
    /// So many segments of one byte each.
    Dribble(usize),
    Pause(u64),
}

/// How a peer reads.
#[derive(Clone, Debug)]
struct Manners {
    read_bytes: usize,
    pause_us: u64,
    /// The number of pauses, after which the peer reads on at full speed.
    pauses: u32,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        4 => (1_usize..200_000).prop_map(Deed::Write),
        2 => (1_usize..300).prop_map(Deed::Write),
        1 => (200_000_usize..3_000_000).prop_map(Deed::Write),
        1 => (1_usize..200).prop_map(Deed::Dribble),
        2 => (0_u64..3000).prop_map(Deed::Pause),
    ];
    prop::collection::vec(deed, 0..8)
}

fn manners() -> impl Strategy<Value = Manners> {
    (1_usize..300_000, 0_u64..2000, 0_u32..10).prop_map(|(read_bytes, pause_us, pauses)| Manners {
        read_bytes,
        pause_us,
        pauses,
    })
}

fn wire() -> impl Strategy<Value = Wire> {
    prop_oneof![3 => Just(Wire::Tcp), 1 => Just(Wire::Unix)]
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        3 => Just(Choice::Auto),
        1 => Just(Choice::Only(MethodName::Splice)),
        1 => Just(Choice::Only(MethodName::ReadWrite)),
    ]
}

/// Plays one peer; returns the bytes written and the bytes read.
fn play(peer: Peer, seed: u64, deeds: Vec<Deed>, manners: Manners) -> (Vec<u8>, Vec<u8>) {
    let mut writing = peer.try_clone();
    let writer = thread::spawn(move || {
        let (mut pattern, mut written) = (Pattern::new(seed), Vec::new());
        for deed in deeds {
            let pieces = match deed {
                Deed::Write(count) => vec![pattern.bytes(count)],
                Deed::Dribble(count) => (0..count).map(|_| pattern.bytes(1)).collect(),
                Deed::Pause(us) => {
                    thread::sleep(Duration::from_micros(us));
                    continue;
                }
            };
            for piece in pieces {
                writing.write_all(&piece).expect("the relay takes all");
                written.extend(piece);
            }
        }
        writing.finish();
        written
    });
    let (mut reading, mut arrived, mut pauses) = (peer, Vec::new(), manners.pauses);
    let mut buf = vec![0; manners.read_bytes];
    loop {
        let got = reading.read(&mut buf).expect("no error before the end");
        if got == 0 {
            break;
        }
        arrived.extend_from_slice(&buf[..got]);
        if pauses > 0 {
            pauses -= 1;
            thread::sleep(Duration::from_micros(manners.pause_us));
        }
    }
    (writer.join().expect("the writer"), arrived)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_peer_reads_what_the_other_wrote_and_then_its_end(
        wires in (wire(), wire()),
        choice in choice(),
        deeds in (deeds(), deeds()),
        manners in (manners(), manners()),
        of_tokio in any::<bool>(),
        limited in prop::option::weighted(0.1, 20_000_000_u64..400_000_000),
    ) {
        let mut options = RelayOptions { method: choice, ..RelayOptions::new() };
        if let Some(rate) = limited {
            options.limit = Some(gush::Rate::bytes_per_second(rate).unwrap());
        }
        let bridge = if of_tokio { Bridge::of_tokio } else { Bridge::new };
        let bridge = bridge(wires.0, wires.1, options);
        let (client, client_deeds, client_manners) = (bridge.client, deeds.0, manners.0);
        let client = thread::spawn(move || play(client, 3, client_deeds, client_manners));
        let (server_wrote, server_read) = play(bridge.server, 5, deeds.1, manners.1);
        let (client_wrote, client_read) = client.join().expect("the client");
        let totals = bridge.relay.join().expect("no panic").expect("no failure");

        prop_assert!(client_wrote == server_read, "forward bytes differ");
        prop_assert!(server_wrote == client_read, "bytes back differ");
        prop_assert_eq!(totals.ended, EndReason::Closed);
        prop_assert_eq!(totals.forward.bytes, client_wrote.len() as u64);
        prop_assert_eq!(totals.back.bytes, server_wrote.len() as u64);
        for way in Direction::ALL {
            prop_assert_eq!(bridge.counts.in_flight_bytes(way), 0);
        }
        prop_assert_eq!(bridge.counts.delivered_bytes(Direction::Forward), totals.forward.bytes);
        if let Choice::Only(method) = choice {
            for passed in [totals.forward, totals.back] {
                prop_assert!(passed.method.is_none_or(|used| used == method));
            }
        }
    }
}
