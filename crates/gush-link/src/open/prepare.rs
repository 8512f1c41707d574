//! The first steps of a start, which open nothing: addresses that contradict themselves or the
//! direction are refused, and files with keys and certificates are read.

use std::path::Path;

use super::error::OpenError;
use super::permissions::Permissions;
use super::{OpenOptions, child, file, identity, inherit, netns, proxied};
use crate::address::{Address, Locator, Opt, OptionSet};
#[cfg(feature = "tls")]
use crate::tls;

type Preparation = fn(&Locator, &OptionSet, &OpenOptions) -> Result<(), OpenError>;

/// Refuses what no file and no peer could make right.
pub(crate) fn fits(address: &Address, how: &OpenOptions) -> Result<(), OpenError> {
    each(address, how, |target, options, how| match target {
        Locator::Stdio(which) => inherit::directions(*which, how).map(drop),
        Locator::Path(_) | Locator::File(_) | Locator::Pipe(Some(_)) => {
            file::flags(options, how).map(drop)
        }
        Locator::Exec(_) | Locator::Shell(_) => child::numbers(options, how).map(drop),
        _ => how.fits(true, !target.kind().only_receives()),
    })
}

/// Reads the files that options name, and looks users and namespaces up.
pub(crate) fn prepare(address: &Address, how: &OpenOptions) -> Result<(), OpenError> {
    each(address, how, |target, options, #[cfg_attr(not(feature = "tls"), allow(unused))] how| {
        Permissions::of_file(options)?;
        identity::named(options)?;
        if let Some(name) = options.text(Opt::NetNs) {
            netns::file(name)?;
        }
        match target {
            Locator::Socks5(_) | Locator::HttpConnect(_)
                if !is_pipe(options, &[Opt::Credentials]) =>
            {
                proxied::credentials(options).map(drop)
            }
            #[cfg(feature = "tls")]
            Locator::Tls(remote) if !is_pipe(options, tls::FILES) => {
                tls::client(remote, options).map(drop)
            }
            #[cfg(feature = "tls")]
            Locator::TlsListen(_) if !is_pipe(options, tls::FILES) => {
                tls::server(options, how).map(drop)
            }
            _ => Ok(()),
        }
    })
}

/// A step for the address, or for each part that is opened. Of `A|B` one part is enough.
fn each(address: &Address, how: &OpenOptions, step: Preparation) -> Result<(), OpenError> {
    match address.locator() {
        Locator::Joined(parts) => {
            let [read, written] = &**parts;
            if how.reads() {
                each(read, &how.clone().read_only(), step)?;
            }
            match how.writes() {
                true => each(written, &how.clone().write_only(), step),
                false => Ok(()),
            }
        }
        Locator::FirstOf(parts) => {
            let mut failures = Vec::new();
            for part in parts {
                match each(part, how, step) {
                    Ok(()) => return Ok(()),
                    Err(error) => failures.push(error),
                }
            }
            Err(OpenError::of_all(failures).at(address))
        }
        target => step(target, address.options(), how).map_err(|error| error.at(target)),
    }
}

/// Is one of the files a pipe, such as a shell's `<(command)`, which only opening may read?
fn is_pipe(options: &OptionSet, files: &[Opt]) -> bool {
    let mut named = files.iter().filter_map(|&file| options.path(file)).map(Path::new);
    named.any(|path| path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()))
}
