//! A `gush link` that runs while a test talks through the link.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::gush;

/// Longer than anything takes that is not stuck.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running link. Dropped at the end of the test, the value kills the process.
pub struct Running {
    child: Child,
    said: Arc<(Mutex<String>, Condvar)>,
    heard: Option<thread::JoinHandle<()>>,
}

impl Running {
    /// `gush link --log info` with `args`; standard input is empty.
    pub fn start(args: &[&str]) -> Self {
        let mut command = gush();
        command.args(["link", "--log", "info"]).args(args);
        Self::of(command)
    }

    /// Any command that speaks to standard error.
    pub fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let (stderr, hears) = (child.stderr.take().unwrap(), Arc::clone(&said));
        // Read all the time: a full pipe would hold a link that writes its log.
        let heard = thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                *hears.0.lock().unwrap() += &(String::from_utf8_lossy(&line).into_owned() + "\n");
                hears.1.notify_all();
            }
        });
        Self { child, said, heard: Some(heard) }
    }

    /// The link's messages so far.
    pub fn said(&self) -> String {
        self.said.0.lock().unwrap().clone()
    }

    /// Waits until the link has written a line with `words`, and gives that line.
    pub fn says(&self, words: &str) -> String {
        self.says_times(words, 1)
    }

    /// Waits until `count` lines have `words`, and gives the last of them.
    pub fn says_times(&self, words: &str, count: usize) -> String {
        let start = Instant::now();
        let mut said = self.said.0.lock().unwrap();
        loop {
            if let Some(line) = said.lines().filter(|line| line.contains(words)).nth(count - 1) {
                return line.to_owned();
            }
            assert!(start.elapsed() < PATIENCE, "never said {count} times '{words}':\n{said}");
            said = self.said.1.wait_timeout(said, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// Waits until `count` lines have `words`, and sees to it that no more have: the link writes
    /// its lines alongside its work, so that an answer may be here before the line about it.
    pub fn says_just(&self, words: &str, count: usize) {
        self.says_times(words, count);
        let said = self.said();
        assert_eq!(said.matches(words).count(), count, "'{words}':\n{said}");
    }

    /// The address of the listening link, once known: `127.0.0.1:PORT`.
    pub fn place(&self) -> String {
        let line = self.says("listening on ");
        line.split("listening on ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    }

    /// A connection to the link's address.
    pub fn client(&self) -> TcpStream {
        client_of(&self.place())
    }

    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The link's standard output, which `finish` does not read then.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The number of open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The sockets and programs of the link's descriptors, once for each descriptor; neither the
    /// pool of pipes nor what the threads need, but for their copies of the listener.
    pub fn ends(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let is_end = |target: &PathBuf| {
            let target = target.to_string_lossy();
            target.starts_with("socket:") || target.contains("[pidfd]")
        };
        targets.filter(is_end).collect()
    }

    /// The link's anonymous memory, in KiB.
    pub fn anonymous_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The link's processor time, user and system, in ticks of 10 ms: fields 14 and 15 of
    /// proc_pid_stat(5).
    pub fn processor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let fields = after_name.split_whitespace().skip(11).take(2);
        fields.map(|field| field.parse::<u64>().unwrap()).sum()
    }

    /// Waits for the link's end: status, standard output, standard error.
    pub fn finish(mut self) -> (ExitStatus, Vec<u8>, String) {
        let stdout = self.child.stdout.take();
        // Read during the wait: a link with more output than a pipe holds would never end.
        let reader = thread::spawn(move || {
            let mut output = Vec::new();
            stdout.map(|mut stdout| stdout.read_to_end(&mut output).unwrap());
            output
        });
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "does not end:\n{}", self.said());
            thread::sleep(Duration::from_millis(5));
        };
        // What it has started may hold its standard output a moment longer.
        eventually("its standard output ends", || reader.is_finished());
        let output = reader.join().unwrap();
        self.heard.take().unwrap().join().unwrap();
        (status, output, self.said())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `gush link` with `args`, whose standard error nobody reads once the link has printed its
/// address: the child, its standard error, and that place.
pub fn unread(args: &[&str]) -> (Killed, ChildStderr, String) {
    let mut command = gush();
    command.arg("link").args(args).stderr(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let mut stderr = child.0.stderr.take().unwrap();
    let mut said = String::new();
    while !said.contains(" for tcp-listen") {
        let mut byte = [0];
        // Byte by byte: what is read ahead would be taken out of the pipe that is to fill.
        stderr.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let place = said.split("listening on ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    (child, stderr, place)
}

/// A client of `place` that waits for no answer for ever.
pub fn client_of(place: &str) -> TcpStream {
    let stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A child that is killed when the test is over, also a failed test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `holds`.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A server that does `serve` to every connection, in a thread each, until the process ends. Its
/// address.
pub fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            // Thousands of connections in one test: stacks of 2 MiB would fill small machines.
            let small = thread::Builder::new().stack_size(256 << 10);
            small.spawn(move || serve(stream)).unwrap();
        }
    });
    address
}

/// A server that echoes bytes and the end of data.
pub fn echo() -> String {
    server(|mut stream| {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
    })
}

/// Sends `question`, ends that direction, and reads all of the answer.
pub fn ask(mut stream: TcpStream, question: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        // Written during the reading: an echo blocks once both directions are full.
        scope.spawn(move || {
            writer.write_all(question).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        stream.read_to_end(&mut answer).unwrap();
    });
    answer
}
