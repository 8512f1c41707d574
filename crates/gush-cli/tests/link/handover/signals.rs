//! Either process is told to end during a handover.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Giver, Hand, Lines, PATIENCE_OF_A_LINK, VERSION};
use crate::common::link::{ask, client_of, echo};

#[test]
fn a_running_link_ends_by_a_signal_in_each_phase_of_a_handover() {
    for phase in 0..3 {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let link = lines.start();
        let mut client = client_of(&lines.port.place());
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        // The new process has connected; hears nothing; has all, and has not answered.
        let hand = if phase > 0 { Hand::ready(&lines) } else { Hand::at(&lines.door) };
        if phase > 1 {
            assert_eq!(hand.all(), [1]);
        }
        let signalled = Instant::now();
        link.signal(Signal::TERM);
        // It is this link's still, which lets it finish.
        assert_eq!(ask(client, b" and on"), b" and on");
        assert!(link.finish().0.success(), "phase {phase}");
        assert!(signalled.elapsed() < PATIENCE_OF_A_LINK, "phase {phase}");
        assert!(!lines.door.exists(), "phase {phase}");
        drop(hand);
    }
}

#[test]
fn a_running_link_that_is_told_to_end_finishes_its_handover_first() {
    // The new process has asked, and was not heard; was heard; has the listeners; has all.
    for phase in 0..4 {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let link = lines.start();
        let mut client = client_of(&lines.port.place());
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        if phase == 0 {
            link.signal(Signal::STOP);
        }
        let hand = Hand::at(&lines.door);
        if phase > 1 {
            hand.hello(VERSION, &lines);
            assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
        }
        if phase > 2 {
            hand.says(&json!("Ready"));
            assert_eq!(hand.all(), [1]);
        }
        link.signal(Signal::TERM);
        link.signal(Signal::CONT);
        // Long enough for the signal to be met.
        thread::sleep(Duration::from_millis(100));
        if phase < 2 {
            hand.hello(VERSION, &lines);
            assert!(hand.hears().is_some(), "phase {phase}");
        }
        if phase < 3 {
            hand.says(&json!("Ready"));
            assert_eq!(hand.all(), [1], "phase {phase}");
        }
        hand.says(&json!("Taken"));
        assert!(link.finish().0.success(), "phase {phase}");
        assert!(lines.door.exists(), "the name is the new process's: phase {phase}");
    }
}

#[test]
fn a_new_process_ends_by_a_signal_in_each_phase_of_a_handover() {
    let [known, state] = connection();
    let all = json!({"All": {"last_id": 7}});
    // It has no answer; is ready; has a group; has all, which it meets with the signal; has taken
    // all.
    for phase in 0..5 {
        let giver = Giver::new();
        let (next, hand) = giver.asked();
        let (near, near_end) = pair();
        let (far, far_end) = pair();
        if phase > 0 {
            let listeners = json!({"Listeners": {"metrics": null, "descriptors": 20}});
            giver.gives(&hand, &listeners, &[giver.door.as_fd(), giver.clients.as_fd()]);
            assert_eq!(hand.hears(), Some(json!("Ready")));
        }
        if phase > 1 {
            giver.gives(&hand, &known, &[near_end.as_fd(), far_end.as_fd()]);
        }
        if phase > 2 {
            hand.says(&state);
        }
        match phase {
            3 => {
                next.signal(Signal::STOP);
                hand.says(&all);
            }
            4 => {
                hand.says(&all);
                assert_eq!(hand.hears(), Some(json!("Taken")));
            }
            _ => {}
        }
        drop((near_end, far_end));
        let signalled = Instant::now();
        next.signal(Signal::TERM);
        next.signal(Signal::CONT);
        if phase > 2 {
            // If it is the new process's, this lets it finish.
            drop(far);
            drop(near);
        }
        let (status, _, said) = next.finish();
        assert!(signalled.elapsed() < PATIENCE_OF_A_LINK, "phase {phase}: {said}");
        assert!(status.success(), "phase {phase}: {said}");
        let takes = phase == 4 || hand.hears() == Some(json!("Taken"));
        assert_eq!(said.contains("taken over"), takes, "phase {phase}: {said}");
        assert!(!takes || phase > 2, "phase {phase}: {said}");
        // Else it is the running link's still.
        assert_eq!(giver.lines.door.exists(), !takes, "phase {phase}: {said}");
    }
}

/// A connection, which has moved nothing yet: what is known of it, and its state.
pub fn connection() -> [Value; 2] {
    let part = json!({"reads": true, "writes": true, "is_tcp": true});
    let direction = json!({"delivered_bytes": 0, "by_method": [0, 0, 0], "piped_bytes": 0,
        "through_memory": false, "is_at_end": false, "has_seen_end": false, "is_done": false});
    let known = json!({"Known": [{
        "id": 7, "client": "client", "other": "other", "age": {"secs": 0, "nanos": 0},
        "directions": {"forward": true, "back": true}, "parts": [[part], [part]],
    }]});
    let state = json!({"States": [{
        "id": 7, "relay": {"directions": [direction, direction], "quiet": {"secs": 0, "nanos": 0}},
        "hand_bytes": [0, 0],
    }]});
    [known, state]
}

/// A connection over TCP.
pub fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}
