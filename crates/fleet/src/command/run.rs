//! `fleet run -- COMMAND`: runs any program as an agent of the fleet. It is registered with its process, gives signs of
//! life, and is started again after a bad end, with its briefing.

use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use flightline::agent::context::EndSession;
use flightline::agent::{Heartbeat, RegisterAgent, ShowAgent};
use flightline::checkpoint::trigger::RecordFailure;
use flightline::context::DeliverBriefing;
use flightline::core::checkpoint::Reason;
use flightline::core::{Code, Name, NoteId, Refusal, Title};
use flightline::note::end::{EndHow, EndNote};
use flightline::recovery::claims::ListClaims;
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::workspace::describe;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{CommandResult, typed};
use crate::app::App;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// How many times to start it again after a bad end
    #[arg(long, value_name = "N", default_value_t = 0)]
    restart: u32,
    /// The program and its arguments, after `--`; `{briefing}` stands for the agent's briefing
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    command: Vec<String>,
}

/// The placeholder of the briefing in a command.
const BRIEFING: &str = "{briefing}";
/// The time between two checks that the program has ended.
const POLL: Duration = Duration::from_millis(100);
/// The time between two signs of life.
const BEAT: Duration = Duration::from_secs(60);

pub fn run(args: &RunArgs, app: &mut App) -> CommandResult {
    let agent = app.caller()?.agent.ok_or_else(|| {
        Refusal::invalid("this needs to know which agent the program is").hint(format!(
            "name it: `fleet run --agent NAME -- {}`",
            args.command.join(" ")
        ))
    })?;
    let name = typed::name("agent name", &agent)?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| {
        Refusal::new(Code::Failed, format!("cannot watch for signals: {error}"))
    })?;
    let mut left = args.restart;
    let mut blocker = None;
    for number in 1_u32.. {
        let session = format!("run-{}-{number}", std::process::id());
        let mut program = Program::start(&name, &title(&session)?, &args.command, app)?;
        if let Some(note) = blocker.take() {
            settle(note, app)?;
        }
        let (status, told) = program.watch(&mut signals, app)?;
        blocker = program.end(status, app)?;
        step_back(app);
        app.settle_backups()?;
        if status.success() || told || left == 0 {
            if !status.success() {
                give_back(&name, app)?;
            }
            return Ok(ExitCode::from(code_of(status)));
        }
        left -= 1;
        app.ui.talk(format_args!(
            "{name} ended with {}: it is started again ({} of {})",
            spoken(status),
            args.restart - left,
            args.restart
        ));
    }
    Ok(ExitCode::SUCCESS)
}

struct Program {
    name: Name,
    words: String,
    child: Child,
    beaten: Instant,
}

