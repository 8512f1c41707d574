//! From options to the configuration of rustls.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use gush::Unpoisoned;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, InconsistentKeys, ServerConfig, SupportedProtocolVersion};
use tracing::warn;

use super::error::unusable;
use super::fresh::Fresh;
use super::material::{authorities, identity, is_said};
use super::pinned::public_key;
use super::verify::{Clients, Name, Verifier, Wanted};
use super::{Role, Tls};
use crate::address::{Opt, OptionSet, Remote};
use crate::open::{OpenError, OpenOptions};

const STEP: &str = "set up TLS";

/// The side that connects to `remote`.
pub(crate) fn client(remote: &Remote, options: &OptionSet) -> Result<Tls, OpenError> {
    Ok(Tls::new(Role::Client(shared(remote, options)?), options))
}

/// A client's configuration, and the server's name.
pub(super) type Client = (Arc<ClientConfig>, ServerName<'static>);

/// The configuration read for an address with these options.
type Kept = (Remote, OptionSet, Arc<Fresh<Client>>);

/// The most addresses whose files are kept. A link has two.
const KEPT: usize = 64;

/// Shared by all clients of a link: files are read once, and sessions resumed.
fn shared(remote: &Remote, options: &OptionSet) -> Result<Arc<Fresh<Client>>, OpenError> {
    static READ: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());
    let mut read = READ.lock().unpoisoned();
    // Reading all authorities of the system takes milliseconds.
    let known = read.iter().find(|(whose, which, _)| whose == remote && which == options);
    if let Some((.., fresh)) = known {
        return Ok(Arc::clone(fresh));
    }
    if options.flag(Opt::Verify) == Some(false) {
        warn!("tls:{remote}: verify=0: an attacker on the path can read and change the data");
    }
    let (to, with) = (remote.clone(), options.clone());
    let fresh = Arc::new(Fresh::of(files(options), move || read_client(&to, &with))?);
    // Bounded: a program may use any number of addresses.
    if read.len() == KEPT {
        read.pop_front();
    }
    read.push_back((remote.clone(), options.clone(), Arc::clone(&fresh)));
    Ok(fresh)
}

/// The options that name files.
pub(crate) const FILES: &[Opt] = &[Opt::Certificate, Opt::Key, Opt::CaFile, Opt::CaPath];

fn files(options: &OptionSet) -> impl Iterator<Item = &OsStr> {
    FILES.iter().filter_map(|&option| options.path(option).map(OsString::as_os_str))
}

