//! `fleet hook CLIENT EVENT`: answers a coding agent's hook. The client tells of an event, with JSON on stdin, and gets
//! the answer on stdout in that client's own shape. A hook must never hurt the agent that it serves: it ends in time, and
//! with exit code 0, whatever happens.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use flightline::core::agent::Agent;
use flightline::core::text::NoteText;
use flightline::core::{Code, Name, Refusal, RepoPath, Title};
use flightline::hook::{Hooked, PlannedStatus, PlannedTask, SessionEvent, SubagentRef, TellHook};
use flightline::recovery::claims::ListClaims;
use flightline::workspace::client_process;
use flightline_clients::wire::CompactionSign;
use flightline_clients::{
    Client, ClientTaskStatus, ContextFill, HookEvent, HookEventKind, HookReply, Source, ToolUse,
    shell, usage, wire,
};

use crate::app::App;
use crate::cli::Globals;
use crate::config::Environment;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct HookArgs {
    /// The client: claude, codex, gemini, opencode, copilot, cline or cursor
    pub client: String,
    /// The client's name of the event, such as `SessionStart`
    pub event: String,
}

/// The time after which a hook ends, whatever it is doing: it may be killed at any moment, and loses nothing by it.
const LIMIT: Duration = Duration::from_millis(1_500);
/// The most bytes of stdin that are read.
const LARGEST: usize = 32 * 1024 * 1024;
/// The number of bytes at a transcript's end that are read.
const TAIL: u64 = 256 * 1024;
/// The number of bytes at a transcript's end that are read first.
const NEAR: u64 = 16 * 1024;
/// The number of characters of the agent's last words that are kept.
const SAID: usize = 200;

/// Runs a hook with a hard limit: a thread beside it watches the time.
pub fn run(args: &HookArgs, globals: &Globals, ui: &Ui, env: Environment) -> ExitCode {
    // One of two threads takes the answer and prints it: the hook at its end, or the watch when the time is over.
    let answer = Arc::new(Mutex::new(None));
    let (done, watched) = mpsc::channel::<()>();
    thread::spawn({
        let (answer, ui) = (Arc::clone(&answer), ui.clone());
        move || {
            if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
                print(&ui, answer.take());
                std::process::exit(0);
            }
        }
    });
    // A panic is said on stderr, and is no failure of the client's.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut hook = Hook::heard(args, globals, ui, env)?;
        let reply = hook.answer();
        let text = wire::render(hook.heard.client, &hook.event, &reply);
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        // The client reads the answer when the process ends: the upkeep uses the rest of the time.
        hook.keep_up();
        Some(())
    }));
    let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    print(ui, answer.take());
    drop(done);
    ExitCode::SUCCESS
}

fn print(ui: &Ui, answer: Option<String>) {
    if let Some(text) = answer.filter(|text| !text.is_empty()) {
        let _ = ui.print(&text);
    }
}

/// Reads all of stdin, up to the end of a whole document: some clients do not close it.
pub(super) fn read_stdin() -> Option<String> {
    let mut stdin = std::io::stdin().lock();
    let (mut all, mut part) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = stdin.read(&mut part) {
        all.extend_from_slice(&part[..count]);
        if all.len() > LARGEST {
            return None;
        }
        if is_document(&all) {
            break;
        }
    }
    String::from_utf8(all).ok()
}

