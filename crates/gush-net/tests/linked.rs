//! Linking and using this crate changes nothing in a process.

mod common;

use std::os::fd::BorrowedFd;
use std::process::Command;

use common::{Wire, numbered, pair, run, skipped};
use gush_net::{Conduit, Relay, RelayOptions};
use rustix::stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The state that a host program would notice: limits, signals, the three standard descriptors,
/// session and directory.
fn state() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).expect("procfs");
    let status = read("/proc/self/status");
    let of_process = ["SigCgt", "SigIgn", "ShdPnd", "NoNewPrivs", "Umask"];
    let lines = status.lines().filter(|line| of_process.iter().any(|name| line.starts_with(name)));
    let mut all: Vec<String> = lines.map(str::to_owned).collect();
    all.push(read("/proc/self/limits"));
    // The directory and the mask of signals are those of the thread that asks.
    let mask = |line: &&str| line.starts_with("SigBlk");
    all.extend(read("/proc/thread-self/status").lines().find(mask).map(str::to_owned));
    for (fd, name) in [(stdio::stdin(), 0), (stdio::stdout(), 1), (stdio::stderr(), 2)] {
        let path = std::fs::read_link(format!("/proc/self/fd/{name}"));
        all.push(format!("{path:?} {:?} {:?}", flags(fd), rustix::io::fcntl_getfd(fd)));
    }
    all.push(session());
    all.push(format!("{:?}", std::env::current_dir()));
    all
}

/// The identifier of the session, from procfs: the number is 0 where the leader is outside of the
/// namespace of these processes, and rustix takes none for an answer.
fn session() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let (_, after_name) = stat.rsplit_once(')').expect("the name in brackets");
    after_name.split_whitespace().nth(3).expect("the sixth field").to_owned()
}

fn flags(fd: BorrowedFd<'_>) -> rustix::io::Result<rustix::fs::OFlags> {
    rustix::fs::fcntl_getfl(fd)
}

/// Both directions, by reference and through memory, to a peer that has gone, and with a file.
async fn relays() {
    for memory in [false, true] {
        let ((near, client), (far, server)) = (pair(Wire::Tcp), pair(Wire::Unix));
        let end = |peer: common::Peer| Conduit::new(peer.into()).expect("an end");
        let (mut client, mut server) = (end(client), end(server));
        let mut near = if memory { Conduit::of_stream(end(near)) } else { end(near) };
        let mut far = end(far);
        let options = RelayOptions::new();
        let talk = async {
            client.write_all(numbered(0, 300_000)).await.expect("room");
            server.read_exact(&mut vec![0; 300_000]).await.expect("all");
            drop(server);
            let _broken = client.write_all(numbered(0, 300_000)).await;
            drop(client);
        };
        let (ended, ()) =
            tokio::join!(async { Relay::new(&options).run(&mut near, &mut far).await }, talk);
        ended.expect_err("the reader has gone");
    }
    let (near, _far) = pair(Wire::Unix);
    let mut near = Conduit::new(near.into()).expect("an end");
    let file = tempfile::tempfile().expect("a file");
    file.set_len(10_000).expect("a file system");
    Relay::new(&RelayOptions::new()).send_file(&file, .., &mut near).await.expect("room");
}

#[test]
fn relays_change_no_limit_no_signal_and_no_standard_descriptor_of_their_host() {
    let before = state();
    run(relays());
    assert_eq!(state(), before);
}

#[test]
fn a_program_that_links_relays_runs_nothing_of_them_before_main() {
    let own = std::env::current_exe().expect("a program");
    let Ok(output) = Command::new("readelf").arg("-SW").arg(own).output() else {
        skipped("no readelf");
        return;
    };
    let output = String::from_utf8(output.stdout).expect("text");
    let section = |name: &str| output.lines().find(|line| line.split(' ').any(|word| word == name));
    assert_eq!(section(".preinit_array"), None);
    let line = section(".init_array").expect("where Rust's standard library notes the arguments");
    let words: Vec<_> = line.split_whitespace().skip_while(|word| *word != ".init_array").collect();
    // Three functions: the C compiler's frame_dummy, the standard library's for the arguments, and
    // that by which these tests begin in a known state.
    let bytes = usize::from_str_radix(words[4], 16).expect("a size");
    assert_eq!(bytes, 3 * size_of::<usize>(), "{line}");
}
