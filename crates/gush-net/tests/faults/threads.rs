//! A relay's plan goes with the task, to any thread that polls.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use gush::faults::{Injection, Plan, unplanned_calls};
use gush_net::{Conduit, Relay, RelayOptions};
use tokio::sync::oneshot;

use crate::common::child;

/// Other tests of this process make calls without a plan: these have one of their own.
#[test]
fn no_thread_of_a_relay_escapes_its_plan() {
    let (passed, said) = child(&[], "threads::alone_no_thread_of_a_relay_escapes_its_plan", &[]);
    assert!(passed, "{said}");
}

const ROUNDS: usize = 1000;

/// Sends one byte after the other through a relay.
fn play(mut client: &UnixStream, mut server: &UnixStream) {
    for _ in 0..ROUNDS {
        client.write_all(b"?").expect("a relay");
        server.read_exact(&mut [0]).expect("a relay");
    }
}

#[test]
#[ignore = "run by no_thread_of_a_relay_escapes_its_plan, in a process of its own"]
fn alone_no_thread_of_a_relay_escapes_its_plan() {
    let seen: Arc<Mutex<HashSet<thread::ThreadId>>> = Arc::default();
    let plan = {
        let threads = seen.clone();
        Plan::new(move |_, _| {
            threads.lock().expect("a set").insert(thread::current().id());
            Injection::None
        })
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build();
    let runtime = runtime.expect("threads");
    let relays: Vec<_> = (0..8)
        .map(|_| {
            let pairs = [(); 2].map(|()| UnixStream::pair().expect("a pair"));
            let [(client, near), (far, server)] = pairs;
            let mut relay = Box::pin(plan.clone().around(async move {
                let (mut a, mut b) = (Conduit::new(near.into())?, Conduit::new(far.into())?);
                let totals = Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await?;
                Ok::<_, std::io::Error>(totals.forward.bytes)
            }));
            // First on this thread, and then on others: on a busy machine one of them may do all
            // that is left to do.
            thread::scope(|scope| {
                let (done, is_done) = oneshot::channel();
                let (client, server) = (&client, &server);
                scope.spawn(move || {
                    play(client, server);
                    done.send(()).expect("somebody waits");
                });
                runtime.block_on(async {
                    tokio::select! {
                        _ = &mut relay => panic!("nobody has ended"),
                        done = is_done => done.expect("all arrived"),
                    }
                });
            });
            (client, server, runtime.spawn(relay))
        })
        .collect();
    for (client, server, relay) in relays {
        play(&client, &server);
        drop((client, server));
        let moved = runtime.block_on(relay).expect("no panic").expect("no failure");
        assert_eq!(moved, 2 * ROUNDS as u64);
    }
    let threads = seen.lock().expect("a set").len();
    assert!(threads > 1, "all on {threads} thread: nothing was tested");
    assert_eq!(unplanned_calls(), 0, "calls that no plan has seen");
}
