//! Files, devices, FIFOs and inherited descriptors, as a user of `gush_link::open` sees them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use crate::open_common::{one, one_as, run, talk};
use gush_link::open::{End, OpenError, OpenOptions};
use gush_net::{Conduit, Relay, RelayOptions};

/// Writes `text` to the address, one way.
async fn write(address: &str, text: &str) -> Result<(), OpenError> {
    let mut end = one_as(address, OpenOptions::default().write_only()).await?;
    let (read, write) = std::io::pipe().unwrap();
    (&write).write_all(text.as_bytes()).unwrap();
    drop(write);
    let mut source = Conduit::new(read.into()).unwrap();
    Relay::new(&RelayOptions::new()).copy(&mut source, &mut end.conduit).await.unwrap();
    Ok(())
}

/// All that the address gives, one way.
async fn read(address: &str) -> Result<String, OpenError> {
    Ok(drain(one_as(address, OpenOptions::default().read_only()).await?).await)
}

async fn drain(mut end: End) -> String {
    let (mut read, write) = std::io::pipe().unwrap();
    let mut target = Conduit::new(write.into()).unwrap();
    Relay::new(&RelayOptions::new()).copy(&mut end.conduit, &mut target).await.unwrap();
    drop(target);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    text
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn file_options_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a,b:c");
    let quoted = path.display().to_string().replace(',', "\\,");
    run(async {
        let error = write(&format!("file:{quoted}"), "x").await.unwrap_err();
        assert!(error.hint().unwrap().contains("create makes a missing file"), "{error}");
        let error = write(&format!("file:{quoted}.missing/x"), "x").await.unwrap_err();
        let made = format!("mkdir -p '{}.missing' makes the directory", path.display());
        assert_eq!(error.hint().unwrap(), format!("{made}; then add create"));
        // A link to a file, in one directory with what is missing, and a link to the latter.
        let [to_file, to_dir] = ["to file", "to dir"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink("a,b:c.missing/x", &to_file).unwrap();
        std::os::unix::fs::symlink(path.with_file_name("a,b:c.missing"), &to_dir).unwrap();
        for link in [to_file, to_dir.join("x")] {
            let error = write(&format!("file:{},create", link.display()), "x").await.unwrap_err();
            assert_eq!(error.hint().unwrap(), made);
        }

        let error = read(&format!("file:{quoted}")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("it is read"), "{error}: {:?}", error.hint());
        assert!(!path.exists(), "a file that is read was made");
        read(&format!("file:{quoted},create,mode=600")).await.unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        fs::remove_file(&path).unwrap();

        write(&format!("file:{quoted},create,excl,mode=600"), "0123456789").await.unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), mode(&path)),
            ("0123456789", 0o600)
        );
        let error = write(&format!("file:{quoted},create,excl"), "x").await.unwrap_err();
        assert!(error.to_string().contains("File exists"), "{error}");
        assert!(error.hint().unwrap().contains("drop excl"), "{error}: {:?}", error.hint());

        // From the start, leaving what comes after; at an offset; at the end; anew.
        write(&format!("file:{quoted}"), "ab").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ab23456789");
        write(&format!("file:{quoted},seek=4"), "cd").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ab23cd6789");
        write(&format!("file:{quoted},append"), "ef").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ab23cd6789ef");
        write(&format!("CREATE:{quoted}"), "new").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");

        assert_eq!(read(&format!("file:{quoted},rdonly,seek=1")).await.unwrap(), "ew");
        assert_eq!(read(&format!("file:{quoted},seek-end=-1")).await.unwrap(), "w");
        let error = read(&format!("file:{quoted},seek-end=-4")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("before its start"), "{error}: {:?}", error.hint());
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for place in ["seek=0", "seek-end=0"] {
            let error = read(&format!("file:{},{place}", pipe.display())).await.unwrap_err();
            assert!(error.hint().unwrap().contains("leave seek"), "{error}: {:?}", error.hint());
        }
        let error = read(&format!("file:{quoted},trunc")).await.unwrap_err();
        assert!(error.to_string().contains("only read"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    });
}

#[test]
fn a_path_is_made_or_written_at_its_end_or_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let text = path.display().to_string();
    run(async {
        assert!(read(&text).await.unwrap_err().to_string().contains("No such file"));
        write(&text, "one\n").await.unwrap();
        write(&text, "two\n").await.unwrap();
        assert_eq!(read(&text).await.unwrap(), "one\ntwo\n");
    });
}

#[test]
fn a_path_that_is_a_socket_is_connected_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = std::os::unix::net::UnixListener::bind(&path).unwrap();
    run(async {
        let end = one(&path.display().to_string()).await.unwrap();
        server.accept().unwrap();
        assert!(end.peer.to_string().starts_with("unix:"));
        let error = one(&format!("file:{}", path.display())).await.unwrap_err();
        assert!(error.hint().unwrap().contains("unix:PATH"), "{error}");
    });
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    run(async {
        let error = one("/tmp").await.unwrap_err();
        assert!(error.hint().unwrap().contains("a directory has no bytes"), "{error}");
        let error =
            one_as("file:/dev/null,wronly", OpenOptions::default().read_only()).await.unwrap_err();
        assert!(error.to_string().contains("it can only be written"), "{error}");
        let error = one_as("stdin", OpenOptions::default().write_only()).await.unwrap_err();
        assert!(error.to_string().contains("standard input cannot be written"), "{error}");
        let error = one("fd:999").await.unwrap_err();
        assert!(error.to_string().contains("take descriptor 999: Bad file descriptor"), "{error}");
        let error = one("pipe:/dev/null").await.unwrap_err();
        assert!(error.to_string().contains("this is no FIFO"), "{error}");
    });
}

