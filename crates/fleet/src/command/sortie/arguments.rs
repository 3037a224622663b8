//! What can be typed after `fleet sorties`.

use clap::{Args, Subcommand};
use flightline::core::sortie::{Declared, FileChange, SubtaskStatus};
use flightline::core::{Refusal, Title};
use flightline::sortie::report::{FileReport, SubtaskReport, UpdateSortie};

use super::typed;
use crate::app::App;
use crate::complete;

#[derive(Debug, Subcommand)]
pub enum SortieCommand {
    /// Add a sortie to a mission
    Add(AddArgs),
    /// List the sorties of a mission, in its order
    List(ListArgs),
    /// Show a sortie with its subtasks, files, errors and reviews
    Show {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
    },
    /// Take a sortie for the acting agent; exactly one agent wins
    Claim {
        /// Which sortie
        #[arg(required_unless_present = "next", conflicts_with = "next", add = complete::sorties())]
        id: Option<String>,
        /// Take the next one that is ready, minding dependencies and locks
        #[arg(long)]
        next: bool,
        /// Lock its files too; if one cannot be locked, nothing is claimed
        #[arg(long)]
        lock: bool,
    },
    /// Give a free sortie to an agent
    Assign {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// To whom
        #[arg(long, value_name = "NAME", add = complete::agents())]
        to: String,
    },
    /// Take a sortie from its owner and give it to another
    Reassign {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// To whom
        #[arg(long, value_name = "NAME", add = complete::agents())]
        to: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Begin work on a sortie that was assigned
    Start {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
    },
    /// Report progress: notes, subtasks, files, criteria, where you are
    Update(Box<UpdateArgs>),
    /// Report an error met in a sortie, or clear its errors
    Error(ErrorArgs),
    /// Say that a sortie waits for something
    Block {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// For what
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
    },
    /// Say that what a sortie waited for has come
    Unblock {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
    },
    /// Take a sortie up again after an interruption: what is left, and where to go on
    Resume {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// List the subtasks that are left one by one, and say so when there are none
        #[arg(long)]
        subtasks: bool,
    },
    /// Say that a sortie is done
    Complete {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// What it gave, as JSON
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
    },
    /// Say that a sortie is not done, and given up
    Fail {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
    },
    /// Give a sortie back, for anybody to claim
    Release {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Record a review, or ask for one (without a score)
    Review {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Who reviewed it (default: the acting agent)
        #[arg(long, value_name = "NAME")]
        reviewer: Option<String>,
        /// The score
        #[arg(long, allow_negative_numbers = true)]
        score: Option<i64>,
        /// What the reviewer said
        #[arg(long, allow_hyphen_values = true)]
        note: Option<String>,
    },
    /// Say that a completed sortie is good
    Approve {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Send a completed sortie back to its owner
    Reject {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// What is to be done, in one line
    pub title: String,
    /// What is to be done, at length (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    pub description: Option<String>,
    /// The id other tools know it by, such as T060
    #[arg(long)]
    pub task_id: Option<String>,
    /// A sortie that must be completed first; give it several times for several
    #[arg(long, value_name = "ID", add = complete::sorties())]
    pub after: Vec<String>,
    /// A file it will touch; give it several times for several
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<String>,
    /// An acceptance criterion; give it several times for several
    #[arg(long = "criterion", value_name = "NAME")]
    pub criteria: Vec<String>,
    /// Higher goes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// How long it will take, such as `2h`
    #[arg(long, value_parser = typed::span)]
    pub estimate: Option<u64>,
    /// How to take it up again after an interruption
    #[arg(long, allow_hyphen_values = true)]
    pub resume_instructions: Option<String>,
    /// What it is given to start from, as JSON
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only those that stand so, such as `in_progress`
    #[arg(long)]
    pub status: Option<String>,
    /// Only those of this agent
    #[arg(long, value_name = "NAME", add = complete::agents())]
    pub owner: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 1000)]
    pub limit: u64,
}

#[derive(Debug, Args)]
pub struct ErrorArgs {
    /// Which sortie
    #[arg(add = complete::sorties())]
    pub id: String,
    /// What kind of error: `api_error`, `dependency_missing` …
    #[arg(long = "type", value_name = "TYPE", default_value = "error")]
    pub kind: String,
    /// The status code, when it came from an API
    #[arg(long)]
    pub status: Option<u16>,
    /// What happened (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    pub message: Option<String>,
    /// Work cannot go on: the sortie becomes blocked
    #[arg(long)]
    pub blocking: bool,
    /// Say that its errors are dealt with
    #[arg(long, conflicts_with_all = ["message", "blocking", "status"])]
    pub clear: bool,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// Which sortie
    #[arg(add = complete::sorties())]
    id: String,
    /// What happened (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    note: Option<String>,
    /// A subtask and where it stands: `NAME=pending|in_progress|complete|failed[:OUTPUT]`
    #[arg(long = "subtask", value_name = "NAME=STATUS[:OUTPUT]")]
    subtasks: Vec<String>,
    /// Subtasks completed and in all, when you do not list them, such as `19/29`
    #[arg(long, value_name = "DONE/ALL")]
    done: Option<String>,
    /// A file you created
    #[arg(long, value_name = "PATH")]
    created: Vec<String>,
    /// A file you modified
    #[arg(long, value_name = "PATH")]
    modified: Vec<String>,
    /// A file you deleted
    #[arg(long, value_name = "PATH")]
    deleted: Vec<String>,
    /// A criterion that is met
    #[arg(long, value_name = "NAME")]
    met: Vec<String>,
    /// A criterion that is not met
    #[arg(long, value_name = "NAME")]
    unmet: Vec<String>,
    /// What was done last
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    last: Option<String>,
    /// What comes next
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    next: Option<String>,
    /// How many lines of the modified files changed
    #[arg(long, requires = "modified")]
    lines: Option<u64>,
    /// What else is worth knowing about where you are
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    cursor_notes: Option<String>,
    /// Whether it can be taken up again
    #[arg(long)]
    resumable: Option<bool>,
    /// How to take it up again
    #[arg(long, allow_hyphen_values = true)]
    resume_instructions: Option<String>,
    /// Tokens read since the last update
    #[arg(long, default_value_t = 0)]
    tokens_in: u64,
    /// Tokens written since the last update
    #[arg(long, default_value_t = 0)]
    tokens_out: u64,
}

impl UpdateArgs {
    pub fn request(&self, app: &App) -> Result<UpdateSortie, Refusal> {
        let mut files = Vec::new();
        for (paths, change) in [
            (&self.created, FileChange::Created),
            (&self.modified, FileChange::Modified),
            (&self.deleted, FileChange::Deleted),
        ] {
            files.extend(
                app.paths(paths)?
                    .into_iter()
                    .map(|path| FileReport { path, change }),
            );
        }
        let criteria = [(&self.met, true), (&self.unmet, false)];
        let criteria = criteria
            .into_iter()
            .flat_map(|(names, met)| names.iter().map(move |name| (name, met)));
        let modified = app.paths(&self.modified)?.into_iter();
        Ok(UpdateSortie {
            changed_lines: self
                .lines
                .map(|lines| modified.map(|path| (path, lines)).collect())
                .unwrap_or_default(),
            sortie: self.id.clone(),
            note: typed::maybe(self.note.as_ref(), |text| typed::note("note", text))?,
            subtasks: self
                .subtasks
                .iter()
                .map(|text| subtask(text))
                .collect::<Result<_, _>>()?,
            declared: typed::maybe(self.done.as_ref(), declared)?,
            files,
            criteria: criteria
                .map(|(name, met)| Ok((typed::name("criterion", name)?, met)))
                .collect::<Result<_, Refusal>>()?,
            last_processed: typed::maybe(self.last.as_ref(), |text| typed::title("last", text))?,
            next_to_process: typed::maybe(self.next.as_ref(), |text| typed::title("next", text))?,
            cursor_notes: typed::maybe(self.cursor_notes.as_ref(), |text| {
                typed::note("cursor notes", text)
            })?,
            resumable: self.resumable,
            resume_instructions: typed::maybe(self.resume_instructions.as_ref(), |text| {
                typed::note("resume instructions", text)
            })?,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
        })
    }
}

fn subtask(text: &str) -> Result<SubtaskReport, Refusal> {
    let wrong = || {
        Refusal::invalid(format!("`{text}` does not say where a subtask stands")).hint(
            "write `--subtask post-01=complete`, or `--subtask post-01=complete:docs/post-01.md`",
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (status, output) = rest
        .split_once(':')
        .map_or((rest, None), |(status, output)| (status, Some(output)));
    let status = match status.replace('-', "_").as_str() {
        "pending" => SubtaskStatus::Pending,
        "in_progress" => SubtaskStatus::InProgress,
        "complete" | "completed" | "done" => SubtaskStatus::Complete,
        "failed" => SubtaskStatus::Failed,
        _ => return Err(wrong()),
    };
    let output = output
        .map(|output| Title::parse("output", output))
        .transpose()?;
    Ok(SubtaskReport {
        name: typed::name("subtask", name)?,
        title: None,
        status,
        output,
    })
}

fn declared(text: &str) -> Result<Declared, Refusal> {
    let counts = text
        .split_once('/')
        .and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
    match counts {
        Some((completed, total)) if completed <= total => Ok(Declared {
            total,
            completed,
            failed: 0,
        }),
        _ => Err(Refusal::invalid(format!("`{text}` is not a count")).hint("write `--done 19/29`")),
    }
}
