//! A relay that lives as long as the load, and what it uses.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::Failed;

/// How long a relay is waited for: so many moments.
const PATIENCE: u32 = 1000;
const MOMENT: Duration = Duration::from_millis(5);
/// How often the memory of a relay is looked at.
const GLANCE: Duration = Duration::from_millis(30);

pub struct Relay {
    process: Child,
    port: u16,
}

impl Relay {
    /// Starts a relay, and waits until the relay listens on `port`: without connecting, because a
    /// relay may take one client only.
    pub fn start(command: &[String], port: u16) -> Result<Self, Failed> {
        let (program, words) = command.split_first().ok_or("-- needs the command of a relay")?;
        if listens(port)? {
            return Err(format!("somebody listens on port {port} already").into());
        }
        let process = Command::new(program).args(words).stdin(Stdio::null()).spawn()?;
        let mut relay = Self { process, port };
        for _ in 0..PATIENCE {
            if listens(port)? {
                return Ok(relay);
            }
            if let Some(status) = relay.process.try_wait()? {
                return Err(format!("{program} ended before it listened: {status}").into());
            }
            thread::sleep(MOMENT);
        }
        Err(format!("{program} does not listen on port {port}").into())
    }

    /// The relay's processes: HAProxy and nginx work in a child, and socat serves each client in
    /// one.
    fn pids(&self) -> Vec<u32> {
        let (mut found, mut queue) = (Vec::new(), VecDeque::from([self.process.id()]));
        while let Some(pid) = queue.pop_front() {
            found.push(pid);
            for task in tasks(pid) {
                let children = fs::read_to_string(task.join("children")).unwrap_or_default();
                queue.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        found
    }

    /// Processor seconds so far: of living threads to the nanosecond, of children that have ended
    /// in clock ticks (proc(5)).
    pub fn cpu_seconds(&self) -> f64 {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        // cutime and cstime.
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok());
        let ended = [13, 14].into_iter().filter_map(ticks).sum::<u64>() as f64;
        let run_ns = |task: std::path::PathBuf| {
            let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            text.split_whitespace().next().and_then(|first| first.parse::<u64>().ok())
        };
        let living: u64 = self.pids().into_iter().flat_map(tasks).filter_map(run_ns).sum();
        ended / rustix::param::clock_ticks_per_second() as f64 + living as f64 / 1e9
    }

    /// The memory that no file backs.
    fn anonymous_bytes(&self) -> u64 {
        let own = |pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
        };
        self.pids().into_iter().filter_map(own).sum()
    }

    pub fn descriptors(&self) -> usize {
        let own = |pid| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        self.pids().into_iter().map(own).sum()
    }

    /// Looks at the memory until `is_over`; answers by how much it grew at most.
    pub fn growth_bytes<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        is_over: &'s AtomicBool,
    ) -> ScopedJoinHandle<'s, u64> {
        let idle = self.anonymous_bytes();
        scope.spawn(move || {
            let mut most = idle;
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(GLANCE);
                most = most.max(self.anonymous_bytes());
            }
            most - idle
        })
    }

    /// Waits until the relay ends by itself.
    pub fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The children of a killed process would go on, and a parent (nginx) starts those anew that
        // are killed before it.
        let pids = self.pids();
        let _ = self.process.kill();
        for pid in pids.into_iter().skip(1) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.process.wait();
        // A relay of several processes is gone when its last one is, and the next relay needs the
        // port.
        for _ in 0..PATIENCE {
            if !listens(self.port).unwrap_or(false) {
                break;
            }
            thread::sleep(MOMENT);
        }
    }
}

fn tasks(pid: u32) -> Vec<std::path::PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.flatten().map(|task| task.path()).collect()
}

/// Does a socket listen on `port`? (proc_net_tcp(5))
fn listens(port: u16) -> io::Result<bool> {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp")?;
    Ok(table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|address| address.ends_with(&local))
            && fields.nth(1) == Some(LISTEN)
    }))
}
