//! A listener at its limit of descriptors. In a program of its own, for the limit is the whole
//! process's.

mod open_common;

use std::net::TcpStream;
use std::time::Duration;

use open_common::{listener, one, run, socket_of};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CLIENTS: usize = 40;

fn processor_ms() -> u128 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<u128>().unwrap() / 1_000_000
}

#[test]
fn at_the_limit_of_descriptors_clients_wait_and_none_is_lost() {
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0,fork").await.unwrap();
        let address = socket_of(&server);
        let clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        let limits = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + 20), ..limits }).unwrap();

        let mut served = Vec::new();
        let mut waits = 0;
        let mut total = 0;
        let mut busy_ms = 0;
        while total < CLIENTS {
            let before_ms = processor_ms();
            match tokio::time::timeout(Duration::from_millis(400), server.accept()).await {
                Ok(accepted) => {
                    // Whoever is accepted can be connected on.
                    let end = accepted.unwrap();
                    one("null:").await.unwrap();
                    served.push(end);
                    total += 1;
                }
                Err(_) => {
                    busy_ms += processor_ms() - before_ms;
                    waits += 1;
                    assert!(waits < 1000, "nobody comes in any more");
                    served.drain(..served.len().min(7));
                }
            }
        }
        assert!(waits > 0, "the limit was never reached");
        // Of at least 400 ms each: waiting costs next to nothing.
        assert!(busy_ms < 40 * waits, "{busy_ms} ms of work in {waits} waits");
        setrlimit(Resource::Nofile, limits).unwrap();
        drop(clients);
    });
}
