//! The names of users and groups, which stay the same where their numbers differ between machines.
//!
//! The rule is that of rsync(1), `--numeric-ids`: a name that both machines know decides, any other
//! owner keeps the number, and so does number 0. Names come from getpwuid_r(3) and its siblings: in
//! a static program from `/etc/passwd` and `/etc/group`.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{LazyLock, Mutex};

use gush::Unpoisoned;
use nix::unistd::{Gid, Group, Uid, User};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Account {
    User,
    Group,
}

type Answers<K, V> = LazyLock<Mutex<HashMap<K, V>>>;

static NAMES: Answers<(Account, u32), Option<String>> = LazyLock::new(Mutex::default);
static NUMBERS: Answers<(Account, String), Option<u32>> = LazyLock::new(Mutex::default);

/// The other side chooses the names, and so how many there are.
const MOST_ANSWERS: usize = 4096;

/// A longer name is none of an account (useradd(8) allows 256), and would only take memory.
const MOST_NAME_BYTES: usize = 256;

/// Asks once for each key, because an answer may take a scan of a file, or a server. A question
/// that failed, for want of a descriptor say, is asked again.
fn once<K: Eq + Hash, V: Clone>(
    answers: &Answers<K, Option<V>>,
    key: K,
    ask: impl FnOnce(&K) -> nix::Result<Option<V>>,
) -> Option<V> {
    let mut answers = answers.lock().unpoisoned();
    if let Some(answer) = answers.get(&key) {
        return answer.clone();
    }
    let answer = ask(&key).ok()?;
    if answers.len() < MOST_ANSWERS {
        answers.insert(key, answer.clone());
    }
    answer
}

impl Account {
    /// The name of a number; empty where there is none to go by.
    pub(super) fn name(self, number: u32) -> String {
        if number == 0 {
            return String::new();
        }
        let name = once(&NAMES, (self, number), |_| match self {
            Self::User => Ok(User::from_uid(Uid::from_raw(number))?.map(|user| user.name)),
            Self::Group => Ok(Group::from_gid(Gid::from_raw(number))?.map(|group| group.name)),
        });
        name.unwrap_or_default()
    }

    /// The number on this machine of what has this number and name on another.
    pub(super) fn number(self, number: u32, name: &str) -> u32 {
        if number == 0 || name.is_empty() || name.len() > MOST_NAME_BYTES {
            return number;
        }
        let own = once(&NUMBERS, (self, name.to_owned()), |(_, name)| match self {
            Self::User => Ok(User::from_name(name)?.map(|user| user.uid.as_raw())),
            Self::Group => Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())),
        });
        own.unwrap_or(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_name_decides_and_all_else_keeps_the_number() {
        const ELSEWHERE: u32 = 4_000_000_000;
        for account in [Account::User, Account::Group] {
            let Some((number, name)) = (1..1000)
                .map(|number| (number, account.name(number)))
                .find(|(_, name)| !name.is_empty())
            else {
                return gush_test::skipped("no system account but root");
            };
            assert_eq!(account.number(ELSEWHERE, &name), number);
            assert_eq!(account.number(ELSEWHERE, "no such account"), ELSEWHERE);
            assert_eq!(account.number(ELSEWHERE, "no\0account"), ELSEWHERE);
            assert_eq!(account.number(ELSEWHERE, ""), ELSEWHERE);
            let long = "n".repeat(MOST_NAME_BYTES + 1);
            assert_eq!(account.number(ELSEWHERE, &long), ELSEWHERE);
            assert!(!NUMBERS.lock().unwrap().contains_key(&(account, long)));
            assert_eq!(account.number(0, &name), 0);
            assert_eq!(account.name(0), "");
            assert_eq!(account.name(ELSEWHERE), "");
        }
    }
}
