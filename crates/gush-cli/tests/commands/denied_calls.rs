//! The commands where a filter denies the calls that move by reference, and `gush pv`, `gush tee`
//! and `gush yes` on disks that are full and without pages for pipes.

use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output};

use crate::common::cp::with_mounts;
use crate::common::shell::{MUCH_BYTES, said, shell, source};
use crate::common::{bounded, copied_gush, denier, nobody, not_applicable, skipped};
use gush::{FileSplice, Kernel};
use rustix::fs::Uid;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::thread::set_thread_res_uid;
use tempfile::tempdir;

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
                 rm -f link-file; cat source | $D $G link -u - file:link-file,create
                 $D $G link -u file:source - | cat >link-pipe
                 cat source | $D $G link - exec:cat | cat >link-program
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
            let link = ["link-file", "link-pipe", "link-program"];
            let tee = ["a", "b", "c", "d", "e", "f", "g", "h"];
            for name in pv.into_iter().chain(tee).chain(link) {
                let got = fs::read(dir.path().join(name)).unwrap();
                assert!(got == bytes, "{calls} {errno}: {name} has {} bytes", got.len());
            }
            assert!(fs::read(dir.path().join("yes")).unwrap() == yes, "{calls} {errno}");
            fs::remove_file(dir.path().join("ced")).unwrap();
        }
    }
}

