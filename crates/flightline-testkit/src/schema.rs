//! A separate schema on the PostgreSQL server, where a test may do what would disturb the others.

use flightline::store::Location;
use postgres::{Client, NoTls};

use crate::postgres_url;

/// An empty schema on the test server, gone with this value.
pub struct Schema {
    name: String,
    pub location: Location,
}

impl Schema {
    /// Makes a new schema.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it is made on a server, not out of nothing"
    )]
    pub fn new() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "schemas of different tests share one server"
        )]
        let name = format!("s{}", uuid::Uuid::new_v4().simple());
        let url = with_option(&format!("search_path%3D{name}"));
        let schema = Self {
            location: Location::Postgres(url),
            name,
        };
        schema.run(&format!("CREATE SCHEMA {}", schema.name));
        schema
    }

    /// Opens a connection that sees this schema, past Flightline.
    pub fn client(&self) -> Client {
        let url = with_option(&format!("search_path%3D{}", self.name));
        Client::connect(&url, NoTls).expect("the server answers")
    }

    /// Runs `sql` in this schema, past Flightline.
    pub fn run(&self, sql: &str) {
        self.client()
            .batch_execute(sql)
            .expect("the server does it");
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.run(&format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

/// The test server's URL with one more setting for the session, percent-encoded: `name%3Dvalue`.
pub fn with_option(setting: &str) -> String {
    let url = postgres_url();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options=-c%20{setting}")
}
