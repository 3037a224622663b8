//! Decides which authorities this machine trusts for servers, and explains the refusal of a server.

use std::sync::Arc;

use flightline::core::{Code, Refusal, Time};
use rustls::{CertificateError, Error as TlsError};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::Address;
use super::unreachable::Unreachable;

const ROOTS_HINT: &str = "have this machine trust the server's authority, or name the file with its certificate in SSL_CERT_FILE: \
    `export SSL_CERT_FILE=/path/ca.pem`";

/// The authorities to trust: this machine's, or those that the user named. When the user named authorities and there is
/// none, no other is trusted in their place.
pub fn trusted(address: &Address, user_named: bool) -> Result<TlsConfig, Refusal> {
    let config = TlsConfig::builder();
    if !address.as_str().starts_with("https://") {
        return Ok(config.build());
    }
    let found = rustls_native_certs::load_native_certs();
    let certificates: Vec<Certificate<'static>> = found
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate.as_ref()).to_owned())
        .collect();
    match certificates.is_empty() {
        false => Ok(config
            .root_certs(RootCerts::Specific(Arc::new(certificates)))
            .build()),
        true if user_named => {
            let why = found.errors.first().map_or_else(
                || "there is no certificate in it".to_owned(),
                ToString::to_string,
            );
            Err(Refusal::new(
                Code::Unavailable,
                format!("cannot read trusted certificates from SSL_CERT_FILE or SSL_CERT_DIR: {why}"),
            )
            .hint("name a file with certificates in PEM format, or `unset SSL_CERT_FILE SSL_CERT_DIR`"))
        }
        // A machine that has no list of its own has the usual one.
        true => Ok(config.build()),
    }
}

/// Explains why there is no safe way to a server, when that is the fault. No request was sent then: a request goes out
/// only after all of this is found good.
pub fn distrust(error: &ureq::Error) -> Option<Unreachable> {
    let error = match error {
        ureq::Error::Io(io) => io.get_ref()?.downcast_ref::<TlsError>()?,
        ureq::Error::Rustls(error) => error,
        _ => return None,
    };
    let (why, hint) = match error {
        TlsError::InvalidCertificate(error) => of_certificate(error),
        TlsError::InvalidMessage(_) => (
            "it does not support TLS".to_owned(),
            "`fleet serve` speaks plain HTTP: give the address of the proxy with TLS in front of it, or `http://` on the server's own machine",
        ),
        other => (
            format!("no secure connection can be made: {other}"),
            "check the log of the proxy with TLS in front of the server",
        ),
    };
    Some(Unreachable::unreached(&why, Some(hint)))
}

fn of_certificate(error: &CertificateError) -> (String, &'static str) {
    let at = |seconds: u64| {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        Time::from_millis(millis)
    };
    let renew =
        "renew the server's certificate; if it is valid, the clock of this machine is wrong";
    match error {
        CertificateError::ExpiredContext { not_after, .. } => (
            format!("its certificate expired at {}", at(not_after.as_secs())),
            renew,
        ),
        CertificateError::Expired => ("its certificate has expired".to_owned(), renew),
        CertificateError::NotValidYetContext { not_before, .. } => (
            format!(
                "its certificate is not valid before {}",
                at(not_before.as_secs())
            ),
            renew,
        ),
        CertificateError::NotValidYet => ("its certificate is not valid yet".to_owned(), renew),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            "its certificate is for another name".to_owned(),
            "use the name that the certificate is for, as in `fleet login https://NAME`",
        ),
        // The signature is another's when an authority of the same name is trusted.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            "its certificate is by an authority that this machine does not trust".to_owned(),
            ROOTS_HINT,
        ),
        other => (format!("its certificate is not valid: {other}"), ROOTS_HINT),
    }
}
