//! Whom a link trusts, and which certificates it shows.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};

use super::{linked, read_all, says_x};
use crate::common::gush;
use crate::common::link::{Running, ask};
use crate::common::tls::Pki;

#[test]
fn a_server_that_cannot_be_verified_is_reported_as_that() {
    let pki = Pki::new();
    pki.pair("elsewhere", &["example.org"], |_| {});
    pki.pair("old", &["localhost"], |params| params.not_after = date_time_ymd(2020, 1, 1));
    pki.pair("future", &["localhost"], |params| params.not_before = date_time_ymd(4000, 1, 1));
    let stranger = Pki::new();
    let cases = [
        (
            "elsewhere",
            pki.trust(),
            "the server's certificate is not for DNS:localhost: its names are DNS:example.org",
        ),
        ("old", pki.trust(), "the server's certificate has expired, "),
        ("future", pki.trust(), "the server's certificate is valid only in "),
        ("server", stranger.trust(), "is signed by no authority that is trusted"),
        (
            "server",
            format!("{},commonname=example.org", pki.trust()),
            "is not for example.org: its names are DNS:localhost, IP:127.0.0.1",
        ),
        (
            "server",
            format!("cafile={}", pki.path("server.key").display()),
            "it holds a private key, and no certificate (cafile=FILE names certificates",
        ),
        (
            "server",
            format!("cafile={}", pki.path("none").display()),
            "No such file or directory (the file must be there and readable",
        ),
        ("server", "sni=127.0.0.1".to_owned(), "sni takes a name of a host"),
    ];
    for (file, options, why) in cases {
        let listening = Running::start(&[&pki.listen(file, ",fork"), "exec:cat"]);
        let port = listening.place().rsplit(':').next().unwrap().to_owned();
        let (done, out, said) = linked("-", &format!("tls:localhost:{port},{options}"));
        assert!(!done && out.is_empty() && said.contains(why), "{file} {options}: {said}");
    }
    let listening = Running::start(&[&pki.listen("elsewhere", ",fork"), "exec:cat"]);
    let named = pki.connect(&listening.place(), ",commonname=example.org");
    assert!(linked("null:", &named).0, "{}", listening.said());
    // A directory as `openssl rehash` leaves it: the names are eight hexadecimal digits and a
    // number.
    let directory = pki.path("authorities");
    fs::create_dir(&directory).unwrap();
    fs::copy(pki.path("ca.crt"), directory.join("0a1b2c3d.0")).unwrap();
    let port = listening.place().rsplit(':').next().unwrap().to_owned();
    let capath = format!("capath={},commonname=example.org", directory.display());
    let (done, _, said) = linked("null:", &format!("tls:localhost:{port},{capath}"));
    assert!(done, "{said}");
    let unchecked = pki.connect(&listening.place(), ",verify=0");
    let (done, _, said) = linked("null:", &unchecked);
    assert!(
        done && said.contains("verify=0: an attacker on the path can read and change"),
        "{said}"
    );
}

/// A certificate without extensions, as `openssl x509 -req` makes without a file of them, and its
/// key.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJTCBywIUGX4L8uEpo8vhgvLcRhlSE/9IsrkwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODE1MDIzN1oYDzIxMjYxMTA0MTUwMjM3
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQg8nT8NRoVE94WjhfMhNR3twPCkQSKJaOzvf3GZ1L9Y15Ty6uPgCgebyRLcfBb
5rW5Tl+3f8gQ6lX3XdrESGmOMAoGCCqGSM49BAMCA0kAMEYCIQDW74oaxMJ4T33L
7hzvL3KhScD8OMi0cEifdrbABCk6XwIhAP2WduOzv9k6xHwWFvFwtSGTWOZECshP
OvWo/qWZ4xaG
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgl0uaWeK33XMqmXzV
2Apnz3BKVWKyYuHLtGmTOhdZoDKhRANCAAQg8nT8NRoVE94WjhfMhNR3twPCkQSK
JaOzvf3GZ1L9Y15Ty6uPgCgebyRLcfBb5rW5Tl+3f8gQ6lX3XdrESGmO
-----END PRIVATE KEY-----
";

