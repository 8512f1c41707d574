//! Programs and links as another user: `run-as=`, `setuid=`, `setgid=`, `chroot=`.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::link::{Running, client_of};
use crate::common::{copied_gush, gush, gush_as, nobody, skipped};
use gush_test::Port;
use tempfile::TempDir;

const WHO: &str = "id -u; id -g; id -G; echo $USER $LOGNAME $HOME; pwd";

/// The answer to a client of the link, or of socat.
fn answer(place: &str) -> String {
    let mut client = client_of(place);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_program_is_run_as_another_user_and_the_link_is_not() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    for (options, lines) in [
        ("run-as=nobody", &["65534", "65534", "65534", "nobody nobody /nonexistent"][..]),
        ("su=nobody,chroot=/", &["65534", "65534", "65534", "nobody nobody /nonexistent", "/"]),
        ("setuid=nobody", &["65534", "0", "0"]),
        ("setgid=65534", &["0", "65534"]),
    ] {
        let address = format!("shell:\"{WHO}\",{options}");
        let output = gush().args(["link", "-u", &address, "-"]).output().unwrap();
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(
            said.lines().zip(lines).all(|(line, wanted)| line.starts_with(wanted)),
            "{output:?}"
        );
        assert_eq!(said.lines().count(), 5, "{options}: {output:?}");
    }
    // The link makes its files as before.
    let dir = TempDir::new().unwrap();
    let words = ["link", "-u", "exec:id,su=nobody", "file:made,create"];
    let output = gush().args(words).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(dir.path().join("made").metadata().unwrap().uid(), 0);
}

#[test]
fn a_link_serves_as_another_user_once_it_listens() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    // A user that may not read the directory of the tests could not start the program there.
    let listen = "tcp-listen:127.0.0.1:0,fork,run-as=nobody";
    let link = Running::start(&[listen, &format!("shell:\"{WHO}\"")]);
    let answers = [answer(&link.place()), answer(&link.place())];
    assert!(
        answers.iter().all(|answer| answer.starts_with("65534\n65534\n65534\nnobody nobody /")),
        "{answers:?}"
    );
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    let dir = TempDir::new().unwrap();
    let [by_socat, by_gush] = ["socat", "gush"].map(|program| {
        let port = Port::reserve();
        let mut command = match program {
            "socat" => Command::new("socat"),
            _ => gush_as("socat", dir.path()),
        };
        let listen =
            format!("TCP-LISTEN:{},reuseaddr,bind=127.0.0.1,fork,su=nobody", port.number());
        command.args([&listen, &format!("SYSTEM:\"{WHO}\"")]);
        let _serving = Running::of(command);
        loop {
            match std::net::TcpStream::connect(port.place()) {
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
                Ok(mut client) => {
                    let mut answer = String::new();
                    client.read_to_string(&mut answer).unwrap();
                    break answer;
                }
            }
        }
    });
    assert_eq!(by_gush, by_socat);
}

#[test]
fn a_user_that_may_not_change_gets_the_reason() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    // The program may lie where only root may read.
    let dir = TempDir::new_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = copied_gush(dir.path());
    let mut command = Command::new(&copy);
    command.args(["link", "-u", "null:", "-,run-as=root"]).uid(user).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("become another user: Operation not permitted (this takes root)"),
        "{said}"
    );
    for (program, why) in [
        ("exec:id,run-as=nobody", "start id: Operation not permitted (another user or root"),
        ("exec:id,chroot=/none", "change the root to /none: No such file or directory"),
    ] {
        let mut command = Command::new(&copy);
        command.args(["link", "-u", program, "-"]).uid(user).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{program}: {said}");
    }
    let output =
        gush().args(["link", "tcp-listen:127.0.0.1:0,fork", "file:f,run-as=nobody"]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not get its rights back"), "{said}");
    let output = gush().args(["link", "null:", "-,run-as=no-such-user"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no user of this name"), "{said}");
}
