//! `gush cat` of a connection whose peer sends urgent data: the program neither stops nor spins.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::{bounded, skipped, strace, within};
use rustix::net::SendFlags;

#[test]
fn urgent_data_of_a_remote_peer_burns_no_processor() {
    for method in ["auto", "splice", "vmsplice", "read-write"] {
        burns_no_processor(method);
    }
}

fn burns_no_processor(method: &str) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut cat = match strace(&["-o", log.to_str().unwrap()]) {
        Ok(strace) => strace,
        Err(why) => return skipped(&why),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();

    cat.args(["cat", "--method", method]);
    // A command that spins would have strace write without end.
    let mut cat = within(&["prlimit", "--fsize=16777216"], &bounded(60, &cat));
    cat.stdin(OwnedFd::from(near)).stdout(Stdio::piped());
    let mut child = cat.spawn().unwrap();
    // The command holds the connection too, and would keep it open.
    drop(cat);
    let mut output = child.stdout.take().unwrap();
    let mut piece = [0; 6];
    for _ in 0..5 {
        peer.write_all(b"before").unwrap();
        rustix::net::send(&peer, b"!", SendFlags::OOB).unwrap();
        output.read_exact(&mut piece).unwrap();
        assert_eq!(&piece, b"before");
        peer.write_all(b"second").unwrap();
        output.read_exact(&mut piece).unwrap();
        assert_eq!(&piece, b"second");
        // A spin would fill the log meanwhile.
        thread::sleep(Duration::from_millis(50));
    }
    drop(peer);
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
    assert!(child.wait().unwrap().success(), "{method}");
    // The start of the program makes most of them.
    let calls = fs::read_to_string(&log).unwrap().lines().count();
    assert!(calls < 1000, "{method}: {calls} calls");
}