/// As socat's manual makes them: self-signed, and an authority's by the default of `openssl req`.
#[test]
fn a_self_signed_certificate_is_trusted_where_it_is_named_itself() {
    let pki = Pki::new();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap();
    let authority = own.pem() + &key.serialize_pem();
    for (name, text) in [("v1.pem", VERSION_1), ("ca.pem", &authority)] {
        let file = pki.path(name);
        fs::write(&file, text).unwrap();
        let file = file.display();
        let listen = format!("tls-listen:127.0.0.1:0,fork,cert={file},cafile={file}");
        let listening = Running::start(&[&listen, "exec:cat"]);
        let port = listening.place().rsplit(':').next().unwrap().to_owned();
        let client = format!("tls:localhost:{port},cert={file}");
        for (more, why) in [
            (format!("cafile={file}"), None),
            (format!("cafile={file},max-version=1.2"), None),
            (format!("cafile={file},commonname=a.b"), Some(": its names are ")),
            (pki.trust(), Some("the server's certificate is ")),
        ] {
            let (done, _, said) = linked("null:", &format!("{client},{more}"));
            assert_eq!(done, why.is_none(), "{name} {more}: {said}");
            assert!(why.is_none_or(|why| said.contains(why)), "{name} {more}: {said}");
        }
        // The listener trusts this client's certificate alone.
        let stranger = format!("tls:localhost:{port},cafile={file},{}", pki.own("server"));
        let (done, _, said) = linked("-", &stranger);
        assert!(!done, "{said}");
    }
}

/// As by OpenSSL without X509_V_FLAG_PARTIAL_CHAIN.
#[test]
fn a_chain_ends_in_a_self_signed_certificate() {
    let pki = Pki::new();
    let named = |name: &str, change: &dyn Fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        (params, KeyPair::generate().unwrap())
    };
    let signs = |params: &mut CertificateParams| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    let (root, root_key) = named("root", &signs);
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let (between, between_key) = named("between", &signs);
    let between_pem = between.signed_by(&between_key, &Issuer::new(root, root_key)).unwrap().pem();
    let (leaf, leaf_key) = named("leaf", &|_| {});
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(between, between_key)).unwrap().pem();
    let (client, client_key) = named("client", &|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let client = client.self_signed(&client_key).unwrap().pem();
    fs::create_dir(pki.path("names")).unwrap();
    fs::create_dir(pki.path("hashes")).unwrap();
    for (name, text) in [
        ("leaf.pem", leaf.clone() + &leaf_key.serialize_pem()),
        ("client.pem", client + &client_key.serialize_pem()),
        ("between.pem", between_pem.clone()),
        ("root.pem", root_pem.clone()),
        ("both.pem", between_pem.clone() + &root_pem),
        ("names/both.pem", between_pem.clone() + &root_pem),
        ("hashes/0a1b2c3d.0", between_pem + &root_pem),
    ] {
        fs::write(pki.path(name), text).unwrap();
    }
    for (server, trusted, why) in [
        ("leaf.pem", "cafile=leaf.pem", Some("no certificate in it is self-signed")),
        ("leaf.pem", "cafile=between.pem", Some("no certificate in it is self-signed")),
        ("leaf.pem", "cafile=root.pem", Some("the server's certificate is ")),
        ("leaf.pem", "cafile=both.pem", None),
        ("leaf.pem", "capath=names", Some("`openssl rehash DIRECTORY`")),
        ("leaf.pem", "capath=hashes", None),
        ("client.pem", "cafile=client.pem", Some("the server's certificate is ")),
    ] {
        let server = pki.path(server);
        let listen = format!("tls-listen:127.0.0.1:0,cert={}", server.display());
        let listening = Running::start(&[&listen, "exec:cat"]);
        let port = listening.place().rsplit(':').next().unwrap().to_owned();
        let (option, file) = trusted.split_once('=').unwrap();
        let file = pki.path(file);
        let client = format!("tls:localhost:{port},{option}={}", file.display());
        let (done, _, said) = linked("null:", &client);
        assert_eq!(done, why.is_none(), "{trusted}: {said}");
        assert!(why.is_none_or(|why| said.contains(why)), "{trusted}: {said}");
    }
}

