//! What can be typed after `fleet sorties`.

use clap::{Args, Subcommand};
use flightline::core::sortie::{Declared, FileChange, SubtaskStatus};
use flightline::core::{Refusal, Title};
use flightline::sortie::edit::{EditSortie, MoveSortie, NewPlace};
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
    /// List the sorties that can be claimed now, the next one first
    Ready,
    /// Show which sorties wait for which
    Tree,
    /// Change what is to be done: title, priority, dependencies, files, criteria
    Edit(Box<EditArgs>),
    /// Leave a sortie out: the mission goes on without it
    Cancel {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Change the place of a sortie in its mission
    Move(MoveArgs),
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
        /// Wait until one is ready, at most so long, such as `15m`
        #[arg(long, value_name = "AT MOST", value_parser = typed::span, requires = "next")]
        wait: Option<u64>,
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
        #[command(flatten)]
        keep: KeepArg,
    },
    /// Say that a sortie is not done, and given up
    Fail {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
        #[command(flatten)]
        keep: KeepArg,
    },
    /// Give a sortie back, for anybody to claim
    Release {
        /// Which sortie
        #[arg(add = complete::sorties())]
        id: String,
        /// Why
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
        #[command(flatten)]
        keep: KeepArg,
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

#[derive(Debug, Default, Args)]
pub struct KeepArg {
    /// Keep what was locked for it; else that is released
    #[arg(long)]
    pub keep: bool,
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
    /// An acceptance criterion, as a name or in free text; give it several times for several
    #[arg(long = "criterion", value_name = "TEXT")]
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
pub struct EditArgs {
    /// Which sortie
    #[arg(add = complete::sorties())]
    id: String,
    /// What is to be done, in one line
    #[arg(long, allow_hyphen_values = true)]
    title: Option<String>,
    /// What is to be done, at length (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    description: Option<String>,
    /// The id other tools know it by, such as T060
    #[arg(long)]
    task_id: Option<String>,
    /// Higher goes first
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,
    /// How long it will take, such as `2h`
    #[arg(long, value_parser = typed::span)]
    estimate: Option<u64>,
    /// A sortie that must be completed first as well; give it several times for several
    #[arg(long, value_name = "ID", add = complete::sorties())]
    after: Vec<String>,
    /// A sortie that need not be completed first any more
    #[arg(long, value_name = "ID", add = complete::sorties())]
    not_after: Vec<String>,
    /// A file it will touch as well; give it several times for several
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// A file it will not touch any more
    #[arg(long = "no-file", value_name = "PATH")]
    no_files: Vec<String>,
    /// A further acceptance criterion, as a name or in free text
    #[arg(long = "criterion", value_name = "TEXT")]
    criteria: Vec<String>,
    /// An acceptance criterion that counts no more
    #[arg(long = "no-criterion", value_name = "TEXT")]
    no_criteria: Vec<String>,
    /// How to take it up again after an interruption
    #[arg(long, allow_hyphen_values = true)]
    resume_instructions: Option<String>,
}

impl EditArgs {
    pub fn request(&self, app: &App) -> Result<EditSortie, Refusal> {
        let request = EditSortie {
            sortie: self.id.clone(),
            title: typed::maybe(self.title.as_ref(), |text| typed::title("title", text))?,
            description: typed::maybe(self.description.as_ref(), |text| {
                typed::note("description", text)
            })?,
            task_id: typed::maybe(self.task_id.as_ref(), |text| typed::name("task id", text))?,
            priority: self.priority,
            estimate_ms: self.estimate,
            add_dependencies: self.after.clone(),
            remove_dependencies: self.not_after.clone(),
            add_files: app.paths(&self.files)?,
            remove_files: app.paths(&self.no_files)?,
            add_criteria: typed::titles("criterion", &self.criteria)?,
            remove_criteria: typed::titles("criterion", &self.no_criteria)?,
            resume_instructions: typed::maybe(self.resume_instructions.as_ref(), |text| {
                typed::note("resume instructions", text)
            })?,
        };
        Ok(request)
    }
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("place").required(true)))]
pub struct MoveArgs {
    /// Which sortie
    #[arg(add = complete::sorties())]
    pub id: String,
    /// Just before this one
    #[arg(long, value_name = "ID", group = "place", add = complete::sorties())]
    before: Option<String>,
    /// Just after this one
    #[arg(long, value_name = "ID", group = "place", add = complete::sorties())]
    after: Option<String>,
    /// Before every other
    #[arg(long, group = "place")]
    first: bool,
    /// After every other
    #[arg(long, group = "place")]
    last: bool,
}

impl MoveArgs {
    pub fn request(&self) -> MoveSortie {
        let to = match (&self.before, &self.after, self.first) {
            (Some(sortie), _, _) => NewPlace::Before {
                sortie: sortie.clone(),
            },
            (None, Some(sortie), _) => NewPlace::After {
                sortie: sortie.clone(),
            },
            (None, None, true) => NewPlace::First,
            (None, None, false) => NewPlace::Last,
        };
        MoveSortie {
            sortie: self.id.clone(),
            to,
        }
    }
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
    /// A subtask and where it stands: `NAME=pending|in_progress|complete|failed[:OUTPUT]`; NAME may be free text
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
                .map(|(text, met)| Ok((typed::labelled("criterion", text)?.0, met)))
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
    let (name, title) = typed::labelled("subtask", name.trim())?;
    Ok(SubtaskReport {
        name,
        title,
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
