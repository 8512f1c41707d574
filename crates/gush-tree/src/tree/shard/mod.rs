//! One tree copied by several ranks: who copies which file, and how rank 0 learns that the others
//! are done.
//!
//! Ranks send no messages. A hash of its inode number or path decides who copies a file (`rank.rs`,
//! `division.rs`), so each rank decides alone and no list is shared. Of a large file all ranks take
//! pieces (`piece_store.rs`, `piece_copier.rs`). Every rank lists the whole tree and makes the
//! directories that it finds missing (`partition.rs`). Next to the target is a directory of state
//! (`state.rs`): of each rank a journal, as a resumed copy has one, and a report once its share is
//! done (`share.rs`). Rank 0 waits for all reports; then it copies the files that come last, gives
//! the directories their attributes, and removes the state.

mod claims;
mod division;
mod partition;
mod piece_copier;
mod piece_store;
mod rank;
mod share;
mod state;

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use partition::{OwnShare, Remainder};
use piece_copier::{OtherWalks, PieceCopier};
use piece_store::PieceStore;
pub use rank::Shard;
pub use share::Share;
use state::StateDir;
pub(super) use state::refuse_state_of_ranks;
pub use state::shards_path;

use super::journal::Tag;
use super::{Operands, Roots, below_operand, held::Held, walk_tree};
use crate::copier::{Action, Done};
use crate::error::Error;
use crate::events::Events;
use crate::file::Common;
use crate::job::{Entry, Target};
use crate::options::Dereference;
use crate::place::Place;

/// The pause between the first looks: ranks of one small tree end within milliseconds of each
/// other.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause of a rank that waits while its looks are short.
const LONGEST_PAUSE_OF_SHORT_LOOKS: Duration = Duration::from_millis(20);
/// The longest pause of all, which rank 0 makes once it has reported for whom it waits.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The pause as a multiple of the look before: a look lists the state, which has three names for
/// each announced file.
const PAUSE_PER_LOOK: u32 = 4;

/// From then on the user knows for whom rank 0 waits.
const REPORTS_AFTER: Duration = Duration::from_secs(5);

/// Copies this rank's share, and, as rank 0, all that comes after the shares.
pub(super) fn copy(
    common: &Common<'_>,
    operands: &mut Operands,
    source: Entry<'_>,
    target: Place<'_>,
    shard: Shard,
    events: &mut dyn Events,
) -> Result<Done, Error> {
    let state = StateDir::open(shard, target)?;
    let follow = common.options.dereference != Dereference::Never;
    let root = Held::find_same(&source.place, source.stat, follow)?.fd;
    let division = state.division(source, root.as_fd())?;
    state.agree_on_ranks()?;
    let (walk_lock, journal) = state.begin(common, source.stat)?;
    state.retract(shard.rank())?;
    let store = PieceStore::new(division, state.dir.as_fd(), &state.shown, &journal);
    let own_share = OwnShare::new(&store);
    let of_share = Common { journal: Some(&journal), partition: &own_share, ..*common };
    let mut other_walks = OtherWalks::of(state.dir.as_fd(), shard);
    let to = Target::operand(target);
    let walked = walk_tree(&of_share, operands, source, to, events);
    // No file is announced any more.
    drop(walk_lock);
    let share = Share { is_complete: matches!(walked, Ok(Some(true))), ..*own_share.share() };
    let below = below_operand(common.options);
    let of_pieces = Common { options: &below, ..of_share };
    let roots = Roots { source: source.place.shown, target: target.shown };
    let mut copier = PieceCopier::new(&of_pieces, &store, root, roots, share.is_complete);
    let taken = match &walked {
        // Rank 0 takes more while it waits.
        Ok(Some(_)) if shard.rank() == 0 => copier.take(events).map(drop),
        Ok(Some(_)) => take_all(&mut copier, &mut other_walks, events),
        _ => Ok(()),
    };
    let has_taken = taken.is_ok();
    // Rank 0 reads which pieces are done.
    let report = |copier: &PieceCopier<'_>| {
        journal.flush()?;
        let is_complete = share.is_complete && has_taken && copier.is_complete;
        let share = Share { bytes: share.bytes + copier.bytes, is_complete, ..share };
        state.report(&share).map(|()| share)
    };
    let reported = report(&copier)?;
    walked?;
    taken?;
    let ended = |complete| Done { complete, ..Done::new(Action::Directory) };
    if shard.rank() != 0 {
        return Ok(ended(reported.is_complete));
    }
    let mut shares = wait_for_reports(&state, shard.ranks(), &mut copier, events)?;
    shares[0] = report(&copier)?;
    journal.add_made_by_others(state.of_journals(Tag::Makes)?);
    let others_failed = !are_whole(&shares, &source.place, events);
    let remainder = remainder(&state, &shares, &store, others_failed)?;
    let of_rest = Common { partition: &remainder, ..of_share };
    let complete = walk_tree(&of_rest, operands, source, to, events)?.unwrap_or(false);
    let found_all = remainder.found.into_inner() >= remainder.announced.files;
    if complete && !found_all {
        let text = "changed while being copied: directories of large files are gone, which have no place in the copy";
        events.warns(&Error::refusal(roots.source, text).hinting("copy again, with --resume"));
    }
    let complete = complete && found_all;
    events.ranks_ended(&shares);
    if complete {
        // NFS removes no file, and so no directory, that this process has open.
        drop(journal);
        state.remove()?;
    } else {
        copier.forget_void()?;
        // A rank that goes on reports anew.
        (0..shard.ranks()).try_for_each(|rank| state.retract(rank))?;
    }
    Ok(ended(complete))
}

