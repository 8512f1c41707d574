//! Relays: one connection through loopback, and many at once, by each method of `gush link`.
//!
//! A case is a command line of `gush link`, told by the fact `command`: whoever doubts a figure can
//! run the command by hand and send through that relay.
//!
//! Facts of a sample: `peer`, `connections`, `cpu_s_per_gib`.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

mod load;
mod usage;

use usage::Usage;

use super::{Asked, Cases, Suite, THROUGHPUT, Taken, Takes, WORK};
use crate::Error;
use crate::case::{self, Case};
use crate::model::{Described, Measured};
use crate::probe::Probe;
use crate::runner::children;

/// The suite.
pub static SUITE: Suite = Suite {
    name: "relay",
    title: "Relays between sockets",
    about: "Relays through loopback by each method of gush link: one connection, and many at once",
    more: "",
    options: &[Taken::new(
        "bytes",
        Takes::Size,
        "Relay SIZE bytes in every case, instead of 4 GiB",
    )],
    only: ("NAME,…", "Only these cases"),
    rounds: "6",
    columns: &[
        "case",
        "method",
        "connections",
        "round",
        "gib_per_s",
        "wall_s",
        "user_s",
        "system_s",
        "cpu_s_per_gib",
        "bytes",
    ],
    quantities: &[THROUGHPUT, WORK],
    axis: None,
    notes: &[
        "Sender and receiver cost less than the relay: sendfile from memory, and a receive that drops. With one connection \
         the relay has a processor, and the two have another; with many all may use all.",
    ],
    section: None,
    is_repeated: true,
    tour: |asked| asked.give("bytes", super::Given::Sizes(vec![128 << 20])),
    once: None,
    make,
};

const GIB: u64 = 1 << 30;

/// A kind of relay and its command.
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

fn make(asked: &Asked) -> Result<Cases, Error> {
    let bytes = asked.size("bytes").unwrap_or(4 * GIB);
    let through =
        |row| -> Box<dyn Case> { Box::new(Through { row, program: asked.program.clone(), bytes }) };
    Ok(Cases::of(case::choose(ROWS.iter().map(through).collect(), &asked.only)?))
}

/// So many bytes through a relay.
struct Through {
    row: &'static Row,
    program: PathBuf,
    bytes: u64,
}

impl Case for Through {
    fn suite(&self) -> &'static str {
        SUITE.name
    }

    fn name(&self) -> &str {
        self.row.name
    }

    /// The textbook's loop of read and write is the measure.
    fn described(&self) -> Described {
        let Row { name, method, connections } = *self.row;
        let (group, baseline) = match connections {
            1 => ("One connection".to_owned(), "read-write"),
            _ => (format!("{connections} connections, all together"), "read-write-many"),
        };
        Described::new(SUITE.name, name)
            .does(format!("gush link --method {method}"))
            .group(group)
            .against(baseline)
            .with("method", method)
            .with("connections", connections)
            .with("bytes", self.bytes)
    }

    /// Every measurement starts the relay anew: a part of a measurement warms up all that can be warm.
    fn warm_up(&self, probe: &Probe) -> Result<(), Error> {
        self.run(probe, self.bytes / 16).map(drop)
    }

    fn measure(&self, probe: &Probe) -> Result<Measured, Error> {
        self.run(probe, self.bytes)
    }
}

impl Through {
    /// The relay's processor, and that of sender and receiver. Many connections are there to use all of them.
    fn processors(&self, probe: &Probe) -> [Option<usize>; 2] {
        let both = probe.processors.filter(|_| self.row.connections == 1);
        both.map_or([None; 2], |both| both.map(Some))
    }

    fn run(&self, probe: &Probe, bytes: u64) -> Result<Measured, Error> {
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
        let [near, far] = self.processors(probe);
        let mut relay = children::start_on(&mut command, near)?;
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
        load::through(pairs, each_bytes, far)?;
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

/// Connects to the relay once the relay listens; `None` when the process has ended instead.
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