impl Program {
    fn start(
        name: &Name,
        session: &Title,
        command: &[String],
        app: &mut App,
    ) -> Result<Self, Refusal> {
        let register = |process| RegisterAgent {
            name: name.clone(),
            role: None,
            kind: None,
            session: Some(session.clone()),
            process,
            feature: None,
        };
        (app.env.epoch, app.env.session) = (None, Some(session.to_string()));
        let agent = app.run(&register(None))?.agent;
        (app.env.agent, app.env.epoch) = (Some(name.to_string()), Some(agent.epoch.to_string()));
        let briefing = match command.iter().any(|word| word.contains(BRIEFING)) {
            true => briefing(app)?,
            false => String::new(),
        };
        let mut words = command.iter().map(|word| word.replace(BRIEFING, &briefing));
        let program = words.next().unwrap_or_default();
        let child = Command::new(&program)
            .args(words)
            .env("FLEET_AGENT", name.as_str())
            .env("FLEET_EPOCH", agent.epoch.to_string())
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                app.run(&EndSession::default())?;
                step_back(app);
                return Err(Refusal::new(
                    Code::NotFound,
                    format!("cannot start `{program}`: {error}"),
                )
                .hint("name a program on your PATH after `--`"));
            }
        };
        app.run(&register(describe(child.id())))?;
        Ok(Self {
            name: name.clone(),
            words: program,
            child,
            beaten: Instant::now(),
        })
    }

    /// Waits for the program's end, and passes signals on. Returns with the status true when a signal to this process
    /// ended it.
    fn watch(
        &mut self,
        signals: &mut Signals,
        app: &mut App,
    ) -> Result<(ExitStatus, bool), Refusal> {
        let mut told = false;
        loop {
            let ended = self.child.try_wait();
            if let Some(status) = ended.map_err(|error| cannot_wait(&error))? {
                return Ok((status, told));
            }
            for signal in signals.pending() {
                told = true;
                // The terminal has told it already.
                if signal != SIGINT || !std::io::stdin().is_terminal() {
                    self.send(signal);
                }
            }
            if self.beaten.elapsed() >= BEAT {
                self.beaten = Instant::now();
                // A heartbeat that does not arrive is made up for by the next.
                let _ = app.run_now(&Heartbeat::default());
            }
            thread::sleep(POLL);
        }
    }

    fn send(&self, signal: i32) {
        let signal = match signal {
            SIGINT => Signal::INT,
            SIGHUP => Signal::HUP,
            _ => Signal::TERM,
        };
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends the agent's session. After a bad end, takes a checkpoint and records a blocker, which is returned.
    fn end(&self, status: ExitStatus, app: &mut App) -> Result<Option<NoteId>, Refusal> {
        // No batch: the session ends also where the failure is refused, and on a full disk into the reserve.
        let blocker = match status.success() {
            true => Ok(None),
            false => self.record(status, app),
        };
        match app.run(&EndSession::default()) {
            // Another session has taken the name: it is over already.
            Err(refusal) if refusal.code == Code::Fenced => blocker,
            ended => ended.and(blocker),
        }
    }

    /// Takes a checkpoint after a bad end and records a blocker; none where there is no mission to save.
    fn record(&self, status: ExitStatus, app: &mut App) -> Result<Option<NoteId>, Refusal> {
        let (name, words, end) = (&self.name, &self.words, spoken(status));
        let details = format!("{name} (`{words}`) ended with {end}");
        let failed = app.run(&RecordFailure {
            mission: None,
            reason: Reason::Blocker,
            details: typed::note("details", &details)?,
            failure: None,
        });
        match failed {
            Err(refusal) if refusal.code == Code::NotFound => Ok(None),
            failed => failed.map(|recorded| recorded.note_id),
        }
    }
}

/// Closes the blocker of a program that runs again. Its briefing has said why it was started again.
fn settle(blocker: NoteId, app: &mut App) -> Result<(), Refusal> {
    let end = EndNote {
        note: blocker.to_string(),
        how: EndHow::Closed,
        reason: Some(typed::note("reason", "its program was started again")?),
    };
    app.run(&end).map(drop)
}

/// Reads the briefing as text for the program; empty where there is no mission.
fn briefing(app: &mut App) -> Result<String, Refusal> {
    let tree = app.look(&ListClaims::default())?;
    let deliver = DeliverBriefing {
        mission: None,
        max_tokens: None,
        minimal: false,
        tree,
    };
    match app.run(&deliver) {
        Ok(briefed) => Ok(briefed.text),
        Err(refusal) if refusal.code == Code::NotFound => Ok(String::new()),
        Err(refusal) => Err(refusal),
    }
}

/// Stops acting as the agent, whose session is over: later acts are a person's, and no sign of its life.
fn step_back(app: &mut App) {
    (app.env.agent, app.env.epoch, app.env.session) = (None, None, None);
    app.globals.agent = None;
}

/// Gives back the work of an agent that is not started again. No batch: a sortie that is refused, because another agent was
/// faster, keeps no other from being given back, and a full disk none.
fn give_back(name: &Name, app: &mut App) -> Result<(), Refusal> {
    let sightings = app.sightings()?;
    let view = app.run(&ShowAgent {
        agent: Some(name.to_string()),
        sightings,
    })?;
    let reason = Some(typed::note("reason", "its program ended badly")?);
    let mut done = Ok(());
    for sortie in view.sorties {
        let release = ChangeSortie {
            sortie,
            action: SortieAction::Release {
                reason: reason.clone(),
            },
            keep_locks: false,
            checkpoint: false,
        };
        done = done.and(app.run(&release).map(drop));
    }
    done
}

fn title(text: &str) -> Result<Title, Refusal> {
    typed::title("session", text)
}

fn cannot_wait(error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Failed,
        format!("cannot wait for the program: {error}"),
    )
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

fn spoken(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}
