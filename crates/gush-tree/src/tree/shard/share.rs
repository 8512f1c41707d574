//! What a rank reports to rank 0 of its share.

use super::Shard;
use super::division::Seen;

/// What one rank did of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The files that were this rank's to copy.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// Nothing failed.
    pub is_complete: bool,
    /// All files seen, and the files of this share.
    pub(super) seen: Seen,
    /// The files announced by this rank.
    pub(super) divided_files: u64,
}

impl Share {
    pub(super) fn text(&self, shard: Shard) -> String {
        let Self { files, bytes, seen: Seen { all, own }, divided_files, is_complete } = self;
        let complete = u8::from(*is_complete);
        let launch = shard.launch().map_or_else(String::new, |launch| format!(" {launch}"));
        format!(
            "share {} {} {all} {own} {divided_files} {files} {bytes} {complete}{launch} end\n",
            shard.rank(),
            shard.ranks()
        )
    }

    /// Reads the report of `shard`; `None` for anything else, a report of another launch included.
    pub(super) fn read(text: &str, shard: Shard) -> Option<Self> {
        // A report that is read while it is being written has no end yet.
        let text = text.strip_prefix("share ")?.strip_suffix(" end\n")?;
        let numbers: Option<Vec<u64>> = text.split(' ').map(|word| word.parse().ok()).collect();
        let numbers = numbers?;
        let [rank, ranks, all, own, divided_files, files, bytes, complete, ref launch @ ..] =
            *numbers.as_slice()
        else {
            return None;
        };
        let is_of_this_launch = match (launch, shard.launch()) {
            ([launch], Some(ours)) => *launch == ours,
            // A rank started by hand replaces one that was lost.
            ([], _) | ([_], None) => true,
            _ => return None,
        };
        let is_of_rank = (rank, ranks) == (shard.rank().into(), shard.ranks().into());
        (is_of_rank && is_of_this_launch).then_some(Self {
            files,
            bytes,
            is_complete: complete == 1,
            seen: Seen { all, own },
            divided_files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_written_and_no_other() {
        let shard = Shard::new(2, 3).unwrap();
        let (is_complete, bytes) = (true, u64::MAX);
        let seen = Seen { all: u64::MAX - 1, own: 9 };
        let share = Share { files: 4, bytes, is_complete, seen, divided_files: 1 };
        let text = share.text(shard);
        assert_eq!(Share::read(&text, shard), Some(share));
        assert_eq!(Share::read(&text[..text.len() - 1], shard), None);
        assert_eq!(Share::read(&text, Shard::new(1, 3).unwrap()), None);
        assert_eq!(Share::read(&text, Shard::new(2, 4).unwrap()), None);
        let failed = Share { is_complete: false, ..share };
        assert_eq!(Share::read(&failed.text(shard), shard), Some(failed));
        let (one, other) = (shard.launched_as(b"one"), shard.launched_as(b"other"));
        for (writer, reader, counts) in
            [(one, one, true), (one, other, false), (one, shard, true), (shard, one, true)]
        {
            let text = share.text(writer);
            assert_eq!(Share::read(&text, reader), Some(share).filter(|_| counts), "{text}");
        }
        let longer = share.text(one).replace(" end", " 1 end");
        assert_eq!(Share::read(&longer, one), None);
    }
}
