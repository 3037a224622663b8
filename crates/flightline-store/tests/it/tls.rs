//! Talking to PostgreSQL so that no one in between can read or answer, and within limits of time.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use flightline_core::event::EventType;
use flightline_core::{Code, Refusal};
use flightline_store::{Location, OpenOptions, Store, StoreError};
use flightline_testkit::database::Database;
use flightline_testkit::value::mission;
use serde_json::json;

fn create(location: &Location) -> Result<Store, StoreError> {
    Store::create(location, "prj", "test", OpenOptions::default())
}

fn refusal(location: &Location) -> Refusal {
    match create(location) {
        Ok(_) => panic!("it opened: {location}"),
        Err(error) => error.into(),
    }
}

#[test]
fn what_is_encrypted_is_verified() {
    let database = Database::with_tls();
    let right = format!("sslrootcert={}", database.authority(true).display());
    let wrong = format!("sslrootcert={}", database.authority(false).display());
    for good in ["require", "verify-full", "verify-ca", "prefer"] {
        let location = database.by_name(&format!("sslmode={good}&{right}"));
        let mut store = create(&location).unwrap();
        store
            .write(|tx| tx.set(EventType::MissionCreated, &mission(1, good), &json!({})))
            .unwrap();
        assert!(is_encrypted(&database), "{good}");
        drop(store);
    }
    for mode in ["require", "verify-full", "verify-ca", "prefer"] {
        let refused = refusal(&database.by_name(&format!("sslmode={mode}&{wrong}")));
        assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
        assert!(refused.message.contains("UnknownIssuer"), "{refused:?}");
        assert!(
            refused
                .hint
                .as_deref()
                .unwrap_or("")
                .contains("sslrootcert"),
            "{refused:?}"
        );
    }
    // The certificate is for `localhost`, and for no address.
    let by_number =
        |mode: &str| Location::Postgres(format!("{}?sslmode={mode}&{right}", database.url()));
    for mode in ["require", "verify-full", "prefer"] {
        let refused = refusal(&by_number(mode));
        assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
        assert!(
            refused.hint.as_deref().unwrap_or("").contains("verify-ca"),
            "{refused:?}"
        );
    }
    create(&by_number("verify-ca")).unwrap();
    // Without a file, what this machine trusts counts; it does not know our authority.
    let refused = refusal(&database.by_name("sslmode=require"));
    assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
    let store = create(&database.by_name("sslmode=disable")).unwrap();
    assert!(!is_encrypted(&database));
    drop(store);
    let unasked = Location::Postgres(database.url().to_owned());
    let store = create(&unasked).unwrap();
    assert!(!is_encrypted(&database), "nothing leaves this machine");
    drop(store);
}

/// Whether the connections of `fleet` to the server are encrypted.
fn is_encrypted(database: &Database) -> bool {
    let mut client = postgres::Client::connect(database.url(), postgres::NoTls).unwrap();
    let rows = client
        .query(
            "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'fleet'",
            &[],
        )
        .unwrap();
    let found: Vec<bool> = rows.iter().map(|row| row.get(0)).collect();
    assert!(!found.is_empty(), "nobody is connected");
    found.into_iter().all(|ssl| ssl)
}

#[test]
fn a_server_without_tls_is_not_spoken_to_when_it_is_asked_for() {
    let url = flightline_testkit::postgres_url();
    let refused = refusal(&Location::Postgres(format!("{url}?sslmode=require")));
    assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
    assert!(
        refused.message.contains("does not support TLS"),
        "{refused:?}"
    );
    assert!(
        refused
            .hint
            .as_deref()
            .unwrap_or("")
            .contains("sslmode=disable"),
        "{refused:?}"
    );
    create(&Location::Postgres(format!("{url}?sslmode=prefer"))).unwrap();
}

#[test]
fn a_file_that_holds_no_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let url = flightline_testkit::postgres_url();
    let location = Location::Postgres(format!(
        "{url}?sslmode=require&sslrootcert={}",
        file.display()
    ));
    for contents in [
        None,
        Some(""),
        Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ] {
        if let Some(contents) = contents {
            std::fs::write(&file, contents).unwrap();
        }
        let refused = refusal(&location);
        assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
        assert!(refused.message.contains("ca.pem"), "{refused:?}");
    }
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for parameters in ["connect_timeout=1", "connect_timeout=1&sslmode=prefer"] {
        let location = Location::Postgres(format!(
            "postgres://ada@127.0.0.1:{port}/fleet?{parameters}"
        ));
        let began = Instant::now();
        let refused = refusal(&location);
        assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
        assert!(refused.message.contains("does not answer"), "{refused:?}");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}
