//! The app of one command: the settings in force, the fleet, and the output.

mod mirrors;
mod paths;
mod run;
mod server;
mod short;
mod trust;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flightline::core::file_system::TreeNow;
use flightline::core::{Code, Kind, Refusal, Time};
use flightline::ids::ShortenIds;
use flightline::inventory::{inventory, unknown_project};
use flightline::rebuild::prospect;
use flightline::recovery::claims::{ListClaims, look};
use flightline::store::clock::{Clock, IdSource};
use flightline::store::{CrashPoints, Location, OpenOptions, Store, StoreError};
use flightline::store_job::ClearFiles;
use flightline::workspace::{Bounds, Home, STATE_FOLDER, WorkTree, discover};
use flightline::{Caller, Fleet};
use serde::Serialize;

use self::server::{root_of, server};
pub use self::short::DisplayIds;
pub use self::trust::{IGNORE_ALL, IGNORED, TrustState};
use crate::cli::Globals;
use crate::config::{Config, Environment, parse_location};
use crate::remote::Address;
use crate::ui::{Prompting, Ui};

pub struct App {
    pub globals: Globals,
    pub ui: Ui,
    pub env: Environment,
    /// The folder the command runs in.
    pub here: PathBuf,
    /// The folders of the fleet, when there is one.
    pub home: Option<Home>,
    /// The name of this command, shown to other processes that wait for it.
    pub purpose: String,
    fleet: Option<Fleet>,
    /// The warnings already printed about damage that another copy made good.
    said: BTreeSet<String>,
    /// The server that commands talk to, when it is not a store.
    server: Option<Address>,
    /// The trust state of the fleet for this user, once it was looked at.
    standing: Cell<TrustState>,
    /// True when the command has named its answer's schema, so that the fields asked for are checked.
    answer_is_known: bool,
    /// The epoch that this process belongs to, of the acting agent, once it was looked up.
    own_epoch: OnceCell<Option<u64>>,
    /// The agent whose client is above this process, and its epoch, once it was looked up.
    client_agent: OnceCell<Option<(String, u64)>>,
    /// The settings in force, once they were read.
    settings: OnceCell<Config>,
}

impl App {
    /// Finds the folder and the fleet of a command. Opens nothing yet.
    pub fn new(globals: Globals, ui: Ui, env: Environment) -> Result<Self, Refusal> {
        let start = globals.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let cannot = |why: &dyn std::fmt::Display| {
            Refusal::new(
                Code::NotFound,
                format!("cannot enter {}: {why}", start.display()),
            )
            .hint("give an existing folder to `-C`")
        };
        let here = start.canonicalize().map_err(|error| cannot(&error))?;
        if !here.is_dir() {
            return Err(cannot(&"it is not a folder"));
        }
        let user_home = env.surroundings.home.as_ref();
        let user_home = user_home.and_then(|home| Path::new(home).canonicalize().ok());
        let mut home = discover(&here, user_home.as_deref())?;
        let root = root_of(home.as_ref(), &here);
        let server = server(&globals, &env, &root)?;
        // A server needs no state folder here; a queue on this machine gets one when it is needed.
        if server.is_some() && home.is_none() {
            let state = root.join(STATE_FOLDER);
            home = Some(Home { state, root });
        }
        Ok(Self {
            globals,
            ui,
            env,
            here,
            home,
            purpose: "command".to_owned(),
            fleet: None,
            said: BTreeSet::new(),
            server,
            standing: Cell::new(TrustState::Trusted),
            answer_is_known: false,
            own_epoch: OnceCell::new(),
            client_agent: OnceCell::new(),
            settings: OnceCell::new(),
        })
    }

    /// Makes an app for another folder, as if the command had been started there.
    pub fn moved_to(&self, folder: PathBuf) -> Result<Self, Refusal> {
        let globals = Globals {
            dir: Some(self.globals.dir.clone().unwrap_or(folder)),
            ..self.globals.clone()
        };
        Self::new(globals, self.ui.clone(), self.env.clone())
    }

    /// Returns the settings in force. They are read once. Of settings that the user does not trust, only the project's id counts.
    pub fn config(&self) -> Result<Config, Refusal> {
        if let Some(known) = self.settings.get() {
            return Ok(known.clone());
        }
        let written = self.written_config()?;
        let in_force = match self.standing(&written)? {
            TrustState::Trusted => written,
            _ => written.of_user_alone(&self.env)?,
        };
        Ok(self.settings.get_or_init(|| in_force).clone())
    }

