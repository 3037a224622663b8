//! Checks that coding agents reach the fleet: looks at the hooks in their settings, and tries one of each file for real.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flightline::doctor::{Connection, ConnectionFinding};
use flightline_clients::setup::{
    self, OwnedFile, RegisteredHook, SetupFile, SetupScope, Untrusted, codex_trust, codex_untrusted,
};
use flightline_clients::{Client, wire};

use super::fire::{Fired, fire};
use crate::app::App;
use crate::command::setup::plugged::{ClientFiles, Plugged};

/// The time that a hook may take. A hook ends by itself long before.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks every connection: of the user's own settings, of the project's, and by plugins.
pub fn examine(app: &App) -> Vec<Connection> {
    let looking = Looking {
        app,
        files: ClientFiles::new(app),
    };
    let mut found = Vec::new();
    for client in Client::ALL {
        let settings = [SetupScope::User, SetupScope::Project].map(ConnectedBy::Settings);
        let plugins = looking.files.plugged(client).into_iter();
        let plugins = plugins.map(|plugin| ConnectedBy::Plugin(Box::new(plugin)));
        let ways = settings.into_iter().chain(plugins);
        let of_client = ways.filter_map(|way| {
            let connection = looking.connection(client, &way)?;
            Some((way, connection))
        });
        let mut of_client: Vec<_> = of_client.collect();
        say_twice(client, &mut of_client);
        found.extend(of_client.into_iter().map(|(_, connection)| connection));
    }
    found
}

/// The way in which a client is connected.
enum ConnectedBy {
    Settings(SetupScope),
    Plugin(Box<Plugged>),
}

impl ConnectedBy {
    const fn word(&self) -> &'static str {
        match self {
            Self::Settings(SetupScope::User) => "user",
            Self::Settings(SetupScope::Project) => "project",
            Self::Plugin(_) => "plugin",
        }
    }

    /// The scope of the settings that say whether the client runs these hooks.
    const fn scope(&self) -> SetupScope {
        match self {
            Self::Settings(scope) => *scope,
            Self::Plugin(_) => SetupScope::User,
        }
    }

    /// The command that writes the hooks anew.
    fn again(&self, client: Client) -> String {
        match self {
            Self::Settings(SetupScope::User) => format!("`fleet setup {client}`"),
            Self::Settings(SetupScope::Project) => format!("`fleet setup {client} --project`"),
            Self::Plugin(_) => {
                format!("`fleet setup {client} --plugin DIR`, then install the plugin again")
            }
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Settings(SetupScope::User) => "for you".to_owned(),
            Self::Settings(SetupScope::Project) => "for the project".to_owned(),
            Self::Plugin(plugged) => format!("by the plugin {}", plugged.plugin.id),
        }
    }

    fn removal(&self, client: Client) -> String {
        match self {
            Self::Settings(SetupScope::User) => format!("`fleet setup {client} --remove`"),
            Self::Settings(SetupScope::Project) => {
                format!("`fleet setup {client} --project --remove`")
            }
            Self::Plugin(plugged) => format!("`{}`", plugged.plugin.removal(client)),
        }
    }
}

struct Looking<'a> {
    app: &'a App,
    files: ClientFiles<'a>,
}

struct Settings {
    place: SetupFile,
    path: PathBuf,
    text: String,
    hooks: Vec<RegisteredHook>,
}

