//! `--shard`: the rank of this process among those that copy one tree.

use std::env;

use gush_tree::{Shard, Share};

/// The variables by which a launcher numbers its processes.
struct Launcher {
    rank: &'static str,
    ranks: &'static str,
    /// The variables that together identify a launch to all of its ranks: those that are always
    /// set, and those that may be. Empty if the launcher has none: rank 0 would wait in vain for
    /// ranks with another name.
    launch: (&'static [&'static str], &'static [&'static str]),
}

/// The innermost comes first: `mpirun` in a Slurm job sets the variables of both.
const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        // Not Slurm's: the daemons that start the ranks on other machines are a separate step.
        launch: (&["PMIX_NAMESPACE"], &[]),
    },
    Launcher { rank: "PMI_RANK", ranks: "PMI_SIZE", launch: (&[], &[]) },
    Launcher {
        rank: "SLURM_PROCID",
        ranks: "SLURM_NTASKS",
        // A requeued job has the same IDs, and counts its restarts.
        launch: (&["SLURM_JOB_ID", "SLURM_STEP_ID"], &["SLURM_RESTART_COUNT"]),
    },
    Launcher { rank: "JOB_COMPLETION_INDEX", ranks: "JOB_COMPLETION_COUNT", launch: (&[], &[]) },
];

impl Launcher {
    /// The identity of the launch of this process.
    fn launch(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let (always, at_times) = self.launch;
        let mut name = String::new();
        for key in always {
            name.push_str(&format!("{key}={}\n", variable(key)?));
        }
        for key in at_times {
            name.push_str(&format!("{key}={}\n", variable(key).unwrap_or_default()));
        }
        (!name.is_empty()).then_some(name)
    }
}

/// Parses `auto` or `I/N`; `None` if one process copies all.
pub fn read(text: &str) -> Result<Option<Shard>, String> {
    match text {
        "auto" => from(|name| env::var(name).ok()),
        _ => {
            let numbers = text.split_once('/');
            let numbers = numbers.and_then(|(rank, ranks)| number(rank).zip(number(ranks)));
            let (rank, ranks) = numbers.ok_or("expected auto or I/N, such as 0/4")?;
            one_of(rank, ranks)
        }
    }
}

fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Shard>, String> {
    for launcher in LAUNCHERS {
        let Launcher { rank: rank_name, ranks: ranks_name, .. } = launcher;
        let Some(rank) = variable(rank_name) else { continue };
        let ranks = variable(ranks_name)
            .ok_or_else(|| format!("{rank_name} is set but {ranks_name} is not"))?;
        let numbers = number(&rank).zip(number(&ranks));
        let (rank, ranks) = numbers.ok_or_else(|| {
            format!(
                "{rank_name} and {ranks_name} are '{rank}' and '{ranks}', which are not numbers"
            )
        })?;
        let shard = one_of(rank, ranks)?;
        let launch = launcher.launch(&variable);
        return Ok(shard.map(|shard| match launch {
            Some(name) => shard.launched_as(name.as_bytes()),
            None => shard,
        }));
    }
    Err(format!(
        "none of {} is set; start the ranks with srun or mpirun, or pass I/N to each",
        LAUNCHERS.map(|launcher| launcher.rank).join(", ")
    ))
}

/// How to continue after this rank was interrupted.
pub fn interrupted(shard: Shard) -> String {
    let (rank, ranks) = (shard.rank(), shard.ranks());
    format!(
        "rank {rank} of {ranks} was interrupted; to continue, restart all {ranks} ranks with --resume"
    )
}

