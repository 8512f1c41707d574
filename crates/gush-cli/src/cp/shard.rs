//! `--shard`: the place of this process among those that copy one tree together.

use std::env;

use gush_tree::{Shard, Share};
use indicatif::HumanBytes;

/// The variables that tell the rank and the number of ranks. The nearest to the process comes first: `mpirun` in a job of
/// Slurm starts processes that have the variables of both.
const VARIABLES: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETION_COUNT"),
];

/// Reads `auto` or `I/N`; `None` if one process copies all.
pub fn read(text: &str) -> Result<Option<Shard>, String> {
    match text {
        "auto" => from(|name| env::var(name).ok()),
        _ => {
            let numbers = text.split_once('/');
            let numbers = numbers.and_then(|(rank, ranks)| number(rank).zip(number(ranks)));
            let (rank, ranks) = numbers.ok_or("valid are auto and I/N, such as 0/4")?;
            one_of(rank, ranks)
        }
    }
}

fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Shard>, String> {
    for (rank_name, ranks_name) in VARIABLES {
        let Some(rank) = variable(rank_name) else { continue };
        let ranks = variable(ranks_name)
            .ok_or_else(|| format!("{rank_name} is set, and {ranks_name} is not"))?;
        let numbers = number(&rank).zip(number(&ranks));
        let (rank, ranks) = numbers.ok_or_else(|| {
            format!("{rank_name} and {ranks_name} are '{rank}' and '{ranks}', no numbers")
        })?;
        return one_of(rank, ranks);
    }
    Err(format!(
        "none of {} is set; start the ranks by srun or mpirun, or name each as I/N",
        VARIABLES.map(|(rank, _)| rank).join(", ")
    ))
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
        HumanBytes(bytes),
    )
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn one_of(rank: u32, ranks: u32) -> Result<Option<Shard>, String> {
    let shard = Shard::new(rank, ranks)
        .ok_or_else(|| format!("no rank {rank} of {ranks}: ranks count from 0"))?;
    Ok(Some(shard).filter(|_| ranks > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(set: &[(&str, &str)]) -> Result<Option<Shard>, String> {
        from(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn each_scheduler_tells_the_rank_and_the_nearest_one_decides() {
        for (rank, ranks) in VARIABLES {
            assert_eq!(given(&[(rank, "2"), (ranks, "3")]), Ok(Shard::new(2, 3)), "{rank}");
            assert_eq!(given(&[(rank, "0"), (ranks, "1")]), Ok(None));
            assert!(given(&[(rank, "3"), (ranks, "3")]).unwrap_err().contains("no rank 3 of 3"));
            assert!(given(&[(rank, "x"), (ranks, "3")]).unwrap_err().contains("no numbers"));
            let why = format!("{rank} is set, and {ranks} is not");
            assert_eq!(given(&[(rank, "0")]), Err(why));
        }
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(given(&[slurm, mpi].concat()), Ok(Shard::new(1, 2)));
        assert!(given(&[]).unwrap_err().starts_with("none of OMPI"));
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
