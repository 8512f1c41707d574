//! Bytes for a relay, at less cost than the relay's own: sent from memory by sendfile, received and
//! dropped inside the kernel.

use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::RecvFlags;

use crate::{Error, affinity};

/// The bytes that are sent again and again: small enough to stay in memory, large enough for large calls.
const MEMORY_BYTES: u64 = 16 << 20;

/// Sends `each_bytes` from every pair's first stream, and receives them at the pair's second stream, to the end; on one processor, if
/// one is named.
pub(super) fn through(
    pairs: Vec<(TcpStream, TcpStream)>,
    each_bytes: u64,
    processor: Option<usize>,
) -> Result<(), Error> {
    let memory = memory().map_err(|error| Error::failed("no memory to send from", error))?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (client, server) in &pairs {
            let memory = &memory;
            // Unpinned they are slower, not wrong.
            let pin = move || processor.map(affinity::pin);
            threads.push(scope.spawn(move || {
                let _ = pin();
                send(client, memory, each_bytes)
            }));
            threads.push(scope.spawn(move || {
                let _ = pin();
                receive(server, each_bytes)
            }));
        }
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done.map_err(|error| Error::failed("the relay lost the stream", error)),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn memory() -> io::Result<File> {
    let mut memory = File::from(memfd_create("gush-lab-relay", MemfdFlags::CLOEXEC)?);
    memory.write_all(&vec![0xa5; MEMORY_BYTES as usize])?;
    Ok(memory)
}

fn send(client: &TcpStream, memory: &File, total_bytes: u64) -> io::Result<()> {
    // sendfile has no MSG_NOSIGNAL: a relay that dies is an error of its case, not this program's end.
    SigSet::from(Signal::SIGPIPE).thread_block()?;
    let mut sent = 0;
    while sent < total_bytes {
        let mut at = sent % MEMORY_BYTES;
        let most = (MEMORY_BYTES - at).min(total_bytes - sent);
        sent += sendfile(client.as_fd(), memory, Some(&mut at), most as usize)? as u64;
    }
    client.shutdown(Shutdown::Write)
}

fn receive(server: &TcpStream, total_bytes: u64) -> io::Result<()> {
    // MSG_TRUNC on TCP: received and dropped without being copied (tcp(7)).
    let mut nothing = vec![MaybeUninit::<u8>::uninit(); 1 << 20];
    let mut received = 0;
    loop {
        match rustix::net::recv(server, &mut nothing[..], RecvFlags::TRUNC)?.1 {
            0 if received == total_bytes => return Ok(()),
            0 => {
                let cut = format!("{received} of {total_bytes} bytes arrived");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
            }
            got => received += got as u64,
        }
    }
}
