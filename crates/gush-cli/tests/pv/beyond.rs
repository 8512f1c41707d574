//! The work of `gush pv` on the bytes besides moving them: options of pv 1.11, and gush's own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;

use crate::common::link::eventually;
use crate::common::shell::{MUCH_BYTES, said, shell, source};
use crate::common::{gush, noise, not_applicable, skipped, strace, words_of};
use crate::pairs::every_byte_arrives;
use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::TempDir;

#[test]
fn every_byte_arrives_with_each_option() {
    every_byte_arrives(&[
        "-K",
        "-O",
        "-K -O",
        "-K -C",
        "-U store",
        "-U -",
        "-U store -O",
        "-O -L 1G",
        "--json",
    ]);
}

#[test]
fn blocks_of_zeros_become_holes() {
    let dir = TempDir::new().unwrap();
    let data = noise(10_000, 3);
    let mut bytes = vec![0; 4 << 20];
    bytes[1 << 20..(1 << 20) + 10_000].copy_from_slice(&data);
    fs::write(dir.path().join("source"), &bytes).unwrap();
    for line in [
        "cat source | $G pv -O >got",
        "cat source | $G pv -O -o got",
        "$G pv -O source >got",
        "cat source | $G pv -O -S -s 4194304 >got",
        "(head -c 1000001; cat) <source | $G pv -O -B 1000 >got",
    ] {
        let output = shell(dir.path(), line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        let got = dir.path().join("got");
        assert!(fs::read(&got).unwrap() == bytes, "{line}");
        let held = fs::metadata(&got).unwrap().blocks() * 512;
        assert!(held < 1 << 20, "{line}: {held} bytes are held");
    }
    // Zeros over old bytes are written, and nothing is cut off after them.
    fs::write(dir.path().join("got"), vec![7; 5 << 20]).unwrap();
    let output = shell(dir.path(), "cat source | $G pv -O 1<>got");
    assert!(output.status.success(), "{}", said(&output));
    let got = fs::read(dir.path().join("got")).unwrap();
    assert!(got[..4 << 20] == bytes && got[4 << 20..].iter().all(|byte| *byte == 7));
    // A file that is appended to has no other place for a byte than its end.
    fs::write(dir.path().join("got"), b"before").unwrap();
    let output = shell(dir.path(), "head -c 9000 source | $G pv -O >>got");
    assert!(output.status.success(), "{}", said(&output));
    let got = fs::read(dir.path().join("got")).unwrap();
    assert!(got[..6] == *b"before" && got[6..] == bytes[..9000]);
}

/// Reports why not.
fn takes_o_direct(out: &Path) -> bool {
    let mut how = File::options();
    let how = how.write(true).create(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let opened = how.open(out);
    if let Err(error) = &opened {
        not_applicable(&format!("no O_DIRECT here: {error}"));
    }
    opened.is_ok()
}

fn has_o_direct(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

#[test]
fn the_page_cache_is_passed_by_and_the_flag_taken_back() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    if !takes_o_direct(&out) {
        return;
    }
    let file = File::create(&out).unwrap();
    let mut command = gush();
    command.args(["pv", "-K", "-q"]).stdin(Stdio::piped()).stdout(file.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let is_direct = || has_o_direct(&file);
    eventually("O_DIRECT", is_direct);
    child.stdin.take().unwrap().write_all(&noise(10_001, 7)).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!is_direct());
    assert!(fs::read(&out).unwrap() == noise(10_001, 7));
}

/// Opening a FIFO without a writer waits, so that the signal ends the process at once.
#[test]
fn a_signal_that_ends_it_at_once_leaves_no_o_direct() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    if !takes_o_direct(&out) {
        return;
    }
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let file = File::create(&out).unwrap();
    let mut command = gush();
    command.args(["pv", "-K", "-q"]).arg(&fifo).stdout(file.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let is_direct = || has_o_direct(&file);
    eventually("O_DIRECT", is_direct);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(!is_direct());
}

#[test]
fn what_is_synced_is_flushed_by_every_way() {
    let (dir, bytes) = source();
    // A disk that fails is noticed.
    for words in ["", "-C", "-O", "-l -S -s 9G", "-K"] {
        let mut traced = match strace(&["-e", "inject=fdatasync:error=EIO"]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["pv", "-q", "-Y", "-o", "got", "-"]).args(words.split_whitespace());
        let (reader, mut writer) = std::io::pipe().unwrap();
        traced.current_dir(dir.path()).stdin(reader).stderr(Stdio::piped());
        let child = traced.spawn().unwrap();
        drop(traced);
        // Whoever fails early reads no further.
        let _ = writer.write_all(&bytes[..60_000]);
        drop(writer);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(16), "{words}: {}", said(&output));
        assert!(said(&output).contains("write failed"), "{words}: {}", said(&output));
        assert!(said(&output).contains(&words_of(Errno::IO)), "{words}: {}", said(&output));
        // The first flush may come before the last byte.
        assert!(bytes[..60_000].starts_with(&fs::read(dir.path().join("got")).unwrap()), "{words}");
    }
}

#[test]
fn what_is_synced_is_flushed_again_and_again() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    command.args(["pv", "-Y", "--json", "-i", "0.1", "-o", "got"]).current_dir(dir.path());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut flushed = BTreeSet::new();
    // A byte counts once a flush has put it on the disk: each new count is a flush.
    for line in std::io::BufRead::lines(said).take(300) {
        let reading: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        flushed.extend(reading["bytes"].as_u64().filter(|&bytes| bytes > 0));
        if flushed.len() == 3 {
            break;
        }
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }
    assert_eq!(flushed.len(), 3, "{flushed:?}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn everything_is_stored_before_the_first_byte_leaves() {
    let (dir, bytes) = source();
    let mut command = gush();
    command.args(["pv", "-U", "store", "-n", "-b", "-i", "0.1"]).current_dir(dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&bytes[..70_000]).unwrap();
    let stored = || fs::metadata(dir.path().join("store")).map_or(0, |file| file.len());
    eventually("the stored bytes", || stored() == 70_000);
    let output = child.stdout.as_ref().unwrap();
    assert_eq!(rustix::io::ioctl_fionread(output).unwrap(), 0);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout == bytes[..70_000]);
    assert!(fs::read(dir.path().join("store")).unwrap() == bytes[..70_000]);
}