fn read_client(remote: &Remote, options: &OptionSet) -> Result<Client, OpenError> {
    let common = options.text(Opt::CommonName);
    let asked = match (options.text(Opt::Sni), common) {
        (Some(name), _) => server_name(name)?,
        // Only a host is asked for, and an address is never sent (RFC 6066, 3).
        (None, Some(name)) => {
            server_name(name).unwrap_or(ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
        }
        (None, None) => server_name(&remote.host)?,
    };
    let provider = Arc::new(default_provider());
    let wanted = match options.flag(Opt::Verify) {
        Some(false) => {
            check_authorities(options)?;
            Wanted::Any
        }
        _ => {
            let by = authorities(options)?;
            let name = match common {
                Some(name) => Name::Common(name.to_owned()),
                None => Name::Host(server_name(&remote.host)?),
            };
            Wanted::Named { name, by }
        }
    };
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(options))
        .map_err(|error| OpenError::said(STEP, error.to_string()))?
        // rustls calls every custom verifier dangerous; this one checks for another name, or not at
        // all.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { wanted, algorithms }));
    let mut config = match certified(options)? {
        Some(own) => builder.with_client_cert_resolver(own),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols(options);
    config.enable_sni = !options.is_on(Opt::NoSni);
    Ok((Arc::new(config), asked))
}

/// The side that accepts.
pub(crate) fn server(options: &OptionSet, how: &OpenOptions) -> Result<Tls, OpenError> {
    let (with, how) = (options.clone(), how.clone());
    let fresh = Fresh::of(files(options), move || read_server(&with, &how))?;
    Ok(Tls::new(Role::Server(fresh), options))
}

fn read_server(options: &OptionSet, how: &OpenOptions) -> Result<Arc<ServerConfig>, OpenError> {
    let Some(own) = certified(options)? else {
        return Err(OpenError::said(STEP, "a server needs a certificate").hinted(
            "cert=FILE,key=FILE names one; gush link --make-cert PREFIX makes one for a first try",
        ));
    };
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions(options))
        .map_err(|error| OpenError::said(STEP, error.to_string()))?;
    let builder = match options.flag(Opt::Verify).unwrap_or_else(|| is_said(options)) {
        true => builder.with_client_cert_verifier(clients(options, provider)?),
        false if options.has(Opt::CommonName) => {
            let error = OpenError::said(STEP, "without verify= no client shows a certificate");
            return Err(error.hinted("commonname= is a name in it"));
        }
        false => {
            check_authorities(options)?;
            builder.with_no_client_auth()
        }
    };
    let mut config = builder.with_cert_resolver(own);
    config.alpn_protocols = protocols(options);
    if !how.writes() {
        // A client that only sends reads no tickets, and closing a socket with unread data resets
        // it and discards what is still to be sent (`tcp_close` of net/ipv4/tcp.c).
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

/// Reads authorities that are named but not needed: a file that is missing is a mistake.
fn check_authorities(options: &OptionSet) -> Result<(), OpenError> {
    if is_said(options) {
        authorities(options)?;
    }
    Ok(())
}

fn clients(
    options: &OptionSet,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, OpenError> {
    let by = authorities(options)?;
    let algorithms = provider.signature_verification_algorithms;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&by.roots), provider);
    let chain = verifier.build().map_err(|error| OpenError::said(STEP, error.to_string()))?;
    let name = options.text(Opt::CommonName).map(str::to_owned);
    Ok(Arc::new(Clients { name, by, chain, algorithms }))
}

/// The certificate by which this side identifies itself, and its key.
fn certified(options: &OptionSet) -> Result<Option<Arc<SingleCertAndKey>>, OpenError> {
    let Some(own) = identity(options)? else { return Ok(None) };
    let fit = || {
        let key = default_provider().key_provider.load_private_key(own.key)?;
        let theirs = own.chain.first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let is_its_key = key.public_key() == Some(public_key(theirs)?);
        match is_its_key {
            true => Ok(CertifiedKey::new(own.chain, key)),
            false => Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)),
        }
    };
    let fit = fit().map_err(|error| unfit(options, error))?;
    Ok(Some(Arc::new(SingleCertAndKey::from(fit))))
}

fn unfit(options: &OptionSet, error: rustls::Error) -> OpenError {
    let file = options.path(Opt::Certificate).map(|file| file.display().to_string());
    let step = format!("use {}", file.unwrap_or_default());
    match error {
        rustls::Error::InconsistentKeys(_) => {
            OpenError::said(step, "the key is not the certificate's")
        }
        rustls::Error::InvalidCertificate(why) => match unusable(&why) {
            Some((what, hint)) => {
                OpenError::said(step, format!("the certificate {what}")).hinted(hint)
            }
            None => OpenError::said(step, format!("the certificate cannot be used: {why}")),
        },
        // As a key of DSA is, which TLS 1.3 has no more.
        rustls::Error::General(why) => OpenError::said(step, why)
            .hinted("gush link --make-cert PREFIX makes a pair for a first try"),
        other => OpenError::said(step, other.to_string()),
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, OpenError> {
    // The zone of a link-local address is local to this machine.
    let host = host.split('%').next().unwrap_or(host);
    ServerName::try_from(host.to_owned())
        .map_err(|_| OpenError::said(STEP, format!("no certificate can have the name {host}")))
}

fn protocols(options: &OptionSet) -> Vec<Vec<u8>> {
    let names = options.text(Opt::Alpn).into_iter().flat_map(|names| names.split('+'));
    names.map(|name| name.as_bytes().to_vec()).collect()
}

fn versions(options: &OptionSet) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    // The newest is first.
    let first = usize::from(options.text(Opt::MaxVersion) == Some("1.2"));
    let last = if options.text(Opt::MinVersion) == Some("1.3") { 1 } else { 2 };
    &ALL[first.min(last)..last]
}