/// Has every rank copied its share, and do the shares make up the tree? Ranks that saw different
/// trees may have left a file to each other.
fn are_whole(shares: &[Share], source: &Place<'_>, events: &mut dyn Events) -> bool {
    let is_each_complete = shares.iter().all(|share| share.is_complete);
    let owned = shares.iter().fold(0_u64, |sum, share| sum.wrapping_add(share.seen.own));
    let saw_the_same = shares.iter().all(|share| share.seen.all == owned);
    if is_each_complete && !saw_the_same {
        let text = "changed while being copied: the ranks saw different files, and may have left some to each other";
        events.warns(&Error::refusal(source.shown, text).hinting("copy again, with --resume"));
    }
    is_each_complete && saw_the_same
}

/// What is left to rank 0, once the shares are done.
fn remainder<'p>(
    state: &StateDir<'_>,
    shares: &[Share],
    store: &'p PieceStore<'p>,
    others_failed: bool,
) -> Result<Remainder<'p>, Error> {
    let announced = store.announced();
    let announced =
        announced.map_err(|errno| Error::os(&state.shown, "cannot access {}", errno))?;
    // A report has the number of divided files also where somebody has removed a file of pieces.
    let divided_files: u64 = shares.iter().map(|share| share.divided_files).sum();
    let may_miss_files = announced.files < divided_files;
    // A line a file: nobody reads so many where no file is divided.
    let done = if announced.files > 0 { state.of_journals(Tag::Done)? } else { HashSet::new() };
    let found = AtomicU64::new(0);
    Ok(Remainder { store, others_failed, done, announced, may_miss_files, found })
}

/// Waits until all ranks have reported, and takes pieces meanwhile that ranks announce late.
fn wait_for_reports(
    state: &StateDir<'_>,
    ranks: u32,
    copier: &mut PieceCopier<'_>,
    events: &mut dyn Events,
) -> Result<Vec<Share>, Error> {
    let began = Instant::now();
    let mut has_reported = false;
    loop {
        let (mut shares, mut missing) = (Vec::new(), Vec::new());
        for rank in 0..ranks {
            match state.report_of(rank)? {
                Some(share) => shares.push(share),
                None => missing.push(rank),
            }
        }
        if missing.is_empty() {
            return Ok(shares);
        }
        let look = copier.take(events)?;
        let is_late = began.elapsed() >= REPORTS_AFTER;
        if is_late && !has_reported {
            events.waits_for_ranks(&missing);
            has_reported = true;
        }
        let pause = until_next_look(began.elapsed(), look);
        thread::sleep(if is_late { LONGEST_PAUSE } else { pause });
    }
}

/// A part of the wait so far: nobody waits much longer than needed, and few looks are made. Long
/// looks are made less often, since they keep the directory of state from ranks that announce
/// files.
fn until_next_look(waited: Duration, look: Duration) -> Duration {
    (waited / 64)
        .clamp(FIRST_PAUSE, LONGEST_PAUSE_OF_SHORT_LOOKS)
        .max(look * PAUSE_PER_LOOK)
        .min(LONGEST_PAUSE)
}

/// Takes pieces until none is free and none can come, as any rank but rank 0 does.
fn take_all(
    copier: &mut PieceCopier<'_>,
    other_walks: &mut OtherWalks<'_>,
    events: &mut dyn Events,
) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        // Asked first: the look after it sees all announcements made before the last walk ended.
        let may_come = other_walks.any();
        let look = copier.take(events)?;
        if !may_come || copier.is_stopped() {
            return Ok(());
        }
        thread::sleep(until_next_look(began.elapsed(), look));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_looks_are_made_more_seldom() {
        let ms = Duration::from_millis;
        for (waited, look, pause) in [
            (0, 0, 1),
            (640, 0, 10),
            (60_000, 0, 20),
            (640, 2, 10),
            (640, 50, 200),
            (0, 3_000, 500),
        ] {
            assert_eq!(until_next_look(ms(waited), ms(look)), ms(pause), "{waited}, {look}");
        }
    }
}
