//! A sealed world: a folder of its own without git, a home of its own, a clock and ids that the test
//! decides, and the real binary. Nothing of the machine's environment gets in, and nothing stays.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use flightline_testkit::program::PATH;
use serde_json::Value;

use crate::cli::running::{Fleet, Ran};
use crate::cli::server::Server;
use flightline_testkit::test_bed::TestBed;

/// Commands that work on the store itself: where the fleet is at a server, they are run where that is.
const BESIDE_THE_STORE: [&str; 6] = ["init", "serve", "backup", "restore", "doctor", "demo"];

/// What opens the door of a server that pretends.
const TEST_TOKEN: &str = "fleet_00000000000040008000000000000000_00000000000040008000000000000001_\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Whether all commands go through a server: the same tests, with the same answers.
#[expect(
    clippy::disallowed_methods,
    reason = "it says how the whole run of tests is meant"
)]
fn is_synced() -> bool {
    std::env::var_os("FLEET_TEST_MODE").is_some_and(|mode| mode == "synced")
}

/// A server of this world, and the settings it was started with.
struct Synced {
    server: Server,
    settings: Vec<Vec<u8>>,
}

/// A place with a clock that moves one second with each command.
pub struct World {
    place: TestBed,
    commands: Cell<u64>,
    seconds: Cell<u64>,
    /// What every command begins with.
    pub always: Vec<String>,
    /// What every command sees in its environment.
    pub everywhere: Vec<(&'static str, String)>,
    /// Whether commands go through a server, and the one they go through.
    through_server: bool,
    server: RefCell<Option<Synced>>,
}

impl Deref for World {
    type Target = TestBed;

    fn deref(&self) -> &TestBed {
        &self.place
    }
}

impl World {
    /// A world without a fleet.
    pub fn empty() -> Self {
        Self {
            place: TestBed::temporary(),
            commands: Cell::new(0),
            seconds: Cell::new(0),
            always: Vec::new(),
            everywhere: Vec::new(),
            through_server: is_synced(),
            server: RefCell::new(None),
        }
    }

    /// For what is about the store on this machine and its files: no server comes between, and this is why.
    pub fn local_only(mut self, reason: &str) -> Self {
        assert!(!reason.is_empty(), "say why");
        self.through_server = false;
        self.server = RefCell::new(None);
        self
    }

    /// Nothing of ours has the store open any more. The next command that needs a server starts one.
    fn end_server(&self) {
        drop(self.server.borrow_mut().take());
    }

    /// Has the command go through a server, unless it works beside the store, or there is no store yet.
    fn connect(&self, command: &mut Command) {
        // A program that runs ours has it in one of its arguments.
        let typed: Vec<String> = command
            .get_args()
            .flat_map(|argument| {
                let argument = argument.to_string_lossy().into_owned();
                match command.get_program() == env!("CARGO_BIN_EXE_fleet") {
                    true => vec![argument],
                    false => argument.split_whitespace().map(str::to_owned).collect(),
                }
            })
            .collect();
        let has = |name: &str| typed.iter().any(|word| word == name);
        if BESIDE_THE_STORE.iter().any(|name| has(name)) {
            self.end_server();
            return;
        }
        let project = self.place.state().join("config.toml");
        if !self.through_server || !project.exists() || has("--location") {
            return;
        }
        let user = self.home().join(".config/flightline/config.toml");
        let settings = [project, user]
            .map(|file| fs::read(file).unwrap_or_default())
            .to_vec();
        let is_current = |synced: &Synced| synced.settings == settings;
        if !self.server.borrow().as_ref().is_some_and(is_current) {
            self.end_server();
            let mut serve = self
                .place
                .fleet(&["serve", "--addr", "127.0.0.1:0", "--json"]);
            self.surround(&mut serve, 0);
            serve
                .env("FLEET_TEST_TOKEN", TEST_TOKEN)
                .stderr(Stdio::null());
            let started = Server::try_spawn(serve);
            *self.server.borrow_mut() = started.map(|server| Synced { server, settings });
        }
        // A server that does not start, as with settings that cannot be read, is not there.
        let url = match &*self.server.borrow() {
            Some(synced) => synced.server.url.clone(),
            None => "http://127.0.0.1:1".to_owned(),
        };
        command.env("FLEET_SERVER", url);
        command.env("FLEET_TOKEN", TEST_TOKEN);
        command.env_remove("FLEET_LOCATION");
    }

    /// A world with a fleet, and nothing in it.
    pub fn new() -> Self {
        let world = Self::empty();
        world.ok("init");
        world
    }

    /// A world with a mission and these sorties.
    pub fn with_sorties(titles: &[&str]) -> Self {
        let world = Self::new();
        let mut arguments = vec!["mission", "create", "Add login"];
        arguments.extend(titles.iter().flat_map(|title| ["--sortie", title]));
        let made = world.command(&arguments).run();
        assert_eq!(made.code, 0, "{made:?}");
        world
    }

    /// The folder that holds the store. A test that asks may change it, so no server has it open.
    pub fn state(&self) -> PathBuf {
        self.end_server();
        self.place.state()
    }

    /// The file that holds the store.
    pub fn database(&self) -> PathBuf {
        self.state().join("flightline.db")
    }

    /// Trusts the fleet, whose files a test has put there.
    pub fn trust(&self) {
        if self.state().join("config.toml").exists() {
            self.place.trust();
        }
    }

    /// Writes a file below the repository.
    pub fn write(&self, path: &str, content: &str) -> PathBuf {
        let file = self.repo().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, content).expect("a file");
        file
    }