#[test]
fn a_temporary_store_leaves_nothing() {
    let (dir, bytes) = source();
    fs::create_dir(dir.path().join("tmp")).unwrap();
    let output = shell(dir.path(), "TMPDIR=tmp $G pv -U - -f -b -i 600 --checksum xxh3 source");
    assert!(output.status.success() && output.stdout == bytes, "{}", said(&output));
    // The first half is called that; the checksum is that of the second.
    let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("  (input): 2.86MiB") && lines[1].starts_with("2.86MiB"));
    assert!(lines[2].starts_with("xxh3 "));
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
    let output = shell(dir.path(), "$G pv -U nodir/store source");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    // An input that cannot be read is reported, and the others are passed on.
    for (line, status, words) in [
        ("$G pv -U store nofile source", 2, "nofile: open failed"),
        ("$G pv -U store source nofile", 2, "nofile: open failed"),
        ("$G pv -U - nofile source nofile", 2, "nofile: open failed"),
        ("$G pv -U store . source", 16, "read failed after 0 bytes: Is a directory"),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(output.stdout == bytes, "{line}: {} bytes", output.stdout.len());
        assert!(said(&output).contains(words), "{line}: {}", said(&output));
    }
    // What could not be stored whole is not passed on.
    let output = shell(dir.path(), "$G pv -U /dev/full source");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(16), 0), "{}", said(&output));
}

#[test]
fn a_checksum_is_that_of_what_has_passed() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("abc"), "abc").unwrap();
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let blake3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    for (line, reported) in [
        ("$G pv --checksum sha256 abc", format!("sha256 {sha256}\n")),
        ("cat abc | $G pv --checksum blake3 | cat", format!("blake3 {blake3}\n")),
        ("$G pv -q --checksum xxh3 abc -o got; cat got", "xxh3 78af5f94892f3950\n".into()),
        ("$G pv --checksum xxh3 <abc", "xxh3 78af5f94892f3950\n".into()),
        ("cat abc | $G pv -l -S -s 9 --checksum xxh3", "xxh3 78af5f94892f3950\n".into()),
        ("cat abc | $G pv -O -o got --checksum xxh3; cat got", "xxh3 78af5f94892f3950\n".into()),
        ("cat abc | $G pv -C --checksum xxh3 - abc --skip 3", "xxh3 78af5f94892f3950\n".into()),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!((said(&output), output.stdout.as_slice()), (reported, &b"abc"[..]), "{line}");
    }
    let line = format!("$G pv --checksum sha256 --expect {} abc", sha256.to_uppercase());
    assert!(shell(dir.path(), &line).status.success());
    let output = shell(dir.path(), &format!("$G pv --checksum blake3 --expect {sha256} abc"));
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(16), &b"abc"[..]));
    let words =
        format!("the blake3 of these bytes is {blake3}, and {sha256} was expected (--expect)\n");
    assert!(said(&output).ends_with(&words), "{}", said(&output));
    assert_eq!(shell(dir.path(), "$G pv --expect ab abc").status.code(), Some(64));
    assert_eq!(shell(dir.path(), "$G pv --checksum xxh3 --expect xy abc").status.code(), Some(64));
}

