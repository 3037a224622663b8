//! What stands in front of a server and speaks TLS, with certificates of our own, good and bad.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::cli::lossy::message;

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// How `openssl ca` keeps its books, which it wants told.
const BOOKS: &str = "
[ca]
default_ca = ours
[ours]
database = index
new_certs_dir = .
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
";

/// An authority of our own.
pub struct Authority {
    folder: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("Authority")
    }

    pub fn named(name: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let authority = Self { folder };
        authority.openssl(&format!(
            "req -x509 {KEY} -days 30 -subj /CN={name} -keyout ca.key -out ca.pem"
        ));
        authority.write("ca.cnf", BOOKS);
        authority.write("index", "");
        authority
    }

    /// The file that makes others trust it.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// What stands in front of this server, with a certificate for `localhost` that ends in this year.
    pub fn front(&self, server: &str, year: u32) -> Front {
        self.openssl(&format!(
            "req {KEY} -subj /CN=localhost -keyout server.key -out server.csr"
        ));
        self.write(
            "server.ext",
            "subjectAltName = DNS:localhost\nbasicConstraints = CA:FALSE\n",
        );
        self.openssl(&format!(
            "ca -batch -notext -config ca.cnf -cert ca.pem -keyfile ca.key -in server.csr -extfile server.ext \
             -startdate 20200101000000Z -enddate {year}0201000000Z -out server.pem"
        ));
        let file = |name: &str| self.folder.path().join(name);
        Front::new(server, &file("server.pem"), &file("server.key"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("a file");
    }

    fn openssl(&self, typed: &str) {
        let made = Command::new("openssl")
            .args(typed.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("the `openssl` command");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "openssl {typed}: {said}");
    }
}

/// What ends TLS, and passes on what is said in it.
pub struct Front {
    pub port: u16,
    heard: Arc<Mutex<Heard>>,
}

/// What came to a front.
#[derive(Default)]
struct Heard {
    connections: usize,
    /// What was asked, once nobody else could read it.
    requests: Vec<Vec<u8>>,
    /// Every byte as it came over the wire.
    wire: Vec<u8>,
}

impl Front {
    fn new(server: &str, certificate: &Path, key: &Path) -> Self {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
            .expect("certificates")
            .collect();
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain.expect("certificates"), key)
            });
        let config = Arc::new(config.expect("a configuration"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (hearing, to) = (
            Arc::clone(&heard),
            server.trim_start_matches("http://").to_owned(),
        );
        // It ends with the test's process: nobody waits for it.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, heard, to) = (Arc::clone(&config), Arc::clone(&hearing), to.clone());
                std::thread::spawn(move || pass(Tapped { stream, heard }, config, &to));
            }
        });
        Self { port, heard }
    }

    /// Its address, by this name.
    pub fn url(&self, name: &str) -> String {
        format!("https://{name}:{}", self.port)
    }

    pub fn connections(&self) -> usize {
        self.heard.lock().expect("no thread fails here").connections
    }

    /// What it was asked.
    pub fn requests(&self) -> Vec<String> {
        let heard = self.heard.lock().expect("no thread fails here");
        let text = |request: &Vec<u8>| String::from_utf8_lossy(request).into_owned();
        heard.requests.iter().map(text).collect()
    }

    /// Whether somebody who listens on the way would have read this.
    pub fn showed(&self, text: &str) -> bool {
        let heard = self.heard.lock().expect("no thread fails here");
        let mut parts = heard.wire.windows(text.len());
        parts.any(|part| part == text.as_bytes())
    }
}

/// A connection that others listen to.
struct Tapped {
    stream: TcpStream,
    heard: Arc<Mutex<Heard>>,
}

impl Read for Tapped {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let length = self.stream.read(bytes)?;
        let mut heard = self.heard.lock().expect("no thread fails here");
        heard.wire.extend(&bytes[..length]);
        Ok(length)
    }
}

impl Write for Tapped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Passes requests on, one after the other, until one end is gone.
fn pass(client: Tapped, config: Arc<ServerConfig>, to: &str) -> Option<()> {
    let heard = Arc::clone(&client.heard);
    heard.lock().ok()?.connections += 1;
    let tls = ServerConnection::new(config).ok()?;
    let mut client = BufReader::new(StreamOwned::new(tls, client));
    loop {
        let request = message(&mut client)?;
        heard.lock().ok()?.requests.push(request.clone());
        let mut server = TcpStream::connect(to).ok()?;
        server.write_all(&request).ok()?;
        let answer = message(&mut BufReader::new(&server))?;
        client.get_mut().write_all(&answer).ok()?;
        client.get_mut().flush().ok()?;
    }
}
