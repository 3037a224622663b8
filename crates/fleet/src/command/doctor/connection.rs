//! Whether coding agents reach the fleet: the hooks in their settings are looked at, and one of each file is tried for real.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flightline::core::Refusal;
use flightline::doctor::{Connection, Finding};
use flightline_clients::setup::{
    self, Own, Place, Registered, Scope, Untrusted, codex_trust, codex_untrusted,
};
use flightline_clients::{Client, wire};

use super::fire::{Fired, Firing, fire};
use crate::app::App;
use crate::command::setup::read;

/// A hook ends by itself long before.
const PATIENCE: Duration = Duration::from_secs(5);

/// Every connection, of the user's own settings and of the project's.
pub fn examine(app: &App) -> Vec<Connection> {
    let looking = Looking::new(app);
    let mut found = Vec::new();
    for client in Client::ALL {
        for scope in [Scope::User, Scope::Project] {
            found.extend(looking.connection(client, scope));
        }
        looking.say_twice(client, &mut found);
    }
    found
}

/// What a look at the settings needs.
struct Looking<'a> {
    app: &'a App,
    home: Option<PathBuf>,
    root: PathBuf,
}

/// A settings file with hooks of ours.
struct Settings {
    place: Place,
    path: PathBuf,
    text: String,
    hooks: Vec<Registered>,
}

impl<'a> Looking<'a> {
    fn new(app: &'a App) -> Self {
        let home = app.env.surroundings.home.as_ref().map(PathBuf::from);
        Self {
            app,
            home: home.filter(|home| home.is_absolute()),
            root: app.root(),
        }
    }

    fn path(&self, place: &Place) -> Option<PathBuf> {
        let root = match place.scope {
            Scope::User => self.home.as_deref()?,
            Scope::Project => &self.root,
        };
        let variable = |name: &str| {
            let mut known = self.app.env.client_folders.iter();
            known
                .find(|(known, _)| *known == name)
                .map(|(_, folder)| folder.clone())
        };
        let path = place.resolve(root, variable, Path::exists);
        match place.scope {
            Scope::User => Some(path.canonicalize().unwrap_or(path)),
            Scope::Project => Some(path),
        }
    }

    fn text(&self, place: &Place) -> Result<Option<(PathBuf, String)>, Refusal> {
        let Some(path) = self.path(place) else {
            return Ok(None);
        };
        let root = (place.scope == Scope::Project).then_some(self.root.as_path());
        Ok(read(root, &path)?.map(|text| (path, text)))
    }

    /// The connection of a client at one level; none when it has no hooks of ours there.
    fn connection(&self, client: Client, scope: Scope) -> Option<Connection> {
        let mut settings = Vec::new();
        let mut findings = Vec::new();
        for place in setup::places(client, scope) {
            match self.text(&place) {
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
        let path = match settings.first() {
            Some(first) => first.path.clone(),
            None if findings.is_empty() => return None,
            None => {
                let place = setup::places(client, scope).into_iter().next()?;
                self.path(&place)?
            }
        };
        findings.extend(self.lacks(client, scope, &settings));
        findings.extend(self.untrusted(client, &settings));
        let obstacles = setup::obstacles(client, scope, &self.root, &|place| {
            self.text(place).ok().flatten().map(|(_, text)| text)
        });
        findings.extend(obstacles.into_iter().map(|it| Finding {
            what: it.what,
            remedy: it.remedy,
            blocks: it.certain,
        }));
        let mut answered_ms = None;
        if !settings.is_empty() {
            match self.try_hook(client, scope, &settings) {
                Ok(millis) => answered_ms = Some(millis),
                Err(finding) => findings.insert(0, finding),
            }
        }
        Some(Connection {
            client: client.as_str().to_owned(),
            scope: word(scope).to_owned(),
            path,
            ok: !findings.iter().any(|finding| finding.blocks),
            answered_ms,
            findings,
        })
    }

    /// Events that have no hook.
    fn lacks(&self, client: Client, scope: Scope, settings: &[Settings]) -> Option<Finding> {
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
                &again(client, scope),
            )
        })
    }

    /// Hooks that Codex skips because nobody trusted them as they are.
    fn untrusted(&self, client: Client, settings: &[Settings]) -> Option<Finding> {
        let hooks = settings.first().filter(|_| client == Client::Codex)?;
        let wanted = codex_trust(&hooks.path.display().to_string(), &hooks.text);
        let config = setup::places(Client::Codex, Scope::User)
            .into_iter()
            .find(|place| place.kind == setup::Kind::Toml)?;
        let config = self.text(&config).ok()?.map(|(_, text)| text);
        let consent = match hooks.place.scope {
            Scope::User => "fleet setup codex --trust-hooks",
            Scope::Project => "fleet setup codex --project --trust-hooks",
        };
        let remedy = format!("`{consent}`, or trust them with `/hooks` in Codex");
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
        Some(blocks(what, &remedy))
    }

    /// Tries one hook for real: the command of the settings file, with an event of which nothing comes. Says how long it took.
    fn try_hook(
        &self,
        client: Client,
        scope: Scope,
        settings: &[Settings],
    ) -> Result<u64, Finding> {
        let setup = again(client, scope);
        for hook in settings.iter().flat_map(|it| &it.hooks) {
            self.is_this_program(hook, client, scope)?;
        }
        let probe = wire::probe(client, &self.root, &std::process::id().to_string());
        let tried = settings.iter().find_map(|it| {
            let hook = it.hooks.iter().find(|hook| hook.event == probe.event)?;
            // Cline runs the file itself.
            Some(match it.place.kind {
                setup::Kind::File(Own::Script(_)) => Firing::Program(&it.path),
                _ => Firing::Shell(&hook.command),
            })
        });
        let Some(tried) = tried else {
            let what = format!("no hook for the event {}", probe.event);
            return Err(blocks(what, &setup));
        };
        let shown = match &tried {
            Firing::Program(path) => path.display().to_string(),
            Firing::Shell(command) => (*command).to_owned(),
        };
        let (code, stdout, took) = match fire(&tried, &self.root, &probe.stdin, PATIENCE) {
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

    /// Whether a hook starts the program that asks: another one may be of another version, and is not tried.
    fn is_this_program(
        &self,
        hook: &Registered,
        client: Client,
        scope: Scope,
    ) -> Result<(), Finding> {
        let setup = again(client, scope);
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
                &match scope {
                    Scope::User => setup,
                    Scope::Project => "put the folder of this one first on the PATH".to_owned(),
                },
            )),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A client that is set up twice tells every event twice.
    fn say_twice(&self, client: Client, found: &mut [Connection]) {
        let mut of_client = found.iter_mut().filter(|it| it.client == client.as_str());
        if let (Some(_), Some(last)) = (of_client.next(), of_client.next_back()) {
            last.findings.push(Finding {
                what: "it is set up for you and for the project: every event is told twice"
                    .to_owned(),
                remedy: format!("`fleet setup {client} --remove`, or the same with `--project`"),
                blocks: false,
            });
        }
    }
}

/// The command that writes the entries anew.
fn again(client: Client, scope: Scope) -> String {
    match scope {
        Scope::User => format!("`fleet setup {client}`"),
        Scope::Project => format!("`fleet setup {client} --project`"),
    }
}

const fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
    }
}

fn blocks(what: String, remedy: &str) -> Finding {
    Finding {
        what,
        remedy: remedy.to_owned(),
        blocks: true,
    }
}
