//! The word that may be meant by a mistyped one: only a word that is taken in the same place.

use gush_text::nearest;

use super::options::{self, OptRow};
use super::parse::CONFLICTS;
use super::terminal::Setting;
use super::value::Takes;
use crate::address::Opt;
use crate::kind::{Kind, keywords};

/// The kind of address that `word` may mean, of those that `fits` the place, as the end of a
/// sentence.
pub(super) fn kind(word: &str, fits: &dyn Fn(Kind) -> bool) -> String {
    // Of two names as near as each other the one that the manual has is meant, and no other name of
    // the same kind.
    let (main, other): (Vec<_>, Vec<_>) =
        keywords().filter(|(_, kind)| fits(*kind)).partition(|(name, kind)| *name == kind.name());
    did_you_mean(nearest(word, main.into_iter().chain(other).map(|(name, _)| name)))
}

/// The option or setting that `word` may mean at an address of this kind, at which the options
/// `standing` are, before or after, as the end of a sentence.
pub(super) fn option(word: &str, kind: Kind, standing: &[Opt]) -> String {
    let is_free = |row: &&OptRow| {
        let stands = standing.contains(&row.option)
            && !matches!(row.takes, Takes::Ranges | Takes::SocketOption);
        !stands && !contradicts(row.option, standing)
    };
    let settings = Setting::names().filter(|_| kind.takes(Opt::Terminal));
    let names = options::taken_by(kind).filter(is_free).map(|row| row.name);
    did_you_mean(nearest(word, names.chain(settings)))
}

