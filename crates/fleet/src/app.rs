//! What a command works with: the settings in force, the fleet, and the voice.

mod short;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flightline::checkpoint::mend::CheckpointsToRead;
use flightline::checkpoint::serve::{self, OutcomeWithWarnings, ReadsCheckpoints};
use flightline::core::file_system::TreeNow;
use flightline::core::redact::contains_secret;
use flightline::core::{Code, Kind, Refusal, RepoPath, Time};
use flightline::ids::ShortenIds;
use flightline::inventory::{inventory, unknown_project};
use flightline::mirror::{MirrorNotice, Mirrors};
use flightline::rebuild::prospect;
use flightline::recovery::claims::{ListClaims, look};
use flightline::registry::Registered;
use flightline::remote::{API, Offline};
use flightline::store::clock::{Clock, IdSource};
use flightline::store::{CrashPoints, Location, OpenOptions, Store, StoreError};
use flightline::store_job::{AfterWrite, ClearFiles, MendFromFiles, SettleBackups};
use flightline::workspace::beneath::Dir;
use flightline::workspace::{
    Bounds, Fingerprint, Home, STATE_FOLDER, Trust, WorkTree, discover, repo_path, repository_root,
};
use flightline::{Access, Answered, Caller, Fleet, StoreJob, not_here};
use serde::Serialize;

pub use self::short::Short;
use crate::cli::Globals;
use crate::config::{Config, Environment, Secret, parse_location};
use crate::fields;
use crate::remote::{
    Address, ClientConfig, DELIVERED, Known, QueueingClient, ServerClient, Spool, TokenOwner,
};
use crate::sessions::Sessions;
use crate::ui::{Prompting, Ui};

/// The warning about a fleet that came from elsewhere.
const UNTRUSTED: &str = "this fleet was neither created nor trusted on this machine: it is shown, but nothing in it takes effect (`fleet trust` changes that)";

pub struct App {
    pub globals: Globals,
    pub ui: Ui,
    pub env: Environment,
    /// The folder the command runs in.
    pub here: PathBuf,
    /// Where the fleet lives, when there is one.
    pub home: Option<Home>,
    /// What this command is called, for those who wait for it.
    pub purpose: String,
    fleet: Option<Fleet>,
    /// The warnings already printed about damage that another copy made good.
    said: BTreeSet<String>,
    /// The server that commands talk to, when it is not a store.
    server: Option<Address>,
    untrusted: bool,
    /// The command said what it answers with, and the fields asked for were looked at.
    answer_is_known: bool,
    /// The epoch that this process belongs to, of the agent it acts as, once it was looked up.
    own_epoch: OnceCell<Option<u64>>,
    /// The agent that the client above this process is, and its epoch, once it was looked up.
    client_agent: OnceCell<Option<(String, u64)>>,
    /// The settings in force, once they were read.
    settings: OnceCell<Config>,
}