#[test]
fn a_program_learns_whose_certificate_its_client_shows() {
    let pki = Pki::new();
    pki.pair("client", &["one.example", "127.0.0.1", "2001:db8::a:b"], |params| {
        let name = &mut params.distinguished_name;
        *name = DistinguishedName::new();
        name.push(DnType::CountryName, "XY");
        name.push(DnType::CommonName, "one");
        name.push(DnType::OrganizationName, "a, \"b");
    });
    let listen = pki.listen("server", &format!(",{}", pki.trust()));
    let listening = Running::start(&["-u", &listen, "shell:'env | sort >&2'"]);
    let client = format!("{},{}", pki.connect(&listening.place(), ""), pki.own("client"));
    assert!(linked("null:", &client).0);
    for (end, value) in [
        ("X509_SUBJECT", r#"C = XY, CN = one, O = "a, \"b""#),
        ("X509_COMMONNAME", "one"),
        ("X509_ORGANIZATIONNAME", "a, \"b"),
        ("X509V3_SUBJECTALTNAME_DNS", "one.example"),
        ("X509V3_SUBJECTALTNAME_IPADD", "127.0.0.1 // 2001:db8::a:b"),
        ("PROTO_VERSION", "TLSv1.3"),
        ("CIPHER", "TLS_"),
    ] {
        listening.says(&format!("SOCAT_OPENSSL_{end}={value}"));
    }
    assert!(listening.said().contains("SOCAT_OPENSSL_X509_ISSUER="), "{}", listening.said());
    assert!(!listening.said().contains("X509_LOCALITYNAME"), "{}", listening.said());
}

/// The last words of a client are two records, of which both must leave before the connection does.
#[test]
fn a_server_learns_why_its_certificate_is_refused() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    let listening = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let (done, _, said) = linked("-", &stranger.connect(&listening.place(), ""));
    assert!(!done && said.contains("is signed by no authority that is trusted"), "{said}");
    let reported = listening.says("TLS handshake: ");
    // The two authorities have one name, so that the client finds a signature that is none.
    assert!(
        reported.contains("the peer cannot verify a signature of ours (decrypt_error) ("),
        "{reported}"
    );
}

#[test]
fn a_listener_without_a_sound_pair_says_so() {
    const LOCKED: &str =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let pki = Pki::new();
    let other = Pki::new();
    const ANOTHER: &str = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    let [crt, key, text, der, locked, another] =
        ["server.crt", "server.key", "text", "der", "locked", "another"].map(|name| pki.path(name));
    fs::write(&text, "no certificate\n").unwrap();
    fs::write(&der, b"\x30\x82\x01\x00").unwrap();
    fs::write(&locked, LOCKED).unwrap();
    fs::write(&another, ANOTHER).unwrap();
    let pair = |cert: &Path, key: &Path| format!("cert={},key={}", cert.display(), key.display());
    let cases = [
        (String::new(), "a server needs a certificate"),
        (
            format!("cert={}", crt.display()),
            "it holds a certificate, and no private key (key=FILE names the file of the key)",
        ),
        (pair(&crt, &other.path("server.key")), "not the certificate's"),
        (
            pair(&key, &crt),
            "server.key: it holds a private key, and no certificate (cert= and key= may be swapped)",
        ),
        (
            pair(&crt, &crt),
            "server.crt: it holds a certificate, and no private key (cert= and key= may be swapped)",
        ),
        (
            pair(&text, &key),
            "no certificate in PEM form is in it (one begins with the line -----BEGIN CERTIFICATE-----)",
        ),
        (
            pair(&crt, &text),
            "no private key in PEM form is in it (one begins with the line -----BEGIN PRIVATE KEY-----)",
        ),
        (pair(&der, &key), "is in it (one in DER form is converted by openssl x509 -inform der"),
        (pair(&crt, &der), "is in it (one in DER form is converted by openssl pkey -inform der"),
        (pair(&crt, &another), "server.crt: failed to parse private key as RSA, ECDSA, or EdDSA ("),
        (pair(&crt, &locked), "(a key with a password must be decrypted first: openssl pkey)"),
    ];
    for (options, why) in cases {
        let address = format!("tls-listen:127.0.0.1:0,{options}");
        let address = address.trim_end_matches(',');
        let (done, _, said) = linked(address, "null:");
        assert!(!done && said.contains(why), "{options}: {said}");
        let checked = gush().args(["link", "--check", address, "null:"]).output().unwrap();
        assert_eq!((checked.status.code(), checked.stderr), (Some(1), said.into_bytes()));
    }
    let checked = gush().args(["link", "--check", &pki.listen("server", ""), "null:"]).output();
    assert!(checked.unwrap().status.success());
}

