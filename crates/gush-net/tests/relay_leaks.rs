//! A process with many relays leaks no descriptor, does not spin, and has no pipe beyond the
//! budget.
//!
//! Each test runs in a separate process, because the test counts descriptors and pipes of the whole
//! process.

mod common;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use common::{Bridge, Wire, read_numbered, settled, skipped, write_numbered};
use gush::pipe::{Pipe, Pool};
use gush_net::{Direction, Relay, RelayOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs one of the tests below, which are ignored in this process, in a separate process.
fn in_a_process_of_its_own(test: &str, uid: Option<u32>) -> std::io::Result<ExitStatus> {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    // Exactly one test: others of this program would open descriptors meanwhile.
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.env("GUSH_ALONE", "1");
    if let Some(uid) = uid {
        // The build's directory may be closed to that user.
        command.uid(uid).gid(uid).current_dir("/");
    }
    let output = command.output()?;
    if !gush_test::one_test_ran(&output) {
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.status)
}

fn alone() -> bool {
    std::env::var_os("GUSH_ALONE").is_some()
}

#[test]
fn relays_leave_no_descriptor_open() {
    let status = in_a_process_of_its_own("alone_relays_leave_no_descriptor_open", None);
    assert!(status.expect("started").success());
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

#[test]
#[ignore = "run by relays_leave_no_descriptor_open"]
fn alone_relays_leave_no_descriptor_open() {
    if !alone() {
        return;
    }
    let one_of_each = || {
        for wire in [Wire::Tcp, Wire::Unix] {
            let bridge = Bridge::new(wire, wire, RelayOptions::new());
            let (mut client, mut server) = (bridge.client, bridge.server);
            let writer = std::thread::spawn(move || {
                write_numbered(&mut client, 300_000).unwrap();
                client.finish();
                read_numbered(&mut client).unwrap()
            });
            assert_eq!(read_numbered(&mut server).unwrap(), 300_000);
            drop(server);
            writer.join().unwrap();
            bridge.relay.join().unwrap().expect("no failure");
        }
        // A failure with bytes in flight.
        let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
        let server = bridge.server;
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            server.reset();
        });
        while bridge.client.write(&[7; 65536]).is_ok() {}
        reader.join().unwrap();
        assert!(bridge.relay.join().unwrap().is_err());
        // An end by silence.
        let idle = RelayOptions { idle: Some(Duration::from_millis(5)), ..RelayOptions::new() };
        Bridge::new(Wire::Tcp, Wire::Unix, idle).relay.join().unwrap().expect("no failure");
    };
    // The first rounds fill pools and start threads, which stay.
    for _ in 0..3 {
        one_of_each();
    }
    let (before, usage) = (descriptors(), Pool::shared().usage());
    for _ in 0..40 {
        one_of_each();
    }
    let (after, used) = (descriptors(), Pool::shared().usage());
    assert_eq!(used.in_use, 0, "{used:?}");
    // Idle pipes are kept on purpose: two descriptors each.
    assert_eq!(before - 2 * usage.idle, after - 2 * used.idle, "{usage:?} then {used:?}");
}

#[test]
fn an_idle_relay_sleeps() {
    let status = in_a_process_of_its_own("alone_an_idle_relay_sleeps", None);
    assert!(status.expect("started").success());
}

/// How often the threads of this process have gone to sleep by themselves.
fn sleeps() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("procfs");
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line?.trim().parse::<u64>().ok()
        })
        .sum()
}

/// Clock ticks that this process has computed for.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // utime and stime, counted from after the name, which may contain blanks (proc_pid_stat(5)).
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
#[ignore = "run by an_idle_relay_sleeps"]
fn alone_an_idle_relay_sleeps() {
    if !alone() {
        return;
    }
    // With a limit, since a timer that ticks would wake a relay too.
    let long = RelayOptions { idle: Some(Duration::from_secs(3600)), ..RelayOptions::new() };
    let mut quiet = Bridge::new(Wire::Tcp, Wire::Unix, long);
    // Half closed: one direction has ended, the other is silent.
    let half_closed = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
    half_closed.client.finish();
    // Stuck: its reader does not read.
    let mut stuck = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
    let writer = std::thread::spawn(move || {
        let _reset = stuck.client.write_all(&vec![7; 64 << 20]);
    });
    quiet.client.write_all(b"hello").unwrap();
    quiet.server.read_exact(&mut [0; 5]).unwrap();
    settled(&stuck.counts, Direction::Forward);

    // On a busy machine the kernel's buffers of the stuck one fill for a while: silence comes some
    // time.
    let is_quiet = gush_test::comes_to_rest([10, 5], || [sleeps(), ticks()]);
    assert!(is_quiet, "woke more than 10 times, or computed, in each of 30 seconds");
    assert!(!quiet.relay.is_finished() && !half_closed.relay.is_finished());
    // The relay may hold no byte: what it took last may just have found room in the socket.
    assert!(!writer.is_finished(), "nobody reads what was written");
    drop(stuck.server);
    writer.join().unwrap();
}

