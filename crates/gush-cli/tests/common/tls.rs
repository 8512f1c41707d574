//! TLS for tests: an authority, and peers that speak rustls themselves.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

use super::link::PATIENCE;

/// How many tickets a server of rustls sends after the handshake
/// (`ServerConfig::send_tls13_tickets`).
pub const TICKETS: u32 = 2;

type Versions<'a> = &'a [&'static SupportedProtocolVersion];

pub const ALL_VERSIONS: Versions<'static> = &[&TLS13, &TLS12];

/// An authority, and certificates signed by that authority.
pub struct Pki {
    pub dir: TempDir,
    authority: Issuer<'static, KeyPair>,
}

impl Pki {
    /// `ca.crt`, and a pair `server` for localhost.
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for self-signed whose issuer has its own name.
        params.distinguished_name.push(DnType::CommonName, "the authority");
        let key = KeyPair::generate().unwrap();
        fs::write(dir.path().join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        let pki = Self { dir, authority: Issuer::new(params, key) };
        pki.pair("server", &["localhost", "127.0.0.1"], |_| {});
        pki
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn pair(&self, file: &str, names: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.path(&format!("{file}.crt")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    /// `tls-listen` on any port, with the pair `file`.
    pub fn listen(&self, file: &str, more: &str) -> String {
        format!("tls-listen:127.0.0.1:0,{}{more}", self.own(file))
    }

    /// `tls` to a port of this machine, whose certificate must be of the authority.
    pub fn connect(&self, place: &str, more: &str) -> String {
        let port = place.rsplit(':').next().unwrap();
        format!("tls:localhost:{port},{}{more}", self.trust())
    }

    pub fn own(&self, file: &str) -> String {
        let dir = self.dir.path().display();
        format!("cert={dir}/{file}.crt,key={dir}/{file}.key")
    }

    pub fn trust(&self) -> String {
        format!("cafile={}", self.path("ca.crt").display())
    }

    /// The side that connects to a server of this authority.
    pub fn client_config(&self, versions: Versions<'_>, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// The side that accepts with the certificate `server`, and signs with any key, whether or not
    /// that is the certificate's.
    pub fn server_config(
        &self,
        versions: Versions<'_>,
        key: &str,
        alpn: &[&str],
    ) -> Arc<ServerConfig> {
        let chain = vec![CertificateDer::from_pem_file(self.path("server.crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(self.path(key)).unwrap();
        // Not by `with_single_cert`, which refuses a key of another certificate: one test needs
        // that.
        let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))));
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A client of rustls itself.
    pub fn client(
        &self,
        stream: TcpStream,
        alpn: &[&str],
    ) -> StreamOwned<ClientConnection, TcpStream> {
        self.client_of(ALL_VERSIONS, stream, alpn)
    }

    pub fn client_of(
        &self,
        versions: Versions<'_>,
        stream: TcpStream,
        alpn: &[&str],
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(self.client_config(versions, alpn), name).unwrap();
        StreamOwned::new(session, stream)
    }

    /// A server of rustls itself, which does `serve` once, and the server's address.
    pub fn server<T: Send + 'static>(
        &self,
        alpn: &[&str],
        serve: impl FnOnce(StreamOwned<ServerConnection, TcpStream>) -> T + Send + 'static,
    ) -> (String, thread::JoinHandle<T>) {
        self.server_of(ALL_VERSIONS, "server.key", alpn, serve)
    }

    /// The same, which signs with any key.
    pub fn server_of<T: Send + 'static>(
        &self,
        versions: Versions<'_>,
        key: &str,
        alpn: &[&str],
        serve: impl FnOnce(StreamOwned<ServerConnection, TcpStream>) -> T + Send + 'static,
    ) -> (String, thread::JoinHandle<T>) {
        let config = self.server_config(versions, key, alpn);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let served = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let session = ServerConnection::new(config).unwrap();
            serve(StreamOwned::new(session, stream))
        });
        (place, served)
    }
}

/// One side of TLS, over a socket that somebody else owns. No call waits but `shake` and
/// `take_tickets`: the others answer `WouldBlock`.
#[derive(Debug)]
pub struct Session(Connection);

impl Session {
    /// A client of the authority's server.
    pub fn client(pki: &Pki) -> Self {
        let config = pki.client_config(ALL_VERSIONS, &[]);
        let name = ServerName::try_from("localhost").unwrap();
        Self(Connection::Client(ClientConnection::new(config, name).unwrap()))
    }

    /// The authority's server.
    pub fn server(pki: &Pki) -> Self {
        let config = pki.server_config(ALL_VERSIONS, "server.key", &[]);
        Self(Connection::Server(ServerConnection::new(config).unwrap()))
    }

    /// Agrees with the peer.
    pub fn shake(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.0.is_handshaking() || self.0.wants_write() {
            match self.0.complete_io(&mut Wire(socket)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let out = self.0.wants_write();
                    wait(socket, if out { PollFlags::OUT } else { PollFlags::IN })?;
                }
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Reads the tickets of a server: a socket closed with something unread resets the connection
    /// (`tcp_close` of net/ipv4/tcp.c).
    pub fn take_tickets(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let taken = |session: &Connection| match session {
            Connection::Client(client) => client.tls13_tickets_received(),
            Connection::Server(_) => TICKETS,
        };
        while taken(&self.0) < TICKETS {
            wait(socket, PollFlags::IN)?;
            self.take(socket)?;
        }
        Ok(())
    }

    /// Bytes of the peer, or none after its close_notify; `UnexpectedEof` where the socket's end
    /// comes without that.
    pub fn read(&mut self, socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                answer => return answer,
            }
            self.take(socket)?;
        }
    }

    fn take(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.0.read_tls(&mut Wire(socket))?;
        let taken = self.0.process_new_packets();
        taken.map(drop).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    /// Takes bytes once all that was taken before is sent, and sends as many as the socket takes. A
    /// failure is the next call's: some of these bytes may have arrived.
    pub fn write(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let taken_bytes = self.0.writer().write(bytes)?;
        let _ = self.flush(socket);
        Ok(taken_bytes)
    }

    /// Is something that was taken not sent yet?
    pub fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends all that was taken.
    pub fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(&mut Wire(socket))?;
        }
        Ok(())
    }

    /// Says that no more comes, once all is sent.
    pub fn finish(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.0.send_close_notify();
        self.flush(socket)
    }
}

/// A socket for rustls, which never waits.
struct Wire<'a>(BorrowedFd<'a>);

impl Read for Wire<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let (_, count) = rustix::net::recv(self.0, room, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self.0, bytes, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn wait(socket: impl AsFd, flags: PollFlags) -> io::Result<()> {
    let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::new(&socket, flags)];
    match retry_on_intr(|| poll(&mut fds, Some(&limit)))? {
        0 => Err(Errno::TIMEDOUT.into()),
        _ => Ok(()),
    }
}
