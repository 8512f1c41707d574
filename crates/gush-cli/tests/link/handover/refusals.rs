//! Who gets nothing, and what a link says that cannot take over.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use gush_test::skipped;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, send, socket_with,
};

use super::{Hand, Lines, VERSION, answers};
use crate::common::link::{Running, ask, client_of, echo, eventually};
use crate::common::{gush, nobody};

#[test]
fn a_socket_of_another_program_is_named_with_the_remedy() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let flags = SocketFlags::CLOEXEC;
    let other = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&other, &SocketAddrUnix::new(&lines.door).unwrap()).unwrap();
    rustix::net::listen(&other, 1).unwrap();
    let words = ["link", "--handover", lines.door.to_str().unwrap(), &lines.listen(), "null:"];
    let asks = gush().args(words).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let socket = rustix::net::accept(&other).unwrap();
    send(&socket, b"220 ready", SendFlags::NOSIGNAL).unwrap();
    let output = asks.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another protocol (another program has this socket"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_process_that_fails_to_take_over_leaves_the_names_to_the_running_link() {
    let dir = tempfile::tempdir().unwrap();
    let (front, door) = (dir.path().join("front"), dir.path().join("door"));
    let listen = format!("unix-listen:{},fork", front.display());
    let target = format!("tcp:{}", echo());
    let words = ["--handover", door.to_str().unwrap(), &listen, &target];
    let link = Running::start(&words);
    link.says("listening on ");
    eventually("the door is open", || door.exists());
    let greets = || {
        let mut client = UnixStream::connect(&front).unwrap();
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        client
    };
    // More than the new process may have descriptors for.
    let _clients: Vec<_> = (0..32).map(|_| greets()).collect();
    let mut next = Command::new("prlimit");
    next.arg("--nofile=32:32").arg(gush().get_program()).arg("link").args(words);
    let output = next.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ulimit -n raises it"), "{said}");
    link.says("a handover is refused");
    assert!(front.exists() && door.exists(), "{said}");
    greets();
}

#[test]
fn a_process_of_another_version_gets_nothing() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let mut client = client_of(&lines.port.place());
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    let hand = Hand::at(&lines.door);
    hand.hello(VERSION - 1, &lines);
    let old = format!("version {}", VERSION - 1);
    let answer = hand.hears().expect("a reason");
    assert!(answer["Refused"].as_str().unwrap().contains(&old), "{answer}");
    assert_eq!(hand.hears(), None);
    link.says("a handover is refused");
    assert_eq!(ask(client, b" and on"), b" and on");
    answers(&lines.port.place());
}

#[test]
fn a_process_with_other_addresses_gets_nothing() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let words = ["link", "--handover", lines.door.to_str().unwrap(), &lines.listen(), "null:"];
    let output = gush().args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let why =
        format!("the running link has the addresses '{}' and '{}'", lines.listen(), lines.target);
    assert!(said.contains(&format!("{why}: use the same, or another PATH\n")), "{said}");
    let line = link.says("a handover is refused: ");
    assert!(line.ends_with(&why), "{line}");
    answers(&lines.port.place());
}

#[test]
fn a_process_of_another_user_gets_nothing() {
    let nobody = match nobody() {
        Ok(nobody) => nobody,
        Err(why) => return skipped(&why),
    };
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let (dir, door) = (lines.door.parent().unwrap(), lines.door.to_str().unwrap());
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = crate::common::copied_gush(dir);
    let run = || {
        let mut command = Command::new(&program);
        command.args(["link", "--handover", door, &lines.listen(), &lines.target]);
        let output = command.uid(nobody).gid(nobody).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // By the mode of the socket, and where that was changed by the user.
    let said = run();
    assert!(said.contains("Permission denied"), "{said}");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&lines.door, everybody).unwrap();
    let said = run();
    assert!(said.contains("another user's"), "{said}");
    answers(&lines.port.place());
    drop(link);
}

#[test]
fn a_link_with_nothing_to_hand_over_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let door = dir.path().join("door");
    let (door, copy) = (door.to_str().unwrap(), dir.path().join("copy"));
    let copy = copy.to_str().unwrap();
    for (options, first, second, why) in [
        (&[][..], "tcp-listen:1", "null:", "needs fork"),
        (&[], "-", "null:", "needs fork"),
        (&[], "udp-listen:1,fork", "null:", "datagrams"),
        (&[], "listen-fd:3,fork", "null:", "no handover is needed"),
        (&[], "tcp-listen:1,fork", "tcp-listen:2", "both addresses listen"),
        (&[], "tcp-listen:1,fork", "-", "all clients share it"),
        (&[], "tcp-listen:1,fork", "tcp:127.0.0.1:1,shared", "all clients share it"),
        (&[], "tcp-listen:1,fork,run-as=nobody", "null:", "by another user than"),
        (&[], "tcp-listen:1,fork,chroot=/", "null:", "by another user than"),
        (&[], "tcp-listen:1,fork,lockfile=l", "null:", "keep the next process out"),
        (&[], "tcp-listen:1,fork,waitlock=l", "null:", "keep the next process out"),
        (&["--tee", copy], "tcp-listen:1,fork", "null:", "--tee"),
    ] {
        let words = [&["link", "--handover", door], options, &[first, second]].concat();
        let output = gush().args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{first} {second}: {said}");
        assert!(said.contains(why), "{first} {second}: {said}");
    }
}

#[test]
fn a_socket_that_cannot_be_made_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/over");
    let output = gush()
        .args([
            "link",
            "--handover",
            path.to_str().unwrap(),
            "tcp-listen:127.0.0.1:0,fork",
            "pipe:",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let start = format!("gush: link: handover at {}: bind: No such file", path.display());
    assert!(said.starts_with(&start) && said.contains("(mkdir -p"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
