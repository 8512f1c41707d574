//! `gush cp --via ADDRESS SOURCE HOST:DEST`: the two sides are joined by links of this machine.

use std::path::Path;
use std::process::Output;

use crate::common::cp::{fails, script, stderr, stdout};

/// `serve ADDRESS` serves there in the background, with `$A` as the other address; `$port` is the
/// port, and `$server` the process.
const SERVER: &str = "A=\"exec:$G serve-tree\"
    serve() { : >log; $G link --log info \"$1\" \"$A\" 2>>log & server=$!
        timeout 60 bash -c 'until grep -q listening log; do sleep 0.05; done'
        port=$(sed -n 's/.*listening on 127.0.0.1:\\([0-9]*\\) .*/\\1/p' log); }
    trap 'kill $server 2>/dev/null; wait' EXIT
    mkdir -p s/d/e; for i in $(seq 60); do echo $i >s/d/f$i; done; ln s/d/f1 s/d/e/link; ln -s f2 s/l
    head -c 20M /dev/urandom >s/big; truncate -s 30M s/hole; echo x >>s/hole; chmod 2750 s/d
    look() { (cd $1; find . -printf '%P %M %n %U %G %s %T@ %l\\n' | sort
        find . -type f -exec cksum {} + | sort) >$1.look; }\n";

fn served(dir: &Path, text: &str) -> Output {
    script(dir, &format!("{SERVER}{text}"))
}

#[test]
fn a_tree_arrives_by_tcp_and_by_a_unix_socket() {
    for (listen, connect) in [
        ("tcp-listen:127.0.0.1:0,fork", "tcp:127.0.0.1:$port"),
        ("unix-listen:sock,fork", "unix:sock"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = served(
            dir.path(),
            &format!(
                "serve {listen}; $G cp -a --verify --via {connect} --streams 3 s h:t; echo $?
                look s; look t; diff s.look t.look && echo same"
            ),
        );
        assert_eq!((stdout(&output), stderr(&output)), ("0\nsame\n".into(), String::new()));
    }
}

/// Both sides show a certificate, and one that the other does not trust ends the copy.
#[test]
fn a_tree_arrives_by_tls_only_between_certificates_that_trust_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let output = served(
        dir.path(),
        "for name in there here other; do $G link --make-cert $name >/dev/null; done
        serve tls-listen:127.0.0.1:0,fork,cert=there.crt,key=there.key,cafile=here.crt
        at=tls:localhost:$port
        $G cp -a --via $at,cert=here.crt,key=here.key,cafile=there.crt --streams 3 s h:t; echo $?
        look s; look t; diff s.look t.look && echo same
        for keys in cert=here.crt,key=here.key,cafile=other.crt \\
            cert=other.crt,key=other.key,cafile=there.crt cafile=there.crt; do
            $G cp -a --via $at,$keys s h:u; echo $?; ls u 2>/dev/null
        done",
    );
    assert_eq!(stdout(&output), "0\nsame\n1\n1\n1\n", "{output:?}");
    let said = stderr(&output);
    let reasons = said.matches("certificate").count();
    assert!(reasons >= 3 && !said.contains("before gush answered"), "{said}");
}

#[test]
fn a_server_that_is_killed_ends_the_copy_and_resume_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let output = served(
        dir.path(),
        "printf '#!/bin/sh\necho $$ >pid; exec %s serve-tree\n' $G >serving; chmod +x serving
        A=exec:./serving; serve tcp-listen:127.0.0.1:0,fork
        cp s/big s/big2; copy() { timeout 60 $G cp -aT --resume --via tcp:127.0.0.1:$port \"$@\" s h:t; }
        copy --streams 1 --limit 8M & copying=$!
        timeout 60 bash -c \"until find t -name '.*big*' -size +3M | grep -q .; do sleep 0.02; done\" 2>/dev/null
        kill -9 $(cat pid); wait $copying; echo $?; ls -A t | grep -c partial
        copy --streams 2; echo $?; look s; look t; diff s.look t.look && echo same; ls -A t . | grep gush",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert!(matches!(lines[..], ["1", "1" | "2" | "3", "0", "same"]), "{output:?}");
    for why in [
        "h: the link ended with exit status 1 before the copy was complete (",
        "; the same command copies the rest)",
    ] {
        assert!(stderr(&output).contains(why), "{output:?}");
    }
}

/// Its answer has several lines, of which the second one is empty.
#[test]
fn a_server_of_another_protocol_is_explained_by_one_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "").unwrap();
    let via = "shell:printf 'HTTP/1.1 400 Bad Request\\r\\n\\r\\n<html>\\n'; cat >/dev/null";
    for operands in [["a", "h:t"], ["h:t", "a"]] {
        let said = fails(dir.path(), &[&["--via", via][..], &operands].concat());
        assert_eq!(
            said,
            "gush: cp: h: no gush answers there: it sent 'HTTP/1.1 400 Bad Request' (the address must \
             lead to gush serve-tree)\n"
        );
    }
}

/// Its messages go where it runs, not here.
#[test]
fn a_server_that_says_nothing_has_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "").unwrap();
    for operands in [["a", "h:t"], ["h:t", "a"]] {
        let said = fails(
            dir.path(),
            &[&["--via", "shell:dd bs=1000 count=1 status=none of=/dev/null"][..], &operands]
                .concat(),
        );
        assert_eq!(
            said,
            "gush: cp: h: the other side ended without an answer (the address must lead to gush \
             serve-tree, whose messages appear where it runs)\n"
        );
    }
}

#[test]
fn an_address_that_leads_nowhere_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "").unwrap();
    for (options, part) in [
        (&["--via", "tcx:1"][..], "--via: "),
        (&["--via", "foo"], "gush: cp: --via takes an address such as tcp:HOST:PORT\n"),
        (&["--via", "unix:none"], "unix:none: connect: No such file"),
        (&["--via", "unix:x", "--rsh", "ssh"], "--via starts no remote shell"),
        (&["--via", "unix:x", "--remote-gush", "gush"], "--via starts no remote shell"),
    ] {
        let said = fails(dir.path(), &[options, &["a", "h:t"]].concat());
        assert!(said.contains(part), "{options:?}: {said}");
        // The link has said it.
        assert!(!said.contains("before gush answered"), "{options:?}: {said}");
    }
    let said = fails(dir.path(), &["--via", "unix:x", "a", "b"]);
    assert!(said.contains("--via requires HOST:SOURCE or HOST:DEST"), "{said}");
}
