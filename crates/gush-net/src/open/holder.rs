//! Who holds a port, as far as /proc tells.

use std::fs;

use rustix::net::SocketType;

/// A sentence for the user whose port is taken.
pub(crate) fn of_port(port: u16, kind: SocketType) -> String {
    match holder(port, kind) {
        Some(process) => format!("port {port} is in use by {}", named(Some(process))),
        None => format!("port {port} is in use; `ss -lp sport = {port}` shows by whom"),
    }
}

/// A process with its name, such as `nginx (process 812)`.
pub(super) fn named(process: Option<i32>) -> String {
    let Some(process) = process else {
        return "an unknown process".to_owned();
    };
    match fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("{} (process {process})", name.trim_end()),
        Err(_) => format!("process {process}"),
    }
}

fn holder(port: u16, kind: SocketType) -> Option<i32> {
    let tables: &[&str] = match kind {
        SocketType::DGRAM => &["/proc/net/udp", "/proc/net/udp6"],
        _ => &["/proc/net/tcp", "/proc/net/tcp6"],
    };
    let inodes: Vec<String> = tables.iter().flat_map(|table| inodes(table, port, kind)).collect();
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.into_iter().find(|process| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        open.into_iter().any(|entry| {
            fs::read_link(entry.path())
                .is_ok_and(|link| link.to_str().is_some_and(|link| links.iter().any(|l| l == link)))
        })
    })
}

/// The sockets that hold a port: local address in column 2, state in 4 (0A listens), inode in 10 (proc_net_tcp).
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