#[test]
fn clients_show_a_certificate_where_an_authority_is_named() {
    let pki = Pki::new();
    pki.pair("client", &["client"], |_| {});
    let stranger = Pki::new();
    let listening =
        Running::start(&[&pki.listen("server", &format!(",fork,{}", pki.trust())), "exec:cat"]);
    let (done, _, said) = linked("-", &pki.connect(&listening.place(), ""));
    assert!(!done && said.contains("the peer requires a certificate"), "{said}");
    listening.says("the client shows no certificate");
    let foreign = format!(",{}", stranger.own("server"));
    let (done, _, said) = linked("-", &pki.connect(&listening.place(), &foreign));
    assert!(!done, "{said}");
    listening.says("the client's certificate is signed by no authority that is trusted");
    let own = format!(",{}", pki.own("client"));
    let (done, _, said) = linked("null:", &pki.connect(&listening.place(), &own));
    assert!(done, "{said}");

    let lenient = pki.listen("server", &format!(",fork,verify=0,{}", pki.trust()));
    let lenient = Running::start(&[&lenient, "exec:cat"]);
    assert!(linked("null:", &pki.connect(&lenient.place(), "")).0);
}

/// As with socat: who names authorities has them read.
#[test]
fn authorities_that_are_missing_are_an_error_even_if_nobody_needs_them() {
    let pki = Pki::new();
    let without = ",verify=0,cafile=/nonexistent";
    for address in [format!("tls:localhost:1{without}"), pki.listen("server", without)] {
        let output = gush().args(["link", "--check", &address, "null:"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("read /nonexistent: No such file"), "{address}: {said}");
        assert_eq!(output.status.code(), Some(1), "{address}");
    }
}

#[test]
fn clients_need_the_name_that_commonname_says() {
    let pki = Pki::new();
    pki.pair("named", &["client.example"], |_| {});
    pki.pair("other", &["other.example"], |_| {});
    let common = |name: &'static str| {
        move |of: &mut rcgen::CertificateParams| {
            of.distinguished_name.push(rcgen::DnType::CommonName, name)
        }
    };
    // As with socat, the common name counts next to others, and `*.` is one label or none.
    pki.pair("common", &["other.example"], common("client.example"));
    pki.pair("star", &["*.client.example"], |_| {});
    pki.pair("case", &["Client.example"], |_| {});
    let options = format!(",fork,commonname=client.example,{}", pki.trust());
    let listening = Running::start(&[&pki.listen("server", &options), "exec:cat"]);
    for (client, is_accepted) in
        [("named", true), ("other", false), ("common", true), ("star", true), ("case", false)]
    {
        let own = format!(",{}", pki.own(client));
        let (done, _, said) =
            linked(if is_accepted { "null:" } else { "-" }, &pki.connect(&listening.place(), &own));
        assert_eq!(done, is_accepted, "{client}: {said}");
    }
    listening.says(
        "the client's certificate is not for client.example: its names are DNS:other.example, CN:",
    );
    let (done, _, said) = linked(&pki.listen("server", ",commonname=client.example"), "null:");
    assert!(!done && said.contains("without verify= no client shows a certificate"), "{said}");
}

