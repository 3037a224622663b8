//! TLS to PostgreSQL. An encrypted connection is also verified: an unchecked certificate keeps no attacker out.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postgres::Config;
use postgres::config::{Host, SslMode};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::StoreError;

/// The URL's settings for TLS, which are more than the driver knows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TlsSettings {
    mode: Option<Mode>,
    roots: Option<PathBuf>,
}

/// The setting `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    /// Encrypted where the server offers it, else in the clear.
    Prefer,
    /// Encrypted; the certificate is of an authority we trust.
    VerifyCa,
    /// Encrypted, and the certificate is also for the name in the URL.
    VerifyFull,
}

#[derive(Clone)]
pub(super) enum Tls {
    Off,
    On(Box<MakeRustlsConnect>),
}

/// Takes the settings that the driver does not know out of a URL.
pub(super) fn read(url: &str) -> Result<(String, TlsSettings), StoreError> {
    let mut wishes = TlsSettings::default();
    // A password may hold a question mark; nothing before the `@` is a parameter.
    let credentials = url.find('@').map_or(0, |at| at + 1);
    let Some(mark) = url[credentials..].find('?').map(|at| at + credentials) else {
        return Ok((url.to_owned(), wishes));
    };
    let mut kept = Vec::new();
    for pair in url[mark + 1..].split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "sslmode" => wishes.mode = Some(mode(&decoded(value)?)?),
            "sslrootcert" => wishes.roots = Some(PathBuf::from(decoded(value)?)),
            _ => kept.push(pair),
        }
    }
    let mut rest = url[..mark].to_owned();
    if !kept.is_empty() {
        rest.push('?');
        rest.push_str(&kept.join("&"));
    }
    Ok((rest, wishes))
}

fn mode(word: &str) -> Result<Mode, StoreError> {
    Ok(match word {
        "disable" => Mode::Disable,
        "prefer" => Mode::Prefer,
        "verify-ca" => Mode::VerifyCa,
        "require" | "verify-full" => Mode::VerifyFull,
        _ => {
            return Err(StoreError::Location(
                "the PostgreSQL URL has an `sslmode` that is none of `disable`, `prefer`, `require`, `verify-ca` and `verify-full`".to_owned(),
            ));
        }
    })
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let bad =
        || StoreError::Location("the PostgreSQL URL has a `%` that stands for nothing".to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(bad)?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl TlsSettings {
    /// Configures `config`, and returns the TLS that it connects with. The roots are read only here, and only when they
    /// are needed: reading the system's takes longer than a command.
    pub(super) fn apply(&self, config: &mut Config) -> Result<Tls, StoreError> {
        let mode = match self.mode {
            Some(mode) => mode,
            None if stays_here(config) => Mode::Disable,
            None => Mode::VerifyFull,
        };
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        if mode == Mode::Disable {
            return Ok(Tls::Off);
        }
        let roots = match &self.roots {
            Some(file) if file != Path::new("system") => roots_of(file)?,
            _ => system_roots()?,
        };
        let client = client(roots, mode).map_err(|error| StoreError::Tls {
            cause: error.to_string(),
            hint: ROOTS_HINT,
        })?;
        Ok(Tls::On(Box::new(MakeRustlsConnect::new(client))))
    }
}

/// Returns true when nothing leaves this machine.
fn stays_here(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name
                    .parse()
                    .is_ok_and(|address: IpAddr| address.is_loopback())
        }
    })
}

const ROOTS_HINT: &str =
    "name the file with the authority's certificate in the URL: `?sslrootcert=/path/ca.pem`";

fn roots_of(file: &Path) -> Result<RootCertStore, StoreError> {
    let failed = |cause: String| StoreError::Tls {
        cause: format!(
            "cannot read certificates from `{}`: {cause}",
            file.display()
        ),
        hint: ROOTS_HINT,
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("there is none in it".to_owned()));
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    // A certificate that we cannot read keeps none of the others out.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(StoreError::Tls {
            cause: "this machine trusts no certificate authority".to_owned(),
            hint: ROOTS_HINT,
        });
    }
    Ok(roots)
}

fn client(roots: RootCertStore, mode: Mode) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let mut client = if mode == Mode::VerifyCa {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    // `sslnegotiation=direct` asks for this protocol; servers that do not know it ignore it.
    client.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(client)
}

/// The verifier for `verify-ca`: it checks everything but the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last, when all else was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Explains a connection that failed at its TLS, with a remedy.
pub(super) fn failure(cause: &str) -> StoreError {
    let hint = if cause.contains("does not support TLS") {
        "turn `ssl` on at the server; or, on a network that you trust with everything, write `?sslmode=disable` in the URL"
    } else if cause.contains("not valid for name") || cause.contains("NotValidForName") {
        "use the name that the server's certificate is for, or `?sslmode=verify-ca` to accept any name"
    } else {
        ROOTS_HINT
    };
    StoreError::Tls {
        cause: cause.to_owned(),
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_the_url() {
        let (url, wishes) = read(
            "postgres://ada:a?sslmode=x@db.example:5432/fleet?connect_timeout=3&sslmode=verify-ca&sslrootcert=%2Fetc%2Fa%20b.pem&options=-c%20a%3Db",
        )
        .unwrap();
        assert_eq!(
            url,
            "postgres://ada:a?sslmode=x@db.example:5432/fleet?connect_timeout=3&options=-c%20a%3Db"
        );
        assert_eq!(wishes.mode, Some(Mode::VerifyCa));
        assert_eq!(wishes.roots, Some(PathBuf::from("/etc/a b.pem")));
        let (url, wishes) = read("postgres://db.example/fleet?sslmode=disable").unwrap();
        assert_eq!(url, "postgres://db.example/fleet");
        assert_eq!(wishes.mode, Some(Mode::Disable));
        let plain = "postgres://db.example/fleet";
        assert_eq!(
            read(plain).unwrap(),
            (plain.to_owned(), TlsSettings::default())
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "sslmode=maybe",
            "sslmode=",
            "sslrootcert=%zz",
            "sslrootcert=%e",
        ] {
            let refused = read(&format!("postgres://db.example/fleet?{bad}"));
            assert!(matches!(refused, Err(StoreError::Location(_))), "{bad}");
        }
    }

    #[test]
    fn only_what_leaves_this_machine_is_encrypted_unasked() {
        let here = |url: &str| stays_here(&url.parse().unwrap());
        for near in [
            "postgres://localhost/fleet",
            "postgres://127.0.0.1:1/fleet",
            "postgres://127.8.8.8/fleet",
            "postgres://[::1]/fleet",
            "postgres:///fleet?host=/var/run/postgresql",
            "postgres://db.example/fleet?hostaddr=127.0.0.1",
        ] {
            assert!(here(near), "{near}");
        }
        for far in [
            "postgres://db.example/fleet",
            "postgres://10.0.0.5/fleet",
            "postgres://localhost,db.example/fleet",
            "postgres://localhost.example/fleet",
            "postgres://localhost/fleet?hostaddr=10.0.0.5",
        ] {
            assert!(!here(far), "{far}");
        }
    }
}