    /// Reads the settings as they are written, in force or not.
    pub fn written_config(&self) -> Result<Config, Refusal> {
        let state = self.home.as_ref().map(|home| home.state.as_path());
        Config::load(state, &self.env)
    }

    /// Has the settings read anew: this command changed them, or moved to another state folder.
    pub fn forget_config(&mut self) {
        self.settings.take();
    }

    pub fn home(&self) -> Result<&Home, Refusal> {
        self.home.as_ref().ok_or_else(|| {
            Refusal::new(
                Code::NoProject,
                format!(
                    "there is no `.flightline/` in {} or above",
                    self.here.display()
                ),
            )
            .hint("create one with `fleet init`")
        })
    }

    /// The location of the store: as typed, then from the environment, then from the user's file, then the state folder.
    /// Never from the project's file.
    pub fn location(&self, config: &Config, state: &Path) -> Result<Location, Refusal> {
        let typed = self
            .globals
            .location
            .as_deref()
            .or(self.env.location.as_deref());
        match typed {
            Some(text) => parse_location(text, Some(&self.here)),
            None => Ok(config
                .location
                .clone()
                .unwrap_or_else(|| Location::Folder(state.to_path_buf()))),
        }
    }

    pub fn open_options(&self, config: &Config) -> Result<OpenOptions, Refusal> {
        let clock = match &self.env.test_now {
            Some(text) => Clock::fixed(match text.parse() {
                // Milliseconds, also those of an implausible clock.
                Ok(millis) => Time::from_millis(millis),
                Err(_) => text
                    .parse::<Time>()
                    .map_err(|error| Refusal::invalid(error.to_string()))?,
            }),
            None => Clock::System,
        };
        if let Some(text) = &self.env.test_uptime_ms {
            clock.set_uptime_ms(number(text)?);
        }
        let ids = match &self.env.test_ids {
            Some(text) => IdSource::counting(number(text)?),
            None => IdSource::Random,
        };
        let patience = self.env.patience_ms.as_deref().map(number).transpose()?;
        Ok(OpenOptions {
            clock,
            ids,
            patience: patience.map_or(Duration::from_secs(10), Duration::from_millis),
            purpose: self.purpose.clone(),
            downtime_ms: config.policy.downtime_ms,
            rehearse: false,
            steps: self.steps()?,
            trusted: self.is_trusted(config)?,
            ..OpenOptions::default()
        })
    }

    /// The moments at which a test ends or stops this process.
    pub fn steps(&self) -> Result<CrashPoints, Refusal> {
        let crash_at = self.env.crash_at.as_deref().map(number).transpose()?;
        let freeze_at = self.env.freeze_at.as_deref().map(number).transpose()?;
        Ok(CrashPoints::new(crash_at, freeze_at))
    }

    pub fn work_tree(&self) -> Result<WorkTree, Refusal> {
        let (root, around) = (&self.home()?.root, self.env.surroundings.clone());
        Ok(WorkTree::new(root, around, Bounds::default()).without(self.mirrored()?))
    }

    /// The project that the settings name.
    pub fn project(config: &Config, state: &Path) -> Result<String, Refusal> {
        config.project.clone().ok_or_else(|| {
            Refusal::new(
                Code::NoProject,
                format!("{} names no project", state.join("config.toml").display()),
            )
            .hint(without_project(state))
        })
    }

    pub fn must_have_project(&self, project: &str) -> Result<(), Refusal> {
        self.must_be_local()?;
        let (config, state) = (self.config()?, self.home()?.state.clone());
        let location = self.location(&config, &state)?;
        let mut store = Store::open(&location, project, self.open_options(&config)?)
            .map_err(|error| unusable(error, &state, &location))?;
        let known = inventory(&mut store).map_err(flightline::Error::into_refusal)?;
        match known.iter().any(|known| known.id == project) {
            true => Ok(()),
            false => Err(unknown_project(project, known)),
        }
    }

