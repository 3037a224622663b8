//! An agent of the demo: a process of its own, with a name, a session and nothing else in its hands
//! but the same operations that every command uses.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use flightline::agent::RegisterAgent;
use flightline::core::agent::Role;
use flightline::core::{Code, Name, Refusal, Time, Title};
use flightline::mail::{AcknowledgeMail, OpenInbox};
use flightline::registry::Registered;
use flightline::store::clock::Clock;
use flightline::workspace;
use serde::{Deserialize, Serialize};

use super::{dispatch, specialist};
use crate::app::App;
use crate::command::Done;

#[derive(Debug, Args)]
pub struct DemoAgentArgs {
    /// What it is called
    name: String,
    /// What it does
    #[arg(long)]
    duty: Duty,
    /// How long it may live
    #[arg(long)]
    seconds: u64,
}

/// What an agent of the demo does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Duty {
    /// Works until it is told to stand down.
    Work,
    /// … and stops in the middle of its first edit, until the demo kills it there.
    WorkAndHang,
    /// … and loses everything it knows in the middle of its first edit.
    WorkAndForget,
    /// Coordinates: sets the others to work, notices deaths, brings work back.
    Watch,
    /// … and ends the mission when everything is done.
    WatchAndFinish,
}

impl Duty {
    /// The word for it on the command line.
    pub fn word(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn role(self) -> Role {
        match self {
            Self::Work | Self::WorkAndHang | Self::WorkAndForget => Role::Specialist,
            Self::Watch | Self::WatchAndFinish => Role::Dispatch,
        }
    }
}

/// What an agent says on its stdout: one per line, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    /// When the agent reported it.
    pub at: Time,
    /// The report itself.
    pub report: Report,
}

/// Something an agent says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// It is registered and waits for work.
    Ready,
    /// It has written half a line.
    MidEdit {
        /// The file that it edits.
        file: String,
    },
    /// It has lost everything it knew.
    Forgot,
    /// It got its briefing.
    Briefed {
        /// The whole text.
        text: String,
    },
    /// It goes on from what the briefing said.
    Recalled {
        /// What it is at, and what comes next.
        next_steps: Vec<String>,
        /// Effects of which it must find out whether they happened.
        in_doubt: Vec<String>,
    },
    /// It found more in a file than was ever reported, and put that right.
    Mended {
        /// The file that was cut short.
        file: String,
        /// What it took away.
        dropped: String,
    },
    /// It met an effect in doubt, and looked whether it had happened.
    Looked {
        /// The name of the effect.
        effect: String,
        /// Whether the ledger has it.
        happened: bool,
    },
    /// An agent is gone.
    Detected {
        /// Who, why we think so, and what it held.
        gone: Vec<String>,
        /// Whom it concerns no further.
        alive: Vec<String>,
    },
    /// The mission was brought back.
    Resumed {
        /// The results of the recovery.
        done: Vec<String>,
    },
}

/// What an agent works with: the fleet, and the time it has.
pub struct Hand<'a> {
    pub app: &'a mut App,
    pub name: String,
    /// The root of the repository.
    pub root: PathBuf,
    deadline: Instant,
}

pub fn run(args: &DemoAgentArgs, app: &mut App) -> Done {
    end_with_the_demo();
    let root = app.home()?.root.clone();
    let mut hand = Hand {
        app,
        name: args.name.clone(),
        root,
        deadline: Instant::now() + Duration::from_secs(args.seconds),
    };
    hand.register(args.duty.role())?;
    hand.say(Report::Ready)?;
    match args.duty {
        Duty::Work => specialist::work(&mut hand, None)?,
        Duty::WorkAndHang => specialist::work(&mut hand, Some(specialist::Mishap::Hang))?,
        Duty::WorkAndForget => specialist::work(&mut hand, Some(specialist::Mishap::Forget))?,
        Duty::Watch => dispatch::watch(&mut hand, dispatch::Until::Killed)?,
        Duty::WatchAndFinish => dispatch::watch(&mut hand, dispatch::Until::Finished)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The demo holds the other end of stdin. However it ends, it lets go of it, and so ends this process.
fn end_with_the_demo() {
    std::thread::spawn(|| {
        let mut byte = [0];
        while let Ok(1..) = std::io::stdin().read(&mut byte) {}
        std::process::exit(1);
    });
}

impl Hand<'_> {
    /// Registers with its own process and a session of its own, and acts as that from here on.
    fn register(&mut self, role: Role) -> Result<(), Refusal> {
        let pid = std::process::id();
        let session = format!("demo-{}-{pid}", self.name);
        let view = self.run(&RegisterAgent {
            name: Name::parse("agent name", &self.name)?,
            role: Some(role),
            kind: None,
            session: Some(Title::parse("session", &session)?),
            process: workspace::describe(pid),
            feature: None,
        })?;
        self.app.globals.agent = Some(self.name.clone());
        self.app.env.epoch = Some(view.agent.epoch.to_string());
        self.app.env.session = Some(session);
        Ok(())
    }

    /// Runs an operation; again, while the store is busy and there is time.
    pub fn run<O: Registered>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        loop {
            match self.app.run(operation) {
                Err(refusal) if refusal.code == Code::Unavailable => {
                    self.pause(Duration::from_millis(50))?;
                }
                result => return result,
            }
        }
    }

    /// Says something to the demo.
    pub fn say(&self, report: Report) -> Result<(), Refusal> {
        let at = Clock::System.now();
        let line = serde_json::to_string(&Said { at, report })
            .map_err(|error| Refusal::new(Code::Failed, format!("cannot write JSON: {error}")))?;
        self.app.ui.print(&line)
    }

    /// Waits a little.
    ///
    /// # Errors
    /// When its time is over.
    pub fn pause(&self, span: Duration) -> Result<(), Refusal> {
        if Instant::now() + span > self.deadline {
            return Err(Refusal::new(
                Code::Failed,
                format!("{} has run out of time", self.name),
            ));
        }
        std::thread::sleep(span);
        Ok(())
    }

    /// Reads its mail, acknowledges exactly what it read, and returns the subjects.
    pub fn mail(&mut self) -> Result<Vec<String>, Refusal> {
        let read = self.run(&OpenInbox {
            all: false,
            limit: 1_000,
        })?;
        if !read.is_empty() {
            self.run(&AcknowledgeMail {
                messages: read
                    .iter()
                    .map(|view| view.message.id.to_string())
                    .collect(),
                all: false,
            })?;
        }
        let subjects = read.into_iter();
        Ok(subjects
            .map(|view| view.message.subject.to_string())
            .collect())
    }

    /// What could not be done to a file, as a refusal.
    pub fn file_trouble(&self, file: &str, error: &std::io::Error) -> Refusal {
        Refusal::new(
            Code::Failed,
            format!("{} cannot use {file}: {error}", self.name),
        )
    }
}