#[test]
fn a_transfer_is_resumed() {
    let (dir, bytes) = source();
    for line in [
        "head -c 1000001 source >got; $G pv --skip 1000001 --seek 1000001 source -o got",
        "head -c 1000001 source >got; cat source | $G pv --skip 1000001 --seek 1000001 -o got",
        "head -c 1000001 source >got; $G pv --skip 1000001 --seek 1000001 <source 1<>got",
        // What follows the place to continue at goes, and what is missing before becomes a hole.
        "cat source source >got; $G pv --skip 1000001 --seek 1000001 source -o got",
        "head -c 1500000 source >got; $G pv --skip 1000001 --seek 1000001 -K source -o got",
        "head -c 1000000 source >one; tail -c +1000001 source >two; $G pv --skip 1M one two -o got --seek 0",
        ">got; $G pv --skip 1M source >got",
    ] {
        let output = shell(dir.path(), line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        let got = fs::read(dir.path().join("got")).unwrap();
        let wanted = if line.contains("1M") { &bytes[1 << 20..] } else { &bytes[..] };
        assert!(got == wanted, "{line}: {} bytes", got.len());
    }
    let output =
        shell(dir.path(), "head -c 20 source >got; head -c 10 source | $G pv --seek 20 -o got");
    assert!(output.status.success());
    let got = fs::read(dir.path().join("got")).unwrap();
    assert!(got.len() == 30 && got[..20] == bytes[..20] && got[20..] == bytes[..10]);
    // The size is that of what is left.
    let output = shell(dir.path(), "$G pv -n -i 600 --skip 3M -S -s 100 source; true");
    assert_eq!(output.stdout.len(), 0);
    let output = shell(dir.path(), "$G pv -n -i 600 --skip 3000000 source");
    assert_eq!((said(&output).as_str(), output.stdout.len()), ("100\n", 17));
}

#[test]
fn what_cannot_be_skipped_is_reported() {
    let (dir, _) = source();
    let missing = u64::MAX - MUCH_BYTES as u64;
    let largest = format!("$G pv --skip {} source", u64::MAX);
    for (line, status, words) in [
        ("$G pv --skip 3000020 source", 16, "input ended 3 bytes short of --skip\n".to_owned()),
        ("cat source | $G pv --skip 3000020", 16, "input ended 3 bytes short of --skip\n".into()),
        (&largest, 16, format!("input ended {missing} bytes short of --skip\n")),
        (
            "$G pv --seek 5 source | cat; exit ${PIPESTATUS[0]}",
            16,
            "standard output: --seek: Illegal seek (--seek requires a file; use --output".into(),
        ),
        (
            "$G pv --seek 5 source >>got",
            16,
            "in append mode, every byte is written at the end\n".into(),
        ),
        ("$G pv --seek 9223372036854775808 source -o got", 16, "got: --seek: ".into()),
        (
            "$G pv --seek 5 -o nodir/got source",
            2,
            "nodir/got: open failed: No such file or directory (mkdir -p".into(),
        ),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(said(&output).contains(&words), "{line}: {}", said(&output));
        assert_eq!(output.stdout.len(), 0, "{line}");
    }
}

#[test]
fn an_output_that_is_the_input_is_refused_before_it_is_emptied() {
    let (dir, bytes) = source();
    fs::hard_link(dir.path().join("source"), dir.path().join("link")).unwrap();
    for line in [
        "$G pv -o source <source",
        "$G pv -o link <source",
        "$G pv -o source - <source",
        "$G pv -o /dev/stdin <source",
        "$G pv -o source --seek 5 <source",
        "$G pv -o link nofile source",
        "$G pv -U source source",
        "$G pv -U link source",
        "$G pv -U source <source",
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(4), "{line}: {}", said(&output));
        assert!(said(&output).contains("input file is output file: "), "{}", said(&output));
        assert!(fs::read(dir.path().join("source")).unwrap() == bytes, "{line}");
    }
}

