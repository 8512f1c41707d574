//! A copy between machines keeps and replaces what a local one does.

use super::remote;
use crate::common::cp::{stderr, stdout};
use crate::common::skipped;

/// A source, and a target of an earlier state: files that are equal, older, newer, longer, of other
/// bytes, of another kind, and some that the source lacks.
const TWO_STATES: &str = "umask 022; mkdir -p s/d/e s/kind s/empty t/s/d/e t/s/only/deep t/s/kind t/s/skip s/skip
    for f in same older newer longer other d/same d/e/new; do echo $f >s/$f; done
    touch -d '2020-01-01' s/*; touch -d '2020-01-01' s/d/same
    for f in same older newer d/same; do cp -p s/$f t/s/$f; done; echo longer still >t/s/longer
    echo reh_o | cut -c1-5 >t/s/other; touch -d '2020-01-01' t/s/other t/s/longer
    touch -d '2019-01-01' t/s/older; touch -d '2021-01-01' t/s/newer
    echo file >s/kind/file; mkdir t/s/kind/file; echo in >t/s/kind/file/in; mkdir s/kind/dir; echo x >s/kind/dir/x
    echo dir >t/s/kind/dir; ln -s same s/link; ln -s elsewhere t/s/link; ln -s one s/kind/link
    ln -s one t/s/kind/link; mkfifo s/fifo; echo no fifo >t/s/fifo
    echo a >s/names; ln s/names s/d/names; echo b >t/s/names; echo b >t/s/d/names; ln s/same s/d/again
    touch -d '2030-01-01' t/s/names t/s/d/names
    echo gone >t/s/only/deep/f; echo gone >t/s/d/gone; echo keep >t/s/d/keep.o; echo keep >t/s/skip/k
    echo no >s/skip/n; echo obj >s/d/e/y.o; echo '*.o' >s/d/.gitignore; echo /skip >s/.gitignore
    ln -s two s/hard; ln s/hard s/d/hard; ln -s two t/s/hard; touch -hd 2020-01-01 s/hard t/s/hard; ln s/fifo s/d/fifo; : >s/void; ln s/void s/d/void
    truncate -s 3M s/holes t/s/holes; for side in s t/s; do printf $side | dd of=$side/holes bs=1 seek=2M conv=notrunc status=none; done
    setfattr -n user.k -v v s/newer s/d s/same || exit 99; setfattr -n user.k -v old t/s/d t/s/older t/s/same; setfattr -n user.l -v old t/s/d
    setfacl -m u:1234:r s/older || exit 99; setfacl -d -m g:55:rx s/kind; chmod 600 s/same t/s/same; chmod 640 s/older
    touch -d '2018-01-01' s/d s/kind s; touch -d '2017-01-01' t/s/d t/s/empty\n";

/// What a tree is, with times where they are kept.
const LOOK: &str = "look() { (cd $1; find . -printf '%P %M %n %U %G %l\n' | sort
        [ $2 = r ] || find . -printf '%P %T@\n' | sort; find . ! -type d -printf '%P %s %b\n' | sort
        for get in 'getfacl -np' 'getfattr -hd'; do find . ! -type l -print0 | sort -z | xargs -0 $get; done
        find . -type f -exec cksum {} + | sort) >$1.look; }\n";

/// Options that decide what becomes of [`TWO_STATES`].
const DECISIONS: [&str; 15] = [
    "-a",
    "-r",
    "-au",
    "-an",
    "-rn",
    "-a --update=none-fail",
    "-a --update=changed",
    "-a --checksum",
    "-r --checksum",
    "-a --delete",
    "-a --delete --update=changed",
    "-a --delete --checksum --exclude *.o --exclude skip/",
    "-r --delete --include keep.o --exclude *.o",
    "-a --delete --gitignore",
    "-a --update=changed --verify",
];

#[test]
fn a_copy_to_another_machine_decides_as_a_local_one() {
    decides_as_a_local_copy("s h:v");
}

/// Both copies say and do the same, also when they only say what they would do.
pub fn decides_as_a_local_copy(operands: &str) {
    let mut differ = Vec::new();
    // Names of this machine have no host, and messages about the other one begin with it.
    let (local, local_messages) = match operands {
        "s h:v" => ("s,'h:v,'u,g", "s,cp: h: ,cp: ,;s,'v\\([/']\\),'u\\1,g"),
        _ => ("s,'h:s,'s,g;s,'v\\([/']\\),'u\\1,g", ""),
    };
    for options in DECISIONS {
        for dry in ["", "--dry-run"] {
            let dir = tempfile::tempdir().unwrap();
            let output = remote(
                dir.path(),
                &format!(
                    "set -f; {TWO_STATES}{LOOK}
                    cp -a t u; cp -a t v
                    # With several threads any name of a file may be the first.
                    $G cp -v --threads=1 {options} {dry} s u >u.out 2>u.err; echo $? >>u.out
                    $C -v {options} {dry} {operands} >v.out 2>v.err; echo $? >>v.out
                    o='{options}'; look u ${{o:1:1}}; look v ${{o:1:1}}; diff u.look v.look
                    # A local copy removes a link or special file before it makes the new one.
                    sed \"{local}\" v.out | sort >v.said
                    grep -vE \"^(removed|would remove) 'u/s/(d/)?(fifo|link|kind/link|names|same|hard)'\" u.out | sort >u.said
                    diff u.said v.said; sed \"{local};{local_messages}\" v.err | sort >v.err2
                    sed \"s, with \\(non-\\)\\?directory 's/.*, with \\1directory,\" u.err | sort >u.err2
                    diff u.err2 v.err2; grep -q user.k u.look && echo looked"
                ),
            );
            if output.status.code() == Some(99) {
                return skipped(&format!("no attributes or ACLs: {}", stderr(&output)));
            }
            if stdout(&output) != "looked\n" {
                differ.push(format!("{options} {dry}: {}{}", stdout(&output), stderr(&output)));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
