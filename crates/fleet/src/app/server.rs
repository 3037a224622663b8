//! The server that commands talk to, when the store is not here, and what this machine keeps for it.

use super::{App, number};
use crate::cli::Globals;
use crate::config::{Config, Environment, Secret};
use crate::remote::{
    Address, ClientConfig, Known, QueueingClient, ServerClient, Spool, TokenOwner,
};
use crate::sessions::Sessions;
use flightline::core::{Code, Refusal};
use flightline::not_here;
use flightline::remote::API;
use flightline::workspace::{Home, repository_root};
use std::path::{Path, PathBuf};
use std::time::Duration;

impl App {
    /// The server that commands talk to; none when the store is here.
    pub fn server(&self) -> Option<&Address> {
        self.server.as_ref()
    }

    /// Refuses a command that works only beside the store.
    pub fn must_be_local(&self) -> Result<(), Refusal> {
        match &self.server {
            Some(address) => Err(not_here(address.as_str())),
            None => Ok(()),
        }
    }

    /// Returns true when a server runs the upkeep after writes. A server in test mode leaves it to commands.
    pub fn has_keeper(&self) -> bool {
        self.server.is_some() && self.env.test_now.is_none()
    }

    /// The client of the server, with the queue of requests that wait until it can be reached.
    pub(super) fn queueing_client(&self, config: &Config) -> Result<QueueingClient, Refusal> {
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

    /// The sessions of agents that were begun on this machine. Fails where the settings, which name the fleet, cannot be read:
    /// an agent must not lose its session by a fault of the disk.
    pub fn sessions(&self) -> Result<Sessions, Refusal> {
        let fleet = match &self.server {
            Some(address) => address.as_str().to_owned(),
            None => match self.config() {
                Ok(config) => config.project.unwrap_or_default(),
                Err(refusal) if refusal.code == Code::Unavailable => return Err(refusal),
                // What needs the settings says what is wrong with them.
                Err(_) => String::new(),
            },
        };
        let user_state = self.env.user_state.as_deref();
        Ok(Sessions::of(user_state, &self.root(), &fleet))
    }

    pub fn token_owner(&self) -> Option<TokenOwner> {
        let token = self.token_for(self.server.as_ref()?).ok()?;
        TokenOwner::of(&token)
    }

    /// The folder that servers are remembered by. All work trees of a repository have the same one.
    pub fn root(&self) -> PathBuf {
        root_of(self.home.as_ref(), &self.here)
    }

    /// The protocol version of this end.
    pub fn api(&self) -> Result<u32, Refusal> {
        let api = self.env.test_api.as_deref().map(number).transpose()?;
        Ok(api.map_or(API, |api| u32::try_from(api).unwrap_or(u32::MAX)))
    }
}

/// The folder that servers are remembered by.
pub(super) fn root_of(home: Option<&Home>, here: &Path) -> PathBuf {
    let above = home.and_then(|home| home.state.parent());
    let root = above
        .map(Path::to_path_buf)
        .or_else(|| repository_root(here));
    root.unwrap_or_else(|| here.to_path_buf())
}

/// The server that commands talk to: as typed, else from the environment, else from `fleet login` in this repository. A
/// store that was named goes before a remembered server. Never from the project's file.
pub(super) fn server(
    globals: &Globals,
    env: &Environment,
    root: &Path,
) -> Result<Option<Address>, Refusal> {
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
