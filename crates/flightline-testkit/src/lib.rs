//! Makes worlds for tests: a world is a store of its own on one engine, with a clock that stands still until
//! it is moved and ids that count up. Every body written against it runs on both engines.

pub mod commits;
pub mod damage;
pub mod database;
pub mod frozen;
pub mod outside;
pub mod power;
pub mod prelude;
pub mod program;
pub mod repository;
pub mod story;
pub mod test_bed;

mod schema;
pub mod value;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use flightline::core::event::sha256_hex;
use flightline::core::policy::Policy;
use flightline::core::{Refusal, Time};
use flightline::file::NamedFile;
use flightline::registry::Registered;
use flightline::store::clock::{Clock, IdSource};
use flightline::store::{Location, OpenOptions, Store, StoreError, Tx, verify};
use flightline::{Caller, Fleet};

use crate::test_bed::TestBed;

pub use schema::{Schema, with_option};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    /// PostgreSQL: the server that `scripts/test` starts, in a project of its own.
    Postgres,
}

/// Runs each body as two tests, one on each engine.
///
/// ```text
/// both_engines! {
///     fn a_claim_has_one_winner(world: &World) { … }
/// }
/// ```
#[macro_export]
macro_rules! both_engines {
    ($($(#[$meta:meta])* fn $name:ident($world:ident: &World) $body:block)*) => {
        $(
            $(#[$meta])*
            mod $name {
                #[expect(unused_imports, reason = "a body may need none of them")]
                use super::*;

                fn body($world: &$crate::World) $body

                #[test]
                fn sqlite() {
                    body(&$crate::World::new($crate::Engine::Sqlite));
                }

                #[test]
                fn postgres() {
                    body(&$crate::World::new($crate::Engine::Postgres));
                }
            }
        )*
    };
}

/// A test's own store in a place of its own, and everything needed to open it again.
pub struct World {
    bed: TestBed,
    pub engine: Engine,
    pub location: Location,
    pub project: String,
    /// The clock of the world: it stands at 2026-01-04T12:00:00Z until it is moved.
    pub clock: Clock,
    ids: IdSource,
    /// True while the world's stores remember what they wrote: until a test damages them.
    remember: Arc<AtomicBool>,
}

impl World {
    /// Makes a new, empty world.
    pub fn new(engine: Engine) -> Self {
        let bed = TestBed::temporary();
        let location = match engine {
            Engine::Sqlite => Location::Folder(bed.state()),
            Engine::Postgres => Location::Postgres(postgres_url()),
        };
        let start: Time = "2026-01-04T12:00:00Z".parse().expect("a time");
        #[expect(
            clippy::disallowed_methods,
            reason = "projects of different tests share one server"
        )]
        let project = format!("prj-{}", uuid::Uuid::new_v4());
        let world = Self {
            bed,
            engine,
            location,
            project,
            clock: Clock::fixed(start),
            ids: IdSource::counting(1),
            remember: Arc::new(true.into()),
        };
        Store::create(&world.location, &world.project, "test", world.options())
            .expect("a new store");
        world
    }

    /// Moves this world to a store elsewhere. The project must be there.
    pub fn at(self, location: Location, project: &str) -> Self {
        let engine = match &location {
            Location::Folder(_) => Engine::Sqlite,
            Location::Postgres(_) => Engine::Postgres,
        };
        Self {
            engine,
            location,
            project: project.to_owned(),
            ..self
        }
    }

    /// The root of the world's repository.
    pub fn folder(&self) -> &Path {
        self.bed.root()
    }

    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            patience: Duration::from_secs(10),
            purpose: "test".to_owned(),
            rehearse: rehearses(),
            remember: Arc::clone(&self.remember),
            ..OpenOptions::default()
        }
    }

    pub fn store(&self) -> Store {
        self.open(self.options())
    }

    /// Opens another connection to the store, which rehearses nothing.
    pub fn unrehearsed(&self) -> Store {
        self.open(OpenOptions {
            rehearse: false,
            ..self.options()
        })
    }

    /// Opens another connection to the store, with these options.
    pub fn open(&self, options: OpenOptions) -> Store {
        Store::open(&self.location, &self.project, options).expect("the store opens")
    }

    /// Opens the fleet in this world, through a connection of its own.
    pub fn fleet(&self) -> Fleet {
        Fleet::new(self.store(), Policy::default())
    }

    /// Runs an operation as `agent`, or as a person when it is empty.
    pub fn run<O: Registered>(&self, agent: &str, operation: &O) -> Result<O::Outcome, Refusal> {
        self.fleet()
            .run(operation, &caller(agent))
            .map_err(flightline::Error::into_refusal)
    }

    /// The findings of the store's own checks; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let findings = verify::verify(&mut self.store()).expect("the store can be read");
        findings
            .into_iter()
            .flat_map(|finding| finding.problems)
            .collect()
    }

    /// Has the world's stores remember nothing from now on: a test changes the tables behind their back.
    pub fn forget(&self) {
        self.remember
            .store(false, std::sync::atomic::Ordering::Relaxed);
    }

    pub fn pass(&self, span: Duration) {
        self.clock
            .pass(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    }
}

