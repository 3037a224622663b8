//! A fleet that its commands reach only through a server, which can go away and come back.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use flightline_testkit::{Engine, postgres_url};
use serde_json::Value;

use crate::cli::running::{Fleet, Ran};
use crate::cli::server::Server;
use crate::cli::world::World;

/// An address of the loopback that no other test uses: while the server is down, its port may be anybody's there.
fn own_address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.{next}:0", high % 127 + 1)
}

/// A fleet whose commands reach it only through a server.
pub struct Far {
    pub world: World,
    pub server: Option<Server>,
    pub url: String,
    pub token: String,
}

impl Far {
    pub fn new(titles: &[&str]) -> Self {
        Self::on(Engine::Sqlite, titles)
    }

    pub fn on(engine: Engine, titles: &[&str]) -> Self {
        let mut world = World::empty().local_only("it has a server of its own");
        if engine == Engine::Postgres {
            world.everywhere = vec![("FLEET_LOCATION", postgres_url())];
        }
        // Real ids: a database holds the projects of many tests.
        let made = world.line("init").without("FLEET_TEST_IDS").run();
        assert_eq!(made.code, 0, "{made:?}");
        let mut create = vec!["mission", "create", "Add login"];
        create.extend(titles.iter().flat_map(|title| ["--sortie", title]));
        assert_eq!(world.command(&create).run().code, 0);
        let token = token(&world, "grace --scope admin");
        let server = Server::start_at(&world, &own_address(), "");
        let url = server.url.clone();
        Self {
            world,
            server: Some(server),
            url,
            token,
        }
    }

    /// A command that talks to the server, in real time.
    pub fn line(&self, typed: &str) -> Fleet<'_> {
        self.world
            .line(typed)
            .without("FLEET_LOCATION")
            .without("FLEET_TEST_NOW")
            .without("FLEET_TEST_IDS")
            .env("FLEET_SERVER", &self.url)
            .env("FLEET_TOKEN", &self.token)
    }

    pub fn run(&self, typed: &str) -> Ran {
        self.line(typed).run()
    }

    pub fn ok(&self, typed: &str) -> Ran {
        let ran = self.run(typed);
        assert_eq!(ran.code, 0, "{typed}: {ran:?}");
        ran
    }

    /// What a command beside the store says.
    pub fn here(&self, typed: &str) -> Value {
        let ran = self.world.line(&format!("{typed} --json"));
        let ran = ran.without("FLEET_TEST_NOW").run();
        assert_eq!(ran.code, 0, "{typed}: {ran:?}");
        ran.json()
    }

    /// The server dies.
    pub fn go_down(&mut self) {
        self.server = None;
    }

    /// It is there again, where it was.
    pub fn come_back(&mut self) {
        let place = self.url.trim_start_matches("http://");
        self.server = Some(Server::start_at(&self.world, place, ""));
    }

    /// The queue on this machine whose name begins so.
    pub fn spool(&self, begins: &str) -> PathBuf {
        let folder = self.world.home().join(".local/state/flightline/spool");
        let mut files = fs::read_dir(folder)
            .unwrap()
            .flat_map(|of| fs::read_dir(of.unwrap().path()).unwrap())
            .map(|file| file.unwrap().path());
        let fits = |file: &PathBuf| {
            let name = file.file_name().unwrap().to_str().unwrap();
            let is_queue = name.ends_with(".jsonl") && !name.ends_with(".damaged.jsonl");
            name.starts_with(begins) && is_queue
        };
        files.find(fits).unwrap()
    }

    /// The texts of all notes, oldest first.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.here("note list");
        let texts = notes.as_array().unwrap().iter();
        texts
            .map(|note| note["text"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub fn token(world: &World, what: &str) -> String {
    let made = world
        .line(&format!("token create {what} --json"))
        .without("FLEET_TEST_NOW")
        .without("FLEET_TEST_IDS")
        .run();
    assert_eq!(made.code, 0, "{made:?}");
    made.json()["token"].as_str().unwrap().to_owned()
}
