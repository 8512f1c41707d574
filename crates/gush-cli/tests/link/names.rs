//! Hosts with several addresses, zones and namespaces, in a network of their own.

use std::process::{Command, Output};

use crate::common::{bounded, skipped};
use tempfile::TempDir;

/// The output of `script` in a network with these addresses of `lo` and names of hosts.
fn in_a_network(script: &str) -> Option<Output> {
    let dir = TempDir::new().unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "2001:db8::2 host\n127.0.0.1 host\n").unwrap();
    let network = "ip link set lo up && ip addr add 2001:db8::1/64 dev lo nodad && \
        ip addr add fe80::5/64 dev lo nodad && mount --bind \"$HOSTS\" /etc/hosts || exit 77\n";
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", &format!("{network}{script}")]);
    command.env("HOSTS", hosts).env("GUSH", env!("CARGO_BIN_EXE_gush"));
    let output = bounded(60, &command).output().unwrap();
    match output.status.code() {
        Some(77 | 1) if output.stdout.is_empty() => {
            skipped(&format!("no network: {}", String::from_utf8_lossy(&output.stderr).trim()));
            None
        }
        _ => Some(output),
    }
}

/// RFC 8305: IPv6 comes first, and nobody answers there, not even by a refusal.
#[test]
fn an_address_that_does_not_answer_is_not_waited_for() {
    let output = in_a_network(
        "\"$GUSH\" link -u tcp-listen:127.0.0.1:7000,fork - & \
         \"$GUSH\" link -u null: tcp:127.0.0.1:7000,retry=99,interval=0.1; \
         echo hello | \"$GUSH\" link -u - tcp:host:7000,connect-timeout=1000; kill $!; wait",
    );
    let Some(output) = output else { return };
    assert_eq!(output.stdout, b"hello\n", "{output:?}");
}

#[test]
fn a_zone_is_named_by_its_interface() {
    let output = in_a_network(
        "\"$GUSH\" link -u 'tcp-listen:[fe80::5%lo]:7000' - & \
         echo hello | \"$GUSH\" link -u - 'tcp:[fe80::5%lo]:7000,retry=99,interval=0.1'; wait; \
         \"$GUSH\" link -u null: 'tcp:[fe80::5%nowhere]:7000'; echo $?",
    );
    let Some(output) = output else { return };
    assert_eq!(output.stdout, b"hello\n1\n", "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no network interface is called nowhere (`ip link`"), "{said}");
}

/// As socat does: the other version of IP is tried after that one has failed.
#[test]
fn the_preferred_version_of_ip_comes_first() {
    let output = in_a_network(
        "ip addr add 2001:db8::2/64 dev lo nodad || exit 77
         serve() { \"$GUSH\" link tcp-listen:$1,fork shell:\"echo $2\" & }
         ask() { \"$GUSH\" link -U - tcp:host:7000,prefer=$1; }
         ready() { until \"$GUSH\" link -U null: tcp:$1; do sleep 0.1; done 2>/dev/null; }
         serve '[::]:7000,ipv6only' six; six=$!
         serve 0.0.0.0:7000 four; four=$!
         ready '[::1]:7000'; ready 127.0.0.1:7000
         ask 4; ask 6; \"$GUSH\" socat -U - TCP:host:7000; \"$GUSH\" socat -6 -U - TCP:host:7000
         kill $four; wait $four; ask 4
         kill $six; wait",
    );
    let Some(output) = output else { return };
    assert_eq!(output.stdout, b"four\nsix\nfour\nsix\nsix\n", "{output:?}");
}

/// As socat, and unlike a stream: no answer shows where a receiver is.
#[test]
fn datagrams_go_to_the_ipv4_address_of_a_name() {
    let output = in_a_network(
        "for kind in udp udp-sendto; do
            \"$GUSH\" link -u udp-recvfrom:127.0.0.1:7000 - &
            until grep -q :1B58 /proc/net/udp; do sleep 0.1; done
            echo $kind | \"$GUSH\" link -u - $kind:host:7000; wait
         done",
    );
    let Some(output) = output else { return };
    assert_eq!(output.stdout, b"udp\nudp-sendto\n", "{output:?}");
}

/// The namespace of this test is where `ip netns` has none.
#[test]
fn a_socket_of_another_namespace_is_made_there_and_others_here() {
    let output = in_a_network(
        "mount -t tmpfs none /run && ip netns add other && ip netns exec other ip link set lo up || exit 77
         \"$GUSH\" link tcp-listen:127.0.0.1:7000,netns=other exec:'tr a-z A-Z' & \
         echo hello | \"$GUSH\" link - tcp:127.0.0.1:7000,netns=other,retry=99,interval=0.1; wait; \
         \"$GUSH\" link tcp-listen:127.0.0.1:7001,netns=other tcp:127.0.0.1:7001,retry=99,interval=0.1 & \
         \"$GUSH\" link -u shell:'echo through' tcp-listen:127.0.0.1:7001 & \
         \"$GUSH\" link - tcp:127.0.0.1:7001,netns=other,retry=99,interval=0.1; wait; \
         \"$GUSH\" link null: tcp:127.0.0.1:7000,netns=nowhere; echo $?",
    );
    let Some(output) = output else { return };
    assert_eq!(output.stdout, b"HELLO\nthrough\n1\n", "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("namespace nowhere: No such file or directory (`ip netns list`"),
        "{said}"
    );
}

/// The first datagram is lost, a router answers that it is too long, and the kernel fragments the
/// next ones: the answer is no failure of the link.
#[test]
fn a_path_that_takes_shorter_datagrams_does_not_end_a_link() {
    let output = in_a_network(
        "mount -t tmpfs none /run && ip netns add router && ip netns add far &&
         ip link add near type veth peer name in netns router &&
         ip -n router link add out mtu 1400 type veth peer name far netns far mtu 1400 &&
         ip addr add 10.9.0.1/24 dev near && ip link set near up &&
         ip -n router addr add 10.9.0.2/24 dev in && ip -n router link set in up &&
         ip -n router addr add 10.9.1.2/24 dev out && ip -n router link set out up &&
         ip -n far addr add 10.9.1.1/24 dev far && ip -n far link set far up &&
         ip route add default via 10.9.0.2 && ip -n far route add default via 10.9.1.2 &&
         ip netns exec router sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' || exit 77
         ip netns exec far \"$GUSH\" link -u udp-recv:7000 file:/run/got,create,append &
         until ip netns exec far grep -q :1B58 /proc/net/udp6; do sleep 0.02; done
         for way in -u ''; do
             : >/run/got
             while [ \"$(wc -c </run/got)\" -lt 4350 ]; do printf %1450s x || break; sleep 0.02; done |
                 \"$GUSH\" link $way - udp:10.9.1.1:7000
             echo $?; ip route flush cache
         done
         # Where the kernel is not to fragment, the datagram itself is too long.
         for how in udp udp-sendto; do
             : >/run/got
             for bytes in 1450 1450 100; do printf %${bytes}s x || break; sleep 0.1; done |
                 \"$GUSH\" link -u - $how:10.9.1.1:7000,setsockopt=0:10:2; echo $?
         done
         until [ \"$(wc -c </run/got)\" = 100 ]; do sleep 0.02; done
         kill $!; wait",
    );
    let Some(output) = output else { return };
    assert_eq!(output.stdout, b"0\n0\n1\n1\n", "{output:?}");
    let messages = String::from_utf8_lossy(&output.stderr);
    for message in ["7000: write: Message too long", "udp-sendto:10.9.1.1:7000: "] {
        assert!(messages.contains(message), "{messages}");
    }
}
