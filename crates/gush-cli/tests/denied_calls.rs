//! `gush pv`, `gush tee` and `gush yes` where a filter denies the calls that move by reference, and on disks that are full.

mod common;

use std::fs;
use std::process::{Command, Output};

use common::cp::with_mounts;
use common::shell::{MUCH_BYTES, said, source};
use common::{bounded, denier, skipped};

const SPLICE: &str = "275";
const TEE: &str = "276";
const VMSPLICE: &str = "278";

#[test]
fn every_byte_arrives_where_a_filter_denies_calls() {
    let (dir, bytes) = source();
    let denier = match denier(dir.path()) {
        Ok(denier) => denier,
        Err(why) => return skipped(&why),
    };
    let yes = b"y\n".repeat(500_000);
    for calls in [SPLICE, TEE, VMSPLICE, "275,276,278"] {
        // EPERM, ENOSYS and EACCES are answers of filters, EINVAL one of an old kernel.
        for errno in ["1", "38", "13", "22"] {
            let line = format!(
                "set -o pipefail; D='{} {errno} {calls}'
                 cat source | $D $G pv -q | cat >pv-pipes
                 $D $G pv -q source | cat >pv-file
                 cat source | $D $G pv -q -l -o pv-lines
                 cat source | $D $G pv -q -L 1G >pv-limit
                 $D $G pv -q source -- cat >pv-command
                 cat source | $D $G tee a b >(cat >c; : >ced) | cat >d
                 cat source | $D $G tee --buffer 1M e | cat >f
                 $D $G tee g <source >h
                 $D $G yes | head -c 1000000 >yes
                 until [ -e ced ]; do sleep 0.01; done",
                denier.display()
            );
            let mut command = Command::new("bash");
            command.args(["-c", &line]).current_dir(dir.path());
            command.env("G", env!("CARGO_BIN_EXE_gush"));
            let output = bounded(120, &command).output().unwrap();
            assert!(output.status.success(), "{calls} {errno}: {}", said(&output));
            assert_eq!(said(&output), "", "{calls} {errno}");
            let pv = ["pv-pipes", "pv-file", "pv-lines", "pv-limit", "pv-command"];
            for name in pv.into_iter().chain(["a", "b", "c", "d", "e", "f", "g", "h"]) {
                let got = fs::read(dir.path().join(name)).unwrap();
                assert!(got == bytes, "{calls} {errno}: {name} has {} bytes", got.len());
            }
            assert!(fs::read(dir.path().join("yes")).unwrap() == yes, "{calls} {errno}");
            fs::remove_file(dir.path().join("ced")).unwrap();
        }
    }
}

/// The number in front of `word`.
fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().filter(|before| before.len() < text.len());
    let number = before.and_then(|before| before.rsplit(' ').next());
    number.map_or(0, |number| number.parse().unwrap())
}

#[test]
fn every_byte_of_a_full_disk_is_delivered_counted_or_left() {
    let (dir, bytes) = source();
    for words in [
        "pv -q",
        "pv -q -C",
        "pv -q -l",
        "pv -q -B 10000",
        "pv -q -L 1G",
        "pv -q -O",
        "pv -q -l -S -s 9G",
    ] {
        let script = format!(
            "mkdir -p full && mount -t tmpfs -o size=1M none full
             cat source | {{ $G {words} >full/out; echo status $? >&2; wc -c >rest; }}; cp full/out out; umount full"
        );
        let Some(output) = with_mounts(dir.path(), &script) else { return };
        let said = check(&output, "status 16");
        assert!(said.contains("No space left on device"), "{words}: {said}");
        let arrived = fs::read(dir.path().join("out")).unwrap();
        let rest: usize =
            fs::read_to_string(dir.path().join("rest")).unwrap().trim().parse().unwrap();
        let delivered = number_before(&said, " bytes: No space");
        let lost = number_before(&said, " bytes were read and not delivered");
        assert!(arrived.len() == delivered && arrived == bytes[..delivered], "{words}: {said}");
        assert!(delivered > 500_000, "{words}: {said}");
        assert_eq!(delivered + lost + rest, MUCH_BYTES, "{words}: {said}");
    }
}

#[test]
fn an_output_of_tee_on_a_full_disk_is_told_of_and_the_others_get_every_byte() {
    let (dir, bytes) = source();
    for words in ["", "--method read-write", "--buffer 64K"] {
        let script = format!(
            "mkdir -p full && mount -t tmpfs -o size=1M none full
             cat source | {{ $G tee {words} full/out copy; echo status $? >&2; }} | cat >last; cp full/out out; umount full"
        );
        let Some(output) = with_mounts(dir.path(), &script) else { return };
        let said = check(&output, "status 1");
        let delivered = number_before(&said, " bytes: No space");
        let arrived = fs::read(dir.path().join("out")).unwrap();
        assert!(arrived.len() == delivered && arrived == bytes[..delivered], "{words}: {said}");
        assert!(delivered > 500_000, "{words}: {said}");
        for name in ["copy", "last"] {
            assert!(fs::read(dir.path().join(name)).unwrap() == bytes, "{words}: {name}");
        }
    }
}

fn check(output: &Output, status: &str) -> String {
    let said = said(output);
    assert!(said.lines().any(|line| line == status), "{said}");
    said
}
