//! Every kind of address of `gush link`, and the options, as a user types them.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::gush;
use crate::common::link::{PATIENCE, Running, ask, echo, eventually, server};
use rustix::fs::OFlags;
use rustix::net::sockopt;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

/// The output of `gush link` with `args` in `dir` when `input` goes in.
fn through(dir: &Path, args: &[&str], input: &str) -> String {
    let mut command = gush();
    command.arg("link").args(args).current_dir(dir);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn files_are_made_emptied_continued_and_begun_anywhere() {
    let dir = TempDir::new().unwrap();
    let to = |address: &str, input: &str| {
        through(dir.path(), &["-u", "-", address], input);
        fs::read_to_string(dir.path().join("data")).unwrap()
    };
    assert_eq!(to("data", "one "), "one ");
    assert_eq!(to("data", "two "), "one two ");
    assert_eq!(to("file:data,append", "three"), "one two three");
    assert_eq!(to("file:data", "ONE"), "ONE two three");
    assert_eq!(to("file:data,seek=4", "TWO"), "ONE TWO three");
    assert_eq!(to("file:data,trunc", "anew"), "anew");
    fs::remove_file(dir.path().join("data")).unwrap();
    assert_eq!(to("file:data,create,excl,mode=600", "made"), "made");
    assert_eq!(through(dir.path(), &["-u", "file:data,rdonly", "-"], ""), "made");
    assert_eq!(to("OPEN:data,APPEND", " by socat's names"), "made by socat's names");
    to("file:'a, b: c',create", "quoted");
    assert_eq!(fs::read_to_string(dir.path().join("a, b: c")).unwrap(), "quoted");
    assert_eq!(through(dir.path(), &["-u", "./a\\, b: c", "-"], ""), "quoted");
}

/// The flags of a process's descriptor of `path` (proc_pid_fdinfo(5)), once there is one.
fn flags_of(pid: Pid, path: &Path) -> Option<u32> {
    let proc = format!("/proc/{}", pid.as_raw_nonzero());
    let open = fs::read_dir(format!("{proc}/fd")).ok()?.find_map(|entry| {
        let entry = entry.ok()?;
        (fs::read_link(entry.path()).ok()? == path).then(|| entry.file_name())
    })?;
    let info = fs::read_to_string(format!("{proc}/fdinfo/{}", open.to_str()?)).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok()
}

#[test]
fn a_file_is_opened_with_the_flags_that_its_options_name() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().canonicalize().unwrap().join("data");
    fs::write(&path, "").unwrap();
    let named = OFlags::NOATIME | OFlags::NOFOLLOW | OFlags::SYNC | OFlags::DSYNC;
    for (option, flags) in [
        ("", OFlags::empty()),
        (",noatime", OFlags::NOATIME),
        (",nofollow", OFlags::NOFOLLOW),
        (",sync", OFlags::SYNC),
        (",dsync", OFlags::DSYNC),
    ] {
        let mut command = gush();
        command.args(["link", "-u", "-", &format!("file:{}{option}", path.display())]);
        let mut link = Running::of({
            command.stdin(Stdio::piped());
            command
        });
        let stdin = link.stdin();
        let mut found = None;
        eventually("the file is open", || {
            found = flags_of(link.pid(), &path);
            found.is_some()
        });
        assert_eq!(found.unwrap() & named.bits(), flags.bits(), "{option}");
        drop(stdin);
        assert!(link.finish().0.success());
    }
    std::os::unix::fs::symlink("data", dir.path().join("link")).unwrap();
    let refused =
        gush().args(["link", "-u", "file:link,nofollow", "-"]).current_dir(dir.path()).output();
    let said = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(said.contains("symbolic link"), "{said}");
}

#[test]
fn names_may_have_any_letters() {
    let dir = TempDir::new().unwrap();
    through(dir.path(), &["-u", "-", "größe 日本"], "any");
    assert_eq!(fs::read_to_string(dir.path().join("größe 日本")).unwrap(), "any");
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe");
    fs::write(dir.path().join(name), "no UTF-8").unwrap();
    let output = gush().args(["link", "-u"]).arg(name).arg("-").current_dir(dir.path()).output();
    assert_eq!(output.unwrap().stdout, b"no UTF-8");
    // Within quotes, where a backslash is a letter, as without.
    let quoted = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"file:'\xff\xfe'");
    let output = gush().args(["link", "-u"]).arg(quoted).arg("-").current_dir(dir.path()).output();
    assert_eq!(output.unwrap().stdout, b"no UTF-8");
}