impl App {
    /// Finds out where it runs. Opens nothing yet.
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
            untrusted: false,
            answer_is_known: false,
            own_epoch: OnceCell::new(),
            client_agent: OnceCell::new(),
            settings: OnceCell::new(),
        })
    }

    /// An app for another folder, as if the command had been started there.
    pub fn moved_to(&self, folder: PathBuf) -> Result<Self, Refusal> {
        let globals = Globals {
            dir: Some(self.globals.dir.clone().unwrap_or(folder)),
            ..self.globals.clone()
        };
        Self::new(globals, self.ui.clone(), self.env.clone())
    }

    /// The server that commands talk to, when it is not a store.
    pub fn server(&self) -> Option<&Address> {
        self.server.as_ref()
    }

    /// Refuses what only works beside the store.
    pub fn must_be_local(&self) -> Result<(), Refusal> {
        match &self.server {
            Some(address) => Err(not_here(address.as_str())),
            None => Ok(()),
        }
    }

    /// Whether a server runs the upkeep after writes. A server in test mode leaves it to commands.
    pub fn has_keeper(&self) -> bool {
        self.server.is_some() && self.env.test_now.is_none()
    }

    /// The settings in force. They are read once.
    pub fn config(&self) -> Result<Config, Refusal> {
        if let Some(known) = self.settings.get() {
            return Ok(known.clone());
        }
        let state = self.home.as_ref().map(|home| home.state.as_path());
        let read = Config::load(state, &self.env)?;
        Ok(self.settings.get_or_init(|| read).clone())
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

    /// Where the store is: what was typed, then the environment, then the user's file, then the state
    /// folder. Never the project's file.
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

    pub fn trust(&self) -> Trust {
        Trust::of(self.env.user_state.as_deref())
    }

    /// The file by which the fleet here is trusted. None when there is none yet, or when the store is where the user's own
    /// settings say: no clone brings one there.
    pub fn fingerprint(&self, config: &Config) -> Result<Option<Fingerprint>, Refusal> {
        let (Some(home), None) = (&self.home, &self.server) else {
            return Ok(None);
        };
        if self.location(config, &home.state)? != Location::Folder(home.state.clone()) {
            return Ok(None);
        }
        Fingerprint::of(&home.state, flightline::store::FILE)
            .map_err(|error| cannot_look(&home.state, &error))
    }

    /// Whether the user made the fleet here, or trusts it. One whose making was cut short is the user's own.
    pub fn is_trusted(&self, config: &Config) -> Result<bool, Refusal> {
        let Some(fingerprint) = self.fingerprint(config)? else {
            return Ok(true);
        };
        Ok(self.covers(&fingerprint)? || self.is_being_made()?)
    }

    fn folder_fingerprint(&self) -> Result<Option<Fingerprint>, Refusal> {
        let state = &self.home()?.state;
        Fingerprint::of_folder(state).map_err(|error| cannot_look(state, &error))
    }

    fn is_being_made(&self) -> Result<bool, Refusal> {
        match self.folder_fingerprint()? {
            Some(folder) => self.covers(&folder),
            None => Ok(false),
        }
    }

    fn covers(&self, fleet: &Fingerprint) -> Result<bool, Refusal> {
        self.trust().covers(fleet).map_err(|error| {
            Refusal::new(
                Code::Unavailable,
                format!("cannot read which fleets you trust: {error}"),
            )
            .hint("nothing was written; check `~/.local/state/flightline` and its disk, then run the command again")
        })
    }

    /// Notes that the user makes a store in the state folder: should that be cut short, it can be completed.
    pub fn begin_making(&self) -> Result<(), Refusal> {
        match self.folder_fingerprint()? {
            Some(folder) => self.trust().add(&folder).map_err(|error| untold(&error)),
            None => Ok(()),
        }
    }

    pub fn must_be_trusted(&self) -> Result<(), Refusal> {
        match self.is_trusted(&self.config()?)? {
            true => Ok(()),
            false => Err(StoreError::Untrusted.into()),
        }
    }

    pub fn trust_it(&self) -> Result<(), Refusal> {
        let trust = self.trust();
        if let Some(fingerprint) = self.fingerprint(&self.config()?)?
            && !self.covers(&fingerprint)?
        {
            trust.add(&fingerprint).map_err(|error| untold(&error))?;
        }
        // Whatever was being made is made.
        if let Some(folder) = self.folder_fingerprint()?
            && self.covers(&folder)?
        {
            trust.revoke(&folder).map_err(|error| untold(&error))?;
        }
        Ok(())
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

    /// Says more of a refusal than those know who refused: which projects the store has.
    pub fn explain(&mut self, refusal: Refusal) -> Refusal {
        if refusal.code != Code::NoProject {
            return refusal;
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

    /// The fleet of this repository, opened when it is first needed.
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
                self.untrusted = true;
                return self.opened();
            }
            // What others wrote is taken in before anything is decided; it can wait if it must.
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

    /// The client of the server, with the queue of requests that wait until it can be reached.
    fn queueing_client(&self, config: &Config) -> Result<QueueingClient, Refusal> {
        let address = self.server.clone();
        let address = address.ok_or_else(|| Refusal::invalid("no server was named"))?;
        let token = self.token_for(&address)?;
        let token_owner = TokenOwner::of(&token);
        let client = self.client(address.clone(), token)?;
        if self.globals.verbose {
            self.ui.talk(format_args!("server at {address}"));
        }
        let options = self.open_options(config)?;
        Ok(QueueingClient::new(
            (client, token_owner),
            self.spool(),
            options.clock,
            options.steps,
        ))
    }

    pub fn client(&self, address: Address, token: Secret) -> Result<ServerClient, Refusal> {
        if address.is_open() {
            self.ui.warn(format_args!(
                "{address} is not encrypted: anyone on the network path can read the token and all data"
            ));
        }
        let patience = self.env.patience_ms.as_deref().map(number).transpose()?;
        ServerClient::new(ClientConfig {
            address,
            token,
            patience: patience.map_or(Duration::from_secs(10), Duration::from_millis),
            api: self.api()?,
            authorities_named: self.env.authorities_named,
            test_now: self.env.test_now.clone(),
            test_ids: self.env.test_ids.as_deref().map(number).transpose()?,
        })
    }

    /// The token for a server: from the environment, or from `fleet login`.
    fn token_for(&self, address: &Address) -> Result<Secret, Refusal> {
        if let Some(token) = &self.env.token {
            return Ok(token.clone());
        }
        let known = Known::read(self.env.user_config.as_deref())?;
        known
            .and_then(|known| known.token_for(&self.root(), address))
            .ok_or_else(|| {
                Refusal::new(
                    Code::Unauthenticated,
                    format!("this repository has no token for {address}"),
                )
                .hint(format!(
                    "log in with `fleet login {address}`, or set FLEET_TOKEN"
                ))
            })
    }

    /// The queue of writes that wait on this machine for the server.
    pub fn spool(&self) -> Spool {
        Spool::of(self.env.user_state.as_deref(), &self.root())
    }

    /// The sessions of agents that were begun on this machine.
    pub fn sessions(&self) -> Sessions {
        let fleet = match &self.server {
            Some(address) => address.as_str().to_owned(),
            None => {
                let project = self.config().ok().and_then(|config| config.project);
                project.map_or_else(String::new, |project| project.to_string())
            }
        };
        Sessions::of(self.env.user_state.as_deref(), &self.root(), &fleet)
    }

    pub fn token_owner(&self) -> Option<TokenOwner> {
        let token = self.token_for(self.server.as_ref()?).ok()?;
        TokenOwner::of(&token)
    }

    /// The folder that servers are remembered by: the same for all work trees of a repository.
    pub fn root(&self) -> PathBuf {
        root_of(self.home.as_ref(), &self.here)
    }

    /// What this end of the wire speaks.
    pub fn api(&self) -> Result<u32, Refusal> {
        let api = self.env.test_api.as_deref().map(number).transpose()?;
        Ok(api.map_or(API, |api| u32::try_from(api).unwrap_or(u32::MAX)))
    }

    pub fn caller(&self) -> Result<Caller, Refusal> {
        let named = self.globals.agent.as_ref().or(self.env.agent.as_ref());
        let client = match named {
            Some(_) => None,
            None => self
                .client_agent
                .get_or_init(|| self.sessions().agent_of_client())
                .clone(),
        };
        let agent = named.or(client.as_ref().map(|(agent, _)| agent));
        let epoch = match (&self.env.epoch, agent) {
            (None, _) if client.is_some() => client.as_ref().map(|(_, epoch)| *epoch),
            (Some(text), _) => Some(text.parse().map_err(|_| {
                Refusal::invalid(format!("FLEET_EPOCH is `{text}`, which is not a number"))
                    .hint("`fleet agents register NAME` says which to set")
            })?),
            (None, Some(agent)) if self.env.session.is_none() => *self
                .own_epoch
                .get_or_init(|| self.sessions().epoch_of(agent)),
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

    /// Acts for no agent, though a client is above this process: a hook finds its agent by itself.
    pub fn act_for_nobody(&self) {
        let _ = self.client_agent.set(None);
    }

    pub fn asking(&self) -> Prompting {
        if self.globals.no_input {
            Prompting::Forbidden
        } else {
            Prompting::Allowed
        }
    }

    /// Says by the name of its schema what the command answers with, where that is not the outcome of its one operation: a field that it cannot
    /// have is refused before anything is written.
    pub fn will_answer(&mut self, schema: &str) -> Result<(), Refusal> {
        self.answer_is_known = true;
        fields::check_answer(schema, &self.ui.fields)
    }

    fn check_fields(&self, operation: &str) -> Result<(), Refusal> {
        match self.answer_is_known {
            true => Ok(()),
            false => fields::check_outcome(operation, &self.ui.fields),
        }
    }

    /// Runs an operation that does not wait for its server: one that may is run with [`App::run_or_keep`], which the compiler
    /// sees to.
    pub fn run<O: Registered>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        const {
            assert!(matches!(O::OFFLINE, Offline::Refused));
        }
        self.run_now(operation)
    }

    /// Runs an operation now or not at all, also one that may wait.
    pub fn run_now<O: Registered>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        if O::ACCESS != Access::Read {
            self.check_fields(O::NAME)?;
        }
        let caller = self.caller()?;
        let outcome = self.fleet()?.run(operation, &caller);
        self.say_noticed();
        let outcome = outcome.map_err(flightline::Error::into_refusal)?;
        self.ui.written |= O::ACCESS != Access::Read;
        Ok(outcome)
    }

    /// Runs an operation that may wait for its server. Where the server cannot be reached, it is said what becomes of the request,
    /// and there is no outcome: the command has done what it can.
    pub fn run_or_keep<O: Registered>(
        &mut self,
        operation: &O,
    ) -> Result<Option<O::Outcome>, Refusal> {
        const {
            assert!(!matches!(O::OFFLINE, Offline::Refused));
        }
        self.check_fields(O::NAME)?;
        let caller = self.caller()?;
        let answered = self.fleet()?.run_or_keep(operation, &caller);
        self.say_noticed();
        match answered.map_err(flightline::Error::into_refusal)? {
            Answered::Now(done) => {
                self.ui.written = true;
                Ok(Some(done.outcome))
            }
            Answered::Later(later) => {
                self.ui.say_later(&later)?;
                Ok(None)
            }
        }
    }

    /// Runs an operation that reads checkpoints, with the help of their files where the store is damaged.
    pub fn serve<O: ReadsCheckpoints>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        self.serve_with(operation, serve::serve)
    }

    /// Shows what such a write would do, without doing it.
    pub fn rehearse<O: ReadsCheckpoints>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        self.serve_with(operation, serve::rehearse)
    }

    /// Mends checkpoints in the store from their files.
    pub fn mend(&mut self, wanted: &CheckpointsToRead) -> Result<(), Refusal> {
        let wanted = wanted.clone();
        for warning in self.run_job(&MendFromFiles { wanted })? {
            self.ui.warn(warning);
        }
        Ok(())
    }

    fn serve_with<O: ReadsCheckpoints>(
        &mut self,
        operation: &O,
        run: fn(&mut Fleet, &Path, &Caller, &O) -> OutcomeWithWarnings<O::Outcome>,
    ) -> Result<O::Outcome, Refusal> {
        self.check_fields(O::NAME)?;
        let (caller, folder) = (self.caller()?, self.home()?.state.clone());
        let served = run(self.fleet()?, &folder, &caller, operation);
        for warning in &served.warnings {
            self.ui.warn(warning);
        }
        self.say_noticed();
        let done = served.done.map_err(flightline::Error::into_refusal)?;
        self.ui.written |= served.written;
        Ok(done.outcome)
    }

    /// The fleet, and where to say how far it is.
    pub fn fleet_and_ui(&mut self) -> Result<(&mut Fleet, &Ui), Refusal> {
        self.fleet()?;
        match &mut self.fleet {
            Some(fleet) => Ok((fleet, &self.ui)),
            None => Err(Refusal::new(Code::Failed, "the store is not open")),
        }
    }

    /// Says which values were read from their second copy, because the first one is damaged; and what a
    /// server had to say.
    pub fn say_noticed(&mut self) {
        let warnings = self.fleet.as_mut().map(Fleet::take_warnings);
        for warning in warnings.unwrap_or_default() {
            // That all of it arrived is no warning.
            match warning.starts_with(DELIVERED) && !warning.contains(';') {
                true => self.ui.talk(warning),
                false => self.ui.warn(warning),
            }
        }
        let noticed = self.fleet.as_mut().map(Fleet::take_noticed);
        for damage in noticed.unwrap_or_default() {
            if self.said.insert(damage.clone()) {
                // Some say by themselves what can be done.
                let hint = match damage.contains("`fleet ") {
                    true => "",
                    false => "; repair it with `fleet doctor --fix`",
                };
                self.ui.warn(format_args!("{damage}{hint}"));
            }
        }
    }

    /// Says that the answer is a stranger's word, if it is.
    pub fn say_untrusted(&self) {
        if self.untrusted {
            self.ui.warn(UNTRUSTED);
        }
    }

    /// Has something done where the store is.
    pub fn run_job<E: StoreJob>(&mut self, job: &E) -> Result<E::Outcome, Refusal> {
        let (caller, folder) = (self.caller()?, self.home()?.state.clone());
        let done = self.fleet()?.run_job(job, &folder, &caller);
        done.map_err(flightline::Error::into_refusal)
    }

    /// Does what follows a write, after the answer was given, and says why something of it was not done.
    pub fn follow_write(&mut self) -> Result<BTreeSet<String>, Refusal> {
        let heartbeat = self.purpose == "heartbeat";
        let followed = self.run_job(&AfterWrite { heartbeat })?;
        for (id, warning) in followed.told {
            self.ui.warn(format_args!("{id}: {warning}"));
        }
        Ok(followed.failed)
    }

    pub fn settle_backups(&mut self) -> Result<(), Refusal> {
        for (id, warning) in self.run_job(&SettleBackups {})? {
            self.ui.warn(format_args!("{id}: {warning}"));
        }
        Ok(())
    }

    /// The mirrors that are kept beside the work; none when there are none.
    pub fn mirrors(&self) -> Result<Option<Mirrors>, Refusal> {
        let (home, config) = (self.home()?, self.config()?);
        let dialects = config.policy.mirrors.dialects();
        Ok((!dialects.is_empty()).then(|| Mirrors {
            root: home.root.clone(),
            inside: config
                .mirror_root
                .map_or_else(PathBuf::new, |inside| PathBuf::from(inside.as_str())),
            state: home.state.clone(),
            dialects,
        }))
    }

    /// The files and folders that mirrors write, relative to the repository.
    fn mirrored(&self) -> Result<Vec<PathBuf>, Refusal> {
        let Some(mirrors) = self.mirrors()? else {
            return Ok(Vec::new());
        };
        let places = mirrors.places().into_iter();
        Ok(places.map(|place| mirrors.inside.join(place)).collect())
    }

    /// Takes in what others wrote into the mirrors, before anything is decided.
    fn take_in_mirrors(&mut self) -> Result<(), Refusal> {
        self.with_mirrors(flightline::mirror::take_in)
    }

    pub fn write_mirrors(&mut self) -> Result<(), Refusal> {
        self.with_mirrors(flightline::mirror::write_out)
    }

    fn with_mirrors(
        &mut self,
        pass: fn(&mut Fleet, &Mirrors, &Caller) -> flightline::Result<Vec<MirrorNotice>>,
    ) -> Result<(), Refusal> {
        let Some(mirrors) = self.mirrors()? else {
            return Ok(());
        };
        let caller = self.caller()?;
        let said = pass(self.fleet()?, &mirrors, &caller);
        for line in said.map_err(flightline::Error::into_refusal)? {
            match line {
                MirrorNotice::Done(line) => self.ui.talk(line),
                MirrorNotice::Trouble(line) => self.ui.warn(line),
            }
            self.ui.written = true;
        }
        Ok(())
    }

    pub fn clear_files(&mut self) -> Result<(), Refusal> {
        self.run_job(&ClearFiles {})
    }

    /// Observations of agents' processes on this machine.
    pub fn sightings(&mut self) -> Result<Vec<flightline::agent::Sighting>, Refusal> {
        flightline::agent::look_around(self.fleet()?).map_err(flightline::Error::into_refusal)
    }

    /// The present state of the files that reports name.
    pub fn look(&mut self, claims: &ListClaims) -> Result<Option<TreeNow>, Refusal> {
        let caller = self.caller()?;
        Ok(look(self.fleet()?, &caller, claims))
    }

    pub fn now(&mut self) -> Result<Time, Refusal> {
        self.fleet()?.now().map_err(flightline::Error::into_refusal)
    }

    /// The store's time, as it can stand in the name of a file.
    pub fn stamp(&mut self) -> Result<String, Refusal> {
        Ok(self.now()?.to_string().replace([':', '.'], "-"))
    }

    /// Ids of these kinds as people read them, for the answer that is about to be shown. Asks the store only when people will read
    /// them, and only about those in it.
    pub fn short<T: Serialize>(&mut self, kinds: &[Kind], shown: &T) -> Result<Short, Refusal> {
        if self.ui.json || self.ui.quiet {
            return Ok(Short::default());
        }
        self.shorten(Short::ids_in(&self.ui.text_of(shown)?, kinds))
    }

    /// Short forms of these ids and no others: what [`App::short`] would look for in everything shown.
    pub fn short_of(
        &mut self,
        ids: impl IntoIterator<Item = impl ToString>,
    ) -> Result<Short, Refusal> {
        if self.ui.json || self.ui.quiet {
            return Ok(Short::default());
        }
        self.shorten(ids.into_iter().map(|id| id.to_string()).collect())
    }

    fn shorten(&mut self, ids: BTreeSet<String>) -> Result<Short, Refusal> {
        if ids.is_empty() {
            return Ok(Short::default());
        }
        match self.run(&ShortenIds { ids }) {
            Ok(found) => Ok(Short(found.short)),
            // An older server does not know this operation: the shown ids are right, if longer than they need be.
            Err(refusal) if refusal.code == Code::NotFound && self.server.is_some() => {
                Ok(Short::default())
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// The folder to begin at for a typed path of a file, and the way from there.
    pub fn towards(&self, path: &Path) -> std::io::Result<(Dir, PathBuf)> {
        let root = self.home.as_ref().map(|home| home.root.as_path());
        Dir::towards(root, path)
    }

    pub fn path(&self, typed: &str) -> Result<RepoPath, Refusal> {
        // As it was typed: put in order, the password of a URL would not be recognised any more.
        if contains_secret(typed) {
            return Err(Refusal::invalid("the path looks like it holds a secret"));
        }
        repo_path(&self.home()?.root, &self.here, typed)
    }

    /// A typed path that is to be locked. A folder whose name is like a file's is meant with everything in it.
    pub fn lockable(&self, typed: &str) -> Result<RepoPath, Refusal> {
        let path = self.path(typed)?;
        let folder = || {
            self.home()
                .is_ok_and(|home| home.root.join(path.as_str()).is_dir())
        };
        if path.names_a_file() && !path.is_pattern() && folder() {
            return RepoPath::parse(&format!("{path}/**"));
        }
        Ok(path)
    }

    /// Several typed paths that are to be locked.
    pub fn all_lockable(&self, typed: &[String]) -> Result<Vec<RepoPath>, Refusal> {
        typed.iter().map(|path| self.lockable(path)).collect()
    }

    pub fn paths(&self, typed: &[String]) -> Result<Vec<RepoPath>, Refusal> {
        typed.iter().map(|path| self.path(path)).collect()
    }
}

/// Why a store cannot be used, and what would bring its work back.
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

/// What to do about a state folder that names no project, or has no store: the remains of its work come first.
pub fn without_project(state: &Path) -> String {
    let prospect = prospect(state, &Location::Folder(state.to_path_buf()));
    match prospect.files {
        0 => "create it with `fleet init`".to_owned(),
        _ => prospect.hint().to_owned(),
    }
}

fn cannot_look(state: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot look at {}: {error}", state.display()),
    )
}

fn untold(error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot record that this fleet is trusted: {error}"),
    )
    .hint("set HOME, or XDG_STATE_HOME, to a folder of yours, then run `fleet trust`")
}

/// The folder that servers are remembered by.
fn root_of(home: Option<&Home>, here: &Path) -> PathBuf {
    let above = home.and_then(|home| home.state.parent());
    let root = above
        .map(Path::to_path_buf)
        .or_else(|| repository_root(here));
    root.unwrap_or_else(|| here.to_path_buf())
}

/// The server that commands talk to: as typed, else from the environment, else from `fleet login` in this repository. A
/// store that was named goes before a remembered server. Never from the project's file.
fn server(globals: &Globals, env: &Environment, root: &Path) -> Result<Option<Address>, Refusal> {
    match (&globals.server, &globals.location) {
        (Some(typed), _) => return Address::parse(typed).map(Some),
        (None, Some(_)) => return Ok(None),
        (None, None) => {}
    }
    match (&env.server, &env.location) {
        (Some(_), Some(_)) => Err(Refusal::invalid(
            "FLEET_SERVER and FLEET_LOCATION are both set, and a fleet is in one place",
        )
        .hint("run `unset FLEET_SERVER` or `unset FLEET_LOCATION`")),
        (Some(named), None) => Address::parse(named).map(Some),
        (None, Some(_)) => Ok(None),
        (None, None) => {
            let known = Known::read(env.user_config.as_deref())?;
            let remembered = known.as_ref().and_then(|known| known.server_of(root));
            remembered.map(Address::parse).transpose()
        }
    }
}

fn number(text: &str) -> Result<u64, Refusal> {
    text.parse()
        .map_err(|_| Refusal::invalid(format!("`{text}` is not a number")))
}