    /// Adds to a refusal the projects that the store has, which the operation that refused does not know.
    pub fn explain(&mut self, refusal: Refusal) -> Refusal {
        if refusal.code != Code::NoProject {
            return self.with_reason(refusal);
        }
        let Some(fleet) = self.fleet.as_mut().filter(|fleet| !fleet.is_elsewhere()) else {
            return refusal;
        };
        let Ok(store) = fleet.store() else {
            return refusal;
        };
        let project = store.project().to_owned();
        match inventory(store) {
            Ok(known) if !known.iter().any(|known| known.id == project) => {
                unknown_project(&project, known)
            }
            _ => refusal,
        }
    }

    /// Returns the fleet of this repository, opened when it is first needed.
    pub fn fleet(&mut self) -> Result<&mut Fleet, Refusal> {
        if self.fleet.is_none() && self.server.is_some() {
            let (config, tree) = (self.config()?, self.work_tree()?);
            let queueing_client = self.queueing_client(&config)?;
            self.fleet =
                Some(Fleet::elsewhere(Box::new(queueing_client), config.policy).in_tree(tree));
            if let Err(refusal) = self.take_in_mirrors() {
                self.ui.warn(refusal.message);
            }
        } else if self.fleet.is_none() {
            let state = self.home()?.state.clone();
            let config = self.config()?;
            let project = Self::project(&config, &state)?;
            let (location, began) = (self.location(&config, &state)?, Instant::now());
            let options = self.open_options(&config)?;
            let is_trusted = options.trusted;
            let store = Store::open(&location, &project, options)
                .map_err(|error| unusable(error, &state, &location))?;
            if self.globals.verbose {
                let millis = began.elapsed().as_secs_f64() * 1000.0;
                self.ui.talk(format_args!(
                    "{} store at {location}, project {project}, opened in {millis:.1} ms",
                    store.engine()
                ));
            }
            for repaired in store.repaired() {
                self.ui.warn(repaired);
            }
            let tree = self.work_tree()?;
            self.fleet = Some(Fleet::new(store, config.policy).in_tree(tree));
            if !is_trusted {
                return self.opened();
            }
            // Files that other programs wrote are imported before anything is decided. A failure is no reason to stop.
            if let Err(refusal) = self.take_in_mirrors() {
                self.ui.warn(refusal.message);
            }
        }
        self.opened()
    }

    fn opened(&mut self) -> Result<&mut Fleet, Refusal> {
        self.fleet
            .as_mut()
            .ok_or_else(|| Refusal::new(Code::Failed, "the store is not open"))
    }

    pub fn caller(&self) -> Result<Caller, Refusal> {
        let named = self.globals.agent.as_ref().or(self.env.agent.as_ref());
        let client = match named {
            Some(_) => None,
            None => self.client_agent()?,
        };
        let agent = named.or(client.as_ref().map(|(agent, _)| agent));
        let epoch = match (&self.env.epoch, agent) {
            (None, _) if client.is_some() => client.as_ref().map(|(_, epoch)| *epoch),
            (Some(text), _) => Some(text.parse().map_err(|_| {
                Refusal::invalid(format!("FLEET_EPOCH is `{text}`, which is not a number"))
                    .hint("`fleet agents register NAME` says which to set")
            })?),
            (None, Some(agent)) if self.env.session.is_none() => self.own_epoch(agent)?,
            (None, _) => None,
        };
        Ok(Caller {
            agent: agent.cloned(),
            epoch,
            session: self.env.session.clone(),
            user: self.env.user.clone(),
            mission: self
                .globals
                .mission
                .clone()
                .or_else(|| self.env.mission.clone()),
            idempotency_key: self.globals.idempotency_key.clone(),
            target: None,
            place: None,
            window: None,
            token: None,
            on_behalf_of_token: None,
        })
    }

    /// The agent that the nearest client above this process is, and its epoch. It is looked for once.
    fn client_agent(&self) -> Result<Option<(String, u64)>, Refusal> {
        if let Some(known) = self.client_agent.get() {
            return Ok(known.clone());
        }
        let found = self.sessions()?.agent_of_client();
        Ok(self.client_agent.get_or_init(|| found).clone())
    }

    /// The epoch of the agent's session that this process belongs to. It is looked for once.
    fn own_epoch(&self, agent: &str) -> Result<Option<u64>, Refusal> {
        if let Some(known) = self.own_epoch.get() {
            return Ok(*known);
        }
        let found = self.sessions()?.epoch_of(agent);
        Ok(*self.own_epoch.get_or_init(|| found))
    }