#[test]
fn a_writer_who_says_nothing_yet_opens_a_fifo_as_by_open() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("in");
    let (mode, kind) = (rustix::fs::Mode::RWXU, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let place = server(|mut stream| {
        stream.write_all(b"who is there?").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "me");
    });
    let mut link =
        Running::start(&[&format!("file:{},rdonly!!-", fifo.display()), &format!("tcp:{place}")]);
    let mut writer = fs::File::options().write(true).open(&fifo).unwrap();
    let mut heard = [0; 13];
    link.stdout().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"who is there?");
    writer.write_all(b"me").unwrap();
    drop(writer);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
}

#[test]
fn a_fifo_is_made_used_and_removed() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    let link = Running::start(&["-u", &format!("pipe:{},mode=600", fifo.display()), "-"]);
    eventually("it is made", || fifo.metadata().is_ok_and(|found| found.file_type().is_fifo()));
    fs::write(&fifo, "through the FIFO").unwrap();
    let (status, output, said) = link.finish();
    assert!(status.success(), "{said}");
    assert_eq!(output, b"through the FIFO");
    assert!(!fifo.exists());
}

#[test]
fn descriptors_of_the_shell_are_addresses() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("in"), "by number").unwrap();
    let line = "\"$0\" link -u fd:7 fd:8 7<in 8>out && \"$0\" link -u fd:0 fd:1 <in >>out";
    let mut shell = Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_gush")]).current_dir(dir.path());
    assert!(shell.status().unwrap().success());
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), "by numberby number");
}

#[test]
fn programs_are_addresses_with_and_without_a_terminal() {
    let dir = TempDir::new().unwrap();
    let said = |address: &str, input: &str| through(dir.path(), &["-", address], input);
    assert_eq!(said("exec:'tr a-z A-Z'", "shout"), "SHOUT");
    assert_eq!(said("exec:'sort -r',pipes", "1\n2\n"), "2\n1\n");
    assert_eq!(said("shell:'cat | rev'", "abc\n"), "cba\n");
    assert_eq!(said("shell:'tty; true'", ""), "not a tty\n");
    assert!(said("exec:tty,pty", "").starts_with("/dev/pts/"));
    assert_eq!(said("exec:cat,pty,echo=0", "line\n"), "line\r\n");
    assert_eq!(said("shell:'echo wrong >&2',stderr", ""), "wrong\n");
    assert_eq!(said("exec:pwd,cwd=/", ""), "/\n");
    assert_eq!(said("shell:umask,umask=127", ""), "0127\n");
}

#[test]
fn zero_and_null_are_endless_and_nothing() {
    let dir = TempDir::new().unwrap();
    assert_eq!(through(dir.path(), &["null:", "-"], "swallowed"), "");
    let mut command = gush();
    command.args(["link", "-u", "zero:", "-"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut some = vec![1; 100_000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert!(some.iter().all(|&byte| byte == 0));
    child.wait().unwrap();
}

#[test]
fn datagrams_go_to_the_first_who_sends_one() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = format!("udp:{}", server.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let mut buffer = [0; 100];
        let (count, client) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..count].to_ascii_uppercase(), client).unwrap();
    });
    let link = Running::start(&["udp-listen:127.0.0.1:0", &target]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"hello", link.place()).unwrap();
    let mut buffer = [0; 100];
    let count = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..count], b"HELLO");
    answering.join().unwrap();
}

#[test]
fn abstract_names_and_stale_sockets_are_served() {
    // No other process has this path, in whichever namespace of process numbers it is.
    let name = format!("@{}", gush_test::own_dir().display());
    let server = Running::start(&[&format!("unix-listen:{name},fork"), "exec:cat"]);
    server.says("listening on ");
    let dir = TempDir::new().unwrap();
    assert_eq!(through(dir.path(), &["-", &format!("unix:{name}")], "no file"), "no file");

    let path = dir.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listen = format!("unix-listen:{}", path.display());
    let (status, _, said) = Running::start(&[&listen, "exec:cat"]).finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("Address already in use") && said.contains("unlink"), "{said}");
    let link = Running::start(&[&format!("{listen},unlink"), "exec:cat"]);
    link.says("listening on ");
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"new owner").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "new owner");
    assert!(link.finish().0.success());
    assert!(!path.exists());
}

