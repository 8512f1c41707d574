//! Command lines of socat and what is printed for them.

use super::*;

fn line(arguments: &str) -> String {
    let mut report = Report::default();
    let line = super::line(arguments, &mut report);
    assert!(report.is_whole(), "{arguments}: {report:?}");
    let line = line.unwrap_or_else(|| panic!("{arguments}"));
    let words = line.strip_prefix("gush link --graceful ");
    format!("gush link {}", words.unwrap_or_else(|| panic!("{arguments}: {line}")))
}

fn missing(arguments: &str) -> String {
    let mut report = Report::default();
    super::line(arguments, &mut report);
    assert!(!report.is_whole(), "{arguments} has an equivalent");
    [report.missing, report.wrong].concat().join("\n")
}

#[test]
fn everyday_command_lines_have_an_equivalent() {
    let cases = [
        ("- TCP:localhost:80", "gush link - tcp:localhost:80,prefer=4"),
        ("socat STDIO TCP4:localhost:www", "gush link - tcp4:localhost:www"),
        (
            "TCP-LISTEN:8080,fork,reuseaddr TCP4:10.0.0.2:80",
            "gush link tcp4-listen:8080,fork,reuseaddr tcp4:10.0.0.2:80",
        ),
        ("-4 TCP-L:1,bind=127.0.0.1 -", "gush link tcp4-listen:127.0.0.1:1 -"),
        ("- TCP6:[::1]:80", "gush link - 'tcp6:[::1]:80'"),
        ("./f,creat=0 /dev/ttyS0", "gush link ./f,create=0 /dev/ttyS0"),
        ("GOPEN:f!!- TCP:h:1", "gush link 'f,create!!-' tcp:h:1,prefer=4"),
        ("-u f/g -", "gush link -u f/g,create -"),
        ("-U f/g -", "gush link -U f/g -"),
        ("f/g TCP-L:1,fork", "gush link f/g,shared,create tcp4-listen:1,fork"),
        ("- TCP-L:1,fork", "gush link - tcp4-listen:1,fork"),
        ("-U EXEC:a!!- TCP-L:1,fork", "gush link -U 'exec:a,shared!!-' tcp4-listen:1,fork"),
        ("TCP:h:1 UDP-L:1", "gush link tcp:h:1,prefer=4 udp4-listen:1,null-eof"),
        ("-d -d -u OPEN:a,rdonly -", "gush link --log info -u file:a,rdonly -"),
        ("-U OPEN:a,creat,append TCP:h:1", "gush link -U file:a,append,create tcp:h:1,prefer=4"),
        ("-T30 -t 2 -v -x - /tmp/s", "gush link -T 30 -t 2 -v -x - /tmp/s,create"),
        ("-t1 - /dev/null", "gush link -t 1 - /dev/null"),
        ("-t1 - ./f9,rdonly", "gush link -t 1 - ./f9,rdonly,create"),
        (
            "SOCKS5:p:h:22 SOCKS5:q:h:22,socksport=9",
            "gush link socks5:p:1080:h:22,prefer=4 socks5:q:9:h:22,prefer=4",
        ),
        ("SOCKS4:p:h:22 -", "gush link socks4:p:1080:h:22,prefer=4 -"),
        (
            "SOCKS4A:p:h:22,socksport=9,socksuser=me -",
            "gush link socks4a:p:9:h:22,prefer=4,socksuser=me -",
        ),
        ("TCP-L:1,fork,cool-write -", "gush link tcp4-listen:1,fork,cool-write -"),
        ("TCP:h:1,cool-write -", "gush link tcp:h:1,prefer=4,cool-write -"),
        (
            "TCP:h:1,fork,interval=5,max-children=3 EXEC:a",
            "gush link tcp:h:1,fork,max-children=3,interval=5,prefer=4 exec:a",
        ),
        (
            "- OPENSSL:h:1,fork,forever",
            "gush link - tls:h:1,fork,retry=forever,prefer=4,commonname=h",
        ),
        ("SSL:[::1]:1,cn=x -", "gush link 'tls:[::1]:1,commonname=x' -"),
        ("SSL:[::1]:1 -", "gush link 'tls:[::1]:1,commonname=[::1]' -"),
        ("SSL:h:1,verify=0 -", "gush link tls:h:1,prefer=4,verify=0 -"),
        ("FILE:f TCP:h:1,fork", "gush link file:f,shared tcp:h:1,fork,prefer=4"),
        ("-L/run/l TCP-L:1,fork EXEC:a", "gush link tcp4-listen:1,fork,lockfile=/run/l exec:a"),
        ("-W l - TCP-L:1,fork", "gush link - tcp4-listen:1,fork,waitlock=l"),
        ("-L l FILE:f TCP-L:1,fork", "gush link file:f,shared,lockfile=l tcp4-listen:1,fork"),
        ("-L a\\,b - TCP-L:1", r#"gush link "-,lockfile=a\\,b" tcp4-listen:1"#),
        ("TCP:h:1,waitlock=l -", "gush link tcp:h:1,prefer=4,waitlock=l -"),
        // With -u the second part is not opened.
        ("-u -L l OPEN:a!!OPEN:b -", "gush link -u 'file:a,lockfile=l!!file:b' -"),
        ("-U -L l OPEN:a!!OPEN:b -", "gush link -U 'file:a!!file:b,lockfile=l' -"),
        ("-u - OPEN:f,creat,setlkw", "gush link -u - file:f,create,lock=wait-write"),
        ("-u /dev/null -,setlk", "gush link -u /dev/null -,lock=write"),
        ("-u OPEN:f,flock-sh -", "gush link -u file:f,lock=wait-flock-shared -"),
        (
            "--experimental TCP-L:1,netns=x TCP:10.0.0.1:2",
            "gush link tcp4-listen:1,netns=x tcp:10.0.0.1:2",
        ),
        ("TCP-L:1,fork,su=nobody EXEC:a", "gush link tcp4-listen:1,fork,run-as=nobody exec:a"),
        ("- EXEC:a,su-d=u,chroot=/x,setgid=5", "gush link - exec:a,run-as=u,setgid=5,chroot=/x"),
        ("-u PIPE:f,nonblock -", "gush link -u pipe:f,nonblock -"),
        (
            "-u EXEC:'a $SOCAT_OPENSSL_X509_COMMONNAME' -",
            r#"gush link -u "exec:'a "'$SOCAT_OPENSSL_X509_COMMONNAME'"'" -"#,
        ),
        ("SYSTEM:'env | grep SOCAT_OPENSSL' -", "gush link \"shell:'env | grep SOCAT_OPENSSL'\" -"),
        ("-u -b 65536 UDP:h:1 -", "gush link -u -b 65536 udp:h:1,null-eof -"),
        ("-b 65536 - UNIX-SEND:s", "gush link -b 65536 - unix-sendto:s"),
        ("-t0 -T 0 - -", "gush link -t 1ms - -"),
        ("-r a -R'b c' - -", "gush link --tee a --tee-back 'b c' - -"),
        ("-b 1048576 - TCP:h:1", "gush link - tcp:h:1,prefer=4"),
        ("-U -R a - -", "gush link -U --tee-back a - -"),
        ("-U -r a - -", "gush link -U --tee a - -"),
        ("-u -R a - -", "gush link -u --tee-back a - -"),
        ("-lf/var/log/s -lu - -", "gush link --log-format timed - - 2>>/var/log/s"),
        ("TCP:h:1,sourceport=53,bind=10.0.0.1 -", "gush link tcp:h:1,bind=10.0.0.1:53,prefer=4 -"),
        ("TCP:h:1,sp=53 -", "gush link tcp:h:1,bind=:53,prefer=4 -"),
        ("TCP-L:1,sp=53 -", "gush link tcp4-listen:1,sourceport=53 -"),
        ("UDP-DATAGRAM:h:1,sp=53 -", "gush link udp-datagram:h:1,sourceport=53 -"),
        ("OPEN:f,seek=0x00074420 -", "gush link file:f,seek=476192 -"),
        ("OPEN:f,seek=010 -", "gush link file:f,seek=8 -"),
        ("-u OPEN:f,seek-end=-0x10,ignoreeof -", "gush link -u file:f,seek-end=-16,ignoreeof -"),
        ("-u OPEN:f,lseek64-end=010 -", "gush link -u file:f,seek-end=8 -"),
        ("-u GOPEN:f,seek-end=-2 -", "gush link -u f,seek-end=-2,create -"),
        ("-u - /dev/sda,seek=512", "gush link -u - /dev/sda,seek=512"),
        // Without a value it is 1.
        ("-u OPEN:f,seek-end -", "gush link -u file:f,seek-end=1 -"),
        ("TCP:h:1,lowport,ip-tos=0x10 -", "gush link tcp:h:1,lowport,tos=16,prefer=4 -"),
        ("TCP-L:1,so-reuseport,ttl=4 -", "gush link tcp4-listen:1,reuseport,ttl=4 -"),
        ("TCP:h:1,shut-null -", "gush link tcp:h:1,prefer=4,shut-none -"),
        ("UNIX-CONNECT:s,shut-null -", "gush link unix:s,shut-none -"),
        ("UNIX:s ABSTRACT:t", "gush link unix-client:s unix-client:@t"),
        ("UNIX:s TCP-L:1,fork", "gush link unix:s,shared tcp4-listen:1,fork"),
        ("SOCKETPAIR SOCKETPAIR,socktype=1", "gush link socketpair pipe:"),
        ("- UDPLITE4-SENDTO:h:1,shut-null", "gush link - udp4-sendto:h:1,udplite,shut-null"),
        (
            "-u UDPLITE-L:1,udplite-recv-cscov=8 -",
            "gush link -u udp4-listen:1,udplite,setsockopt=136:11:8,null-eof -",
        ),
        (
            "TCP:h:1,cork,mtudiscover=2,setsockopt=6:2:x00020000 -",
            "gush link tcp:h:1,setsockopt=6:3:1,setsockopt=0:10:2,setsockopt=6:2:512,prefer=4 -",
        ),
        (
            "-u UDP-RECVFROM:1,ip-recvttl,so-timestamp SYSTEM:'echo $SOCAT_IP_TTL'",
            "gush link -u udp4-recvfrom:1,ancillary \"shell:'echo \"'$SOCAT_IP_TTL'\"'\"",
        ),
        ("-u UDP-RECV:1,ip-pktinfo,null-eof -", "gush link -u udp4-recv:1,null-eof,ancillary -"),
        ("UDP4-RECV:1!!UDP4-SENDTO:h:2 -", "gush link 'udp4-recv:1!!udp4-sendto:h:2' -"),
        ("SOCKET-CONNECT:2:6:x0050c0000201 -", "gush link tcp4:192.0.2.1:80 -"),
        (
            "SOCKET-LISTEN:10:6:x0050x00000000x00000000000000000000000000000001,fork -",
            "gush link 'tcp6-listen:[::1]:80,fork' -",
        ),
        (
            "PROXY:p:h:1,pf=ip4,http-version=1.1 SOCKS4:p:h:1,pf=ip6",
            "gush link http-connect:p:8080:h:1,http-version=1.1,family=4 socks4:p:1080:h:1,family=6",
        ),
        ("TCP:h:1,end-close TCP-L:2,fork", "gush link tcp:h:1,shared,prefer=4 tcp4-listen:2,fork"),
        (
            "-U CREATE:f,chdir=/tmp SYSTEM:pwd,umask=0066",
            "gush link -U file:/tmp/f,create,trunc shell:pwd,umask=66",
        ),
        ("-U OPEN:f,o-noatime,ftruncate=0 -", "gush link -U file:f,trunc,noatime -"),
        (
            "TCP:h:1,setsockopt-int=6:3:1,setsockopt-int=1:9:1,cork,cork=0 -",
            "gush link tcp:h:1,setsockopt=6:3:1,setsockopt=1:9:1,setsockopt=6:3:0,prefer=4 -",
        ),
        ("TCP:h:1,interval=1 -", "gush link tcp:h:1,prefer=4 -"),
        ("TCP:h:1,forever=0 -", "gush link tcp:h:1,prefer=4 -"),
        ("TCP:h:1,retry=3,forever=0 -", "gush link tcp:h:1,retry=3,prefer=4 -"),
        ("TCP:h:1,forever,retry=3 -", "gush link tcp:h:1,retry=forever,prefer=4 -"),
        // Of Unix sockets UNIX-CONNECT and UNIX-LISTEN are tried again, for socat as here.
        ("UNIX-CONNECT:s,forever -", "gush link unix:s,retry=forever -"),
        ("UNIX:s,retry=3,interval=2 -", "gush link unix-client:s -"),
        ("UNIX:s,forever TCP-L:1,fork", "gush link unix:s,shared tcp4-listen:1,fork"),
        ("-u - ABSTRACT-SENDTO:s,forever", "gush link -u - unix-sendto:@s"),
        ("-u UNIX-RECV:s,retry=3 -", "gush link -u unix-recv:s -"),
        ("UNIX:s,type=5,bind=t -", "gush link unix:s,bind=t,seqpacket,unlink-close=0 -"),
        ("UNIX-L:s,umask=177,mode=660 -", "gush link unix-listen:s,mode=660,umask=177 -"),
        ("UNIX-L:s,perm-early=660,uid-e=5 -", "gush link unix-listen:s,mode=660,user=5 -"),
        (
            "TCP-L:1,fork EXEC:a,pty,setsid,setpgid",
            "gush link tcp4-listen:1,fork exec:a,pty,stderr=0,setsid",
        ),
        (
            "TCP-L:1,fork,reuseaddr EXEC:a,pty,stderr,setsid,sigint,sane",
            "gush link tcp4-listen:1,fork,reuseaddr exec:a,pty,stderr,setsid,sigint,sane",
        ),
        ("UNIX-L:s,umask=007 -", "gush link unix-listen:s,umask=7 -"),
        ("-u - CREATE:f,umask=027", "gush link -u - file:f,umask=27,create,trunc"),
        ("-s TCP-L:1,range=10.0.0.0/8 PIPE", "gush link tcp4-listen:1,range=10.0.0.0/8 pipe:"),
        (
            "-s UDP-RECV:1,sp=2!!UDP-SENDTO:h:3 PIPE",
            "gush link 'udp4-recv:1,sourceport=2!!udp-sendto:h:3' pipe:",
        ),
        ("-s TCP:h:1,fork PIPE", "gush link tcp:h:1,fork,prefer=4 pipe:"),
        (
            "TCP6-LISTEN:1,range=[::ffff:127.0.0.0]/104 -",
            "gush link tcp6-listen:1,range=::ffff:127.0.0.0/104 -",
        ),
        // socat removes the name of UNIX-CONNECT alone.
        ("- UNIX:s,bind=c", "gush link - unix-client:s,bind=c,unlink-close=0"),
        ("- UNIX:s,bind=c,unlink-close", "gush link - unix-client:s,bind=c,unlink-close"),
        ("- UNIX-CONNECT:s,bind=c", "gush link - unix:s,bind=c"),
        ("-u OPEN:f,rdwr,unlink-close=0,cloexec -", "gush link -u file:f,rdwr -"),
        ("-u OPEN:f,readbytes=9 -", "gush link -u file:f,readbytes=9 -"),
        ("- TCP:127.0.0.1:80", "gush link - tcp:127.0.0.1:80"),
        ("-6 - TCP:h:1", "gush link - tcp:h:1,prefer=6"),
        ("-0 - TCP:h:1", "gush link - tcp:h:1"),
        ("-4 - TCP:[::1]:1", "gush link - 'tcp:[::1]:1'"),
        ("-6 - UDP:h:1", "gush link - udp6:h:1,null-eof"),
        ("- EXEC:a,nofork", "gush link - exec:a,nofork"),
        ("-t 2 -T 5 -v -r f -u -d -d - EXEC:a,nofork", "gush link --log info -u - exec:a,nofork"),
        ("-t 2 TCP-L:1,fork EXEC:a,nofork", "gush link tcp4-listen:1,fork exec:a"),
        (
            "-u SHELL:'echo \"a  b\"',shell=/bin/bash -",
            "gush link -u \"exec:'env SHELL=/bin/bash /bin/bash -c '\\\"'\\\"'echo a  b'\\\"'\\\"' bash'\" -",
        ),
        ("-lp me -u OPEN:f -", "gush link -u file:f -"),
        ("-lp Socat -u SYSTEM:env -", "gush link -u shell:env -"),
        ("FILE:a\\\\\\,cr,cr TCP:[::1]:1,cr", "gush link \"file:a\\\\,cr\" 'tcp:[::1]:1'"),
        ("- EXEC:a,fdin=3,fdout=4", "gush link - exec:a,fdin=3,fdout=4"),
        ("TCP-L:1,listen-timeout=2 -", "gush link tcp4-listen:1,accept-timeout=2 -"),
        ("TCP:h:1,pf=ip6,forever -", "gush link tcp6:h:1,retry=forever -"),
        (
            "-,rawer,escape=0x0f /dev/ttyS0,b9600",
            "gush link -t 0.5 -,rawer,escape=0x0f /dev/ttyS0,b9600",
        ),
        ("-t3 -,raw,escape=29 TCP:h:1", "gush link -t 3 -,stty-raw,escape=0x1d tcp:h:1,prefer=4"),
        ("-u -,escape=0x03 OPEN:a", "gush link -u -,escape=0x03 file:a"),
        ("PROXY:p:h:22 -", "gush link http-connect:p:8080:h:22,http-version=1.0,prefer=4 -"),
        (
            "PROXY:p:h:22,proxyport=3128,proxyauthfile=/etc/p -",
            "gush link http-connect:p:3128:h:22,credentials=/etc/p,http-version=1.0,prefer=4 -",
        ),
        ("\"EXEC:'cat -n',pty,ctty,stderr\" -", "gush link \"exec:'cat -n',pty,stderr\" -"),
        ("SYSTEM:'echo a\\,b; cat' -", "gush link \"shell:'echo a,b; cat'\" -"),
        ("FILE:/tmp/a\\\\,b,cloexec -", r#"gush link "file:/tmp/a\\,b" -"#),
        (
            "UNIX-LISTEN:s,reuseaddr,unlink-early,mode=600 STDERR",
            "gush link unix-listen:s,mode=600,unlink fd:2",
        ),
        ("ABSTRACT-CONNECT:n ABSTRACT-LISTEN:m", "gush link unix:@n unix-listen:@m"),
        ("UDP4-SENDTO:h:53 PIPE", "gush link udp4-sendto:h:53 pipe:"),
        ("-b 1400 - UDP-SENDTO:h:53", "gush link -b 1400 - udp-sendto:h:53"),
        ("-b0x10 - UNIX-SEND:/s,bind=/o", "gush link -b 16 - unix-sendto:/s,bind=/o"),
        (
            "UDP4-DATAGRAM:224.0.0.9:6,bind=:6,ip-add-membership=224.0.0.9:eth0,broadcast -",
            "gush link udp4-datagram:224.0.0.9:6,bind=:6,broadcast,membership=224.0.0.9:eth0 -",
        ),
        ("-u UDP-RECV:5,reuseaddr -", "gush link -u udp4-recv:5,reuseaddr -"),
        ("0 1", "gush link fd:0 fd:1"),
        (
            "OPENSSL:h:443,pf=ip4,cafile=/ca,openssl-min-proto-version=TLS1.3,snihost=x -",
            "gush link tls4:h:443,cafile=/ca,commonname=h,sni=x,min-version=1.3 -",
        ),
        (
            "OPENSSL-LISTEN:443,fork,cert=/c,verify=0 -",
            "gush link tls4-listen:443,fork,cert=/c,verify=0 -",
        ),
        ("SSL-L:443,cert=/c -", "gush link tls4-listen:443,cert=/c,verify -"),
        ("SSL-L:1,cert=/c,verify=0,cn=x -", "gush link tls4-listen:1,cert=/c,verify=0 -"),
        ("SSL-L:1,cert=/c,cn=\"\" -", "gush link tls4-listen:1,cert=/c,verify -"),
        ("SSL-L:1,cert=/c,cn=x -", "gush link tls4-listen:1,cert=/c,verify,commonname=x -"),
        ("-6 UDP-L:1 UDP-RECVFROM:2", "gush link udp6-listen:1,null-eof udp6-recvfrom:2"),
        ("-0 UDP-L:1 UDP-RECVFROM:2", "gush link udp-listen:1,null-eof udp-recvfrom:2"),
        ("UDP-L:1 UDP-RECVFROM:2", "gush link udp4-listen:1,null-eof udp4-recvfrom:2"),
        ("TCP-L:1,bind=[::1] TCP:h:2", "gush link 'tcp-listen:[::1]:1' tcp:h:2,prefer=4"),
        ("TCP-L:1,ipv6only=0 -", "gush link tcp-listen:1,ipv6only=0 -"),
        ("TCP-L:1,pf=ip6 -", "gush link tcp6-listen:1 -"),
        ("TCP-L:1,range=localhost:255.0.0.0 -", "gush link tcp4-listen:1,range=127.0.0.0/8 -"),
        ("-u UDP-RECV:1,so-timestamp,ip-recvttl=0 -", "gush link -u udp4-recv:1,ancillary -"),
        ("-u UDP-RECV:1,ip-recvttl,ip-recvttl=0 -", "gush link -u udp4-recv:1 -"),
        ("TCP-L:1,range=10.0.0.0:255.128.0.0 -", "gush link tcp4-listen:1,range=10.0.0.0/9 -"),
        ("PTY,raw PTY,rawer", "gush link pty,stty-raw pty,rawer"),
        ("PTY,raw,echo=0 PTY,cfmakeraw", "gush link pty,stty-raw,echo=0 pty,raw"),
        ("PTY,wait-slave PTY,pty-wait-slave", "gush link pty,wait-slave pty,wait-slave"),
        ("TCP:h:1,crlf OPEN:f,crnl", "gush link tcp:h:1,prefer=4 file:f"),
        ("TCP:h:1,cr TCP:i:1,cr", "gush link tcp:h:1,prefer=4 tcp:i:1,prefer=4"),
        ("TCP:h:1,crlf OPEN:f", "gush link tcp:h:1,prefer=4,crnl file:f"),
        ("-u TCP:h:1,crlf OPEN:f,cr", "gush link -u tcp:h:1,prefer=4,crnl file:f,cr"),
        ("-u TCP:h:1,crlf!!-,cr OPEN:f,crlf", "gush link -u 'tcp:h:1,prefer=4!!-' file:f"),
        ("-u OPEN:f,seek=010 -", "gush link -u file:f,seek=8 -"),
        ("-u OPEN:f,seek=2,lseek64-end=-1 -", "gush link -u file:f,seek-end=-1 -"),
        ("-u OPEN:f,seek-end=1,seek=0 -", "gush link -u file:f,seek=0 -"),
        ("-u OPEN:f,wronly,o-append,rdonly -", "gush link -u file:f,rdonly -"),
        ("-u - OPEN:f,rdonly,wronly", "gush link -u - file:f,wronly"),
        ("-u - OPEN:f,rdonly,wronly=0", "gush link -u - file:f,wronly"),
        ("-u - CREATE:f,cr,crlf", "gush link -u - file:f,create,trunc,crnl"),
        ("-u -,readbytes=0100 -", "gush link -u -,readbytes=64 -"),
        ("TCP:h:1,mss=01000,keepidle=010 -", "gush link tcp:h:1,keepidle=8,mss=512,prefer=4 -"),
        ("TCP:h:1,setsockopt=6:4:010 -", "gush link tcp:h:1,setsockopt=6:4:10,prefer=4 -"),
        ("TCP:h:1,connect-timeout=010 -", "gush link tcp:h:1,connect-timeout=10,prefer=4 -"),
        (r#""OPEN:\"a'b'c\"" -"#, r#"gush link "file:a\\'b\\'c" -"#),
        (
            "EXEC:bash,ptmx,stderr,setsid,sane PTY,sane,echo=0",
            "gush link exec:bash,pty,stderr,setsid,sane pty,sane,echo=0",
        ),
    ];
    for (socat, gush) in cases {
        assert_eq!(line(socat), gush, "{socat}");
    }
}

#[test]
fn each_difference_is_noted() {
    for (arguments, notes) in [
        ("- TCP:h:1", 1),
        ("-t1 - TCP:h:1", 0),
        ("-u - TCP:h:1", 0),
        ("-U - TCP:h:1", 0),
        ("- TUN", 0),
        ("-u - UNIX:s,retry=3,interval=2", 2),
        ("-u - TCP:h:1,retry=3", 1),
        ("-u - TCP:10.0.0.1:1,retry=3", 0),
        ("-u TCP:10.0.0.1:1,fork -", 1),
        ("-u TCP-L:1,fork -", 0),
        ("-,escape=1 TCP:h:1", 0),
        ("-t1 - GOPEN:file", 0),
        ("-t1 - ./file,create", 0),
        ("-t1 - ./file,rdonly!!-", 0),
        ("-u - ./file", 0),
        ("-t1 -T5 - TCP:h:1", 1),
        ("-t1 -T0 - TCP:h:1", 0),
        ("-t1 - EXEC:a,pty,setsid,sane", 0),
        ("-t1 - EXEC:a,pty", 1),
        ("-t1 TCP:h:1 EXEC:a", 0),
        ("-t1 - OPEN:f,rdonly", 0),
        ("-u - OPEN:f,creat,user=root", 0),
        ("-t 1 - EXEC:a,nofork", 0),
        ("- EXEC:a,nofork", 0),
        ("TCP-L:1,fork EXEC:a,nofork", 1),
        ("-lp me -u OPEN:f -", 1),
        ("-lf /log -t1 - TCP:h:1", 1),
        ("-u -b 100 UDP-L:1 -", 0),
        ("-t1 UDP:127.0.0.1:1 TCP-L:1,fork", 1),
        ("-U UDP:127.0.0.1:1 TCP-L:1,fork", 0),
    ] {
        let mut report = Report::default();
        super::line(arguments, &mut report);
        assert_eq!(report.notes.len(), notes, "{arguments}: {report:?}");
    }
}

#[test]
fn a_command_keeps_its_quotes_for_the_shell() {
    let line = line(r#"'SYSTEM:echo \"it'"\\'"'s\" $HOME' -"#);
    let words = shlex::split(&line).expect("a line for a shell");
    let address: gush_link::address::Address = words[2].parse().expect("an address");
    let gush_link::address::Locator::Shell(command) = address.locator() else {
        panic!("{line}");
    };
    // socat removes the outermost quotes of an address, unless they are escaped.
    assert_eq!(command.line(), "echo \"it's\" $HOME");
}

#[test]
fn a_program_gets_the_words_that_socat_would_give_it() {
    use gush_link::address::{Address, Locator};
    for (socat, words) in [
        (r"EXEC:cat -n", &["cat", "-n"] as &[_]),
        (r"EXEC:echo a #b c", &["echo", "a", "#b", "c"]),
        (r##"EXEC:echo "#q"  b\\tc"##, &["echo", "#q", "b\tc"]),
        (r#"EXEC:"sh -c 'echo a b' [x "y"]""#, &["sh", "-c", "echo a b", "[x \"y\"]"]),
        (r#"EXEC:a {"b c"} $HOME *"#, &["a", "{\"b c\"}", "$HOME", "*"]),
        (
            r#"SYSTEM:if [ "a b" = 'c' ]; then $(cat "d")"#,
            &["if [ \"a b\" = 'c' ]; then $(cat \"d\")"],
        ),
    ] {
        let mut report = Report::default();
        let translated = translated(vec![socat.to_owned(), "-".to_owned()], &mut report);
        let ours = &translated.unwrap_or_else(|| panic!("{socat}: {report:?}")).words[1];
        let found = match ours.parse::<Address>().expect("an address").locator() {
            Locator::Exec(command) => command.words(),
            Locator::Shell(command) => vec![command.line().to_owned()],
            _ => panic!("{ours}"),
        };
        assert_eq!(found, words, "{socat} {ours}");
    }
}

#[test]
fn a_part_without_an_equivalent_is_named_with_the_reason() {
    let cases = [
        ("TUN:10.0.0.1/24 -", "TUN: network interfaces are left to socat"),
        ("SCTP:h:1 -", "SCTP: SCTP and DCCP are left to socat"),
        ("TCP:h:1,crlf OPEN:f,cr", "ends of lines"),
        ("-u TCP:h:1,cr OPEN:f,crlf", "ends of lines"),
        ("TCP:h:1,crlf!!- OPEN:f,crlf", "ends of lines"),
        ("READLINE -", "rlwrap"),
        ("IP:h:1 -", "raw IP"),
        ("IP6-DATAGRAM:h:1 -", "raw IP"),
        ("OPENSSL-DTLS-LISTEN:1 -", "DTLS is left to socat"),
        ("-u OPEN:f,creat,trunc -", "only read"),
        ("-U - OPEN:f,trunc", "only read"),
        ("SENDTO:2:2:17:x0050c0000201 -", "`socket-`"),
        ("SOCKS5-LISTEN:p:1080:0.0.0.0:80 -", "`ssh -R` listens"),
        ("POSIXMQ-SEND:/q -", "takes messages of other processes"),
        ("SOCKET-CONNECT:2:6:x -", "socat takes DOMAIN:PROTOCOL:ADDRESS"),
        ("SOCKET-LISTEN:16:0:x -", "of sockets by numbers gush link has"),
        ("SOCKET-DATAGRAM:1:2:0:x2f746d702f7300 -", "answers of its receiver alone"),
        ("UNIX-CONNECT:s,socktype=2 -", "Unix sockets of packets"),
        ("EXEC:a,setpgid=55 -", "process group of its own"),
        ("-u - /dev/shm/f,seek=512", "GOPEN appends"),
        ("-u - /dev/../tmp/f,seek=512", "GOPEN appends"),
        ("OPEN:f,perm-early=600 -", "mode=, user= and group= are of what is made"),
        ("UNIX-L:s,perm-early=640,perm=600 -", "perm-early=640,perm=600: gush link sets it once"),
        ("UNIX-L:s,user-early=a,user=b -", "user-early=a,user=b: gush link sets it once"),
        ("UNIX:s,type=5,shut-null -", "shut-null"),
        ("SYSTEM:a,sigint,sighup -", "sighup: a command of SYSTEM gets no signal"),
        ("EXEC:a,sighup=0 -", "sighup=0: it takes no value"),
        ("FILE:f,seek-end=-08 -", "seek-end=-08: a number that begins with 0 is octal"),
        ("FILE:f,readbytes=09 -", "readbytes=09: a number that begins with 0 is octal"),
        ("SSL-L:443 -", "cert"),
        ("SSL:h:1,cn= -", "a name in every certificate"),
        ("SSL:h:1,snihost=10.0.0.1 -", "which an address is not"),
        ("TCP-L:1,hosts-allow=/etc/hosts.allow -", "range= says"),
        ("-u CREATE:f,fs-noatime -", "chattr(1)"),
        ("TCP:h:1,netns=x -", "ip netns exec"),
        ("UDP:h:1,netns=x -", "ip netns exec"),
        ("EXEC:a,end-close -", "SYSTEM leaves one running"),
        ("-ly - -", "-ly: "),
        ("-L a -W b - -", "-W: socat takes one lock"),
        ("-L a TCP-L:1,lockfile=b -", "an address has one lock file"),
        ("-L l TCP-L:1,fork,su=nobody PIPE", "its lock file could not be removed"),
        ("OPEN:f,setlk,flock-ex-nb -", "takes one lock of a file"),
        ("EXEC:a,su=nobody,setuid=5 -", "setuid=5: "),
        ("UDP:h:1,fork -", "only listeners and connections"),
        ("TCP-L:1,fork TCP:h:1,fork", "both addresses say fork"),
        ("PTY,setlk -", "a lock is for"),
        ("TCP-L:1,fork OPEN:f,su=nobody", "does not get its rights back"),
        ("PTY,su=nobody -", "setpriv"),
        ("-Q - -", "unknown switch '-Q'"),
        ("-b abc - -", "-b abc: not a number of bytes"),
        ("-b 0 - -", "-b 0: not a number of bytes"),
        ("-b 70000 - UNIX-SEND:x", "no datagram larger"),
        ("-r 'x.$PROGNAME' - -", "socat expands variables"),
        ("PIPE::::: -", "socat takes one name here"),
        ("TCP:h:1,md5sig=1 -", "md5sig=1: setsockopt="),
        ("TCP:h:1,res-retry=1 -", "resolv.conf(5)"),
        ("OPEN:f,immutable -", "chattr(1)"),
        ("TCP:h:1,no-such-option -", "unknown option 'no-such-option' of tcp"),
        ("-,setsid -", "setsid(1)"),
        ("TCP-L:1,fork 'SYSTEM:echo $SOCAT_PEERADDR $SOCAT_PID'", "SOCAT_PID: all clients"),
        ("SYSTEM:'printenv SOCAT_IP_NOSUCH' -", "SOCAT_IP_NOSUCH: gush link does not set it"),
        ("-u - OPEN:f,creat,unlink-close", "rm(1)"),
        ("-u OPEN:f,cloexec=0 EXEC:a", "descriptors but two"),
        ("- ABSTRACT:a,unix-tightsocklen=0", "not made longer"),
        ("-lp me -u SYSTEM:env -", "-lp: the names of the variables"),
        ("-s - -", "-s: an error ends gush link"),
        ("EXEC:a,nofork -", "nofork is for the second address"),
        ("SSL:h:1,verify=0 EXEC:a,nofork", "without TLS"),
        ("-,crnl EXEC:a,nofork", "without TLS, datagrams"),
        ("UDP-L:1 EXEC:a,nofork", "without TLS, datagrams"),
        ("- EXEC:a,nofork,pty", "nofork"),
        ("UDP-RECV:1 -", "only receives"),
        ("-u PIPE -", "PIPE: used in one direction it has no peer"),
        ("-u - SOCKETPAIR", "SOCKETPAIR: used in one direction it has no peer"),
        ("PIPE!!CREATE:o -", "PIPE!!CREATE:o: used in one direction it has no peer"),
        ("- CREATE:f", "only written"),
        ("CREAT:f,mode=600 SYSTEM:a", "only written"),
        ("SYSTEM:a OPEN:f,creat,wronly", "only written"),
        ("-lf log -v - -", "-lf: -v and -x print"),
        ("-x -lf log - -", "-lf: -v and -x print"),
        ("-b 65508 - UDP:h:1", "at most 65507 bytes"),
        ("-U -b 65536 UDP:h:1 -", "at most 65507 bytes"),
        ("TCP-LISTEN:1,range=10.0.0.0:255.0.255.0 -", "takes networks"),
        ("TCP6-LISTEN:1,range=127.0.0.0/8 -", "takes a range of IPv6"),
        ("-0 UDP:localhost:1 -", "datagrams go to the first IPv4 address"),
        ("-6 UDP-RECV:1,range=127.0.0.0/8 -", "takes a range of IPv6"),
        ("-u OPEN:f,seek-end=-5,seek=0 -", "socat fails at an offset before the file"),
        ("-u - GOPEN:f,seek=4", "GOPEN appends whatever the offset"),
        ("./f,seek-end=0 -", "GOPEN appends whatever the offset"),
        ("-u OPEN:f,seek-cur=0 -", "counts from the start"),
        ("-u - OPEN:f,append,seek=4", "seek=4: socat appends whatever the offset"),
        ("-u - OPEN:f,lseek64-end=-4,o-append", "o-append: socat appends whatever the offset"),
        ("-u OPEN:f,append,seek-cur=4 -", "seek-cur=4: socat appends whatever the offset"),
        ("EXEC:a,rawer -", "rawer: a terminal setting needs pty too"),
        ("EXEC:a,sane -", "sane: a terminal setting needs pty too"),
        ("TCP:h:1,sane -", "sane"),
        ("OPEN:/dev/ttyS0,ispeed=13 -", "ispeed=13: socat takes a code of termios.h"),
        ("EXEC:a,wait-slave -", "which belongs to pty"),
        ("-", "two addresses"),
        ("- - -", "two addresses"),
        ("NOSUCH:a -", "'NOSUCH'"),
        ("TCP:h -", "TCP:h"),
        ("TCP-L:1,fork TCP-L:2,fork", "both addresses say fork"),
        ("TCP-L:1 TCP-L:2,fork", "TCP-L:1: socat opens it once"),
        ("OPENSSL:h:1 TCP-L:2,fork", "OPENSSL:h:1: socat opens it once"),
        ("EXEC:cat!!SYSTEM:cat -", "EXEC:cat!!SYSTEM:cat: one of the two may be a program"),
        ("TCP-L:1!!STDOUT -", "TCP-L:1!!STDOUT: clients come to it"),
        ("-!!TCP:h:1!!- -", "one address is read and one is written"),
        ("'unclosed", "never closed"),
        ("\"SYSTEM:echo \\\"it's\\\"\" -", "never closed"),
    ];
    for (socat, why) in cases {
        let missing = missing(socat);
        assert!(missing.contains(why), "{socat}: {missing}");
    }
}

/// The word that a message suggests.
fn suggested(missing: &str) -> Option<&str> {
    missing.split_once("did you mean '")?.1.split('\'').next()
}

/// `word` with two letters in the middle changed about, and with the last one written twice.
fn mistyped(word: &str) -> Vec<String> {
    let (before, rest) = word.split_at(word.len() / 2);
    let about = rest.get(1..2).map(|next| [before, next, &rest[..1], &rest[2..]].concat());
    about.into_iter().chain([[word, &word[word.len() - 1..]].concat()]).collect()
}

#[test]
fn every_suggested_name_of_socat_has_an_equivalent_in_its_place() {
    let said = |arguments: &str| {
        let mut report = Report::default();
        super::line(arguments, &mut report);
        [report.missing, report.wrong].concat().join("\n")
    };
    let mut suggestions = 0;
    for (before, after) in [("", " -"), ("", "!!- -"), ("-!!", " -")] {
        for wrong in addresses::names(false).flat_map(mistyped) {
            let missing = said(&format!("{before}{wrong}:x:1{after}"));
            let Some(near) = suggested(&missing) else { continue };
            let then = said(&format!("{before}{near}:x:1{after}"));
            let is_refused = then.contains("unknown kind") || then.contains("clients come to it");
            assert!(!is_refused, "{before}{wrong}{after}: {missing}\n{then}");
            suggestions += 1;
        }
    }
    assert!(suggestions > 100, "{suggestions}");
    for wrong in ["-stat", "--statistcs", "--experimentl", "--exprimental"] {
        let missing = said(&format!("{wrong} - -"));
        let Some(near) = suggested(&missing) else { continue };
        assert_eq!(said(&format!("{near} - -")), "", "{wrong}: {missing}");
    }
}

/// socat looks for an at sign nowhere, and binds a socket of its own kind.
#[test]
fn names_of_unix_sockets_stay_what_they_are_for_socat() {
    for (socats, ours) in [
        ("- ABSTRACT-SENDTO:x,bind=y", "gush link - abstract-sendto:x,bind=@y"),
        ("- ABSTRACT-CLIENT:x,bind=y", "gush link - abstract-client:x,bind=@y"),
        ("- UNIX-SENDTO:@x,bind=@y", "gush link - unix-sendto:./@x,bind=./@y"),
        ("- UNIX-SENDTO:x,bind=y", "gush link - unix-sendto:x,bind=y"),
        ("- UNIX-CONNECT:@x", "gush link - unix:./@x"),
    ] {
        let ours = ours.replace("abstract-sendto:", "unix-sendto:@");
        let ours = ours.replace("abstract-client:", "unix-client:@");
        assert_eq!(line(socats), ours, "{socats}");
    }
}

#[test]
fn what_differs_is_refused_with_its_own_reason() {
    let datagrams = missing("UDP-SENDTO:h:1 TCP-L:2,fork");
    assert!(!datagrams.contains("TLS") && datagrams.contains("datagrams"), "{datagrams}");
    assert!(missing("OPENSSL:h:1 TCP-L:2,fork").contains("TLS"));
    assert!(missing("-b 1048576 - UDP:h:1").contains("65536"));
}

#[test]
fn what_socat_refuses_itself_is_not_said_to_lack_an_equivalent() {
    for arguments in [
        "-",
        "- - -",
        "",
        "-Q - -",
        "-b abc - -",
        "-b 9223372036854775808 - -",
        "-t x - -",
        "-u -U - -",
        "NOSUCH:a -",
        "PIPE::::: -",
        "'unclosed",
        "-b",
        "- TCP:h",
        "- TCP:h:99999",
        "- TCP:h:1,frok",
        "- TCP:h:1,fnord",
        "- TCP:h:1,retry=x",
        "- TCP:h:1,mode=600",
    ] {
        let mut report = Report::default();
        super::line(arguments, &mut report);
        assert_eq!((report.missing.len(), report.wrong.len()), (0, 1), "{arguments}: {report:?}");
    }
    // One without addresses is not asked for any.
    for arguments in ["-V", "-h", "-?", "-ly"] {
        let mut report = Report::default();
        super::line(arguments, &mut report);
        assert_eq!((report.missing.len(), report.wrong.len()), (1, 0), "{arguments}: {report:?}");
    }
}

#[test]
fn a_refusal_names_an_option_as_the_user_does() {
    for (arguments, reason) in [
        ("PTY,raw=0 -", "PTY: raw=0: raw takes no value"),
        ("TCP:h:1,so-sndbuf=x -", "TCP:h:1: so-sndbuf=x: so-sndbuf takes bytes"),
        ("TCP:h:1,sp=x:y -", "TCP:h:1: sp=x:y: sp: an IPv6 address"),
        ("TCP:h:1,recvttl -", "TCP:h:1: recvttl: tcp takes no option 'recvttl', which belongs"),
        ("PTY,perm=x -", "PTY: perm=x: perm takes permissions in octal"),
        ("OPEN:f,creat=x -", "OPEN:f: creat=x: creat is switched by"),
        ("TCP:h:1,bytes=x -", "TCP:h:1: bytes=x: bytes takes bytes"),
    ] {
        assert!(missing(arguments).starts_with(reason), "{}", missing(arguments));
    }
}

#[test]
fn no_message_has_a_password() {
    for address in [
        "proxyauth=u:secret!!/tmp/log,seek-end=0",
        "proxyauth=secret,foo=1",
        "\"proxyauth=u:secret\",foo=1",
        "\"proxyauth=u:secret",
    ] {
        let said = missing(&format!("PROXY:p:h:1,{address} -"));
        assert!(!said.is_empty() && !said.contains("secret"), "{said}");
    }
    let said = missing("PROXY:p:h:1,proxyauthfile=shown,foo=1!!/tmp/log,seek-end=0 -");
    assert!(!said.contains("..."), "a file is no password: {said}");
}

#[test]
fn a_directory_of_what_has_no_name_means_nothing() {
    assert_eq!(line("PIPE,cd=/tmp -"), line("PIPE -"));
    assert_eq!(line("ECHO,chdir=/tmp -"), line("ECHO -"));
}

#[test]
fn a_path_may_begin_with_a_keyword_and_have_a_colon() {
    assert_eq!(line("-U gopen/a:b -"), "gush link -U gopen/a:b -");
}

#[test]
fn every_part_without_an_equivalent_is_named_at_once() {
    let missing = missing("-ly TUN TCP:h:1,md5sig=1,noopt=3");
    assert_eq!(missing.lines().count(), 4, "{missing}");
}