fn contradicts(option: Opt, standing: &[Opt]) -> bool {
    CONFLICTS.iter().any(|&(one, other)| {
        (one == option && standing.contains(&other)) || (other == option && standing.contains(&one))
    })
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, AddressError};

    /// An address of each kind that has a keyword.
    const SAMPLES: &[&str] = &[
        "-",
        "gopen:x",
        "file:x",
        "pipe:x",
        "socketpair",
        "fd:3",
        "exec:cat",
        "shell:cat",
        "pty",
        "tcp:h:1",
        "tcp-listen:1",
        "unix:x",
        "unix-listen:x",
        "udp:h:1",
        "udp-listen:1",
        "udp-recvfrom:1",
        "vsock:2:1",
        "vsock-listen:1",
        "socks4:p:1:h:1",
        "socks4a:p:1:h:1",
        "socks5:p:1:h:1",
        "http-connect:p:1:h:1",
        "listen-fd:3",
        "zero:",
        "null:",
        #[cfg(feature = "tls")]
        "tls:h:1",
        "unix-client:x",
        "unix-sendto:x",
        "unix-recv:x",
        "unix-recvfrom:x",
        "udp-sendto:h:1",
        "udp-datagram:h:1",
        "udp-recv:1",
        #[cfg(feature = "tls")]
        "tls-listen:1,cert=x",
    ];

    /// `word` with two letters changed about, a letter left out, and one written twice, in the
    /// middle and at the end.
    fn mistyped(word: &str) -> Vec<String> {
        let places = [word.len() / 2, word.len() - 1];
        let at = |at: usize| {
            let (before, rest) = word.split_at(at.max(1) - 1);
            let about = rest.get(1..2).map(|next| [before, next, &rest[..1], &rest[2..]].concat());
            let lacking = [&word[..at], &word[at + 1..]].concat();
            let twice = [&word[..=at], &word[at..]].concat();
            about.into_iter().chain([lacking, twice])
        };
        places.into_iter().flat_map(at).collect()
    }

    fn suggested(error: &AddressError) -> Option<&str> {
        error.message().split_once("; did you mean '")?.1.strip_suffix("'?")
    }

    /// The error of `text`, where this says that the suggested word itself is not taken there.
    fn refusal(text: &str) -> Option<String> {
        let error = text.parse::<Address>().err()?;
        const REFUSED: [&str; 6] = [
            "takes no option",
            "given twice",
            "contradict each other",
            "unknown ",
            "clients come to it",
            "nothing falls back",
        ];
        let message = error.message();
        let both = message.contains("not both");
        (both || REFUSED.iter().any(|words| message.contains(words))).then(|| format!("{error}"))
    }

    #[test]
    fn every_kind_has_a_sample() {
        let kinds: Vec<Kind> =
            SAMPLES.iter().map(|sample| sample.parse::<Address>().unwrap().kind()).collect();
        for kind in Kind::all().filter(|kind| !kind.row().keywords.is_empty()) {
            assert!(kinds.contains(&kind), "{kind:?}");
        }
    }

    #[test]
    fn every_suggested_option_is_taken_where_it_is_suggested() {
        let of_rows = Opt::all().map(|row| row.name).chain(Setting::names());
        let words: Vec<String> = of_rows.flat_map(mistyped).collect();
        let conflicts = || CONFLICTS.iter().flat_map(|&(one, other)| [one, other]);
        let of_conflicts: Vec<String> =
            conflicts().flat_map(|option| mistyped(option.name())).collect();
        let mut suggestions = 0;
        for sample in SAMPLES {
            let kind = sample.parse::<Address>().unwrap().kind();
            let flags =
                conflicts().filter(|&flag| kind.takes(flag) && flag.row().takes == Takes::Flag);
            let given = flags.map(|flag| (format!(",{}", flag.name()), &of_conflicts));
            for (given, words) in [(String::new(), &words)].into_iter().chain(given) {
                for word in words {
                    let Err(error) = format!("{sample}{given},{word}").parse::<Address>() else {
                        continue;
                    };
                    let Some(near) = suggested(&error) else { continue };
                    let refused = refusal(&format!("{sample}{given},{near}"));
                    assert_eq!(refused, None, "{sample}{given},{word}");
                    suggestions += 1;
                }
            }
        }
        assert!(suggestions > 1000, "{suggestions}");
    }

    #[test]
    fn an_option_that_stands_already_is_not_suggested_again() {
        let error = "file:x,rdonly,rdonl".parse::<Address>().unwrap_err();
        assert_eq!(error.message(), "unknown option 'rdonl' of file");
        for text in ["file:x,rdonl,rdonly", "tcp-listen:1,frok,fork", "file:x,rdonl,wronly"] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(suggested(&error), None, "{text}");
        }
        let error = "tcp-listen:1,range=10.0.0.1,rnage=10.0.0.2".parse::<Address>().unwrap_err();
        assert_eq!(suggested(&error), Some("range"));
    }

    #[test]
    fn the_name_in_the_manual_is_suggested_before_another_one_as_near() {
        for (text, name) in [
            #[cfg(feature = "tls")]
            ("tsl:h:1", "tls"),
            #[cfg(feature = "tls")]
            ("tsl-listen:1,cert=x", "tls-listen"),
            ("tdp:h:1", "tcp"),
            ("tcpl:1", "tcp"),
        ] {
            assert_eq!(suggested(&text.parse::<Address>().unwrap_err()), Some(name), "{text}");
        }
    }

    #[test]
    fn every_suggested_kind_is_taken_where_it_is_suggested() {
        let words: Vec<String> = keywords().flat_map(|(name, _)| mistyped(name)).collect();
        let argument_of = |name: &str| {
            let (kind, _) = crate::kind::keyword(name).unwrap();
            let of_kind = |sample: &&&str| sample.parse::<Address>().unwrap().kind() == kind;
            let sample = SAMPLES.iter().find(of_kind).unwrap();
            sample.find(':').map_or("", |colon| &sample[colon..])
        };
        let mut suggestions = 0;
        for (before, after) in [
            ("", ""),
            ("", "!!null:"),
            ("null:!!", ""),
            ("exec:cat!!", ""),
            ("", "|null:"),
            ("null:|", ""),
        ] {
            for word in &words {
                let Err(error) = format!("{before}{word}:x{after}").parse::<Address>() else {
                    continue;
                };
                let Some(near) = suggested(&error) else { continue };
                let argument = argument_of(near);
                let refused = refusal(&format!("{before}{near}{argument}{after}"));
                assert_eq!(refused, None, "{before}{word}:x{after}");
                suggestions += 1;
            }
        }
        assert!(suggestions > 1000, "{suggestions}");
    }
}
