//! Devices that answer otherwise than their readiness says, as ends of `gush link`.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use crate::common::{gush, not_applicable, skipped, strace};
use tempfile::TempDir;

/// How many bytes are read there.
const BYTES: usize = 8 << 10;

/// open(2) of it fails with ENXIO, and nobody listens there.
#[test]
fn a_socket_named_as_a_standard_stream_is_refused_with_the_name_that_works() {
    for address in ["file:/dev/stdin", "/dev/stdin", "/proc/self/fd/0"] {
        let (stdin, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut command = gush();
        command.args(["link", "-u", address, "null:"]).stdin(std::os::fd::OwnedFd::from(stdin));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("(say `-`, which takes the descriptor itself)"), "{said}");
    }
}

#[test]
fn a_generator_that_has_nothing_yet_is_not_asked_again_and_again() {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    let opened = std::fs::File::options().read(true).custom_flags(flags).open("/dev/hwrng");
    let refusals = opened.and_then(|mut device| {
        let mut refused = 0_u32;
        for _ in 0..100 {
            match device.read(&mut [0; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    });
    match refusals {
        Ok(1..) => {}
        Ok(0) => return not_applicable("the generator here has always something"),
        Err(error) => return not_applicable(&format!("no /dev/hwrng that can be read: {error}")),
    }
    let dir = TempDir::new().unwrap();
    let trace = dir.path().join("trace");
    let mut command = match strace(&["-e", "trace=read", "-o", trace.to_str().unwrap()]) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    let mut child = command
        .args(["link", "-u", "/dev/hwrng", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bytes = vec![0; BYTES];
    child.stdout.take().unwrap().read_exact(&mut bytes).unwrap();
    let done = child.wait_with_output().unwrap();
    let trace = std::fs::read_to_string(&trace).unwrap();
    let refused = trace.lines().filter(|line| line.contains("EAGAIN")).count();
    // Of 64 bytes each, some pauses of 1 ms lie between two answers of the device; without them
    // there were 200 calls.
    assert!((1..BYTES / 8).contains(&refused), "{refused} refused: {done:?}");
}