/// Returns true when bytes are a whole document. Bytes that do not end like one are not parsed to find out.
fn is_document(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().last() == Some(&b'}')
        && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

struct Hook {
    heard: HookEvent,
    event: String,
    app: App,
    wrote: bool,
}

impl Hook {
    /// Reads the hook from stdin; none when it is no known hook.
    fn heard(args: &HookArgs, globals: &Globals, ui: &Ui, env: Environment) -> Option<Self> {
        let client = args.client.parse::<Client>().ok()?;
        let heard = wire::read(client, &args.event, &read_stdin()?)?;
        Self::open(heard, args.event.clone(), globals.clone(), ui.clone(), env)
    }

    /// Opens the fleet; none where there is no fleet: then nothing is said or done.
    fn open(
        heard: HookEvent,
        event: String,
        mut globals: Globals,
        ui: Ui,
        mut env: Environment,
    ) -> Option<Self> {
        // The session says who acts, and nothing else does.
        (globals.agent, globals.idempotency_key) = (None, None);
        (env.agent, env.epoch, env.session) = (None, None, None);
        globals.dir = globals.dir.or_else(|| heard.cwd.clone());
        let mut app = App::new(globals, ui, env).ok()?;
        app.purpose = "hook".to_owned();
        app.clear_acting_agent();
        app.home.as_ref()?;
        Some(Self {
            heard,
            event,
            app,
            wrote: false,
        })
    }

    fn answer(&mut self) -> HookReply {
        let Some(event) = self.session_event() else {
            return HookReply::default();
        };
        let mut contexts = Vec::new();
        if self.was_compacted()
            && let Ok(done) = self.tell(SessionEvent::Compacted)
        {
            contexts.extend(done.context);
        }
        let answered = self.tell(event);
        if self.is_compacted_next() {
            // The briefing that this makes due comes with the next event that can carry one.
            drop(self.tell(SessionEvent::Compacted));
        }
        match answered {
            Ok(done) => {
                contexts.extend(done.context);
                HookReply {
                    context: (!contexts.is_empty()).then(|| contexts.join("\n\n")),
                    deny: done.deny,
                    notice: None,
                    env: done.agent.as_ref().map(env_of).unwrap_or_default(),
                }
            }
            Err(refusal) => self.refused(&refusal),
        }
    }

    /// Returns true when the client announces a compaction and will say nothing more of it.
    fn is_compacted_next(&self) -> bool {
        matches!(self.heard.happening, HookEventKind::BeforeCompaction)
            && wire::compaction_sign(self.heard.client) == CompactionSign::Announcement
    }

    /// Returns true when the client's own record tells of a new compaction: some clients have no event for it. The number
    /// of compactions at the last look is kept on this machine.
    fn was_compacted(&self) -> bool {
        let (client, heard) = (self.heard.client, &self.heard);
        let looks = wire::compaction_sign(client) == CompactionSign::Record
            && heard.subagent.is_none()
            && wire::accepts_context(client, &self.event);
        let Some(path) = looks.then(|| self.record()).flatten() else {
            return false;
        };
        let Some(tail) = tail(&path, TAIL) else {
            return false;
        };
        let now = usage::compactions(client, &tail);
        let sessions = self.app.sessions();
        sessions.is_ok_and(|sessions| sessions.counts_up(&heard.session, now))
    }

    /// The client's own record of the session, where the payload names it or its place is known.
    fn record(&self) -> Option<PathBuf> {
        let heard = &self.heard;
        if let Some(named) = &heard.transcript {
            return Some(named.clone());
        }
        let place = usage::record_place(heard.client, &heard.session)?;
        let env = &self.app.env;
        let moved = env
            .client_folders
            .iter()
            .find(|(name, _)| *name == place.variable);
        let home = env.surroundings.home.as_ref().map(PathBuf::from);
        let folder = moved
            .map(|(_, folder)| folder.clone())
            .or_else(|| Some(home?.join(place.folder)))?;
        Some(folder.join(place.path))
    }

    /// Keeps a failure inside the hook, except that a fleet is not trusted: that is said when a session begins. A probe of
    /// the doctor is told everything.
    fn refused(&self, refusal: &Refusal) -> HookReply {
        if self.heard.happening == HookEventKind::Probe {
            return HookReply {
                context: Some(format!("{}: {}", self.heard.session, refusal.message)),
                ..HookReply::default()
            };
        }
        let begins = matches!(self.heard.happening, HookEventKind::Start { .. });
        let untrusted = refusal.code == Code::Untrusted && begins;
        HookReply {
            notice: untrusted.then(|| {
                "Flightline: this fleet is not trusted on this machine, and nothing of it is used. \
                 `fleet status` shows why; a person trusts it with `fleet trust`."
                    .to_owned()
            }),
            ..HookReply::default()
        }
    }

    fn tell(&mut self, event: SessionEvent) -> Result<Hooked, Refusal> {
        let begins = matches!(event, SessionEvent::Started | SessionEvent::Compacted);
        let sightings = match begins {
            true => self.app.sightings()?,
            false => Vec::new(),
        };
        let tree = match begins {
            true => self.app.look(&ListClaims::default()).ok().flatten(),
            false => None,
        };
        let (client, heard) = (self.heard.client, &self.heard);
        let gauge = heard.gauge.or_else(|| self.gauge());
        let subagent = heard.subagent.as_ref();
        let mut request = TellHook {
            client: Name::parse("client", client.as_str())?,
            session: title("session", &heard.session)?,
            subagent: subagent
                .map(|it| {
                    Ok::<_, Refusal>(SubagentRef {
                        id: title("subagent", &it.id)?,
                        kind: title("kind", &it.kind).ok(),
                    })
                })
                .transpose()?,
            process: client_process(),
            tokens: gauge.map(|gauge| (gauge.used, gauge.total)),
            room: wire::accepts_context(client, &self.event).then(|| wire::context_limit(client)),
            event,
            cleared: matches!(
                heard.happening,
                HookEventKind::Start {
                    source: Source::Clear,
                    ..
                }
            ),
            sightings,
            looks_later: !begins,
            tree,
        };
        let mut done = self.app.run_now(&request)?;
        if done.look_first {
            request.sightings = self.app.sightings()?;
            request.looks_later = false;
            done = self.app.run_now(&request)?;
        }
        if done.begun
            && let (Some(agent), Some(process)) = (&done.agent, &request.process)
        {
            self.app.sessions()?.begun_by_hook(agent, process);
        }
        self.wrote = done.checkpoint_id.is_some() || begins;
        Ok(done)
    }

    /// Does the upkeep after the answer: files of checkpoints, mirrors.
    fn keep_up(&mut self) {
        if self.wrote {
            let _ = self.app.settle_backups();
            let _ = self.app.write_mirrors();
        }
    }

    fn session_event(&self) -> Option<SessionEvent> {
        Some(match &self.heard.happening {
            HookEventKind::Start { source, prompt } => match (source, prompt) {
                (Source::Compact, _) => SessionEvent::Compacted,
                (Source::Startup | Source::Resume | Source::Clear, _) => SessionEvent::Started,
            },
            // Clients that show a compaction by a session start send that start as well.
            HookEventKind::AfterCompaction => match wire::compaction_sign(self.heard.client) {
                CompactionSign::Start => return None,
                CompactionSign::Event
                | CompactionSign::Record
                | CompactionSign::Announcement
                | CompactionSign::None => SessionEvent::Compacted,
            },
            HookEventKind::Prompt { text } => SessionEvent::Prompted {
                text: said(first_line(text)),
            },
            HookEventKind::BeforeTool(tool) => match &tool.act {
                ToolUse::Edit { paths } => SessionEvent::Editing {
                    paths: self.paths(paths),
                },
                ToolUse::Shell { command } => {
                    let found = shell::destructive(command)?;
                    SessionEvent::Destroying {
                        operation: Name::parse("operation", found.operation).ok()?,
                        target: found.target.as_deref().and_then(said),
                    }
                }
                ToolUse::Tasks(_) | ToolUse::OneTask { .. } | ToolUse::Other => return None,
            },
            HookEventKind::AfterTool { tool, failed } => match &tool.act {
                ToolUse::Tasks(tasks) => SessionEvent::Planned {
                    tasks: tasks.iter().filter_map(planned).collect(),
                },
                ToolUse::OneTask { id, title, status } => SessionEvent::TaskMoved {
                    id: said(id)?,
                    title: title.as_deref().and_then(said),
                    status: status.map(how_far),
                },
                act => SessionEvent::Worked {
                    paths: match act {
                        ToolUse::Edit { paths } => self.paths(paths),
                        _ => Vec::new(),
                    },
                    failed: failed.as_deref().and_then(|why| {
                        NoteText::parse("error", &format!("{}: {why}", tool.name)).ok()
                    }),
                },
            },
            HookEventKind::BeforeCompaction => match wire::announces_often(self.heard.client) {
                true => SessionEvent::Announced,
                false => SessionEvent::Compacting,
            },
            HookEventKind::Stop { said: last } => SessionEvent::Stopped {
                said: last.as_deref().map(last_line).and_then(said),
            },
            HookEventKind::SubagentStart => SessionEvent::Started,
            HookEventKind::SubagentStop { said: last } => SessionEvent::Stopped {
                said: last.as_deref().map(last_line).and_then(said),
            },
            HookEventKind::End { .. } => SessionEvent::Ended,
            // The event is a sign of life; the answer names the agent.
            HookEventKind::ShellEnv => SessionEvent::Worked {
                paths: Vec::new(),
                failed: None,
            },
            HookEventKind::Probe => SessionEvent::Probed,
            HookEventKind::Other => return None,
        })
    }

    /// The paths of files in this repository; others are not ours to lock.
    fn paths(&self, typed: &[String]) -> Vec<RepoPath> {
        let paths = typed.iter().filter_map(|path| self.app.path(path).ok());
        paths.filter(|path| !path.is_pattern()).collect()
    }

    /// The fill of the context, from the client's own record.
    fn gauge(&self) -> Option<ContextFill> {
        let path = self.record()?;
        let tells = matches!(
            self.heard.happening,
            HookEventKind::AfterTool { .. }
                | HookEventKind::Prompt { .. }
                | HookEventKind::Stop { .. }
        );
        if !tells || self.heard.subagent.is_some() {
            return None;
        }
        // The last request to the model is rarely far back; whatever is found nearer to the end is what all of it would tell.
        [NEAR, TAIL].into_iter().find_map(|most| {
            let tail = tail(&path, most)?;
            usage::gauge(self.heard.client, &tail, None)
        })
    }
}

/// The variables by which the commands of an agent act as it, and are refused once another session has its seat.
fn env_of(agent: &Agent) -> Vec<(String, String)> {
    vec![
        ("FLEET_AGENT".to_owned(), agent.name.to_string()),
        ("FLEET_EPOCH".to_owned(), agent.epoch.to_string()),
    ]
}

/// The end of a file.
fn tail(path: &Path, most: u64) -> Option<String> {
    let bytes = flightline::workspace::tail_of(path, most)?;
    // Sound text is kept without a copy.
    Some(String::from_utf8(bytes).unwrap_or_else(|cut| {
        let bytes = cut.into_bytes();
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn planned(task: &flightline_clients::ClientTask) -> Option<PlannedTask> {
    Some(PlannedTask {
        title: said(&task.title)?,
        status: how_far(task.status),
    })
}

fn how_far(status: ClientTaskStatus) -> PlannedStatus {
    match status {
        ClientTaskStatus::Pending => PlannedStatus::Pending,
        ClientTaskStatus::InProgress => PlannedStatus::InProgress,
        ClientTaskStatus::Completed => PlannedStatus::Completed,
        ClientTaskStatus::Cancelled => PlannedStatus::Cancelled,
    }
}

fn title(what: &str, text: &str) -> Result<Title, Refusal> {
    let kept: String = text.chars().take(SAID).collect();
    Title::parse(what, &kept)
}

/// The beginning of a text, as a title.
fn said(text: &str) -> Option<Title> {
    title("text", text).ok()
}

fn first_line(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

fn last_line(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
}
