//! Are source and target one file, and does this forbid the copy?

use rustix::fs::{FileType, Stat};

use crate::job::Entry;
use crate::options::{CopyOptions, Dereference, Make};
use crate::place::{Place, kind, same_file};

/// The result of comparing source and target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The copy may go on.
    None,
    /// The target is already as wanted.
    AlreadyDone,
    /// The copy would destroy the source.
    SameFile,
}

/// GNU's rules. The stats are of links followed as the options say.
pub(crate) fn judge(options: &CopyOptions, source: Entry<'_>, target: Entry<'_>) -> Conflict {
    let (src, dst) = (source.stat, target.stat);
    let (source, target) = (source.place, target.place);
    let same = same_file(src, dst);
    let hard_link = options.make == Make::HardLink;
    // A link to itself is what is there already.
    if same && hard_link {
        return Conflict::AlreadyDone;
    }
    let never = options.dereference == Dereference::Never;
    let (src_entry, dst_entry) = if never {
        if is_link(src) && is_link(dst) {
            return two_links(options, source, target, same);
        }
        (*src, *dst)
    } else {
        if !same {
            return Conflict::None;
        }
        let (Ok(src_entry), Ok(dst_entry)) = (source.stat(false), target.stat(false)) else {
            return Conflict::None;
        };
        if is_link(&src_entry) && is_link(&dst_entry) && options.remove_first {
            return Conflict::None;
        }
        (src_entry, dst_entry)
    };
    let same_entry_file = same_file(&src_entry, &dst_entry);
    if options.backup.is_some() {
        // Setting the target aside would break a source that is a link to the target.
        let breaks_source = !never && is_link(&src_entry) && !is_link(&dst_entry);
        return fine_if(if same_entry_file {
            !source.is_same_entry(&target)
        } else {
            !breaks_source
        });
    }
    if options.remove_first {
        if is_link(&dst_entry) {
            return Conflict::None;
        }
        if same_entry_file && dst_entry.st_nlink > 1 && !source.is_same_entry(&target) {
            return Conflict::None;
        }
    }
    if !is_link(&src_entry) && !is_link(&dst_entry) {
        if !same_entry_file {
            return Conflict::None;
        }
        if hard_link {
            return Conflict::AlreadyDone;
        }
    }
    if options.make == Make::SymbolicLink && is_link(&dst_entry) {
        return Conflict::None;
    }
    if never {
        return at_ends_of_links(
            hard_link,
            Entry::new(source, &src_entry),
            Entry::new(target, &dst_entry),
        );
    }
    Conflict::SameFile
}

fn two_links(options: &CopyOptions, source: Place<'_>, target: Place<'_>, same: bool) -> Conflict {
    if source.is_same_entry(&target) {
        Conflict::SameFile
    } else if same && options.backup.is_none() {
        Conflict::AlreadyDone
    } else {
        Conflict::None
    }
}

/// Source and target differ as entries. Do they lead to one file?
fn at_ends_of_links(hard_link: bool, source: Entry<'_>, target: Entry<'_>) -> Conflict {
    let follow = |entry: Entry<'_>| match is_link(entry.stat) {
        true => entry.place.stat(true),
        false => Ok(*entry.stat),
    };
    match (follow(source), follow(target)) {
        (Ok(src_end), Ok(dst_end)) if same_file(&src_end, &dst_end) => {
            match (hard_link, is_link(target.stat)) {
                (true, true) => Conflict::None,
                (true, false) => Conflict::AlreadyDone,
                (false, _) => Conflict::SameFile,
            }
        }
        _ => Conflict::None,
    }
}

fn is_link(stat: &Stat) -> bool {
    kind(stat) == FileType::Symlink
}

fn fine_if(fine: bool) -> Conflict {
    if fine { Conflict::None } else { Conflict::SameFile }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn verdict(options: &CopyOptions, source: &Path, target: &Path) -> Conflict {
        let (source, target) = (Place::here(source), Place::here(target));
        let follow = options.dereference != Dereference::Never;
        let src = source.stat(follow).unwrap();
        let dst = target.stat(follow && !options.remove_first).unwrap();
        judge(options, Entry::new(source, &src), Entry::new(target, &dst))
    }

    #[test]
    fn one_file_by_two_names_is_refused_unless_the_target_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let [file, hard, soft, other] =
            ["file", "hard", "soft", "other"].map(|n| dir.path().join(n));
        std::fs::write(&file, "x").unwrap();
        std::fs::write(&other, "y").unwrap();
        std::fs::hard_link(&file, &hard).unwrap();
        symlink("file", &soft).unwrap();
        let mut options = CopyOptions::default();
        assert_eq!(verdict(&options, &file, &other), Conflict::None);
        assert_eq!(verdict(&options, &file, &file), Conflict::SameFile);
        assert_eq!(verdict(&options, &file, &hard), Conflict::SameFile);
        assert_eq!(verdict(&options, &file, &soft), Conflict::SameFile);
        assert_eq!(verdict(&options, &soft, &file), Conflict::SameFile);
        options.remove_first = true;
        assert_eq!(verdict(&options, &file, &file), Conflict::SameFile);
        assert_eq!(verdict(&options, &file, &hard), Conflict::None);
        options.remove_first = false;
        options.make = Make::HardLink;
        assert_eq!(verdict(&options, &file, &hard), Conflict::AlreadyDone);
    }
}