#[test]
fn the_largest_sizes_are_sizes() {
    let (dir, bytes) = source();
    for size in ["9223372036854775807", "9223372036854775808", "18446744073709551615", "8E", "15E"]
    {
        for words in
            ["-S -f -i 600", "-f -i 600", "-l -S -n -i 600", "-S -O -q", "-L 18446744073709551615"]
        {
            let line = format!("$G pv {words} -s {size} source");
            let output = shell(dir.path(), &line);
            assert!(output.status.success() && output.stdout == bytes, "{line}: {}", said(&output));
        }
    }
    // As large as a file can be: nothing of it is read here.
    let output =
        shell(dir.path(), "truncate -s 15T huge && $G pv -n -i 600 -s @huge source | wc -c");
    if !output.status.success() {
        return not_applicable("no file of 15 TiB can be made here");
    }
    assert_eq!((said(&output).as_str(), output.stdout), ("0\n", b"3000017\n".to_vec()));
}

/// Is this number as large, but for the last digits?
fn is_about(number: &serde_json::Value, wanted: f64) -> bool {
    number.as_f64().is_some_and(|number| (number - wanted).abs() <= wanted * 1e-6)
}

#[test]
fn readings_are_json() {
    let (dir, bytes) = source();
    let output = shell(dir.path(), "$G pv --json -i 600 -N name --checksum xxh3 source");
    assert!(output.status.success() && output.stdout == bytes);
    let lines: Vec<serde_json::Value> =
        said(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [end, checksum] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&end["name"], &end["bytes"]), (&"name".into(), &MUCH_BYTES.into()));
    assert_eq!((&end["expected"], &end["percent"]), (&MUCH_BYTES.into(), &100.0.into()));
    assert_eq!((&end["left_seconds"], &end["ended"]), (&0.0.into(), &true.into()));
    // Both rates of the end are those of the whole time.
    let whole = MUCH_BYTES as f64 / end["elapsed_seconds"].as_f64().unwrap();
    assert!(is_about(&end["rate"], whole) && is_about(&end["average_rate"], whole), "{end}");
    assert_eq!(checksum["checksum"], "xxh3");
    let output = shell(dir.path(), "seq 5 | $G pv --json -i 600 -l >/dev/null");
    let end: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(
        (&end["lines"], end.get("bytes"), end["expected"].is_null()),
        (&5.into(), None, true)
    );
}

#[test]
fn readings_come_while_bytes_do() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    // The average is that of the whole time.
    command.args(["pv", "--json", "-i", "0.1", "-m", "9999", "-s", "1000"]).current_dir(dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    child.stdin.as_mut().unwrap().write_all(b"bytes").unwrap();
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        let reading: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(reading["ended"], false);
        if reading["bytes"] == 5 {
            let average = 5.0 / reading["elapsed_seconds"].as_f64().unwrap();
            assert!(is_about(&reading["average_rate"], average), "{reading}");
            assert!(is_about(&reading["left_seconds"], 995.0 / average), "{reading}");
            assert!(is_about(&reading["percent"], 0.5), "{reading}");
            break;
        }
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.lines().last().unwrap().contains("\"ended\":true"), "{rest}");
    assert!(child.wait().unwrap().success());
}

/// A limit on file sizes ends the transfer, not the program; a command of the transfer has the
/// signal as ever.
#[test]
fn the_limit_on_file_sizes_is_reported_and_leaves_nothing() {
    let (dir, _) = source();
    let line = "ulimit -c 0; ulimit -f 1; $G pv -q -P number source >got; echo $?; ls";
    let output = shell(dir.path(), line);
    let text = said(&output);
    assert!(text.contains("File too large"), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "16\ngot\nsource\n", "{text}");
    let line = "$G pv -q source -- sh -c 'kill -XFSZ $$'; echo $?";
    let output = shell(dir.path(), &format!("ulimit -c 0; {line}"));
    assert_eq!(output.stdout, b"153\n", "{}", said(&output));
}
