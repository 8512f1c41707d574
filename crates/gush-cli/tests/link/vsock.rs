//! Connections between virtual machines and their host. Without the kernel's loopback only the
//! refusals can be tested.

use std::process::Output;

use crate::common::link::Running;
use crate::common::{gush, not_applicable};

fn link(args: &[&str]) -> Output {
    gush().arg("link").args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_machine_that_is_not_there_is_refused_in_words() {
    let done = link(&["vsock:77:1024,connect-timeout=30", "null:"]);
    let text = said(&done);
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(text.contains("vsock:77:1024: connect: "), "{text}");
    if text.contains("Address family not supported") {
        assert!(text.contains("this kernel has no vsock: load"), "{text}");
        return not_applicable("no vsock here");
    }
    assert!(text.contains("the host is CID 2") || text.contains("no machine of"), "{text}");
    for address in ["vsock:1024", "vsock:x:1", "vsock-listen:1:2:3", "vsock:1:4294967296"] {
        let text = said(&link(&[address, "null:"]));
        assert!(text.contains("the number of a machine and of a port"), "{address}: {text}");
    }
}

#[test]
fn bytes_pass_both_ways_where_the_kernel_has_the_loopback() {
    const PORT: &str = "843571";
    let text = said(&link(&["vsock:1:843570,connect-timeout=5", "null:"]));
    if !text.contains("nothing listens on this port") {
        return not_applicable(&format!("no vsock_loopback in this kernel: {text}"));
    }
    let server = Running::start(&[&format!("vsock-listen:{PORT},fork"), "exec:'tr a-z A-Z'"]);
    server.says("listening on vsock:");
    let done = link(&["shell:'echo hello; cat >&2'", &format!("vsock:1:{PORT}")]);
    assert!(said(&done).contains("HELLO"), "{done:?}");
}
