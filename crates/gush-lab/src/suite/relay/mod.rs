//! Relays: one connection through loopback, and many at once, by each method of `gush link`.
//!
//! A case is a command line of `gush link`, told by the fact `command`: whoever doubts a figure can
//! run it by hand and send through it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

mod load;
mod usage;

use usage::Usage;

use crate::case::{Case, View};
use crate::model::{Measured, Sample};
use crate::runner::{Conditions, children};
use crate::{Error, csv, table};

const GIB: u64 = 1 << 30;

/// What is relayed how.
#[derive(Debug)]
struct Row {
    name: &'static str,
    method: &'static str,
    connections: u32,
}

const MANY: u32 = 16;

/// How long a relay may take to listen, and to connect on.
const PATIENCE: Duration = Duration::from_secs(10);

const ROWS: &[Row] = &[
    Row { name: "link", method: "auto", connections: 1 },
    Row { name: "read-write", method: "read-write", connections: 1 },
    Row { name: "splice", method: "splice", connections: 1 },
    Row { name: "link-many", method: "auto", connections: MANY },
    Row { name: "read-write-many", method: "read-write", connections: MANY },
    Row { name: "splice-many", method: "splice", connections: MANY },
];

/// The cases of `program`, which has `link`, with so many bytes each (4 GiB unless told otherwise),
/// divided among the case's connections.
///
/// ```
/// let cases = gush_lab::suite::relay::cases("gush".as_ref(), Some(1 << 20));
/// assert_eq!(cases[0].name(), "link");
/// ```
#[must_use]
pub fn cases(program: &Path, bytes: Option<u64>) -> Vec<Box<dyn Case>> {
    let bytes = bytes.unwrap_or(4 * GIB);
    let through = |row| Through { row, program: program.to_owned(), bytes };
    ROWS.iter().map(|row| Box::new(through(row)) as Box<dyn Case>).collect()
}

/// So many bytes through a relay.
struct Through {
    row: &'static Row,
    program: PathBuf,
    bytes: u64,
}

impl Case for Through {
    fn suite(&self) -> &'static str {
        "relay"
    }

    fn name(&self) -> &str {
        self.row.name
    }

    /// Every measurement starts its relay anew: what can be warmed is done by a part of it.
    fn warm_up(&self, _conditions: &Conditions) -> Result<(), Error> {
        self.run(self.bytes / 16).map(drop)
    }

    fn measure(&self, _conditions: &Conditions) -> Result<Measured, Error> {
        self.run(self.bytes)
    }
}

impl Through {
    fn run(&self, bytes: u64) -> Result<Measured, Error> {
        let connections = u64::from(self.row.connections);
        let each_bytes = (bytes / connections).max(1);
        let bytes = each_bytes * connections;
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(no_port)?;
        // It is accept(2) that then gives up (SO_RCVTIMEO of socket(7)).
        sockopt::set_socket_timeout(&server, sockopt::Timeout::Recv, Some(PATIENCE))
            .map_err(|errno| no_port(errno.into()))?;
        let to = server.local_addr().map_err(no_port)?;
        let from = {
            // Taken for a moment, so that the kernel chooses one that is free.
            let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(no_port)?;
            taken.local_addr().map_err(no_port)?
        };
        let words = [
            "link".to_owned(),
            "--method".to_owned(),
            self.row.method.to_owned(),
            format!("tcp-listen:{from},fork,reuseaddr"),
            format!("tcp:{to}"),
        ];
        let mut command = Command::new(&self.program);
        command.args(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut relay = children::start(&mut command)?;
        let mut pairs = Vec::new();
        for _ in 0..connections {
            let Some(client) = connect(&mut relay, from)? else {
                let output = relay.finish()?;
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or("nothing");
                return Err(Error::refused(format!("gush link ended and said: {last}")));
            };
            let (server, _) = server
                .accept()
                .map_err(|error| Error::failed("gush link did not connect on", error))?;
            pairs.push((client, server));
        }
        let before = Usage::of(relay.child().id())?;
        let begun = Instant::now();
        load::through(pairs, each_bytes)?;
        let wall_s = begun.elapsed().as_secs_f64();
        let used = Usage::of(relay.child().id())?.since(before);
        let gib = bytes as f64 / GIB as f64;
        Ok(Measured {
            gib_per_s: Some(gib / wall_s),
            wall_s: Some(wall_s),
            user_s: Some(used.user_s),
            system_s: Some(used.system_s),
            bytes,
            ..Measured::default()
        }
        .with("peer", "gush link")
        .with("method", self.row.method)
        .with("connections", self.row.connections)
        .with("cpu_s_per_gib", used.run_s / gib)
        .with("command", format!("gush {}", words.join(" "))))
    }
}

fn no_port(error: std::io::Error) -> Error {
    Error::failed("no port on loopback", error)
}

/// Connects to the relay once it listens; `None` when it has ended instead.
fn connect(
    relay: &mut children::Running,
    to: std::net::SocketAddr,
) -> Result<Option<TcpStream>, Error> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(to) {
            Ok(client) => return Ok(Some(client)),
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(Error::failed("gush link does not listen", error));
            }
            Err(_) if matches!(relay.child().try_wait(), Ok(Some(_))) => return Ok(None),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The relays' CSV and table.
#[derive(Clone, Copy, Debug)]
pub struct Relays;

impl View for Relays {
    fn csv_header(&self) -> &str {
        "case,method,connections,round,gib_per_s,wall_s,user_s,system_s,cpu_s_per_gib,bytes"
    }

    /// ```
    /// use gush_lab::{case::View, model::{Measured, Sample}, suite::relay::Relays};
    /// let measured = Measured { gib_per_s: Some(2.5), wall_s: Some(0.4), bytes: 1 << 30, ..Measured::default() }
    ///     .with("method", "auto").with("connections", 1).with("cpu_s_per_gib", 0.25);
    /// let sample = Sample { suite: "relay".into(), case: "link".into(), round: 1, measured };
    /// assert_eq!(Relays.csv_row(&sample), "link,auto,1,1,2.500000,0.400000,,,0.25,1073741824");
    /// ```
    fn csv_row(&self, sample: &Sample) -> String {
        let Sample { case, round, measured, .. } = sample;
        let [method, connections, cpu] =
            ["method", "connections", "cpu_s_per_gib"].map(|name| csv::fact(measured, name));
        let [speed, wall, user, system] =
            [measured.gib_per_s, measured.wall_s, measured.user_s, measured.system_s]
                .map(csv::figure);
        let bytes = measured.bytes;
        format!(
            "{case},{method},{connections},{round},{speed},{wall},{user},{system},{cpu},{bytes}"
        )
    }

    fn table(&self, samples: &[Sample]) -> String {
        table::of(samples)
    }
}
