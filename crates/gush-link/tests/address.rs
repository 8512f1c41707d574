//! The grammar of addresses: texts understood, texts refused and the place to which the message
//! points, and no text that makes the parser panic.

use gush_test as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gush_link::address::{
    Address, AddressError, Family, Inherited, Kind, Local, Locator, Nothing, Opt, Remote, Standard,
    Takes, UnixName,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

fn parsed(text: &str) -> Address {
    text.parse().unwrap_or_else(|error: AddressError| panic!("{error}"))
}

fn remote(host: &str, port: &str) -> Remote {
    Remote { family: None, host: host.into(), port: port.into() }
}

fn local(host: Option<&str>, port: &str) -> Local {
    Local { family: None, host: host.map(Into::into), port: port.into() }
}

#[test]
fn every_kind_is_understood() {
    let cases = [
        ("-", Locator::Stdio(Standard::Both)),
        ("STDIO", Locator::Stdio(Standard::Both)),
        ("stdin", Locator::Stdio(Standard::Input)),
        ("/tmp/a:b", Locator::Path("/tmp/a:b".into())),
        ("notes", Locator::Path("notes".into())),
        ("./tcp:x", Locator::Path("./tcp:x".into())),
        ("GOPEN:tcp", Locator::Path("tcp".into())),
        ("file:a:b", Locator::File("a:b".into())),
        ("OPEN:'a,b'", Locator::File("a,b".into())),
        ("pipe:/tmp/p", Locator::Pipe(Some("/tmp/p".into()))),
        ("PIPE", Locator::Pipe(None)),
        ("fd:3", Locator::Fd(3)),
        ("3", Locator::Fd(3)),
        ("tcp:localhost:http", Locator::Tcp(remote("localhost", "http"))),
        ("TCP:[::1]:080", Locator::Tcp(remote("::1", "80"))),
        ("tcp:[fe80::1%eth0]:80", Locator::Tcp(remote("fe80::1%eth0", "80"))),
        ("TCP6:host:80", Locator::Tcp(Remote { family: Some(Family::V6), ..remote("host", "80") })),
        ("tcp-listen:80", Locator::TcpListen(local(None, "80"))),
        ("TCP-L:*:80", Locator::TcpListen(local(None, "80"))),
        ("tcp-listen:127.0.0.1:0", Locator::TcpListen(local(Some("127.0.0.1"), "0"))),
        ("tcp-listen:80,bind=[::1]", Locator::TcpListen(local(Some("::1"), "80"))),
        (
            "TCP4-LISTEN:80",
            Locator::TcpListen(Local { family: Some(Family::V4), ..local(None, "80") }),
        ),
        ("UNIX-CONNECT:/run/s", Locator::Unix(UnixName::Path("/run/s".into()))),
        ("unix:@name", Locator::Unix(UnixName::Abstract(b"name".into()))),
        ("ABSTRACT-LISTEN:name", Locator::UnixListen(UnixName::Abstract(b"name".into()))),
        ("udp:127.0.0.1:53", Locator::Udp(remote("127.0.0.1", "53"))),
        ("UDP-L:53", Locator::UdpListen(local(None, "53"))),
        ("listen-fd:3", Locator::ListenFd(Inherited::Number(3))),
        ("listen-fd:web.socket", Locator::ListenFd(Inherited::Name("web.socket".into()))),
        ("zero:", Locator::Zero(Nothing)),
        ("null", Locator::Null(Nothing)),
    ];
    for (text, target) in cases {
        assert_eq!(*parsed(text).locator(), target, "{text}");
    }
}

#[test]
fn commands_are_split_as_a_shell_splits_them() {
    let cases: [(&str, &[&str]); 6] = [
        ("exec:cat", &["cat"]),
        ("EXEC:grep 'a b,c' \"d e\" f\\,g", &["grep", "a b,c", "d e", "f,g"]),
        // socat's examples quote the whole command.
        ("exec:'cat -v file'", &["cat", "-v", "file"]),
        ("exec:\"cat 'a b'\",pty", &["cat", "a b"]),
        ("exec:tr a-z A-Z,stderr", &["tr", "a-z", "A-Z"]),
        ("exec:printf '%s:%s'", &["printf", "%s:%s"]),
    ];
    for (text, words) in cases {
        match parsed(text).locator() {
            Locator::Exec(command) => assert_eq!(command.words(), words, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    match parsed("system:'echo a,b | cat; exit 3'").locator() {
        Locator::Shell(command) => assert_eq!(command.line(), "echo a,b | cat; exit 3"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_have_values_of_their_types() {
    let address = parsed(
        "tcp-listen:80,FORK,max-children=7,reuseaddr=0,retry=forever,interval=200ms,range=10.0.0.0/8+::1,range=127.0.0.1",
    );
    let options = address.options();
    assert!(options.is_on(Opt::Fork));
    assert_eq!(options.count(Opt::MaxChildren), Some(7));
    assert_eq!(options.flag(Opt::ReuseAddr), Some(false));
    assert_eq!(options.retries(), u32::MAX);
    assert_eq!(options.duration(Opt::Interval), Some(Duration::from_millis(200)));
    let ranges: Vec<_> = options.ranges().iter().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.0.0.0/8", "::1/128", "127.0.0.1/32"]);

    let address = parsed("file:log,append,create,mode=0640");
    assert_eq!(address.options().mode(Opt::Mode), Some(0o640));
    assert!(address.options().is_on(Opt::Append) && address.options().is_on(Opt::Create));
    assert_eq!(parsed("file:x,seek=4K").options().size_bytes(Opt::Seek), Some(4096));
    assert_eq!(
        parsed("exec:pwd,cwd='/a,b'").options().path(Opt::Directory),
        Some(&OsString::from("/a,b"))
    );
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_understood_in_the_words_of_socat() {
    let cases = [
        ("OPENSSL:h:443,openssl-cafile=/ca,verify=0", "tls:h:443,cafile=/ca,verify=0"),
        ("SSL:[::1]:443,snihost=x,commonname=y", "tls:[::1]:443,commonname=y,sni=x"),
        ("tls6:h:443,min-proto-version=TLSv1.3", "tls6:h:443,min-version=1.3"),
        ("OPENSSL-LISTEN:443,cert=/c,key=/k,fork", "tls-listen:443,fork,cert=/c,key=/k"),
        ("ssl-l:443,cert=/c,bind=[::1],alpn=h2+mqtt", "tls-listen:[::1]:443,cert=/c,alpn=h2+mqtt"),
    ];
    for (text, ours) in cases {
        assert_eq!(parsed(text).to_string(), ours, "{text}");
    }
    for (text, piece) in [
        ("tls:h:443,min-version=1.1", "1.1"),
        ("tls:h:443,alpn=h2++x", "h2++x"),
        ("tls:h:443,key=/k", "key=/k"),
        ("tls-listen:443,sni=x", "sni"),
    ] {
        let error = text.parse::<Address>().expect_err(text);
        assert_eq!(&text[error.span()], piece, "{error}");
    }
}

#[test]
fn networks_may_be_separated_by_commas() {
    let address = parsed("tcp-listen:80,range=10.0.0.0/8,192.168.0.0/16,[fe80::]/10,fork");
    assert_eq!(address.options().ranges().len(), 3);
    assert!(address.options().is_on(Opt::Fork));
}

#[test]
fn create_is_a_file_made_anew() {
    assert_eq!(parsed("CREATE:out").to_string(), "file:out,create,trunc");
}

#[test]
fn a_word_that_means_nothing_is_a_file_and_so_is_any_after_a_slash() {
    for text in [
        "notes",
        "./pty",
        "/tmp/tcp",
        "dir/exec",
        "gopen:pty",
        "pty.txt",
        "unix-",
        "udp46",
        "tun--c",
    ] {
        assert!(matches!(parsed(text).locator(), Locator::Path(_)), "{text}");
        assert_eq!(parsed(&parsed(text).to_string()), parsed(text), "{text}");
    }
}

#[test]
fn messages_point_at_the_wrong_piece() {
    let cases = [
        ("", "", "an address is missing"),
        ("tpc:host:80", "tpc", "did you mean 'tcp'?"),
        ("data:5", "data", "or the file ./data:5?"),
        ("tcp", "", "tcp needs more, after a colon: tcp:HOST:PORT"),
        ("file", "", "a file of this name is written ./file"),
        (
            "pipes",
            "pipes",
            "an option: exec:COMMAND,pipes, shell:COMMAND,pipes; a file of this name is written ./pipes",
        ),
        ("PIPES", "PIPES", "a file of this name is written ./PIPES"),
        ("append", "append", "is not an address but an option: PATH,append, file:PATH,append"),
        ("readline", "readline", "as socat has; a file of this name is written ./readline"),
        ("udplite4-datagram,fork", "udplite4-datagram", "./udplite4-datagram"),
        ("tcp:", "", "a host and a port are needed"),
        ("tcp:localhost", "localhost", "a host and a port are needed"),
        ("tcp::80", "", "a host is missing"),
        ("tcp:localhost:", "", "a port is missing"),
        ("tcp:localhost:0", "0", "nothing can be reached at port 0"),
        ("tcp:localhost:65536", "65536", "ports end at 65535"),
        ("tcp:ho st:80", " ", "no host name holds this character"),
        ("tcp:::1:80", "::1", "is written in brackets"),
        ("tcp:[::1:80", "[", "never closed"),
        ("tcp:[::1]80", "80", "a colon and a port"),
        ("tcp:[::g]:80", "[::g]", "expected an IPv6 address"),
        ("tcp4:[::1]:80", "[::1]", "expected an IPv4 address"),
        ("tcp6-listen:80,bind=127.0.0.1", "bind=127.0.0.1", "expected an IPv6 address"),
        ("udp4:h:80,bind=[::1]:9", "bind=[::1]:9", "expected an IPv4 address"),
        ("tcp:300.1.1.1:80", "300.1.1.1", "expected an IPv4 address"),
        ("tcp:localhost:!", "!", "expected a port"),
        ("tcp-listen:80,frok", "frok", "did you mean 'fork'?"),
        ("udp:a:80,fork", "fork", "which belongs to tcp, tcp-listen, "),
        ("tcp:a:80,fork!!-", "tcp:a:80,fork", "fork is for a whole address"),
        ("tcp:host:80,netns=a", "netns=a", "netns takes hosts in numbers"),
        ("file:f,lock=fast", "fast", "takes write, read, flock"),
        ("file:f,lockfile=a,waitlock=b", "waitlock=b", "contradict each other"),
        ("exec:a,run-as=b,setuid=1", "setuid=1", "contradict each other"),
        ("exec:a,cwd=/b,chroot=/c", "chroot=/c", "contradict each other"),
        ("tcp-listen:80,,fork", "", "an option is missing"),
        ("tcp-listen:80,fork,fork", "fork", "given twice"),
        ("tcp-listen:80,max-children=3", "max-children=3", "needs fork too"),
        ("tcp-listen:80,fork,max-children=", "max-children=", "takes a number"),
        ("tcp-listen:80,fork,max-children", "max-children", "needs a value"),
        ("tcp:a:80,tos=300", "300", "tos takes a number from 0 to 255"),
        ("tcp:a:80,ttl=0", "0", "ttl takes a number from 1 to 255"),
        ("udp-sendto:a:80,multicast-ttl=256", "256", "multicast-ttl takes a number from 1 to 255"),
        ("tcp-listen:80,sourceport=65536", "65536", "sourceport takes a number from 1 to 65535"),
        ("tcp-listen:80,range=10.0.0.0/33", "10.0.0.0/33", "takes networks"),
        ("tcp-listen:1.2.3.4:80,bind=::1", "bind=::1", "bind"),
        ("unix-listen:s,mode=888", "888", "octal"),
        ("tcp:a:80,retry=2,interval=soon", "soon", "takes a time"),
        ("file:x,rdonly,append", "append", "contradict each other"),
        ("file:x,excl", "excl", "needs create too"),
        ("file:", "", "a path is missing"),
        ("file:a\\", "\\", "backslash"),
        ("file:it's", "'", "never closed"),
        ("file:a\\xg0", "\\x", "two hexadecimal digits"),
        ("fd:x", "x", "expected a descriptor number"),
        ("fd:99999999999", "99999999999", "expected a descriptor number"),
        ("zero:5", "5", "takes nothing"),
        ("exec:", "", "a command is missing"),
        ("exec:''", "''", "a command is missing"),
        ("unix:@", "@", "name is missing"),
    ];
    for (text, piece, message) in cases {
        let error = text.parse::<Address>().map_err(Box::new).expect_err(text);
        assert_eq!(&text[error.span()], piece, "{error}");
        assert!(error.message().contains(message), "{error}");
    }
    let long = format!("unix:/{}", "a".repeat(107));
    let error = long.parse::<Address>().unwrap_err();
    assert!(error.message().starts_with("108 bytes: the kernel takes at most 107"), "{error}");
}

#[test]
fn a_message_shows_the_address_the_piece_and_the_grammar() {
    let error = "unix-listen:/run/s,mode=9".parse::<Address>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "mode takes permissions in octal, such as 660, up to 7777
  unix-listen:/run/s,mode=9
                          ^
  unix-listen:PATH accept on a Unix socket, removed at the end
  options: accept-timeout=SECONDS, backlog=N, cool-write, cr, crnl,
  escape=BYTE, fork, group=GROUP, ignoreeof, interval=SECONDS, lockfile=PATH,
  max-children=N, mode=OCTAL, rcvbuf=BYTES, readbytes=BYTES, retry=N|forever,
  seqpacket, setsockopt=LEVEL:NAME:VALUE, shut-none, sndbuf=BYTES, umask=OCTAL,
  unlink, unlink-close, user=USER, waitlock=PATH"
    );
    // Wide characters take two columns, and a control character never reaches the terminal.
    let error = "file:日本\u{1b},frok".parse::<Address>().unwrap_err();
    assert!(
        error.to_string().contains("\n  file:日本\u{fffd},frok\n             ^^^^\n"),
        "{error}"
    );
}

#[test]
fn a_message_shows_the_grammar_of_the_part_that_is_wrong() {
    for text in ["tcp:a:1|tpc:b:2", "tcp:a:1!!tpc:b:2", "tpc:b:2|tcp:a:1"] {
        let error = text.parse::<Address>().expect_err("no such kind");
        assert_eq!((error.kind(), &text[error.span()]), (None, "tpc"), "{text}");
        assert!(error.to_string().contains("the kinds of addresses:"), "{error}");
    }
    let error = "tcp:a:1!!unix:".parse::<Address>().expect_err("no path");
    assert_eq!(error.kind().map(|kind| kind.name()), Some("unix"), "{error}");
}

/// An address of some kind with some of the options it takes, as text.
fn any_address() -> impl Strategy<Value = String> {
    let path =
        prop_oneof!["[a-z/.]{1,12}", "(/[a-z ]{1,5}|\\\\,|'[,:x]*'|\\\\x[0-9a-f][1-9]){1,6}"];
    let host = prop_oneof![
        Just("localhost".to_owned()),
        Just("[::1]".to_owned()),
        Just("[fe80::2%eth0]".to_owned()),
        "[a-z]{1,9}(\\.[a-z]{1,5})?",
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
    ];
    let port =
        prop_oneof![(1..=u16::MAX).prop_map(|port| port.to_string()), Just("http".to_owned())];
    let words = "[a-z]{1,5}( [a-z]{1,5}| '[a-z ,]{0,5}'| \\\\,| \"[a-z,']{0,5}\"){0,3}";
    (0..Kind::all().count(), path, host, port, words, any::<[u32; 3]>(), any::<bool>()).prop_map(
        |(kind, path, host, port, words, picks, named)| {
            let kind = Kind::all().nth(kind).unwrap();
            let mut text = match kind {
                Kind::Stdio => "-".to_owned(),
                Kind::Path => format!("gopen:{path}"),
                Kind::File | Kind::Pipe => format!("{}:{path}", kind.name()),
                Kind::Unix
                | Kind::UnixClient
                | Kind::UnixListen
                | Kind::UnixSendto
                | Kind::UnixRecv
                | Kind::UnixRecvfrom => {
                    format!("{}:{}{path}", kind.name(), if named { "@" } else { "" })
                }
                Kind::Fd | Kind::ListenFd => format!("{}:{}", kind.name(), picks[0] >> 1),
                Kind::Socks5 | Kind::HttpConnect => {
                    format!("{}:[::1]:1080:{host}:{}", kind.name(), picks[0] % 65_535 + 1)
                }
                Kind::Exec | Kind::Shell => format!("{}:{words}", kind.name()),
                Kind::TcpListen | Kind::UdpListen if named => format!("{}:{port}", kind.name()),
                #[cfg(feature = "tls")]
                Kind::Tls | Kind::TlsListen => format!("{}:{host}:{port}", kind.name()),
                Kind::Tcp
                | Kind::Udp
                | Kind::UdpSendto
                | Kind::UdpDatagram
                | Kind::UdpRecv
                | Kind::TcpListen
                | Kind::UdpListen => {
                    format!("{}:{host}:{port}", kind.name())
                }
                _ => format!("{}:", kind.name()),
            };
            let rows: Vec<_> = Opt::all().filter(|row| kind.takes(row.option)).collect();
            for pick in picks.iter().filter(|_| !rows.is_empty()) {
                let row = rows[*pick as usize % rows.len()];
                let number = pick >> 8;
                text += &match row.takes {
                    Takes::Flag => format!(",{}", row.name),
                    Takes::Seconds => format!(",{}={}.{number:09}", row.name, number % 1000),
                    Takes::Mode => format!(",{}={:o}", row.name, number % 0o7777),
                    Takes::Ranges => {
                        format!(",{}={}/{}", row.name, std::net::Ipv4Addr::from(*pick), number % 33)
                    }
                    Takes::Path => format!(",{}='{path}'", row.name),
                    Takes::TlsVersion => format!(",{}=1.{}", row.name, 2 + number % 2),
                    Takes::HttpVersion => format!(",{}=1.{}", row.name, number % 2),
                    Takes::IpVersion => format!(",{}={}", row.name, 4 + number % 2 * 2),
                    Takes::SocketOption => {
                        format!(",{0}=1:2:{number},{0}=41:{number}:x00ff", row.name)
                    }
                    Takes::Text | Takes::Name => format!(",{}={host}", row.name),
                    _ => format!(",{}={}", row.name, number + 1),
                };
            }
            text
        },
    )
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Address>() {
        Ok(address) => {
            let shown = address.to_string();
            let again = shown.parse::<Address>();
            prop_assert_eq!(again.as_ref(), Ok(&address), "{} became {}", text, shown);
        }
        Err(error) => {
            prop_assert_eq!(error.text(), text);
            prop_assert!(text.get(error.span()).is_some(), "{:?} of {:?}", error.span(), text);
            prop_assert!(!error.message().is_empty() && error.to_string().lines().count() >= 3);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_an_address_or_has_a_wrong_piece(text in any::<String>()) {
        holds(&text)?;
    }

    #[test]
    fn almost_an_address_is_one_or_has_a_wrong_piece(
        text in any_address(),
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(vec!["", ",", ":", "\\", "'", "\"", "=", "[", "é", "\0", "@", "+"]),
    ) {
        let mut text = text;
        let places: Vec<_> = text.char_indices().map(|(at, c)| at..at + c.len_utf8()).collect();
        text.replace_range(at.get(&places).clone(), with);
        holds(&text)?;
    }

    #[test]
    fn an_address_displays_as_a_text_that_is_the_same_address(text in any_address()) {
        holds(&text)?;
    }

    #[test]
    fn any_bytes_can_name_a_path(name in proptest::collection::vec(1..=255_u8, 1..30)) {
        let quoted: String = name.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        for (kind, target) in [
            ("file", Locator::File(OsStr::from_bytes(&name).into())),
            ("gopen", Locator::Path(OsStr::from_bytes(&name).into())),
        ] {
            let address: Address = format!("{kind}:{quoted}").parse().unwrap();
            prop_assert_eq!(address.locator(), &target);
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }
    }
}

#[test]
fn most_generated_addresses_are_sound() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = any_address();
    let sound = (0..400).filter(|_| {
        let text = strategy.new_tree(&mut runner).unwrap().current();
        text.parse::<Address>().is_ok()
    });
    assert!(sound.count() > 100, "the round trip would be tested on too little");
}

#[test]
fn a_byte_that_is_no_text_is_one_byte_of_a_name_and_refused_in_a_command() {
    let from = |text: &[u8]| Address::from_os(OsStr::from_bytes(text));
    let name = OsStr::from_bytes(b"a\xff\\x");
    for text in [&b"file:'a\xff\\x'"[..], b"file:a\xff\\\\x", b"file:\"a\xff\\\\x\""] {
        assert_eq!(*from(text).unwrap().locator(), Locator::File(name.into()), "{text:?}");
    }
    for text in [&b"exec:cat \xff"[..], b"shell:'cat \xff'", b"-!!exec:'cat \xff'"] {
        let error = from(text).unwrap_err();
        assert!(error.message().contains("UTF-8"), "{error}");
        assert!(error.text()[error.span()].contains("cat"), "{error}");
    }
    // A byte elsewhere is none of the command's.
    assert!(from(b"exec:'echo \\xff'!!file:\xff").is_ok());
}