/// The caller in a test: an agent, or a person when the name is empty.
pub fn caller(agent: &str) -> Caller {
    Caller {
        agent: (!agent.is_empty()).then(|| agent.to_owned()),
        user: "tester".to_owned(),
        ..Caller::default()
    }
}

/// The caller in a test whose request has an idempotency key.
pub fn keyed(agent: &str, key: &str) -> Caller {
    Caller {
        idempotency_key: Some(key.to_owned()),
        ..caller(agent)
    }
}

/// A file as a command line names it, outside of every repository.
pub fn named(file: &Path) -> NamedFile {
    NamedFile::new(None, file).expect("a folder that is there")
}

/// The PostgreSQL server that `scripts/test` started.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "tests learn from the environment where their server is"
)]
pub fn postgres_url() -> String {
    std::env::var("FLEET_TEST_POSTGRES")
        .expect("FLEET_TEST_POSTGRES names a PostgreSQL server: run the tests with `scripts/test`, which starts one")
}

/// Returns true when every write is rehearsed before it is done: `scripts/test fast` leaves that to the whole run.
#[expect(
    clippy::disallowed_methods,
    reason = "tests learn from the environment how they are run"
)]
fn rehearses() -> bool {
    std::env::var_os("FLEET_TEST_FAST").is_none()
}

/// Reads the file of a checkpoint, wherever it is, and checks everything in it.
pub fn read_checkpoint(
    file: &std::path::Path,
) -> Result<flightline::checkpoint::CheckpointDocument, flightline::core::Refusal> {
    let name = std::path::Path::new(file.file_name().unwrap_or_default());
    let folder = file.parent().unwrap_or(std::path::Path::new(""));
    flightline::checkpoint::files::read(folder, name)
}

/// Trusts a fleet whose files were put there by a test, for a user with this home.
pub fn trust(state: &std::path::Path, home: &std::path::Path) {
    use flightline::workspace::beneath::Dir;
    use flightline::workspace::{Fingerprint, Trust};
    let of = Fingerprint::of(state, flightline::store::FILE).expect("a look at it");
    let folder = Fingerprint::of_folder(state).expect("a look at it");
    let trust = Trust::of(Some(&home.join(".local/state")));
    let settings = Dir::private(state).and_then(|state| state.read_text("config.toml", 1 << 20));
    let settings = settings.expect("a look at the settings");
    let settings = settings.map_or_else(|| "-".to_owned(), |text| sha256_hex(&text));
    let entries = [of, folder.map(Fingerprint::as_home)];
    for (of, note) in entries.into_iter().zip(["", &settings]) {
        if let Some(of) = of {
            trust.add_noting(&of, note).expect("trust");
        }
    }
}

/// Counts the values that were thinned away.
pub fn thinned_values(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    Ok(tx.kind_sizes()?.iter().map(|size| size.thinned).sum())
}