    /// Acts for no agent, though a client is above this process: a hook finds its agent by itself.
    pub fn clear_acting_agent(&self) {
        let _ = self.client_agent.set(None);
    }

    pub fn asking(&self) -> Prompting {
        if self.globals.no_input {
            Prompting::Forbidden
        } else {
            Prompting::Allowed
        }
    }

    pub fn clear_files(&mut self) -> Result<(), Refusal> {
        self.run_job(&ClearFiles {})
    }

    /// Observes the agents' processes on this machine.
    pub fn sightings(&mut self) -> Result<Vec<flightline::agent::Sighting>, Refusal> {
        flightline::agent::look_around(self.fleet()?).map_err(flightline::Error::into_refusal)
    }

    /// Reads the present state of the files that reports name.
    pub fn look(&mut self, claims: &ListClaims) -> Result<Option<TreeNow>, Refusal> {
        let caller = self.caller()?;
        Ok(look(self.fleet()?, &caller, claims))
    }

    pub fn now(&mut self) -> Result<Time, Refusal> {
        self.fleet()?.now().map_err(flightline::Error::into_refusal)
    }

    /// The store's time, in a form for names of files.
    pub fn stamp(&mut self) -> Result<String, Refusal> {
        Ok(self.now()?.to_string().replace([':', '.'], "-"))
    }

    /// Shortens ids of these kinds as people read them, for the answer that is about to be shown. Asks the store only when
    /// people will read them, and only about those in the answer.
    pub fn short<T: Serialize>(
        &mut self,
        kinds: &[Kind],
        shown: &T,
    ) -> Result<DisplayIds, Refusal> {
        if self.ui.json || self.ui.quiet {
            return Ok(DisplayIds::default());
        }
        self.shorten(DisplayIds::ids_in(&self.ui.text_of(shown)?, kinds))
    }

    /// Shortens these ids and no others: the ids that [`App::short`] would look for in everything shown.
    pub fn short_of(
        &mut self,
        ids: impl IntoIterator<Item = impl ToString>,
    ) -> Result<DisplayIds, Refusal> {
        if self.ui.json || self.ui.quiet {
            return Ok(DisplayIds::default());
        }
        self.shorten(ids.into_iter().map(|id| id.to_string()).collect())
    }

    fn shorten(&mut self, ids: BTreeSet<String>) -> Result<DisplayIds, Refusal> {
        if ids.is_empty() {
            return Ok(DisplayIds::default());
        }
        match self.run(&ShortenIds { ids }) {
            Ok(found) => Ok(DisplayIds(found.short)),
            // An older server does not know this operation: the shown ids are right, if longer than they need be.
            Err(refusal) if refusal.code == Code::NotFound && self.server.is_some() => {
                Ok(DisplayIds::default())
            }
            Err(refusal) => Err(refusal),
        }
    }
}

/// Explains why a store cannot be used, and how its work comes back.
pub fn unusable(error: StoreError, state: &Path, location: &Location) -> Refusal {
    enum Lost {
        Wholly,
        Damaged,
        Newer,
    }
    let lost = match &error {
        StoreError::Missing(_) | StoreError::NotOurs(_) => Lost::Wholly,
        StoreError::Corrupt(_) => Lost::Damaged,
        StoreError::Newer { .. } => Lost::Newer,
        _ => return error.into(),
    };
    let refusal = Refusal::from(error);
    let prospect = prospect(state, location);
    match (lost, prospect.files) {
        // There is nothing that could come back, and the store has said what can be done.
        (Lost::Wholly | Lost::Newer, 0) => refusal,
        (Lost::Damaged, 0) if matches!(location, Location::Postgres(_)) => refusal,
        (Lost::Newer, _) => {
            let hint = format!("upgrade `fleet` on this machine; or {}", prospect.hint());
            refusal.hint(hint)
        }
        (Lost::Wholly | Lost::Damaged, _) => refusal.hint(prospect.hint()),
    }
}

/// The hint for a state folder that names no project, or has no store: the remains of its work come first.
pub fn without_project(state: &Path) -> String {
    let prospect = prospect(state, &Location::Folder(state.to_path_buf()));
    match prospect.files {
        0 => "create it with `fleet init`".to_owned(),
        _ => prospect.hint().to_owned(),
    }
}

fn number(text: &str) -> Result<u64, Refusal> {
    text.parse()
        .map_err(|_| Refusal::invalid(format!("`{text}` is not a number")))
}