    /// Begins again at the first command and at noon, so that ids and times are those of a new world.
    pub fn begin_at_noon(&self) {
        self.commands.set(1);
        self.seconds.set(1);
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        self.seconds.set(self.seconds.get() + seconds);
    }

    /// A command with these arguments.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Fleet<'_> {
        let mut command = self.place.fleet(&[]);
        command.args(&self.always).args(arguments);
        self.wrapped(command)
    }

    /// Another program that runs ours, in this world's folder and environment.
    pub fn wrapped(&self, mut command: Command) -> Fleet<'_> {
        let number = self.commands.get() + 1;
        self.commands.set(number);
        self.pass(1);
        self.surround(&mut command, number);
        self.connect(&mut command);
        Fleet {
            world: self,
            command,
            input: None,
        }
    }

    /// What a command sees around it.
    fn surround(&self, command: &mut Command, number: u64) {
        command
            .current_dir(self.repo())
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.home())
            .env("USER", "grace")
            .env("FLEET_TEST_NOW", time(self.seconds.get()))
            .env("FLEET_TEST_IDS", (number * 1000).to_string())
            .envs(self.everywhere.iter().map(|(name, value)| (name, value)));
    }

    /// A command as it is typed after `fleet`: words, with double quotes around those that hold spaces.
    pub fn line(&self, typed: &str) -> Fleet<'_> {
        self.command(&words(typed))
    }

    /// Runs a command as a person.
    pub fn fleet(&self, typed: &str) -> Ran {
        self.line(typed).run()
    }

    /// Runs a command as an agent.
    pub fn agent(&self, name: &str, typed: &str) -> Ran {
        self.line(typed).agent(name).run()
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, typed: &str) -> Ran {
        let ran = self.fleet(typed);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    }

    /// Runs a command as an agent, which must succeed.
    pub fn agent_ok(&self, name: &str, typed: &str) -> Ran {
        let ran = self.agent(name, typed);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    }

    /// The answer to a command that must succeed, as JSON.
    pub fn json(&self, typed: &str) -> Value {
        let ran = self.fleet(&format!("{typed} --json"));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()
    }

    /// The answer to a command that only looks, as JSON, and its exit code. No time passes.
    pub fn json_at(&self, typed: &str) -> (Value, i32) {
        let now = self.seconds.get();
        let ran = self
            .line(&format!("{typed} --json"))
            .env("FLEET_TEST_NOW", time(now))
            .run();
        self.seconds.set(now);
        (ran.json(), ran.code)
    }

    /// The whole id of the sortie with this title.
    pub fn sortie(&self, title: &str) -> String {
        let sorties = self.json("sorties list");
        let found = sorties
            .as_array()
            .and_then(|all| all.iter().find(|sortie| sortie["title"] == title));
        let id = found.and_then(|sortie| sortie["id"].as_str());
        id.unwrap_or_else(|| panic!("no sortie {title:?} in {sorties}"))
            .to_owned()
    }

    /// The last revision: the same before and after when nothing was written.
    pub fn rev(&self) -> u64 {
        self.json("status")["rev"].as_u64().expect("a revision")
    }

    /// Runs SQL on the store with the `sqlite3` command, as another program would.
    pub fn sql(&self, sql: &str) -> String {
        self.end_server();
        self.place.sqlite(sql)
    }

    /// Every byte of every file in this world.
    pub fn all_bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.end_server();
        let mut found = Vec::new();
        let mut folders = vec![self.around()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((path.clone(), fs::read(&path).expect("a file")));
                }
            }
        }
        found
    }

    /// This world as it is now, to make others like it.
    pub fn snapshot(&self) -> Snapshot {
        let relative = |file: &Path| {
            let below = file.strip_prefix(self.around());
            below.expect("a file of this world").to_path_buf()
        };
        let files = self.all_bytes().into_iter();
        Snapshot {
            commands: self.commands.get(),
            seconds: self.seconds.get(),
            files: files
                .map(|(file, bytes)| (relative(&file), mode(&file), bytes))
                .collect(),
        }
    }

    /// Names the world's own folders, which differ from run to run.
    pub fn anonymous(&self, text: &str) -> String {
        let text = text.replace(&*self.repo().to_string_lossy(), "REPO");
        text.replace(&*self.home().to_string_lossy(), "HOME")
    }
}

/// A world as it once was, in memory: it costs nothing to go back there.
pub struct Snapshot {
    commands: u64,
    seconds: u64,
    files: Vec<(PathBuf, u32, Vec<u8>)>,
}

impl Snapshot {
    /// A world like it.
    pub fn world(&self) -> World {
        let world = World::empty();
        world.commands.set(self.commands);
        world.seconds.set(self.seconds);
        for (below, mode, bytes) in &self.files {
            let file = world.around().join(below);
            let folder = file.parent().expect("a folder");
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder);
            made.expect("a folder");
            let options = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(*mode)
                .open(file);
            options
                .and_then(|mut file| file.write_all(bytes))
                .expect("a file");
        }
        world.trust();
        world
    }
}

/// The time so many seconds after noon of a certain day.
pub fn time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, 43_200 + seconds % 86_400);
    let (days, rest) = (days + rest / 86_400, rest % 86_400);
    let (hours, minutes) = (rest / 3600, rest / 60 % 60);
    format!(
        "2026-01-{:02}T{hours:02}:{minutes:02}:{:02}Z",
        4 + days,
        rest % 60
    )
}

/// Splits a typed line into words; double quotes keep spaces together.
pub fn words(line: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word).into());
                }
                begun = false;
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    assert!(!quoted, "an open quote in {line:?}");
    if begun {
        words.push(word.into());
    }
    words
}

/// The mode bits of a file.
pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}