#[test]
fn every_command_goes_round_each_denied_call_and_says_which_one_it_missed() {
    // Not the engine's word: a kernel without splice(2) may still have sendfile(2), which shares a
    // file's pages as well.
    let ((empty, _open), (_open_too, target)) =
        (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    match rustix::pipe::splice(&empty, None, &target, None, 1, SpliceFlags::NONBLOCK) {
        Err(Errno::AGAIN) => {}
        other => return not_applicable(&format!("no splice(2) to deny here: {other:?}")),
    }
    let (dir, bytes) = source();
    let denier = match denier(dir.path()) {
        Ok(denier) => denier,
        Err(why) => return skipped(&why),
    };
    const SENDFILE: &str = "40";
    const COPY_FILE_RANGE: &str = "326";
    /// preadv2 and pwritev2, io_uring_setup, openat2.
    const OTHERS: [&str; 4] = ["327", "328", "425", "437"];
    let singly = [SENDFILE, SPLICE, TEE, VMSPLICE, COPY_FILE_RANGE].into_iter().chain(OTHERS);
    let together = "40,275,276,278,326,327,328,425,437";
    for calls in singly.chain([together]) {
        for (errno, name) in [("1", "EPERM"), ("38", "ENOSYS")] {
            let line = format!(
                "set -o pipefail; D='{} {errno} {calls}'
                 rm -rf tree out; mkdir -p tree/sub out; cp source tree/sub/file; ln -s sub/file tree/link
                 $D $G cp --explain source out/cp 2>said-cp &&
                 $D $G cp -r --explain tree out/tree 2>said-tree && [ \"$(readlink out/tree/link)\" = sub/file ] &&
                 $D $G cat --explain source 2>said-cat | cat >out/cat &&
                 cat source | $D $G cat --explain 2>said-pipe | cat >out/pipe &&
                 cat source | $D $G pv -q --explain 2>said-pv | cat >out/pv &&
                 cat source | $D $G tee --explain out/tee 2>said-outputs | cat >out/teed &&
                 cat source | $D $G link -u --explain - file:out/link,create 2>said-link &&
                 {{ $D $G pipe write --quiet --technique fresh --bytes 1M 2>said-fresh | cat >out/fresh; :; }} &&
                 {{ $D $G pipe write --quiet --technique reservoir --bytes 1M 2>said-reservoir | cat >out/reservoir; :; }} &&
                 $D $G pipe write --quiet --pattern counter --bytes 3M |
                     $D $G pipe read --quiet --pattern counter --verify --bytes 3M &&
                 {{ $D $G yes --explain 2>said-yes | head -c 1000000 >out/yes; :; }}",
                denier.display()
            );
            let output = shell(dir.path(), &line);
            let case = format!("{calls} {name}: {}", said(&output));
            assert!(output.status.success(), "{case}");
            for file in ["cp", "tree/sub/file", "cat", "pipe", "pv", "tee", "teed", "link"] {
                let got = fs::read(dir.path().join("out").join(file)).unwrap();
                assert!(got == bytes, "{case}: {file} has {} bytes", got.len());
            }
            let yes = fs::read(dir.path().join("out/yes")).unwrap();
            assert!(yes == b"y\n".repeat(500_000), "{case}");
            let is_denied = |call: &str| calls.split(',').any(|denied| denied == call);
            let is_reported = |file: &str, call: &str| {
                let explained = fs::read_to_string(dir.path().join(file)).unwrap();
                explained.lines().any(|line| {
                    line.contains(": refused ") && line.ends_with(&format!(": {call}: {name}"))
                })
            };
            // copy_file_range comes second.
            let said_cp = fs::read_to_string(dir.path().join("said-cp")).unwrap();
            let shares = said_cp.contains("picked reflink");
            for file in ["said-cp", "said-tree"] {
                let reported = is_reported(file, "copy_file_range");
                assert_eq!(
                    reported,
                    is_denied(COPY_FILE_RANGE) && !shares,
                    "{case}: {file}: {said_cp}"
                );
            }
            let said_link = fs::read_to_string(dir.path().join("said-link")).unwrap();
            let method = if is_denied(SPLICE) { "read-write" } else { "splice" };
            assert!(
                said_link.contains(&format!("{} bytes by {method}", bytes.len())),
                "{case}: {said_link}"
            );
            let refused = format!(" by read-write (refused splice: splice: {name})");
            assert_eq!(said_link.contains(&refused), is_denied(SPLICE), "{case}: {said_link}");
            // A technique asked for by name is used or refused, with the call that it lacks.
            for (technique, call, number) in
                [("fresh", "vmsplice", VMSPLICE), ("reservoir", "tee", TEE)]
            {
                let said =
                    fs::read_to_string(dir.path().join(format!("said-{technique}"))).unwrap();
                let arrived = fs::metadata(dir.path().join("out").join(technique)).unwrap().len();
                if is_denied(number) {
                    assert!(
                        said.contains(call) && said.contains("use --technique"),
                        "{case}: {said}"
                    );
                    assert_eq!(arrived, 0, "{case}: {technique}");
                } else if technique == "fresh" || !is_denied(SPLICE) {
                    assert_eq!((said.as_str(), arrived), ("", 1 << 20), "{case}: {technique}");
                }
            }
            for file in ["said-cat", "said-pipe", "said-pv"] {
                assert_eq!(is_reported(file, "splice"), is_denied(SPLICE), "{case}: {file}");
            }
            let said_cat = fs::read_to_string(dir.path().join("said-cat")).unwrap();
            for (behaviour, line) in [
                (FileSplice::Shares, "the file's pages are shared: a later write"),
                (FileSplice::Copies, "a splice from a file copies on this kernel: one copy less"),
            ] {
                let sends = !is_denied(SPLICE) || !is_denied(SENDFILE);
                let reported = sends && Kernel::get().file_splice() == behaviour;
                assert_eq!(said_cat.contains(line), reported, "{case}: {said_cat}");
            }
            // Slots are filled by splice(2), and then duplicated.
            assert_eq!(is_reported("said-yes", "tee"), is_denied(TEE), "{case}");
            let fat = is_denied(SPLICE) && !is_denied(TEE);
            assert_eq!(is_reported("said-yes", "splice"), fat, "{case}");
            let said_yes = fs::read_to_string(dir.path().join("said-yes")).unwrap();
            let picked = if is_denied(TEE) { "picked write" } else { "picked reservoir" };
            assert!(said_yes.contains(picked), "{case}: {said_yes}");
            // A pipe is spliced into a pipe of gush's own first, then duplicated.
            let without_splice = is_denied(SPLICE);
            assert_eq!(is_reported("said-outputs", "splice"), without_splice, "{case}");
            let without_tee = is_denied(TEE) && !without_splice;
            assert_eq!(is_reported("said-outputs", "tee"), without_tee, "{case}");
            // sendfile comes second.
            let reported = is_reported("said-cat", "sendfile");
            assert_eq!(reported, is_denied(SPLICE) && is_denied(SENDFILE), "{case}");
        }
    }
}

/// A named method is used or refused (invariant 6), and the refusal names the call: nothing was
/// read in vain.
#[test]
fn a_named_method_that_is_denied_is_refused_by_name() {
    let (dir, bytes) = source();
    let denier = match denier(dir.path()) {
        Ok(denier) => denier,
        Err(why) => return skipped(&why),
    };
    for (command, fills) in [("cat", ""), ("tee copy", "copy"), ("link", "")] {
        let ends = if command == "link" { "- -" } else { "" };
        let line = format!(
            "cat source | {{ {} 38 {SPLICE} $G {command} --method=splice {ends}; echo status $? >&2; wc -c >rest; }}",
            denier.display()
        );
        let output = shell(dir.path(), &line);
        let said = check(&output, "status 1");
        assert!(said.contains("splice is refused here: splice: ENOSYS"), "{command}: {said}");
        assert!(!said.contains("read failed"), "{command}: {said}");
        assert_eq!(output.stdout.len(), 0, "{command}");
        let rest = fs::read_to_string(dir.path().join("rest")).unwrap();
        assert_eq!(rest.trim().parse(), Ok(bytes.len()), "{command}: bytes were taken");
        if !fills.is_empty() {
            assert_eq!(fs::metadata(dir.path().join(fills)).unwrap().len(), 0, "{command}");
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
        let lost = number_before(&said, " bytes were read but not delivered");
        assert!(arrived.len() == delivered && arrived == bytes[..delivered], "{words}: {said}");
        assert!(delivered > 500_000, "{words}: {said}");
        assert_eq!(delivered + lost + rest, MUCH_BYTES, "{words}: {said}");
    }
}

#[test]
fn an_output_of_tee_on_a_full_disk_is_reported_and_the_others_get_every_byte() {
    let (dir, bytes) = source();
    for words in ["", "--method read-write", "--buffer 64K"] {
        let script = format!(
            "mkdir -p full && mount -t tmpfs -o size=1M none full
             cat source | {{ $G tee {words} full/out copy; echo status $? >&2; }} | cat >last; cp full/out out; umount full"
        );
        let Some(output) = with_mounts(dir.path(), &script) else { return };
        let said = check(&output, "status 1");
        let delivered = number_before(&said, " bytes; the target");
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

/// Users of one test each, whose pages no other test uses up.
const USER: u32 = 64_321;
const SPARED_USER: u32 = 64_322;

/// A pipe that is charged to that user.
fn pipe_of(user: u32) -> (PipeReader, PipeWriter) {
    let made = std::thread::spawn(move || {
        let user = Uid::from_raw(user);
        // Of this thread alone: the kernel charges pages to the user of the thread that makes a
        // pipe.
        set_thread_res_uid(user, user, user).unwrap();
        std::io::pipe().unwrap()
    });
    made.join().unwrap()
}

/// Pipes of that user with all pages that the user may have; or why there are none.
fn all_pages_of(user: u32) -> Result<Vec<(PipeReader, PipeWriter)>, String> {
    /// As large as may be, because descriptors are few: only CAP_SYS_RESOURCE gives a pipe more
    /// than 1 MiB.
    const SIZES_BYTES: [usize; 2] = [64 << 20, 1 << 20];
    const MOST_PIPES: usize = 400;
    let limit = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap();
    if limit.trim() == "0" {
        return Err("users may have any number of pages in pipes here".to_owned());
    }
    let page_bytes = rustix::param::page_size();
    let mut pipes = Vec::new();
    while pipes.len() < MOST_PIPES {
        let pipe = pipe_of(user);
        let slots = fcntl_getpipe_size(&pipe.1).unwrap() / page_bytes;
        // Grown by this thread, which may exceed the limits where it is root's.
        let _ = SIZES_BYTES.into_iter().find(|&bytes| fcntl_setpipe_size(&pipe.1, bytes).is_ok());
        pipes.push(pipe);
        if slots <= 2 {
            return Ok(pipes);
        }
    }
    Err(format!("{MOST_PIPES} pipes do not use up the {} pages of a user", limit.trim()))
}

#[test]
fn the_users_other_programs_keep_pages_for_pipes() {
    const LEFT_BYTES: usize = 8 << 20;
    const RUNS_EACH: usize = 6;
    const PIPE_BYTES: usize = 1 << 20;
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    let page_bytes = rustix::param::page_size();
    let limit = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap();
    let limit_bytes = limit.trim().parse::<usize>().unwrap() * page_bytes;
    if limit_bytes < 2 * LEFT_BYTES || 16 * page_bytes >= PIPE_BYTES {
        return not_applicable("pipes do not grow here, or have no limit of 16 MiB or more");
    }
    let dir = tempdir().unwrap();
    copied_gush(dir.path());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (mut held, mut held_bytes) = (Vec::new(), 0);
    while held_bytes < limit_bytes - LEFT_BYTES {
        let pipe = pipe_of(SPARED_USER);
        // A power of two, because the kernel rounds up to one.
        let wanted = 1 << (limit_bytes - LEFT_BYTES - held_bytes).min(64 << 20).ilog2();
        let granted = [wanted, PIPE_BYTES]
            .into_iter()
            .find_map(|bytes| fcntl_setpipe_size(&pipe.1, bytes).ok());
        let Some(bytes) = granted else { return skipped("a pipe of 1 MiB is refused") };
        held_bytes += bytes;
        held.push(pipe);
    }
    let mut running = Vec::new();
    for arguments in [["pv", "-q"].as_slice(), &["tee"], &["cat"], &["yes"]] {
        for run in 0..RUNS_EACH {
            let [(input, mut feeder), (mut reported, output)] =
                [0; 2].map(|_| pipe_of(SPARED_USER));
            let command = Command::new(dir.path().join("gush"))
                .args(arguments)
                .stdin(input)
                .stdout(output)
                .uid(SPARED_USER)
                .gid(SPARED_USER)
                .spawn()
                .unwrap();
            running.push(Running(command));
            // Pipes have grown before the first byte arrives.
            feeder.write_all(b"y\n").unwrap();
            reported.read_exact(&mut [0; 2]).unwrap();
            held.extend([(reported, feeder)]);
            let fresh_bytes = fcntl_getpipe_size(&pipe_of(SPARED_USER).1).unwrap();
            assert_eq!(fresh_bytes, 16 * page_bytes, "next to run {run} of {arguments:?}");
        }
    }
}

/// Ended and reaped on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_user_without_pages_for_pipes_gets_every_byte() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    let (dir, bytes) = source();
    copied_gush(dir.path());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let held = match all_pages_of(USER) {
        Ok(held) => held,
        Err(why) => return not_applicable(&why),
    };
    let line = "./gush yes | head -c 1000000 | wc -c
        set -o pipefail
        cat source | ./gush pv -q | cat >a
        ./gush pv -q source | cat >b
        cat source | ./gush pv -q -l >c
        ./gush pv -q source -- cat >d
        cat source | ./gush tee e | cat >f
        cat source | ./gush tee --buffer 1M g | cat >h";
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(dir.path());
    let mut command = bounded(120, &command);
    let output = command.uid(USER).gid(USER).output().unwrap();
    drop(held);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((said(&output).as_str(), output.stdout.as_slice()), ("", &b"1000000\n"[..]));
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let got = fs::read(dir.path().join(name)).unwrap();
        assert!(got == bytes, "{name}: {} bytes", got.len());
    }
}