/// nobody: a user with no privilege over pipes.
const NOBODY: u32 = 65534;

#[test]
fn a_user_whose_pages_for_pipes_are_used_up_relays_all_the_same() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become a user without privilege");
    }
    match in_a_process_of_its_own("alone_a_user_without_pipes_relays_all_the_same", Some(NOBODY)) {
        Ok(status) => assert!(status.success()),
        Err(error) => skipped(&format!("nobody may not run this test's program: {error}")),
    }
}

#[test]
#[ignore = "run by a_user_whose_pages_for_pipes_are_used_up_relays_all_the_same"]
fn alone_a_user_without_pipes_relays_all_the_same() {
    if !alone() {
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap();
    if limit.trim() == "0" {
        return skipped("this system does not limit pages for pipes");
    }
    // Everything that the user may have: past the limit a pipe is born with two slots (pipe(7)).
    // With pages of 64 KiB the limit is a gibibyte.
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("descriptors");
    let two_slots = 2 * rustix::param::page_size();
    let mut hoard = Vec::new();
    while hoard.last().is_none_or(|pipe: &Pipe| pipe.capacity_bytes() > two_slots) {
        hoard.push(Pipe::new(1 << 20).expect("a pipe"));
    }

    let bridges: Vec<_> =
        (0..8).map(|_| Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new())).collect();
    let players: Vec<_> = bridges
        .into_iter()
        .map(|mut bridge| {
            std::thread::spawn(move || {
                let writer = std::thread::spawn(move || {
                    write_numbered(&mut bridge.client, 4 << 20).unwrap();
                    bridge.client.finish();
                    bridge.client
                });
                assert_eq!(read_numbered(&mut bridge.server).unwrap(), 4 << 20);
                drop((bridge.server, writer.join().unwrap()));
                bridge.relay.join().unwrap().expect("no failure")
            })
        })
        .collect();
    for player in players {
        let totals = player.join().expect("every byte right");
        assert_eq!(totals.forward.method, Some(gush::MethodName::ReadWrite));
    }
    let usage = Pool::shared().usage();
    assert_eq!((usage.in_use, usage.bytes), (0, 0), "two slots are no pipe");
}

#[test]
fn a_copy_that_waits_for_either_end_sleeps_whatever_the_ends_are() {
    let test = "alone_a_copy_that_waits_for_either_end_sleeps_whatever_the_ends_are";
    assert!(in_a_process_of_its_own(test, None).expect("started").success());
}

#[test]
#[ignore = "run by a_copy_that_waits_for_either_end_sleeps_whatever_the_ends_are"]
fn alone_a_copy_that_waits_for_either_end_sleeps_whatever_the_ends_are() {
    if !alone() {
        return;
    }
    /// The end that the copy reads or writes, and the far one, as descriptors.
    fn ends(kind: &str) -> (OwnedFd, OwnedFd) {
        match kind {
            "pipe" => {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                (reader.into(), writer.into())
            }
            "unix" => {
                let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
                (near.into(), far.into())
            }
            _ => {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
                let address = listener.local_addr().expect("an address");
                let far = std::net::TcpStream::connect(address).expect("a connection");
                (listener.accept().expect("a client").0.into(), far.into())
            }
        }
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let mut far_ends = Vec::new();
    let mut stuck = Vec::new();
    for from in ["pipe", "unix", "tcp"] {
        for to in ["pipe", "unix", "tcp"] {
            for is_stuck in [false, true] {
                let (source, feeder) = ends(from);
                let (target, taker) = match to {
                    "pipe" => {
                        let (taker, target) = ends(to);
                        (target, taker)
                    }
                    _ => ends(to),
                };
                let options = RelayOptions::new();
                if is_stuck {
                    // More than the target holds, and nobody reads: it waits for its target.
                    stuck.push(options.counts());
                    let mut feeder = std::fs::File::from(feeder.try_clone().expect("a descriptor"));
                    std::thread::spawn(move || feeder.write_all(&vec![7; 64 << 20]));
                }
                runtime.spawn(async move {
                    let mut source = gush_net::Conduit::new(source).expect("an end").read_only();
                    let mut target = gush_net::Conduit::new(target).expect("an end").write_only();
                    let _cut = Relay::new(&options).copy(&mut source, &mut target).await;
                });
                far_ends.push((feeder, taker));
            }
        }
    }
    // Until nothing moves any more: two looks at the counts, some time apart, that are the same.
    let moved = || stuck.iter().map(|counts| counts.delivered_bytes(Direction::Forward)).collect();
    let mut before: Vec<u64> = Vec::new();
    while before.is_empty() || before.contains(&0) || before != moved() {
        before = moved();
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(gush_test::comes_to_rest([5], || [ticks()]), "computed in each of 30 silent seconds");
    runtime.shutdown_background();
    drop(far_ends);
}
