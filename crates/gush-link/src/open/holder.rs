//! The process that holds a port or a Unix socket, by /proc.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::publish;
use crate::address::error::visible;
use gush_process::others;
use rustix::net::SocketType;

/// A sentence about the process that holds the port.
pub(crate) fn of_port(port: u16, kind: SocketType) -> String {
    match holder(port, kind) {
        Some(process) if u32::try_from(process) == Ok(std::process::id()) => format!(
            "port {port} is in use by this process itself ({}): each listener needs a different port",
            named(Some(process))
        ),
        Some(process) => format!("port {port} is in use by {}", named(Some(process))),
        None => format!("port {port} is in use; `ss -lp sport = {port}` shows by whom"),
    }
}

/// The process that has the Unix socket at `path`.
pub(super) fn of_unix_socket(path: &Path) -> String {
    // Inode in column 7, path in 8 (proc_net_unix(5)).
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let rows = table.split(|&byte| byte == b'\n').filter_map(|row| {
        let columns: Vec<_> = row.splitn(7, |&byte| byte == b' ').collect();
        let inode_and_path = columns.get(6)?.trim_ascii_start();
        let at = inode_and_path.iter().position(|&byte| byte == b' ')?;
        let (inode, bound) = (&inode_and_path[..at], &inode_and_path[at + 1..]);
        let is_it = publish::is_bound_for(path, Path::new(OsStr::from_bytes(bound)));
        is_it.then(|| String::from_utf8_lossy(inode).into_owned())
    });
    named(of_sockets(&rows.collect::<Vec<_>>()))
}

/// A process with its name, such as `nginx (process 812)`.
fn named(process: Option<i32>) -> String {
    let Some(process) = process else {
        return "an unknown process".to_owned();
    };
    match fs::read(format!("/proc/{process}/comm")) {
        Ok(name) => {
            // A process may choose any name (prctl(2)).
            let name = visible(String::from_utf8_lossy(&name).trim_end());
            format!("{name} (process {process})")
        }
        Err(_) => format!("process {process}"),
    }
}

fn holder(port: u16, kind: SocketType) -> Option<i32> {
    let tables: &[&str] = match kind {
        SocketType::DGRAM => &["/proc/net/udp", "/proc/net/udp6"],
        _ => &["/proc/net/tcp", "/proc/net/tcp6"],
    };
    let inodes: Vec<String> = tables.iter().flat_map(|table| inodes(table, port, kind)).collect();
    of_sockets(&inodes)
}

/// The first process that has one of the sockets open.
fn of_sockets(inodes: &[String]) -> Option<i32> {
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    others::pids().ok()?.into_iter().find(|&process| {
        let open = others::descriptors(process).unwrap_or_default();
        open.iter().any(|open| links.iter().any(|link| open.target.as_os_str() == link.as_str()))
    })
}

/// The inodes of sockets that hold a port: local address in column 2, state in 4 (0A listens),
/// inode in 10 (proc_net_tcp).
fn inodes(table: &str, port: u16, kind: SocketType) -> Vec<String> {
    let text = fs::read_to_string(table).unwrap_or_default();
    let rows = text.lines().skip(1).filter_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let (_, hexadecimal) = columns.get(1)?.rsplit_once(':')?;
        let is_ours = u16::from_str_radix(hexadecimal, 16) == Ok(port);
        let listens = kind == SocketType::DGRAM || columns.get(3) == Some(&"0A");
        let inode = columns.get(9).filter(|_| is_ours && listens)?;
        Some((*inode).to_owned())
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_write_to_the_terminal_by_its_name() {
        fs::write("/proc/thread-self/comm", "\x1b[31mred\nä").unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let shown = format!("\u{fffd}[31mred\u{fffd}ä (process {own})");
        assert_eq!(named(Some(own)), shown);
    }
}