/// What all ranks copied, and the parts of the largest shares.
pub fn summary(shares: &[Share]) -> String {
    let part = |of: fn(&Share) -> u64| {
        let all: u64 = shares.iter().map(of).sum();
        let most = shares.iter().map(of).max().unwrap_or(0);
        (all, 100.0 * most as f64 / all.max(1) as f64)
    };
    let ((files, most_files), (bytes, most_bytes)) =
        (part(|share| share.files), part(|share| share.bytes));
    let failed = shares.iter().filter(|share| !share.is_complete).count();
    let failures = if failed == 0 { String::new() } else { format!("; {failed} of them failed") };
    format!(
        "{} ranks: {files} files, {}; the largest shares have {most_files:.1} % of the files and {most_bytes:.1} % of the bytes{failures}",
        shares.len(),
        gush_text::rounded_bytes(bytes),
    )
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn one_of(rank: u32, ranks: u32) -> Result<Option<Shard>, String> {
    let shard = Shard::new(rank, ranks)
        .ok_or_else(|| format!("no rank {rank} of {ranks}; ranks start at 0"))?;
    Ok(Some(shard).filter(|_| ranks > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(set: &[(&str, &str)]) -> Result<Option<Shard>, String> {
        from(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn each_scheduler_sets_the_rank_and_the_nearest_one_decides() {
        for Launcher { rank, ranks, .. } in LAUNCHERS {
            assert_eq!(given(&[(rank, "2"), (ranks, "3")]), Ok(Shard::new(2, 3)), "{rank}");
            assert_eq!(given(&[(rank, "0"), (ranks, "1")]), Ok(None));
            assert!(given(&[(rank, "3"), (ranks, "3")]).unwrap_err().contains("no rank 3 of 3"));
            assert!(given(&[(rank, "x"), (ranks, "3")]).unwrap_err().contains("not numbers"));
            let why = format!("{rank} is set but {ranks} is not");
            assert_eq!(given(&[(rank, "0")]), Err(why));
        }
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(given(&[slurm, mpi].concat()), Ok(Shard::new(1, 2)));
        assert!(given(&[]).unwrap_err().starts_with("none of OMPI"));
    }

    #[test]
    fn a_launch_has_a_name_where_the_launcher_gives_one() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        let step = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")];
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let pmi = [("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        let pod = [("JOB_COMPLETION_INDEX", "1"), ("JOB_COMPLETION_COUNT", "2")];
        let nameless = Ok(Shard::new(1, 2));
        for set in [&slurm[..], &mpi, &pmi, &pod] {
            assert_eq!(given(set), nameless, "{set:?}");
        }
        for set in [&[("SLURM_JOB_ID", "7")][..], &[("SLURM_STEP_ID", "0")]] {
            assert_eq!(given(&[&slurm[..], set].concat()), nameless, "{set:?}");
        }
        // Ranks of one launch may be of several steps of Slurm, or of none.
        assert_eq!(given(&[&mpi[..], &slurm, &step].concat()), nameless);
        assert_eq!(given(&[&pmi[..], &slurm, &step].concat()), nameless);
        let launches: [&[(&str, &str)]; 6] = [
            &[&slurm[..], &step].concat(),
            &[&slurm[..], &step, &[("SLURM_RESTART_COUNT", "1")]].concat(),
            &[&slurm[..], &[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")]].concat(),
            &[&slurm[..], &[("SLURM_JOB_ID", "70"), ("SLURM_STEP_ID", "")]].concat(),
            &[&mpi[..], &[("PMIX_NAMESPACE", "1234")]].concat(),
            &[&mpi[..], &[("PMIX_NAMESPACE", "1235")], &slurm, &step].concat(),
        ];
        for (number, one) in launches.iter().enumerate() {
            assert_eq!(given(one), given(one));
            assert_ne!(given(one), nameless);
            for other in &launches[number + 1..] {
                assert_ne!(given(one), given(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn by_hand_it_is_a_rank_of_many() {
        assert_eq!(read("1/4"), Ok(Shard::new(1, 4)));
        assert_eq!(read("0/1"), Ok(None));
        for wrong in ["4/4", "1", "", "1/", "/2", "-1/2", "1/2/3", "1/x", "0/0"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