impl Looking<'_> {
    fn connection(&self, client: Client, way: &ConnectedBy) -> Option<Connection> {
        let mut findings = Vec::new();
        let settings = match way {
            ConnectedBy::Settings(scope) => self.settings(client, *scope, &mut findings),
            ConnectedBy::Plugin(plugged) => of_plugin(client, plugged, &mut findings),
        };
        let path = match (settings.first(), way) {
            (Some(first), _) => first.path.clone(),
            (None, _) if findings.is_empty() => return None,
            (None, ConnectedBy::Settings(scope)) => {
                let place = setup::places(client, *scope).into_iter().next()?;
                self.files.path(&place)?
            }
            (None, ConnectedBy::Plugin(plugged)) => plugged.path.clone(),
        };
        findings.extend(lacks(client, way, &settings));
        findings.extend(self.untrusted(client, way, &settings));
        let (scope, root) = (way.scope(), self.files.root());
        let obstacles =
            setup::obstacles(client, scope, root, &|place| self.files.text_at_best(place));
        findings.extend(obstacles.into_iter().map(|it| ConnectionFinding {
            what: it.what,
            remedy: it.remedy,
            blocks: it.certain,
        }));
        let mut answered_ms = None;
        if !settings.is_empty() {
            match self.try_hook(client, way, &settings) {
                Ok(millis) => answered_ms = Some(millis),
                Err(finding) => findings.insert(0, finding),
            }
        }
        Some(Connection {
            client: client.as_str().to_owned(),
            scope: way.word().to_owned(),
            path,
            ok: !findings.iter().any(|finding| finding.blocks),
            answered_ms,
            findings,
        })
    }

    /// Reads the settings files of a client that have hooks of ours, and notes why others cannot be read.
    fn settings(
        &self,
        client: Client,
        scope: SetupScope,
        findings: &mut Vec<ConnectionFinding>,
    ) -> Vec<Settings> {
        let mut settings = Vec::new();
        for place in setup::places(client, scope) {
            match self.files.text(&place) {
                Ok(None) => {}
                Ok(Some((path, text))) => match setup::registered(&place, &text) {
                    Ok(hooks) if hooks.is_empty() => {}
                    Ok(hooks) => settings.push(Settings {
                        place,
                        path,
                        text,
                        hooks,
                    }),
                    // A file that has nothing of ours in it is not ours to judge.
                    Err(trouble) if text.contains(&format!("hook {client}")) => {
                        let what = format!("{}: {trouble}", path.display());
                        findings.push(blocks(what, "put the file right, then look again"));
                    }
                    Err(_) => {}
                },
                Err(refusal) => findings.push(blocks(
                    refusal.message,
                    "make the file readable, then look again",
                )),
            }
        }
        settings
    }

    /// Finds hooks that Codex skips because the user has not trusted them as they are.
    fn untrusted(
        &self,
        client: Client,
        way: &ConnectedBy,
        settings: &[Settings],
    ) -> Option<ConnectionFinding> {
        let hooks = settings.first().filter(|_| client == Client::Codex)?;
        let key = match way {
            ConnectedBy::Settings(_) => hooks.path.display().to_string(),
            ConnectedBy::Plugin(plugged) => plugged.plugin.hooks_key(),
        };
        let wanted = codex_trust(&key, &hooks.text);
        let config = setup::places(Client::Codex, SetupScope::User)
            .into_iter()
            .find(|place| place.kind == setup::SettingsFormat::Toml)?;
        let config = self.files.text(&config).ok()?.map(|(_, text)| text);
        let remedy = match way {
            ConnectedBy::Settings(SetupScope::User) => {
                "`fleet setup codex --trust-hooks`, or trust them with `/hooks` in Codex"
            }
            ConnectedBy::Settings(SetupScope::Project) => {
                "`fleet setup codex --project --trust-hooks`, or trust them with `/hooks` in Codex"
            }
            ConnectedBy::Plugin(_) => "trust them with `/hooks` in Codex",
        };
        let skipped = match codex_untrusted(&config.unwrap_or_default(), &wanted) {
            Ok(skipped) => skipped,
            Err(trouble) => {
                let what = format!("Codex's `config.toml` cannot be read: {trouble}");
                return Some(blocks(what, "put the file right, then look again"));
            }
        };
        let changed = skipped.iter().filter(|(_, why)| *why == Untrusted::Changed);
        let (changed, all) = (changed.count(), skipped.len());
        let hooks = |count: usize| match count {
            1 => "1 hook".to_owned(),
            many => format!("{many} hooks"),
        };
        let what = match (changed, all) {
            (_, 0) => return None,
            (0, all) => format!("Codex skips {} that you have not trusted", hooks(all)),
            (changed, all) => format!(
                "Codex skips {}: {} changed since you trusted them",
                hooks(all),
                if changed == all {
                    "all".to_owned()
                } else {
                    changed.to_string()
                }
            ),
        };
        Some(blocks(what, remedy))
    }

    /// Tries one hook for real: this program, as the settings file starts it, with an event that has no effect. Settings
    /// may have come with a clone, so that none of their text is run: they have to be exactly as `fleet setup` writes them.
    /// Returns how long it took.
    fn try_hook(
        &self,
        client: Client,
        way: &ConnectedBy,
        settings: &[Settings],
    ) -> Result<u64, ConnectionFinding> {
        let (setup, root) = (way.again(client), self.files.root());
        for (file, hook) in settings
            .iter()
            .flat_map(|it| it.hooks.iter().map(move |hook| (it, hook)))
        {
            self.is_this_program(hook, client, way)?;
            is_as_written(file, hook, &setup)?;
        }
        let probe = wire::probe(client, root, &std::process::id().to_string());
        let mut hooks = settings.iter().flat_map(|it| &it.hooks);
        let Some(hook) = hooks.find(|hook| hook.event == probe.event) else {
            let what = format!("no hook for the event {}", probe.event);
            return Err(blocks(what, &setup));
        };
        let shown = &hook.command;
        let arguments = ["hook", client.as_str(), probe.event];
        let fired = std::env::current_exe()
            .and_then(|own| fire(&own, &arguments, root, &probe.stdin, PATIENCE));
        let (code, stdout, took) = match fired {
            Ok(Fired::Ended { code, stdout, took }) => (code, stdout, took),
            Ok(Fired::Late) => {
                let what = format!("`{shown}` did not end within {} s", PATIENCE.as_secs());
                return Err(blocks(what, "look at the store with `fleet doctor`"));
            }
            Err(error) => {
                return Err(blocks(
                    format!("`{shown}` cannot be started: {error}"),
                    &setup,
                ));
            }
        };
        if code != Some(0) {
            let how = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
            return Err(blocks(format!("`{shown}` ended with {how}"), &setup));
        }
        let context = wire::context_in(client, probe.event, &stdout).unwrap_or_default();
        let answer = context
            .strip_prefix(&probe.session)
            .and_then(|rest| rest.strip_prefix(": "));
        match answer {
            Some("heard") => Ok(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            Some(why) => Err(blocks(
                format!("the hook reached the fleet, and was refused: {why}"),
                self.way_out(),
            )),
            None if self.app.home.is_none() => Err(blocks(
                "there is no fleet in this folder: hooks do nothing here".to_owned(),
                "`fleet init`",
            )),
            None => Err(blocks(
                format!("`{shown}` did not answer as {} expects", client.title()),
                &setup,
            )),
        }
    }

    fn way_out(&self) -> &'static str {
        let config = self.app.config();
        let trusted = config.and_then(|config| self.app.is_trusted(&config));
        match trusted {
            Ok(false) => "`fleet trust`, if you know where this fleet comes from",
            Ok(true) | Err(_) => "`fleet doctor` looks at the store",
        }
    }

    /// Refuses a hook that starts another program than this one: it may be of another version, and is not tried.
    fn is_this_program(
        &self,
        hook: &RegisteredHook,
        client: Client,
        way: &ConnectedBy,
    ) -> Result<(), ConnectionFinding> {
        let setup = way.again(client);
        let program = Path::new(&hook.program);
        let found = match program.components().count() {
            1 => {
                let path = self.app.env.surroundings.path.clone().unwrap_or_default();
                std::env::split_paths(&path)
                    .map(|folder| folder.join(program))
                    .find(|file| file.is_file())
            }
            _ => Some(program.to_path_buf()).filter(|file| file.is_file()),
        };
        let Some(found) = found else {
            let (what, remedy) = match program.components().count() {
                1 => (
                    format!("there is no `{}` on the PATH", hook.program),
                    "put the folder of `fleet` on the PATH of the client".to_owned(),
                ),
                _ => (format!("{} does not exist", hook.program), setup),
            };
            return Err(blocks(what, &remedy));
        };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let own = std::env::current_exe().map(|own| real(&own));
        match own {
            Ok(own) if own != real(&found) => Err(blocks(
                format!(
                    "the hooks run {}, and this is {}",
                    found.display(),
                    own.display()
                ),
                &match way {
                    ConnectedBy::Settings(SetupScope::User) => setup,
                    ConnectedBy::Settings(SetupScope::Project) | ConnectedBy::Plugin(_) => {
                        "put the folder of this one first on the PATH".to_owned()
                    }
                },
            )),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Refuses a hook that `fleet setup` did not write: what its text does is not known, and nothing of it is run.
fn is_as_written(
    file: &Settings,
    hook: &RegisteredHook,
    setup: &str,
) -> Result<(), ConnectionFinding> {
    let is_script = matches!(
        file.place.kind,
        setup::SettingsFormat::File(OwnedFile::Script(_))
    );
    // Cline runs the file itself.
    let mode = file
        .path
        .symlink_metadata()
        .map(|seen| seen.permissions().mode());
    if is_script && mode.is_ok_and(|mode| mode & 0o111 == 0) {
        let what = format!("{} is not executable", file.path.display());
        return Err(blocks(what, setup));
    }
    match (hook.is_as_written, file.place.kind) {
        (true, _) => Ok(()),
        (false, setup::SettingsFormat::File(_)) => Err(blocks(
            format!(
                "{} is not as `fleet setup` writes it, and was not tried",
                file.path.display()
            ),
            setup,
        )),
        (false, _) => Err(blocks(
            format!(
                "the hook for the event {} is not as `fleet setup` writes it, and was not tried",
                hook.event
            ),
            setup,
        )),
    }
}

fn of_plugin(
    client: Client,
    plugged: &Plugged,
    findings: &mut Vec<ConnectionFinding>,
) -> Vec<Settings> {
    match &plugged.text {
        Some(text) if !plugged.hooks.is_empty() => vec![Settings {
            place: plugged.place.clone(),
            path: plugged.path.clone(),
            text: text.clone(),
            hooks: plugged.hooks.clone(),
        }],
        Some(_) | None => {
            let id = &plugged.plugin.id;
            findings.push(blocks(
                format!(
                    "the plugin {id} is switched on, and has no hooks of Flightline in {}",
                    plugged.path.display()
                ),
                &format!(
                    "install it again, or take it out with `{}`",
                    plugged.plugin.removal(client)
                ),
            ));
            Vec::new()
        }
    }
}

/// Finds events that have no hook.
fn lacks(client: Client, way: &ConnectedBy, settings: &[Settings]) -> Option<ConnectionFinding> {
    let has = |event: &str| {
        let mut all = settings.iter().flat_map(|it| &it.hooks);
        all.any(|hook| hook.event == event)
    };
    let missing: Vec<&str> = setup::hooks(client)
        .iter()
        .map(|hook| hook.event)
        .filter(|event| !has(event))
        .collect();
    let is_one = missing.len() == 1;
    (!missing.is_empty() && !settings.is_empty()).then(|| {
        let events = if is_one { "event" } else { "events" };
        blocks(
            format!("no hook for the {events} {}", missing.join(", ")),
            &way.again(client),
        )
    })
}

/// Notes on clients that are connected twice that they tell every event twice.
fn say_twice(client: Client, found: &mut [(ConnectedBy, Connection)]) {
    let times = match found.len() {
        0 | 1 => return,
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    };
    let told: Vec<String> = found.iter().map(|(way, _)| way.told()).collect();
    let removals: Vec<String> = found.iter().map(|(way, _)| way.removal(client)).collect();
    if let Some((_, last)) = found.last_mut() {
        last.findings.push(ConnectionFinding {
            what: format!(
                "it is set up {}: every event is reported {times}",
                told.join(" and ")
            ),
            remedy: removals.join(", or "),
            blocks: false,
        });
    }
}

fn blocks(what: String, remedy: &str) -> ConnectionFinding {
    ConnectionFinding {
        what,
        remedy: remedy.to_owned(),
        blocks: true,
    }
}
