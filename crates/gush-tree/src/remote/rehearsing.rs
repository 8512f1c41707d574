//! What a dry run says of an entry that is no directory.

use std::ffi::OsStr;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::comparing::refuse_irreplaceable;
use super::folder::Folder;
use super::metadata::EntryMetadata;
use crate::error::Error;
use crate::options::CopyOptions;
use crate::{open, rehearsal, special};

impl Folder {
    /// Asks what making an entry, or another name of one, would need. [`compare`](Self::compare)
    /// has decided that it is copied, and [`make_way`](Self::make_way) has said what goes.
    ///
    /// # Errors
    /// That of the entry, if it could not be made.
    pub fn rehearse(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
    ) -> Result<(), Error> {
        if self.is_new() {
            return Ok(());
        }
        let is_lent = self.lends(options);
        let lent = |errno| if is_lent && errno == Errno::ACCESS { Ok(()) } else { Err(errno) };
        self.with(name, |place| {
            let cannot = |errno| match metadata.kind() {
                FileType::RegularFile => open::cannot_replace(options, place, false, errno),
                kind => special::not_made(place, kind, errno),
            };
            match place.find(false)? {
                Some(there) if self.makes_way(&there, metadata, options) => Ok(()),
                Some(there) => {
                    refuse_irreplaceable(place, &there, metadata.kind())?;
                    rehearsal::may_be_removed(place).or_else(lent).map_err(cannot)
                }
                None => rehearsal::may_be_made(place).or_else(lent).map_err(cannot),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::events::Events;
    use crate::options::Update;
    use crate::overwriting::OverwriteDecision;
    use crate::remote::{Spared, UnfinishedFile};

    fn metadata(mode: u32) -> EntryMetadata {
        EntryMetadata { mode, link_text: b"text".to_vec(), ..EntryMetadata::default() }
    }

    #[derive(Default)]
    struct Said(Vec<String>);

    impl Events for Said {
        fn mirrored(&mut self, target: &Path, result: &Result<(), Error>) {
            self.0.push(format!("{} {result:?}", target.display()));
        }
    }

    /// Does all that a receiver does for these entries, and returns what it would answer.
    fn copy(at: &Path, options: &CopyOptions) -> Vec<String> {
        let mut said = Said::default();
        let root = Folder::base(at).unwrap();
        let root =
            root.enter(OsStr::new("t"), (metadata(0o040_755), Spared::default()), options).unwrap();
        let mut answers = Vec::new();
        let mut answer = |path: &str, result: Result<String, Error>| {
            answers.push(format!("{path}: {}", result.unwrap_or_else(|error| error.to_string())));
        };
        let directories =
            [("", None), ("old", Some("old")), ("new", Some("new")), ("way", Some("way"))];
        for (path, below) in directories {
            let folder = match below {
                None => Ok(Arc::clone(&root)),
                Some(name) => {
                    let (name, metadata) = (OsStr::new(name), metadata(0o040_755));
                    let way = root.make_way(name, &metadata, options, &|| false, &mut said);
                    way.and_then(|()| root.enter(name, (metadata, Spared::default()), options))
                }
            };
            let folder = match folder {
                Ok(folder) => folder,
                Err(error) => {
                    answer(path, Err(error));
                    continue;
                }
            };
            folder.release();
            for (name, mode) in [("file", 0o100_644), ("link", 0o120_777), ("fifo", 0o010_644)] {
                let (shown, metadata) = (format!("{path}/{name}"), metadata(mode));
                let name = OsStr::new(name);
                let made = (|| {
                    // As a receiver: only a rule asks what is there.
                    let standing = match options.update {
                        Update::All => OverwriteDecision::Copy,
                        _ => folder.compare(name, &metadata, options)?,
                    };
                    if standing == OverwriteDecision::Copy {
                        folder.make_way(name, &metadata, options, &|| false, &mut said)?;
                        match (metadata.kind(), options.dry_run) {
                            (FileType::RegularFile, true) => {
                                folder.rehearse(name, &metadata, options)?;
                            }
                            (FileType::RegularFile, false) => {
                                let unfinished = UnfinishedFile::begin(
                                    &folder,
                                    name,
                                    metadata.clone(),
                                    options,
                                )?;
                                unfinished.finish(options, &mut said)?;
                            }
                            _ => drop(folder.make(name, &metadata, options, &mut said)?),
                        }
                    }
                    Ok(format!("{standing:?}"))
                })();
                answer(&shown, made);
            }
            answer(path, folder.finish(options, &mut said).map(|complete| complete.to_string()));
        }
        answers.extend(said.0);
        answers
    }

    /// All entries below a directory, with what shows a change.
    fn state(at: &Path) -> Vec<String> {
        let mut state = Vec::new();
        let mut waiting = vec![at.to_path_buf()];
        while let Some(path) = waiting.pop() {
            let about = std::fs::symlink_metadata(&path).unwrap();
            state.push(format!("{path:?} {:?} {:?}", about.permissions(), about.modified()));
            if about.is_dir() {
                waiting.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        state.sort();
        state
    }

    #[test]
    fn a_dry_run_makes_nothing_and_answers_as_the_copy() {
        for mirror in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            for name in ["file", "link", "fifo"] {
                std::fs::create_dir_all(dir.path().join("t/old").join(name)).unwrap();
            }
            for file in ["file", "link", "way"] {
                std::fs::write(dir.path().join("t").join(file), file).unwrap();
            }
            let mut options = CopyOptions { mirror, dry_run: true, ..CopyOptions::default() };
            let before = state(dir.path());
            let rehearsed = copy(dir.path(), &options);
            assert_eq!(state(dir.path()), before);
            options.dry_run = false;
            assert_eq!(rehearsed, copy(dir.path(), &options), "{mirror}");
            let text = rehearsed.join("\n");
            let refusals = [
                "/file: cannot overwrite directory",
                "/link: cannot overwrite directory",
                "/fifo: cannot overwrite directory",
                "way: cannot overwrite non-directory",
            ];
            assert!(refusals.iter().all(|refusal| text.contains(refusal) != mirror), "{text}");
            assert_eq!(text.contains("t/way Ok(())"), mirror, "{text}");
        }
    }

    #[test]
    fn a_dry_run_refuses_what_the_directory_does_not_take() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("t");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("file"), "").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o555)).unwrap();
        let answers = |dry_run| {
            let options = CopyOptions { dry_run, ..CopyOptions::default() };
            gush_test::without_privilege(|| copy(dir.path(), &options))
        };
        let rehearsed = answers(true);
        assert_eq!(rehearsed, answers(false));
        assert_eq!(
            rehearsed.iter().filter(|answer| answer.contains("Permission denied")).count(),
            6
        );
    }
}