#[test]
fn our_own_descriptors_are_not_to_be_had_by_number() {
    use std::os::fd::AsRawFd;
    let own = tempfile::tempfile().unwrap();
    let error = run(one(&format!("fd:{}", own.as_raw_fd()))).unwrap_err();
    assert!(error.to_string().contains("Bad file descriptor"), "{error}");
}

#[test]
fn an_inherited_descriptor_is_read_and_taken_once() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"passed on").unwrap();
    let child = std::process::Command::new("bash")
        .args(["-c", "exec \"$@\" 7<\"$0\""])
        .arg(file.path())
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "files::in_a_child_it_is_read_and_taken_once",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(child.status.success() && said[0].contains("1 passed"), "{}", said.concat());
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_it_is_read_and_taken_once() {
    use std::os::fd::AsRawFd;
    run(async {
        let again = one_as("fd:7", OpenOptions::default().read_only()).await.unwrap();
        assert_ne!(again.conduit.read_fd().unwrap().as_raw_fd(), 7);
        assert_eq!(drain(again).await, "passed on");
        let taken = one_as("7", OpenOptions::default().read_only().once()).await.unwrap();
        assert_eq!(taken.conduit.read_fd().unwrap().as_raw_fd(), 7);
        drop(taken);
        assert!(one("fd:7").await.is_err());
    });
}

#[test]
fn zero_and_null_are_devices() {
    run(async {
        let zero = one_as("zero:", OpenOptions::default().read_only()).await.unwrap();
        let mut bytes = [9; 16];
        rustix::io::read(zero.conduit.read_fd().unwrap(), &mut bytes).unwrap();
        assert_eq!(bytes, [0; 16]);
        assert_eq!(read("null:").await.unwrap(), "");
        write("null:", "gone").await.unwrap();
    });
}

#[test]
fn a_pipe_without_a_path_is_an_echo() {
    run(async {
        let mut end = one("pipe:").await.unwrap();
        assert_eq!(talk(&mut end.conduit, b"hello").await, b"hello");
    });
}

#[test]
fn a_fifo_is_made_waited_at_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    let text = format!("pipe:{},mode=622", path.display());
    run(async {
        let opening =
            tokio::spawn(async move { one_as(&text, OpenOptions::default().read_only()).await });
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!opening.is_finished(), "nobody writes yet, and that is not the end");
        assert!(path.metadata().unwrap().file_type().is_fifo());
        let writer = path.clone();
        let writer = std::thread::spawn(move || fs::write(writer, "through the fifo").unwrap());
        let end = opening.await.unwrap().unwrap();
        assert_eq!(mode(&path), 0o622 & !0o022, "the umask reduces it, as of a file");
        let made = format!("{:?}", end.keeper);
        assert!(made.contains("fifo"), "{made}");
        let keeper_lives = path.exists();
        assert_eq!(drain(end).await, "through the fifo");
        assert!(keeper_lives && !path.exists());
        writer.join().unwrap();
    });
}

#[test]
fn a_writer_of_a_fifo_waits_for_its_reader_and_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let text = format!("file:{}", path.display());
    run(async {
        let nobody = tokio::time::timeout(Duration::from_millis(50), write(&text, "x")).await;
        assert!(nobody.is_err());
        let reader = path.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(reader).unwrap());
        write(&text, "to the reader").await.unwrap();
        assert_eq!(reader.join().unwrap(), "to the reader");
    });
    assert!(path.exists(), "it was there before");
}

#[test]
fn a_missing_file_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("late");
    let text = format!("file:{},rdonly,retry=forever,interval=10ms", path.display());
    run(async {
        let reading = tokio::spawn(async move { read(&text).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!reading.is_finished());
        let new = dir.path().join("new");
        File::create(&new).unwrap().write_all(b"here").unwrap();
        fs::rename(new, &path).unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), "here");
    });
}

#[test]
fn a_file_that_may_not_be_written_says_how_to_open_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "text").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    gush_test::without_privilege(|| {
        let error = run(one(&format!("file:{}", path.display()))).unwrap_err();
        assert!(error.hint().unwrap().contains("rdonly"), "{error}");
    });
}

#[test]
fn a_mistyped_path_is_made_only_where_it_is_only_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mistyped");
    run(async {
        let error = one(path.to_str().unwrap()).await.unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
        assert!(error.hint().unwrap().contains("create"), "{:?}", error.hint());
        for device in ["/dev/ttyNONE0".to_owned(), format!("file:{},b9600,raw", path.display())] {
            let error = one(&device).await.unwrap_err();
            assert!(error.hint().unwrap().contains("is it connected?"), "{:?}", error.hint());
        }
        assert!(!path.exists());
        let refused = format!("{},create=0", path.display());
        write(&refused, "").await.unwrap_err();
        // A file that is only read is not made by itself: it would be empty.
        one_as(&path.display().to_string(), OpenOptions::default().read_only()).await.unwrap_err();
        assert!(!path.exists());
        one(&format!("{},create", path.display())).await.unwrap();
        assert!(path.exists());
    });
}
