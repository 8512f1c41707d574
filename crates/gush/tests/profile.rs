//! A profile is advice: a rule is used where that is sound, and no rule does harm.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::thread;

use gush::{Choice, Host, MethodName, Mover, Profile, Report, Tuning};

#[macro_use]
mod common;

const LEN: usize = 300_000;

fn bytes() -> Vec<u8> {
    (0..LEN).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn profile(rules: &str) -> Profile {
    let host = Host::here();
    let text = format!(
        "format = 1\n[machine]\nkernel = {:?}\nprocessor = {:?}\nprocessors = {}\n{rules}",
        host.kernel, host.processor, host.processors
    );
    text.parse().expect("a profile for here")
}

fn source() -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&bytes()).expect("its content");
    file.rewind().expect("its start");
    file
}

/// From a file into a pipe, with the bytes that came out.
fn into_pipe(profile: &Profile, set: impl FnOnce(Mover<'_>) -> Mover<'_>) -> (Report, Vec<u8>) {
    let source = source();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let drain = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    let report = set(Mover::new(&source, &writer).profile(profile)).run().expect("a move");
    drop(writer);
    (report, drain.join().expect("a drain").expect("all bytes"))
}

fn first_method(report: &Report) -> MethodName {
    report.main_method().expect("something moved")
}

#[test]
fn every_method_a_profile_can_name_leaves_the_bytes_right() {
    for name in MethodName::ALL {
        let profile = profile(&format!(
            "[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['{name}']\n\
             buffer_bytes = 4097\npipe_bytes = 4096\nthreads = 64\nspin_us = 5\n"
        ));
        let (report, arrived) = into_pipe(&profile, |mover| mover);
        assert!(arrived == bytes(), "{name}: {}", report.explain());
        let text = report.explain().to_string();
        assert!(text.contains(&format!("profile: rule 1, file to pipe: {name}, buffer 5 KiB")));
    }
}

#[test]
fn only_what_the_table_permits_is_chosen() {
    needs!(sendfile);
    let chosen = |name: MethodName| {
        let profile = profile(&format!(
            "[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['{name}', 'read-write']\n"
        ));
        first_method(&into_pipe(&profile, |mover| mover).0)
    };
    assert_eq!(chosen(MethodName::MmapWrite), MethodName::MmapWrite);
    assert_eq!(chosen(MethodName::Sendfile), MethodName::Sendfile);
    for not_permitted in [MethodName::Uring, MethodName::MmapCopy, MethodName::Direct] {
        assert_eq!(chosen(not_permitted), MethodName::ReadWrite, "{not_permitted}");
    }
}

#[test]
fn a_profile_does_not_undo_isolation() {
    let profile =
        profile("[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['sendfile', 'splice']\n");
    let (report, arrived) = into_pipe(&profile, |mover| mover.isolated(true));
    assert_eq!(first_method(&report), MethodName::ReadWrite);
    assert_eq!(report.refusals.len(), 2, "{}", report.explain());
    assert!(arrived == bytes());
}

#[test]
fn a_profile_says_nothing_about_a_method_that_was_named() {
    needs!(splice);
    let profile = profile("[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['sendfile']\n");
    let splice = Choice::Only(MethodName::Splice);
    let (report, _) = into_pipe(&profile, |mover| mover.method(splice));
    assert_eq!(first_method(&report), MethodName::Splice);
    assert!(report.profile.is_empty() && report.refusals.is_empty());
}

#[test]
fn the_users_own_sizes_stand_before_the_profiles() {
    let rules = "[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['read-write']\n\
                 buffer_bytes = 4096\n";
    let profile = profile(rules);
    let steps = |report: &Report| report.methods[0].steps;
    let (measured, _) = into_pipe(&profile, |mover| mover);
    let own = Tuning::default().buffer_bytes(1 << 20);
    let (own, _) = into_pipe(&profile, |mover| mover.tuning(own));
    assert!(steps(&measured) >= (LEN / 4096) as u64, "{}", measured.explain());
    assert!(steps(&own) < 30, "{}", own.explain());
}

#[test]
fn a_target_that_appends_gets_everything_whatever_the_profile_prefers() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(system) = gush::Endpoint::of(&source()).expect("a look").local_file_system() else {
        return gush_test::not_applicable("the file system of temporary files has no name here");
    };
    let profile = profile(&format!(
        "[[rule]]\nsource = 'file'\ntarget = 'file'\nsource_file_system = '{system}'\n\
         target_file_system = '{system}'\nmethods = ['splice', 'sendfile', 'mmap-write']\nthreads = 4\n"
    ));
    let path = dir.path().join("log");
    std::fs::write(&path, b"before").expect("a file");
    let target = OpenOptions::new().append(true).open(&path).expect("to append");
    let report = Mover::new(&source(), &target).profile(&profile).run().expect("a move");
    let mut expected = b"before".to_vec();
    expected.extend(bytes());
    assert!(std::fs::read(&path).expect("the file") == expected, "{}", report.explain());
    assert!(report.explain().to_string().contains("refused splice"), "{}", report.explain());
}

#[test]
fn made_up_files_are_read_whatever_the_profile_says() {
    let profile = profile(
        "[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['splice']\n\
         [[rule]]\nsource = 'device'\ntarget = 'pipe'\nmethods = ['splice']\n",
    );
    let status = File::open("/proc/self/maps").expect("procfs");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let report = Mover::new(&status, &writer).profile(&profile).run().expect("a move");
    assert_eq!(report.main_method(), Some(MethodName::ReadWrite));
    assert_eq!(report.profile, ["no rule for this pair and size: the table picks"]);
    drop(writer);
    let mut all = String::new();
    reader.read_to_string(&mut all).expect("text");
    assert_eq!(all.len() as u64, report.bytes);
}

#[test]
fn a_profile_for_another_machine_is_told_and_the_table_used() {
    needs!(splice);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("profile.toml");
    let text = "format = 1\n[machine]\nkernel = '2.4.1'\nprocessor = 'x'\nprocessors = 1\n\
                [[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['read-write']\n";
    std::fs::write(&path, text).expect("a file");
    let profile = Profile::load(&path).expect("something");
    let (report, arrived) = into_pipe(&profile, |mover| mover);
    assert!(arrived == bytes());
    assert_eq!(first_method(&report), MethodName::Splice);
    let text = report.explain().to_string();
    assert!(text.contains("profile.toml is not used: it was made for kernel \"2.4.1\""), "{text}");
}

#[test]
fn a_spin_and_a_pipe_size_are_used_between_streams() {
    let profile =
        profile("[[rule]]\nsource = 'socket'\ntarget = 'pipe'\npipe_bytes = 65536\nspin_us = 50\n");
    let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let feed = thread::spawn(move || near.write_all(&bytes()));
    let drain = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    let far = OwnedFd::from(far);
    let report = Mover::new(&far, &writer).profile(&profile).run().expect("a move");
    drop(writer);
    feed.join().expect("a feeder").expect("all sent");
    assert!(drain.join().expect("a drain").expect("all bytes") == bytes());
    assert!(report.explain().to_string().contains("socket to pipe: pipe 64 KiB, spin 50 us"));
}
