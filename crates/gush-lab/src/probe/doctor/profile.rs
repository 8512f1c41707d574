//! Whether a profile of `gush tune` is there, and is still for this machine.

use gush::Profile;

use super::finding::Finding;

const TOPIC: &str = "profile";

/// The profile that the engine would follow.
pub(super) fn of_user() -> Finding {
    let Some(path) = Profile::default_path() else {
        return Finding::unknown(
            TOPIC,
            "neither XDG_CONFIG_HOME nor HOME says where a profile would be",
            "methods are chosen by the engine's table",
        );
    };
    of(Profile::load(&path).as_ref(), &path.display().to_string())
}

fn of(profile: Option<&Profile>, path: &str) -> Finding {
    const TABLE: &str = "methods are chosen by the engine's table";
    let Some(profile) = profile else {
        return Finding::fine(TOPIC, format!("there is no profile {path}"), TABLE)
            .remedy("gush tune measures which methods are faster here, and writes one");
    };
    match profile.notes() {
        [] => Finding::fine(
            TOPIC,
            format!("{path} is for this machine"),
            "methods and sizes follow what gush tune measured; --no-profile ignores the profile",
        ),
        [note, ..] if profile.is_empty() => Finding::limited(TOPIC, note, TABLE).remedy(
            "gush tune makes a profile for this machine; removing the file ends this finding",
        ),
        notes => Finding::limited(
            TOPIC,
            format!("of {path} a part is not used: {}", notes.join("; ")),
            "the other rules are followed",
        )
        .remedy("gush tune makes the profile anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::doctor::State;

    #[test]
    fn a_stale_profile_is_told_with_the_reason_and_the_remedy() {
        let text = "format = 1\n[machine]\nkernel = '2.6.0'\nprocessor = 'x'\nprocessors = 1\n";
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("a text");
        let stale = of(Profile::load(file.path()).as_ref(), "x");
        assert_eq!(stale.state, State::Limited);
        assert!(stale.fact.contains("it was made for kernel \"2.6.0\""), "{stale:?}");
        assert!(stale.remedy.expect("a remedy").contains("gush tune"));
        assert_eq!(of(None, "x").state, State::Fine);
        assert_eq!(of(Some(&Profile::default()), "x").fact, "x is for this machine");
    }
}