/// The name that stands until the socket listens is not to be refused for its length.
#[test]
fn a_socket_may_have_the_longest_name_that_clients_can_reach() {
    const LONGEST_BYTES: usize = 107;
    let dir = TempDir::new().unwrap();
    let listen = |name: &str| {
        let mut command = gush();
        command.args(["link", "--log", "info", &format!("unix-listen:{name}"), "exec:cat"]);
        command.current_dir(dir.path());
        Running::of(command)
    };
    let above = format!("{}/", dir.path().display());
    let below = "s".repeat(LONGEST_BYTES - above.len());
    for name in ["s".repeat(LONGEST_BYTES), format!("{above}{below}")] {
        let link = listen(&name);
        link.says("listening on ");
        assert_eq!(through(dir.path(), &["-", &format!("unix:{name}")], "hello"), "hello");
        assert!(link.finish().0.success());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{name}: nothing is left");
    }
}

#[test]
fn range_refuses_strangers_and_says_so() {
    let strangers = format!("{LISTEN},range=192.0.2.0/24+[2001:db8::]/32");
    let link = Running::start(&["--log", "info", &strangers, "zero:"]);
    let mut stranger = link.client();
    assert!(!matches!(stranger.read(&mut [0]), Ok(1..)), "not one byte");
    link.says("127.0.0.1");
    assert!(!link.said().contains(": connected"), "{}", link.said());

    let friends = format!("{LISTEN},range=192.0.2.0/24,127.0.0.0/8");
    let link = Running::start(&[&friends, &format!("tcp:{}", echo())]);
    assert_eq!(ask(link.client(), b"let in"), b"let in");
}

#[test]
fn bind_chooses_where_a_connection_comes_from() {
    let target = server(|mut stream| {
        let peer = stream.peer_addr().unwrap();
        stream.write_all(peer.ip().to_string().as_bytes()).unwrap();
    });
    let dir = TempDir::new().unwrap();
    let address = format!("tcp:{target},bind=127.0.0.77");
    assert_eq!(through(dir.path(), &["-", &address], ""), "127.0.0.77");
    assert_eq!(through(dir.path(), &["-", &format!("TCP4:{target}")], ""), "127.0.0.1");
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return crate::common::skipped("there is no IPv6 here");
    };
    let place = listener.local_addr().unwrap();
    thread::spawn(move || listener.accept().unwrap().0.write_all(b"six"));
    let dir = TempDir::new().unwrap();
    assert_eq!(through(dir.path(), &["-", &format!("tcp:{place}")], ""), "six");
}

#[test]
fn a_service_managers_socket_is_taken_over_by_number_or_name() {
    for which in ["3", "web"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let mut command = Command::new("sh");
        let line = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web \
                    exec \"$0\" link --log info \"$@\"";
        let which = format!("listen-fd:{which},fork");
        command.args(["-c", line, env!("CARGO_BIN_EXE_gush"), &which, "exec:'tr a-z A-Z'"]);
        command.stdin(std::os::fd::OwnedFd::from(listener));
        let mut link = Running::of(command);
        for _ in 0..2 {
            let stream = TcpStream::connect(place).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(ask(stream, b"activated"), b"ACTIVATED");
        }
        assert!(link.is_running());
        link.signal(Signal::TERM);
        link.finish();
    }
    let (status, _, said) = Running::start(&["listen-fd:999", "null:"]).finish();
    assert!(!status.success() && said.contains("(a service manager passes listening"), "{said}");
    let (status, _, said) = Running::start(&["listen-fd:web", "null:"]).finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("no listening sockets were passed on"), "{said}");
}

/// Each client of an inherited listener has the listener's SO_LINGER (`sk_clone_lock` of
/// net/core/sock.c), and with a limit of 0 close(2) resets the connection instead of ending it
/// (socket(7)).
#[test]
fn a_linger_limit_of_an_inherited_listener_resets_no_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_linger(&listener, Some(Duration::ZERO)).unwrap();
    let place = listener.local_addr().unwrap();
    // The first client has connected before the link takes over.
    let early = TcpStream::connect(place).unwrap();
    let (arrived, has_arrived) = std::sync::mpsc::channel();
    let has_arrived = std::sync::Mutex::new(has_arrived);
    let target = server(move |mut stream| {
        stream.read_to_end(&mut Vec::new()).unwrap();
        stream.write_all(b"answer").unwrap();
        // The end comes alone.
        has_arrived.lock().unwrap().recv().unwrap();
    });
    let mut command = gush();
    command.args(["link", "listen-fd:0,fork", &format!("tcp:{target}")]);
    command.stdin(std::os::fd::OwnedFd::from(listener));
    let _link = Running::of(command);
    for mut client in [early, TcpStream::connect(place).unwrap()] {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        arrived.send(()).unwrap();
        assert_eq!(client.read(&mut answer).expect("an end, and no reset"), 0);
    }
}