#[test]
fn commonname_of_a_client_counts_in_the_place_of_host() {
    let pki = Pki::new();
    pki.pair("common", &["other.example", "*.example.org"], |of| {
        of.distinguished_name = DistinguishedName::new();
        of.distinguished_name.push(DnType::CommonName, "localhost");
    });
    let listening = Running::start(&[&pki.listen("common", ",fork"), "exec:cat"]);
    for (options, is_accepted) in [
        // A common name next to alternative names does not make a certificate HOST's.
        ("", false),
        (",commonname=localhost", true),
        (",commonname=Localhost", false),
        (",commonname=example.org", true),
        (",commonname=a.example.org", true),
        (",commonname=a.Example.org", false),
        (",commonname=the client", false),
    ] {
        let client = pki.connect(&listening.place(), options);
        let (done, _, said) = linked(if is_accepted { "null:" } else { "-" }, &client);
        assert_eq!(done, is_accepted, "{options}: {said}");
    }
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_refused_also_where_nothing_is_verified() {
    let pki = Pki::new();
    pki.pair("other", &["localhost"], |_| {});
    let check = |version, options: &str, key: &str, has_key| {
        let (place, served) = pki.server_of(&[version], key, &[], says_x);
        let (done, out, said) = linked("-", &pki.connect(&place, options));
        let context = format!("{version:?} {key}{options}: {said}");
        let heard = if has_key { "x" } else { "" };
        assert_eq!((done, out.as_str()), (has_key, heard), "{context}");
        assert!(has_key || said.contains("the peer does not have its key"), "{context}");
        served.join().unwrap();
    };
    // Each version signs another message of the handshake (RFC 5246, 7.4.3; RFC 8446, 4.4.3).
    for version in [&TLS12, &TLS13] {
        for options in ["", ",verify=0"] {
            check(version, options, "server.key", true);
            check(version, options, "other.key", false);
        }
    }
    // webpki does not parse this one.
    fs::write(pki.path("server.crt"), VERSION_1).unwrap();
    fs::write(pki.path("v1.key"), VERSION_1).unwrap();
    for version in [&TLS12, &TLS13] {
        check(version, ",verify=0", "v1.key", true);
        check(version, ",verify=0", "other.key", false);
    }
}

/// As a renewal does: another file takes the name.
fn renew(pki: &Pki, from: &str, to: &str) {
    fs::copy(pki.path(from), pki.path("new")).unwrap();
    fs::rename(pki.path("new"), pki.path(to)).unwrap();
}

#[test]
fn renewed_certificates_are_shown_and_trusted_by_a_link_that_goes_on() {
    let pki = Pki::new();
    pki.pair("renewed", &["localhost"], |_| {});
    let certificate = |file: &str| CertificateDer::from_pem_file(pki.path(file)).unwrap();
    let link = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let shown = || {
        let mut client = pki.client(link.client(), &[]);
        client.write_all(b"x").unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
        client.conn.peer_certificates().unwrap()[0].clone()
    };
    let before = certificate("server.crt");
    assert_eq!(shown(), before);
    // Its key is not there yet.
    renew(&pki, "renewed.crt", "server.crt");
    assert_eq!(shown(), before);
    let said = link.says("the key is not the certificate's; what was read of ");
    assert!(said.contains("warning: use "), "{said}");
    renew(&pki, "renewed.key", "server.key");
    assert_eq!(shown(), certificate("renewed.crt"));

    // A client's link, whose server moves to another authority.
    let other = Pki::new();
    let there = Running::start(&[&other.listen("server", ",fork"), "exec:cat"]);
    let trusts = pki.connect(&there.place(), "");
    let link = Running::start(&["tcp-listen:127.0.0.1:0,fork", &trusts]);
    assert!(read_all(&mut link.client()).1.is_some());
    link.says("is signed by no authority that is trusted");
    fs::copy(other.path("ca.crt"), pki.path("other")).unwrap();
    renew(&pki, "other", "ca.crt");
    assert_eq!(ask(link.client(), b"trusted"), b"trusted");
}
