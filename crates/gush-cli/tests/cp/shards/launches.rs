//! Ranks that a scheduler starts, and ranks that are started again.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{both, end, share_of, start, state, tree, wait_for};
use crate::common::cp::{Closable, fails, names, remove_tree, stderr};
use crate::common::{gush, noise};

#[test]
fn the_share_of_a_rank_that_was_killed_is_taken_up() {
    let dir = tree();
    let words = ["-a", "--resume", "--verify", "a", "d"];
    for lost in [0, 1, 2] {
        let shard = |rank: u32| format!("{rank}/3");
        // Slow enough to be killed in the middle of the share.
        let slow = [&["--limit=20K", "--threads=1"][..], &words].concat();
        let mut victim = start(dir.path(), &shard(lost), &slow);
        let journal = dir.path().join(format!(".d.gush-shards/rank-{lost}.journal"));
        wait_for(&journal);
        while !fs::read_to_string(&journal).unwrap_or_default().contains("done ") {
            std::thread::sleep(Duration::from_millis(5));
        }
        let others: Vec<_> = (0..3)
            .filter(|rank| *rank != lost)
            .map(|rank| start(dir.path(), &shard(rank), &words))
            .collect();
        victim.kill().unwrap();
        victim.wait().unwrap();
        // What is done is not done again.
        let done = fs::read_to_string(&journal).unwrap();
        let (status, said) = end(start(dir.path(), &shard(lost), &words));
        assert_eq!(status, Some(0), "{said}");
        assert!(done.contains("done "), "{done}");
        for other in others {
            let (status, said) = end(other);
            assert_eq!(status, Some(0), "{said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{lost}");
        assert_eq!(names(dir.path()), ["a", "d"]);
        remove_tree(&dir.path().join("d"));
    }
}

#[test]
fn the_scheduler_sets_the_rank() {
    let dir = tree();
    let pairs = [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("JOB_COMPLETION_INDEX", "JOB_COMPLETION_COUNT"),
    ];
    for (rank_name, ranks_name) in pairs {
        let run = |rank: &str| {
            let mut command: Command = gush();
            command.env(rank_name, rank).env(ranks_name, "2").current_dir(dir.path());
            command.args(["cp", "-a", "--shard=auto", "a", "d"]).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        for child in ["1", "0"].map(run) {
            let (status, said) = end(child);
            assert_eq!(status, Some(0), "{rank_name}: {said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{rank_name}");
        remove_tree(&dir.path().join("d"));
    }
}

/// Rank 0 would go on without the share.
#[test]
fn a_rank_that_is_started_again_takes_its_report_back() {
    let dir = tree();
    let is_own = share_of(dir.path(), 1, 2);
    let own = (0..20).map(|file| format!("e/f{file}")).find(|file| is_own(file)).unwrap();
    let words = ["-a", "--resume", "a", "d"];
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    let report = dir.path().join(".d.gush-shards/rank-1.done");
    assert!(report.exists());
    fs::write(dir.path().join("a").join(own), noise(1 << 20, 11)).unwrap();
    let slow = [&["--limit=20K", "--threads=1"][..], &words].concat();
    let mut again = start(dir.path(), "1/2", &slow);
    while report.exists() {
        assert!(again.try_wait().unwrap().is_none(), "the report stayed until the next one");
        std::thread::sleep(Duration::from_millis(5));
    }
    again.kill().unwrap();
    again.wait().unwrap();
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// A rank that takes rank and launch from `variables`.
fn launch(dir: &Path, variables: [Variables<'_>; 2]) -> Child {
    let mut command: Command = gush();
    command.args(["cp", "-aT", "--resume", "--shard=auto", "a", "d"]).current_dir(dir);
    command.envs(variables.concat()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A tree that rank 1 of 2 has not copied whole: so says the report that an earlier launch left.
fn with_report_of(variables: [Variables<'_>; 2]) -> Closable {
    let dir = tree();
    let is_own = share_of(dir.path(), 1, 2);
    let hindered = (0..20).find(|file| is_own(&format!("e/f{file}"))).unwrap();
    let hindrance = dir.path().join(format!("d/e/f{hindered}"));
    fs::create_dir_all(hindrance.join("in the way")).unwrap();
    let (status, said) = end(launch(dir.path(), variables));
    assert_eq!(status, Some(1), "{said}");
    assert!(dir.path().join(".d.gush-shards/rank-1.done").exists(), "{said}");
    fs::remove_dir_all(hindrance).unwrap();
    dir
}

const SLURM: [Variables<'_>; 2] = [
    &[("SLURM_NTASKS", "2"), ("SLURM_PROCID", "0")],
    &[("SLURM_NTASKS", "2"), ("SLURM_PROCID", "1")],
];
const OPEN_MPI: [Variables<'_>; 2] = [
    &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")],
    &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")],
];
const STEP: Variables<'_> = &[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")];

/// A report of an earlier launch is there until its rank has begun again, which may be after rank 0
/// looks.
#[test]
fn rank_0_waits_for_ranks_that_the_same_launch_starts_again() {
    let requeued = [STEP, &[("SLURM_RESTART_COUNT", "1")]].concat();
    let launches: [(_, Variables<'_>, Variables<'_>); 3] = [
        (SLURM, STEP, &requeued),
        (SLURM, STEP, &[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")]),
        (OPEN_MPI, &[("PMIX_NAMESPACE", "1234")], &[("PMIX_NAMESPACE", "1235")]),
    ];
    let started = launches.map(|(ranks, earlier, launched)| {
        let dir = with_report_of([ranks[1], earlier]);
        let first = launch(dir.path(), [ranks[0], launched]);
        (dir, first, [ranks[1], launched])
    });
    for (dir, mut first, other) in started {
        let mut messages = BufReader::new(first.stderr.take().unwrap());
        let mut said = String::new();
        messages.read_line(&mut said).unwrap();
        assert_eq!(said, "gush: cp: waiting for rank 1\n", "{other:?}");
        let (status, said) = end(launch(dir.path(), other));
        assert_eq!(status, Some(0), "{other:?}: {said}");
        let mut said = String::new();
        messages.read_to_string(&mut said).unwrap();
        assert_eq!(first.wait().unwrap().code(), Some(0), "{other:?}: {said}");
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{other:?}");
        assert_eq!(names(dir.path()), ["a", "d"]);
    }
}

/// Where one of the two knows no launch, an old report looks like a new one.
#[test]
fn a_report_counts_where_rank_0_or_its_rank_knows_no_launch() {
    let pmi: [Variables<'_>; 2] =
        [&[("PMI_SIZE", "2"), ("PMI_RANK", "0")], &[("PMI_SIZE", "2"), ("PMI_RANK", "1")]];
    let cases: [([Variables<'_>; 2], [Variables<'_>; 2]); 3] = [
        // Rank 0 is lost, and started again by hand.
        ([SLURM[1], STEP], [pmi[0], &[]]),
        // Rank 1 was, and rank 0 is of a launch.
        ([pmi[1], &[]], [SLURM[0], STEP]),
        // The launcher names none.
        ([pmi[1], STEP], [pmi[0], &[("SLURM_JOB_ID", "8"), ("SLURM_STEP_ID", "0")]]),
    ];
    for (reported, rank_0) in cases {
        let dir = with_report_of(reported);
        let (status, said) = end(launch(dir.path(), rank_0));
        assert_eq!(status, Some(1), "{reported:?}: {said}");
        assert!(said.contains("; 1 of them failed"), "{reported:?}: {said}");
    }
}

/// mpirun and srun hand Ctrl-C on to all ranks; all are to be started again.
#[test]
fn a_rank_that_is_interrupted_says_how_to_go_on() {
    let dir = tree();
    let words = ["-aT", "--resume", "a", "d"];
    let slow = [&["--limit=20K", "--threads=1"][..], &words].concat();
    let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &slow));
    for (rank, (child, signal)) in ranks.into_iter().zip([Signal::INT, Signal::TERM]).enumerate() {
        wait_for(&dir.path().join(format!(".d.gush-shards/rank-{rank}.journal")));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{}", stderr(&output));
        let how = "to continue, restart all 2 ranks with --resume";
        let said = format!("gush: cp: rank {rank} of 2 was interrupted; {how}\n");
        assert_eq!(stderr(&output), said);
    }
    let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &words));
    for (status, said) in ranks.map(end) {
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
}

#[test]
fn no_message_advises_to_remove_the_state_of_a_rank_that_runs() {
    let dir = tree();
    let slow = ["-aT", "--limit=20K", "--threads=1", "a", "d"];
    let [mut running, mut lost] = ["0/2", "1/2"].map(|shard| start(dir.path(), shard, &slow));
    for rank in 0..2 {
        wait_for(&dir.path().join(format!(".d.gush-shards/rank-{rank}.journal")));
    }
    lost.kill().unwrap();
    lost.wait().unwrap();
    let attempts: [&[&str]; 5] = [
        &["--shard=0/2"],
        &["--shard=0/2", "--resume"],
        &["--shard=1/2"],
        &["--shard=1/3"],
        &["--resume"],
    ];
    let said = |words: &[&str]| fails(dir.path(), &[words, &["-aT", "a", "d"]].concat());
    for words in attempts {
        let said = said(words);
        let expected = match words[0] {
            "--shard=0/2" => "another copy writes this journal (wait until it ends)\n",
            _ => "end rank 0, which still runs, to begin anew)\n",
        };
        assert!(said.ends_with(expected), "{words:?}: {said}");
        assert!(!said.contains("remove"), "{words:?}: {said}");
    }
    running.kill().unwrap();
    running.wait().unwrap();
    for words in attempts.into_iter().filter(|words| words.len() == 1) {
        let said = said(words);
        assert!(said.contains("remove "), "{words:?}: {said}");
    }
}

#[test]
fn a_rank_whose_messages_nobody_reads_dies_of_a_signal_at_once() {
    let dir = tree();
    let (_unread, mut full) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&full).unwrap();
    rustix::fs::fcntl_setfl(&full, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&full, flags).unwrap();
    let mut command = gush();
    command.args(["cp", "-a", "--shard=1/2", "--limit=20K", "a", "d"]).current_dir(dir.path());
    let mut child = command.stderr(full).spawn().unwrap();
    wait_for(&dir.path().join(".d.gush-shards/rank-1.journal"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

/// The killed launch has announced the file, and no piece can be copied by a method that takes no
/// offset.
#[test]
fn ranks_that_make_no_pieces_go_on_where_a_file_was_divided() {
    for option in ["--method=sendfile", "--stable"] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/data"), noise(68_000_001, 7)).unwrap();
        let words = ["-a", "--resume", "a", "d"];
        // So slow that a piece takes seconds.
        let slow = [&["--limit=2M", "--threads=1"][..], &words].concat();
        let mut lost = ["0/2", "1/2"].map(|shard| start(dir.path(), shard, &slow));
        let shards = dir.path().join(".d.gush-shards");
        let is_announced = || {
            let names = fs::read_dir(&shards).into_iter().flatten();
            names.flatten().any(|entry| entry.path().extension().is_some_and(|end| end == "claims"))
        };
        while !is_announced() {
            std::thread::sleep(Duration::from_millis(5));
        }
        for rank in &mut lost {
            rank.kill().unwrap();
            rank.wait().unwrap();
        }
        for (status, said) in both(dir.path(), &[&[option][..], &words].concat()) {
            assert_eq!(status, Some(0), "{option}: {said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{option}");
        assert_eq!(names(dir.path()), ["a", "d"], "{option}");
    }
}