#[test]
fn a_server_learns_who_its_clients_are() {
    for (send, expected) in [("send", "PROXY TCP4 127.0.0.1 127.0.0.1 "), ("send-v2", "\r\n\r\n\0")]
    {
        let (heard, is_heard) = std::sync::mpsc::channel();
        let target = server(move |mut stream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            heard.send(all).unwrap();
        });
        let link = Running::start(&["--proxy-protocol", send, LISTEN, &format!("tcp:{target}")]);
        let client = link.client();
        let from = client.local_addr().unwrap().port();
        ask(client, b"data");
        let all = is_heard.recv().unwrap();
        assert!(all.starts_with(expected.as_bytes()) && all.ends_with(b"data"), "{all:?}");
        match send {
            "send" => {
                let header = String::from_utf8_lossy(&all).into_owned();
                assert!(header.contains(&format!(" {from} ")), "{header}");
            }
            // The source port of TCP over IPv4: after 16 bytes and two addresses.
            _ => assert_eq!(all[24..26], from.to_be_bytes()),
        }
    }
}

#[test]
fn a_proxys_header_is_taken_off_and_passed_on() {
    let link = Running::start(&[
        "--json",
        "--proxy-protocol",
        "accept",
        LISTEN,
        &format!("tcp:{}", echo()),
    ]);
    let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
    assert_eq!(ask(link.client(), &[&header[..], b"after it"].concat()), b"after it");
    assert!(link.says("\"ended\":\"closed\"").contains("\"first\":\"192.0.2.7:4711\""));
    assert_eq!(ask_in_vain(link.client()), 0, "who sends none is not served");
    assert!(link.says("\"ended\":\"proxy-header\"").contains("PROXY"));

    // Version 2 in a chain: the last one knows the first client.
    let target = format!("tcp:{}", link.place());
    let front = Running::start(&["--proxy-protocol", "send-v2", LISTEN, &target]);
    let client = front.client();
    let name = client.local_addr().unwrap().to_string();
    assert_eq!(ask(client, b"chained"), b"chained");
    link.says(&format!("\"first\":\"{name}\""));

    let both = Running::start(&["--proxy-protocol", "accept,send", LISTEN, &target]);
    assert_eq!(ask(both.client(), &[&header[..], b"both"].concat()), b"both");
    link.says_times("\"first\":\"192.0.2.7:4711\"", 2);
}

/// Sends bytes that are no PROXY header; returns the number of bytes that come back.
fn ask_in_vain(mut stream: TcpStream) -> usize {
    let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    stream.read_to_end(&mut Vec::new()).unwrap_or(0)
}

#[test]
fn socats_at_either_end_are_peers() {
    let Ok(version) = Command::new("socat").arg("-V").output() else {
        return crate::common::skipped("socat is not installed");
    };
    assert!(version.status.success());
    let dir = TempDir::new().unwrap();
    let data = crate::common::noise(3_000_001, 9);
    fs::write(dir.path().join("in"), &data).unwrap();
    let socket = dir.path().join("socat");
    let mut listens = Command::new("socat");
    listens.args(["-u", &format!("UNIX-LISTEN:{}", socket.display()), "CREATE:got"]);
    let mut listens = listens.current_dir(dir.path()).spawn().unwrap();
    through(dir.path(), &["-u", "in", "unix:socat,retry=forever,interval=20ms"], "");
    assert!(listens.wait().unwrap().success());
    assert!(fs::read(dir.path().join("got")).unwrap() == data);

    let back = dir.path().join("back").display().to_string();
    let link = Running::start(&["-u", "tcp-listen:127.0.0.1:0", &format!("file:{back},create")]);
    let connects = format!("TCP:{}", link.place());
    let mut sends = Command::new("socat");
    sends.args(["-u", "OPEN:in", &connects]).current_dir(dir.path());
    assert!(sends.status().unwrap().success());
    assert!(link.finish().0.success());
    assert!(fs::read(back).unwrap() == data);
}
